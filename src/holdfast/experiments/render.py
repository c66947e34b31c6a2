"""Rendering of a reproduced table: our values beside the published ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.experiments.markup import escaped_latex, escaped_markdown, latex_table, markdown_table
from holdfast.results import p_shown

NOT_RUN = "–"
QUOTED = "quoted"
"""Start of the reason of cells whose values the paper quotes, or makes with code that holdfast does not have."""
QUOTED_ROW = "not run"
_ONE_SEED = "The variance between trainings is unknown where a row has one seed, and is in none of its intervals."


def value_of(row: Mapping[str, Any]) -> str:
    """Return the value or the mean over seeds; a dash if there is none, or "not run" for a quoted value."""
    metrics, digits = row["metrics"], row.get("digits", 1)
    if "mean" not in metrics:
        return QUOTED_ROW if any(reason.startswith(QUOTED) for reason in row["not_run"]) else NOT_RUN
    return _signed(metrics["mean"], digits)


def spread_of(row: Mapping[str, Any]) -> str:
    """Return "± standard deviation" over several seeds, or "[low, high]" of one value; an empty text without either."""
    metrics, digits = row["metrics"], row.get("digits", 1)
    if "std" in metrics:
        return f"± {metrics['std']:.{digits}f}"
    ends = [_signed(metrics[end], digits) for end in ("low", "high") if end in metrics]
    return f"[{', '.join(ends)}]" if ends else ""


def in_brackets(result: Mapping[str, Any]) -> str:
    """Return what stands in brackets after our values; at the scale smoke a difference would be one of nothing."""
    return "published" if result["protocol"].get("scale") == "smoke" else "published, difference"


def published_of(row: Mapping[str, Any], brackets: str = "published, difference") -> str:
    """Return the published value and our mean minus it; an empty text if nothing was published.

    ``brackets`` is what `in_brackets` returns.
    """
    published, digits = row["published"], row.get("digits", 1)
    if published is None:
        return ""
    printed = _signed(published, max(digits, len(f"{published:g}".partition(".")[2])))
    if "mean" not in row["metrics"] or "difference" not in brackets:
        return printed
    return f"{printed}, {_signed(row['metrics']['mean'] - published, digits, plus=True)}"


def _signed(value: float, digits: int, *, plus: bool = False) -> str:
    rounded = round(value, digits) or 0.0  # no sign before a rounded zero
    return f"{rounded:{'+' if plus else ''}.{digits}f}".replace("-", "−")


def detail_of(row: Mapping[str, Any], brackets: str = "published, difference") -> str:
    """Return the spread of our value; in parentheses the published value and the difference."""
    published = published_of(row, brackets)
    return " ".join(filter(None, (spread_of(row), f"({published})" if published else "")))


def by_row(values: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, str], dict[str, Mapping[str, Any]]]]:
    """Return the labels of each row of a table, and the row's values by column."""
    rows: dict[str, dict[str, Mapping[str, Any]]] = {}
    for value in values:
        rows.setdefault(value["task"], {})[value["split"]] = value
    return [(next(iter(own.values()))["labels"], own) for own in rows.values()]


