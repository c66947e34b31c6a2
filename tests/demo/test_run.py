"""The demo from end to end with a small random model in place of the packaged one, and its measurements by hand."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from holdfast.cli import main
from holdfast.demo import run
from holdfast.demo.corpus import load_pairs
from holdfast.errors import UserError
from holdfast.results import read_result


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random SentenceTransformer that knows the words of the demo's pairs."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("encoder")
    texts = " ".join(f"{pair.sentence1} {pair.sentence2}" for pair in load_pairs()).lower()
    words = sorted({word.strip(".,?!'") for word in texts.split()})
    tokens = dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}, model_max_length=64).save_pretrained(
        folder / "lm"
    )
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(tokens), max_position_embeddings=64, initializer_range=0.5, **sizes)
    BertModel(config).save_pretrained(folder / "lm")
    model = SentenceTransformer(modules=[Transformer(str(folder / "lm")), Pooling(16, "mean")], device="cpu")
    model.save_pretrained(str(folder / "st"))
    return folder / "st"


@pytest.fixture
def small(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A demo of two steps on eighty sentences, in an empty working folder."""
    sentences = [pair.sentence1 for pair in load_pairs()[:80]]
    monkeypatch.setattr(run, "PYPI_MODEL", str(encoder))
    monkeypatch.setattr(run, "STEPS", 2)
    monkeypatch.setattr(run, "BATCH_SIZE", 8)
    monkeypatch.setattr(run, "demo_corpus", lambda: sentences)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_demo_from_end_to_end(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json"]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    result = json.loads(told.out)
    folder = small / "holdfast-demo"
    assert result == read_result(folder / "demo.json")
    rows = {(row["model"], row["task"], row["split"]): row["metrics"] for row in result["results"]}
    assert {key[0] for key in rows} == {"before", *run.METHODS}
    assert len(rows) == 4 * 3
    for method in run.METHODS:
        assert (folder / method / "modules.json").is_file()
        assert result["reload_max_difference"][method] < run.AGREES
        assert rows[method, "demo-noise", "word"] != rows["before", "demo-noise", "word"]

    # The table shows those numbers, and the demo does not run twice into one folder.
    console = Console(width=120, file=io.StringIO())
    table, text = run.summary(result)
    console.print(table)
    assert f"{rows['before', 'demo-pairs', 'all']['spearman']:.1f}" in console.file.getvalue()
    assert "the same vectors" in text
    assert main(["demo"]) == 2
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert "finished" in told.err


def test_a_stopped_demo_goes_on_and_trains_nothing_twice(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_reload_differences", lambda *_: dict.fromkeys(run.METHODS, 0.0))
    run.run_demo()
    (small / "holdfast-demo" / "demo.json").unlink()
    weights = small / "holdfast-demo" / run.METHODS[0] / "model.safetensors"
    before = weights.stat().st_mtime_ns
    run.run_demo()
    assert weights.stat().st_mtime_ns == before


def test_a_folder_with_anything_else_is_left_alone(small: Path) -> None:
    (small / "mine").mkdir()
    (small / "mine" / "python-prose.txt").write_text("my own")
    with pytest.raises(UserError, match="holds other files"):
        run.run_demo(small / "mine")
    assert (small / "mine" / "python-prose.txt").read_text() == "my own"
    with pytest.raises(UserError, match="is a file"):
        run.run_demo(small / "mine" / "python-prose.txt")


def test_noise_metrics_by_hand() -> None:
    clean = np.array([[1, 0], [0, 2], [-3, 0]], dtype=np.float32)
    # The first copy has not moved, the second has turned by 45 degrees, the third lies nearest to the second.
    noisy = np.array([[5, 0], [-1, 1], [-1, 9]], dtype=np.float32)
    metrics = run.noise_metrics(clean, noisy)
    moved = [0, 1 - np.sqrt(0.5), 1 - 1 / np.sqrt(82)]
    assert metrics["movement"] == pytest.approx(100 * np.mean(moved))
    assert metrics["found"] in (pytest.approx(100 / 3), pytest.approx(200 / 3))  # 45 degrees is a tie


def test_spread_by_hand() -> None:
    vectors = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    apart = [1 - float(unit[i] @ unit[j]) for i in range(7) for j in range(7) if i != j]
    assert run.spread(vectors) == pytest.approx(100 * np.mean(apart), rel=1e-5)


def rows_of(model: str, similarity: float, moved: float) -> list[dict[str, object]]:
    subsets = {kind: {"spearman": similarity} for kind in ("ordinary", "hard")}
    rows: list[dict[str, object]] = [
        {"task": "demo-pairs", "split": "all", "metrics": {"spearman": similarity}, "subsets": subsets},
        {"task": "demo-spread", "split": "all", "metrics": {"distance": 90.0}},
    ]
    for kind in ("character", "word"):
        rows.append({"task": "demo-noise", "split": kind, "metrics": {"movement": moved, "found": 99.0}})
    return [{"model": model, **row} for row in rows]


@pytest.mark.parametrize(
    ("similarity", "moved", "quality", "noise"),
    [
        (70.5, 20.9, "is about the same (+0.5)", "moves vectors about as far (+0.9)"),
        (68.0, 18.0, "is lower (-2.0)", "moves vectors less (-2.0)"),
        (72.0, 22.0, "is higher (+2.0)", "moves vectors more (+2.0)"),
    ],
)
def test_the_verdict_says_what_the_numbers_say(similarity: float, moved: float, quality: str, noise: str) -> None:
    rows = [*rows_of("before", 70.0, 20.0), *rows_of("simcse", similarity, moved)]
    assert run.verdict(rows, "simcse") == [
        f"similarity {quality}",
        f"similarity of the hard pairs {quality}",
        f"character noise {noise}",
        f"word noise {noise}",
    ]


def test_every_pair_is_hard_or_ordinary() -> None:
    kinds = {pair.kind for pair in load_pairs()}
    assert kinds > run.HARD_KINDS
