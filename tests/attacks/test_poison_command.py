"""`holdfast attack --goal poison`: the result, a killed run, held-out queries, and mistakes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_attacks import mistake

from holdfast.attacks.attack_run import attack
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.journal import journals
from holdfast.attacks.poisoning import poison_run
from holdfast.attacks.poisoning.mean_similarity import SearchSpace
from holdfast.attacks.poisoning.poison_journal import PoisonJournal
from holdfast.attacks.poisoning.poison_queries import split_queries
from holdfast.cli import main
from holdfast.results import read_result

POISON = [
    *("attack", "encoder", "--goal", "poison", "--search", "mine.txt", "--queries", "others.txt", "--passages", "2"),
    *("--masked-lm", "lm", "--set", "words=8", "--set", "steps=12", "--set", "candidates=5", "--seed", "3"),
]


@pytest.fixture
def there(here: Path, corpus: list[str], make_masked_lm: Callable[..., Path]) -> Path:
    """The folder with an encoder, its texts, others as queries, and a masked LM."""
    make_masked_lm(here / "lm", seed=4)
    return here


def content(path: Path) -> dict[str, Any]:
    result = read_result(path)
    for key in ("created", "timing", "command", "environment"):
        result.pop(key)
    return result


def test_the_result_has_success_beside_controls_and_detectors(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*POISON, "--output", "r.json"]) == 0
    shown = capsys.readouterr().out
    for text in ("made passages", "as many documents", "as many random texts", "k-occurrence", "perplexity above"):
        assert text in shown
    assert "passages made for 15 queries of others.txt, measured on 15 others, among 40 documents of mine.txt" in shown
    result = read_result(there / "r.json")
    assert [row["recipe"] for row in result["results"]] == ["hotflip", "masked-lm", "natural"]
    for row in result["results"]:
        metrics = row["metrics"]
        assert row["n"] == 15 == len(row["ranks"])
        for k in (1, 10, 20):
            assert metrics[f"success@{k}"] == pytest.approx(100 * sum(r <= k for r in row["ranks"]) / 15)
            for kind in ("success", "begin", "ordinary", "random"):
                low, value, high = (metrics[f"{kind}@{k}{end}"] for end in ("_low", "", "_high"))
                assert 0 <= low <= value <= high <= 100
        assert metrics["success_rate"] == metrics["success@10"]
        assert metrics["similarity_after"] > metrics["similarity_before"]
        assert math.isfinite(metrics["perplexity_made"])
        assert metrics["hub_clean"] == pytest.approx(10 * 15 / 40)
    bound = result["protocol"]["perplexity_bounds"]["natural"]
    natural = [row for row in result["examples"] if row["recipe"] == "natural"]
    assert len(natural) == 2
    assert all(row["original"] and row["adversarial"] and row["other"] for row in natural)
    assert bound > 0
    assert main(["show", "r.json", "--outcome", "all"]) == 0
    assert natural[0]["adversarial"].split()[0] in capsys.readouterr().out


def test_a_stopped_run_goes_on_to_the_same_result(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.attacks.poisoning.passage_making.KEPT_EVERY", 3)
    assert main([*POISON, "--output", "whole.json"]) == 0
    add = PoisonJournal.add
    left = 0

    def dying(self: PoisonJournal, *arguments: Any) -> None:
        nonlocal left
        add(self, *arguments)
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(PoisonJournal, "add", dying)
    for count in (3, 4, 8):
        left = count
        assert main([*POISON, "--output", "parts.json", "--resume"]) != 0
        assert not (there / "parts.json").exists()
        (journal,) = journals(there / "parts.json")
        with journal.open("ab") as file:  # a line that was being written
            file.write(b'{"row": {"recipe": "hotf')
    kept: list[Any] = []
    monkeypatch.setattr(PoisonJournal, "add", lambda self, *row: kept.append(row) or add(self, *row))
    assert main([*POISON, "--output", "parts.json", "--resume"]) == 0
    assert content(there / "parts.json") == content(there / "whole.json")
    assert not list(journals(there / "parts.json"))
    again = len(kept)
    kept.clear()
    assert main([*POISON, "--output", "whole.json"]) == 0
    assert again == len(kept) - 15  # what was kept is not made again


def test_a_journal_of_another_run_is_refused(
    there: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(poison_run, "_made", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main([*POISON, "--output", "r.json"]) != 0
    assert "continue it with --resume" in mistake(capsys, [*POISON, "--output", "r.json"])
    assert "with another goal and seed" in mistake(capsys, [*POISON, "--output", "r.json", "--resume", "--seed", "4"])


def test_a_journal_that_lost_its_first_line_gets_it_again(
    there: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as stopped:
        stopped.setattr(poison_run, "_made", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert main([*POISON, "--output", "r.json"]) != 0
        journal = there / ".r.json.journal-000"
        whole = journal.read_bytes()
        journal.write_bytes(whole[:20])
        assert main([*POISON, "--output", "r.json", "--resume"]) != 0
        assert journal.read_bytes() == whole
        capsys.readouterr()
    assert "with another goal and seed" in mistake(capsys, [*POISON, "--output", "r.json", "--resume", "--seed", "4"])


def test_held_out_queries_are_not_read_before_all_passages_are_made(
    there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (there / "others.txt").read_text().splitlines()
    split = split_queries(lines, seed=3)
    held, read, measuring = set(split.held_out), set[str](), False
    vectors, made = SearchSpace._vectors, poison_run._result

    def spy(self: SearchSpace, texts: Any, *arguments: Any) -> Any:
        if not measuring:
            read.update(texts)
        return vectors(self, texts, *arguments)

    def result(*arguments: Any) -> Any:
        nonlocal measuring
        measuring = True
        return made(*arguments)

    monkeypatch.setattr(SearchSpace, "_vectors", spy)
    monkeypatch.setattr(poison_run, "_result", result)
    assert main([*POISON, "--output", "one.json"]) == 0
    assert set(split.fitted) <= read
    assert not held & read
    # Other held-out queries: the same passages.
    monkeypatch.setattr(
        "holdfast.attacks.poisoning.poison_inputs.split_queries",
        lambda *_, **__: type(split)(split.fitted, ["a cat sleeps in a red bed", *split.held_out[1:]]),
    )
    assert main([*POISON, "--output", "two.json"]) == 0
    texts = [[row["adversarial"] for row in read_result(there / name)["examples"]] for name in ("one.json", "two.json")]
    assert texts[0] == texts[1]


def test_a_function_without_a_masked_lm_is_measured_without_perplexity(
    there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = AttackSettings(
        "encoder", recipes=["hotflip"], goal="poison", search="mine.txt", queries="others.txt", passages=1,
        constants={"words": 6, "steps": 2, "hotflip.candidates": 3},
    )  # fmt: skip
    result = attack(settings)
    (row,) = result["results"]
    assert "perplexity_made" not in row["metrics"]
    assert "perplexity is not measured" in result["protocol"]["notes"][0]
    assert result["protocol"]["recipes"]["hotflip"]["changed_from_published"] == {
        "words": 6, "steps": 2, "candidates": 3
    }  # fmt: skip


def test_the_estimate_makes_nothing(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*POISON, "--estimate", "--json", "--recipes", "hotflip"]) == 0
    assert json.loads(capsys.readouterr().out)["estimate"]["queries"] == 2 * 12 * 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--queries", "others.txt"], "needs --search CORPUS"),
        (["--search", "mine.txt"], "needs --queries FILE"),
        (["--search", "mine.txt", "--queries", "mine.txt"], "are both mine.txt"),
        (["--search", "-", "--queries", "-,mine.txt"], "standard input"),
        (
            ["--search", "mine.txt", "--queries", "others.txt", "--texts", "mine.txt"],
            "--texts mine.txt does not go with",
        ),
        (["--search", "mine.txt", "--queries", "others.txt", "--k", "3"], "--k 3 is for --goal neighbours, and this"),
        (["--search", "mine.txt", "--queries", "others.txt", "--processes", "2"], "runs in one process"),
        (["--search", "mine.txt", "--queries", "others.txt", "--recipes", "hotfli"], "did you mean"),
        (["--search", "mine.txt", "--queries", "others.txt", "--recipes", "pwws"], "makes no passages"),
        (["--search", "mine.txt", "--queries", "others.txt", "--set", "natural.percentile=0"], "percentile must be"),
        (["--search", "mine.txt", "--queries", "others.txt", "--passages", "20"], "more than 40 are needed"),
        (["--search", "mine.txt", "--queries", "others.txt", "--examples", "19"], "19 different queries"),
    ],
)
def test_mistakes_are_one_line(there: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert message in mistake(capsys, ["attack", "encoder", "--goal", "poison", "--masked-lm", "lm", *words])


def test_an_output_that_is_a_folder_is_refused_at_once(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (there / "made").mkdir()
    assert "made is a folder; --output takes a file" in mistake(capsys, [*POISON, "--output", "made"])


def test_queries_are_for_this_goal(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["attack", "encoder", "--texts", "mine.txt", "--queries", "others.txt"]
    assert "--queries others.txt is for --goal poison" in mistake(capsys, words)
