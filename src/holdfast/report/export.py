"""Tables as CSV, Markdown and LaTeX, with all texts escaped."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Callable

from holdfast.experiments.markup import escaped_latex, escaped_markdown, latex_table, markdown_table
from holdfast.report.elements import Table

# Spreadsheets skip blanks and control characters at the start of a cell; some accept full-width signs.
_FORMULA = re.compile(r"[\s\x00-\x20\x7f-\xa0\u200b-\u200f\ufeff]*[=+\-@＝＋－＠]|[\t\r\n]")
_NUMBER = re.compile(r"[+−-]?[\d,.]+(e[+-]?\d+)?( [\d.,+−–±()to -]*)?")


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
    header, rows = _escaped(table, escaped_markdown, "**{}**")
    lines = markdown_table(header, rows, left=_left(table))
    return "\n".join([f"**{escaped_markdown(table.title)}**\n", *lines, ""])


def as_latex(table: Table) -> str:
    """Return the table as LaTeX with booktabs; the best value of a column is bold."""
    header, rows = _escaped(table, escaped_latex, r"\textbf{{{}}}")
    return latex_table(table.title, header, rows, left=_left(table))


def _escaped(table: Table, escape: Callable[[str], str], bold: str) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows with escaped texts; ``bold`` is the format of a best value."""
    rows = [
        [f"{bold.format(escape(c.text))} {escape(c.detail)}".strip() if c.best else escape(c.plain) for c in row]
        for row in table.rows
    ]
    return [escape(column) for column in table.columns], rows


def _left(table: Table) -> set[int]:
    """Return the columns that are aligned to the left."""
    return {*range(table.labels), *table.words}


def data_url(kind: str, text: str) -> str:
    """Return a data URL that contains ``text``, of the media type ``kind``."""
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"
