"""A whole table, made, resumed, changed and shown."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from small_table import TABLE, values

from holdfast.errors import UserError
from holdfast.experiments import reproduction as experiments
from holdfast.experiments import table_rows as of_tables
from holdfast.experiments.definition import known_tables, tables_named
from holdfast.experiments.measures import measured
from holdfast.experiments.plan import plan
from holdfast.experiments.preparation import prepare
from holdfast.experiments.render import latex, markdown, reasons
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.reproduction import describe_tables, reproduce
from holdfast.files import locked
from holdfast.results import read_result

Settings = Callable[..., ReproduceSettings]


def test_a_table_is_made_once(settings: Settings, made: list[str]) -> None:
    result = reproduce(settings())
    assert [label.partition(":")[0] for label in made] == ["classifier", "attack", "encoder", "classifier", "attack"]
    found = values(result)
    assert len(found) == 8
    assert all(value is not None for value in found.values())
    for row in ("NP", "SimCSE"):
        assert found[row, "Mean"] == pytest.approx((found[row, "Acc."] + found[row, "Typos"]) / 2)  # type: ignore[operator]
    published = {row["split"]: row["published"] for row in result["results"] if row["task"] == "NP"}
    assert published == {"Acc.": 90, "Typos": 80, "Queries": 12, "Mean": 85}
    # What stands in the table is what the commands wrote.
    cell = next(row for row in result["results"] if row["split"] == "Typos")["cells"][0]
    attacked = read_result(settings().output / "cells" / f"attack-{cell[:12]}" / "results.json")
    assert found["NP", "Typos"] == attacked["results"][0]["metrics"]["success_rate"]
    assert read_result(settings().result_file) == result

    made.clear()
    assert values(reproduce(settings())) == found
    assert made == []


def test_a_changed_constant_makes_exactly_the_cells_that_depend_on_it(settings: Settings, made: list[str]) -> None:
    reproduce(settings())
    made.clear()
    reproduce(settings(TABLE.replace("examples: 4", "examples: 3")))
    assert [label.partition(":")[0] for label in made] == ["attack", "attack"]
    made.clear()
    reproduce(settings(TABLE.replace("method: simcse, max_steps: 2", "method: simcse, max_steps: 3")))
    assert [label.partition(":")[0] for label in made] == ["encoder", "classifier", "attack"]


def test_a_cell_that_cannot_be_made_tells_why_and_the_others_are_made(settings: Settings, made: list[str]) -> None:
    table = TABLE.replace(
        "    SimCSE: {encoder: {method: simcse,", "    SimCSE: {encoder: {method: simcse, model: /nowhere,"
    )
    table = table.replace(
        "Queries: {classifier: *sst2, attack: *typos", "Queries: {classifier: *sst2, attack: {recipe: pwws}"
    )
    result = reproduce(settings(table))
    found = values(result)
    assert found["NP", "Acc."] is not None
    assert found["NP", "Typos"] is not None
    assert found["NP", "Queries"] is None  # its resource is not here
    assert found["SimCSE", "Acc."] is None
    assert found["SimCSE", "Mean"] is None
    (mean,) = (row for row in result["results"] if (row["task"], row["split"]) == ("SimCSE", "Mean"))
    assert mean["not_run"] == ["not all of its columns were run"]
    message = "\n".join(reasons(result))
    assert "/nowhere" in message
    assert "wordnet" in message.lower()
    assert "(SimCSE: Acc.; SimCSE: Typos; SimCSE: Queries)" in message
    assert not any(label.startswith("attack: NP: pwws") for label in made)  # known before
    made.clear()
    reproduce(settings(table))
    assert made == []


def test_what_depends_on_a_cell_that_failed_is_not_tried(settings: Settings, made: list[str]) -> None:
    result = reproduce(settings(TABLE.replace("max_steps: 2, batch_size: 4", "max_steps: 2, batch_size: 400")))
    assert not any("simcse" in label for label in made if not label.startswith("encoder"))
    (reason,) = {reason for row in result["results"] if row["task"] == "SimCSE" for reason in row["not_run"][:1]} - {
        "not all of its columns were run"
    }
    assert "at least 400" in reason or "400" in reason


def test_seeds_give_mean_and_spread(settings: Settings) -> None:
    result = reproduce(settings(seeds=2, only=["SimCSE"]))
    row = result["results"][0]
    assert len(row["values"]) == len(set(row["cells"])) == 2
    assert row["metrics"]["mean"] == pytest.approx(sum(row["values"]) / 2)
    assert row["metrics"]["std"] == pytest.approx(abs(row["values"][0] - row["values"][1]) / 2**0.5)
    assert {row["task"] for row in result["results"]} == {"SimCSE"}


def test_an_average_of_columns_is_seed_by_seed_also_where_no_seed_changes_one_of_them() -> None:
    table = of_tables.Definition(
        *("mine", "title", "source", "", (of_tables.Row({"encoder": "A"}, {}),), {"x": {}, "y": {}}),
        *({"both": ["x", "y"], "alone": ["y"]}, {}, {}),
    )
    row = {"task": "A", "digits": 1, "not_run": []}
    x, y = ({"split": "x", "values": [1.0, 5.0], "seeds": [1, 2]}, {"split": "y", "values": [3.0], "seeds": [1, 2]})
    both, alone = of_tables.average_rows(table, [row | x, row | y])
    assert (both["values"], both["n"], both["not_run"]) == ([2.0, 4.0], 2, [])
    assert (alone["values"], alone["n"], alone["metrics"]) == ([3.0], 1, {"mean": 3.0})


def test_an_average_is_over_the_seeds_that_all_of_its_columns_have() -> None:
    table = of_tables.Definition(
        *("mine", "title", "source", "", (of_tables.Row({"encoder": "A"}, {}),), {"x": {}, "y": {}}),
        *({"both": ["x", "y"]}, {}, {}),
    )
    row = {"task": "A", "digits": 1}
    x = row | {"split": "x", "values": [1.0, 5.0, 9.0], "seeds": [1, 2, 3], "not_run": []}
    y = row | {"split": "y", "values": [3.0, 7.0], "seeds": [1, 3], "not_run": ["no memory"]}
    (average,) = of_tables.average_rows(table, [x, y])
    assert (average["values"], average["seeds"], average["n"]) == ([2.0, 8.0], [1, 3], 2)
    assert average["not_run"] == ["not all of its columns' seeds were run"]
    (none,) = of_tables.average_rows(table, [x, y | {"values": [], "seeds": []}])
    assert (none["values"], none["metrics"], none["not_run"]) == ([], {}, ["not all of its columns were run"])


def test_means_are_means_of_three_and_more() -> None:
    assert of_tables._mean_and_spread([1.0, 2.0, 6.0]) == {"mean": 3.0, "std": pytest.approx(7**0.5)}
    names = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
    table = experiments.read_definition("adcse/table1", "paper")
    row = {"task": table.rows[0].name, "digits": 1, "not_run": [], "seeds": [1, 2]}
    rows = [{**row, "split": name, "values": [float(n == 0), 7.0 * n]} for n, name in enumerate(names)]
    (average,) = of_tables.average_rows(table, rows)
    assert average["values"] == [pytest.approx(1 / 7), 21.0]


def test_texts_are_given_to_another_classifier(settings: Settings) -> None:
    table = TABLE.replace(
        "  Queries: {classifier: *sst2, attack: *typos, measure: queries}",
        "  Other: {classifier: *sst2, attack: *typos, transfer_to: {encoder: {method: none}}, measure: success_rate}",
    ).replace("[90, 80, 12, 85]", "[90, 80, null, 85]")
    found = values(reproduce(settings(table)))
    if found["NP", "Typos"]:  # what deceived a classifier deceives it again
        assert found["NP", "Other"] == 100.0
    assert found["SimCSE", "Other"] is None or 0.0 <= found["SimCSE", "Other"] <= 100.0


def test_an_encoder_is_evaluated(settings: Settings, data: Path, sentences: list[str], made: list[str]) -> None:
    (data / "stsb").mkdir()
    lines = [
        f"{a}\t{b}\t{n % 6}" for n, (a, b) in enumerate(zip(sentences, sentences[1:] + sentences[:1], strict=True))
    ]
    (data / "stsb" / "test.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n")
    table = TABLE.replace(
        "  Queries: {classifier: *sst2, attack: *typos, measure: queries}",
        "  STS-B: {evaluation: {tasks: stsb}, measure: stsb.spearman}",
    )
    given = settings(table)
    result = reproduce(given)
    (row,) = (row for row in result["results"] if (row["task"], row["split"]) == ("SimCSE", "STS-B"))
    model = next(path.parent for path in (given.output / "cells").glob("encoder-*/model/modules.json"))
    from holdfast.evaluation.sts import evaluate_sts
    from holdfast.models import load_sentence_transformer

    (expected,) = evaluate_sts(load_sentence_transformer(str(model)), tasks=["stsb"], data=data)
    assert row["metrics"]["mean"] == pytest.approx(expected["metrics"]["spearman"])


def test_the_table_for_reading(settings: Settings) -> None:
    result = reproduce(settings(only=["NP"]))
    text = markdown(result)
    lines = text.splitlines()
    header = lines.index("| encoder | Acc. | Typos | Queries | Mean |")
    assert lines[header + 1] == "| --- | ---: | ---: | ---: | ---: |"
    assert lines[header + 2].startswith("| NP | ")
    mean = result["results"][0]["metrics"]["mean"]
    assert f"{mean:.1f} (90.0, {mean - 90:+.1f})".replace("-", "−") in lines[header + 2]
    assert "1 seed." in text
    tex = latex(result)
    assert r"\begin{tabular}{lrrrr}" in tex
    assert r"NP & " in tex
    files = [settings().result_file.with_suffix(suffix) for suffix in (".md", ".tex")]
    assert [file.read_text(encoding="utf-8") for file in files] == [text, tex]


def test_a_success_rate_of_one_seed_has_its_interval(settings: Settings) -> None:
    result = reproduce(settings(only=["NP"]))
    rows = {row["split"]: row for row in result["results"]}
    attacked = read_result(settings().output / "cells" / f"attack-{rows['Typos']['cells'][0][:12]}" / "results.json")
    metrics = attacked["results"][0]["metrics"]
    low, high = metrics["success_rate_low"], metrics["success_rate_high"]
    assert rows["Typos"]["metrics"] == {"mean": metrics["success_rate"], "low": low, "high": high}
    assert [rows[name]["metrics"].keys() for name in ("Acc.", "Mean")] == [{"mean"}] * 2
    assert rows["Queries"]["metrics"].keys() == {"mean", "low", "high"}
    said = f"{metrics['success_rate']:.1f} [{low:.1f}, {high:.1f}] (80.0, "
    assert said in markdown(result)
    assert said in latex(result)
    assert "In square brackets: the 95 % interval of a single value, over its texts." in markdown(result)
    seeds = reproduce(settings(only=["NP"], seeds=2))
    (typos,) = (row for row in seeds["results"] if row["split"] == "Typos")
    assert typos["metrics"].keys() == {"mean", "std"}
    assert "[" not in markdown(seeds)


def test_latex_and_markdown_escape() -> None:
    result: dict[str, Any] = {
        "results": [
            {"task": "a_b", "split": "50 %", "labels": {"x|y": "a_b & $"}, "metrics": {"mean": 1.0, "std": 0.5},
             "n": 2, "published": 2, "not_run": []}
        ],
        "protocol": {"columns": ["50 %"], "title": "t", "source": "s", "scale": "small", "seeds": 2},
        "command": "c",
        "created": "2026-01-01T00:00",
    }  # fmt: skip
    assert r"a\_b \& \$ & 1.0 $\pm$ 0.5 (2.0, $-$1.0) \\" in latex(result)
    assert r"x\textbar{}y & 50 \%" in latex(result)
    assert r"| x\|y | 50 % |" in markdown(result)
    assert "mean nothing" not in markdown(result)
    result["protocol"]["scale"] = "smoke"
    assert "At this scale the numbers mean nothing" in markdown(result)
    result["results"][0]["labels"] = {"*": "[mask] <0.1 × …"}
    lines = latex(result).splitlines()
    assert r"{}* & 50 \% \\" in lines, "a star after a rule or a row is no argument of theirs"
    assert any(line.startswith(r"{}[mask] \textless{}0.1 $\times$ \ldots{} & 1.0") for line in lines)


def test_measures() -> None:
    def row(task: str, split: str, **metrics: float) -> dict[str, Any]:
        return {"task": task, "split": split, "metrics": metrics}

    result = {
        "results": [row("a", "dev", accuracy=1.0), row("a", "test", accuracy=2.0), row("b", "test", accuracy=4.0)]
    }
    assert measured("accuracy", result) == 2.0  # a test split before any other
    assert measured("b.accuracy", result) == 4.0
    assert measured("a/dev.accuracy", result) == 1.0
    assert measured("b/test.accuracy", result) == 4.0
    held = {"results": [row("rte", split, accuracy=n) for n, split in ((90.0, "held-out"), (60.0, "held-out-test"))]}
    assert measured("accuracy", held) == measured("rte.accuracy", held) == 60.0  # the other part chose the epoch
    assert measured("rte/held-out.accuracy", held) == 90.0
    assert measured("transfer", result) == pytest.approx(7 / 3)
    stroke = {"results": [row("textfooler/mr", "all", accuracy=5.0), row("textfooler", "mr", accuracy=6.0)]}
    assert measured("textfooler/mr.accuracy", stroke) == 5.0
    dev = {
        "results": [{**row("mr", "all", accuracy=1.0), "dev_accuracy": 70.0}, {**row("cr", "all"), "dev_accuracy": 80}]
    }
    assert measured("transfer_dev", dev) == 75.0
    assert measured("seconds_per_example", {"results": [], "timing": {"seconds_per_example": 0.5}}) == 0.5
    attacked = {"results": [row("a", "test", accuracy=90.0, accuracy_under_attack=30.0)]}
    assert measured("accuracy_drop", attacked) == 60.0
    tasks = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
    sts = {"results": [row(task, "test", spearman=float(number)) for number, task in enumerate(tasks)]}
    assert measured("sts", sts) == 3.0
    for measure, rows, why in [
        ("sts", result, "the result has no sts"),
        ("f1", result, "the result has no f1"),
        ("a/train.accuracy", result, "the result has no a/train.accuracy"),
        ("accuracy_drop", [row("a", "test", accuracy=90.0)], "the result has no accuracy_drop"),
        ("seconds_per_example", result, "the result has no seconds_per_example"),
        ("transfer_dev", result, "the result has no transfer_dev"),
        ("c.accuracy", result, "the result has no c.accuracy"),
        ("replaced", {"results": [row("a", "test", attacked=3, succeeded=0)]}, "no attack succeeded"),
        ("success_rate", {"results": [row("a", "test", attacked=0, succeeded=0)]}, "no example could be attacked"),
    ]:
        with pytest.raises(UserError, match=why):
            measured(measure, {"results": rows} if isinstance(rows, list) else rows)


@pytest.mark.parametrize(
    ("only", "rows"),
    [
        (["SimCSE"], ["SimCSE"]),
        (["SimCSE,"], ["SimCSE, longer"]),
        (["Sim"], ["SimCSE", "SimCSE, longer"]),
        (["NP", "SimCSE"], ["NP", "SimCSE"]),
    ],
)
def test_a_word_is_the_whole_name_of_a_row_or_a_part_of_several(
    only: list[str], rows: list[str], settings: Settings
) -> None:
    table = TABLE.replace("    SimCSE: {", "    SimCSE, longer: {encoder: {method: simcse}}\n    SimCSE: {")
    (prepared,) = prepare([settings(table, only=only)])
    assert sorted({entry.row.name for entry in prepared.entries}) == rows


FIGURE = "figure: {kind: lines, y: points, panels: [{x: n, points: {Acc.: 1, Queries: 2}}]}\n"


@pytest.mark.parametrize(
    ("names", "columns", "averages", "published", "points"),
    [
        (["Queries"], ["Queries"], [], [12], [{"Queries": 2}]),
        (["Mean"], ["Acc.", "Typos"], ["Mean"], [90, 80, 85], [{"Acc.": 1}]),
        (["Typos"], ["Typos"], [], [80], None),
        ([], ["Acc.", "Typos", "Queries"], ["Mean"], [90, 80, 12, 85], [{"Acc.": 1, "Queries": 2}]),
    ],
)
def test_columns_are_made_alone_and_an_average_with_its_columns(
    names: list[str],
    columns: list[str],
    averages: list[str],
    published: list[float],
    points: list[dict[str, int]] | None,
    settings: Settings,
) -> None:
    (prepared,) = prepare([settings(TABLE + FIGURE, columns=names)])
    definition = prepared.definition
    assert [entry.column for entry in prepared.entries if entry.row.name == "NP"] == columns
    assert list(definition.averages) == averages
    assert definition.published == {"NP": published}
    drawn = definition.figure and [panel["points"] for panel in definition.figure["panels"]]
    assert drawn == points


def test_the_page_says_that_the_table_has_more_columns(settings: Settings) -> None:
    given = settings(columns=["Acc."], only=["NP"], so_far=True)
    page = markdown(reproduce(given))
    assert "Only these columns: the table has more." in page
    assert "Typos" not in page


def test_mistakes(settings: Settings) -> None:
    with pytest.raises(UserError, match=r"--scale.*'smal'.*did you mean 'small'"):
        reproduce(settings(scale="smal"))
    with pytest.raises(UserError, match="--seeds must be from 1"):
        reproduce(settings(seeds=0))
    with pytest.raises(UserError, match="--only XYZ is in the name of no row; rows: NP, SimCSE"):
        reproduce(settings(only=["XYZ"]))
    with pytest.raises(UserError, match="--only simcse is in the name of no row; rows: NP, SimCSE"):
        reproduce(settings(only=["NP", "simcse"]))
    with pytest.raises(UserError, match=r"--columns .*'Typo' .*mean 'Typos'.* one of Acc., Typos, Queries, Mean"):
        reproduce(settings(columns=["Typo"]))
    with pytest.raises(UserError, match="nowhere"):
        reproduce(settings(model="./nowhere"))


def test_the_list_names_every_table() -> None:
    tables = {table["table"]: table for table in describe_tables()}
    assert tables["robustembed/table4"]["rows"] == 20
    assert tables["robustembed/table4"]["columns"] == 3
    assert tables["robustembed/table4"]["kind"] == "table"
    assert tables["robustembed/figure2"]["kind"] == "figure"


DIE = """
import os, signal, sys
from holdfast.experiments import cell_execution
count, real = int(sys.argv[1]), cell_execution.do
def do(cell, *rest):
    global count
    if count == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    count -= 1
    real(cell, *rest)
