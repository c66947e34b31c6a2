"""The part of ``holdfast evaluate`` about tasks of mteb: its checks, the measurement, and the export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.verbs import Call
from holdfast.errors import UserError, emit_notice
from holdfast.evaluation.mteb_names import require_mteb
from holdfast.files import check_folder_place
from holdfast.launch import processes
from holdfast.progress import stage

if TYPE_CHECKING:
    from holdfast.cli.evaluate import EvaluateSettings
    from holdfast.evaluation.mteb_run import Measured, Started
    from holdfast.user_functions import SentenceEncoder


def tasks_of_mteb(settings: EvaluateSettings, names: Sequence[str]) -> list[Any]:
    """Return the named tasks of mteb; refuse options that do not apply to them, and check that mteb is there."""
    if names or settings.export_mteb is not None:
        require_mteb(names)
    if settings.export_mteb is not None:  # before hours are spent on what cannot be written
        check_folder_place("--export-mteb", settings.export_mteb)
    if settings.mteb_cache is not None and not names:
        raise UserError("--mteb-cache is for tasks of mteb: add --tasks mteb:NAME")
    if settings.mteb_cache is not None:
        check_folder_place("--mteb-cache", settings.mteb_cache)
    if not names:
        return []
    for flag, value in (("--noise", settings.noise), ("--as", settings.forms)):
        if value is not None:
            raise UserError(f"{flag} is for holdfast's own tasks: measure {names[0]} in a call without it")
    if processes() > 1:
        raise UserError(f"{names[0]} is measured in one process: start one")
    from holdfast.evaluation.mteb_selection import mteb_tasks

    return mteb_tasks(names)


def measured_by_mteb(
    settings: EvaluateSettings,
    call: Call,
    encoder: SentenceEncoder,
    identity: Mapping[str, Any],
    tasks: Sequence[Any],
    *,
    folder: Path | None,
) -> tuple[list[Measured], dict[str, Any]]:
    """Measure tasks of mteb; return them and the part of the protocol about mteb, which an export needs, too.

    ``folder`` is that of the model; None: it is a function.
    """
    if not tasks and settings.export_mteb is None:
        return [], {}
    from holdfast.evaluation.mteb_encoder import model_meta, mteb_encoder, other_prompts
    from holdfast.evaluation.mteb_run import cache_folder, measure, mteb_protocol

    meta = model_meta(
        settings.model, identity, encoder, folder=folder, pooling=settings.pooling, precision=settings.precision
    )
    if tasks and (prompts := other_prompts(meta, encoder)):
        listed = ", ".join(f"{name} {text!r}" for name, text in prompts.items())
        emit_notice(
            f"mteb's own entry of {meta.name} has prompts that the model's files do not have, {listed}: to measure it "
            "as mteb's leaderboard does, give them with --prompt, --query-prompt or --document-prompt"
        )
    with stage(call.progress, "mteb") as computing:
        model = mteb_encoder(encoder, meta, settings.precision)
        started: Started = lambda name, at, of: computing.relabel(f"mteb {at}/{of}: {name}")  # noqa: E731
        measured = measure(model, tasks, cache=settings.mteb_cache, started=started)
    if known := [each for each in measured if each.cached]:
        rest = "nothing was computed" if len(known) == len(measured) else f"{len(measured) - len(known)} were computed"
        where = cache_folder(settings.mteb_cache)
        call.progress.print(
            f"{len(known)} of {len(measured)} tasks of mteb were read from {where}; {rest}",
            highlight=False,
            markup=False,
        )
    return measured, {"mteb": mteb_protocol(model)}


def export_result(folder: Path, result: Mapping[str, Any], call: Call) -> None:
    """Write a result as mteb's files."""
    from holdfast.evaluation.mteb_export import export_to_mteb

    written = export_to_mteb(result, folder)
    line = f"{len(written.files)} files of mteb were written to {written.folder}"
    call.progress.print(line, highlight=False, markup=False)
    for left in written.left_out:
        call.progress.print(f"not exported: {left}", highlight=False, markup=False)
