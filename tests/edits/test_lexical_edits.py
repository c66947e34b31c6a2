"""Invariants of all lexical edits, on any text, on public texts, and on the pairs of Breaking NLI."""

from __future__ import annotations

import csv
import difflib
import gzip
import os
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lexical import tagger

from holdfast.edits.antonyms import antonym_edits
from holdfast.edits.articles import article_of
from holdfast.edits.edit import SIDES, Edit
from holdfast.edits.names import name_edits
from holdfast.edits.numbers import number_edits
from holdfast.edits.quantifiers import quantifier_edits
from holdfast.edits.spelling_variants import spelling_edits

DATA = Path(os.environ.get("HOLDFAST_DATA", "nowhere"))
NAMES = ["antonym", "number", "quantifier", "name", "noun", "spelling-variant", "number-form"]

PARTS = """
A a an the The big small old man woman dog dogs France German Germany May March Monday John Smith 5 five 1990 19th
two-year 3,000 50% $4.50 more than less all some first best colour grey per cent won lost opened allowed to is are was
not of University . , ! ? ; : ( ) " ' - – … É ß 中 \u200b \u0130 \u2028 x'y it's
""".split()


def make_edits() -> list[Edit]:
    pair = tagger()
    texts = [
        "John Smith met Ann Jones.",
        "He saw Yale University and the dog.",
        "She left Duke University in a red car.",
    ]
    made = [*antonym_edits(None, pair), *number_edits(), *quantifier_edits(pair), *name_edits(texts, pair)]
    return [*made, *spelling_edits()]


EDITS = {edit.NAME: edit for edit in make_edits()}


def test_names_sides_and_languages():
    assert list(EDITS) == NAMES
    assert all(edit.SIDE in SIDES and edit.LANGUAGE == "en" and edit.ABOUT for edit in EDITS.values())
    assert {name for name, edit in EDITS.items() if edit.SIDE == "hold"} == {"spelling-variant", "number-form"}


def checked(edit: Edit, text: str, seed: int, strength: float = 0.0) -> str | None:
    """Return the changed text, after the checks that every result must pass."""
    made = edit(text, random.Random(seed), strength)
    assert made == edit(text, random.Random(seed), strength)
    if made is None:
        return None
    assert made.original == text
    assert made.text != text
    assert list(made.changes) == sorted(made.changes)
    assert all(0 <= change.begin < change.end <= len(text) for change in made.changes)
    assert all(one.end <= other.begin for one, other in zip(made.changes, made.changes[1:], strict=False))
    for change in made.changes:
        assert change.new.strip() or change.new == ""
        assert "  " not in change.new
    return made.text


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=60), seed=st.integers(0, 9), strength=st.floats(0, 1))
def test_any_text(name, text, seed, strength):
    checked(EDITS[name], text, seed, strength)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=300, deadline=None)
@given(parts=st.lists(st.tuples(st.sampled_from(PARTS), st.sampled_from([" ", " ", " ", "", "\n", "-"])), max_size=14))
def test_texts_of_words_that_have_rules(name, parts):
    checked(EDITS[name], "".join(word + gap for word, gap in parts), 0, 0.5)


def public_texts(count: int) -> list[str]:
    with gzip.open(DATA / "unlabelled" / "wiki_dev.tsv.gz", "rt", encoding="utf-8", newline="\n") as lines:
        rows = [line.rstrip("\n") for line in lines][1:]
    return random.Random("lexical").sample(rows, count)


@pytest.mark.skipif(not (DATA / "unlabelled").is_dir(), reason="needs HOLDFAST_DATA with unlabelled")
@pytest.mark.parametrize("name", NAMES)
def test_public_texts(name):
    applied = 0
    for seed, text in enumerate(public_texts(1500)):
        new = checked(EDITS[name], text, seed)
        if new is None:
            continue
        applied += 1
        # The articles before the changed words are right, and the case of the sentence's begin stays.
        assert new[0].isupper() == text[0].isupper() or new[0].isdigit() != text[0].isdigit()
        for article, word in re.findall(r"\b(an?) ([\w-]+)", new):
            if f"{article} {word}" not in text:
                assert article_of(word) in (article, None), new
    assert applied > 50


@pytest.mark.skipif(not (DATA / "breaking_nli").is_dir(), reason="needs HOLDFAST_DATA with breaking_nli")
@pytest.mark.parametrize("name", ["antonym", "number", "quantifier", "noun"])
def test_one_word_changes_as_in_breaking_nli(name):
    with gzip.open(DATA / "breaking_nli" / "test.tsv.gz", "rt", encoding="utf-8", newline="\n") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    texts = sorted({row["sentence1"] for row in rows if row["label"] == "contradiction"})
    applied = 0
    for text in texts:
        new = checked(EDITS[name], text, 0)
        if new is None:
            continue
        applied += 1
        old_words, new_words = text.split(), new.split()
        matcher = difflib.SequenceMatcher(a=old_words, b=new_words, autojunk=False)
        parts = [part for part in matcher.get_opcodes() if part[0] != "equal"]
        changed = [
            word for _, begin, end, _, _ in parts for word in old_words[begin:end] if word.lower() not in ("a", "an")
        ]
        assert len(changed) <= (3 if name == "quantifier" else 1), (text, new)
    assert applied > len(texts) * 0.02
