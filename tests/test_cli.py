"""The command line as a person or a script meets it: help, one-line mistakes, JSON, and one run from end to end."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.results import read_result
from holdfast.runs.run_status import standing_of

WORDS = ["the", "a", "man", "woman", "dog", "cat", "runs", "sleeps", "in", "under", "house", "red", "old"]
VERBS = [
    "pretrain",
    "train",
    "evaluate",
    "baseline",
    "finetune",
    "attack",
    "recipes",
    "space",
    "masks",
    "show",
    "transfer",
    "doctor",
]
VERBS += ["harden", "distill", "compare", "watch", "data list", "data check", "data texts", "methods", "demo"]
VERBS += [f"leaderboard {verb}" for verb in ("run", "add", "render", "check")]
TRAIN = ["train", "simcse", "--model", "lm", "--corpus", "corpus.txt", "--output", "out"]
SHORT = ["--max-steps", "3", "--batch-size", "8", "--precision", "fp32"]


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory, make_masked_lm: Callable[..., Path]) -> Path:
    return make_masked_lm(tmp_path_factory.mktemp("models") / "lm")


@pytest.fixture
def here(tmp_path: Path, lm: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with a model `lm`, a corpus of 64 sentences and STS-B data; no outside settings."""
    for name in ("HOLDFAST_DATA", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lm").symlink_to(lm)
    rng = random.Random(0)
    sentences = [" ".join(rng.choices(WORDS, k=rng.randint(3, 9))) for _ in range(64)]
    (tmp_path / "corpus.txt").write_text("\n".join(sentences) + "\n")
    (tmp_path / "data" / "stsb").mkdir(parents=True)
    rows = [f"{a}\t{b}\t{rng.randint(0, 5)}\n" for a, b in zip(sentences[:30], sentences[30:60], strict=True)]
    for split in ("dev", "test"):
        (tmp_path / "data" / "stsb" / f"{split}.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(rows))
    return tmp_path


def mistake(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    """Run a command that must fail as a user's mistake does, and return its line."""
    capsys.readouterr()
    assert main(words) == 2
    message = capsys.readouterr()
    assert message.out == ""
    lines = message.err.splitlines()
    # Lines before the last are progress, never a part of the message.
    assert [line for line in lines if line.startswith("holdfast: ")] == lines[-1:]
    assert "Traceback" not in message.err
    return lines[-1].removeprefix("holdfast: ")


# --- help --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example_and_json(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*verb.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert f"Example:\n    holdfast {verb}" in text
    assert "--json" in text


@pytest.mark.parametrize("verb", ["audit", "compare", "finetune", "pretrain", "reproduce", "transfer"])
def test_a_verb_that_does_not_share_its_work_refuses_company(
    verb: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert mistake(capsys, [verb, "lm", "--output", "there.json"]).startswith(f"{verb} runs in one process: start it")
    assert not Path("there.json").exists()
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert main([verb, "lm"]) == 2
    assert capsys.readouterr().err == "", "one of them says it"


def test_reading_is_allowed_to_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["methods"]) == 0


def test_no_words_give_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Usage: holdfast" in capsys.readouterr().out


def test_help_lists_every_verb_once_in_its_panel_and_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "..." not in text.partition("Audit and harden:")[2]
    panels = re.findall(r"^([A-Z][\w ]+):\n((?:  [a-z]+ +\S.*\n)+)", text, re.MULTILINE)
    assert [name for name, _ in panels] == ["Audit and harden", "Train", "Attack", "Research"]
    listed = [line.split()[0] for _, lines in panels for line in lines.splitlines()]
    assert len(listed) == len(set(listed)) == 24
    assert {verb.split()[0] for verb in VERBS} <= set(listed)
    assert main(["data", "--help"]) == 0
    assert re.search(r"Commands:\n  list +\S.*\n  check +\S", capsys.readouterr().out)


def test_help_is_there_at_once() -> None:
    began = time.monotonic()
    code = "import sys, holdfast.cli as c; c.main(['--help']); print('torch' in sys.modules, 'numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "False False"
    assert time.monotonic() - began < 5  # 0.1 s; a loaded machine is slower, an import of torch slower still


def test_the_defaults_in_the_help_of_train_are_those_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    from holdfast.training.train_config import TrainConfig

    main(["train", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    defaults = {
        f"--{f.name.replace('_', '-')}": f.default for f in fields(TrainConfig) if type(f.default) in (int, float)
    }
    assert len(defaults) > 5
    for option, default in defaults.items():
        assert re.search(rf"{option} <?[^\[]*\[default: {re.escape(str(default))}\]", text), option


# --- mistakes ----------------------------------------------------------------------------------------------------

MISTAKES = [
    (["trian"], "'train'"),
    (["data", "lst"], "'list'"),
    (["data"], "data --help"),
    (["--verison"], "'--version'"),
    ([*TRAIN, "--modle", "lm"], "'--model'"),
    ([*TRAIN, "--max-steps", "many"], "'--max-steps'"),
    (["train"], "'method'"),
    (["train", "simcs", *TRAIN[2:]], "'simcse'"),
    (["train", "simcse"], "--model"),
    ([*TRAIN, "--set", "temprature=1"], "'temperature'"),
    ([*TRAIN, "--set", "temperature"], "name=value"),
    ([*TRAIN, "--set", "temperature=warm"], "a number"),
    ([*TRAIN, "--preset", "as-released"], "preset"),
    ([*TRAIN, "--precision", "bf61"], "'bf16'"),
    ([*TRAIN, "--selection", "stsb_dev"], "'stsb-dev'"),
    ([*TRAIN, "--pooling", "men"], "'mean'"),
    ([*TRAIN, "--report-to", "tensorbord"], "'tensorboard'"),
    ([*TRAIN, "--max-steps", "5", "--epochs", "1"], "exclude"),
    ([*TRAIN, "--data", "dta"], "dta"),
    ([*TRAIN, "--config", "nowhere.yaml"], "nowhere.yaml"),
    (["methods", "robust-embed"], "'robustembed'"),
    (["evaluate"], "'model'"),
    (["evaluate", "ml", "--tasks", "stsb", "--data", "data"], "'lm'"),
    (["evaluate", "lm", "--tasks", "sickr-ful"], "'sickr-full'"),
    (["evaluate", "lm", "--tasks", ","], "--tasks"),
    (["evaluate", "lm", "--precision", "fp16"], "fp32"),
    (["evaluate", "lm", "--tasks", "trasnfer"], "'transfer'"),
    (["evaluate", "lm", "--text", "sentval"], "'senteval'"),
    (["compare", "a.json"], "two results"),
    (["compare", "a.json", "b.json", "--resamples", "10"], "--resamples"),
    (["compare", "a.json", "b.json"], "a.json"),
    (["evaluate", "lm", "--output", "data"], "folder"),
    (["evaluate", "lm", "--tasks", "sts12", "--data", "data"], "sts12"),
    (["data", "check"], "--data"),
    (["data", "list", "--data", "dta"], "dta"),
]


@pytest.mark.parametrize(("words", "named"), MISTAKES, ids=lambda value: " ".join(value) if type(value) is list else "")
def test_a_mistake_is_one_line_that_names_the_way_out(
    words: list[str], named: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert named in mistake(capsys, words)
    assert not (here / "out").exists()


CORPORA = [
    (None, "does not exist"),
    (b"", "no sentences"),
    (b"\n \n", "no sentences"),
    (b"one sentence only\n", "--batch-size"),
    (b"a good line\n\xff\xfe a bad one\n", ":2"),
    (b"\x00\x01\x02\x03" * 50, "bad.txt"),
    (b"a good line\n" + b"x" * 20_000 + b"\n", ":2"),
]


@pytest.mark.parametrize(("content", "named"), CORPORA)
def test_a_bad_corpus_is_one_line_and_leaves_nothing_behind(
    content: bytes | None, named: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (here / "bad.txt").write_bytes(content)
    line = mistake(capsys, [*TRAIN, "--corpus", "bad.txt", *SHORT])
    assert "bad.txt" in line
    assert named in line
    assert not (here / "out").exists()
    assert not [path for path in here.rglob("*") if path.is_file() and path.suffix in {".arrow", ".part"}]


CONFIGS = [
    ("seed: 1\nlearning-rat: 1e-5\n", "run.yaml:2: unknown key 'learning-rat' (did you mean 'learning_rate'?)"),
    ("seed: 1\nmax-steps: ten\n", "run.yaml:2: max_steps takes a whole number or null, not 'ten'"),
    ("max_steps: 1.5\n", "run.yaml:1: max_steps takes"),
    ("report_sts: 1\n", "run.yaml:1: report_sts takes true or false"),
    ("options: [1]\n", "run.yaml:1: options takes a mapping"),
    ("options: {temprature: 1}\n", "'temperature'"),
    ("precision: bf61\n", "run.yaml:1: precision does not take 'bf61' (did you mean 'bf16'?)"),
    ("seed: 1\nseed: 2\n", "run.yaml:2: 'seed' is given twice"),
    ("seed: 1\nmodel: [\n", "run.yaml:3: not valid YAML"),
    ("- seed\n", "run.yaml:1: a configuration is"),
    ("method: robustembed\n", "robustembed"),
    ("seed: !!python/object/apply:os.getpid []\n", "run.yaml:1: not valid YAML"),
]


@pytest.mark.parametrize(("text", "message"), CONFIGS)
def test_a_mistake_in_a_configuration_names_file_and_line(
    text: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "run.yaml").write_text(text)
    assert message in mistake(capsys, [*TRAIN, "--config", "run.yaml"])
    assert not (here / "out").exists()


def test_the_command_line_goes_before_the_configuration(here: Path) -> None:
    from holdfast.settings import read_settings
    from holdfast.training.train_config import TrainConfig

    text = "learning-rate: 2e-5\nmax_steps: 7\nseed: 3\nreport_to: [tensorboard]\n"
    (here / "run.yaml").write_text(text + "options:\n  temperature: 0.1\n  head: none\n")
    given = {"method": "simcse", "model": "lm", "corpus": "c", "output": Path("out"), "seed": 4, "epochs": 2.0}
    given["options"] = ["temperature=0.2"]
    config = read_settings(TrainConfig, given, here / "run.yaml")
    assert (config.learning_rate, config.seed, config.report_to) == (2e-5, 4, ("tensorboard",))
    assert (config.epochs, config.max_steps) == (2.0, None)  # or the file's steps would win over --epochs
    assert config.options == {"temperature": "0.2", "head": "none"}


# --- runs --------------------------------------------------------------------------------------------------------


def test_evaluate_tells_the_shape_of_the_space(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "lm", "--tasks", "space,stsb", "--data", "data", "--output", "r.json"]) == 0
    out = capsys.readouterr().out
    assert "alignment" in out
    rows = json.loads((here / "r.json").read_text())["results"]
    assert [row["task"] for row in rows] == ["stsb", "space"]
    assert rows[1]["metrics"].keys() == {"alignment", "uniformity"}
    assert main(["evaluate", "lm", "--tasks", "space", "--data", "data"]) == 0
    assert "stsb" not in capsys.readouterr().out


def test_train_then_evaluate(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "run.yaml").write_text("model: lm\ncorpus: corpus.txt\nmax_steps: 1\noptions: {temperature: 0.1}\n")
    words = [
        "train",
        "simcse",
        "--config",
        "run.yaml",
        "--output",
        "out",
        "--data",
        "data",
        "--eval-steps",
        "2",
        *SHORT,
    ]
    assert main([*words, "--json"]) == 0
    message = capsys.readouterr()
    assert message.err == ""
    trained = json.loads(message.out)
    assert trained == read_result(here / "out" / "results.json")
    assert trained["command"].startswith("holdfast train simcse --config run.yaml")
    assert trained["selected"]["steps"] == 3
    assert trained["protocol"]["options"]["temperature"] == 0.1

    assert main(["evaluate", "out", "--tasks", "stsb", "--data", "data", "--output", "r.json"]) == 0
    message = capsys.readouterr()
    assert "Spearman" in message.out
    result = read_result(here / "r.json")
    assert result["kind"] == "evaluate"
    assert result["protocol"]["precision"] == "fp32"
    assert [(row["task"], row["split"], row["n"]) for row in result["results"]] == [("stsb", "test", 30)]
    assert f"{result['results'][0]['metrics']['spearman']:.2f}" in message.out
    assert result["model_sha256"] == trained["model_sha256"]


def test_the_summary_of_a_run_says_where_the_model_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, *SHORT]) == 0
    message = capsys.readouterr()
    assert 'SentenceTransformer("out")' in message.out
    assert "3 of 8 sentences" in message.out
    assert "corpus.txt, 64 sentences" in message.out
    assert "the last" in message.out

    assert "--resume" in mistake(capsys, [*TRAIN, *SHORT])  # a second run into the same folder
    assert main([*TRAIN, *SHORT, "--resume"]) == 0  # a finished run has nothing to resume
    again = capsys.readouterr()
    assert 'SentenceTransformer("out")' in again.out
    assert "is finished already, on " in again.out + again.err
    for changed, told in (
        (["--learning-rate", "1e-3"], "training learning_rate was"),
        (["--precision", "bf16"], "training precision was 'fp32' and is now 'bf16'"),
        (["--selection", "stsb-dev"], "selection was 'last' and is now 'stsb-dev'"),
    ):
        assert told in mistake(capsys, [*TRAIN, *SHORT, "--resume", *changed])  # nor is it another one


def test_a_loss_that_is_not_finite_names_the_step_and_a_resumed_run_must_agree(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = mistake(capsys, [*TRAIN, *SHORT, "--learning-rate", "1e20", "--save-steps", "1"])
    assert "at step 2" in line
    assert "checkpoint-1" in line
    assert "--learning-rate" in line
    assert not (here / "out" / "modules.json").exists()
    standing = standing_of(here / "out")
    assert (standing.state, "the loss became" in standing.message) == ("failed", True), standing.message
    assert "learning_rate was 1e+20" in mistake(capsys, [*TRAIN, *SHORT, "--resume"])


def test_only_the_first_of_several_processes_speaks(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    assert main(["evaluate", "nothing-here/at/all"]) == 2
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_full_disk_is_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        try:
            Path("/dev/full").write_text("x")
        except OSError as error:
            raise RuntimeError("a library's own words") from error

    monkeypatch.setattr("holdfast.training.training_run.train", full)
    assert "no space left" in mistake(capsys, TRAIN)


def test_holdfasts_own_fault_keeps_its_traceback(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("holdfast.training.training_run.train", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        main(TRAIN)


def test_an_interrupted_run_says_how_to_go_on(here: Path) -> None:
    words = [sys.executable, "-m", "holdfast", *TRAIN, "--max-steps", "100000", "--batch-size", "8"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    # In a background job this process ignores the signal, and what it starts would inherit that.
    run = subprocess.Popen(
        words,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert run.stderr is not None
    assert any(line.startswith("training: ") and "loss" in line for line in run.stderr)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == "holdfast: stopped; continue with --resume"
    assert "Traceback" not in err
    assert standing_of(here / "out").state == "stopped"


def test_a_closed_pipe_is_quiet() -> None:
    script = f"{sys.executable} -m holdfast data list --json | head -n 1; exit ${{PIPESTATUS[0]}}"
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode in (0, 141)  # 0 where all of it fitted into the pipe
    assert (run.stdout, run.stderr) == ("[\n", "")


# --- tables ------------------------------------------------------------------------------------------------------


def test_methods(capsys: pytest.CaptureFixture[str]) -> None:
    from holdfast.objectives import METHODS

    assert main(["methods"]) == 0
    text = capsys.readouterr().out
    assert all(f" {name} " in text for name in METHODS)
    assert main(["methods", "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert [method["name"] for method in described] == list(METHODS)
    for method in described:
        assert method["idea"]
        assert re.search(r"(19|20)\d\d\.$", method["paper"]) or method["name"] in ("combined", "anchored")
        assert method["cost"] > 0.5
        assert (method["own_idea"] is None) == (method["idea_gradient_share"] is None) == (method["name"] == "simcse")
        assert all(option["meaning"] for option in method["options"].values()), method["name"]


def test_help_on_training_names_every_method(capsys: pytest.CaptureFixture[str]) -> None:
    from holdfast.objectives import METHODS

    assert main(["train", "--help"]) == 0
    named = re.findall(r"[\w-]+", capsys.readouterr().out)
    assert [name for name in METHODS if name not in named] == []


def test_methods_of_one_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "robustembed"]) == 0
    text = capsys.readouterr().out
    assert "fgsm_steps" in text
    assert "--preset as_released: pgd_steps=4" in text
    assert "positives=clean" in text
    assert "--learning-rate 3e-05" in text
    assert "without its own idea (the adversarial positive) the gradient of a step differs by 130 %" in text


def test_data_list_and_check(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list", "--data", "data", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["stsb"]["where"] == "data/stsb"
    assert main(["data", "check", "--data", "data"]) == 1  # 30 rows are not what was published
    assert "1,379" in capsys.readouterr().out
