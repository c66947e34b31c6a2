"""English prose from the user's own Python installation: a corpus that needs no download.

Licence: the sentences come from the user's own copy of Python, whose documentation and source are under
the PSF licence. They are read from the installation; holdfast does not ship them.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import inspect
import os
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from holdfast.errors import UserError
from holdfast.files import cache_folder, write_text

MIN_SENTENCES = 500
"""Minimum number of sentences: fewer are too few to train or audit with."""

_MIN_WORDS, _MAX_WORDS = 5, 60
_MIN_LETTER_SHARE = 0.93  # share of letters and spaces; a sentence of the documentation has about 0.97

# Tests and vendored tools contain little prose; site-packages is not part of Python.
_SKIPPED_FOLDERS = {
    *("test", "tests", "idle_test", "idlelib", "lib2to3", "site-packages", "dist-packages", "turtledemo"),
    *("pydoc_data", "lib-dynload", "_vendor", "__pycache__"),
}
# Bounds on size, not on time, so that the result is the same on every run.
_MAX_FILE_BYTES = 1_000_000
_MAX_TOTAL_BYTES = 32_000_000


def load_python_prose() -> list[str]:
    """Return English sentences from this Python's documentation topics and standard-library docstrings.

    The text is the user's own copy, under the PSF licence; holdfast does not ship it. No module of the standard library
    is imported for its docstrings: the files are parsed, never run. Parts that a distribution leaves out are skipped.
    The same installation always gives the same list. It is computed once, in about ten seconds, and cached in
    ``$HOLDFAST_CACHE/demo`` until a file of the installation changes.

    Raises:
        UserError: fewer than `MIN_SENTENCES` sentences are found.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    cache = cache_folder("demo") / f"{_installation_hash(root)}.txt"
    if (cached := _read_cache(cache)) is not None:
        return cached
    texts = [*_topics(), *_docstrings(root)]
    sentences = list(dict.fromkeys(sentence for text in texts for sentence in extract_sentences(text)))
    if len(sentences) < MIN_SENTENCES:
        raise UserError(
            f"this Python's documentation and docstrings hold {len(sentences)} sentences, and {MIN_SENTENCES} are "
            "needed: use a full Python installation, or your own text with --corpus FILE"
        )
    with contextlib.suppress(UserError):  # without a writable cache they are computed each time
        write_text(cache, _digest(sentences) + "\n" + "".join(f"{sentence}\n" for sentence in sentences))
    return sentences


def _installation_hash(root: Path) -> str:
    """Return a hash of the files that contain the sentences and of the code that extracts them."""
    facts = [Path(__file__).read_text(encoding="utf-8"), sys.version]
    for path in (root / "pydoc_data" / "topics.py", *_python_files(root)):
        with contextlib.suppress(OSError):
            facts.append(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}")
    return _digest(facts)[:16]


def _read_cache(path: Path) -> list[str] | None:
    """Return the sentences of a cache file; None if the file is missing or damaged."""
    try:
        digest, *sentences = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    return sentences if digest == _digest(sentences) else None


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _topics() -> list[str]:
    """Return the documentation topics behind `help('with')`, sorted by name; some distributions leave them out."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return []
    return [text for _, text in sorted(topics.items())]


def _docstrings(root: Path) -> Iterator[str]:
    """Yield the docstrings of the Python files under `root`, in order of path and line."""
    total = 0
    for path in _python_files(root):
        try:
            source = path.read_bytes()
            if len(source) > _MAX_FILE_BYTES:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # do not warn the user about invalid escapes in old files
                tree = ast.parse(source)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        yield from _docstrings_of(tree)
        total += len(source)
        if total > _MAX_TOTAL_BYTES:
            return


def _python_files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".py"))


def _docstrings_of(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield the docstrings of `node`, its classes, functions and methods, but not of functions inside functions."""
    docstring = ast.get_docstring(node)
    if docstring:
        yield docstring
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstrings_of(child)


def extract_sentences(text: str) -> list[str]:
    """Return the English sentences of a reStructuredText document or docstring, without markup, code and tables."""
    paragraphs = (_plain(paragraph) for paragraph in _paragraphs(text))
    return [sentence for paragraph in paragraphs for sentence in split_sentences(paragraph) if _is_prose(sentence)]


# ---------------------------------------------------------------------------------------------------------------------
# From a document to its paragraphs

_RULE = re.compile(r"\s*([=\-~*^#\"+.`_:])\1{2,}[\s=+|\-]*$")  # heading underlines and table borders
_ITEM = re.compile(r"(\s*)([*•+-]|\(?\d{1,2}[.)]|\(?[a-z]\))\s+(?=\S)")  # bullets and numbers of list items
_CODE = re.compile(r"^\s*(>>>|\.\.\.|\.\. |\$ |:\w+|@\w|#|-> )|::=|\S \| \S|^\s*\||\w\s+=\s+\S|[;{]\s*$")
_DIRECTIVE = re.compile(r"^\s*\.\. ")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _paragraphs(text: str) -> Iterator[str]:
    """Yield joined runs of lines with equal indentation, without literal blocks, headings and paragraphs with code."""
    literal: int | None = None  # indentation of the text that announced a literal block with "::"
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        lines = block.expandtabs().split("\n")
        if literal is not None and _indent(lines[0]) > literal:
            continue
        literal = None
        if lines[-1].rstrip().endswith("::") or _DIRECTIVE.match(lines[0]):
            literal = _indent(lines[0])
        if any(_CODE.search(line) for line in lines):
            continue
        yield from _joined_runs(_without_headings(lines))


