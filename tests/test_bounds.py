"""Every number has a range, and the same one from the command line, YAML, ``--set`` and Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from holdfast.attacks.attack_run import attack
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.audit.audit_run import audit
from holdfast.audit.audit_settings import AuditSettings
from holdfast.baselines.baseline_settings import BaselineSettings
from holdfast.classifiers.finetune_settings import FinetuneSettings
from holdfast.cli import main
from holdfast.cli.app import app
from holdfast.errors import UserError
from holdfast.experiments.definition import read_definition
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.hardening.distill_settings import DistillSettings
from holdfast.hardening.harden_settings import HardenSettings
from holdfast.hardening.hardening_run import harden
from holdfast.leaderboard.leaderboard_settings import LeaderboardCheckSettings
from holdfast.number_ranges import RANGES, Range, check_numbers, in_range, short
from holdfast.objectives import METHODS
from holdfast.pretraining.pretrain_settings import PretrainSettings
from holdfast.training.train_config import TrainConfig

HUGE = int("9" * 400)
WRONG: list[Any] = [HUGE, -HUGE, 10**26, float("inf"), float("nan"), float("1e400")]
OTHERWISE_CHECKED = {"warmup_share", "weight_decay", "dropout", "mask_share", "join"}  # shares: from 0 to below 1
ALL_SETTINGS = {
    TrainConfig: ("simcse", "m", "c", Path("o")),
    FinetuneSettings: ("m", "sst2", Path("o")),
    PretrainSettings: ("c", Path("o")),
    BaselineSettings: ("whitening", Path("o")),
    AttackSettings: ("m", ["pwws"]),
    AuditSettings: ("m",),
    HardenSettings: ("m", "c", Path("o")),
    DistillSettings: ("m", "layers=1", "c", Path("o")),
    ReproduceSettings: ("adcl/table1", "smoke", Path("o")),
    LeaderboardCheckSettings: (),
}


def numbers(kind: type) -> list[str]:
    """The fields of settings that take a number."""
    hints = get_type_hints(kind)
    return [f.name for f in fields(kind) if {int, float} & {hints[f.name], *get_args(hints[f.name])}]


def test_every_number_of_every_setting_has_a_range() -> None:
    missing = {f"{kind.__name__}.{name}" for kind in ALL_SETTINGS for name in numbers(kind) if name not in RANGES}
    assert {name.partition(".")[2] for name in missing} == OTHERWISE_CHECKED
    assert {name.partition(".")[0] for name in missing} == {"PretrainSettings", "DistillSettings", "TrainConfig"}


@pytest.mark.parametrize("value", WRONG, ids=short)
@pytest.mark.parametrize("kind", ALL_SETTINGS)
def test_settings_refuse_what_is_out_of_range(kind: type, value: Any) -> None:
    good = kind(*ALL_SETTINGS[kind])
    check_numbers(good)
    for name in set(numbers(kind)) - OTHERWISE_CHECKED:
        option = f"--{name.replace('_', '-')}"
        with pytest.raises(UserError, match=f"^{option} must be .+, got .{{1,60}}$"):
            check_numbers(replace(good, **{name: value}))


def test_a_range() -> None:
    above = Range(0, 2, above=True)
    assert [above.holds(n) for n in (0, 1e-300, 2, 2.1, float("nan"))] == [False, True, True, False, False]
    assert str(above) == "more than 0 and at most 2"
    assert str(Range(0, 2**32 - 1)) == "from 0 to 4294967295"
    for wrong in (True, "5", None, 0):
        with pytest.raises(UserError, match=r"^--k must be from 1 to 1000000, got"):
            in_range("k", wrong)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"^here must be from 2 to"):
        in_range("k", 1, "here", least=2)


# --- every verb ----------------------------------------------------------------------------------------------------

WORDS: dict[str, list[str]] = {
    "pretrain": ["--corpus", "c.txt", "--output", "o"],
    "train": ["simcse", "--model", "m", "--corpus", "c.txt", "--output", "o"],
    "baseline": ["whitening", "--model", "m", "--corpus", "c.txt", "--output", "o"],
    "finetune": ["m", "--task", "sst2", "--output", "o"],
    "attack": ["m", "--task", "sst2", "--recipes", "pwws"],
    "evaluate": ["m"],
    "audit": ["m"],
    "distill": ["m", "--student", "layers=1", "--corpus", "c.txt", "--output", "o"],
    "harden": ["m", "--corpus", "c.txt", "--output", "o"],
    "space": ["m", "--attacked", "r.json", "--plot", "p.png"],
    "masks": ["m", "--text", "a dog runs"],
    "compare": ["a.json", "b.json"],
    "show": ["a.json"],
    "report": ["a.json", "--output", "p.html"],
    "watch": ["run"],
    "reproduce": ["adcl/table1", "--scale", "smoke", "--output", "o", "--model", "m", "--corpus", "c.txt"],
}


def options() -> Iterator[tuple[str, str, bool]]:
    """Verb and name of every option that takes a number, and whether it is a whole one."""
    for command in app.registered_commands:
        assert command.callback is not None
        for name, hint in get_type_hints(command.callback).items():
            if {int, float} & {hint, *get_args(hint)}:
                yield command.callback.__name__, f"--{name.replace('_', '-')}", float not in {hint, *get_args(hint)}


NUMBERS = list(options())


def test_the_verbs_with_numbers_are_all_here() -> None:
    assert len(NUMBERS) > 60
    assert {verb for verb, _, _ in NUMBERS} == set(WORDS)


@pytest.mark.parametrize(("verb", "option", "whole"), NUMBERS)
def test_the_command_line_refuses_what_is_out_of_range(
    verb: str,
    option: str,
    whole: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one line that names the option and the range, before a file is read; no model is here that could be loaded."""
    monkeypatch.chdir(tmp_path)
    for value in ("9" * 400, "-5") if whole else ("9" * 400, "-5", "nan", "1e400"):
        assert main([verb, *WORDS[verb], option, value]) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1
        assert len(message) < 600
        assert option in message or f"'{option.lstrip('-').replace('-', '_')}'" in message, message
    assert list(tmp_path.iterdir()) == []


