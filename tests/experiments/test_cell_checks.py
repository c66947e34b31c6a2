"""What is checked before anything is made: data, resources, the user's changes; and that a plan refuses like a run."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from small_table import TABLE, values

from holdfast.cli import main
from holdfast.data import hub
from holdfast.experiments import cell_checks, cell_execution, input_hashes
from holdfast.experiments.plan import plan
from holdfast.experiments.preparation import prepare, whole_names
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.reproduction import reproduce

Settings = Callable[..., ReproduceSettings]

QUERIES = "  Queries: {classifier: *sst2, attack: *typos, measure: queries}"
STS = TABLE.replace(QUERIES, "  STS-B: {evaluation: {tasks: stsb}, measure: stsb.spearman}")
NOTHING = STS.partition("columns")[0] + "columns:\n  STS-B: {evaluation: {tasks: stsb}, measure: stsb.spearman}\n"
MISSING = "stsb test is on the hub"


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine without a hub; returns how often it was asked."""
    asked: list[str] = []
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("HF_DATASETS_OFFLINE", raising=False)
    monkeypatch.setattr(hub, "_reachable", lambda endpoint: asked.append(endpoint) is not None)
    return asked


def words(given: ReproduceSettings, *more: str) -> list[str]:
    names = ("--masked-lm", str(given.model), "--similarity", str(given.model))
    return [
        *(
            "reproduce",
            str(given.table),
            "--scale",
            "paper",
            "--output",
            str(given.output),
            "--model",
            str(given.model),
        ),
        *("--corpus", str(given.corpus), "--data", str(given.data), "--jobs", "1", *names, *more),
    ]


def test_what_lacks_its_data_is_known_before_anything_is_made(
    settings: Settings, made: list[str], no_hub: list[str]
) -> None:
    output = io.StringIO()
    result = reproduce(settings(STS), console=Console(file=output, width=2000))
    lines = output.getvalue().splitlines()
    assert lines[0].startswith("cannot be made (NP: STS-B and 1 more): stsb test: ")
    assert "stsb/test.tsv.gz does not exist" in lines[0]
    assert "cannot be reached" in lines[0]
    assert not any(label.startswith("evaluation") for label in made)
    found = values(result)
    assert found["NP", "STS-B"] is None
    assert found["SimCSE", "Acc."] is not None
    (row,) = (row for row in result["results"] if (row["task"], row["split"]) == ("NP", "STS-B"))
    assert row["not_run"] == [lines[0].partition(": ")[2].partition(": ")[2]]
    assert len(no_hub) == 1, "the hub is asked once"


