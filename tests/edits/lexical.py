"""The results of a lexical edit, for its tests."""

from __future__ import annotations

import functools
import random

import pytest

from holdfast.edits.edit import Edit

pytest.importorskip("textblob", reason="TextBlob is not installed")
pytest.importorskip("lemminflect", reason="lemminflect is not installed")

from holdfast.edits.tagging import TextBlobTagger


@functools.cache
def tagger() -> TextBlobTagger:
    """Return the default tagger of users."""
    return TextBlobTagger()


def results(edit: Edit, text: str, seeds: int = 60) -> set[str]:
    """Return the texts that an edit makes of a text with different seeds."""
    made = [edit(text, random.Random(seed)) for seed in range(seeds)]
    assert all(one is None or (one.original == text != one.text) for one in made)
    return {one.text for one in made if one is not None}
