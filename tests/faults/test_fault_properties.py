"""Properties of the readers and of the text pipeline, on whatever hypothesis thinks of."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzz
import fuzz_kinds
import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from holdfast.attacks.examples import Attempt
from holdfast.attacks.journal import Journal
from holdfast.data.corpus import read_corpus
from holdfast.data.registry import load_graded, load_labelled
from holdfast.data.tables import read_rows
from holdfast.data.untrusted_lines import numbered_lines
from holdfast.edits import typing_errors
from holdfast.edits.word_vectors import read_word_vectors
from holdfast.edits.words import Words, in_case_of, others, pieces
from holdfast.errors import UserError
from holdfast.results import read_with_state, shown, write_result
from holdfast.settings import read_settings
from holdfast.training.train_config import TrainConfig

# The machine may be slow and the folder of a test is made once: neither is what these tests are about.
FEW = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
LINE = TEXT.map(lambda text: text.replace("\n", " ").replace("\r", " ").replace("\0", ""))
SENTENCE = LINE.map(lambda text: text.replace("\t", " ").strip()).filter(
    lambda text: bool(text) and not text.startswith("\ufeff")
)
FIELD = SENTENCE
PLAIN = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=30)  # YAML takes no controls
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_MAGIC = (b"\x1f\x8b", b"\x28\xb5", b"PAR1", b"PK\x03\x04", b"BZh", b"\xfd7zXZ", b"\xff\xfe", b"\xfe\xff")


# --- readers: what is written is read again ----------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".txt.zst", ".tsv", ".jsonl", ".parquet"])
@FEW
@given(st.lists(SENTENCE, min_size=1, max_size=20))
def test_a_corpus_is_read_as_it_was_written(ending: str, tmp_path: Path, sentences: list[str]) -> None:
    path = tmp_path / f"corpus{ending}"
    text = "\n".join(sentences) + "\n"
    assume(not text.encode().startswith(_MAGIC))
    if ending == ".jsonl":
        text = "".join(json.dumps({"text": s, "n": 1}, ensure_ascii=n % 2 == 0) + "\n" for n, s in enumerate(sentences))
    elif ending == ".tsv":
        text = "id\tsentence\n" + "".join(f"{n}\t{s}\n" for n, s in enumerate(sentences))
    if ending == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"sentence": sentences}), path)
    else:
        packed: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".zst": zstandard.compress}
        path.write_bytes(packed.get(path.suffix, bytes)(text.encode()))
    assert list(read_corpus(str(path))) == sentences


@FEW
@given(st.lists(LINE, max_size=20), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_lines_are_those_between_line_feeds(lines: list[str], end: str, mark: bool, ended: bool) -> None:
    """Whatever else Unicode breaks lines at; with a byte order mark or without, with a last line feed or without."""
    data = (b"\xef\xbb\xbf" if mark else b"") + end.join(lines).encode() + (end.encode() if ended and lines else b"")
    assume(mark or not data.startswith((*_MAGIC, b"\xef\xbb\xbf")))
    read = [line for _, line in numbered_lines(io.BytesIO(data), "x", 1000)]
    expected = lines if ended or not lines or lines[-1] else lines[:-1]
    if mark and not expected and not data.removeprefix(b"\xef\xbb\xbf"):
        expected = [""]  # a mark alone is a line, an empty one
    assert read == expected or (not lines and read in ([], [""]))


@FEW
@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(FIELD, min_size=n, max_size=n), min_size=1, max_size=10)))
def test_a_table_is_read_as_it_was_written(rows: list[list[str]]) -> None:
    data = "".join("\t".join(row) + "\n" for row in rows).encode()
    assume(not data.startswith(_MAGIC))
    assert [fields for _, fields in read_rows(io.BytesIO(data), "x")] == rows


@FEW
@given(st.lists(st.tuples(SENTENCE, SENTENCE, FIELD), min_size=1, max_size=10), st.booleans())
def test_a_task_of_ones_own_is_read_as_it_was_written(
    tmp_path: Path, rows: list[tuple[str, str, str]], as_json: bool
) -> None:
    names = ("sentence1", "sentence2", "label")
    path = tmp_path / ("own.jsonl" if as_json else "own.tsv")
    if as_json:
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows), "utf-8")
    else:
        path.write_text("".join("\t".join(row) + "\n" for row in (names, *rows)), "utf-8", newline="\n")
    read = load_labelled(str(path), "all")
    assert read.sentences2 is not None
    classes = [read.classes[label] for label in read.labels]
    assert list(zip(read.sentences1, read.sentences2, classes, strict=True)) == rows


@FEW
@given(st.lists(st.tuples(SENTENCE, st.floats(-100, 100)), min_size=1, max_size=10))
def test_scores_are_read_to_the_last_digit(tmp_path: Path, rows: list[tuple[str, float]]) -> None:
    path = tmp_path / "own.tsv"
    path.write_text(
        "sentence\tscore\n" + "".join(f"{text}\t{score!r}\n" for text, score in rows), "utf-8", newline="\n"
    )
    read = load_graded(str(path), "all")
    assert [(texts[0], score) for texts, score in zip(read.texts, read.scores, strict=True)] == rows


@FEW
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=8),
        st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3),
        min_size=1,
        max_size=8,
    )
)
def test_word_vectors_are_read_as_they_were_written(tmp_path: Path, vectors: dict[str, list[float]]) -> None:
    path = tmp_path / "glove.txt"
    data = "".join(f"{word} {' '.join(map(repr, row))}\n" for word, row in vectors.items()).encode()
    assume(not data.startswith((*_MAGIC, b"\xef\xbb\xbf")))
    path.write_bytes(data)
    read = read_word_vectors(path)
    assert read.words == list(vectors)
    assert np.array_equal(read.matrix, np.array(list(vectors.values()), dtype=np.float32))


@FEW
@given(JSON, st.text(), st.floats(allow_nan=False, allow_infinity=False))
def test_a_result_is_read_as_it_was_written(tmp_path: Path, more: Any, text: str, score: float) -> None:
    row = {"task": text, "split": "test", "n": 1, "metrics": {"score": score}, "more": more}
    result = fuzz_kinds.small_result(results=[row], anything=more)
    write_result(tmp_path / "r.json", result)
    assert read_with_state(tmp_path / "r.json") == (result, "as written")


@FEW
@given(st.lists(st.tuples(st.integers(0, 5), st.text(), st.text()), max_size=8))
def test_a_journal_is_read_as_it_was_written(tmp_path: Path, made: list[tuple[int, str, str]]) -> None:
    journal = Journal(tmp_path / "r.json", {"seed": 1})
    journal.remove()
    journal.open(resume=False)
    attempts = [Attempt(n, "pwws", "failed", old, new, changed=((0, old, new),)) for n, old, new in made]
    for attempt in attempts:
        journal.add(attempt, 1.0)
    assert Journal(tmp_path / "r.json", {"seed": 1}).open(resume=True) == {("pwws", a.number): a for a in attempts}


@FEW
@given(st.floats(1e-9, 1.0), st.integers(1, 10**6), st.sampled_from(["bf16", "fp32", "auto"]), PLAIN)
def test_a_configuration_says_what_was_written(
    tmp_path: Path, rate: float, size: int, precision: str, corpus: str
) -> None:
    lines = {"model": "m", "corpus": corpus, "output": "o", "learning-rate": rate, "batch_size": size}
    path = tmp_path / "run.yaml"
    text = "".join(
        f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in {**lines, "precision": precision}.items()
    )
    path.write_text(text, encoding="utf-8")
    read = read_settings(TrainConfig, {"method": "simcse"}, path)
    assert (read.learning_rate, read.batch_size, read.precision, read.corpus) == (rate, size, precision, corpus)


# --- readers: a value or one line --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", fuzz_kinds.all_kinds(), ids=lambda kind: kind.name)
@settings(FEW, max_examples=15)
@given(st.binary(max_size=300))
@example(b"")
@example(b"\n")
@example(b"\t\n\t\n")
@example(b"{}")
@example(b"[]")
@example(b"null\n")
def test_whatever_a_file_holds_is_a_value_or_one_line(kind: fuzz_kinds.Kind, tmp_path: Path, data: bytes) -> None:
    packer = {".gz": gzip.compress, ".zst": zstandard.compress}.get(Path(kind.name).suffix)
    for given_data in (data, *((packer(data),) if packer else ())):
        try:
            fuzz.read(kind, given_data, tmp_path)
        except UserError as error:
            fuzz.check_line(str(error))


# --- the text pipeline -------------------------------------------------------------------------------------------


@FEW
@given(st.text())
def test_words_joined_are_the_text(text: str) -> None:
    words = Words.of(text)
    assert words.text == text
    assert [text[begin:end] for begin, end in words.spans] == list(words.words)
    assert all(word for word in words.words)


@FEW
@given(st.text(min_size=1), st.data())
def test_an_exchanged_word_is_the_only_change(text: str, data: st.DataObject) -> None:
    words = Words.of(text)
    assume(words.words)
    index = data.draw(st.integers(0, len(words.words) - 1))
    other = data.draw(st.text(max_size=10))
    changed = words.exchanged(index, other)
    begin, end = words.spans[index]
    assert changed.text == text[:begin] + other + text[end:]
    assert words.exchanged(index, words.words[index]) == words
    shorter = words.without(index)
    assert len(text) - len(words.words[index]) - 1 <= len(shorter) <= len(text) - len(words.words[index])
    window = words.around(index, 3)
    assert words.words[index] in window
    assert window in text


@FEW
@given(TEXT, st.data())
def test_the_pieces_of_a_difference_are_both_texts(text: str, data: st.DataObject) -> None:
    words = Words.of(text)
    places = data.draw(st.sets(st.integers(0, max(0, len(words.words) - 1)), max_size=3)) if words.words else set()
    changes, changed = [], words
    for place in sorted(places):
        new = data.draw(st.text(st.characters(categories=["Lu", "Ll"]), min_size=1, max_size=5))
        changes.append((place, words.words[place], new))
        changed = changed.exchanged(place, new)
    cut = pieces(text, changed.text, changes)
    assert "".join(piece if isinstance(piece, str) else piece[0] for piece in cut) == text
    assert "".join(piece if isinstance(piece, str) else piece[1] for piece in cut) == changed.text


@FEW
@given(TEXT, TEXT)
def test_a_difference_without_words_is_whole_too(original: str, adversarial: str) -> None:
    assume(original != adversarial)
    cut = pieces(original, adversarial, [])
    assert "".join(piece if isinstance(piece, str) else piece[0] for piece in cut) == original
    assert "".join(piece if isinstance(piece, str) else piece[1] for piece in cut) == adversarial


EDITS: dict[str, Callable[[str, random.Random], str | None]] = {
    name: getattr(typing_errors, name)
    for name in ("insert_space", "delete_letter", "swap_letters", "homoglyph", "keyboard_typo", "change_case")
}
LONGER = {"insert_space": 1, "delete_letter": -1}


@pytest.mark.parametrize("name", EDITS)
@FEW
@given(word=st.text(st.characters(categories=["Lu", "Ll", "Nd"], max_codepoint=0x24F), max_size=12), seed=st.integers())
def test_a_character_edit_is_small_and_by_its_seed(name: str, word: str, seed: int) -> None:
    edited = EDITS[name](word, random.Random(seed))
    assert edited == EDITS[name](word, random.Random(seed))
    if edited is None:
        return
    assert edited != word or name == "keyboard_typo" or len(set(word)) < len(word)
    if name != "change_case":
        assert len(edited) == len(word) + LONGER.get(name, 0)
        assert edited[0] == word[0] or name == "homoglyph"
    if name == "swap_letters":
        assert sorted(edited) == sorted(word)
        assert edited[-1] == word[-1]
    if name == "insert_space":
        assert edited.replace(" ", "", 1) == word


@FEW
@given(TEXT, st.lists(TEXT, max_size=5))
def test_others_are_other_words_each_once(word: str, candidates: list[str]) -> None:
    found = others(word, candidates)
    assert len(found) <= len(candidates)
    assert set(found) <= {in_case_of(word, candidate) for candidate in candidates}


@FEW
@given(JSON)
@example({"a": "\x1b[31m\ud800\x9b2J"})
def test_what_is_shown_moves_no_cursor_and_can_be_encoded(value: Any) -> None:
    text = json.dumps(shown(value), ensure_ascii=False)
    text.encode()
    assert not any(ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0 for letter in text)
