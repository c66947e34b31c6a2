"""Static encoders: a table of vectors, read, measured, attacked and hardened without a transformer."""

from __future__ import annotations

import copy
import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from holdfast.adversary.gradient_encoder import recovered_texts, with_texts
from holdfast.attacks.encoder_targets import DriftTarget
from holdfast.cli import main
from holdfast.edits.random_edits import RandomEdits
from holdfast.encoder import Encoder
from holdfast.encoding import encode_sentences
from holdfast.errors import UserError
from holdfast.files import sha256
from holdfast.hardening import HardenSettings, harden
from holdfast.models import load_sentence_transformer
from holdfast.static_encoder import TrainableStatic, trainable
from holdfast.training.trainer import HoldfastTrainer

WORDS = (
    "the a man woman child dog cat runs sleeps eats plays sings on under in park house bed red big old "
    "without never quickly slowly garden street window teacher doctor letter music river"
).split()
LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
SIZE = 24


def tokenizer() -> Tokenizer:
    """A WordPiece tokeniser of some words and all letters, which would add special tokens if it were asked to."""
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *dict.fromkeys([*WORDS, *LETTERS]), *[f"##{x}" for x in LETTERS]]
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return made


@pytest.fixture
def texts() -> list[str]:
    rng = random.Random(0)
    return [" ".join(rng.choice(WORDS) for _ in range(rng.randint(4, 12))) for _ in range(80)]


