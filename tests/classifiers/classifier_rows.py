"""Labelled texts: of class 1 with a dog in them, of class 0 with a cat."""

from __future__ import annotations

import random
from pathlib import Path

ANIMALS = ("cat", "dog")
OTHERS = "the a man woman child runs sleeps eats plays sings on under in park house bed red big old".split()


def sentence(draw: random.Random, *animals: str) -> str:
    words = [*draw.choices(OTHERS, k=draw.randint(2, 6)), *animals]
    draw.shuffle(words)
    return " ".join(words)


def rows(count: int, seed: int, *, pairs: bool = False, flipped: bool = False) -> list[tuple[str, ...]]:
    """Texts and their class, or the other class; the first text of a pair says nothing of it."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        label = number % 2
        first = [" ".join(draw.choices(OTHERS, k=2))] if pairs else []
        made.append((*first, sentence(draw, *[ANIMALS[label]] * 2), str(label ^ flipped)))
    return made


def write(path: Path, made: list[tuple[str, ...]]) -> None:
    """A split's TSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = ("sentence", "label") if len(made[0]) == 2 else ("sentence1", "sentence2", "label")
    path.write_text("".join("\t".join(row) + "\n" for row in [header, *made]), encoding="utf-8")
