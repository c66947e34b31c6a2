"""A hardening with misspellings in the vocabulary: what is recorded, chosen, resumed and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

pytest.importorskip("symspellpy", reason="the guards use symspellpy's English dictionary")

from holdfast.edits.text_language import Language
from holdfast.hardening import HardenSettings, harden
from holdfast.hardening.goal.goal_evaluator import GoalEvaluator


def settings(output: str, **changed: Any) -> HardenSettings:
    given = {"batch_size": 16, "max_steps": 4, "precision": "fp32", "hold_out": 200, "audited": False, **changed}
    if given["hold_out"]:
        given = {"noise": "typing=0.3", "evaluations": 2, **given}
    return HardenSettings("old", "mine.txt", Path(output), **{"learning_rate": 1e-4, "typo_vocabulary": 40, **given})


def test_misspellings_are_trained_along_and_resumed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = harden(settings("whole"))
    entries = whole["protocol"]["typo_entries"]
    assert whole["protocol"]["typo_vocabulary"] == 40
    assert 0 < entries <= 40
    curve = whole["selected"]["curve"]
    assert (curve[0]["step"], curve[0]["weight"]) == (0, 0.0)
    assert curve[0]["recovered"] > 0  # nothing but the vocabulary
    assert curve[0]["differences"]["clean"]["difference"] == 0.0
    clean = next(row for row in whole["results"] if row["split"] == "clean")
    assert clean["metrics"]["same_top1"] > 90
    model = SentenceTransformer("whole", device="cpu")
    assert len(model.tokenizer) == len(SentenceTransformer("old", device="cpu").tokenizer) + entries
    card = Path("whole/README.md").read_text(encoding="utf-8").replace("`", "")
    assert f"misspellings in the vocabulary, which begin with the vectors of their words | {entries} |" in card
    asked = GoalEvaluator.__call__

    def stops(self: GoalEvaluator, model: Any, *given: Any, **named: Any) -> dict[str, float]:
        if named["steps"] == 4:
            raise KeyboardInterrupt
        return asked(self, model, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(GoalEvaluator, "__call__", stops)
        with pytest.raises(KeyboardInterrupt):
            harden(settings("stopped", save_steps=3))
    resumed = harden(settings("stopped", save_steps=3), resume=True)
    assert resumed["selected"] == whole["selected"]
    assert resumed["results"] == whole["results"]


def test_the_vocabulary_alone_is_kept_where_a_training_destroys(here: Path) -> None:
    result = harden(settings("new", learning_rate=3.0))
    assert (result["selected"]["step"], result["selected"]["weight"]) == (0, 0.0)
    assert "with misspellings in its vocabulary" in result["selected"]["line"]
    entries = result["protocol"]["typo_entries"]
    before, after = (load_file(f"{name}/model.safetensors") for name in ("old", "new"))
    words = next(name for name in before if "word_embeddings" in name)
    assert len(after[words]) == len(before[words]) + entries
    assert all(bool((after[name][: len(before[name])] == before[name]).all()) for name in before)
    typing = next(row for row in result["results"] if row["split"] == "typing")
    assert typing["metrics"]["after"] > typing["metrics"]["before"]
    texts = Path("mine.txt").read_text(encoding="utf-8").split("\n")[:50]
    encoded = [SentenceTransformer(name, device="cpu").encode(texts) for name in ("old", "new")]
    np.testing.assert_allclose(*encoded, atol=1e-6)


def test_the_original_is_kept_without_them(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.hardening.goal.choice_rule.TOLERANCE", -1000.0)  # nothing is admissible
    result = harden(settings("new"))
    assert "the original encoder is kept, unchanged" in result["selected"]["line"]
    before, after = (load_file(f"{name}/model.safetensors") for name in ("old", "new"))
    assert all(bool((after[name] == before[name]).all()) for name in before)
    old, new = (SentenceTransformer(name, device="cpu") for name in ("old", "new"))
    assert old.tokenizer.get_vocab() == new.tokenizer.get_vocab()
    assert result["selected"]["typo_entries"] == 0 < result["protocol"]["typo_entries"]
    assert "misspellings in the vocabulary" not in Path("new/README.md").read_text(encoding="utf-8")
    assert all(row["metrics"]["difference"] == 0.0 for row in result["results"])


def test_misspellings_are_added_where_nobody_has_said_how_many(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = len(SentenceTransformer("old", device="cpu").tokenizer)
    result = harden(settings("new", typo_vocabulary=None, hold_out=0), console=Console())
    assert result["protocol"]["typo_vocabulary"] == "auto"
    entries = result["protocol"]["typo_entries"]
    assert 0 < entries <= before
    assert len(SentenceTransformer("new", device="cpu").tokenizer) == before + entries
    assert f"{entries} misspellings are new entries of the vocabulary" in capsys.readouterr().out


def test_a_corpus_of_another_language_adds_none_and_says_so(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    german = Language("de", 1.0, "a test")
    monkeypatch.setattr("holdfast.edits.text_language.language_of", lambda texts, given: german)
    result = harden(settings("new", typo_vocabulary=None, hold_out=0, max_steps=2, spelling=False), console=Console())
    assert "typo_entries" not in result["protocol"]
    said = " ".join(capsys.readouterr().out.split())
    assert "no misspellings are added to the vocabulary: the corpus is not in English" in said
