"""Forms of vectors in a report: each is a line of its own, and the file is counted once."""

from __future__ import annotations

from pathlib import Path

from small_results import STS, evaluate, row, write
from test_report_page import Page, made

from holdfast.report import write_report
from holdfast.report.result_sources import read_sources


def test_each_form_is_a_line_beside_the_plain_vectors(tmp_path: Path) -> None:
    result = evaluate("runs/a", 70.0)
    for form, base in (("int8", 69.0), ("dim=64+binary", 50.0)):
        result["results"] += [row(task, 1000, metrics={"spearman": base + i}, form=form) for i, task in enumerate(STS)]
    path = write(tmp_path / "a.json", result)
    sources = read_sources([path])
    assert [source.label for source in sources] == ["a", "a as int8", "a as dim=64+binary"]
    assert not any("form" in each for source in sources for each in source.rows)
    texts = Page(made(tmp_path, [path])).texts
    assert {"a as int8", "a as dim=64+binary"} <= set(texts)
    assert texts.count("a.json") == 1
    assert write_report([path], tmp_path / "again.html").results == 1


def test_an_attack_on_a_form_has_its_name(tmp_path: Path) -> None:
    attack = evaluate("runs/a", 70.0)
    rows = [row("texts", 10, "all", {"success_rate": 40.0}, recipe="typos", form="int8")]
    attack |= {"kind": "attack", "results": rows}
    attack["examples"] = []
    (source,) = read_sources([write(tmp_path / "attack.json", attack)])
    assert (source.label, source.form, "examples" in source.result) == ("a as int8", "int8", True)
