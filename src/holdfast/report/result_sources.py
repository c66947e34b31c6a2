"""Reading the results of a report, and naming their models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.errors import UserError
from holdfast.evaluation.intervals import share_interval
from holdfast.evaluation.pairing.compare_inputs import as_object
from holdfast.evaluation.retrieval import TASK as RETRIEVAL
from holdfast.evaluation.retrieval_differences import SEED
from holdfast.files import paths_in
from holdfast.forms import form_of
from holdfast.results import State, examples_of, read_with_state, shown
from holdfast.runs.run_log import METRICS_FILE, TRAININGS, number_of, read_log
from holdfast.runs.run_record import RUN, damage_in, refuse_log_of_another

RECALL = "recall@1"
"""The metric of retrieval that a report charts."""
OF_SEVERAL = ("compare", "transfer", "reproduce", "demo")
"""Kinds of results whose ``model`` is not a single model."""


@dataclass(frozen=True)
class ReportSource:
    """A result file.

    Attributes:
        number: its place on the page, from 1.
        path: the file.
        result: its content; all texts can be shown and encoded.
        log: the records of the training's ``metrics.jsonl``, if there is one beside it.
        group: the index of the argument that named it, and of the form; seeds of one model share it.
        label: the short name of its model, the same for results of the same model; "" if it is of several models.
        state: whether the file has changed since it was written, if that is known.
        damaged: a line for the record and one for the log beside it, if they are damaged.
        form: the form of the vectors that its rows are on; "": the plain one.
    """

    number: int
    path: Path
    result: dict[str, Any]
    log: tuple[dict[str, Any], ...]
    group: int
    label: str = ""
    state: State = "unhashed"
    damaged: tuple[str, ...] = ()
    form: str = ""

    @property
    def kind(self) -> str:
        """The command that made it."""
        return str(self.result["kind"])

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of its results."""
        rows: list[dict[str, Any]] = self.result["results"]
        return rows

    @property
    def model(self) -> str:
        """The model as the user named it."""
        return str(self.result["model"])

    @property
    def protocol(self) -> dict[str, Any]:
        """The settings that decide its numbers."""
        protocol: dict[str, Any] = self.result["protocol"]
        return protocol


def read_sources(words: Sequence[str]) -> list[ReportSource]:
    """Read the results at paths; several seeds of one model are joined by commas, as for ``compare``.

    A result on several forms of the vectors is a source for each form.

    Raises:
        UserError: a path is not a result, a file is given twice, or a model as two seeds of itself; examples are
            invalid, or the log beside a training's result is of another run.
    """
    found: list[ReportSource] = []
    seen: dict[Path, Path] = {}
    models: dict[tuple[Any, ...], Path] = {}
    groups: dict[tuple[int, str], int] = {}
    for argument, word in enumerate(words):
        for path in map(Path, paths_in(word)):
            if path.resolve() in seen:
                raise UserError(f"{path} is given twice: name each result once")
            seen[path.resolve()] = path
            read, state = read_with_state(path)
            read = _without_items(read)
            # Places in the texts of examples count their characters as they are: those are escaped after the places.
            examples = {"examples": read["examples"]} if "examples" in read else {}
            _refuse_again(read, path, argument, models)
            result = {**shown({name: value for name, value in read.items() if name not in examples}), **examples}
            _check_rows(result, path)
            if "examples" in result:
                examples_of(result, path)
            log: tuple[dict[str, Any], ...] = ()
            damaged: tuple[str, ...] = ()
            if result["kind"] in TRAININGS:
                file = _log_file(path)
                refuse_log_of_another(file, result.get(RUN))
                log, damaged = tuple(map(shown, read_log(file))), tuple(damage_in(file.parent))
            for form, own in _by_form(result).items():
                group = groups.setdefault((argument, form), len(groups))
                source = ReportSource(len(found) + 1, path, own, log, group, state=state, damaged=damaged, form=form)
                found.append(source)
    if not found:
        raise UserError("a result file is missing: holdfast report RESULT.json... --output report.html")
    return named(found)


def _refuse_again(result: Mapping[str, Any], path: Path, argument: int, models: dict[tuple[Any, ...], Path]) -> None:
    """Refuse two results of one kind with one model among the seeds of an argument; attacks have their own draws."""
    kind = result["kind"]
    if kind in OF_SEVERAL:
        return
    key = (argument, kind, result["model"], result["model_sha256"], result["seed"] if kind == "attack" else None)
    first = models.setdefault(key, path)
    if first != path:
        raise UserError(f"{first} and {path} hold the same model: seeds are models of several trainings")