def laid_out(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the header and the lines of the table, as text."""
    columns: Sequence[str] = result["protocol"]["columns"]
    shown = in_brackets(result)
    lines = [
        [*labels.values(), *(f"{value_of(own[column])} {detail_of(own[column], shown)}".rstrip() for column in columns)]
        for labels, own in by_row(result["results"])
    ]
    return [*result["results"][0]["labels"], *columns], lines


def reasons(result: Mapping[str, Any]) -> list[str]:
    """Return the reasons why cells were not run, each once with its cells."""
    found: dict[str, list[str]] = {}
    for row in result["results"]:
        for reason in row["not_run"]:
            found.setdefault(reason, []).append(f"{row['task']}: {row['split']}")
    return [f"{reason} ({_some(cells)})" for reason, cells in found.items()]


def notes(result: Mapping[str, Any]) -> list[str]:
    """Return notes for reading the table: the reading of the paper, our starting model, what was left out."""
    protocol = result["protocol"]
    lines = [str(protocol["note"])] if protocol.get("note") else []
    if protocol["scale"] == "smoke":
        lines.append("At this scale the numbers mean nothing: they show that every cell can be made.")
    if result.get("model"):
        origin = "the published values are of the paper's own models"
        lines.append(f"Our rows start from {result['model']} where they name no other model; {origin}.")
    if changes := protocol.get("changes"):
        changed = [f"{stage}.{name}={value}" for stage, options in changes.items() for name, value in options.items()]
        lines.append(f"Changed in the scale: {', '.join(changed)}.")
    if overruled := protocol.get("overruled"):
        named = [f"{name} (rows {_some(rows)})" for name, rows in overruled.items()]
        lines.append(f"Not changed where the table has a setting of its own: {', '.join(named)}.")
    if only := protocol.get("only"):
        lines.append(f"Only the rows that {', '.join(only)} names: the table has more.")
    if protocol.get("only_columns"):
        lines.append("Only these columns: the table has more.")
    if left_out := protocol.get("left_out"):
        lines.append(f"Left out at this scale: {'; '.join(left_out)}.")
    seedless = [row for row in result["results"] if row["n"] == 1 and not row["not_run"]]
    if protocol.get("seeds", 1) > 1 and seedless:
        several = f"{len(seedless)} values do not depend on the seed: they come from one run and have no ±."
        one = "One value does not depend on the seed: it comes from one run and has no ±."
        lines.append(one if len(seedless) == 1 else several)
    if fewer := _with_fewer_seeds(result):
        lines.append(f"With fewer than {protocol['seeds']} seeds: {fewer}.")
    if any("low" in row["metrics"] for row in result["results"]):
        lines.append("In square brackets: the 95 % interval of a single value, over its texts.")
    if shared := [row["timed_among"] for row in result["results"] if "timed_among" in row]:
        lines.append(
            f"{len(shared)} times were measured while up to {max(shared)} jobs shared the machine (--jobs) and may be "
            "too long: --jobs 1 with another --output measures the attack alone."
        )
    lines += detectable(result)
    sampled = [row for row in result["results"] if "sample" in row]
    if sampled:
        most = max(row["sample"]["of"] for row in sampled)
        lines.append(f"{len(sampled)} values were measured on random samples of test sets (of up to {most:,} rows).")
    return lines


def _with_fewer_seeds(result: Mapping[str, Any]) -> str:
    """List the rows that have a value of fewer seeds than asked for, each with its lowest number of seeds."""
    found: dict[str, int] = {}
    for row in result["results"]:
        if row["n"] and row["not_run"]:
            found[row["task"]] = min(row["n"], found.get(row["task"], row["n"]))
    return ", ".join(f"{name} ({count})" for name, count in found.items())


def differences_title(result: Mapping[str, Any]) -> str:
    """Return the heading of the differences."""
    return f"Differences from {result['protocol']['against']}, on the same items"


def differences_laid_out(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the header and the lines of the differences, as text; no lines if there are no differences."""
    found = result.get("differences", {"results": []})["results"]
    columns = [column for column in result["protocol"]["columns"] if any(row["split"] == column for row in found)]
    lines = [
        [*labels.values(), *(_difference(own[column]) if column in own else "" for column in columns)]
        for labels, own in by_row(found)
    ]
    return [*result["results"][0]["labels"], *columns], lines


def _difference(row: Mapping[str, Any]) -> str:
    """Return the difference, its interval, p, and p after the correction of Holm, as text."""
    metrics = row["metrics"]
    value, low, high = (_signed(metrics[name], row["digits"], plus=True) for name in ("difference", "low", "high"))
    holm = f" (Holm {p_shown(metrics['p_holm'])})" if "p_holm" in metrics else ""
    return f"{value} [{low}, {high}], p {p_shown(metrics['p'])}{holm}"


def differences_notes(result: Mapping[str, Any]) -> list[str]:
    """Return notes for reading the differences; none if no comparison was asked for."""
    compared = result.get("differences")
    if compared is None:
        return []
    if not compared["results"]:
        none = f"No differences from {result['protocol']['against']}: no value was measured on items that both have."
        return [none, *compared["notes"]]
    items = [row["n"] for row in compared["results"]]
    number = f"{min(items):,}" + (f" to {max(items):,}" if max(items) > min(items) else "")
    how = (
        f"Each comparison has {number} items; for attacks, the texts that both attacked. A cell shows the "
        f"difference, its 95 % interval (paired bootstrap over items, {compared['resamples']:,} resamples; with "
        "several seeds their variance is added, and t's quantiles are used) and the two-sided p of this comparison "
        "alone: McNemar's exact test for right and wrong answers of one seed per row, otherwise the bootstrap's or t. "
        f"In brackets: p after Holm's correction for the {len(items)} comparisons of this table. A negative difference "
        "of success rates means more robust, as does a positive one of queries."
    )
    return [how, *compared["notes"]]


def detectable(result: Mapping[str, Any]) -> list[str]:
    """Return lines on the smallest differences that the table can find; none at the scale smoke.

    They are the range of ``detectable`` over the rows that are compared, for each column.
    """
    protocol = result["protocol"]
    if protocol["scale"] == "smoke":
        return []
    found = result.get("differences", {"results": []})["results"]
    if not found:
        unknown = "Minimum detectable effect: unknown, as nothing is compared on the same items (--against)."
        return [f"{unknown} {_ONE_SEED}" if protocol["seeds"] == 1 else unknown]
    ranges = []
    for column in protocol["columns"]:
        own = [row for row in found if row["split"] == column and row["metrics"].get("detectable")]
        if own:
            ends = (end(row["metrics"]["detectable"] for row in own) for end in (min, max))
            low, high = (f"{value:.{own[0]['digits']}f}" for value in ends)
            ranges.append(f"{column} {low}" + (f" to {high}" if high != low else ""))
    if not ranges:
        return ["Minimum detectable effect: unknown, as no item differs between the rows that are compared."]
    line = (
        f"Minimum detectable effect, in points from {protocol['against']}: {', '.join(ranges)}. A true difference of "
        "this size has p < 0.05, before the correction of Holm, with a probability of 80 %; for one seed a row it is "
        "2.8 standard errors of the paired difference."
    )
    if any(1 in row["seeds"] for row in found):
        line += f" {_ONE_SEED}"
    return [line]


def command_of(result: Mapping[str, Any]) -> str:
    """Return the command that makes a table: without ``--so-far``, which only lays out what is made already."""
    return str(result["command"]).replace(" --so-far", "")


def trainings_laid_out(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the header and the lines of the trainings behind each row, as text; no lines if nothing was trained.

    A row whose columns have trainings of their own has a line for each. The scores on development data are those of
    the model before the training and of the kept step; results of before 2026-11-26 have none.
    """
    rows = [
        (row["labels"], stage) for row in result["results"] for stage in zip(*row.get("trainings", ()), strict=False)
    ]
    named = {"training": "method", "steps": "steps", "batch": "batch"}
    if any("rate" in seed for _, stage in rows for seed in stage):
        named |= {"learning rate": "rate"}
    named |= {"kept step": "kept"}
    if any("start" in seed for _, stage in rows for seed in stage):
        named |= {"dev before": "start", "dev": "score"}
    if any("attack" in seed for _, stage in rows for seed in stage):
        named |= {"attack, % of its loss": "attack"}
    missing = {"attack": "–", "rate": "–"}  # a method without an attack, or a result of before 2026-11-27
    lines = dict.fromkeys(
        (*labels.values(), *(_all(_entry(seed, name, missing) for seed in stage) for name in named.values()))
        for labels, stage in rows
    )
    header = [*result["results"][0]["labels"], *named]
    return header, [list(line) for line in lines]


def _entry(training: Mapping[str, Any], name: str, missing: Mapping[str, str]) -> Any:
    """Return an entry of a training; a learning rate as text, since two decimals would show none."""
    value = training.get(name, missing.get(name))
    return f"{value:g}" if name == "rate" and isinstance(value, float) else value


def _all(values: Iterable[Any]) -> str:
    """Return the values of all seeds, or the one that they share."""
    held = [_one(value) for value in values]
    return held[0] if len(set(held)) == 1 else ", ".join(held)


def _one(value: Any) -> str:
    if value is None:
        return "not recorded"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}" if isinstance(value, float) else str(value)


def text_lines(result: Mapping[str, Any]) -> list[str]:
    """Return the texts that cells hold besides their numbers, each once, with the names of row and column."""
    found: dict[tuple[str, ...], str] = {}
    for row in result["results"]:
        if row.get("told"):
            found.setdefault(tuple(row["told"]), f"{row['task']}, {row['split']}")
    return [f"{name}: {line}" for lines, name in found.items() for line in lines]


def _some(names: Sequence[str], count: int = 3) -> str:
    more = len(names) - count
    return "; ".join(names[:count]) + (f"; and {more} more" if more > 0 else "")


def markdown(result: Mapping[str, Any], pictures: Sequence[str] = (), further: Sequence[str] = ()) -> str:
    """Return the table as Markdown, with its source, its reasons, its command, and the image files beside the page.

    ``further`` are notes in Markdown that are not in the result.
    """
    header, lines = laid_out(result)
    protocol = result["protocol"]
    labels = len(result["results"][0]["labels"])
    parts = [
        f"# {protocol['title']}\n",
        f"{protocol['source']}; scale {protocol['scale']}, {protocol['seeds']} seed{'s' * (protocol['seeds'] > 1)}. "
        f"Ours ({in_brackets(result)}).\n",
        *([f"The claim: {protocol['claim']}\n"] if protocol.get("claim") else []),
        *(f"{line}\n" for line in (*notes(result), *further)),
        *_table(header, lines, labels),
        "",
    ]
    parts += [f"![{protocol['title']}]({picture})\n" for picture in pictures]
    parts += _differences_section(result)
    trained, stages = trainings_laid_out(result)
    if stages:
        parts += ["## Trainings\n", *_table(trained, stages, len(trained) - 3), ""]
    if missing := reasons(result):
        parts += ["Not run:\n", *(f"- {escaped_markdown(reason)}" for reason in missing), ""]
    if texts := text_lines(result):
        parts += ["Texts, of the first seed:\n", *(f"- {escaped_markdown(line)}" for line in texts), ""]
    return "\n".join([*parts, f"`{command_of(result)}` ({result['created'][:10]})", ""])


def _differences_section(result: Mapping[str, Any]) -> list[str]:
    """Return the differences as Markdown, with the notes for reading them."""
    header, lines = differences_laid_out(result)
    labels = len(result["results"][0]["labels"])
    parts = [f"{escaped_markdown(line)}\n" for line in differences_notes(result)]
    if not lines:
        return parts
    return [f"## {differences_title(result)}\n", *_table(header, lines, labels), "", *parts]


def index(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a page that lists tables by file stem: what each shows, and how many of its values were measured."""
    header = ("table", "what it shows", "source", "values", "not run")
    rows = [
        (f"[{stem}]({stem}.md)", result["protocol"]["title"], result["protocol"]["source"], *_counts(result))
        for stem, result in results.items()
    ]
    return "\n".join(["# Reproduced\n", *_table(header, rows, 3), ""])


def _counts(result: Mapping[str, Any]) -> list[str]:
    measured = sum("mean" in row["metrics"] for row in result["results"])
    return [str(measured), str(len(result["results"]) - measured)]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], labels: int) -> list[str]:
    """Return the lines of a Markdown table; its cells may hold Markdown."""
    head, *body = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in (header, *rows)]
    return markdown_table(head, body, left=range(labels))


def latex(result: Mapping[str, Any]) -> str:
    """Return the table as LaTeX with booktabs."""
    header, rows = laid_out(result)
    labels = range(len(result["results"][0]["labels"]))
    head, *body = [[escaped_latex(cell) for cell in line] for line in (header, *rows)]
    return latex_table(command_of(result), head, body, left=labels)
