"""``holdfast finetune`` as a person or a script meets it."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from holdfast.classifiers import FinetuneSettings
from holdfast.cli import main
from holdfast.results import read_result


@pytest.fixture
def here(tmp_path: Path, tiny: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a model `lm` and the data folder `data`."""
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lm").symlink_to(tiny)
    return tmp_path


def words(*more: str, task: str = "sst2") -> list[str]:
    return ["finetune", "lm", "--task", task, "--output", "out", "--data", "data", *more]


MISTAKES = [
    (["finetune"], "'model'"),
    (["finetune", "lm", "--output", "out"], "missing: --task"),
    (words("--lerning-rate", "1"), "'--learning-rate'"),
    (words(task="sst"), "'sst2'"),
    (words(task="wordnet"), "no classes"),
    (words(task="sts13"), "no training split"),
    (words(task="sickr-full"), "no training split"),
    (words(task="mine.tsv"), "mine.tsv does not exist"),
    (words(task="mine.csv"), "give a TSV"),
    (words(task="data"), "data is no task"),
    (words(task="textfooler/mr"), "never trained"),
    (words(task="snli"), "snli"),
    (words("--defence", "nnoe"), "did you mean 'none'"),
    (words("--defence", "pgd", "--set", "raduis=1"), "did you mean 'radius'"),
    (words("--defence", "pgd", "--set", "radius"), "--set takes name=value"),
    (words("--defence", "pgd", "--set", "radius=-1"), "radius must be"),
    (words("--set", "radius=1"), "none has no option 'radius'"),
    (words("--defence", "smart", "--precision", "bf16"), "lost in bf16"),
    (words("--defence", "adv", "--max-steps", "2"), "clean_epochs=0"),
    (words("--frozen", "--defence", "pgd"), "leave out --defence pgd"),
    (words("--precision", "bf61"), "'bf16'"),
    (words("--frozen", task="mrpc"), "--frozen takes tasks on single texts"),
    (words("--frozen", "--epochs", "2"), "--epochs"),
    (words("--max-steps", "5", "--epochs", "1"), "exclude"),
    (words("--max-steps", "0"), "--max-steps must be from 1"),
    (words("--max-length", "4", task="mrpc"), "--max-length 4"),
    (words("--seed", "-1"), "--seed"),
    (words("--train-split", "test"), "never trained on"),
    (["finetune", "ml", *words()[2:]], "'lm'"),
    (words("--data", "dta"), "dta"),
    (words("--output", "data"), "holds other files"),
    (words("--output", "lm/config.json/x"), "config.json"),
    (words("--output", "some.json"), "some.json is a folder"),
]


@pytest.mark.parametrize(("given", "named"), MISTAKES, ids=lambda v: " ".join(v) if type(v) is list else "")
def test_a_mistake_is_one_line_that_names_the_way_out(
    given: list[str], named: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "some.json").mkdir()
    assert main(given) == 2
    message = capsys.readouterr()
    assert message.out == ""
    lines = [line for line in message.err.splitlines() if line.startswith("holdfast: ")]
    assert lines == message.err.splitlines()[-1:]
    assert named in lines[0]
    assert "Traceback" not in message.err
    assert not (here / "out").exists()


def test_help_has_the_defaults_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["finetune", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Example: holdfast finetune" in text
    defaults = {f.name: f.default for f in fields(FinetuneSettings) if type(f.default) in (int, float, str)}
    assert len(defaults) > 5
    for name, default in defaults.items():
        option = "--" + name.replace("_", "-")
        assert re.search(rf"{option} <?[^\[]*\[default: {re.escape(str(default))}\]", text), option


def test_help_names_every_defence(capsys: pytest.CaptureFixture[str]) -> None:
    from holdfast.classifiers.defences import DEFENCES

    assert main(["finetune", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    *most, last = DEFENCES
    assert f"{', '.join(most)} or {last}" in text
    assert {name: kind.EPOCHS for name, kind in DEFENCES.items() if kind.EPOCHS != 3.0} == {"adv": 4.0}
    assert "[default: 4 for adv, 3 for the others]" in text


@pytest.mark.parametrize("defence", ["adv", "pgd", "freelb", "smart", "robustembed"])
def test_a_defended_run_says_how(defence: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"adv": ["--set", "clean_epochs=0", "--set", "source=masked-lm", "--set", "min_similarity=-1"]}.get(
        defence, ["--set", "steps=2"]
    )
    if defence == "robustembed":
        options = ["--set", "pgd-steps=2"]
    assert main([*words("--defence", defence, *options), "--max-steps", "3", "--output", "r.json"]) == 0
    protocol = read_result(here / "r.json")["protocol"]
    assert protocol["defence"] == defence
    key, value = {"adv": ("clean_epochs", 0.0), "robustembed": ("pgd_steps", 2)}.get(defence, ("steps", 2))
    assert protocol["defence_options"][key] == value
    assert len(protocol["defence_options"]) > 4
    assert protocol["training"]["epochs"] == (4.0 if defence == "adv" else 3.0)
    if defence == "smart":
        assert protocol["training"]["precision"] == "fp32"
    record = json.loads((here / "r" / "run.json").read_text())
    assert record["defence_options"] == protocol["defence_options"]
    assert f"{key}={value}" in (here / "r" / "README.md").read_text()
    assert defence in capsys.readouterr().out


def test_a_run_tells_what_was_left_out_and_where_the_model_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words(task="mr"), "--max-steps", "3", "--output", "r.json"]) == 0
    message = capsys.readouterr()
    assert "excluded 30 from training: in textfooler/mr" in message.err
    assert "dev accuracy" in message.err
    assert 'AutoModelForSequenceClassification.from_pretrained("r")' in message.out
    assert "30 excluded" in message.out
    result = read_result(here / "r.json")
    assert not (here / "r" / "results.json").exists()
    assert f"{result['results'][0]['metrics']['accuracy']:.2f}" in message.out
    assert result["protocol"]["excluded"][0] == {
        "because": "textfooler/mr",
        "texts": 30,
        "from_train": 30,
        "from_dev": 0,
    }
    assert result["protocol"]["data"]["train"]["texts"] == 154
    card = (here / "r" / "README.md").read_text()
    assert "left out: in textfooler/mr | `30 texts`" in card
    assert "16 texts held out of mr all" in card

    assert main([*words(), "--frozen", "--json"]) == 0
    message = capsys.readouterr()
    assert message.err == ""
    assert json.loads(message.out) == read_result(here / "out" / "results.json")
    assert json.loads(message.out)["command"].startswith("holdfast finetune lm --task sst2")
    assert main([*words(), "--frozen", "--resume"]) == 0  # finished already
    assert 'SentenceTransformer("out")' in capsys.readouterr().out
    assert main([*words(), "--frozen", "--resume", "--seed", "7"]) == 2  # another run is not
    assert "training seed was 42 and is now 7" in capsys.readouterr().err
    assert main([*words(), "--frozen", "--resume", "--train-split", "dev"]) == 2
    assert "train_split was None and is now 'dev'" in capsys.readouterr().err
    assert main([*words(task="mr"), "--frozen", "--resume"]) == 2
    assert "task was 'sst2' and is now 'mr'" in capsys.readouterr().err