cell_execution.do = do
from holdfast.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    "inside",
    [
        "holdfast.training.training_run._run",
        "holdfast.classifiers.finetune_run._train",
        "holdfast.attacks.attack_run._result",
    ],
)
def test_a_cell_that_was_interrupted_is_gone_on_with(
    settings: Settings, made: list[str], monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    given = settings(only=["SimCSE"])
    with monkeypatch.context() as patch:
        patch.setattr(importlib.import_module(inside.rpartition(".")[0]), inside.rpartition(".")[2], stop)
        with pytest.raises(KeyboardInterrupt):
            reproduce(given)
    interrupted = made[-1]
    made.clear()
    result = reproduce(given)
    assert made[0] == interrupted
    assert all(row["not_run"] == [] for row in result["results"])


@pytest.mark.parametrize("finishes", [True, False])
def test_a_cell_that_another_run_is_making_is_waited_for(
    settings: Settings, made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finishes: bool
) -> None:
    whole = reproduce(settings(output=tmp_path / "whole"))
    order = list(made)
    made.clear()
    (there,) = (tmp_path / "whole" / "cells").glob("encoder-*")
    here = settings().output / "cells" / there.name
    here.mkdir(parents=True)
    other = contextlib.ExitStack()
    other.enter_context(locked(here.parent / f".{there.name}.lock", here))

    def sleep(_: float) -> None:
        """The other run ends, and has made the cell or not."""
        assert made == [label for label in order if "SimCSE" not in label and "simcse" not in label]
        if finishes:
            shutil.copytree(there, here, dirs_exist_ok=True)
        other.close()

    monkeypatch.setattr(experiments.time, "sleep", sleep)
    output = io.StringIO()
    result = reproduce(settings(), console=Console(file=output, width=300))
    assert values(result) == values(whole)
    assert output.getvalue().count("left for later") == 1
    assert ("encoder: SimCSE: simcse, seed 1" in made) is not finishes
    assert sorted(made) == sorted(label for label in order if not (finishes and label.startswith("encoder")))


@pytest.mark.slow
def test_a_killed_reproduction_goes_on_where_it_was(settings: Settings, made: list[str], tmp_path: Path) -> None:
    whole = reproduce(settings(output=tmp_path / "whole"))
    made.clear()
    given = settings()
    words = [
        *("reproduce", given.table, "--scale", "paper", "--output", str(given.output), "--model", str(given.model)),
        *("--corpus", str(given.corpus), "--data", str(given.data), "--similarity", given.resources.similarity),
    ]
    script = tmp_path / "die.py"
    script.write_text(DIE)
    killed = subprocess.run([sys.executable, str(script), "3", *words], env=dict(os.environ), capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]
    assert not given.result_file.exists()
    again = reproduce(given)
    assert [label.partition(":")[0] for label in made] == ["classifier", "attack"]
    assert values(again) == values(whole)


def test_the_table_so_far(settings: Settings, made: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    whole = reproduce(settings())
    count, given = len(made), settings()
    (attacked,) = (
        cell for row in whole["results"] for cell in row["cells"] if (row["task"], row["split"]) == ("NP", "Typos")
    )
    shutil.rmtree(next(given.output.glob(f"cells/attack-{attacked[:12]}")))
    (trained,) = given.output.glob("cells/encoder-*/model/results.json")
    trained.write_text(trained.read_text().replace("simcse", "SIMCSE"))  # damaged: what was made of it is not lost
    found = reproduce(settings(so_far=True))
    assert len(made) == count
    assert not next(given.output.glob(f"cells/attack-{attacked[:12]}"), None)
    there = {place: value for place, value in values(whole).items() if place[0] == "SimCSE" or place[1] == "Acc."}
    assert {place: value for place, value in values(found).items() if value is not None} == there
    assert {row["task"] for row in found["results"] if "not made yet" in row["not_run"]} == {"NP"}
    assert read_result(given.result_file)["results"] == found["results"]
    assert values(reproduce(settings())) == values(whole)
    more = reproduce(settings(so_far=True, seeds=2))
    assert values(more) == values(whole)
    row = next(row for row in more["results"] if (row["task"], row["split"]) == ("SimCSE", "Mean"))
    assert (row["seeds"], row["not_run"]) == ([1], ["not all of its columns' seeds were run"])
    assert "With fewer than 2 seeds: NP (1), SimCSE (1).\n" in markdown(more)


def test_a_removed_model_is_made_again_only_where_a_cell_takes_it(settings: Settings, made: list[str]) -> None:
    whole, given = reproduce(settings()), settings()
    records = sorted(given.output.glob("cells/*/model/results.json"))
    kinds = [path.parts[-3].partition("-")[0] for path in records]
    assert kinds == ["classifier", "classifier", "encoder"]
    for path in records:
        for name in read_result(path)["model_files"]:
            (path.parent / name).unlink()
    made.clear()

    def planned() -> int:
        return sum(sort.cells - sort.finished for sort in plan([given]).sorts)

    assert planned() == 0
    assert values(reproduce(settings())) == values(whole)
    assert values(reproduce(settings(so_far=True))) == values(whole)
    assert made == []
    (attacked,) = (
        cell for row in whole["results"] for cell in row["cells"] if (row["task"], row["split"]) == ("SimCSE", "Typos")
    )
    shutil.rmtree(next(given.output.glob(f"cells/attack-{attacked[:12]}")))
    assert planned() == 3
    again = reproduce(settings())
    assert [label.partition(":")[0] for label in made] == ["encoder", "classifier", "attack"]
    assert values(again) == values(whole)
    made.clear()
    weights = next(given.output.glob("cells/encoder-*/model/model.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1])  # changed: damage
    reproduce(settings())
    assert [label.partition(":")[0] for label in made] == ["encoder"]


def test_the_command(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    from holdfast.cli import main

    given = settings()
    words = [
        *("reproduce", given.table, "--scale", "paper", "--output", str(given.output), "--model", str(given.model)),
        *("--corpus", str(given.corpus), "--data", str(given.data), "--only", "NP", "--masked-lm", str(given.model)),
    ]
    assert main([*words, "--similarity", str(given.model)]) == 0
    out = capsys.readouterr()
    assert "Small: ours (published, difference)" in out.out
    assert "[1/2] classifier: NP: tiny on sst2 (none)" in out.err
    assert main([*words, "--similarity", str(given.model), "--seeds", "2"]) == 0
    message = capsys.readouterr().err
    assert re.search(r"\[1/2\] classifier: .*, about \d+ s left", message), "by those of the first seed"
    assert main([*words, "--similarity", str(given.model), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "reproduce"
    assert main(["reproduce", "list"]) == 0
    assert "adcl/table1" in capsys.readouterr().out
    assert main(["reproduce", "adcl/tabel1"]) == 2
    assert "did you mean 'adcl/table1'" in capsys.readouterr().err


def test_several_tables_share_their_cells_and_have_an_index(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from holdfast.cli import main

    given = settings()
    other = tmp_path / "other.yaml"
    other.write_text(
        TABLE.replace("title: Small", "title: Other\nfigure: {kind: scatter, x: Acc., y: Typos}\nclaim: They differ.")
    )
    words = [
        *("reproduce", given.table, str(other), "--scale", "paper", "--output", str(given.output), "--model"),
        *(str(given.model), "--corpus", str(given.corpus), "--data", str(given.data), "--masked-lm", str(given.model)),
        *("--similarity", str(given.model)),
    ]
    assert main(words) == 0
    out = capsys.readouterr()
    assert "Small: ours" in out.out
    assert "Other: ours" in out.out
    assert "table 2 of 2" in out.err
    assert "2 tables: " in out.err
    assert "6 cells, 6 of them finished" in out.err, "the second table is made of the first one's cells"
    assert main([*words, "--json"]) == 0
    out = capsys.readouterr()
    first, second = json.loads(out.out)
    assert values(first) == values(second)
    assert out.err == ""
    page = (given.output / "tables-paper.md").read_text()
    assert "| [other-paper](other-paper.md) | Other | a test | 8 | 0 |" in page
    assert (given.output / "other-paper.md").exists()
    message = (given.output / "other-paper.md").read_text()
    assert "The claim: They differ." in message
    assert "![Other](other-paper.svg)" in message
    assert (given.output / "other-paper.svg").exists()
    assert "svg" not in (given.output / "small-paper.md").read_text()
    assert main([*words, "--only", "NP"]) == 2
    assert "--only is of the rows of one table" in capsys.readouterr().err
    (tmp_path / "there").mkdir()
    namesake = tmp_path / "there" / "other.yaml"
    namesake.write_text(TABLE)
    assert main([*words, str(namesake)]) == 2
    assert "two of the tables would write the same result" in capsys.readouterr().err


def test_a_papers_name_means_all_of_its_tables() -> None:
    assert tables_named(["adcse"]) == [f"adcse/{name}" for name in ("figure3", "figure4", "table1", "table2", "table3")]
    assert tables_named(["all"]) == known_tables()
    assert tables_named(["adcl/table1", "adcl/table1", "mine.yaml"]) == ["adcl/table1", "mine.yaml"]


def test_a_file_of_ones_own_gives_the_result_its_name(settings: Settings) -> None:
    given = settings()
    assert given.result_file == given.output / "small-paper.json"
    assert settings(table=TABLE, scale="smoke").result_file.name == "small-smoke.json"
    known = ReproduceSettings("robustembed/figure2", "smoke", given.output)
    assert known.result_file == given.output / "robustembed-figure2-smoke.json"


def test_a_training_that_goes_on_from_another(settings: Settings, made: list[str], tmp_path: Path) -> None:
    simcse = "{method: simcse, max_steps: 2, batch_size: 4, precision: fp32, selection: last}"
    near = tmp_path / "near.tsv"
    near.write_text("word\tneighbors\ndog\tcat\n")
    table = TABLE.partition("published")[0].replace(
        f"SimCSE: {{encoder: {simcse}}}",
        f"SimCSE: {{encoder: {simcse}}}\n    Both: {{encoder: {{method: anchored, max_steps: 1, batch_size: 4, "
        f"selection: last, options: {{synonyms: {near}}}, from: {simcse}}}}}",
    )
    found = values(reproduce(settings(table)))
    assert found["Both", "Acc."] is not None
    assert [label for label in made if label.startswith("encoder")] == [
        "encoder: SimCSE; Both: simcse, seed 1",
        "encoder: Both: anchored from simcse, seed 1",
    ]


def test_a_training_that_learns_from_another(settings: Settings, made: list[str]) -> None:
    """The teacher is the encoder of another row, which is trained once."""
    steps = "max_steps: 2, batch_size: 4, precision: fp32, selection: last"
    simcse = f"{{method: simcse, {steps}}}"
    table = TABLE.partition("published")[0].replace(
        f"SimCSE: {{encoder: {simcse}}}",
        f"SimCSE: {{encoder: {simcse}}}\n    Ranked: {{encoder: {{method: rankcse, {steps}, teacher: {simcse}}}}}",
    )
    given = settings(table)
    found = values(reproduce(given))
    assert found["Ranked", "Acc."] is not None
    assert [label for label in made if label.startswith("encoder")] == [
        "encoder: SimCSE; Ranked: simcse, seed 1",
        "encoder: Ranked: rankcse, seed 1",
    ]
    protocols = [read_result(path)["protocol"] for path in given.output.rglob("encoder-*/model/results.json")]
    teachers = [Path(each["options"]["teacher"]) for each in protocols if each["method"] == "rankcse"]
    assert len(teachers) == 1
    assert (teachers[0] / "model.safetensors").exists()
    wrong = reproduce(settings(table.replace("rankcse", "simcse")))
    reasons_given = {reason for row in wrong["results"] if row["task"] == "Ranked" for reason in row["not_run"]}
    assert "encoder: the method simcse has no teacher" in reasons_given
