"""Tables as CSV, Markdown and LaTeX, with all texts escaped."""

from __future__ import annotations

import base64
import csv
import io
import re

from holdfast.experiments.render import escaped_latex, latex_row
from holdfast.report.elements import Table

# Spreadsheets skip blanks and control characters at the start of a cell; some accept full-width signs.
_FORMULA = re.compile(r"[\s\x00-\x20\x7f-\xa0\u200b-\u200f\ufeff]*[=+\-@＝＋－＠]|[\t\r\n]")
_NUMBER = re.compile(r"[+−-]?[\d,.]+(e[+-]?\d+)?( [\d.,+−–±()to -]*)?")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&!])")


def as_csv(table: Table) -> str:
    """Return the table as CSV, details in the same cell. Texts that look like formulas get a leading apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)  # some spreadsheets split at ;
    writer.writerow([_inert(column) for column in table.columns])
    writer.writerows([_inert(cell.plain) for cell in row] for row in table.rows)
    return out.getvalue()


def _inert(text: str) -> str:
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def as_markdown(table: Table) -> str:
    """Return the table as GitHub's Markdown; the best value of a column is bold."""
    lines = [table.columns, tuple("---" if _is_left(table, n) else "---:" for n in range(len(table.columns)))]
    rows = [
        "| " + " | ".join(_markdown(cell) if n == 0 else cell for cell in line) + " |" for n, line in enumerate(lines)
    ]
    for row in table.rows:
        cells = [
            f"**{_markdown(c.text)}** {_markdown(c.detail)}".strip() if c.best else _markdown(c.plain) for c in row
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join([f"**{_markdown(table.title)}**\n", *rows, ""])


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def as_latex(table: Table) -> str:
    """Return the table as LaTeX with booktabs; the best value of a column is bold."""
    shape = "".join("l" if _is_left(table, n) else "r" for n in range(len(table.columns)))
    rows = []
    for row in table.rows:
        cells = [
            (rf"\textbf{{{_latex(cell.text)}}} {_latex(cell.detail)}" if cell.best else _latex(cell.plain)).strip()
            for cell in row
        ]
        rows.append(latex_row(cells))
    lines = [
        rf"\begin{{tabular}}{{{shape}}}",
        r"\toprule",
        latex_row([_latex(column) for column in table.columns]),
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join([f"% {' '.join(table.title.split())}", *lines, ""])


def _latex(text: str) -> str:
    return escaped_latex(" ".join(text.split()))


def _is_left(table: Table, column: int) -> bool:
    return column < table.labels or column in table.words


def data_url(kind: str, text: str) -> str:
    """Return a data URL that contains ``text``, of the media type ``kind``."""
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"
