"""What a disk damages is found by its hash, said, and made again or left out; nothing damaged is used."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from small_run import Run, flip

from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.files import write_json
from holdfast.model_lookup import model_identity
from holdfast.report import write_report
from holdfast.results import HASH, changed_files, new_result, read_result, read_with_state, write_result
from holdfast.runs.best_weights import KeepBest
from holdfast.runs.checkpoints import best_is_damaged, is_intact, latest_intact
from holdfast.runs.run_log import RUN_FILE

# --- results -----------------------------------------------------------------------------------------------------


def example(**changes: Any) -> dict[str, Any]:
    row = {"recipe": "pwws", "number": 0, "outcome": "succeeded", "original": "a dog", "adversarial": "a cat"}
    verdict = {"label": 1, "value": 0.9}
    return {**row, "changed": [[1, "dog", "cat"]], "before": verdict, "after": verdict, "queries": 3, **changes}


def result(**more: Any) -> dict[str, Any]:
    items = {"gold": [1.0, 2.5, 0.1], "similarity": [0.25, 1e-17, 3]}
    row = {"task": "stsb", "split": "test", "n": 3, "metrics": {"spearman": 80.0625}, "items": items}
    made = new_result(
        "evaluate",
        command=["holdfast", "evaluate", "m"],
        model="m",
        identity={"model_sha256": "0" * 64, "model_files": {}},
        protocol={"precision": "fp32", "tuple": (1, 2), "by number": {10: "ten", 9: "nine"}},
        seed=None,
        results=[row],
    )
    return {**made, **more}


def test_a_result_carries_a_hash_of_its_content(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    write_result(path, result(examples=[example(original="naïve \U0001f600 \u2028")]))
    read, state = read_with_state(path)
    assert state == "as written"
    assert HASH not in read
    held = json.loads(path.read_text())
    assert len(held[HASH]) == 64
    # Another order and other blanks are the same content; to write it again is no change either.
    path.write_text(json.dumps(dict(reversed(held.items())), indent=7))
    assert read_with_state(path)[1] == "as written"
    write_result(tmp_path / "again.json", held)
    assert read_with_state(tmp_path / "again.json") == (read, "as written")


@pytest.mark.parametrize("change", ["number", "text", "key", "more"])
def test_a_changed_result_is_marked(change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, other = tmp_path / "r.json", tmp_path / "other.json"
    write_result(path, result(examples=[example()]))
    write_result(other, {**result(), "model_sha256": "1" * 64})
    old, new = {
        "number": ("80.0625", "80.5"),
        "text": ("a cat", "a cut"),
        "key": ('"fp32"', '"bf16"'),
        "more": ('"seed": null', '"seed": null, "note": 1'),
    }[change]
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert changed_files([path, other]) == [path]
    line = f"holdfast: {path} was changed after it was written: its numbers may not be the measured ones\n"
    assert main(["show", str(path)]) == 0
    assert capsys.readouterr().err == line
    assert main(["compare", str(other), str(path), "--output", str(tmp_path / "c.json"), "--resamples", "100"]) == 0
    assert line in capsys.readouterr().err
    assert read_result(tmp_path / "c.json")["protocol"]["changed_after_written"] == [str(path)]
    assert main(["report", str(other), str(path), "--output", str(tmp_path / "r.html")]) == 0
    assert capsys.readouterr().err.endswith(line)
    page = (tmp_path / "r.html").read_text()
    assert page.count('<span class="flag bad">changed after it was written</span>') == 2
    assert "unchanged since it was written, by its hash" in page


def test_a_result_without_a_hash_is_an_older_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.json"
    write_result(path, result(examples=[example()]))
    held = json.loads(path.read_text())
    del held[HASH]
    path.write_text(json.dumps(held))
    assert read_with_state(path)[1] == "unhashed"
    assert main(["show", str(path)]) == 0
    assert capsys.readouterr().err == ""
    assert write_report([str(path)], tmp_path / "r.html").changed == ()
    page = (tmp_path / "r.html").read_text()
    assert "from an earlier version" in page
    assert "changed after it was written" not in page


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: not JSON"),
        ('{"schema": "holdfast.results/1", ', ":1: not JSON"),
        ("\udcff\udcfe", "not UTF-8"),
        ("[" * 200_000, "not a result file"),
        ('{"a": ' + "9" * 5000 + "}", "not a result file"),
    ],
)
def test_what_is_left_of_a_result_is_one_line(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.json"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    for words in (["show", str(path)], ["report", str(path), "--output", str(tmp_path / "r.html")]):
        assert main(words) == 2
        printed = capsys.readouterr().err
        assert message in printed
        assert len(printed.splitlines()) == 1


def test_a_number_beyond_floats_is_no_metric(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    write_result(path, result())
    path.write_text(path.read_text().replace("80.0625", "9" * 400))
    with pytest.raises(UserError, match="not a finite number"):
        read_result(path)


@pytest.mark.parametrize(
    "change",
    [
        {"recipe": 1},
        {"changed": [[1, "dog"]]},
        {"changed": [["1", "dog", "cat"]]},
        {"before": {"value": None}},
        {"neighbours": ["one"]},
        {"after": {"value": 0.5, "neighbours": ["one", 2]}},
        {"number": None},
    ],
)
def test_an_example_that_is_none_is_told_by_its_number(
    change: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.json"
    write_result(path, result(examples=[example(), example(**change)]))
    assert main(["show", str(path)]) == 2
    assert f"{path}: example 2" in capsys.readouterr().err


# --- checkpoints -------------------------------------------------------------------------------------------------


def test_every_bit_of_every_file_of_a_checkpoint_counts(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.evaluate(5, 1.0)
    run.save(10)
    newest = run.save(20)
    draw = random.Random(0)
    for file in sorted(newest.iterdir()):
        before = file.read_bytes()
        for place in [0, len(before) - 1, *(draw.randrange(len(before)) for _ in range(20))]:
            flip(file, place, draw.randrange(8))
            assert not is_intact(newest), (file.name, place)
            file.write_bytes(before)
        file.write_bytes(before[: len(before) // 2])
        assert not is_intact(newest), file.name
        file.unlink()
        assert not is_intact(newest), file.name
        file.write_bytes(before)
    assert is_intact(newest)
    (newest / "model.safetensors").write_bytes(b"")
    found, printed = run.begin()
    assert found == "checkpoint-10"
    assert printed == "removing checkpoint-20: it is damaged (model.safetensors)\nresuming from checkpoint-10\n"
    assert not newest.exists()


def test_best_weights_that_are_damaged_are_made_again(tmp_path: Path) -> None:
    """The run goes on from before their step: the newer checkpoints would have to do without them."""
    run = Run(tmp_path / "run")
    run.evaluate(5, 1.0)
    run.save(10)
    run.evaluate(15, 2.0)
    run.save(20)
    run.evaluate(25, 1.5)
    run.save(30)
    assert latest_intact(run.folder)[0] == run.folder / "checkpoint-30"
    whole = run.best.path.read_bytes()
    for place in (3, 20, len(whole) - 1):
        flip(run.best.path, place)
        assert best_is_damaged(run.folder)
        with pytest.raises(UserError, match=r"is damaged: continue with --resume"):
            run.best.restore(run.model)
        again = KeepBest(run.folder, "score")
        assert (again.step, again.score) == (None, None)
        run.best.path.write_bytes(whole)
    flip(run.best.path, 20)
    found, printed = run.begin()
    assert found == "checkpoint-10"
    assert printed.splitlines() == [
        f"{run.folder}/best is damaged: the run goes back to before its step",
        "removing checkpoint-30: the best weights that belong to it are damaged",
        "removing checkpoint-20: the best weights that belong to it are damaged",
        "resuming from checkpoint-10",
    ]


def test_best_weights_that_are_cut_short_do_not_stop_the_next_checkpoint(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.evaluate(5, 1.0)
    run.save(10)
    run.best.path.write_bytes(run.best.path.read_bytes()[:40])
    run.save(20)
    assert is_intact(run.folder / "checkpoint-20")


def test_best_weights_that_are_gone_are_made_again(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.evaluate(5, 1.0)
    run.save(10)
    run.best.path.unlink()
    assert run.begin()[0] is None


def test_a_kill_while_the_best_weights_are_exchanged_leaves_good_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path / "run")
    run.evaluate(5, 1.0)
    run.save(10)

    def die(self: Path, target: Path) -> Path:
        if target.name == "model.safetensors":
            raise KeyboardInterrupt
        return replace(self, target)

    replace = Path.replace
    monkeypatch.setattr(Path, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        run.evaluate(15, 2.0)
    monkeypatch.undo()
    assert not best_is_damaged(run.folder)
    assert run.begin()[0] == "checkpoint-10"
    assert KeepBest(run.folder, "score").step == 5
    run.evaluate(15, 3.0)
    assert not best_is_damaged(run.folder)
    run.best.restore(run.model)
    assert float(run.model.weight.detach()[0, 0]) == 15.0


def test_a_damaged_record_of_the_run_is_one_line(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    for text, line in (('{"what":\n "a r', 2), ("[]", 1), ("\udcff", 1)):
        (run.folder / RUN_FILE).write_text(text, encoding="utf-8", errors="surrogateescape")
        with pytest.raises(UserError, match=rf"run\.json:{line} is damaged.*start a new run in another folder"):
            run.begin()


# --- cells of a table --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cell", "result", "number", "weights", "config", "modules"])
def test_a_damaged_cell_is_made_again(damage: str, tmp_path: Path) -> None:
    from holdfast.experiments.cells import CELL_FILE, Cell, Store

    cell, store = Cell("encoder", {"method": "simcse"}), Store(tmp_path)
    model = store.product(cell)
    model.mkdir(parents=True)
    write_json(model / "config.json", {})
    write_json(model / "modules.json", [{"type": "sentence_transformers.models.Transformer", "path": ""}])
    save_file({"weight": torch.ones(50)}, model / "model.safetensors")
    write_result(model / "results.json", {**result(), **model_identity(model)})
    store.finish(cell, 0.0)
    assert store.damage(cell) is None
    assert store.usable(cell)
    if damage == "number":
        text = (model / "results.json").read_text()
        (model / "results.json").write_text(text.replace("80.0625", "90.0"))
    elif damage == "weights":
        flip(model / "model.safetensors", 200)
    elif damage == "config":
        (model / "config.json").unlink()  # a removed file: the result can be read, the model is not taken
        assert store.damage(cell) is None
        assert store.model_removed(cell)
        assert not store.usable(cell)
        (model / "config.json").write_text("{")
    elif damage == "modules":
        (model / "modules.json").write_text("[{")  # which names the model's folders
    else:
        path = store.place(cell) / CELL_FILE if damage == "cell" else model / "results.json"
        path.write_bytes(path.read_bytes()[:-20])
    assert store.damage(cell) is not None
    assert not store.usable(cell)
    store.discard(cell)
    assert not store.finished(cell)
    assert store.damage(cell) is None