def _without_headings(lines: list[str]) -> list[str]:
    rules = [bool(_RULE.match(line)) for line in lines]
    underlined = [*rules[1:], False]
    return [line for line, rule, heading in zip(lines, rules, underlined, strict=True) if not (rule or heading)]


def _joined_runs(lines: Iterable[str]) -> Iterator[str]:
    """Yield joined runs of lines; a new run starts if the indentation changes or a list item begins."""
    run: list[str] = []
    indent = -1
    for line in lines:
        item = _ITEM.match(line)
        text_starts = item.end() if item else _indent(line)
        if run and (item or text_starts != indent):
            yield _joined(run)
            run = []
        indent = text_starts
        run.append(line[text_starts:].rstrip())
    if run:
        yield _joined(run)


def _joined(lines: list[str]) -> str:
    """Join lines into one; a word that is broken after its hyphen is joined again."""
    return re.sub(r"(?<=[a-z]-) (?=[a-z])", "", " ".join(lines))


# ---------------------------------------------------------------------------------------------------------------------
# From a paragraph to its sentences

_MARKUP = [
    (re.compile(r"[‘’]"), "'"),
    (re.compile(r"[“”]"), '"'),
    (re.compile(r":[\w:+-]+:`~?\.?([^`<]+?)(?:\s*<[^`>]*>)?`"), r"\1"),  # :class:`name`, :ref:`text <target>`
    (re.compile(r"`+([^`<]+?)(?:\s*<[^`>]*>)?`+_{0,2}"), r"\1"),  # ``literal``, `text <link>`_
    (re.compile(r"\*\*([^*\s][^*]*)\*\*|(?<!\w)\*([^*\s][^*]*)\*"), r"\1\2"),  # **strong**, *emphasis*
    (re.compile(r"\s*\[\d+\]_?"), ""),  # footnote marks
    # The topics are reST rendered as text, in which literal markup is written "name"; docstrings have 'name'.
    (re.compile(r"(?<![\w\"'])([\"'])([\w.-]+)\1(?![\w\"'])"), r"\2"),
    (
        re.compile(
            r"^((?:New|Added|Changed) in version [\d.]+|Deprecated since version [\d.]+[^:]*|CPython implementation "
            r"detail|Note|Notes|Warning|See also|Source code)\s*:\s*"
        ),
        "",
    ),
    (re.compile(r"\s+"), " "),
]


def _plain(paragraph: str) -> str:
    """Remove the markup of a paragraph: roles, emphasis, literals, footnote marks and the labels of notes."""
    for pattern, replacement in _MARKUP:
        paragraph = pattern.sub(replacement, paragraph)
    return paragraph.strip()


_BOUNDARY = re.compile(r"[.!?][\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9])")
# A full stop after these does not end a sentence, even before a capital. "etc." is not in the list: before a
# lower-case letter there is no split, and before a capital it usually ends the sentence. Single letters are initials.
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[\"'])(?:e\.g|i\.e|cf|vs|viz|resp|approx|al|fig|figs|eq|sec|sect|ch|no|nos|vol|p|pp|ed|eds|mr|mrs|ms"
    r"|dr|prof|st|jr|sr|[A-Z]|(?:[A-Z]\.)+[A-Z])\.$",
    re.IGNORECASE,
)


def split_sentences(paragraph: str) -> list[str]:
    """Split at a full stop, question mark or exclamation mark before a capital or digit, but not at an abbreviation."""
    sentences, start = [], 0
    for boundary in _BOUNDARY.finditer(paragraph):
        end = boundary.end()
        if paragraph[boundary.start()] == "." and _ABBREVIATION.search(paragraph[start : boundary.start() + 1]):
            continue
        sentences.append(paragraph[start:end].strip())
        start = end
    rest = paragraph[start:].strip()
    return [*sentences, rest] if rest else sentences


# Not in English sentences: code characters, calls, ellipses, file names, dotted and mixed-case identifiers.
_NOT_PROSE = re.compile(
    r"[_<>{}\[\]|\\=@#^~$%*`/&+]|\w\(|\(\)|\.\.|--|->|::|\b\w+\.(?:py|txt|cfg|html|c|h)\b|\b[a-z]\w*\.[a-z]\w+\b"
    r"|\b[a-z]+[A-Z]\w*|\s[.,;:]|\b(?:Copyright|TODO|FIXME|XXX)\b"
)
_FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an the of to in is are was be been by for from with on at as and or not no if it its this that which when "
        "where than then can may must will should would has have does do you we they he their your there but so one "
        "all any",
    )
)


def _is_prose(sentence: str) -> bool:
    """Return True for a complete English sentence, judged by length, first and last characters, and function words."""
    words = re.findall(r"[^\W\d_]+(?:['-][^\W\d_]+)*", sentence)
    if not _MIN_WORDS <= len(words) <= _MAX_WORDS or len(sentence.split()) > _MAX_WORDS:
        return False
    if not (sentence[0].isupper() and sentence.rstrip("\"')")[-1:] in {".", "!", "?"}) or _NOT_PROSE.search(sentence):
        return False
    if sentence.count("(") != sentence.count(")") or sentence.count('"') % 2:
        return False
    if sum(c.isalpha() or c == " " for c in sentence) < _MIN_LETTER_SHARE * len(sentence):
        return False
    return len(_FUNCTION_WORDS.intersection(word.lower() for word in words)) >= 2
