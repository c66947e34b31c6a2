"""The study of a hardening's parts: its cells, their resume, and the objectives of its variants."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
WORDS = "the a man woman child dog cat runs sleeps eats plays sings on under in park house bed red big old".split()
"""The words that the models of `make_masked_lm` know."""


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def texts(count: int, seed: str) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choice(WORDS) for _ in range(rng.randint(6, 10))) for _ in range(count)]


def write(file: Path, lines: Sequence[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.write("\n".join(["sentence", *lines]) + "\n")


@pytest.fixture
def words(tmp_path: Path, make_masked_lm: Callable[..., Path]) -> list[str]:
    """A command of two short trainings of a random model with three layers."""
    write(tmp_path / "data" / "unlabelled" / "wiki_train_00.tsv.gz", texts(120, "sentences"))
    write(tmp_path / "data" / "questions" / "asked.tsv.gz", texts(60, "questions"))
    model = make_masked_lm(tmp_path / "model", layers=3)
    given = {"data": tmp_path / "data", "work": tmp_path / "work", "model": model, "output": tmp_path / "study.md"}
    given |= {"seeds": 1, "steps": 2, "batch-size": 8, "hold-out": 30, "index": 60}
    given["variants"] = "base,layers2,base+spelling"
    return [str(word) for name, value in given.items() for word in (f"--{name}", value)]


def test_a_study_trains_each_variant_once_and_continues(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hardening_cells import Study
    from hardening_study import main, parsed

    trained: list[str] = []
    train = Study._train

    def counted(self: Any, variant: Any, seed: int, model: Any) -> float:
        trained.append(variant.idea)
        return train(self, variant, seed, model)

    monkeypatch.setattr(Study, "_train", counted)
    main(words)
    first = (tmp_path / "study.md").read_text(encoding="utf-8")
    assert len(trained) == 2
    assert first.count("\n| base: ") == first.count("\n| layers2: ") == 2
    changed = [changed_parts(file, tmp_path / "model") for file in (tmp_path / "work").glob("weights-*.safetensors")]
    assert sorted(changed) == [["embeddings", "layer.0", "layer.1"], ["embeddings", "layer.0", "layer.1", "layer.2"]]

    for file in sorted((tmp_path / "work").glob("cell-*.json"))[:2]:
        file.unlink()  # as if the run had been killed: the weights are kept
    main(words)
    assert len(trained) == 2
    assert (tmp_path / "study.md").read_text(encoding="utf-8") == first

    study = Study(parsed(words))
    measured = {text for goal in study.goals for group in goal.texts.groups for text in group.versions["clean"]}
    assert len(measured) > 20
    assert not measured & set(study.questions)
    assert not set(study.sentences) & set(study.documents)


def changed_parts(weights: Path, model: Path) -> list[str]:
    """Parts of the encoder whose weights have changed."""
    before, after = load_file(model / "model.safetensors"), load_file(weights)
    names = {name.split("bert.")[-1]: value for name, value in before.items()}
    found = set()
    for name, value in after.items():
        for own, old in names.items():
            if name.endswith(own) and old.shape == value.shape and not torch.equal(old, value):
                found.add("embeddings" if "embeddings" in own else own.removeprefix("encoder.")[:7])
    return sorted(found)


def test_words_are_split_into_other_pieces_of_the_vocabulary() -> None:
    from hardening_variants import split_words

    vocabulary = {"play", "##ing", "pl", "##aying", "the", "##x"}
    tokens = ["[CLS]", "the", "play", "##ing", "[SEP]"]
    made = split_words(tokens, vocabulary, random.Random(0), 1.0)
    assert made == ["[CLS]", "the", "pl", "##aying", "[SEP]"]
    assert split_words(tokens, vocabulary, random.Random(0), 0.0) == tokens


def test_relations_to_all_texts_of_a_small_bank_are_those_of_anchored(make_encoder_model: Callable[..., Any]) -> None:
    from hardening_variants import NearestTexts
    from holdfast.objectives.anchored import relations_divergence

    torch.manual_seed(0)
    objective = NearestTexts(make_encoder_model())
    vectors, anchors, bank = torch.randn(4, 16), torch.randn(4, 16), torch.randn(20, 16)
    objective.see_texts([], bank)
    assert objective.bank is not None
    wanted = relations_divergence(vectors, anchors, objective.bank, objective.temperature)
    assert torch.allclose(objective.divergence(vectors, anchors), wanted, rtol=1e-4)
    objective.NEAREST = 5  # type: ignore[misc]  # of this objective
    nearest = objective.bank[(anchors[:1] @ objective.bank.T).topk(5).indices[0]]
    wanted = relations_divergence(vectors[:1], anchors[:1], nearest, objective.temperature)
    assert torch.allclose(objective.divergence(vectors[:1], anchors[:1]), wanted, rtol=1e-4)


def test_a_text_of_another_meaning_is_put_away_from_the_anchor(
    make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    from hardening_variants import AgainstMoves, unpadded

    model = make_encoder_model(pooling="mean")
    objective = AgainstMoves(model, noise=0.0, adversarial=1.0)
    features = objective.encoder.tokenise(sentences)
    ids = unpadded(features)
    assert len(ids[1]) < len(ids[0])  # without padding
    anchors = objective.encoder.encode(features).detach()
    objective.see_texts([], torch.randn(5, 16))
    objective.see_moves({tuple(ids[0]): sentences[0], tuple(ids[1]): "the cat eats under the bed"})
    terms = objective._one_form(objective.encoder, features, anchors)
    # The first has the vector of its anchor: log 2; the second is farther than what was read.
    assert 0.0 < terms["moves"] < 0.1 * 0.6932
    objective.see_moves({tuple(ids[0]): sentences[0]})
    assert torch.isclose(objective._one_form(objective.encoder, features, anchors)["moves"], torch.tensor(0.0693147))


def test_a_variant_that_has_no_pairs_leaves_their_column_empty() -> None:
    from hardening_study import table

    goal = {"texts clean": "0110", "hold/move": [1.0, 0.0]}
    cells = {
        "original": [{"goal": {"weight": 1.0, "chosen": goal}}],
        "spelling": [{"goal": {"weight": 1.0, "chosen": {"texts clean": "1110"}}}],
    }
    head, _, original, spelling = table(cells)
    assert [cell.strip() for cell in head.split("|")[3:5]] == ["clean (4)", "hold/move (2)"]
    assert [cell.strip() for cell in original.split("|")[3:5]] == ["50.0", "50.0"]
    assert [cell.strip()[:5] for cell in spelling.split("|")[3:5]] == ["+25.0", ""]


def test_the_curve_of_noiseqa_has_a_row_for_each_weight() -> None:
    from hardening_study import noiseqa_curve

    part = "noiseqa curve"
    cells = {
        "original": [{part: {"1": {"collection asr": "0110"}}}],
        "base": [{part: {"0.5": {"collection asr": "0111"}, "1": {"collection asr": "1111"}}} for _ in range(2)],
    }
    _, _, *rows = noiseqa_curve(cells)
    assert [[cell.split()[0] for cell in row.split("|")[1:4]] for row in rows] == [
        ["original", "0", "50.0"],
        ["base", "0.5", "75.0"],
        ["base", "1", "100.0"],
    ]
