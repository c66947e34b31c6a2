"""Check the language of docstrings, help texts and names: python .ci/language.py.

A docstring opens with a verb ("Return …", "Encode …") or a noun phrase ("The settings of a run."), and so does the line
of an attribute in an "Attributes:" section. A help text names the value that its option sets. A text that opens with a
question word, or with "Of", does not name its subject. Names that hide their content are refused, too.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
OPENINGS = re.compile(r"(What|Whether|How|Where|Of|Which|When|Who|Whose|That)\b")
ATTRIBUTES = re.compile(r"^( *)Attributes:\n((?:\1 +.*\n|\s*\n)*)", re.MULTILINE)
ATTRIBUTE = re.compile(r"^\w+: ")
NAMES = {"told", "said", "slips"}


def main() -> int:
    """Print each fault, and return 1 if there is one."""
    faults = [line for path in sorted((ROOT / "src").rglob("*.py")) for line in faults_of_file(path)]
    for line in dict.fromkeys(faults):  # a name that stands twice in a line is one fault
        print(f"language: {line}", file=sys.stderr)
    return bool(faults)


def faults_of_file(path: Path) -> Iterator[str]:
    """Yield a line for each docstring, help text or name of a file that is refused."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        for name in names_of(node):
            if NAMES & set(name.lower().split("_")):
                yield f"{place}: the name {name!r} hides its content"
        for text in texts_of(node):
            if found := OPENINGS.match(text):
                yield f"{place}: opens with {found[0]!r}: {text.splitlines()[0][:80]}"


def texts_of(node: ast.AST) -> Iterator[str]:
    """Yield the docstring at a node, the lines of its attributes, or the help texts of a call."""
    if isinstance(node, ast.Expr):  # a string that stands alone: of a module, class, function or attribute
        text = _beginning(node.value)
        yield text
        for _, section in ATTRIBUTES.findall(text + "\n"):
            for line in section.splitlines():
                if ATTRIBUTE.match(line.strip()):
                    yield line.strip().partition(": ")[2]
    elif isinstance(node, ast.Call):
        yield from (_beginning(word.value) for word in node.keywords if word.arg in ("help", "short_help"))


def names_of(node: ast.AST) -> Iterator[str]:
    """Yield the names at a node: of a variable, argument, attribute, keyword, function, class or import."""
    for field in ("id", "arg", "attr", "name", "asname"):
        if isinstance(name := getattr(node, field, None), str):
            yield name


def _beginning(value: ast.expr) -> str:
    """Return the text of a string, or that before the first value of an f-string."""
    first = value.values[0] if isinstance(value, ast.JoinedStr) and value.values else value
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


if __name__ == "__main__":
    sys.exit(main())
