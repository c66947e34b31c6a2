"""The gate of `holdfast check` and `holdfast audit`: what is checked before, and what is reported at the end."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from holdfast.audit.gate.gate_options import GateOptions
from holdfast.cli.console import console
from holdfast.cli.error_lines import warn_changed
from holdfast.cli.verbs import Call
from holdfast.errors import UserError
from holdfast.files import check_file_place

if TYPE_CHECKING:
    from holdfast.audit.gate.checks import Check
    from holdfast.audit.gate.conditions import Condition
    from holdfast.evaluation.pairing.compare_inputs import ComparedResult

FAILED = 1
"""The exit code of a gate that fails."""


def read_baseline(path: Path | None) -> ComparedResult | None:
    """Read the baseline of a gate, if one is given."""
    from holdfast.audit.gate.checks import read_source

    return None if path is None else read_source(path)


def end_gate(checks: Sequence[Check], notes: Sequence[str], options: GateOptions, call: Call, *, suite: str) -> None:
    """Report the outcomes of a gate; exit with code 1 if a condition failed."""
    from holdfast.audit.gate.reports import failed_line, github_annotations, summary_line, write_junit

    if options.junit is not None:
        write_junit(options.junit, checks, suite=suite)
    out = console()
    if not call.as_json:
        for line in [
            *(failed_line(each) for each in checks if each.failed),
            *(each.message for each in checks if each.failed is None),
            *notes,
            summary_line(checks),
        ]:
            out.print(line, markup=False, highlight=False, soft_wrap=True)
    if options.github if options.github is not None else bool(os.environ.get("GITHUB_ACTIONS")):
        for line in github_annotations(checks, " ".join(suite.split()[:2])):
            print(line, file=sys.stderr if call.as_json else sys.stdout)
    if any(each.failed for each in checks):
        raise typer.Exit(FAILED)


def gate_of(options: GateOptions, items: Callable[[], Sequence[str]]) -> tuple[list[Condition], ComparedResult | None]:
    """Return the conditions and the baseline of an audit's gate, checked before the audit starts.

    Args:
        options: the options of the gate.
        items: returns the names of all items that the audit may measure; called if conditions need them.

    Raises:
        UserError: a condition is not valid, names no item of the audit, or, if it is about the baseline, of that, or
            needs a baseline; or the baseline is not an audit; or the JUnit XML cannot be written.
    """
    if options.junit is not None:
        check_file_place("--junit", options.junit)
    if options.against is None and not options.fail_if:
        if options.junit is not None:
            raise UserError("--junit needs conditions: --fail-if CONDITION or --against BASELINE.json")
        return [], None
    from holdfast.audit.gate.checks import parse_conditions
    from holdfast.audit.gate.measurements import check_item, measured

    baseline = read_baseline(options.against)
    conditions = parse_conditions(options.fail_if, options.against, items() if options.fail_if else ())
    if baseline is None:
        return conditions, None
    if baseline.result["kind"] != "audit":
        raise UserError(f"{baseline.path} is a result of {baseline.result['kind']}, not of audit")
    warn_changed([baseline.path] if baseline.changed else [])
    of_baseline = measured(baseline.result)
    for condition in conditions:
        if condition.against_baseline:
            check_item(condition, of_baseline)
    return conditions, baseline


def close_gate(
    result: Mapping[str, Any],
    path: Path | None,
    gate: tuple[Sequence[Condition], ComparedResult | None],
    options: GateOptions,
    call: Call,
) -> None:
    """Judge the gate of an audit that has ended; exit with code 1 if it fails."""
    conditions, baseline = gate
    if not conditions and baseline is None:
        return
    from holdfast.audit.gate.checks import run_checks
    from holdfast.evaluation.pairing.compare_inputs import ComparedResult

    source = ComparedResult(path or Path("this audit"), dict(result))
    checks, notes = run_checks(source, conditions, baseline)
    end_gate(checks, notes, options, call, suite=f"holdfast audit {shlex.quote(str(result['model']))}")
