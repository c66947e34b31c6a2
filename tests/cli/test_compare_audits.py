"""`holdfast compare` of audits: item by item, on the same texts, with the same settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compared_results import here as here
from compared_results import mistake, rows_of, sts, write
from scipy.stats import binomtest

from holdfast.cli import main
from holdfast.results import read_result, write_result


def audited(name: str, *, seed: int = 42, sha256: str = "t", lost: float = 0.1, **opened: str) -> str:
    """An audit of texts 3 to 42, but that text 3 has no copy where ``lost`` is more than 0.1, and 4 is skipped."""
    texts = [number for number in range(3, 43) if number > 3 or lost <= 0.1]
    stability = [round(1 - lost - 0.001 * (number % 5), 5) for number in texts]
    gold = sts("audit-quality", lost * 10, seed=len(name)) | {"split": "dev", "headline": "spearman"}
    rows = [
        gold,
        audit_row("audit-typos", len(texts), "stability", {"text": texts, "stability": stability}),
        audit_row("audit-noise", len(texts), "found", {"text": texts, "correct": [int(n % 2) for n in texts]}),
        audit_row("audit-vectors", 40, "different_texts", None),
        audit_row("audit-adversarial-typos", 40, "success_rate", None) | {"recipe": "typos", "skipped": {}},
        audit_row("audit-neighbours", 40, "success_rate", None) | {"recipe": "typos", "skipped": {}},
    ]
    examples = [
        {
            "item": item,
            "number": n,
            "recipe": "typos",
            "original": f"text {n}",
            "outcome": "skipped" if n == 4 else "succeeded" if n % 10 < reach else "failed",
        }
        for item, reach in (("audit-adversarial-typos", 10 * lost), ("audit-neighbours", 5))
        for n in range(3, 43)
    ]
    protocol = {"texts": {"sha256": sha256}, "max_words": 64, "opened_resources": opened}
    return write(name, rows, kind="audit", protocol=protocol, examples=examples, seed=seed)


def audit_row(task: str, n: int, headline: str, items: Any) -> dict[str, Any]:
    found = {"task": task, "split": "all", "n": n, "metrics": {headline: 0.5}, "headline": headline}
    return found if items is None else found | {"items": items}


def test_audits_are_compared_item_by_item_on_the_same_texts(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = audited("a.json"), audited("bb.json", lost=0.3)
    found = {row["task"]: row for row in rows_of(capsys, a, b)}
    metrics = {task: row["metric"] for task, row in found.items()}
    assert metrics == {
        "audit-quality": "spearman",
        "audit-typos": "stability",
        "audit-noise": "found",
        "audit-adversarial-typos": "success_rate",
        "audit-neighbours": "success_rate",
    }
    assert [found[task]["n"] for task in ("audit-typos", "audit-adversarial-typos")] == [39, 39]
    typos = found["audit-typos"]["metrics"]
    assert typos["difference"] == pytest.approx(-0.2)
    assert typos["low"] == pytest.approx(-0.2)
    attacked = found["audit-adversarial-typos"]["metrics"]  # of 39 texts, those that end in 0, and in 0, 1 or 2
    assert (attacked["baseline"], attacked["other"]) == pytest.approx((100 * 4 / 39, 100 * 12 / 39))
    assert attacked["p"] == pytest.approx(binomtest(0, 8).pvalue)
    assert found["audit-neighbours"]["metrics"]["difference"] == 0.0
    assert main(["compare", a, b]) == 0
    message = capsys.readouterr().out
    assert "-0.200 to -0.200" in message
    assert "audit-" not in message  # its items are named as in the audit's own table
    assert re.search(r"adversarial-typos +39 ", message)


def poisoned(name: str, ranks: list[int] | None, *, kind: str, queries: str = "q", passages: int = 5) -> str:
    """Passages of which one reached its goal, whatever the queries find; and a text that is attacked in audits."""
    examples = [{"recipe": "hotflip", "original": f"passage {i}", "outcome": "succeeded"} for i in range(3)]
    task = "poison" if kind == "attack" else "audit-poisoning"
    row = {"task": task, "split": "all", "n": 40, "metrics": {"success_rate": 50.0}, "headline": "success_rate"}
    row |= {"recipe": "hotflip", "skipped": {}} | ({} if ranks is None else {"ranks": ranks})
    protocol: dict[str, Any] = {"texts": {"sha256": "t"}, "goal": {"kind": "poison", "searched": {"sha256": "s"}}}
    protocol["goal"]["passages"] = passages
    protocol["recipes"] = {"hotflip": {"constants": {}}}
    (protocol if kind == "attack" else row)["held_out_sha256"] = queries
    typos = audit_row("audit-typos", 40, "stability", {"text": list(range(40)), "stability": [0.9] * 40})
    rows = [row] if kind == "attack" else [row, typos]
    return write(name, rows, kind=kind, protocol=protocol, examples=examples, seed=42)


@pytest.mark.parametrize("kind", ["attack", "audit"])
def test_poisoning_is_compared_query_by_query(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    a = poisoned("a.json", [1, 10, 11, 500] * 10, kind=kind)
    b = poisoned("b.json", [1, 11, 11, 500] * 10, kind=kind)
    row = next(row for row in rows_of(capsys, a, b) if "poison" in row["task"])
    assert (row["n"], row["metric"]) == (40, "success_rate")
    assert (row["metrics"]["baseline"], row["metrics"]["other"]) == (50.0, 25.0)
    assert row["metrics"]["p"] == pytest.approx(binomtest(0, 10).pvalue)
    for other, reason in (
        (poisoned("c.json", None, kind=kind), "is of an earlier version, without a value of each query"),
        (poisoned("d.json", [1] * 40, kind=kind, queries="r"), "measured with other queries"),
        *([(poisoned("e.json", [1] * 40, kind=kind, passages=50), "passages")] if kind == "attack" else []),
    ):
        code = main(["compare", a, other])
        message = " ".join("".join(capsys.readouterr()).split())
        assert (code, reason in message) == (2 if kind == "attack" else 0, True), message


def test_both_kinds_of_a_labelled_sets_pairs_vary(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(4)

    def labelled(name: str, *, old: bool = False) -> str:
        nearer = rng.random((2, 60)).round(5)
        nearer[1] += nearer[0].mean() - nearer[1].mean()
        row = audit_row("audit-snli", 60, "p_entailed_nearer", {"text": list(range(60)), "nearer": nearer[0].tolist()})
        row |= {"entailed": 60} | ({} if old else {"entailed_nearer": nearer[1].tolist()})
        return write(name, [row], kind="audit", protocol={"texts": {"sha256": "t"}}, seed=42)

    (both,) = rows_of(capsys, labelled("a.json"), labelled("b.json"))
    (one,) = rows_of(capsys, "a.json", labelled("c.json", old=True))
    assert (both["n"], one["n"]) == (120, 60)
    widths = [row["metrics"]["high"] - row["metrics"]["low"] for row in (both, one)]
    assert widths[0] > 1.2 * widths[1]
    assert main(["compare", "a.json", "c.json"]) == 0
    assert "its interval is too narrow" in " ".join("".join(capsys.readouterr()).split())


def test_audits_of_other_texts_or_changes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    a = audited("a.json")
    for other in (audited("b.json", seed=7), audited("c.json", sha256="u")):
        assert "audit both with the same --texts, --seed and --max-words" in mistake(capsys, a, other)
    assert "an audit with an audit" in mistake(capsys, a, write("d.json", [sts("stsb", 1.0)]))
    assert main(["compare", a, audited("e.json", wordnet="another")]) == 0
    assert "used different resources" in capsys.readouterr().out


def test_audits_without_a_text_in_common_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    protocol = {"texts": {"sha256": "t"}, "max_words": 64}
    paths = [
        write(name, [audit_row("audit-typos", 1, "stability", {"text": [number], "stability": [0.5]})],
              kind="audit", protocol=protocol, seed=42)
        for number, name in enumerate(("a.json", "b.json"))
    ]  # fmt: skip
    assert "no text in common" in mistake(capsys, *paths)


def changed(path: str, *, constants: dict[str, Any] | None = None, **protocol: Any) -> str:
    """The audit with other constants of its recipes, and another protocol."""
    result = read_result(Path(path))
    rows = [{**row, "constants": constants} if "recipe" in row and constants else row for row in result["results"]]
    write_result(Path(path), {**result, "results": rows, "protocol": {**result["protocol"], **protocol}})
    return path


def test_an_item_of_an_audit_that_was_set_otherwise_is_left_out_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = audited("a.json"), audited("bb.json", lost=0.3)
    changed(a, constants={"tries": 1, "same_tag": True}, neighbours=5, random_synonyms="WordNet; inflected")
    changed(b, constants={"tries": 1, "same_tag": True}, neighbours=3, random_synonyms="WordNet; not inflected")
    assert main(["compare", a, b, "--output", "c.json"]) == 0
    out = capsys.readouterr().out
    line = (
        "different settings, so not compared: audit-neighbours all typos: bb.json has neighbours 3, a.json neighbours 5"
    )
    assert line in out
    assert "the audits used different resources (random_synonyms)" in out
    result = read_result(Path("c.json"))
    tasks = [row["task"] for row in result["results"]]
    assert "audit-adversarial-typos" in tasks
    assert "audit-neighbours" not in tasks
    assert line in result["protocol"]["notes"][0]
    changed(b, constants={"tries": 1, "same_tag": False}, neighbours=5)
    assert {row["task"] for row in rows_of(capsys, a, b)} == {"audit-quality", "audit-typos", "audit-noise"}
    assert main(["compare", a, b]) == 0
    assert "audit-adversarial-typos all typos: bb.json has same_tag False, a.json same_tag True" in (
        capsys.readouterr().out.replace("\n", " ")
    )


def test_scored_pairs_on_another_scale_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    def scored(name: str, pairs: int) -> str:
        row = audit_row("audit-advsts", 2, "success_rate", None) | {"recipe": "pwws", "split": "dev"}
        examples = [
            {"item": "audit-advsts", "recipe": "pwws", "original": text, "outcome": "succeeded"} for text in "pq"
        ]
        protocol = {"texts": {"sha256": "t"}, "max_words": 64}
        advsts = {"margin": 1.0, "scale": f"isotonic fit on {pairs} pairs of dev"}
        return write(name, [row], kind="audit", protocol={**protocol, "advsts": advsts}, examples=examples, seed=42)

    a = scored("a.json", 750)
    assert rows_of(capsys, a, scored("b.json", 750))
    message = mistake(capsys, a, scored("b.json", 5749))
    assert "all items that the audits share have different settings: audit-advsts dev pwws: b.json has scale" in message
    assert "a.json scale isotonic fit on 750 pairs of dev" in message
