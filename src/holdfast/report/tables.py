"""The tables of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from holdfast.audit.item_names import compared_name
from holdfast.evaluation.mteb_names import PREFIX as MTEB
from holdfast.evaluation.mteb_names import is_mteb
from holdfast.evaluation.sts import STS_TASKS
from holdfast.evaluation.transfer import TRANSFER_TASKS
from holdfast.report.elements import Table, TableCell
from holdfast.report.model_scores import (
    Interval,
    Score,
    Scores,
    best_of,
    collect,
    share_interval,
    spearman_interval,
    with_average,
)
from holdfast.report.result_sources import ReportSource
from holdfast.results import digits_of, p_shown
from holdfast.runs.run_log import number_of

AVERAGE = "average"
_NONE = TableCell("–")
_SPACE_METRICS = {
    "alignment": "alignment ↓",
    "uniformity": "uniformity ↓",
    "anisotropy": "anisotropy",
    "variance_top_1": "first component, %",
    "variance_top_10": "first ten, %",
    "effective_rank": "effective rank ↑",
}
_WHOLE = ("test", "all")
_ENCODERS = ("evaluate", "train", "baseline")
_INTERVALS = "Small numbers: the 95 % interval of one model, ± the standard deviation over several seeds."


def similarity_scores(sources: Iterable[ReportSource]) -> Scores:
    """Return Spearman ×100 by model and task, with the average of the seven STS tasks if all are there."""
    return _encoder_scores(sources, "spearman", STS_TASKS)


def transfer_scores(sources: Iterable[ReportSource]) -> Scores:
    """Return accuracy ×100 by model and transfer task, with the average of the seven tasks if all are there."""
    return _encoder_scores(sources, "accuracy", TRANSFER_TASKS)


def _encoder_scores(sources: Iterable[ReportSource], metric: str, averaged: Sequence[str]) -> Scores:
    own = (source for source in sources if source.kind in _ENCODERS)
    return with_average(collect(own, _own_task, metric, partial(_interval_of, metric)), AVERAGE, averaged)


def _own_task(row: Mapping[str, Any]) -> str | None:
    """Return the task of a row, None for one of mteb, whose numbers are not x100."""
    return None if is_mteb(row["task"]) else task_of(row)


def mteb_scores(sources: Iterable[ReportSource]) -> Scores:
    """Return the main scores of mteb's tasks ×100 by model and task, with their mean for models that have all."""
    own = [source for source in sources if source.kind in _ENCODERS]
    found = collect(own, lambda row: task_of(row).removeprefix(MTEB) if is_mteb(row["task"]) else None, "main_score")
    scores = {
        label: {name: Score(tuple(100.0 * value for value in score.values)) for name, score in scores.items()}
        for label, scores in found.items()
    }
    names = tuple(dict.fromkeys(name for own_scores in scores.values() for name in own_scores))
    if len(names) < 2:
        return scores
    columns: dict[str, dict[str, None]] = {}  # a task counts once, however many languages or splits it has
    for row in (row for source in own for row in source.rows if is_mteb(row["task"])):
        columns.setdefault(row["task"], {})[task_of(row).removeprefix(MTEB)] = None
    averaged = scores
    for task, of_task in columns.items():
        averaged = with_average(averaged, task, tuple(of_task))
    averaged = with_average(averaged, AVERAGE, tuple(columns))
    shown = {*names, AVERAGE}
    return {label: {name: found[name] for name in found if name in shown} for label, found in averaged.items()}


def mteb_table(scores: Scores) -> Table:
    """Return the table of models by task of mteb."""
    note = (
        "Main scores ×100, as the library mteb computes them; bold is best. The average is over the tasks, each the "
        "mean of its columns, of models that have all of them. Small numbers: ± the standard deviation over several "
        "seeds."
    )
    return score_table(scores, (), id="mteb", title="Tasks of mteb", note=note)