@pytest.fixture
def here(tmp_path: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a static encoder and texts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    torch.manual_seed(0)
    made = StaticEmbedding(tokenizer(), embedding_dim=SIZE)
    SentenceTransformer(modules=[made], device="cpu").save("static")
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    (tmp_path / "data" / "stsb").mkdir(parents=True)
    rows = [f"{a}\t{b}\t{number % 6}\n" for number, (a, b) in enumerate(itertools.pairwise(texts))]
    for split in ("test", "dev"):
        (tmp_path / "data" / "stsb" / f"{split}.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(rows))
    return tmp_path


def test_the_vectors_are_those_of_sentence_transformers(here: Path, texts: list[str]) -> None:
    own = SentenceTransformer("static", device="cpu").encode(texts)
    assert np.abs(encode_sentences(load_sentence_transformer("static"), texts) - own).max() < 1e-6


def test_misspellings_are_no_entries_of_its_vocabulary(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["harden", "static", "--corpus", "texts.txt", "--no-audit", "--max-steps", "1", "--batch-size", "8"]
    assert main([*command, "--typo-vocabulary", "100", "--output", "hard"]) == 2
    assert "misspellings in the vocabulary need a fast WordPiece tokeniser" in capsys.readouterr().err


def test_the_form_for_training_has_the_same_vectors_and_table(here: Path, texts: list[str]) -> None:
    model = load_sentence_transformer("static", device="cpu")
    given = [*texts, "", "xyz qq", "[CLS] dog", "Dog"]
    before = model.encode(given)
    table = model[0].embedding.weight
    names = set(model.state_dict())
    form = trainable(model)
    assert np.abs(form.encode(given) - before).max() < 1e-6
    assert np.abs(encode_sentences(form, given) - before).max() < 1e-6
    assert form[0].embedding.weight is table
    assert set(form.state_dict()) == names
    other = copy.deepcopy(form)
    with torch.no_grad():
        other[0].embedding.weight.zero_()
    assert not other.encode(["the dog"]).any()  # the copy reads its own table
    assert form.encode(["the dog"]).any()
    form.max_seq_length = 3
    assert np.abs(form.encode(["the dog sings in the park"]) - form.encode(["the dog sings"])).max() < 1e-6
    form.save("again")
    assert np.abs(SentenceTransformer("again", device="cpu").encode(given) - before).max() < 1e-6
    assert json.loads((here / "again" / "modules.json").read_text()) == json.loads(
        (here / "static" / "modules.json").read_text()
    )


def test_no_entry_of_a_byte_level_vocabulary_is_read_as_padding(texts: list[str]) -> None:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=letters, show_progress=False)
    made.train_from_iterator([f"{text}!! no way!" for text in texts], trainer)
    assert made.id_to_token(0) == "!"
    torch.manual_seed(0)
    model = SentenceTransformer(modules=[StaticEmbedding(made, embedding_dim=SIZE)], device="cpu")
    given = ["the dog sings!! no way!", "hey!", "the man !!"]
    before = model.encode(given)
    form = trainable(model)
    assert np.abs(form.encode(given) - before).max() < 1e-6
    assert recovered_texts(form, Encoder(form).tokenise(given)) == given


def test_the_prompt_is_no_part_of_a_text_that_is_changed(here: Path) -> None:
    model = load_sentence_transformer("static", device="cpu")
    model.prompts, model.default_prompt_name = {"query": "the old "}, "query"
    before = model.encode(["dog sings", "a cat"])
    encoder = Encoder(trainable(model))
    features = encoder.tokenise(["dog sings", "a cat"])
    assert encoder.text_mask(features).tolist() == [[0, 0, 1, 1], [0, 0, 1, 1]]
    assert recovered_texts(model, features) == ["dog sings", "a cat"]
    assert np.abs(model.encode(["dog sings", "a cat"]) - before).max() < 1e-6


def test_a_text_without_tokens_may_be_changed_beside_others(here: Path) -> None:
    model = trainable(load_sentence_transformer("static", device="cpu"))
    features = Encoder(model).tokenise(["", "the man runs", "a dog"])
    found = with_texts(model, features, {1: "the dog runs", 2: "a man"})
    assert found["input_ids"].dtype == torch.long
    assert found["attention_mask"].sum(dim=1).tolist() == [0, 3, 2]


def test_a_perturbation_enters_the_mean_once(here: Path) -> None:
    model = trainable(load_sentence_transformer("static", device="cpu"))
    encoder = Encoder(model)
    features = encoder.tokenise(["the dog sings in the park", "a cat"])
    delta = torch.ones(2, features["input_ids"].shape[1], SIZE)
    with encoder.perturbed(delta=delta):
        moved = encoder.encode(features)
    assert torch.allclose(moved, encoder.encode(features) + 1, atol=1e-6)


def test_a_folder_of_model2vec_is_read(here: Path, texts: list[str]) -> None:
    weights = load_file("static/model.safetensors")["embedding.weight"]
    scales = np.linspace(0.5, 2.0, len(weights), dtype=np.float32)
    folder = here / "model2vec"
    folder.mkdir()
    save_file({"embeddings": weights, "weights": scales}, folder / "model.safetensors")
    tokenizer().save(str(folder / "tokenizer.json"))
    settings = {"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": True, "seq_length": 1000000}
    (folder / "config.json").write_text(json.dumps(settings))
    scaled = StaticEmbedding(tokenizer(), embedding_weights=weights * scales[:, None])
    expected = SentenceTransformer(modules=[scaled, Normalize()], device="cpu").encode(texts)
    assert np.abs(encode_sentences(load_sentence_transformer("model2vec"), texts) - expected).max() < 1e-6
    # As newer versions of model2vec write it.
    kinds = ["StaticEmbedding", "Normalize"]
    modules = [
        {"idx": i, "name": str(i), "path": ["", "1_Normalize"][i], "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    assert np.abs(encode_sentences(load_sentence_transformer("model2vec"), texts) - expected).max() < 1e-6


def test_a_table_that_is_too_small_is_refused(here: Path) -> None:
    weights = load_file("static/model.safetensors")["embedding.weight"]
    save_file({"embedding.weight": weights[:-2]}, "static/model.safetensors")
    with pytest.raises(UserError, match=r"token '##z' is number \d+, and its table has \d+ rows"):
        load_sentence_transformer("static")


def written(path: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(Path(path).read_text())
    return result


def test_evaluate_and_attack_a_static_encoder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "static", "--tasks", "stsb,space", "--data", "data", "--output", "e.json"]) == 0
    assert written("e.json")["protocol"]["max_seq_length"] is None
    command = ["attack", "static", "--texts", "texts.txt", "--examples", "6"]
    assert main([*command, "--recipes", "typos", "--output", "a.json"]) == 0
    assert "succeeded" in {row["outcome"] for row in written("a.json")["examples"]}
    capsys.readouterr()
    assert main([*command, "--recipes", "typos", "--backend", "onnx"]) == 2
    assert "has no transformer for --backend onnx" in capsys.readouterr().err
    target = DriftTarget(load_sentence_transformer("static"), source="static", threshold=0.5)
    assert not target.has_gradients  # so that the geometry recipe is refused
    with pytest.raises(UserError, match="static has no gradients in this form"):
        target.gradients([])


@pytest.mark.slow
def test_audit_a_static_encoder(here: Path) -> None:
    command = ["audit", "static", "--texts", "texts.txt", "--examples", "3", "--texts-per-item", "20"]
    assert main([*command, "--items", "case.upper,space,attacks", "--output", "r.json"]) == 0
    rows = {row["split"]: row for row in written("r.json")["results"]}
    assert rows


@pytest.mark.slow
def test_harden_a_static_encoder_from_end_to_end(
    here: Path, texts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["harden", "static", "--corpus", "texts.txt", "--max-steps", "80", "--batch-size", "16", "--no-audit"]
    command += ["--learning-rate", "0.02", "--no-spelling", "--set", "edits=key,swap,drop"]
    assert main([*command, "--output", "hard"]) == 0
    assert "no misspellings are added to the vocabulary: its vectors are static" in capsys.readouterr().err
    before, after = (SentenceTransformer(name, device="cpu") for name in ("static", "hard"))
    assert type(after[0]) is StaticEmbedding
    edits = RandomEdits(("key", "swap", "drop"), 0.4)
    noisy = [edits.of(text, random.Random(f"new {text}")) for text in texts]
    anchors = before.encode(texts, normalize_embeddings=True)

    def cosine(model: SentenceTransformer, given: list[str]) -> float:
        return float((model.encode(given, normalize_embeddings=True) * anchors).sum(axis=1).mean())

    assert 1 - cosine(after, noisy) < 0.8 * (1 - cosine(before, noisy))
    assert cosine(after, texts) > 0.95
    assert not isinstance(after[0], TrainableStatic)


@pytest.mark.parametrize("plan", [[], ["--plan"]])
def test_what_needs_layers_is_refused(plan: list[str], here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "simcse", "--model", "static", "--corpus", "texts.txt", "--output", "out", "--max-steps", "2"]
    assert main([*command, *plan]) == 2
    assert "has static vectors, without layers or dropout, which simcse needs" in capsys.readouterr().err


def test_the_plan_of_a_training_of_a_table(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "anchored", "--model", "static", "--corpus", "texts.txt", "--output", "out", "--plan"]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["plan"]
    assert found["fits_in_one_pass"]
    assert 0 < found["trained"] < 1e4


@pytest.mark.slow
def test_checkpoints_are_static_encoders_and_a_perturbation_trains_the_table(here: Path) -> None:
    command = ["harden", "static", "--corpus", "texts.txt", "--batch-size", "16", "--no-audit", "--no-spelling"]
    command += ["--learning-rate", "0.02", "--set", "edits=key,swap,drop", "--set", "adversarial=0.1"]
    assert main([*command, "--max-steps", "4", "--save-steps", "2", "--output", "whole"]) == 0
    tables = load_file("whole/model.safetensors"), load_file("static/model.safetensors")
    assert np.abs(tables[0]["embedding.weight"] - tables[1]["embedding.weight"]).max() > 1e-3
    checkpoint = sorted((here / "whole").glob("checkpoint-*"))[0]
    assert type(SentenceTransformer(str(checkpoint), device="cpu")[0]) is StaticEmbedding


@pytest.mark.slow
def test_a_resumed_hardening_ends_in_the_same_bits(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"model": "static", "corpus": "texts.txt", "batch_size": 16, "audited": False, "spelling": False}
    given |= {"learning_rate": 0.02, "max_steps": 6, "save_steps": 2, "options": {"edits": "key,swap,drop"}}

    class Broken(Exception):
        pass

    step = HoldfastTrainer.training_step

    def breaking(self: Any, *words: Any) -> Any:
        if self.state.global_step == 5:
            raise Broken
        return step(self, *words)

    whole = harden(HardenSettings(**given, output=here / "whole"))
    monkeypatch.setattr(HoldfastTrainer, "training_step", breaking)
    with pytest.raises(Broken):
        harden(HardenSettings(**given, output=here / "broken"))
    monkeypatch.setattr(HoldfastTrainer, "training_step", step)
    assert not (here / "broken" / "modules.json").exists(), "a broken run must not look finished"
    resumed = harden(HardenSettings(**given, output=here / "broken"), resume=True)
    for name in ("model.safetensors", "checkpoint-6/model.safetensors", "checkpoint-6/objective.safetensors"):
        assert sha256(here / "broken" / name) == sha256(here / "whole" / name), name
    assert sha256(here / "whole" / "model.safetensors") != sha256(here / "static" / "model.safetensors")
    assert resumed["selected"] == whole["selected"]
    assert resumed["results"] == whole["results"]
