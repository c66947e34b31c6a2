"""`holdfast harden`: training of a copy that stays close to the original, and audits of both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.audit import AuditSettings, audit
from holdfast.audit.audit_inputs import matches, prepare_inputs
from holdfast.data.sources import read_once
from holdfast.edits.text_language import check_language
from holdfast.errors import EndsRun, UserError
from holdfast.evaluation.pairing.audited import is_paired
from holdfast.evaluation.pairing.compare_inputs import ComparedResult, Side
from holdfast.evaluation.pairing.rows import compare
from holdfast.files import created_folder, exclusive, locked
from holdfast.hardening import sts_cost
from holdfast.hardening.harden_settings import AUTO, HardenSettings
from holdfast.launch import is_first_process
from holdfast.model_folder import is_model2vec
from holdfast.model_lookup import model_identity, resolve_model
from holdfast.number_ranges import check_numbers
from holdfast.progress import stage
from holdfast.results import earlier_result, new_result, write_result
from holdfast.runs.run_log import HARDEN_FILE
from holdfast.runs.run_record import RUN
from holdfast.training.training_run import train

if TYPE_CHECKING:
    from rich.console import Console

BEFORE, AFTER = "audit-before.json", "audit-after.json"


@contextlib.contextmanager
def _alone(output: Path) -> Iterator[None]:
    """Lock the output for this run, audits included; the training also locks the folder itself."""
    with contextlib.ExitStack() as stack:
        if is_first_process():
            stack.enter_context(created_folder(output.parent))
            stack.enter_context(locked(output.parent / f".{output.name}.lock", output))
        yield


@exclusive(lambda settings: _alone(settings.output))
def harden(
    settings: HardenSettings,
    *,
    resume: bool = False,
    console: Console | None = None,
    command: list[str] | None = None,
) -> dict[str, Any]:
    """Harden an encoder, audit it before and after, and return the result, also written to ``OUTPUT/harden.json``.

    With ``resume``, the run in ``settings.output`` is continued, and a finished audit is not repeated.

    Returns:
        A result with rows of what is found in an index of the original encoder (task "old index"), if texts were held
        out; a row for the average of the seven STS test sets, if they are available; and one per item of the audit:
        ``metrics`` has ``{before, after}`` of its main figure with their intervals, and ``{difference,
        difference_low, difference_high, p}``; ``verdicts`` is ``[before, after]``, and empty for the others. There are
        no rows of the last two kinds without an audit. ``selected`` tells which step and weight were kept. With several
        processes, all but the first return an empty result.

    Raises:
        UserError: an error in the settings or the data, or an error of the training or the audit.
    """
    check_numbers(settings)  # before audits, which take minutes
    settings.refuse_unread()
    settings.check_misspellings()
    if settings.language is not None:
        check_language(settings.language)
    folder = resolve_model(settings.model)
    if settings.pooling is None and not (folder / "modules.json").exists() and not is_model2vec(folder):
        raise UserError(
            f"{settings.model} is a raw language model, not an encoder in use: train an encoder with "
            "`holdfast train`, or name the pooling that you use with --pooling"
        )
    if settings.audited:
        if settings.texts is not None and read_once(settings.texts, settings.data):
            raise UserError(
                f"--texts {settings.texts} can be read only once, and both audits need it: write its texts to a file"
            )
        with stage(console, "reading the texts of the audits", announce=False):
            prepare_inputs(_audit_settings(settings, settings.model, BEFORE, settings.masked_lm))
    if console is not None and is_first_process() and (message := _perturbations(settings)):
        console.print(message, highlight=False, markup=False)
    texts, spelling = settings.texts_to_train_on()
    trained = train(settings.training(), resume=resume, console=console, command=command, texts=texts)
    if not trained:
        return {}
    if spelling is not None:
        line = spelling.save(settings.output)
        if console is not None:
            console.print(line, highlight=False, markup=False)
    rows: list[dict[str, Any]] = list(trained.get("old_index", []))
    sts: list[str] | str = []
    seconds = {"train_seconds": trained["timing"]["train_seconds"]}
    if settings.audited:
        before = _audit(settings, settings.model, BEFORE, settings.masked_lm, console, command)
        # Both audits use the same masked LM: the original's folder may have a masked-LM head, the copy's has none.
        same = "masked_lm" in before["protocol"]["opened_resources"]
        masked_lm = before["protocol"]["resources"]["masked_lm"] if same else settings.masked_lm
        after = _audit(settings, str(settings.output), AFTER, masked_lm, console, command)
        sts_rows, sts = _sts_rows(settings, console, command)
        rows += sts_rows + rows_before_and_after(before, after, paired_differences(before, after, settings.output))
        seconds |= {"audit_seconds": sum(each["timing"]["audit_seconds"] for each in (before, after))}
    result = new_result(
        "harden",
        command=command,
        model=str(settings.output),
        path=settings.output,
        protocol={
            **trained["protocol"],
            "steps": trained["selected"]["steps"],
            "audits": [BEFORE, AFTER] if settings.audited else [],
            "sts": sts,
        },
        seed=settings.seed,
        results=rows,
        timing=seconds,
        device=trained["environment"]["device"],
    )
    if "truncated" in trained:  # in training; the audits and the test sets have their own counts
        result["truncated"] = trained["truncated"]
    result["selected"] = trained["selected"]
    result[RUN] = trained.get(RUN)
    write_result(settings.output / HARDEN_FILE, result)
    return result


def _perturbations(settings: HardenSettings) -> str:
    """Return lines about the perturbations in training that depend on what is installed and at hand, else ""."""
    language = settings.corpus_language
    assumed = language.line() if language.confidence is None else None
    lines = [] if assumed is None else [assumed]
    if "edits" not in settings.options:
        usable, reasons = settings.usable_edits()
        lines += [f"against {' and '.join(usable)} alone: {reason}" for reason in reasons.values()]
    if found := settings.sources_of_synonyms():
        lines.append(f"against noise and synonyms: {', '.join(map(str, found))}")
    elif settings.synonyms == AUTO and "synonyms" not in settings.options:
        lines.append(
            "against noise alone: no synonyms are on this machine (name some with --synonyms FILE; "
            "`holdfast doctor --resources light` explains how to get some)"
        )
    return "\n".join(lines)


def _audit_settings(settings: HardenSettings, model: str, name: str, masked_lm: str | None) -> AuditSettings:
    return AuditSettings(
        model=model,
        texts=settings.texts,
        examples=settings.examples,
        masked_lm=masked_lm,
        language=settings.language,
        pooling=settings.pooling if name == BEFORE else None,
        seed=settings.seed,
        data=settings.data,
        **settings.as_options(),
    )


def _audit(
    settings: HardenSettings,
    model: str,
    name: str,
    masked_lm: str | None,
    console: Console | None,
    command: list[str] | None,
) -> dict[str, Any]:
    """Audit a model, or read the audit of the run that is continued."""
    wanted = _audit_settings(settings, model, name, masked_lm)
    path = settings.output / name
    earlier = earlier_result(path, model_identity(resolve_model(model))["model_sha256"])
    if earlier is not None and matches(earlier, wanted):
        return earlier
    if earlier is not None and console is not None:
        console.print(f"{path} is an audit with other settings: audit again", highlight=False, markup=False)
    with stage(console, f"auditing {model}"):
        result = audit(wanted, console=console, command=command)
    write_result(path, result)
    return result


def _sts_rows(
    settings: HardenSettings, console: Console | None, command: list[str] | None
) -> tuple[list[dict[str, Any]], list[str] | str]:
    """Return the change on the STS test sets: one row and the names of its files, or no row and the reason."""
    if not sts_cost.available(settings.data):
        return [], "the seven STS test sets are not on this machine"
    models = ((settings.model, sts_cost.BEFORE, settings.pooling), (str(settings.output), sts_cost.AFTER, None))
    try:
        before, after = (
            sts_cost.evaluate_sts(
                model,
                settings.output / name,
                pooling=pooling,
                data=settings.data,
                prompts=settings,
                console=console,
                command=command,
            )
            for model, name, pooling in models
        )
        row = sts_cost.average_row(before, after, settings.output)
    except EndsRun:
        raise
    except UserError as error:  # a training must not be lost because vectors have no score
        if console is not None:
            console.print(f"not measured on the STS test sets: {error}", highlight=False, markup=False)
        return [], str(error)
    return [row], [sts_cost.BEFORE, sts_cost.AFTER]


def paired_differences(
    before: dict[str, Any], after: dict[str, Any], folder: Path
) -> dict[tuple[str, str], Mapping[str, float]]:
    """Return paired differences by task and split, ``{baseline, other, difference, low, high, p}``, as `compare` does.

    ``n`` is the number of the texts that both audits measured.
    """
    sides = [Side(name, (ComparedResult(folder / name, audit),)) for name, audit in ((BEFORE, before), (AFTER, after))]
    if not all(any(map(is_paired, audit["results"])) for audit in (before, after)):
        return {}  # invalid vectors: nothing could be measured, as the verdicts show
    rows, _ = compare(*sides)
    return {(row["task"], row["split"]): {**row["metrics"], "n": row["n"]} for row in rows}


def rows_before_and_after(
    before: Mapping[str, Any], after: Mapping[str, Any], paired: Mapping[tuple[str, str], Mapping[str, float]]
) -> list[dict[str, Any]]:
    """Return a row per item that both audits measured, with its main metric before and after.

    If an audit had time for some texts only, before and after are over those that both audits measured, as the
    difference is.

    Args:
        before: the audit before the hardening.
        after: the audit after it.
        paired: the differences of `paired_differences`.
    """
    rows_after = {(row["task"], row["split"]): row for row in after["results"]}
    rows = []
    for row in before["results"]:
        key, headline = (row["task"], row["split"]), row["headline"]
        row_after = rows_after.get(key)
        if row_after is None or headline not in row["metrics"] or headline not in row_after["metrics"]:
            continue
        metrics = {
            when + end: each["metrics"][headline + end]
            for when, each in (("before", row), ("after", row_after))
            for end in ("", "_low", "_high")
            if headline + end in each["metrics"]
        }
        count, pair = min(row["n"], row_after["n"]), paired.get(key, {})
        if "n" in pair and {row["n"], row_after["n"]} != {pair["n"]}:
            metrics = {"before": pair["baseline"], "after": pair["other"]}
            count = int(pair["n"])
        rows.append(
            {
                "task": row["task"],
                "split": row["split"],
                "n": count,
                "metric": headline,
                "metrics": metrics | sts_cost.difference_metrics(pair),
                "verdicts": [row["verdict"], row_after["verdict"]],
            }
        )
    return rows
