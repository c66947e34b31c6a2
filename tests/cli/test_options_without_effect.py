"""Options that nothing reads beside the others: each is refused at once, with a line that says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.audit.audit_settings import AuditSettings
from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.settings import refuse_given


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("attack bundled --texts s.txt --k 3", "--k 3 is for --goal neighbours, and this is --goal drift"),
        ("attack bundled --texts s.txt --margin 2", "--margin 2.0 is for --goal score, and this is --goal drift"),
        ("attack bundled --texts s.txt --passages 2", "--passages 2 is for --goal poison"),
        ("attack bundled --texts s.txt --split dev", "--split dev is of a task, and --texts are sentences"),
        (
            "attack bundled --texts s.txt --goal neighbours --threshold 0.5",
            "--threshold 0.5 is for --goal drift, and this is --goal neighbours",
        ),
        ("attack bundled --texts s.txt --retries 3", "--retries 3 is for call:... and --endpoint, and bundled is a m"),
        ("audit bundled --texts s.txt --call-batch 8", "--call-batch 8 is for call:... and --endpoint, and bundled is"),
        ("audit bundled --texts s.txt --endpoint-rate 8", "--endpoint-rate 8.0 is of an endpoint: add --endpoint URL"),
        (
            "audit --texts s.txt --endpoint http://127.0.0.1:9 --endpoint-model m --retries 2",
            "--retries 2 is for call:..., and --endpoint has --endpoint-retries",
        ),
        ("evaluate bundled --retries 2", "--retries 2 is for call:... and --endpoint, and bundled is a model"),
        ("evaluate bundled --tasks space --noise typing", "--noise typing does not change the space"),
        ("evaluate bundled --qrels dev", "--qrels dev is for retrieval: add --tasks retrieval"),
        ("harden bundled --corpus s.txt --output o --query-share 0.3", "--query-share 0.3 is for --queries: give both"),
        ("harden bundled --corpus s.txt --output o --no-audit --texts s.txt", "--texts s.txt is for the audits, which"),
        ("harden bundled --corpus s.txt --output o --no-audit --noise ocr", "--noise ocr is for choosing the weights"),
        ("harden bundled --corpus s.txt --output o --hold-out 0 --evaluations 2", "--evaluations 2 is for choosing"),
        (
            "harden bundled --corpus s.txt --output o --misspellings a.tsv --set misspellings=b.tsv",
            "--misspellings a.tsv is --set misspellings=, too: give one of them",
        ),
        (
            "harden bundled --corpus s.txt --output o --synonyms a.tsv --set synonyms=b.tsv",
            "--synonyms a.tsv is --set synonyms=, too: give one of them",
        ),
        ("harden bundled --corpus s.txt --output o --misspellings no.tsv", "no.tsv"),
        ("attack bundled --texts s.txt --recipes typos --resume", "--resume continues the attack of a result file"),
        ("attack bundled --goal poison --search s.txt --queries s.txt --resume", "--resume continues the attack of a"),
        ("evaluate call:m:embed --tasks stsb --precision bf16", "--precision bf16 is for a model, and call:m:embed is"),
        ("leaderboard run bm25 --output o --pooling mean", "--pooling mean is for an encoder, and bm25 is none"),
        ("leaderboard run bm25 --output o --prompt x", "--prompt x is for an encoder, and bm25 is none"),
        (
            "leaderboard run call:m:embed --output o --pooling mean",
            "--pooling is for a raw language model, and call:m:",
        ),
        ("reproduce adcl/table1 --scale smoke --plan --so-far", "--plan and --so-far exclude each other"),
    ],
)
def test_an_option_that_nothing_reads_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.txt").write_text("the dog runs\nthe cat sleeps\n")
    assert main(words.split()) == 2
    assert says in capsys.readouterr().err.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["s.txt"]


def test_an_option_at_its_default_is_not_refused() -> None:
    refuse_given(AuditSettings("m", retries=0, call_batch=256), ("retries", "call_batch", "misspellings"), "is unread")
    with pytest.raises(UserError, match=r"^--misspellings a\.txt is unread$"):
        refuse_given(AuditSettings("m", misspellings=Path("a.txt")), ("retries", "misspellings"), "is unread")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--fail-if", "typo.stability < 1"], "there is no item 'typo' (did you mean 'typos'?)"),
        (["--fail-if", "typos.int8.stability < 1"], "there is no item 'typos.int8'"),
        (["--items", "ocr", "--fail-if", "typos.stability < 1"], "there is no item 'typos'; items: ocr"),
        (["--fail-if", "typos.stability < 1", "--junit", "s.txt/j.xml"], "s.txt is a file, not a folder"),
    ],
)
def test_an_audit_checks_its_gate_before_it_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("holdfast.audit.audit_run.audit", lambda *args, **kwargs: pytest.fail("it was measured"))
    (tmp_path / "s.txt").write_text("the dog runs\nthe cat sleeps\n")
    assert main(["audit", "bundled", "--texts", "s.txt", *words]) == 2
    assert says in capsys.readouterr().err.splitlines()[-1]


def test_a_gate_knows_the_items_of_the_audit_and_of_its_baseline(tmp_path: Path) -> None:
    from holdfast.audit.gate.gate_options import GateOptions
    from holdfast.cli.gate import gate_of
    from holdfast.results import new_result, write_result

    row = {"task": "audit-typos", "split": "all", "n": 1, "metrics": {"stability": 1.0}, "headline": "stability"}
    identity = {"model_sha256": "x", "model_files": {}}
    result = new_result("audit", command=["x"], model="m", identity=identity, protocol={}, seed=1)
    write_result(tmp_path / "base.json", result | {"results": [row], "examples": []})

    def gate(condition: str) -> list[Any]:
        options = GateOptions(fail_if=(condition,), against=tmp_path / "base.json")
        return list(gate_of(options, lambda: ["case.lower", "typos"])[0])

    assert len(gate("case.lower.stability < 0.1")) == 1, "a value of the audit needs no baseline"
    assert len(gate("typos.stability worse than baseline")) == 1
    with pytest.raises(UserError, match=r"no item 'case\.lower'; items: typos"):
        gate("case.lower.stability worse than baseline")
    with pytest.raises(UserError, match=r"no item 'ocr'; items: case\.lower, typos"):
        gate("ocr.stability < 0.1")


def test_conditions_on_forms_are_known_before() -> None:
    from holdfast.audit.audit_inputs import possible_items

    names = possible_items(AuditSettings("m", items="typos", forms="int8,dim=64"))
    assert names == ["typos", "typos.int8", "typos.dim=64"]


def test_a_folder_without_permission_is_refused_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("holdfast.files.os.access", lambda path, mode: False)  # root may write everywhere
    (tmp_path / "s.txt").write_text("the dog runs\n")
    junit = ["--fail-if", "typos.stability < 1", "--junit", str(tmp_path / "j.xml")]
    assert main(["audit", "bundled", "--texts", str(tmp_path / "s.txt"), *junit]) == 2
    assert "may not be written to" in capsys.readouterr().err.splitlines()[-1]
