"""A method from a file or module of one's own: what is taken, and what is told of what is not."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from holdfast.errors import UserError
from holdfast.objectives import SimCSE
from holdfast.training.method_options import objective_class
from holdfast.user_classes import is_user_class, source_sha256

GOOD = '''
from typing import ClassVar
from holdfast.objectives import Objective, SimCSE

class Colder(SimCSE):
    """SimCSE at another temperature.

    Args:
        temperature: τ.
    """
    TITLE: ClassVar = "Colder"
    COST: ClassVar = None

    def __init__(self, model, *, temperature: float = 0.01) -> None:
        super().__init__(model, temperature=temperature)

class Unfinished(Objective):
    TITLE = IDEA = CITATION = "x"

class Nameless(Objective):
    def forward(self, sentence_features, labels=None):
        return {}

limit = 3
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(GOOD, encoding="utf-8")
    return path


def test_a_class_in_a_file(file: Path) -> None:
    kind = objective_class(f"{file}:Colder")
    assert issubclass(kind, SimCSE)
    assert kind.TITLE == "Colder"
    assert objective_class(f"{file}:Colder") is kind  # the same file again is the same class
    assert source_sha256(kind) == hashlib.sha256(GOOD.encode()).hexdigest()

    file.write_text(GOOD.replace("Colder", "Colder2"), encoding="utf-8")
    assert objective_class(f"{file}:Colder2").TITLE == "Colder2"  # a file that was changed is read again


def test_a_class_in_a_module() -> None:
    assert objective_class("holdfast.objectives.simcse:SimCSE") is SimCSE


def test_what_names_a_class() -> None:
    assert is_user_class("mine.py:Mine")
    assert not is_user_class("l2p-csr")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "mine.py:Coldr",
            "no objective 'Coldr' (did you mean 'Colder'?); objectives in it: Colder, Unfinished, Nameless",
        ),
        ("mine.py:limit", "no objective 'limit'"),
        ("mine.py:Unfinished", "lacks forward"),
        ("mine.py:Nameless", "lacks TITLE, a line of text"),
        ("mine.py:", "is not FILE.py:Class"),
        (":Mine", "is not FILE.py:Class"),
        ("absent.py:Mine", "absent.py does not exist"),
        ("no_such_module:Mine", "no_such_module cannot be imported"),
        ("broken_module:Mine", "broken_module.py:2)"),
        ("broken_module:Mine", "broken_module cannot be imported: NameError: name 'undefined' is not defined ("),
        ("syntax:Mine", "syntax cannot be imported: SyntaxError: invalid syntax (syntax.py, line 2)"),
        (".mine:Mine", ".mine is relative to no package"),
        ("..mine:Mine", "..mine is relative to no package"),
        ("broken.py:Mine", "broken.py:3: ZeroDivisionError"),
        ("syntax.py:Mine", "syntax.py:2: SyntaxError"),
    ],
)
def test_what_cannot_be_had_is_one_line(name: str, message: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    Path("broken.py").write_text("import math\n\n1 / 0\n")
    Path("syntax.py").write_text("x = 1\nclass:\n")
    Path("broken_module.py").write_text("x = 1\nundefined\n")
    monkeypatch.syspath_prepend(str(file.parent))
    with pytest.raises(UserError) as error:
        objective_class(name)
    assert message in str(error.value)
