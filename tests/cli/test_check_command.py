"""`holdfast check`: exit codes, lines, JUnit XML, annotations, and the statistics of "worse than baseline"."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

from holdfast.cli import main
from holdfast.evaluation.retrieval_metrics import RETRIEVAL_METRICS
from holdfast.results import new_result, write_result

N = 60


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    return tmp_path


def write(name: str, rows: list[dict[str, Any]], *, kind: str = "audit", seed: int = 42, **protocol: Any) -> str:
    identity = {"model_sha256": f"hash of {name}", "model_files": {}}
    settings = {"texts": {"sha256": "t"}, "max_words": 64, "examples": 100} if kind == "audit" else {}
    result = new_result(
        kind, command=["x"], model=f"model of {name}", identity=identity, protocol=settings | protocol, seed=seed
    )
    write_result(Path(name), result | {"results": rows, "examples": []})
    return name


def stability(values: Any, task: str = "audit-typos") -> dict[str, Any]:
    values = [round(float(value), 5) for value in values]
    metrics = {"stability": float(np.mean(values)), "stability_low": 0.1, "stability_high": 0.9, "pull": 1.0}
    row = {"task": task, "split": "all", "n": len(values), "metrics": metrics, "headline": "stability"}
    return {**row, "items": {"text": list(range(len(values))), "stability": values}}


def found(correct: Any) -> dict[str, Any]:
    metrics = {"found": 100 * float(np.mean(correct))}
    row = {"task": "audit-noise", "split": "all", "n": len(correct), "metrics": metrics, "headline": "found"}
    return {**row, "items": {"text": list(range(len(correct))), "correct": [int(c) for c in correct]}}


def vectors(cosine: float, half: float | None = None) -> dict[str, Any]:
    metrics = {"different_texts": cosine}
    if half is not None:
        metrics |= {"different_texts_low": cosine - half, "different_texts_high": cosine + half}
    return {"task": "audit-vectors", "split": "all", "n": 9, "metrics": metrics, "headline": "different_texts"}


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["check", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def mistake(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    return line


def test_thresholds_pass_and_fail(capsys: pytest.CaptureFixture[str]) -> None:
    path = write("a.json", [stability([0.8] * 9), found([1, 1, 0, 1])])
    assert run(capsys, path, "--fail-if", "typos.stability < 0.8") == (0, "1 condition: 0 failed\n", "")
    fails = ["--fail-if", "typos.stability <= 0.8", "--fail-if", "noise.found < 70", "--fail-if", "typos.pull >= 1"]
    code, out, err = run(capsys, path, *fails)
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "failed: typos.stability <= 0.8: typos.stability is 0.8",
        "failed: typos.pull >= 1: typos.pull is 1",
        "3 conditions: 2 failed",
    ]


def test_a_condition_is_about_the_number_also_with_too_few_texts(capsys: pytest.CaptureFixture[str]) -> None:
    path = write("a.json", [{**stability([0.8] * 9), "verdict": "too few"}])
    assert run(capsys, path, "--fail-if", "typos.stability < 0.8")[0] == 0
    code, out, _ = run(capsys, path, "--fail-if", "typos.stability < 0.9")
    assert code == 1
    assert "typos.stability is 0.8 (too few texts for a verdict: n = 9)" in out


def test_an_item_that_was_not_measured_fails(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"task": "audit-synonyms", "split": "all", "n": 0, "metrics": {}, "headline": None, "told": "no WordNet"}
    code, out, _ = run(capsys, write("a.json", [row]), "--fail-if", "synonyms.stability < 0.1")
    assert code == 1
    assert "synonyms.stability was not measured (no WordNet)" in out


def test_a_paired_condition_equals_scipy(capsys: pytest.CaptureFixture[str]) -> None:
    """Right and wrong answers: McNemar's exact test; numbers: near the t-test of the differences."""
    rng = np.random.default_rng(0)
    before = rng.random(N) < 0.9
    for lost in (1, 4, 5, 7, 9, 12):
        after = before.copy()
        after[np.flatnonzero(before)[:lost]] = False
        after[np.flatnonzero(~before)[:1]] = True
        exact = stats.binomtest(1, lost + 1, 0.5).pvalue
        a, b = write("a.json", [found(before)]), write("b.json", [found(after)])
        code, out, _ = run(
            capsys, b, "--against", a, "--json", "--fail-if", "noise.found worse than baseline, p < 0.02"
        )
        (row,) = json.loads(out)["results"]
        assert row["metrics"]["p"] == pytest.approx(exact)
        assert code == int(lost > 1 and exact < 0.02)
        assert row["failed"] == bool(code)
        assert run(capsys, a, "--against", b, "--fail-if", "noise.found worse than baseline, p < 0.5")[0] == 0, "better"
    values = 0.8 + 0.05 * rng.standard_normal(N)
    failed = []
    for drop in (0.0, 0.004, 0.006, 0.02):
        others = values - drop + 0.02 * rng.standard_normal(N)
        exact = stats.ttest_rel(others, values).pvalue
        a, b = write("a.json", [stability(values)]), write("b.json", [stability(others)])
        condition = "typos.stability worse than baseline, p < 0.01"
        code, out, _ = run(capsys, b, "--against", a, "--fail-if", condition, "--json")
        p = json.loads(out)["results"][0]["metrics"]["p"]
        assert p == pytest.approx(max(exact, 2 / 2001), rel=0.5, abs=0.02)
        failed.append(code)
    assert failed[0] == 0
    assert failed[-1] == 1