def _by_form(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the result with the rows of each form, as if they were plain; examples stay with the first form."""
    if result["kind"] in OF_SEVERAL:
        return {"": result}
    forms = list(dict.fromkeys(form_of(row) or "" for row in result["results"])) or [""]
    found = {}
    for form in forms:
        rows = [row for row in result["results"] if (form_of(row) or "") == form]
        rows = [{key: value for key, value in row.items() if key != "form"} for row in rows]
        kept = {key: value for key, value in result.items() if key != "examples" or form == forms[0]}
        found[form] = {**kept, "results": rows}
    return found


def _log_file(path: Path) -> Path:
    """Return the path of a training's log: in the folder with the name of the result, or beside the result."""
    folder = path.with_suffix("")
    return (folder if folder.is_dir() else path.parent) / METRICS_FILE


def _without_items(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result without the numbers per item, which only ``compare`` reads.

    Rows of retrieval whose recall is no proportion, as queries have several relevant documents, get the interval of
    their items: ``interval``, by metric.
    """
    rows = []
    for row in result["results"]:
        kept = {key: value for key, value in row.items() if key != "items"}
        values = as_object(row.get("items")).get(RECALL) if row.get("task") == RETRIEVAL else None
        numbers = [number_of(value) for value in values] if isinstance(values, list) else []
        if None not in numbers and not set(numbers) <= {0.0, 1.0}:
            low, high = share_interval([number for number in numbers if number is not None], seed=SEED)
            kept["interval"] = {RECALL: [100.0 * low, 100.0 * high]}
        rows.append(kept)
    return {**result, "results": rows}


_NEEDED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "compare": ((), ("baseline", "other", "difference", "low", "high", "p")),
    "transfer": (("made_against", "on"), ()),
    "reproduce": (("labels", "published", "not_run"), ()),
    "harden": (("metric", "verdicts"), ("before", "after")),
    "audit": (("verdict", "headline", "told"), ()),
}
"""The keys and the metrics that rows of each kind need, beyond those of every result."""


def _check_rows(result: Mapping[str, Any], path: Path) -> None:
    keys, metrics = _NEEDED.get(str(result["kind"]), ((), ()))
    for number, row in enumerate(result["results"], start=1):
        missing = [key for key in keys if key not in row] + [name for name in metrics if name not in row["metrics"]]
        if missing:
            keys_missing = ", ".join(map(repr, missing))
            raise UserError(f"{path}: row {number} of a {result['kind']} result has no {keys_missing}: make it again")


# --- names -------------------------------------------------------------------------------------------------------


def named(sources: Sequence[ReportSource]) -> list[ReportSource]:
    """Return the sources with the short names of their models.

    Results with the same weights, pooling and name are of one model. Its short name is the last part of its path, made
    longer or followed by the first digits of the hash if two models share it. If a model was measured twice on the same
    task, the later result also shows its file's name, so that nothing is hidden. Seeds of one argument share a name.
    """
    heads: dict[int, ReportSource] = {}  # the first result represents its group
    for source in sources:
        if source.kind not in OF_SEVERAL:
            heads.setdefault(source.group, source)
    counts = {group: sum(source.group == group for source in sources) for group in heads}
    names = _short_names({_identity(source): source for source in heads.values()})
    labels: dict[int, str] = {}
    measured: dict[str, set[tuple[str, ...]]] = {}
    for group, head in heads.items():
        label = names[_identity(head)] + (f" as {head.form}" if head.form else "")
        label += f" ({counts[group]} seeds)" if counts[group] > 1 else ""
        cells = _measured(head)
        if cells & measured.get(label, set()):
            label += f" [{head.path.stem}]"
        if cells & measured.get(label, set()):
            label += f" #{head.number}"
        measured.setdefault(label, set()).update(cells)
        labels[group] = label
    return [source if source.kind in OF_SEVERAL else replace(source, label=labels[source.group]) for source in sources]


def _identity(source: ReportSource) -> tuple[str, str, str]:
    pooling = source.protocol.get("pooling")
    return _parts(source.model)[-1], str(source.result["model_sha256"]), "" if pooling is None else str(pooling)


def _parts(model: str) -> list[str]:
    return [part for part in re.split(r"[/\\]", model) if part] or [model or "(no name)"]


def _short_names(models: Mapping[tuple[str, str, str], ReportSource]) -> dict[tuple[str, str, str], str]:
    names = {}
    for key, source in models.items():
        rivals = [other for own, other in models.items() if own != key and own[0] == key[0]]
        parts = _parts(source.model)
        depths = range(1, len(parts) + 1)
        tail = next((n for n in depths if all(_parts(r.model)[-n:] != parts[-n:] for r in rivals)), None)
        name = "/".join(parts[-(tail or 1) :])
        if tail is None:
            pooling = f", {key[2]}" if key[2] else ""
            name += f" ({key[1][:8] or 'no hash'}{pooling})"
        names[key] = name
    return names


def _measured(source: ReportSource) -> set[tuple[str, ...]]:
    kind = "audit" if source.kind == "audit" else ""  # an audit measures some of the same tasks in its own way
    return {
        (kind, row["task"], row["split"], *(str(row.get(key, "")) for key in ("recipe", "item", "data", "system")))
        for row in source.rows
        if row["metrics"]
    }


def files_of(sources: Iterable[ReportSource]) -> list[ReportSource]:
    """Return the first source of each file."""
    return list({source.path: source for source in reversed(list(sources))}.values())[::-1]


def models_of(sources: Iterable[ReportSource]) -> list[str]:
    """Return the short names of all models, in the order of the results."""
    return list(dict.fromkeys(source.label for source in sources if source.label))