def classifier_tables(sources: Sequence[ReportSource]) -> list[Table]:
    """Return the results of fine-tuned models on their own tasks: a table for each metric."""
    own = [source for source in sources if source.kind == "finetune"]
    names = dict.fromkeys(name for source in own for row in source.rows for name in row["metrics"])
    tables = []
    for number, metric in enumerate(names, start=1):
        scores = collect(own, task_of, metric, partial(_interval_of, metric))
        title = f"Classifiers: {metric.replace('_', ' ')}"
        tables.append(score_table(scores, (), id=f"classifiers-{number}", title=title, note=_INTERVALS))
    return tables


def _interval_of(metric: str, row: Mapping[str, Any]) -> Interval | None:
    known = {"accuracy": share_interval, "spearman": spearman_interval}
    return known[metric](row["metrics"][metric], row["n"]) if metric in known else None


def task_of(row: Mapping[str, Any]) -> str:
    """Return the task of a row, with its split unless that is "test" or "all"."""
    return str(row["task"]) if row["split"] in _WHOLE else f"{row['task']} {row['split']}"


def similarity_table(scores: Scores) -> Table:
    """Return the table of models by similarity task."""
    note = f"Spearman ×100 of the cosine similarity; bold is best. {_INTERVALS}"
    return score_table(scores, STS_TASKS, id="similarity", title="Semantic textual similarity", note=note)


def transfer_table(scores: Scores) -> Table:
    """Return the table of models by transfer task."""
    note = f"Accuracy ×100 of a logistic regression on frozen vectors; bold is best. {_INTERVALS}"
    return score_table(scores, TRANSFER_TASKS, id="transfer", title="Transfer tasks", note=note)


def score_table(scores: Scores, order: Sequence[str], *, id: str, title: str, note: str) -> Table:
    """Return a table of models by task: the tasks of ``order`` first, then the others, the average last."""
    there = dict.fromkeys(name for own in scores.values() for name in own)
    columns = [name for name in order if name in there]
    columns += [name for name in there if name not in columns and name != AVERAGE]
    columns += [AVERAGE] * (AVERAGE in there)
    best = {column: best_of(scores, column) for column in columns}
    return Table(id, title, ("model", *columns), _score_rows(scores, columns, best, 2), note=note, stacked=True)


def _score_rows(
    scores: Scores, columns: Sequence[str], best: Mapping[str, set[str]], digits: int
) -> tuple[tuple[TableCell, ...], ...]:
    """Return a row for each model; ``best`` holds the best models of a column."""
    return tuple(
        (
            TableCell(label),
            *(own[c].cell(digits, best=label in best.get(c, ())) if c in own else _NONE for c in columns),
        )
        for label, own in scores.items()
    )


def space_table(sources: Iterable[ReportSource]) -> Table | None:
    """Return alignment, uniformity and the other numbers of `holdfast space` by model; None without any."""
    scores = space_scores(sources)
    columns = [name for name in _SPACE_METRICS if any(name in own for own in scores.values())]
    if not columns:
        return None
    best = {c: best_of(scores, c, digits=3, lowest=True) for c in ("alignment", "uniformity")}
    headers = ("model", *(_SPACE_METRICS[column] for column in columns))
    note = "On STS-B dev, vectors normalised: alignment of pairs that mean the same, uniformity of all sentences."
    return Table("space", "The shape of the space", headers, _score_rows(scores, columns, best, 3), note=note)


def space_scores(sources: Iterable[ReportSource]) -> Scores:
    """Collect alignment, uniformity and the other numbers of the space, by model."""
    own = [source for source in sources if source.kind in ("evaluate", "space")]
    found: Scores = {}
    for metric in _SPACE_METRICS:
        for label, scores in collect(own, lambda row: "x" if row["task"] == "space" else None, metric).items():
            found.setdefault(label, {})[metric] = scores["x"]
    return found