def test_nothing_is_trained_for_what_cannot_be_measured(
    settings: Settings, made: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = settings(NOTHING)
    assert main(words(given)) == 2
    run = capsys.readouterr()
    assert made == [], "no encoder, as its evaluation lacks its data"
    assert "–" in run.out, "the table is shown with its dashes"
    assert main(words(given, "--plan")) == 2
    planned = capsys.readouterr()
    line = run.err.splitlines()[-1]
    assert line == planned.err.splitlines()[-1]
    assert line.startswith("holdfast: small: no value could be made: stsb test: ")
    assert "cannot be made (NP: STS-B and 1 more): stsb test: " in " ".join(planned.out.split())
    assert main(words(given, "--so-far")) == 0, "a table of the finished cells may be empty"


def test_a_plan_refuses_a_model_like_the_run(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    given = settings(model="./nowhere")
    lines = []
    for more in ((), ("--plan",)):
        assert main(words(given, *more)) == 2
        lines.append(capsys.readouterr().err.splitlines()[-1])
    assert lines[0] == lines[1]
    assert "nowhere" in lines[0]


def test_only_what_can_be_made_is_planned(settings: Settings) -> None:
    (both, without) = (plan([settings(table)]) for table in (STS, NOTHING))
    assert [(sort.kind, sort.cells) for sort in both.sorts] == [("classifier", 2), ("attack", 2), ("encoder", 1)]
    assert without.sorts == []
    assert both.refused is None
    assert without.refused is not None


def test_an_input_that_cannot_be_made_is_not_made_for_a_finished_cell(settings: Settings) -> None:
    (whole,) = prepare([settings()])
    (encoder,) = (cell for cell in whole.cells if cell.kind == "encoder")
    assert encoder in whole.wanted
    assert encoder not in dataclasses.replace(whole, reasons={encoder.key: "no corpus"}).wanted


def test_a_reason_of_several_tables_is_told_once(settings: Settings, tmp_path: Path) -> None:
    one = settings(STS)
    (tmp_path / "other.yaml").write_text(NOTHING.replace("title: Small", "title: Other"))
    both = plan([one, dataclasses.replace(one, table=str(tmp_path / "other.yaml"))])
    (line,) = both.notes()
    assert line.startswith("cannot be made (4 values of small, other): stsb test: ")
    assert both.refused is not None
    assert both.refused.startswith("1 of 2 tables (other): no value could be made: stsb test: ")


def test_a_missing_resource_is_found_once_and_loaded_by_no_cell(settings: Settings, made: list[str]) -> None:
    table = TABLE.replace("attack: &typos {recipe: typos", "attack: &typos {recipe: pwws")
    result = reproduce(settings(table))
    assert not any("pwws" in label for label in made)
    reasons = {tuple(row["not_run"]) for row in result["results"] if row["split"] == "Typos"}
    assert len(reasons) == 1
    assert "wordnet" in str(reasons).lower()


def test_a_finished_cell_needs_nothing_any_more(settings: Settings, data: Path, made: list[str]) -> None:
    whole = reproduce(settings())
    made.clear()
    for file in (data / "sst2").iterdir():
        content = file.read_bytes()
        file.unlink()
        file.with_suffix(".kept").write_bytes(content)
    prepared = prepare([settings()])[0]
    assert prepared.reasons != {}, "the cells of other data are other cells"
    for file in (data / "sst2").iterdir():
        file.rename(file.with_suffix(".tsv"))
    assert prepare([settings()])[0].reasons == {}
    assert values(reproduce(settings())) == values(whole)
    assert made == []


def test_a_corpus_of_the_hub_is_checked(settings: Settings, made: list[str]) -> None:
    result = reproduce(settings(corpus="hf:owner/name"))
    assert not any(label.startswith("encoder") for label in made)
    (row,) = (row for row in result["results"] if (row["task"], row["split"]) == ("SimCSE", "Acc."))
    assert "hf:owner/name:train is on the hub" in row["not_run"][0]
    assert values(result)["NP", "Acc."] is not None


def test_a_model_of_the_hub_is_asked_for_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = input_hashes.resolve_model

    def resolve(name: str) -> Path:
        asked.append(name)
        return real(name)

    monkeypatch.setattr(input_hashes, "resolve_model", resolve)
    table = TABLE.replace("method: simcse, max_steps", "method: simcse, model: ./nowhere, max_steps")
    (prepared,) = prepare([settings(table, seeds=2)])
    assert asked.count("./nowhere") == 1
    assert [len(names) for reason, names in prepared.not_made().items() if "nowhere" in reason] == [3]


def test_a_change_that_some_rows_overrule_is_told(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    given = settings()
    changes = ("--set", "encoder.batch_size=8", "--set", "encoder.temperature=1", "--set", "classifier.max_length=20")
    assert main(words(given, "--plan", *changes)) == 2  # the method's options are no settings
    capsys.readouterr()
    changes = ("--set", "encoder.batch_size=8", "--set", "encoder.max_length=16", "--set", "attack.goal=class")
    assert main(words(given, "--plan", "--json", *changes)) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert table["overruled"] == {"encoder.batch_size": ["SimCSE"]}
    assert table["changes"] == {"encoder": {"max_length": 16}, "attack": {"goal": "class"}}
    assert main(words(given, "--plan", *changes)) == 0
    assert (
        "--set encoder.batch_size is overruled by the table's own setting, and changes nothing: rows SimCSE"
        in " ".join(capsys.readouterr().out.split())
    )


def test_a_length_that_a_row_gives_otherwise_overrules_a_change(settings: Settings) -> None:
    other = TABLE.replace("max_steps: 2, batch_size: 4, precision", "epochs: 2.0, precision")
    (one,) = prepare([settings(changes=["encoder.sentences=64"])])
    assert one.overruled == {"encoder.sentences": ["SimCSE"]}
    (two,) = prepare([settings(other, changes=["encoder.batch_size=4"])])
    assert (two.overruled, two.applied) == ({}, {"encoder": {"batch_size": 4}})
    often = TABLE.replace("batch_size: 4, precision", "batch_size: 4, eval_steps: 1, precision")
    (three,) = prepare([settings(often, changes=["encoder.evaluations=3"])])
    assert (three.overruled, three.applied) == ({"encoder.evaluations": ["SimCSE"]}, {})


def test_the_memory_of_each_training(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    given = "method: simcse, max_steps: 2, precision: fp32, selection: last"
    more = f"    Warm: {{encoder: {{{given}, batch_size: 4, options: {{temperature: 0.5}}}}}}\n"
    more += f"    Large: {{encoder: {{{given}, batch_size: 4096}}}}\n"
    table = TABLE.replace("columns:", f"{more}columns:", 1)
    given = settings(table)
    assert main(words(given, "--plan", "--plan-memory", "1GB", "--json", "--seeds", "2")) == 0
    small, large = json.loads(capsys.readouterr().out)["memory"]
    assert (small["cells"], small["batch"], small["fits"]) == (4, 4, True), "two rows, two seeds, one kind of step"
    assert (large["batch"], large["fits"], large["problem"]) == (4096, False, "")
    assert 0 < small["gigabytes"] < large["gigabytes"]
    assert main(words(given, "--plan", "--plan-memory", "1GB")) == 0
    assert "does not fit" in capsys.readouterr().out
    assert main(words(given, "--plan-memory", "1GB")) == 2
    assert "--plan-memory is for --plan" in capsys.readouterr().err
    assert main(words(given, "--plan", "--plan-memory", "much")) == 2


def needs(settings: Settings, pipeline: str) -> set[tuple[Any, ...]]:
    """The needs of the cells of a table with one column."""
    table = f"title: One\nsource: a test\nrows: {{a: {{b: {{}}}}}}\ncolumns:\n  One: {pipeline}\n"
    (prepared,) = prepare([settings(table)])
    checks = cell_checks.CellChecks(prepared.setting, input_hashes.Identities(prepared.setting.data))
    found = (need for cell in prepared.cells for need in checks._needs(cell))
    return {(need.kind, need.name, need.split, need.text) for need in found}


def test_the_needs_of_each_kind_of_cell(settings: Settings) -> None:
    assert needs(settings, "{evaluation: {tasks: 'stsb,sst2,trec,subj,space', text: senteval}, measure: sts}") == {
        ("split", "stsb", "test", "senteval"),
        *(("split", "sst2", split, "raw") for split in ("train", "dev", "test")),
        *(("split", "trec", split, "raw") for split in ("train", "test")),
        ("split", "subj", "all", "raw"),
        ("split", "stsb", "dev", "senteval"),
    }
    attack = needs(settings, "{attack: {recipe: pwws, task: sickr, split: trial}, measure: success_rate}")
    similarity = ("resource", "similarity", None, "raw")  # named by the user
    resources = {("resource", name, None, "raw") for name in ("wordnet", "tagger")}
    assert {("split", "sickr", "trial", "raw"), ("split", "sickr", "train", "raw"), similarity} <= attack
    assert resources & attack
    trained = "{encoder: {method: simcse, corpus: 'task:mr', selection: stsb-dev, max_steps: 1}, measure: x}"
    assert needs(settings, trained) == {("training", "mr", None, "raw"), ("split", "stsb", "dev", "raw")}
    assert needs(settings, "{classifier: {task: sst2, train_split: dev}, measure: accuracy}") == {
        ("training", "sst2", "dev", "raw")
    }


def test_a_failure_in_the_making_is_a_reason_too(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from holdfast.errors import UserError

    def fail(*_: Any) -> None:
        raise UserError("the disk is slow")

    monkeypatch.setattr(cell_execution, "do", fail)
    assert main(words(settings())) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "holdfast: small: no value could be made: the disk is slow"


def test_names_with_commas_are_named_whole() -> None:
    names = ["ConSERT", "ConSERT, 5e-5", "ConSERT, 5e-5, then anchored", "L2", "L2, ε 1e-3"]
    for words, found in (
        (("ConSERT", "5e-5"), ["ConSERT, 5e-5"]),
        (("ConSERT", "5e-5", "then anchored", "L2"), ["ConSERT, 5e-5, then anchored", "L2"]),
        (("L2", "ConSERT"), ["L2", "ConSERT"]),
        (("5e-5",), ["5e-5"]),
        ((), []),
    ):
        assert whole_names(words, names) == found


def test_a_corpus_of_a_task_may_be_a_file_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.tsv").write_text("text\tlabel\n")
    for corpus, expected in (
        ("task:mr", ("mr", "")),
        ("task:mr/train", ("mr", "train")),
        ("task:textfooler/mr", ("textfooler/mr", "")),
        ("task:textfooler/mr/test", ("textfooler/mr", "test")),
        (f"task:{tmp_path}/mine.tsv", (f"{tmp_path}/mine.tsv", "")),
        (f"task:{tmp_path}", (str(tmp_path), "")),
        (f"task:{tmp_path}/train", (str(tmp_path), "train")),
        ("wiki", None),
    ):
        assert input_hashes.task_and_split(corpus) == expected


def test_a_table_measures_no_retrieval(settings: Settings) -> None:
    table = STS.replace("tasks: stsb}", "tasks: retrieval:mine}")
    (reason,) = {str(reason) for each in plan([settings(table)]).tables for reason in each.not_made()} - {""}
    assert "tables measure no retrieval, and retrieval:mine is one" in reason
