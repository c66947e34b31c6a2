"""The Markdown files of the repository, taken apart: their blocks of code, and the commands in these."""

from __future__ import annotations

import importlib.util
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]

NOT_RUN = "not run: "
"""What the comment before a block begins with that no test runs; the reason follows."""

ELSEWHERE = {"tests": ".ci/run", "demo": "tests/demo"}
"""The other comments before blocks, and what runs the block."""

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]+?) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", flags=re.MULTILINE | re.DOTALL
)
_INLINE = re.compile(r"(?<!`)`(holdfast [^`]+)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        line: of its first fence, from 1.
        language: what stands behind the fence.
        code: what is in it.
        mark: the comment in the line before, without its arrows; "" where there is none.
    """

    line: int
    language: str
    code: str
    mark: str

    @property
    def reason(self) -> str | None:
        """Why it is not run here; None where it is."""
        if self.mark.startswith(NOT_RUN):
            return self.mark.removeprefix(NOT_RUN)
        return ELSEWHERE.get(self.mark)

    @property
    def file(self) -> str | None:
        """The name of the file that it is, which stands in a comment in its first line."""
        named = re.match(r"# (\S+\.(?:py|yaml))\n", self.code)
        return named[1] if named else None

    def commands(self) -> list[list[str]]:
        """The commands of a block of shell, as words."""
        commands: list[list[str]] = []
        for line in self.code.replace("\\\n", " ").splitlines():
            part: list[str] = []
            for word in [*shlex.split(line, comments=True), "&&"]:
                if word != "&&":
                    part.append(word)
                elif part:
                    commands.append(part)
                    part = []
        return commands


def module_at(path: str) -> ModuleType:
    """The module in a file of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages() -> list[str]:
    """Every Markdown file, as a path in the repository."""
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]
    return sorted(str(file.relative_to(ROOT)) for file in files)


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in order."""
    whole = text(page)
    return [
        Block(whole.count("\n", 0, found.start("language")) + 1, found["language"], found["code"], found["mark"] or "")
        for found in _BLOCK.finditer(whole)
    ]


def without_blocks(markdown: str) -> str:
    """A page without its fenced blocks."""
    return _BLOCK.sub("", markdown)


def inline_commands(page: str) -> list[str]:
    """What stands between single backticks outside of blocks and begins with ``holdfast``."""
    return [" ".join(found.split()) for found in _INLINE.findall(without_blocks(text(page)))]


def holdfast_words(command: list[str]) -> list[str] | None:
    """The words after ``holdfast``, or after a launcher's ``-m holdfast``; None for another command."""
    if command[0] == "holdfast":
        return command[1:]
    if command[0] in ("torchrun", "accelerate", "python") and "holdfast" in command:
        return command[command.index("holdfast") + 1 :]
    return None
