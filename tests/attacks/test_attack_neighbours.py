"""`holdfast attack --goal neighbours`: which texts are searched, and what the result shows of them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from small_attacks import mistake

from holdfast.cli import main
from holdfast.results import read_result

NEIGHBOURS = ["attack", "encoder", "--goal", "neighbours", "--k", "2", "--recipes", "pwws", "--precision", "fp32"]


def searched(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], dict[int, Any]]:
    """What a result says was searched, and its examples by number."""
    capsys.readouterr()
    assert main([*NEIGHBOURS, *words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    return result["protocol"]["goal"]["searched"], {row["number"]: row for row in result["examples"]}


def test_neighbours_are_sought_among_all_lines_however_few_are_attacked(
    here: Path, corpus: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    record, few = searched(["--texts", "mine.txt", "--k", "8", "--recipes", "typos", "--examples", "3"], capsys)
    assert record == {
        "source": "mine.txt",
        "sentences": 41,
        "different": 40,
        "sha256": hashlib.sha256("\n".join([*corpus, corpus[0]]).encode()).hexdigest(),
        "cut": False,
    }
    again, more = searched(["--texts", "mine.txt", "--k", "8", "--recipes", "typos", "--examples", "12"], capsys)
    _, every = searched(["--texts", "mine.txt", "--k", "8", "--recipes", "typos"], capsys)
    assert again == record
    assert (len(few), len(more), len(every)) == (3, 12, 41)
    for number, row in [*few.items(), *more.items()]:
        assert {**row, "passes": 0} == {**every[number], "passes": 0}
    outcomes = [row["outcome"] for row in every.values()]
    assert {"succeeded", "failed"} <= {*outcomes}
    for row in every.values():
        before, after = row["before"]["neighbours"], row["after"]["neighbours"]
        assert len(before) == len(after) == 8
        assert {*before, *after} <= {*corpus} - {row["original"]}
        assert row["after"]["value"] == len({*before} & {*after}) / 8
        assert (row["outcome"] == "succeeded") == (not {*before} & {*after})
    # Of a task the whole split is searched, too.
    record, _ = searched(["--task", "textfooler/mnli", "--examples", "3"], capsys)
    assert (record["source"], record["sentences"]) == ("textfooler/mnli all", 40)


def test_another_corpus_is_searched_and_neighbours_are_shown(
    here: Path, corpus: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--texts", "mine.txt", "--search", "others.txt", "--examples", "20"]
    record, rows = searched(words, capsys)
    others = (here / "others.txt").read_text().splitlines()
    assert (record["source"], record["sentences"], record["cut"]) == ("others.txt", 30, False)
    assert all({*row["before"]["neighbours"], *row["after"]["neighbours"]} <= {*others} for row in rows.values())

    monkeypatch.setattr("holdfast.attacks.search_corpus.SEARCHED_MOST", 12)
    assert main([*NEIGHBOURS, *words, "--examples", "9", "--output", "r.json"]) == 0
    assert "neighbours among 12 different texts of others.txt (its first 12 sentences)" in capsys.readouterr().out
    result = read_result(here / "r.json")
    assert result["protocol"]["goal"]["searched"]["cut"] is True
    row = next(row for row in result["examples"] if row["outcome"] == "succeeded")
    assert {*row["before"]["neighbours"], *row["after"]["neighbours"]} <= {*others[:12]}
    assert json.loads((here / "r.examples.jsonl").read_text().splitlines()[0]) == result["examples"][0]
    assert main(["show", "r.json"]) == 0
    first, second = row["before"]["neighbours"]
    now, then = row["after"]["neighbours"]
    expected = f"  nearest: {first}\n           {second}\n  now:     {now}\n           {then}\n"
    assert " ".join(expected.split()) in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--texts", "mine.txt", "--goal", "drift", "--search", "others.txt"], "--search others.txt is for --goal n"),
        (["--task", "textfooler/mnli", "--goal", "auto", "--search", "others.txt"], "is for --goal neighbours"),
        (["--texts", "mine.txt", "--search", "blank.txt"], "blank.txt"),
        (["--texts", "mine.txt", "--search", "othrs.txt"], "others.txt"),
        (["--texts", "few.txt"], "few.txt has 4 different texts, and to displace 2 neighbours, more than 4"),
        (["--texts", "mine.txt", "--search", "few.txt"], "few.txt has 4 different texts"),
        (["--texts", "mine.txt", "--k", "20"], "mine.txt has 40 different texts, and to displace 20"),
        (["--texts", "-", "--search", "-"], "only once"),
        (["--texts", "mine.txt", "--search", "-", "--processes", "2", "--output", "r.json"], "by one process only"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_in_what_is_searched_are_one_line(
    here: Path, corpus: list[str], capsys: pytest.CaptureFixture[str], words: list[str], line: str
) -> None:
    (here / "blank.txt").write_text("\n \n")
    (here / "few.txt").write_text("".join(f"{text}\n" for text in (*corpus[:4], corpus[0])))
    assert line in mistake(capsys, [*NEIGHBOURS, *words])
