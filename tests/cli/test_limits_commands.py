"""Every verb on models with limits: no padding token, no length limit at all, and texts that are longer than it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from holdfast.cli import main
from holdfast.models import load_sentence_transformer
from holdfast.results import read_result

WORDS = "man woman child dog cat runs sleeps eats plays sings park house bed red big".split()
LONG = [" ".join([*WORDS[i:], *WORDS, *WORDS]) for i in range(4)]
SHORT = [f"the {a} {b}" for a in WORDS[:5] for b in WORDS[5:13]]
"""40 texts, and 4 of some forty words."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a corpus of 44 texts, 4 of them long, STS-B in `data`, and a task."""
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("holdfast.attacks.resources._wordnet_places", lambda data: iter(()))
    texts = [*LONG, *SHORT]
    Path("corpus.txt").write_text("\n".join(texts) + "\n")
    Path("few.txt").write_text("\n".join([LONG[0], *SHORT[:7]]) + "\n")
    Path("data/stsb").mkdir(parents=True)
    rows = [f"{a}\t{b}\t{i % 6}\n" for i, (a, b) in enumerate(zip(texts[:22], texts[22:], strict=True))]
    for split in ("dev", "test"):
        Path(f"data/stsb/{split}.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(rows))
    labelled = [f"{text}\t{i % 2}\n" for i, text in enumerate(texts)]
    Path("task.tsv").write_text("sentence\tlabel\n" + "".join(labelled))
    return tmp_path


@pytest.fixture
def short(here: Path, make_masked_lm: Callable[..., Path]) -> Path:
    """`m`, an encoder that takes 16 tokens."""
    lm = make_masked_lm(here / "lm", max_positions=16, layers=3)
    load_sentence_transformer(str(lm), pooling="mean", device="cpu").save(str(here / "m"))
    return here


FITTED = ["--corpus", "corpus.txt", "--output", "out"]
STEPS = ["--batch-size", "8", "--max-steps", "2", "--precision", "fp32"]
FEW = ["--texts", "few.txt", "--output", "out.json"]
FLOW = ["--set", "epochs=1", "--set", "levels=2", "--set", "depth=1", "--set", "batch_size=16"]
ALL: dict[str, list[str]] = {
    "evaluate": ["evaluate", "m", "--tasks", "stsb", "--data", "data", "--output", "out.json"],
    "space": ["space", "m", "--data", "data", "--output", "out.json"],
    "masks": ["masks", "m", "--text", LONG[0], "--text", SHORT[0], "--draws", "1", "--output", "out.json"],
    "train": ["train", "simcse", "--model", "m", *FITTED, *STEPS],
    "harden": ["harden", "m", *FITTED, *STEPS, "--no-audit"],
    "baseline": ["baseline", "whitening", "--model", "m", *FITTED],
    "flow": [
        "baseline",
        "flow",
        "--model",
        "m",
        *FITTED,
        "--set",
        "epochs=1",
        "--set",
        "levels=2",
        "--set",
        "depth=1",
        "--set",
        "batch_size=16",
    ],
    "finetune": ["finetune", "m", "--task", "task.tsv", "--output", "out", *STEPS],
    "frozen": ["finetune", "m", "--frozen", "--task", "task.tsv", "--output", "out"],
    "attack": ["attack", "m", *FEW, "--recipes", "typos", "--resources", "light"],
    "audit": ["audit", "m", *FEW, "--examples", "2"],
}


@pytest.mark.parametrize("verb", ALL)
def test_no_verb_takes_a_model_without_a_padding_token(
    here: Path, make_masked_lm: Callable[..., Path], verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as GPT-2's: a decoder."""
    from transformers import AutoTokenizer, GPT2Config, GPT2Model

    tokenizer = AutoTokenizer.from_pretrained(make_masked_lm(here / "lm"))
    sizes: dict[str, Any] = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64}
    GPT2Model(GPT2Config(vocab_size=len(tokenizer), **sizes)).save_pretrained("m")
    tokenizer.pad_token = None
    tokenizer.save_pretrained("m")
    words = (
        ALL[verb] if verb in ("finetune", "frozen", "attack", "baseline", "flow") else [*ALL[verb], "--pooling=mean"]
    )
    assert main(words) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message == "holdfast: m: its tokeniser has no padding token: set one in its tokenizer_config.json"
    assert not Path("out.json").exists()
    assert not Path("out", "modules.json").exists()


@pytest.mark.parametrize("verb", ["evaluate", "space", "baseline", "flow", "frozen", "attack", "audit"])
def test_a_model_without_a_limit_is_measured_and_fitted(
    here: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(["[UNK]", "the", *WORDS])}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=8)], device="cpu").save("m")
    assert main(ALL[verb]) == 0
    out = Path("out.json") if Path("out.json").exists() else Path("out/results.json")
    if verb == "frozen":
        out = next(path for path in Path("out").glob("*.json") if "kind" in json.loads(path.read_text()))
        assert "m has no length limit: it reads texts whole" in capsys.readouterr().err
    result = read_result(out)
    assert result["protocol"].get("max_seq_length", None) is None
    assert "Infinity" not in out.read_text()
    counted = result.get("truncated") or result["results"][0]["truncated"]
    assert (counted["texts"], counted["tokens"]) == (0, None)
    assert counted["of"] > 0


