"""Back-translations as a piece of work: BTCL's rows, from the sentences that a training sees to the trained encoder."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from holdfast.adversary.translation import Translator, back_translate
from holdfast.cli import main
from holdfast.data.corpus import spool_corpus
from holdfast.errors import UserError
from holdfast.experiments import translations
from holdfast.experiments.cell_execution import make
from holdfast.experiments.cell_planning import Planner, Setting
from holdfast.experiments.cells import Cell, Store
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.reproduction import reproduce
from holdfast.results import read_result

Settings = Callable[..., ReproduceSettings]

TABLE = """\
title: Back-translations
source: a test
rows:
  encoder:
    BTCL: {encoder: {method: adcl, selection: last, back_translated: true, options: {positives: given, queue_size: 8}}}
    simcse: {encoder: {method: simcse, selection: last, back_translated: true}}
shared:
  encoder: {sentences: 6, batch_size: 2, precision: fp32}
  evaluation: {tasks: stsb-dev, limit: 20}
columns:
  STS-B: {measure: stsb/dev.spearman}
"""


@pytest.fixture
def translators(tmp_path: Path, make_masked_lm: Callable[..., Path]) -> tuple[str, str]:
    """Two random BARTs with the tokeniser of 21 words."""
    from transformers import AutoTokenizer, BartConfig, BartForConditionalGeneration

    tokenizer = AutoTokenizer.from_pretrained(make_masked_lm(tmp_path / "words"))
    names = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    for number, name in enumerate(("there", "back")):
        torch.manual_seed(number)
        config = BartConfig(vocab_size=26, d_model=16, init_std=0.5, **sizes, **names, forced_eos_token_id=None)
        BartForConditionalGeneration(config).save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    return str(tmp_path / "there"), str(tmp_path / "back")


def test_a_row_of_btcl_is_made_from_the_corpus_on(
    settings: Settings, stsb: Path, translators: tuple[str, str], sentences: list[str]
) -> None:
    result = reproduce(settings(TABLE, translators=translators))
    assert [row["not_run"] for row in result["results"]] == [[], []]
    cells = settings().output / "cells"
    (folder,) = cells.glob("translation-*")  # both rows are trained on the same pairs
    pairs = [json.loads(line) for line in (folder / translations.PAIRS_FILE).read_text().splitlines()]
    chosen = [pair["sentence"] for pair in pairs]
    assert len(pairs) == 6
    assert chosen == sorted(set(chosen), key=sentences.index)
    there, back = (Translator(name, device="cpu") for name in translators)
    assert [pair["positive"] for pair in pairs] == back_translate(chosen, there, back)
    assert not list(folder.glob("part-*"))
    (row,) = read_result(folder / "results.json")["results"]
    assert row["n"] == 6
    assert row["metrics"]["unchanged"] == 100 * np.mean([pair["positive"] == pair["sentence"] for pair in pairs])
    for encoder in cells.glob("encoder-*"):
        corpus = read_result(encoder / "model" / "results.json")["protocol"]["corpus"]
        assert corpus["sentences"] == 6
        assert corpus["positives"] == "positive"


def test_a_column_of_the_corpus_is_what_is_translated(
    settings: Settings, tmp_path: Path, translators: tuple[str, str]
) -> None:
    given = settings(TABLE, translators=translators)
    corpus = tmp_path / "two.jsonl"
    rows = ({"sentence": f"the dog {number}", "text": f"a cat {number}"} for number in range(9))
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    setting = Setting(given.model, str(corpus), given.data, given.resource_names, translators=translators)
    encoder = {"method": "simcse", "back_translated": True, "max_steps": 2, "batch_size": 2}
    made = {}
    for column in ("sentence", "text"):
        cell = Planner(setting).plan({"encoder": {**encoder, "column": column}}, 1).inputs["pairs"]
        make(cell, Store(tmp_path / "cells"), setting, Console(quiet=True), [])
        pairs = (Store(tmp_path / "cells").place(cell) / translations.PAIRS_FILE).read_text().splitlines()
        made[column] = {json.loads(pair)["sentence"].rpartition(" ")[0] for pair in pairs}
    assert made == {"sentence": {"the dog"}, "text": {"a cat"}}


def test_without_translators_the_row_says_so(settings: Settings, stsb: Path) -> None:
    result = reproduce(settings(TABLE))
    why = "back-translations need two translation models: give --translators THERE,BACK"
    assert [row["not_run"] for row in result["results"]] == [[why], [why]]


def test_pairs_that_were_changed_are_not_trained_on(
    settings: Settings, stsb: Path, translators: tuple[str, str]
) -> None:
    reproduce(settings(TABLE, translators=translators, only=["BTCL"]))
    (folder,) = (settings().output / "cells").glob("translation-*")
    (folder / translations.PAIRS_FILE).write_text('{"sentence": "a", "positive": "b"}\n')
    result = reproduce(settings(TABLE, translators=translators))
    reasons = {row["task"]: row["not_run"] for row in result["results"]}
    assert reasons["BTCL"] == []  # made before
    assert "pairs.jsonl is missing or was changed: remove the folder" in reasons["simcse"][0]


class Counting:
    """A translator that reverses words, and dies when it has seen so many sentences."""

    def __init__(self, until: int | None = None) -> None:
        self.seen, self.until = 0, until

    def __call__(self, sentences: Sequence[str]) -> list[str]:
        self.seen += len(sentences)
        if self.until is not None and self.seen > self.until:
            raise KeyboardInterrupt
        return [" ".join(reversed(sentence.split())) for sentence in sentences]


def test_a_killed_translation_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translations, "_PART", 4)
    sentences = [f"sentence number {number}" for number in range(10)]
    quiet: Any = Console(quiet=True)

    def made(folder: Path, there: Any) -> list[dict[str, Any]]:
        folder.mkdir(exist_ok=True)
        return translations.write_pairs(folder, sentences, there, lambda texts: list(texts), quiet)  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "killed", Counting(until=8))
    again = Counting()
    whole = made(tmp_path / "whole", Counting())
    assert made(tmp_path / "killed", again) == whole
    assert again.seen == 2, "eight were there"
    files = [(tmp_path / name / translations.PAIRS_FILE).read_text() for name in ("killed", "whole")]
    assert files[0] == files[1]
    assert [json.loads(line)["sentence"] for line in files[0].splitlines()] == sentences
    assert json.loads(files[0].splitlines()[9])["positive"] == "9 number sentence"


def test_what_is_drawn_is_drawn_by_the_seed(tmp_path: Path) -> None:
    sentences = [str(number) for number in range(100)]
    (tmp_path / "corpus.txt").write_text("\n".join(sentences))
    corpus = spool_corpus(str(tmp_path / "corpus.txt"), folder=tmp_path)
    some = translations.drawn(corpus, 10, 1)
    assert some == sorted(some, key=int) != sentences[:10]
    assert len(set(some)) == 10
    assert translations.drawn(corpus, 10, 1) == some != translations.drawn(corpus, 10, 2)
    assert translations.drawn(corpus, None, 1) == translations.drawn(corpus, 100, 1) == sentences


def test_what_decides_a_translation(settings: Settings, translators: tuple[str, str]) -> None:
    given = settings()

    def pairs(seed: int = 1, models: tuple[str, str] = translators, **says: Any) -> Cell:
        planner = Planner(Setting(given.model, given.corpus, given.data, given.resources, translators=models))
        said = {
            "method": "simcse",
            "selection": "last",
            "back_translated": True,
            "sentences": 6,
            "batch_size": 2,
            **says,
        }
        encoder = planner.plan({"encoder": {key: value for key, value in said.items() if value is not None}}, seed)
        assert encoder.settings["positive_column"] == "positive"
        return encoder.inputs["pairs"]

    assert pairs().settings["sentences"] == 6
    assert pairs(learning_rate=1e-3).key == pairs().key, "of the training alone"
    others = [pairs(seed=2), pairs(sentences=4), pairs(models=translators[::-1]), pairs(sentences=None, epochs=1.0)]
    assert len({pairs().key, *(other.key for other in others)}) == 5
    assert others[-1].settings["sentences"] is None
    planner = Planner(Setting(given.model, given.corpus, given.data, given.resources, translators=translators))
    plain = planner.plan({"encoder": {"method": "simcse", "selection": "last"}}, 1)
    assert "positive_column" not in plain.settings, "the same work as before"
    with pytest.raises(UserError, match="back_translated"):
        planner.plan({"encoder": {"method": "simcse", "back_translated": "yes"}}, 1)


@pytest.mark.parametrize("models", ["one", "one,", "one,two,three"])
def test_two_translators_are_needed(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "adcl/table1", "--translators", models]) == 2
    assert f"--translators {models}: give two models, THERE,BACK" in capsys.readouterr().err
