"""Tables as Markdown and LaTeX, and texts escaped for both."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&!])")
_LATEX = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
          "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
          "±": r"$\pm$", "–": "--", "−": "$-$", "δ": r"$\delta$",
          "→": r"$\to$", "↓": r"$\downarrow$", "↑": r"$\uparrow$", "α": r"$\alpha$", "β": r"$\beta$",
          "γ": r"$\gamma$", "λ": r"$\lambda$", "τ": r"$\tau$", "φ": r"$\phi$", "∞": r"$\infty$",
          "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",  # other characters in OT1
          "×": r"$\times$", "·": r"$\cdot$", "≤": r"$\leq$", "≥": r"$\geq$", "…": r"\ldots{}",
          "₀": "$_0$", "₁": "$_1$"}  # fmt: skip


def escaped_markdown(text: str) -> str:
    """Escape ``text`` for Markdown, in one line."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[int]) -> list[str]:
    """Return the lines of a table in GitHub's Markdown.

    The cells are Markdown already, without ``|`` and line breaks. The columns ``left`` are aligned to the left, the
    others to the right.
    """
    rule = ["---" if column in left else "---:" for column in range(len(header))]
    return ["| " + " | ".join(cells) + " |" for cells in (header, rule, *rows)]


def escaped_latex(text: str) -> str:
    """Escape ``text`` for LaTeX, in one line."""
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


def latex_table(comment: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[int]) -> str:
    """Return a table in LaTeX with booktabs, after a comment line; header and cells are LaTeX already.

    The columns ``left`` are aligned to the left, the others to the right.
    """
    shape = "".join("l" if column in left else "r" for column in range(len(header)))
    return "\n".join(
        [
            f"% {' '.join(comment.split())}",
            rf"\begin{{tabular}}{{{shape}}}",
            r"\toprule",
            _latex_row(header),
            r"\midrule",
            *map(_latex_row, rows),
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _latex_row(cells: Sequence[str]) -> str:
    row = " & ".join(cells) + r" \\"
    # A preceding \\ or \midrule would take a star or a bracket at the start of the row as its own argument.
    return "{}" + row if row.lstrip().startswith(("[", "*")) else row