# --- YAML, --set and Python ------------------------------------------------------------------------------------------

LONG = {"decimal": "9" * 5000, "hexadecimal": "0x" + "f" * 5000, "in base 60": "1:" + ":".join(["59"] * 9000)}


@pytest.mark.parametrize(
    ("number", "says"),
    [
        ("9" * 400, "max_steps must be from 1 to 1000000000, got 99999999999999999999… (400 characters)"),
        ("100000000000000000000000000", "max_steps must be from 1 to 1000000000, got 1"),
        ("-5", "max_steps must be from 1 to 1000000000, got -5"),
        ("1.0e+400", "max_steps takes a whole number or null, not inf"),
        *(
            (long, f"not valid YAML: a number of {len(long)} characters, and no option takes one")
            for long in LONG.values()
        ),
        (f"{LONG['in base 60']}.5", "not valid YAML: a number of"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_yaml_names_file_line_and_range(
    number: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(f"seed: 1\nmax-steps: {number}\n")
    for verb in (["train", "simcse", "--model", "m"], ["pretrain"]):
        assert main([*verb, "--config", "c.yaml", "--corpus", "c.txt", "--output", "o"]) == 2
        assert capsys.readouterr().err.startswith(f"holdfast: c.yaml:2: {says}")
    assert not Path("o").exists()


@pytest.mark.parametrize("value", ["9" * 400, LONG["decimal"], LONG["hexadecimal"], "1e400", ".inf", "-.inf", "nan"])
def test_set_refuses_what_is_out_of_range(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = {
        "temperature": ["train", "simcse", "--model", "m", "--corpus", "c.txt", "--output", "o"],
        "pgd_steps": ["train", "robustembed", "--model", "m", "--corpus", "c.txt", "--output", "o"],
        "max_words": ["attack", "m", "--task", "sst2", "--recipes", "pwws"],
        "steps": ["finetune", "m", "--task", "sst2", "--output", "o", "--defence", "pgd"],
        "learning_rate": ["baseline", "flow", "--model", "m", "--corpus", "c.txt", "--output", "o"],
        "encoder.sentences": ["reproduce", "adcl/table1", "--scale", "smoke", "--output", "o"],
    }
    for name, verb in words.items():
        assert main([*verb, "--set", f"{name}={value}"]) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1
        assert name in message, message
        assert " takes a " in message or " must be " in message
        assert len(message) < 600


@pytest.mark.parametrize(
    "key",
    [
        *("encoder: {max_steps: N}", "encoder: {sentences: N}", "encoder: {from: {batch_size: N}}"),
        *("classifier: {epochs: N}", "evaluation: {limit: N}", "attack: {examples: N}"),
    ],
)
@pytest.mark.parametrize("value", ["9" * 400, "0", "-5"])
def test_a_table_names_file_line_and_range(key: str, value: str, tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    says = key.replace("N", value)
    path.write_text(
        f"title: t\nsource: s\nrows: {{a: {{b: {{}}}}}}\ncolumns: {{c: {{measure: sts}}}}\nshared:\n  {says}\n"
    )
    with pytest.raises(UserError, match=r"t\.yaml:6: '\w+' must be (from|more than) "):
        read_definition(str(path), "smoke")


@pytest.mark.parametrize("method", METHODS)
def test_options_from_python_are_in_range_too(method: str) -> None:
    from holdfast.training.method_options import method_options

    hints = get_type_hints(METHODS[method].__init__)
    named = [
        p.name for p in inspect.signature(METHODS[method].__init__).parameters.values() if p.kind is p.KEYWORD_ONLY
    ]
    for name in (name for name in named if {int, float} & {hints[name], *get_args(hints[name])}):
        for value in (HUGE, float("inf")):
            with pytest.raises(UserError, match=f"option '{name}' (must be|takes) "):
                method_options(method, None, {name: value})


@pytest.mark.parametrize(
    ("run", "settings"),
    [
        (harden, HardenSettings("m", "c", Path("o"))),
        (audit, AuditSettings("m")),
        (attack, AttackSettings("m", ["pwws"])),
    ],
)
def test_python_is_told_before_anything_is_loaded(run: Callable[[Any], Any], settings: Any) -> None:
    with pytest.raises(UserError, match="--examples must be from 1 to 1000000000"):
        run(replace(settings, examples=HUGE))


def test_a_number_that_cannot_be_read_is_a_short_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "a.json", "--limit", "9" * 50_000]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert len(message) < 2100