def distance_table(sources: Iterable[ReportSource]) -> Table | None:
    """Return d_pos, d_neg and δ of adversarial texts (ADCL, Table 4); None without any."""
    keys = ("d_pos", "d_neg", "delta", "d_pos_unit", "d_neg_unit", "delta_unit")
    rows = [
        (
            TableCell(source.label),
            TableCell(" ".join(str(row[key]) for key in ("item", "recipe") if row.get(key))),
            TableCell(f"{row['n']:,}"),
            *(_number(row["metrics"].get(key), 3) for key in keys),
        )
        for source in sources
        if source.kind == "space"
        for row in source.rows
        if row["task"] == "space-attacked"
    ]
    columns = ("model", "texts of", "pairs", "d_pos", "d_neg", "δ", "d_pos, unit", "d_neg, unit", "δ, unit")
    title = "Distance of clean and adversarial texts"
    note = "d_pos: a text and its adversarial one; d_neg: other texts; δ = d_neg − d_pos (ADCL, Table 4). Unit: of "
    note += "normalised vectors."
    return Table("distances", title, columns, tuple(rows), labels=2, note=note) if rows else None


def attack_table(sources: Iterable[ReportSource]) -> Table | None:
    """Return a row for each recipe, task, split, model and seed; several seeds are marked by their files' names."""
    attacks = [source for source in sources if source.kind == "attack"]
    seeds = Counter(source.group for source in attacks)
    rows = [
        (
            TableCell(task_of(row)),
            _recipe(row),
            TableCell(source.label, source.path.stem if seeds[source.group] > 1 else ""),
            _success(row["metrics"]),
            _number(row["metrics"].get("replaced")),
            _number(row["metrics"].get("queries")),
            *_drop_cells(row["metrics"]),
            TableCell(f"{row['metrics'].get('attacked', row['n']):,.0f}"),
            TableCell(f"{row['metrics'].get('skipped', 0):,.0f}"),
        )
        for source in attacks
        for row in source.rows
    ]
    columns = (
        *("task", "recipe", "model", "success, %", "words replaced, %", "queries"),
        *("score", "under attack", "attacked", "skipped"),
    )
    note = "Success: share of the attacked texts, with its 95 % bootstrap interval; lower is more robust. Queries: "
    note += "mean of the attacked texts. Score: accuracy ×100, or Spearman ×100 for scored pairs."
    if any(str(row.get("recipe")) == "auto" for source in attacks for row in source.rows):
        note += (
            " A claim of robustness quotes auto, the worst case over all recipes for each text; below it: the texts "
        )
        note += "that each recipe, the cheapest first, broke."
    return Table("attack-results", "Attacks", columns, tuple(rows), labels=3, note=note) if rows else None


def _recipe(row: Mapping[str, Any]) -> TableCell:
    """Return the cell of a recipe; below an ensemble, the recipes that broke texts, with their number."""
    won = row.get("won_by")
    detail = ", ".join(f"{name} {count}" for name, count in won.items()) if isinstance(won, Mapping) else ""
    return TableCell(str(row.get("recipe", "–")), detail)


def _success(metrics: Mapping[str, Any]) -> TableCell:
    low, high = metrics.get("success_rate_low"), metrics.get("success_rate_high")
    detail = f"{low:.1f}–{high:.1f}" if low is not None and high is not None else ""
    cell = _number(metrics.get("success_rate"))
    return TableCell(cell.text, detail, "95 % bootstrap interval" if detail else "")


def drop_of(metrics: Mapping[str, Any]) -> tuple[float, float, str] | None:
    """Return the score before and under attack and its name; None without gold answers."""
    for before, after, name in (
        ("accuracy", "accuracy_under_attack", "accuracy"),
        ("spearman_before", "spearman_after", "Spearman"),
    ):
        if before in metrics and after in metrics:
            return float(metrics[before]), float(metrics[after]), name
    return None


