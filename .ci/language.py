"""Check the language of docstrings and help texts: python .ci/language.py.

A docstring says what its subject does ("Return …", "Encode …") or is ("The settings of a run."), and a help text names
the thing that its option sets. Texts that open with a question word, or with "Of", make a reader guess the subject.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
OPENINGS = re.compile(r"(What|Whether|How|Where|Of|Which|When|Who|Whose|That)\b")


def main() -> int:
    """Return 0 where nothing is wrong; else print each place."""
    wrong = [line for path in sorted(SOURCE.rglob("*.py")) for line in faults(path)]
    for line in wrong:
        print(f"language: {line}", file=sys.stderr)
    return bool(wrong)


def faults(path: Path) -> Iterator[str]:
    """Yield a line for each docstring and help text of a file that opens with such a word."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr):  # a string that stands alone: of a module, class, function or attribute
            texts = [node.value]
        elif isinstance(node, ast.Call):
            texts = [word.value for word in node.keywords if word.arg in ("help", "short_help")]
        else:
            continue
        for value in texts:
            text = _beginning(value)
            if found := OPENINGS.match(text):
                place = f"{path.relative_to(SOURCE.parent)}:{value.lineno}"
                yield f"{place}: opens with {found[0]!r}: {text.splitlines()[0][:80]}"


def _beginning(value: ast.expr) -> str:
    """Return the text of a string, or that before the first value of an f-string."""
    first = value.values[0] if isinstance(value, ast.JoinedStr) and value.values else value
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


if __name__ == "__main__":
    sys.exit(main())
