"""The operations by which a wrongly typed word came from the right one: a shortest edit path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.edits.typing_errors import KEYBOARD


class Operation(NamedTuple):
    """An operation on the letter ``at`` of the word; an insertion comes after it (-1: before the first letter)."""

    name: str
    at: int
    letter: str = ""


def distances(word: str, typed: str) -> list[list[int]]:
    """Optimal string alignment distance of all prefixes: insertions, deletions, substitutions, adjacent swaps."""
    table = [[i + j if not i or not j else 0 for j in range(len(typed) + 1)] for i in range(len(word) + 1)]
    for i in range(1, len(word) + 1):
        for j in range(1, len(typed) + 1):
            costs = [table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (word[i - 1] != typed[j - 1])]
            if is_swap(word, typed, i, j):
                costs.append(table[i - 2][j - 2] + 1)
            table[i][j] = min(costs)
    return table


def is_swap(word: str, typed: str, i: int, j: int) -> bool:
    """Return True if the prefixes end in the same two different letters, swapped."""
    return i > 1 and j > 1 and word[i - 1] == typed[j - 2] != word[i - 2] == typed[j - 1]


def operations(word: str, typed: str) -> list[Operation]:
    """The operations of a shortest path; as many as the distance."""
    return list(_path(word, typed))[::-1]


def _path(word: str, typed: str) -> Iterator[Operation]:
    table = distances(word, typed)
    i, j = len(word), len(typed)
    while i or j:
        left = table[i][j] - 1
        if i and j and word[i - 1] == typed[j - 1] and table[i - 1][j - 1] == table[i][j]:
            i, j = i - 1, j - 1
        elif is_swap(word, typed, i, j) and table[i - 2][j - 2] == left:
            i, j = i - 2, j - 2
            yield Operation("swap", i)
        elif i and j and table[i - 1][j - 1] == left:
            i, j = i - 1, j - 1
            yield Operation("substitute", i, typed[j])
        elif i and table[i - 1][j] == left:
            i -= 1
            doubled = word[i] in (word[i - 1 : i], word[i + 1 : i + 2])
            yield Operation("single" if doubled else "delete", i)
        else:
            j -= 1
            doubled = typed[j] in (word[i - 1 : i], word[i : i + 1])
            yield Operation("double" if doubled else "insert", i - 1, typed[j])


def is_near(word: str, operation: Operation) -> bool:
    """Return True if a substituted or inserted letter is on a key beside that of a letter at its place."""
    near = word[operation.at : operation.at + 1] if operation.at >= 0 else ""
    if operation.name == "insert":
        near = word[max(operation.at, 0) : operation.at + 2]
    return any(operation.letter in KEYBOARD.get(letter, "") for letter in near)
