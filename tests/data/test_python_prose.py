"""The corpus: markup, code and tables are left out of small documents, and this installation gives enough prose."""

import re
import sys
import sysconfig
from pathlib import Path

import pytest

from holdfast.data import python_prose
from holdfast.errors import UserError

DOCUMENT = """The "with" statement
********************

The "with" statement is used to wrap the execution of a block with
*methods* defined by a **context manager**, e.g. The File Object of the
user.  This also works when the block raises an exception! [1]

   with_stmt ::= "with" with_item ":" suite
   The suite of this production is not a sentence of the text.

   with_item: expression ["as" target]

The following code shows how the statement works in practice::

   This indented line only looks like a sentence of the text.

   Neither is this line after a blank one a part of it.

* The first item of this list is wrapped over
  two lines of the text.
* The second item is a sentence of its own, and it ends in a non-
  negative integer.

=========  ==================================
operator   The meaning of this is in a table.
=========  ==================================

>>> print("This is not a sentence of the text.")
This is the output of a session with the interpreter.

Note:

  The note of this page is indented, but it is still prose.

Changed in version 3.9: The old behaviour of this was
removed from the language.
"""

SENTENCES = [
    "The with statement is used to wrap the execution of a block with methods defined by a context manager, "
    "e.g. The File Object of the user.",
    "This also works when the block raises an exception!",
    "The first item of this list is wrapped over two lines of the text.",
    "The second item is a sentence of its own, and it ends in a non-negative integer.",
    "The note of this page is indented, but it is still prose.",
    "The old behaviour of this was removed from the language.",
]


def test_only_the_prose_of_a_document_is_kept() -> None:
    assert python_prose.extract_sentences(DOCUMENT) == SENTENCES


@pytest.mark.parametrize(
    ("paragraph", "sentences"),
    [
        ("It works. It is fast.", ["It works.", "It is fast."]),
        ("Use a list, e.g. This one, i.e. That one.", ["Use a list, e.g. This one, i.e. That one."]),
        ("Lists, tuples, etc. are fine.", ["Lists, tuples, etc. are fine."]),
        ("It takes lists, tuples, etc. Sets work too.", ["It takes lists, tuples, etc.", "Sets work too."]),
        ("Dr. Smith met J. R. Jones in the U.S. Army.", ["Dr. Smith met J. R. Jones in the U.S. Army."]),
        ('He said "stop." Then he left. (Nobody saw it.)', ['He said "stop."', "Then he left.", "(Nobody saw it.)"]),
        ("Version 3.5 is out. 7 bugs are fixed", ["Version 3.5 is out.", "7 bugs are fixed"]),
        ("", []),
    ],
)
def test_sentences_are_split_at_their_ends_and_not_at_abbreviations(paragraph: str, sentences: list[str]) -> None:
    assert python_prose.split_sentences(paragraph) == sentences


@pytest.mark.parametrize(
    "text",
    [
        "Too short to be.",
        "The " + "very " * 60 + "long sentence is left out.",
        "this one does not begin with a capital letter.",
        "This one does not end as a sentence does",
        "The value of my_name is taken from the table.",
        "The result of len(x) is one of the numbers.",
        "The result of x + y is one of the numbers.",
        "The name of os.path is one of the modules.",
        "The value is one of <a> and <b> in the text.",
        "It (and this is never closed is a part of it.",
        "Alpha beta gamma delta epsilon zeta eta theta.",
        "If it is 12345678901234 then 12345678901234 is it.",
    ],
)
def test_what_is_not_prose_is_left_out(text: str) -> None:
    assert python_prose.extract_sentences(text) == []


def test_roles_and_links_become_their_text() -> None:
    text = "See :class:`~Thread`, the ``lock`` and `the guide <https://example.org>`_ for all of this."
    assert python_prose.extract_sentences(text) == ["See Thread, the lock and the guide for all of this."]


def _write_library(root: Path) -> None:
    (root / "package" / "test").mkdir(parents=True)
    (root / "a.py").write_text(
        '"""The module comes first in the list."""\nraise SystemExit("imported")\n'
        'class C:\n    """The class is the second in the list."""\n'
        '    async def m(self):\n        """The method is the third in the list."""\n'
    )
    (root / "bad.py").write_text('"""The file is not in the list of the files."""\ndef (:\n')
    (root / "binary.py").write_bytes(b'"""The file is not a text."""\0')
    (root / "package" / "b.py").write_text('"""The package is the last in the list."""\n"\\d"\n')
    (root / "package" / "test" / "c.py").write_text('"""The tests are not in the list."""\n')


def test_docstrings_are_read_in_order_without_importing_and_past_broken_files(tmp_path: Path) -> None:
    _write_library(tmp_path)
    assert [text.split()[1] for text in python_prose._docstrings(tmp_path)] == ["module", "class", "method", "package"]


def test_the_amount_read_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_library(tmp_path)
    monkeypatch.setattr(python_prose, "_MAX_TOTAL_BYTES", 10)
    assert len(list(python_prose._docstrings(tmp_path))) == 3
    monkeypatch.setattr(python_prose, "_MAX_FILE_BYTES", 10)
    assert list(python_prose._docstrings(tmp_path)) == []


def test_an_installation_without_documentation_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_library(tmp_path)
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    with pytest.raises(UserError, match=r"hold 4 sentences, and 500 are needed: ") as error:
        python_prose.load_python_prose()
    assert "\n" not in str(error.value)


def test_this_installation_gives_a_clean_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    sentences = python_prose.load_python_prose()
    assert len(sentences) >= python_prose.MIN_SENTENCES
    assert len(set(sentences)) == len(sentences)
    for sentence in sentences:
        assert len(re.findall("[A-Za-z]+", sentence)) >= 5
        assert len(sentence.split()) <= 60
        assert not set(sentence) & set("_<>{}[]|=\n\t`")
    monkeypatch.setattr(python_prose, "extract_sentences", lambda text: pytest.fail("found again"))
    assert sentences == python_prose.load_python_prose(), "what was found once is kept"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python installation of a few files, and a cache of its own."""
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    monkeypatch.setattr(python_prose, "MIN_SENTENCES", 3)
    _write_library(tmp_path / "lib")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path / "lib")})
    return tmp_path / "lib"


def test_another_file_of_the_installation_is_read(library: Path) -> None:
    before = python_prose.load_python_prose()
    (library / "z.py").write_text('"""This one is new in the list."""\n')
    assert {*python_prose.load_python_prose()} == {*before, "This one is new in the list."}


@pytest.mark.parametrize("damage", ["", "another line", b"\xff\xfe"])
def test_what_is_kept_is_taken_as_it_was_written_or_not_at_all(library: Path, damage: str | bytes) -> None:
    before = python_prose.load_python_prose()
    (kept,) = (library.parent / "cache" / "demo").iterdir()
    whole = kept.read_bytes()
    damaged = damage if isinstance(damage, bytes) else damage.encode() and whole + damage.encode()
    kept.write_bytes(damaged)
    assert python_prose.load_python_prose() == before
    assert kept.read_bytes() == whole


def test_where_nothing_can_be_kept_it_is_found_each_time(library: Path) -> None:
    (library.parent / "cache").write_text("a file in the folder's place")
    assert python_prose.load_python_prose() == python_prose.load_python_prose()