def _drop_cells(metrics: Mapping[str, Any]) -> tuple[TableCell, TableCell]:
    drop = drop_of(metrics)
    return (_NONE, _NONE) if drop is None else (TableCell(f"{drop[0]:.1f}"), TableCell(f"{drop[1]:.1f}"))


def transferability_table(source: ReportSource) -> Table:
    """Return a table of texts made against one classifier and tried on others (ADCL, Table 3)."""
    columns, made = transfer_matrix(source.rows)
    rows = [(TableCell(name), *(_number(rates.get(column)) for column in columns)) for name, rates in made]
    note = "Share (%) of the texts made against the row's model that deceive the column's model; lower is better."
    title = "Adversarial texts tried on other models"
    return Table(f"transferability-{source.number}", title, ("made against", *columns), tuple(rows), note=note)


def transfer_matrix(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[tuple[str, dict[str, float]]]]:
    """Return success rates by the result that made the texts, and by model.

    Args:
        rows: of a result of `holdfast transfer`.

    Returns:
        The models that the texts were tried on; and for each result that made texts: the model that it attacked (with
        the recipe, or else the file, if several results attacked it), and its rates by model.
    """
    made = {str(row.get("made_in", row["made_against"])): row for row in rows}
    models = Counter(str(row["made_against"]) for row in made.values())
    recipes = Counter((row["made_against"], row.get("recipe")) for row in made.values())
    lines = []
    for path, first in made.items():
        name = str(first["made_against"])
        if models[name] > 1:
            alone = recipes[first["made_against"], first.get("recipe")] == 1
            name += f" ({first['recipe'] if alone else path})"
        own = [row for row in rows if str(row.get("made_in", row["made_against"])) == path]
        lines.append(
            (name, {str(r["on"]): r["metrics"]["success_rate"] for r in own if "success_rate" in r["metrics"]})
        )
    return list(dict.fromkeys(str(row["on"]) for row in rows)), lines


def comparison_table(source: ReportSource) -> Table:
    """Return differences with intervals and p-values, as `holdfast compare` prints them."""
    rows = []
    for row in source.rows:
        m, digits = row["metrics"], digits_of(str(row.get("metric")), 2)
        rows.append(
            (
                TableCell(compared_name(row)),
                TableCell(str(row.get("metric", "")).replace("_", " ")),
                TableCell(str(row.get("baseline", ""))),
                TableCell(str(row.get("other", ""))),
                TableCell(f"{row['n']:,}"),
                *(_scored(m, key, digits) for key in _SIDES),
                TableCell(
                    f"{m['difference']:+.{digits}f}",
                    f"{m['low']:+.{digits}f} to {m['high']:+.{digits}f}",
                    "95 % interval",
                ),
                TableCell(p_shown(m["p"]), "McNemar" if row.get("test") == "mcnemar" else ""),
            )
        )
    columns = ("task", "metric", "A", "B", "items", "A's score", "B's score", "B − A", "p")
    note = "Paired on the same items: interval of the bootstrap (t of several seeds or few items), two-sided p-values. "
    note += "Where B − A is a difference of success rates, less than 0 means that B is more robust; of queries, more "
    note += "than 0."
    notes = source.protocol.get("notes")
    lines = [line for own in notes if isinstance(own, list) for line in own] if isinstance(notes, list) else []
    note += "".join(f" {line[:1].upper()}{line[1:]}." for line in dict.fromkeys(map(str, lines)))
    return Table(f"comparison-{source.number}", "Paired comparison", columns, tuple(rows), labels=4, note=note)


_SIDES = ("baseline", "other")


def _scored(metrics: Mapping[str, Any], side: str, digits: int) -> TableCell:
    std = metrics.get(f"{side}_std")
    return TableCell(f"{metrics[side]:.{digits}f}", "" if std is None else f"± {std:.{digits}f}")


