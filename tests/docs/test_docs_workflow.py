"""The workflow of "Robustness in CI": its form, and its commands in the world of the examples."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from docs_pages import blocks
from docs_world import provide, smaller

from holdfast.cli import main

PAGE = "docs/ci.md"


def workflow() -> dict[Any, Any]:
    (block,) = [block for block in blocks(PAGE) if block.file == ".github/workflows/robustness.yaml"]
    found: dict[Any, Any] = yaml.safe_load(block.code)
    return found


def steps() -> list[dict[str, Any]]:
    (job,) = workflow()["jobs"].values()
    assert {"runs-on", "steps", "timeout-minutes"} == set(job)
    found: list[dict[str, Any]] = job["steps"]
    return found


def test_the_workflow_is_one_of_github() -> None:
    assert set(workflow()) == {"name", True, "permissions", "jobs"}  # YAML reads the key "on" as true
    assert all(("uses" in step) != ("run" in step) for step in steps())
    (upload,) = [step for step in steps() if "upload-artifact" in step.get("uses", "")]
    written = {
        words[words.index(option) + 1] for words in commands() for option in ("--output", "--junit") if option in words
    }
    assert set(upload["with"]["path"].split()) == written
    assert upload["if"] == "always()"


def commands() -> list[list[str]]:
    return [shlex.split(step["run"]) for step in steps() if step.get("run", "").startswith("holdfast ")]


@pytest.mark.slow  # two audits
def test_its_commands_pass_with_the_same_model_and_fail_with_a_worse_one(
    docs_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    provide(docs_world, tmp_path, set())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_CACHE", str(docs_world / "cache"))
    monkeypatch.setenv("HOLDFAST_DATA", str(docs_world / "DATA"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    (audit, check), baseline = commands(), "baseline.json"
    first = [baseline if word == "audit.json" else word for word in audit]
    for words in (first, audit, check):
        assert main(smaller(words[1:])) == 0, words
    assert "::error" not in capsys.readouterr().out
    from holdfast.results import read_result, write_result

    result = read_result(Path("audit.json"))
    for row in result["results"]:
        if row["task"] == "audit-typos":
            row["items"]["stability"] = [value - 0.5 for value in row["items"]["stability"]]
    write_result(Path("audit.json"), result)
    assert main(check[1:]) == 1
    assert "::error title=holdfast check%3A typos::typos.stability worse than baseline" in capsys.readouterr().out
    assert ElementTree.parse("holdfast.xml").getroot().get("failures") == "1"