@pytest.mark.parametrize(
    "verb", ["evaluate", "space", "masks", "train", "harden", "baseline", "flow", "frozen", "attack", "audit"]
)
def test_what_was_said_of_how_a_model_is_read_stands_in_the_result(
    here: Path, make_masked_lm: Callable[..., Path], verb: str
) -> None:
    """A classifier in the place of an encoder: its last layer is left out."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    lm = make_masked_lm(here / "lm", layers=3)
    AutoModelForSequenceClassification.from_pretrained(lm, num_labels=3).save_pretrained("m")
    AutoTokenizer.from_pretrained(lm).save_pretrained("m")
    assert main([*ALL[verb], *(["--pooling", "cls"] if verb == "harden" else [])]) == 0
    path = Path("out.json") if Path("out.json").exists() else Path("out/results.json")
    if verb == "frozen":
        path = next(path for path in Path("out").glob("*.json") if "kind" in json.loads(path.read_text()))
    (line,) = read_result(path)["protocol"]["read_as"]
    assert "classifier.bias, classifier.weight" in line


CUT = {  # of how many texts; masks has a prompt's room besides, finetune its own split
    "evaluate": ("results", 4, 44, 16),
    "space": ("results", 4, 44, 16),
    "masks": (None, 1, 2, 16),
    "train": (None, None, 16, 16),
    "harden": (None, None, 16, 16),
    "baseline": (None, 4, 44, 16),
    "flow": (None, 4, 44, 16),
    "finetune": (None, None, None, 16),
    "frozen": (None, None, None, 16),
    "attack": (None, 1, 8, 16),
    "audit": (None, 1, 8, 16),
}


@pytest.mark.parametrize("verb", ALL)
def test_every_verb_says_how_many_texts_were_cut(short: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ALL[verb]) == 0
    message = capsys.readouterr().err
    found = [path for path in (Path("out.json"), Path("out/harden.json"), Path("out/results.json")) if path.exists()]
    found = found or [path for path in Path("out").glob("*.json") if "kind" in json.loads(path.read_text())]
    result = read_result(found[0])
    place, texts, of, tokens = CUT[verb]
    counted = result["results"][0]["truncated"] if place else result["truncated"]
    assert counted["tokens"] == tokens
    assert texts in (None, counted["texts"])
    assert of in (None, counted["of"])
    cut, are = counted["texts"], "is" if counted["texts"] == 1 else "are"
    assert (f"{cut} of {counted['of']} texts {are} longer than 16 tokens" in message) == (cut > 0), message
    assert cut > 0 or verb in ("train", "harden"), "of sixteen texts there may be no long one"
    if verb in ("train", "harden", "masks", "finetune", "frozen"):
        asked = {"train": 32, "harden": 64, "masks": 32}.get(verb, 128)
        assert f"--max-length {asked}: m takes 16 tokens, texts are cut there" in message
    if verb in ("finetune", "frozen"):
        assert all(row["truncated"]["tokens"] == 16 for row in result["results"])
