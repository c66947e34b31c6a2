"""Reading results for a report: names of models, seeds, logs, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_results import attack, audit, compare, evaluate, example, result, row, train, transfer, write

from holdfast.errors import UserError
from holdfast.report.result_sources import models_of, read_sources, shown


def test_results_of_one_model_share_its_name(tmp_path: Path) -> None:
    words = [write(tmp_path / "e.json", evaluate("runs/a", 60)), write(tmp_path / "t.json", attack("runs/a", 50))]
    words += [write(tmp_path / "c.json", compare())]
    sources = read_sources(words)
    assert [source.label for source in sources] == ["a", "a", ""]
    assert models_of(sources) == ["a"]


def test_models_of_one_name_are_told_apart_by_their_folders_then_their_hashes(tmp_path: Path) -> None:
    names = ["x/model", "y/model", "other"]
    words = [write(tmp_path / f"{n}.json", evaluate(name, 60)) for n, name in enumerate(names)]
    assert models_of(read_sources(words)) == ["x/model", "y/model", "other"]
    first = write(tmp_path / "1.json", evaluate("model", 60, model_sha256="aaaaaaaaaa"))
    second = write(tmp_path / "2.json", evaluate("model", 61, model_sha256="bbbbbbbbbb"))
    assert models_of(read_sources([first, second])) == ["model (aaaaaaaa)", "model (bbbbbbbb)"]


def test_poolings_of_one_model_are_models(tmp_path: Path) -> None:
    made = {p: evaluate("lm", 60, protocol={"pooling": p}) for p in ("cls", "mean")}
    words = [write(tmp_path / f"{name}.json", value) for name, value in made.items()]
    assert models_of(read_sources(words)) == ["lm (sha of l, cls)", "lm (sha of l, mean)"]


def test_a_second_measurement_of_the_same_carries_its_files_name(tmp_path: Path) -> None:
    words = [write(tmp_path / f"{name}.json", attack("runs/a", 50)) for name in ("first", "second")]
    assert models_of(read_sources(words)) == ["a", "a [second]"]


def test_a_model_is_no_two_seeds_of_itself(tmp_path: Path) -> None:
    words = [write(tmp_path / f"{name}.json", evaluate("runs/a", 60)) for name in ("first", "copy")]
    with pytest.raises(UserError, match=r"first\.json and .*copy\.json hold the same model: seeds are models of"):
        read_sources([",".join(words)])
    read_sources(words)  # of one model, measured twice


def test_seeds_share_a_name(tmp_path: Path) -> None:
    words = [write(tmp_path / f"{n}.json", evaluate(f"runs/a-{n}", 60 + n)) for n in (1, 2)]
    sources = read_sources([",".join(words)])
    assert {source.label for source in sources} == {"a-1 (2 seeds)"}
    assert [source.number for source in sources] == [1, 2]


def test_a_log_is_read_without_the_line_that_a_kill_cut_short(tmp_path: Path) -> None:
    path = train(tmp_path / "run")
    log = tmp_path / "run" / "metrics.jsonl"
    log.write_text(log.read_text() + '{"step": 100, "loss": 0.0', encoding="utf-8")
    (source,) = read_sources([path])
    assert len(source.log) == 6
    assert source.log[0]["step"] == 25


def test_no_log_is_no_mistake(tmp_path: Path) -> None:
    path = train(tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").unlink()
    assert read_sources([path])[0].log == ()


def test_texts_can_be_shown_and_encoded() -> None:
    assert shown({"k\0": ["a\x1bb", 1, None, "tab\tline\n", "\ud800x", "אב", "\u202ec"]}) == {
        r"k\x00": [r"a\x1bb", 1, None, "tab\tline\n", r"\ud800x", "אב", r"\u202ec"]
    }
    assert shown([0, "a\x00"]) == [0, r"a\x00"], "a list that begins with a number holds texts too"


def without(made: dict[str, Any], where: str, key: str) -> dict[str, Any]:
    target = made["results"][0] if where == "row" else made["results"][0]["metrics"]
    del target[key]
    return made


MISTAKES = [
    (attack("a", 50, examples={"recipe": "pwws"}), "holds no examples"),
    (attack("a", 50, examples=["text"]), "example 1 is not an object"),
    (
        attack("a", 50, examples=[example(1), {"recipe": "pwws"}]),
        "example 2: not a complete",
    ),
    (without(compare(), "metrics", "p"), "row 1 of a compare result has no 'p'"),
    (without(transfer(), "row", "on"), "has no 'on'"),
    (without(audit(), "row", "told"), "has no 'told'"),
    (result("evaluate", rows=[row("stsb", metrics={"spearman": 1.0}), {"task": "x"}]), "row 2"),
]


@pytest.mark.parametrize(("made", "message"), MISTAKES)
def test_what_is_no_result_is_refused_in_a_line(tmp_path: Path, made: dict[str, Any], message: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(made), encoding="utf-8")
    with pytest.raises(UserError) as caught:
        read_sources([str(path)])
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_is_given_once(tmp_path: Path) -> None:
    path = write(tmp_path / "e.json", evaluate("a", 60))
    with pytest.raises(UserError, match="twice"):
        read_sources([path, f"{tmp_path}/../{tmp_path.name}/e.json"])
    with pytest.raises(UserError, match="missing"):
        read_sources([","])