def test_without_conditions_no_main_metric_may_be_worse(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    values = 0.8 + 0.05 * rng.standard_normal(N)
    answers = [1] * 30 + [0] * 30
    a = write("a.json", [stability(values), found(answers), vectors(0.2, 0.01), stability(values, "audit-fillers")])
    rows = [stability(values - 0.02), found(answers), vectors(0.3, 0.01), stability(values + 0.1, "audit-fillers")]
    b = write("b.json", rows)
    assert run(capsys, a, "--against", a)[:2] == (0, "4 conditions: 0 failed\n")
    code, out, _ = run(capsys, b, "--against", a)
    assert code == 1
    first, second, last = out.splitlines()
    assert first.startswith("failed: typos.stability worse than baseline, p < 0.01: typos.stability is 0.")
    assert re.search(r"paired on 60 items, bootstrap, p < 0\.0001\)$", first)
    assert second.startswith("failed: vectors.different_texts worse than baseline")
    assert "not paired, 95 % intervals 0.29 to 0.31 and 0.19 to 0.21" in second
    assert last == "4 conditions: 2 failed"
    c = write("c.json", [vectors(0.205, 0.01), found(answers)])
    code, out, _ = run(capsys, c, "--against", a)
    assert code == 0, "intervals overlap"
    assert "typos.stability is not comparable: the result has no such item" in out
    assert out.splitlines()[-1] == "4 conditions: 0 failed, 2 not comparable"
    d = write("d.json", [vectors(0.3), found(answers)])
    assert "vectors.different_texts is not comparable: no values of single texts" in run(capsys, d, "--against", a)[1]
    code, out, err = run(capsys, d, "--against", a, "--fail-if", "vectors.different_texts worse than baseline")
    assert (code, out) == (2, "")
    assert "cannot be judged: no values of single texts that both have, and no intervals" in err


def test_a_condition_on_a_value_does_not_turn_off_the_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    values = 0.8 + 0.05 * np.random.default_rng(1).standard_normal(N)
    a = write("a.json", [stability(values), vectors(0.2, 0.01)])
    b = write("b.json", [stability(values - 0.02), vectors(0.2, 0.01)])
    met = ["--fail-if", "typos.stability < 0.1"]
    code, out, _ = run(capsys, b, "--against", a, *met)
    assert (code, out.splitlines()[-1]) == (1, "3 conditions: 1 failed")
    assert out.startswith("failed: typos.stability worse than baseline, p < 0.01")
    assert run(capsys, a, "--against", a, *met)[0] == 0
    assert run(capsys, b, *met)[0] == 0
    # A condition on the baseline names the items that are compared with it.
    code, out, _ = run(capsys, b, "--against", a, *met, "--fail-if", "vectors.different_texts worse than baseline")
    assert (code, out.splitlines()[-1]) == (0, "2 conditions: 0 failed")


def test_few_pairs_are_not_resampled(capsys: pytest.CaptureFixture[str]) -> None:
    """Four texts that are all a little worse would give a bootstrap a p-value of 0."""
    for count, code in ((4, 0), (19, 0), (20, 1)):
        baseline = write("base.json", [stability(0.9 + 0.001 * i for i in range(count))])
        worse = write("worse.json", [stability(0.8 + 0.001 * i for i in range(count))])
        assert run(capsys, worse, "--against", baseline)[0] == code, count


def test_a_single_text_is_not_compared_by_its_interval(capsys: pytest.CaptureFixture[str]) -> None:
    """Its interval has no width, so that any other value would be outside."""

    def one(value: float) -> dict[str, Any]:
        metrics = {"stability": value, "stability_low": value, "stability_high": value}
        return {"task": "audit-word-order", "split": "all", "n": 1, "metrics": metrics, "headline": "stability"}

    answers = found([1] * 30)
    baseline, worse = write("base.json", [one(0.99), answers]), write("worse.json", [one(0.98), answers])
    code, out, _ = run(capsys, worse, "--against", baseline)
    assert (code, "word-order.stability is not comparable: a single text has no interval" in out) == (0, True)


def test_bm25_is_no_condition_and_lost_has_a_direction(capsys: pytest.CaptureFixture[str]) -> None:
    def search(system: str, lost: float) -> dict[str, Any]:
        metrics = {"lost": lost, "lost_low": lost - 1, "lost_high": lost + 1}
        metrics |= dict.fromkeys(RETRIEVAL_METRICS, 50.0)
        row = {"task": "retrieval", "split": "queries", "collection": "c", "system": system, "n": 30}
        return {
            **row,
            "metrics": metrics,
            "headline": "recall@1",
            "items": {name: [1.0, 0.0] * 15 for name in RETRIEVAL_METRICS},
        }

    files = [
        write(name, [search("encoder", lost), search("bm25", 0.0)], kind="evaluate")
        for name, lost in (("base.json", 5.0), ("worse.json", 9.0))
    ]
    code, out, err = run(capsys, files[1], "--against", files[0])
    assert (code, out, err) == (0, "1 condition: 0 failed\n", "")
    condition = "retrieval.queries.lost worse than baseline"
    code, out, _ = run(capsys, files[1], "--against", files[0], "--fail-if", condition)
    assert (code, "failed: " in out) == (1, True)


def test_labelled_sets_of_other_pairs_are_not_paired(capsys: pytest.CaptureFixture[str]) -> None:
    """The value of a contradicted pair is its place among the entailed pairs, which were drawn with it."""

    def labelled(values: list[float], first: int = 0, entailed: int = 40) -> dict[str, Any]:
        mean = float(np.mean(values))
        metrics = {"p_entailed_nearer": mean, "p_entailed_nearer_low": mean - 0.3, "p_entailed_nearer_high": mean + 0.3}
        row = {"task": "audit-snli", "split": "dev", "n": len(values), "metrics": metrics, "entailed": entailed}
        items = {"text": list(range(first, first + len(values))), "nearer": values}
        return {**row, "headline": "p_entailed_nearer", "items": items}

    values = [0.8 + 0.001 * i for i in range(40)]
    lower = [value - 0.1 for value in values]
    baseline = write("base.json", [labelled(values)])
    code, out, _ = run(capsys, write("worse.json", [labelled(lower)]), "--against", baseline)
    assert (code, "paired on 40 items" in out) == (1, True)
    for name, other in (("other.json", labelled(lower, first=1)), ("fewer.json", labelled(lower, entailed=39))):
        code, out, err = run(capsys, write(name, [other, stability([0.9] * 30)]), "--against", both(values, labelled))
        assert (code, "measured on other pairs" in out + err) == (0, True)


def both(values: list[float], labelled: Any) -> str:
    return write("both.json", [labelled(values), stability([0.9] * 30)])


def test_rows_of_evaluate_are_paired(capsys: pytest.CaptureFixture[str]) -> None:
    gold = np.random.default_rng(2).integers(0, 6, 80)

    def sts(noise: float, **more: Any) -> dict[str, Any]:
        similarity = gold + noise * np.random.default_rng(3).normal(size=80)
        items = {"gold": gold.tolist(), "similarity": similarity.tolist()}
        spearman = 100 * stats.spearmanr(gold, similarity)[0]
        row = {"task": "stsb", "split": "test", "n": 80, "metrics": {"spearman": spearman}, "data_sha256": "d"}
        return {**row, "items": items} | more

    a, b = write("a.json", [sts(0.5)], kind="evaluate"), write("b.json", [sts(4.0)], kind="evaluate")
    code, out, _ = run(capsys, b, "--against", a)
    assert code == 1
    assert "failed: stsb.spearman worse than baseline, p < 0.01" in out
    assert run(capsys, a, "--against", b)[0] == 0
    c = write("c.json", [sts(0.5, data_sha256="other")], kind="evaluate")
    assert "differ in more than the model: data of stsb (other, there d)" in mistake(capsys, c, "--against", a)
    d = write("d.json", [sts(0.5)], kind="evaluate", limit=10)
    assert "limit (10, there None)" in mistake(capsys, d, "--against", a)


def search(data: str, share: float, system: str = "encoder", split: str = "queries") -> dict[str, Any]:
    found = [float(i < share * 40) for i in range(40)]
    metrics = {
        name: 100 * float(np.mean(found)) for name in ("recall@1", "recall@10", "recall@100", "ndcg@10", "mrr@10")
    }
    row = {"task": "retrieval", "split": split, "n": 40, "metrics": metrics, "system": system, "data": data}
    return {**row, "data_sha256": data, "items": dict.fromkeys(metrics, found)}


def test_dev_and_test_of_a_task_have_names_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    def rows(dev: float, test: float) -> list[dict[str, Any]]:
        predicted = {name: [int(i < share * 40) for i in range(40)] for name, share in (("dev", dev), ("test", test))}
        return [
            {
                "task": "mr",
                "split": split,
                "n": 40,
                "source": "mr",
                "metrics": {"accuracy": 2.5 * sum(found)},
                "items": {"correct": found},
            }
            for split, found in predicted.items()
        ]

    base = write("base.json", rows(0.9, 0.9), kind="finetune")
    worse = write("worse.json", rows(0.9, 0.4), kind="finetune")
    code, out, _ = run(capsys, worse, "--against", base)
    assert (code, re.findall(r"failed: (\S+) ", out)) == (1, ["mr.accuracy"])
    assert "2 conditions: 1 failed" in out
    assert run(capsys, worse, "--fail-if", "mr.accuracy < 50")[0] == 1
    assert run(capsys, worse, "--fail-if", "mr.dev.accuracy < 50")[0] == 0
    dev = write("dev.json", rows(0.9, 0.9)[:1], kind="finetune")
    assert run(capsys, dev, "--fail-if", "mr.accuracy < 50")[0] == 0, "dev is the whole where nothing else is measured"


def test_each_search_has_a_name_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    systems = [("a", "encoder"), ("a", "hybrid"), ("b", "encoder"), ("b", "hybrid")]
    names = ["retrieval.a.queries", "retrieval.a.queries.hybrid", "retrieval.b.queries", "retrieval.b.queries.hybrid"]
    base = write("base.json", [search(data, 0.9, system) for data, system in systems], kind="evaluate")
    for worse, name in enumerate(names):
        rows = [search(data, 0.9 - 0.6 * (i == worse), system) for i, (data, system) in enumerate(systems)]
        code, out, _ = run(capsys, write("x.json", rows, kind="evaluate"), "--against", base)
        assert (code, re.findall(r"failed: (\S+)\.recall@1", out)) == (1, [name])
        assert "4 conditions: 1 failed" in out
        assert run(capsys, "x.json", "--fail-if", f"{name}.recall@1 < 50")[0] == 1
    one = write("one.json", [search("a", 0.9), search("a", 0.2, split="queries typing=0.1")], kind="evaluate")
    assert run(capsys, one, "--fail-if", "retrieval.queries.recall@1 < 50")[0] == 0
    assert run(capsys, one, "--fail-if", "retrieval.queries-typing-0.1.recall@1 < 50")[0] == 1
    assert run(capsys, one, "--against", base, "--fail-if", "retrieval.a.queries.recall@1 worse than baseline")[0] == 0
    twice = write("twice.json", [search("a", 0.9), search("a", 0.8)], kind="evaluate")
    assert "the result holds retrieval.queries twice" in mistake(capsys, twice, "--fail-if", "x.y < 1")


def test_what_cannot_be_compared_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    a = write("a.json", [stability([0.8] * 9)])
    other = write("b.json", [stability([0.8] * 9)], seed=7, texts={"sha256": "u"}, max_words=32)
    line = mistake(capsys, other, "--against", a)
    for part in ("max_words (32, there 64)", "texts (u, there t)", "seed (7, there 42)", "b.json", "a.json"):
        assert part in line
    attack = write("c.json", [stability([0.8] * 9)], kind="evaluate")
    assert "a result of evaluate, a.json of audit" in mistake(capsys, attack, "--against", a)
    assert "nothing to check" in mistake(capsys, a)
    assert "needs a baseline: --against" in mistake(capsys, a, "--fail-if", "typos.stability worse than baseline")
    assert "did you mean 'typos'" in mistake(capsys, a, "--fail-if", "typo.stability < 1")
    assert "column 17" in mistake(capsys, a, "--fail-if", "typos.stability ~ 1")
    assert "direction of examples is not known" in mistake(
        capsys, write("d.json", [stability([0.8] * 9) | {"metrics": {"examples": 9}}]), "--against", a,
        "--fail-if", "typos.examples worse than baseline",
    )  # fmt: skip
    Path("folder").mkdir()
    assert "--junit takes a file" in mistake(capsys, a, "--fail-if", "typos.stability < 1", "--junit", "folder")
    Path("text.json").write_text("{}")
    assert "not a holdfast result" in mistake(capsys, "text.json", "--against", a)
    assert "no such item" not in mistake(capsys, a, "--against", "none.json")


def test_junit_xml(capsys: pytest.CaptureFixture[str]) -> None:
    a = write("a.json", [stability([0.8] * 9), vectors(0.1)])
    words = ["--fail-if", "typos.stability < 0.85", "--fail-if", "typos.stability < 0.5", "--junit", "out/gate.xml"]
    Path("out").mkdir()
    assert run(capsys, a, *words)[0] == 1
    root = ElementTree.parse("out/gate.xml").getroot()
    assert root.tag == "testsuites"
    (suite,) = root
    assert (suite.tag, suite.get("name")) == ("testsuite", "holdfast check a.json")
    counts = {"tests": "2", "failures": "1", "errors": "0", "skipped": "0"}
    assert {key: suite.get(key) for key in counts} == counts
    first, second = suite
    assert (first.get("classname"), first.get("name")) == ("typos", "typos.stability < 0.85")
    (failure,) = first
    assert (failure.tag, failure.get("message")) == ("failure", "typos.stability is 0.8")
    assert "failed: typos.stability < 0.85" in str(failure.text)
    assert list(second) == []
    assert run(capsys, a, "--against", a, "--junit", "gate.xml")[0] == 0
    (suite,) = ElementTree.parse("gate.xml").getroot()
    assert [[child.tag for child in case] for case in suite] == [[], ["skipped"]]
    assert suite.get("skipped") == "1"


def test_annotations_of_github(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    a = write("a.json", [stability([0.8] * 9) | {"split": "100%:b"}])
    condition = "typos.100%:b.stability < 0.85"
    name = "typos.100%25:b.stability"
    expected = f"::error title=holdfast check%3A typos.100%25%3Ab::{name} < 0.85: {name} is 0.8"
    assert "::error" not in run(capsys, a, "--fail-if", condition)[1]
    assert expected in run(capsys, a, "--fail-if", condition, "--github")[1].splitlines()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert expected in run(capsys, a, "--fail-if", condition)[1].splitlines()
    assert "::error" not in run(capsys, a, "--fail-if", condition, "--no-github")[1]
    code, out, err = run(capsys, a, "--fail-if", condition, "--json")
    assert code == 1
    assert json.loads(out)["kind"] == "check"
    assert expected in err.splitlines()
    assert "::error" not in run(capsys, a, "--fail-if", "typos.100%:b.stability < 0.5")[1]


def test_a_changed_file_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    a = write("a.json", [stability([0.8] * 9)])
    Path(a).write_text(Path(a).read_text().replace('"max_words": 64', '"max_words": 65'))
    code, _, err = run(capsys, a, "--fail-if", "typos.stability < 0.1")
    assert code == 0
    assert "a.json was changed after it was written" in err
