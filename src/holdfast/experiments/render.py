"""A reproduced table for reading: our values beside the published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NOT_RUN = "–"


def value_of(row: Mapping[str, Any]) -> str:
    """Mean ± standard deviation over the seeds, or a dash for what was not run."""
    metrics = row["metrics"]
    if "mean" not in metrics:
        return NOT_RUN
    spread = f" ± {metrics['std']:.1f}" if "std" in metrics else ""
    return f"{metrics['mean']:.1f}{spread}"


def cells_of(row: Mapping[str, Any]) -> str:
    """Our value, and the published one in brackets."""
    published = row["published"]
    return value_of(row) + ("" if published is None else f" ({published:g})")


def laid_out(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The header and the lines of the table, as text."""
    axes = list(result["results"][0]["labels"])
    columns: Sequence[str] = result["protocol"]["columns"]
    lines = []
    for name in dict.fromkeys(row["task"] for row in result["results"]):
        of_row = {row["split"]: row for row in result["results"] if row["task"] == name}
        labels = next(iter(of_row.values()))["labels"]
        lines.append([*(labels[axis] for axis in axes), *(cells_of(of_row[column]) for column in columns)])
    return [*axes, *columns], lines


def reasons(result: Mapping[str, Any]) -> list[str]:
    """Why cells were not run: each reason once, with the cells that it holds for."""
    found: dict[str, list[str]] = {}
    for row in result["results"]:
        for reason in row["not_run"]:
            found.setdefault(reason, []).append(f"{row['task']}: {row['split']}")
    return [f"{reason} ({_some(cells)})" for reason, cells in found.items()]


def _some(names: Sequence[str], count: int = 3) -> str:
    more = len(names) - count
    return "; ".join(names[:count]) + (f"; and {more} more" if more > 0 else "")


def markdown(result: Mapping[str, Any]) -> str:
    """The table as Markdown, with its source, its reasons and its command."""
    header, lines = laid_out(result)
    protocol = result["protocol"]
    labels = len(result["results"][0]["labels"])
    parts = [
        f"# {protocol['title']}\n",
        f"{protocol['source']}; scale {protocol['scale']}, {protocol['seeds']} seed{'s' * (protocol['seeds'] > 1)}. "
        "Ours (published).\n",
        _line(header),
        _line(["---"] * labels + ["---:"] * (len(header) - labels)),
        *(_line(line) for line in lines),
        "",
    ]
    if told := reasons(result):
        parts += ["Not run:\n", *(f"- {reason}" for reason in told), ""]
    return "\n".join([*parts, f"`{result['command']}` ({result['created'][:10]})", ""])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


_LATEX = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
          "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
          "±": r"$\pm$", "–": "--", "−": "$-$", "δ": r"$\delta$",
          "→": r"$\to$", "↓": r"$\downarrow$", "↑": r"$\uparrow$"}  # fmt: skip


def latex(result: Mapping[str, Any]) -> str:
    """The table as LaTeX with booktabs."""
    header, lines = laid_out(result)
    labels = len(result["results"][0]["labels"])
    rows = [" & ".join(escaped_latex(cell) for cell in line) + r" \\" for line in (header, *lines)]
    return "\n".join(
        [
            f"% {result['command']}",
            rf"\begin{{tabular}}{{{'l' * labels}{'r' * (len(header) - labels)}}}",
            r"\toprule",
            rows[0],
            r"\midrule",
            *rows[1:],
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def escaped_latex(text: str) -> str:
    """``text`` as LaTeX prints it."""
    return "".join(_LATEX.get(character, character) for character in text)
