"""What lies in a run's folder and is another run's is refused in a line that names it and both runs, and stays."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_run import Run
from small_world import World, jobs, make_world

from holdfast.cli import main
from holdfast.errors import EndsRun, UserError
from holdfast.files import read_object, sha256, write_json
from holdfast.runs.run_record import differences, digest_in, digest_of

# --- the digest --------------------------------------------------------------------------------------------------

RECORD = {
    "method": "simcse",
    "base_model": "bundled",
    "base_model_sha256": "ab",
    "training": {"seed": 42, "max_steps": None},
    "corpus": {"source": "a.txt", "sha256": "cd"},
    "versions": {"torch": "2.13.0"},
}


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"base_model": "/moved/model"}, True),
        ({"corpus": {"source": "/moved/a.txt", "sha256": "cd"}}, True),
        ({"versions": {"torch": "3"}}, True),
        ({"pooling": None}, True),
        ({"base_model_sha256": "ac"}, False),
        ({"corpus": {"source": "a.txt", "sha256": "ce"}}, False),
        ({"training": {"seed": 43, "max_steps": None}}, False),
        ({"training": {"seed": 42, "max_steps": 5}}, False),
        ({"options": {}}, False),
    ],
)
def test_runs_with_the_same_digest_are_those_that_may_be_continued(change: dict[str, Any], same: bool) -> None:
    changed = {**RECORD, **change}
    assert (digest_of(RECORD) == digest_of(changed)) is same
    assert (list(differences(RECORD, changed)) == []) is same


# --- in a run's folder -------------------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> tuple[Run, Run]:
    """A run and another one with another seed, each with best weights, checkpoints and a log."""
    made = (Run(tmp_path / "one", seed=1), Run(tmp_path / "two", seed=2))
    for run in made:
        run.log(5, 10)
        run.evaluate(5, 1.0)
        run.save(10)
        run.save(20)
    return made


def _checkpoint(own: Path, other: Path) -> Path:
    return shutil.copytree(other / "checkpoint-20", own / "checkpoint-30")


def _best(own: Path, other: Path) -> Path:
    shutil.rmtree(own / "best")
    return shutil.copytree(other / "best", own / "best") / "model.safetensors"


def _best_weights(own: Path, other: Path) -> Path:
    return Path(shutil.copy(other / "best" / "model.safetensors", own / "best"))


def _log(own: Path, other: Path) -> Path:
    return Path(shutil.copy(other / "metrics.jsonl", own))


def _joined_log(own: Path, other: Path) -> Path:
    with (own / "metrics.jsonl").open("a") as file:
        file.write((other / "metrics.jsonl").read_text())
    return own / "metrics.jsonl"


def _files(folder: Path) -> dict[str, str]:
    return {str(path): sha256(path) for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


@pytest.mark.parametrize("copy", [_checkpoint, _best, _best_weights, _log, _joined_log])
def test_what_is_of_another_run_is_refused_and_stays(copy: Callable[[Path, Path], Path], two: tuple[Run, Run]) -> None:
    run, other = two
    assert run.begin()[0] == "checkpoint-20"
    foreign = copy(run.folder, other.folder)
    before = _files(run.folder)
    with pytest.raises(EndsRun) as refused:
        run.begin()
    digests = [str(digest_in(folder))[:12] for folder in (other.folder, run.folder)]
    assert str(refused.value).startswith(f"{foreign} is of run {digests[0]}, and this is run {digests[1]}: ")
    assert _files(run.folder) == before


def test_what_an_earlier_version_sealed_is_taken_and_said(two: tuple[Run, Run]) -> None:
    run, _ = two
    for checkpoint in run.folder.glob("checkpoint-*"):
        sealed = json.loads((checkpoint / "sealed.json").read_text())
        write_json(checkpoint / "sealed.json", sealed["files"])
    found, message = run.begin()
    assert found == "checkpoint-20"
    assert message.splitlines()[0] == (
        f"checkpoint-10, checkpoint-20 in {run.folder}: written by an earlier version, taken as files of this run"
    )


def test_a_file_of_another_checkpoint_is_damage_and_named(two: tuple[Run, Run]) -> None:
    run, other = two
    shutil.copy(other.folder / "checkpoint-10" / "model.safetensors", run.folder / "checkpoint-20")
    found, message = run.begin()
    assert found == "checkpoint-10"
    assert message.splitlines()[0] == "removing checkpoint-20: it is damaged (model.safetensors)"


# --- of each command that trains ---------------------------------------------------------------------------------

TRAININGS = ("train", "finetune", "pretrain")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, list[str]]]]:
    """A folder with ``VERB/out`` and ``VERB-other/out``, finished runs of two seeds, and the commands of the former."""
    folder = tmp_path_factory.mktemp("trained")
    world: World = make_world(folder / "world")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_CACHE", str(folder / "cache"))
        words = {verb: jobs(world)[verb] for verb in TRAININGS}
        for verb in TRAININGS:
            for name, seed in ((verb, "1"), (f"{verb}-other", "2")):
                (folder / name).mkdir()
                patch.chdir(folder / name)
                assert main([*words[verb], "--seed", seed]) == 0
        yield folder, words


PARTS = {
    "train": ("checkpoint", "best", "log", "result", "weights"),
    "finetune": ("checkpoint", "result"),
    "pretrain": ("checkpoint", "weights"),
}


@pytest.mark.parametrize(("verb", "part"), [(verb, part) for verb, parts in PARTS.items() for part in parts])
def test_each_training_refuses_what_is_of_another(
    verb: str,
    part: str,
    trained: tuple[Path, dict[str, list[str]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, words = trained
    shutil.copytree(folder / verb, tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    own, other = Path("out"), folder / f"{verb}-other" / "out"
    foreign = {
        "checkpoint": lambda: shutil.copytree(max(other.glob("checkpoint-*")), own / "checkpoint-99"),
        "best": lambda: shutil.copytree(_with_best(other, tmp_path / "best"), own / "best") / "model.safetensors",
        "log": lambda: Path(shutil.copy(other / "metrics.jsonl", own)),
        "result": lambda: Path(shutil.copy(other / "results.json", own)),
        "weights": lambda: Path(shutil.copy(other / "model.safetensors", own)),
    }[part]()
    runs = [str(digest_in(place))[:12] for place in (other, own)]
    for finished in (True, False):
        if not finished:
            (own / "results.json").unlink()
            if part in ("result", "weights"):
                return  # a run that goes on writes them anew
        before = _files(own)
        assert main([*words[verb], "--seed", "1", "--resume"]) == 2
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("holdfast: ")]
        named = runs[1] if part == "weights" else runs[0]
        assert re.match(rf"holdfast: {foreign} (is of|was changed after) run {named}\b", line)
        assert part == "weights" or f"and this is run {runs[1]}: " in line
        assert _files(own) == before


def _with_best(other: Path, place: Path) -> Path:
    """Best weights as the run in ``other`` has them while it trains: they are removed at its end."""
    run = Run(place / "run")
    shutil.copy(other / "run.json", run.folder)
    run.evaluate(3, 1.0)
    return run.folder / "best"


def test_options_differ_where_places_may() -> None:
    before = {"options": {"source": "neighbours"}, "corpus": {"source": "a.txt"}, "base_model": "m"}
    now = {"options": {"source": "masked-lm"}, "corpus": {"source": "b.txt"}, "base_model": "n"}
    assert list(differences(before, now)) == [("options source", "neighbours", "masked-lm")]
    moved, changed = ({"texts": [{"source": place, "sha256": digest}]} for place, digest in (("/a", "1"), ("a", "2")))
    here = {"texts": [{"source": "b", "sha256": "1"}]}
    assert list(differences(here, moved)) == []
    assert digest_of(here) == digest_of(moved) != digest_of(changed)
    assert [name for name, *_ in differences(here, changed)] == ["texts"]


def test_a_finished_run_is_still_finished(
    trained: tuple[Path, dict[str, list[str]]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also when its corpus is elsewhere, and with a result that does not say of which run it is."""
    folder, words = trained
    monkeypatch.chdir(folder / "train")
    corpus = Path(shutil.copy(folder / "world" / "corpus.txt", folder / "moved.txt"))
    moved = [str(corpus) if word.endswith("corpus.txt") else word for word in words["train"]]
    assert main([*moved, "--seed", "1", "--resume"]) == 0
    assert "is finished already" in capsys.readouterr().err
    result = read_object(Path("out/results.json"))
    assert result["run"] == digest_in(Path("out"))


def test_what_is_damaged_of_a_run_is_said_when_it_is_resumed(
    trained: tuple[Path, dict[str, list[str]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, words = trained
    shutil.copytree(folder / "pretrain", tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    log = Path("out/metrics.jsonl")
    lines = log.read_text().splitlines()
    log.write_text("\n".join([lines[0], lines[1][:20], *lines[2:]]) + "\n")
    message = "out/metrics.jsonl:2 is damaged: it is left out"
    assert main([*words["pretrain"], "--seed", "1", "--resume"]) == 0
    assert message in capsys.readouterr().err.splitlines()
    Path("out/results.json").unlink()
    assert main([*words["pretrain"], "--seed", "1", "--resume"]) == 0
    assert message in capsys.readouterr().err.splitlines()
    Path("out/run.json").write_text('{"base_model":\n null')
    assert main([*words["pretrain"], "--seed", "1", "--resume"]) == 2
    assert "holdfast: out/run.json:2 is damaged" in capsys.readouterr().err


def test_a_log_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    (run.folder / "metrics.jsonl").mkdir()
    with pytest.raises(UserError, match=r"cannot read .*metrics\.jsonl"):
        run.begin()
