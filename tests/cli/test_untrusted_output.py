"""What others' files, texts and names hold reaches the terminal as escapes, from every verb that prints any of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.cli.error_lines import show_traceback
from holdfast.results import new_result, write_result
from holdfast.runs.run_process import this_process

HOSTILE = "x\x1b]52;c;eA==\x07\x9b2J\u202e[bold]"
SHOWN = r"x\x1b]52;c;eA==\x07\x9b2J\u202e[bold]"
OBEYED = set("\x1b\x07\x9b\u202e")
LOG = [{"step": 0, "time": 1e9, "state": "begun", "max_steps": 9, "process": this_process()}]


def evaluated(path: Path, sha: str, **more: Any) -> Path:
    row = {"task": "stsb", "split": "test", "n": 4, "metrics": {"spearman": 80.0}}
    row["items"] = {"gold": [1.0, 2.0, 3.0, 2.5], "similarity": [0.1, 0.9, 0.5, 0.4]}
    made = new_result(
        "evaluate",
        command=["holdfast"],
        model=HOSTILE,
        identity={"model_sha256": sha * 64, "model_files": {}},
        protocol={"precision": "fp32", "sampled": HOSTILE},
        seed=1,
        results=[row],
    )
    write_result(path, {**made, **more})
    return path


def attacked(path: Path) -> Path:
    verdict = {"label": 1, "value": 0.9, "neighbours": [HOSTILE]}
    example = {
        "recipe": HOSTILE,
        "number": 0,
        "outcome": "succeeded",
        "original": HOSTILE,
        "adversarial": HOSTILE + "y",
    }
    example |= {"changed": [], "before": verdict, "after": verdict, "queries": 3, "other": HOSTILE, "reason": HOSTILE}
    return evaluated(path, "0", kind="attack", examples=[{**example, "item": HOSTILE}])


def changed(path: Path) -> Path:
    path.write_text(path.read_text(encoding="utf-8").replace("80.0", "81.0"), encoding="utf-8")
    return path


def run_folder(path: Path) -> Path:
    path.mkdir()
    (path / "run.json").write_text(json.dumps({"method": HOSTILE, "options": {}}))
    log = [*LOG, {"step": 5, "time": 1e9 + 5, "loss": 1.0, HOSTILE: 0.5}]
    log += [{"step": 5, "time": 1e9 + 6, "state": "failed", "why": HOSTILE}]
    (path / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in log))
    return path


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


Words = Callable[[Path], list[Any]]
SHOW: dict[str, Words] = {
    "show": lambda f: ["show", attacked(f / "r.json")],
    "a result that was changed": lambda f: ["show", changed(attacked(f / f"{HOSTILE}.json"))],
    "the recipes of a result": lambda f: ["show", attacked(f / "r.json"), "--recipe", "other"],
    "compare": lambda f: ["compare", evaluated(f / "a.json", "0"), evaluated(f / f"{HOSTILE}.json", "1")],
    "report": lambda f: ["report", evaluated(f / "a.json", "0"), "--output", f / f"{HOSTILE}.html"],
    "watch": lambda f: ["watch", run_folder(f / HOSTILE), "--once"],
    "watch, by the line": lambda f: ["watch", run_folder(f / HOSTILE)],
    "data list": lambda f: ["data", "list", "--data", _known(f / HOSTILE)],
    # Mistakes.
    "a file's name": lambda f: ["show", f / f"{HOSTILE}.json"],
    "a line that a name would add": lambda f: ["show", f / f"{HOSTILE}\nholdfast: all is well"],
    "a result's schema": lambda f: ["show", written(f / "r.json", json.dumps({"schema": HOSTILE}))],
    "a key in YAML": lambda f: _train(f, f'"{_YAML}": 1'),
    "a value in YAML": lambda f: _train(f, f'max_steps: "{_YAML}"'),
    "a word in YAML": lambda f: _train(f, f'precision: "{_YAML}"'),
    "a table's label": lambda f: ["reproduce", written(f / "t.yaml", f'title: t\n"{_YAML}": 1'), "--output", f / "o"],
    "an option's value": lambda f: _train(f, "seed: 1", "--set", f"temperature={HOSTILE}"),
    "an option": lambda f: ["train", f"--{HOSTILE.replace('=', '')}"],
    "a verb": lambda f: [HOSTILE],
    "a model": lambda f: ["evaluate", f / HOSTILE, "--tasks", "sts"],
    "a corpus": lambda f: _train(f, f'corpus: "{_YAML}.txt"', model="bundled-mlm"),
}
_YAML = r"x\x1b]52;c;eA==\x07\x9b2J\u202e[bold]"


def _known(folder: Path) -> Path:
    (folder / "stsb").mkdir(parents=True)
    written(folder / "stsb" / "test.tsv", "sentence1\tsentence2\tscore\na\tb\t1\n")
    return folder


def _train(folder: Path, yaml: str, *more: str, model: str = "m") -> list[Any]:
    config = written(folder / "c.yaml", yaml + "\n")
    given = [] if "corpus" in yaml else ["--corpus", "c.txt"]
    return ["train", "simcse", "--config", config, "--model", model, "--output", folder / "out", *given, *more]


@pytest.mark.parametrize("path", SHOW)
def test_a_terminal_gets_no_control_of_others(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "1000")
    code = main([str(word) for word in SHOW[path](tmp_path)])
    message = "".join(capsys.readouterr())
    assert code in (0, 2)
    assert not OBEYED & set(message)
    one = "".join(message.replace("│", "").replace("=", "").split())  # a table folds what is long
    assert one.count(SHOWN.replace("=", "")) == one.count(r"x\x1b") > 0, message


@pytest.mark.parametrize("path", ["show", "compare", "watch", "report"])
def test_json_holds_the_texts_and_no_control(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*(str(word) for word in SHOW[path](tmp_path)), "--json"]) == 0
    message = capsys.readouterr().out
    assert not OBEYED & set(message)
    assert json.dumps(HOSTILE)[1:-1] in json.dumps(json.loads(message))


def test_a_fault_of_holdfasts_own_shows_what_it_quotes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError(HOSTILE)

    monkeypatch.setattr("holdfast.results.read_with_state", broken)
    monkeypatch.setattr("sys.excepthook", print)
    with pytest.raises(RuntimeError) as fault:
        main(["show", str(attacked(tmp_path / "r.json"))])
    assert sys.excepthook is show_traceback
    sys.excepthook(fault.type, fault.value, fault.tb)
    message = capsys.readouterr().err
    assert f"RuntimeError: {SHOWN}" in message
    assert not OBEYED & set(message)


def test_the_tokens_of_a_models_tokeniser_show_controls() -> None:
    from holdfast.cli.masks import _readable

    assert _readable("Ġ" + HOSTILE) == SHOWN
