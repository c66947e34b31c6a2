"""Settings classes as the only declaration of options: command line, help, YAML and Python agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
import typer

from holdfast.attacks.attack_settings import AttackSettings
from holdfast.baselines.baseline_settings import BaselineSettings
from holdfast.classifiers.finetune_settings import FinetuneSettings
from holdfast.cli.app import app
from holdfast.cli.audit import GatedAuditSettings
from holdfast.cli.check import CheckSettings
from holdfast.demo.demo_settings import DemoSettings
from holdfast.errors import UserError
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.hardening.distill_settings import DistillSettings
from holdfast.hardening.harden_settings import HardenSettings
from holdfast.pretraining.pretrain_settings import PretrainSettings
from holdfast.settings import ARGUMENT, PYTHON_ONLY, Assignments, Folder, Spelling, options_of, read_settings
from holdfast.training.train_config import TrainConfig

VERBS: dict[str, type] = {
    "train": TrainConfig,
    "pretrain": PretrainSettings,
    "finetune": FinetuneSettings,
    "baseline": BaselineSettings,
    "harden": HardenSettings,
    "distill": DistillSettings,
    "audit": GatedAuditSettings,
    "check": CheckSettings,
    "attack": AttackSettings,
    "reproduce": ReproduceSettings,
    "demo": DemoSettings,
}


@dataclass(frozen=True)
class Small:
    """Settings of a test.

    Attributes:
        name: A name.
        output: Folder of
            the result.
        epochs: Passes; None: the method's.
        max_steps: Steps.
        kinds: Kinds, joined by commas.
        precision: fp32 or bf16.
        options: Option; repeatable.
        names: A name for each class; None: its own.
        texts: Text; repeatable.
        device: Device.
    """

    EXCLUSIVE: ClassVar = (("epochs", "max_steps"),)

    name: Annotated[str, ARGUMENT]
    output: Folder
    epochs: float | None = None
    max_steps: int | None = None
    kinds: Sequence[str] = ("a", "b")
    precision: Literal["fp32", "bf16"] = "fp32"
    options: Assignments = field(default_factory=dict)
    names: Annotated[Mapping[str, str] | None, Spelling(metavar="A=B", parse=lambda text: {"parsed": text})] = None
    texts: Annotated[tuple[str, ...], Spelling(repeated=True)] = ()
    device: Annotated[str | None, PYTHON_ONLY] = None


def read(folder: Path, text: str, **given: Any) -> Small:
    file = folder / "run.yaml"
    file.write_text(text)
    return read_settings(Small, given, file)


def test_an_option_has_the_type_default_and_description_of_its_field() -> None:
    found = {option.name: option for option in options_of(Small)}
    assert list(found) == [each.name for each in fields(Small) if each.name != "device"]
    assert (found["output"].hint, found["output"].default, found["output"].spelling.metavar) == (Path, MISSING, "DIR")
    assert found["output"].help == "Folder of the result."
    assert found["epochs"].help == "Passes. [default: the method's]"
    assert (found["options"].flag, found["max_steps"].flag) == ("--set", "--max-steps")
    assert found["name"].spelling.argument


@pytest.mark.parametrize("verb", VERBS)
def test_every_setting_is_an_option_of_its_verb(verb: str) -> None:
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    shown = {parameter.name: parameter for parameter in command.params}
    declared = options_of(VERBS[verb])
    assert [option.name for option in declared] == [name for name in shown if name in {o.name for o in declared}]
    assert set(shown) - {option.name for option in declared} <= {"config", "resume", "as_json", "help"}
    for option in declared:
        assert shown[option.name].help.startswith(option.help)
        if not option.spelling.argument:
            assert option.flag.partition("/")[0] in shown[option.name].opts
    python_only = {each.name for each in fields(VERBS[verb])} - {option.name for option in declared}
    assert python_only <= {"device", "prose", "steps", "batch_size", "learning_rate", "audited", "seed"}


def test_yaml_and_the_command_line_make_the_same_settings(tmp_path: Path) -> None:
    text = "name: x\noutput: out\nkinds: [c, d]\nmax-steps: 7\nprecision: bf16\noptions: {some-thing: 0.1}\n"
    in_file = read(tmp_path, text)
    assert read(tmp_path, text.replace("options:", "set:")) == in_file, "a key may be the option's name"
    given = {"name": "x", "output": "out", "kinds": "c, d", "max_steps": 7, "precision": "bf16"}
    assert in_file == Small("x", Path("out"), None, 7, ("c", "d"), "bf16", {"some_thing": 0.1})
    assert read_settings(Small, {**given, "options": ["some-thing=0.1"]}) == Small(
        "x", Path("out"), None, 7, ("c", "d"), "bf16", {"some_thing": "0.1"}
    )
    assert read_settings(Small, {**given, "names": "A=B"}).names == {"parsed": "A=B"}


def test_the_command_line_replaces_what_the_file_says(tmp_path: Path) -> None:
    text = "name: x\noutput: out\nmax_steps: 7\noptions:\n  a: 1\n  b: 2\n"
    read_one = read(tmp_path, text, epochs=2.0, options=["b=3"])
    assert (read_one.epochs, read_one.max_steps) == (2.0, None), "the file's steps would win over --epochs"
    assert read_one.options == {"a": 1, "b": "3"}
    assert read(tmp_path, text).options == {"a": 1, "b": 2}


def test_one_value_of_a_repeatable_option_is_whole(tmp_path: Path) -> None:
    text = "name: x\noutput: out\ntexts: A dog, a cat, and a man.\n"
    assert read(tmp_path, text).texts == ("A dog, a cat, and a man.",)
    assert read(tmp_path, "name: x\noutput: out\ntexts: ['a, b', c]\n").texts == ("a, b", "c")
    assert read_settings(Small, {"name": "x", "output": "o", "texts": ["a, b"]}).texts == ("a, b",)


def test_an_argument_that_the_file_gives_too_is_compared_as_a_value(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("table: [adcl/table1]\n")
    read_both = read_settings(ReproduceSettings, {"table": ["adcl/table1"]}, tmp_path / "run.yaml")
    assert read_both.table == ("adcl/table1",)
    with pytest.raises(UserError, match="is for the table"):
        read_settings(ReproduceSettings, {"table": ["adcl/table2"]}, tmp_path / "run.yaml")


MISTAKES = [
    ("output: out", {}, "missing: name"),
    ("name: x", {}, "missing: --output (on the command line or in --config)"),
    ("name: x\noutput: o\nmax_step: 3", {}, "run.yaml:3: unknown key 'max_step' (did you mean 'max_steps'"),
    ("name: x\noutput: o\nmax_steps: many", {}, "run.yaml:3: max_steps takes a whole number or null, not 'many'"),
    ("name: x\noutput: o\nmax_steps: 0", {}, "run.yaml:3: max_steps must be from 1"),
    ("name: x\noutput: o\nprecision: fp23", {}, "'fp32'"),
    ("name: x\noutput: o\ndevice: cpu", {}, "unknown key 'device'"),
    ("name: x\nname: y", {}, "given twice, first in line 1"),
    ("name: x\noutput: o", {"name": "y"}, "is for the name x, the command line says y"),
    ("name: x\noutput: o", {"epochs": 1.0, "max_steps": 3}, "--epochs and --max-steps exclude each other"),
    ("name: x\noutput: o\nepochs: 3\nmax_steps: 2", {}, "run.yaml: epochs and max_steps exclude each other"),
    ("name: x\noutput: o", {"options": ["a"]}, "--set takes name=value, got 'a'"),
]


@pytest.mark.parametrize(("text", "given", "message"), MISTAKES)
def test_a_mistake_is_one_line(text: str, given: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        read(tmp_path, text, **given)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
