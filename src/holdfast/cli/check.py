"""``holdfast check``."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from holdfast.audit.gate.gate_options import GateOptions
from holdfast.cli.app import AUDIT
from holdfast.cli.console import work_quietly
from holdfast.cli.error_lines import warn_changed
from holdfast.cli.gate import end_gate, read_baseline
from holdfast.cli.verbs import Call, verb
from holdfast.errors import UserError
from holdfast.files import check_file_place
from holdfast.settings import ARGUMENT


@dataclass(frozen=True)
class CheckSettings(GateOptions):
    """Settings of a check.

    Attributes:
        result: A result of audit, evaluate, finetune or attack.
    """

    result: Annotated[Path, ARGUMENT]


@verb(
    CheckSettings,
    short_help="Fail a build if a result is bad, or worse than a baseline.",
    panel=AUDIT,
    examples="""
holdfast check audit.json --against baseline.json
holdfast check audit.json --fail-if 'typos.stability < 0.85' --junit holdfast.xml
holdfast check audit.json --against baseline.json --fail-if 'typos.stability worse than baseline, p < 0.01'
""",
)
def check(settings: CheckSettings, call: Call) -> None:
    """Check a result: exit with code 1 if a condition is met, or if a main metric is worse than the baseline's."""
    if settings.against is None and not settings.fail_if:
        raise UserError("nothing to check: give --against BASELINE.json, or conditions as --fail-if CONDITION")
    if settings.junit is not None:
        check_file_place("--junit", settings.junit)
    with work_quietly():
        from holdfast.audit.gate.checks import parse_conditions, read_source, rows_of, run_checks
        from holdfast.results import new_result

        conditions = parse_conditions(settings.fail_if, settings.against)
        source, baseline = read_source(settings.result), read_baseline(settings.against)
        warn_changed(each.path for each in (source, baseline) if each is not None and each.changed)
        checks, notes = run_checks(source, conditions, baseline)
        result = new_result(
            "check",
            command=call.command,
            model=source.result["model"],
            identity={"model_sha256": source.result["model_sha256"]},
            protocol={
                "result": str(settings.result),
                "against": None if settings.against is None else str(settings.against),
                "notes": notes,
            },
            seed=None,
            results=rows_of(checks),
        )
    call.finish(result, None, lambda: None)
    end_gate(checks, notes, settings, call, suite=f"holdfast check {shlex.quote(str(settings.result))}")