def reproduced_table(source: ReportSource) -> Table:
    """Return a paper's table: our values with the published ones beside them."""
    from holdfast.experiments.render import by_row, detail_of, in_brackets, notes, published_of, reasons, value_of

    def cell(row: Mapping[str, Any]) -> TableCell:
        hover = f"the published value{', and the difference' * ('difference' in shown)}" if published_of(row) else ""
        return TableCell(value_of(row), detail_of(row, shown), hover)

    shown = in_brackets(source.result)
    protocol, results = source.protocol, source.rows
    axes = list(results[0]["labels"])
    columns = [str(column) for column in protocol.get("columns", dict.fromkeys(row["split"] for row in results))]
    rows = [
        (
            *(TableCell(str(labels.get(axis, ""))) for axis in axes),
            *(cell(own[column]) if column in own else _NONE for column in columns),
        )
        for labels, own in by_row(results)
    ]
    seeds = protocol.get("seeds", 1)
    note = f"{protocol.get('source', '')}; scale {protocol.get('scale', '')}, {seeds} seed{'s' * (seeds != 1)}. Ours, "
    note += f"mean ± standard deviation over seeds; in brackets: {shown}."
    note += "".join(f" {line}" for line in notes(source.result))
    if missing := reasons(source.result):
        note += " Not run: " + "; ".join(missing) + "."
    title = str(protocol.get("title") or protocol.get("table") or "Reproduced table")
    return Table(f"reproduced-{source.number}", title, (*axes, *columns), tuple(rows), labels=len(axes), note=note)


def differences_table(source: ReportSource) -> Table | None:
    """Return the paired differences between the rows of a paper's table (``--against``); None without any."""
    from holdfast.experiments.render import differences_laid_out, differences_notes, differences_title

    if "differences" not in source.result:
        return None
    header, lines = differences_laid_out(source.result)
    if not lines:
        return None
    labels = len(source.rows[0]["labels"])
    parted = [[text.partition(" ") for text in line[labels:]] for line in lines]
    rows = tuple(
        (*map(TableCell, line[:labels]), *(TableCell(value, detail) for value, _, detail in cells))
        for line, cells in zip(lines, parted, strict=True)
    )
    title, note = differences_title(source.result), " ".join(differences_notes(source.result))
    return Table(f"differences-{source.number}", title, tuple(header), rows, labels=labels, note=note)


def check_table(source: ReportSource) -> Table:
    """Return the outcome of each condition of a check."""
    outcomes = {True: "failed", False: "passed", None: "not comparable"}
    rows = tuple(
        (
            TableCell(str(row.get("condition", ""))),
            TableCell(outcomes.get(row.get("failed"), "")),
            *(_number(row["metrics"].get(name), 3) for name in ("value", "baseline")),
            TableCell(p_shown(row["metrics"]["p"]) if "p" in row["metrics"] else "–"),
        )
        for row in source.rows
    )
    columns = ("condition", "outcome", "value", "baseline", "p")
    return Table(f"check-{source.number}", f"check: {source.model}", columns, rows, labels=2)


def other_table(source: ReportSource) -> Table:
    """Return the rows of a result of any kind, with all of their metrics."""
    names = list(dict.fromkeys(name for row in source.rows for name in row["metrics"]))
    of_model = any("model" in row for row in source.rows)
    rows = tuple(
        (
            *([TableCell(str(row.get("model", "")))] if of_model else []),
            TableCell(task_of(row)),
            TableCell(f"{row['n']:,}"),
            *(_number(row["metrics"].get(name), 3) for name in names),
        )
        for row in source.rows
    )
    columns = (*(["model"] if of_model else []), "task", "items", *(name.replace("_", " ") for name in names))
    title = f"{source.kind}: {source.model}"
    return Table(f"measured-{source.number}", title, columns, rows, labels=1 + of_model)


def _number(value: Any, digits: int = 1) -> TableCell:
    number = number_of(value)
    return _NONE if number is None else TableCell(f"{number:,.{digits}f}")
