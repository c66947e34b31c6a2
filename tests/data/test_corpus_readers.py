"""Every way a corpus can be written gives the same sentences, and every way it can be broken gives one line."""

import gzip
import io
import json
import os
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.data import untrusted_lines
from holdfast.data.corpus import read_corpus
from holdfast.errors import UserError

SENTENCES = [
    'He said "no.',
    "Two\u0085parts",
    "para\u2028graph",
    "a\x0bb\x1cc",
    "naïve café 🙂",
    "'quoted' \\n",
    "plain",
]
# Anything a line of a text file can hold: no line end, no NUL, nothing UTF-8 cannot write.
TEXT = st.text(st.characters(exclude_characters="\n\r\0\ufeff", exclude_categories=("Cs",)), max_size=60)
FIELD = st.text(st.characters(exclude_characters="\n\r\0\t\ufeff", exclude_categories=("Cs",)), max_size=40)


def write(path: Path, text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".zst":
        data = zstandard.compress(data)
    path.write_bytes(data)
    return str(path)


def error_of(source: str, **options: object) -> str:
    with pytest.raises(UserError) as caught:
        list(read_corpus(source, **options))  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    return message


def stripped(texts: list[str]) -> list[str]:
    return [text.strip() for text in texts if text.strip()]


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_format_gives_the_same_sentences(tmp_path: Path, packing: str, end: str) -> None:
    text = write(tmp_path / f"a.txt{packing}", "\ufeff" + end.join([*SENTENCES, "", "  \t"]) + end)
    table = write(
        tmp_path / f"a.tsv{packing}", end.join(["id\tsentence", *(f"{i}\t{s}" for i, s in enumerate(SENTENCES))]) + end
    )
    records = write(
        tmp_path / f"a.jsonl{packing}", end.join(json.dumps({"n": 1, "text": s}) for s in SENTENCES) + end + end
    )
    for source in (text, table, records):
        assert list(read_corpus(source)) == SENTENCES
    assert list(read_corpus(f"{text}, {table}")) == SENTENCES * 2


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": [1, 2, 3], "body": ["one", " ", "two\r\nlines"]}), path)
    assert list(read_corpus(str(path), column="body")) == ["one", "two lines"]
    assert "columns are: n, body" in error_of(str(path))
    assert "did you mean 'body'" in error_of(str(path), column="bodi")
    assert f"{path}: row 1: the column 'n' holds int, not text" in error_of(str(path), column="n")
    damaged = pa.StringArray.from_buffers(
        2, pa.py_buffer(np.array([0, 3, 6], dtype=np.int32)), pa.py_buffer(b"onetw\xff")
    )
    pq.write_table(pa.table({"text": damaged}), path)
    assert f"{path}: row 2: not valid UTF-8" in error_of(str(path))
    pq.write_table(pa.table({"text": ["one", None]}), path)
    assert f"{path}: row 2: the column 'text' is missing" in error_of(str(path))
    write(path, "PAR1 and then nothing of the kind")
    assert f"{path}: not a readable Parquet file" in error_of(str(path))


@given(texts=st.lists(TEXT, max_size=12), end=st.sampled_from(["\n", "\r\n"]), last=st.booleans())
@settings(deadline=None, max_examples=150)
def test_text_round_trips(texts: list[str], end: str, last: bool) -> None:
    raw = (end.join(texts) + (end if last else "")).encode()
    assert [line for _, line in untrusted_lines.numbered_lines(io.BytesIO(raw), "x", 100)][: len(texts)] == (
        texts if last or not texts or texts[-1] else texts[:-1]
    )


@given(rows=st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=12))
@settings(deadline=None, max_examples=150)
def test_tsv_round_trips(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.mktemp("tsv") / "a.tsv"
    source = write(path, "".join(f"{a}\t{b}\n" for a, b in [("other", "sentence"), *rows]))
    expected = stripped([b for _, b in rows])
    assert (list(read_corpus(source)) if expected else error_of(source)) == (
        expected or f"the corpus {source} holds no sentences: give at least one line of text"
    )


@given(texts=st.lists(TEXT, min_size=1, max_size=8))
@settings(deadline=None, max_examples=50)
def test_zstd_frames_and_bites(texts: list[str]) -> None:
    raw = "".join(text + "\n" for text in texts).encode()
    frames = b"".join(zstandard.compress(part) for part in (raw, b"", raw))
    reader = io.BufferedReader(untrusted_lines._ZstdReader(io.BytesIO(frames)))
    assert reader.read() == raw * 2


def test_column_choice(tmp_path: Path) -> None:
    only = write(tmp_path / "only.tsv", "whatever\none\n")
    assert list(read_corpus(only)) == ["one"]
    both = write(tmp_path / "both.tsv", "text\tsentence\nt\ts\n")
    assert list(read_corpus(both)) == ["s"]
    assert list(read_corpus(both, column="text")) == ["t"]
    neither = write(tmp_path / "neither.tsv", "a\tb\nt\ts\n")
    assert "--column; the columns are: a, b" in error_of(neither)
    assert "no column 'c'" in error_of(neither, column="c")
    plain = write(tmp_path / "plain.txt", "one\n")
    assert "drop --column" in error_of(plain, column="text")


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
def test_bytes_that_are_not_text(tmp_path: Path, packing: str) -> None:
    bad = write(tmp_path / f"a.txt{packing}", b"fine\nca\xfe now\n")
    message = error_of(bad)
    assert f"{bad}:2: byte 2 of the line (0xfe) is not valid UTF-8" in message
    assert "iconv" in message
    nul = write(tmp_path / f"b.txt{packing}", b"fine\nfine\nab\0c\n")
    assert f"{nul}:3: byte 2 of the line is NUL" in error_of(nul)


@pytest.mark.parametrize(
    ("head", "hint"),
    [
        (b"\x1f\x8b\x08", "ends in .gz"),
        (b"\x28\xb5\x2f\xfd", ".zst"),
        (b"PAR1", ".parquet"),
        (b"\xff\xfea\0", "UTF-16"),
    ],
)
def test_known_binaries_are_named(tmp_path: Path, head: bytes, hint: str) -> None:
    assert hint in error_of(write(tmp_path / "a.txt", head + b"rest\n"))


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
def test_over_long_line(tmp_path: Path, packing: str) -> None:
    path = write(tmp_path / f"a.txt{packing}", "short\n" + "é" * 20_000 + "\nshort\n")
    message = error_of(path)
    assert f"{path}:2: the line is 20,000 characters long, over the limit of 10,000" in message
    assert message.endswith("or raise --max-chars")
    longest = error_of(
        write(tmp_path / f"c.txt{packing}", "a" * (untrusted_lines.MAX_ROW_CHARS + 1)),
        max_chars=untrusted_lines.MAX_ROW_CHARS,
    )
    assert longest.endswith("put one sentence on a line")  # attack and audit, which read such lines, have no option
    assert len(list(read_corpus(path, max_chars=20_000))) == 3
    endless = write(tmp_path / f"b.txt{packing}", "é" * 300_000)
    assert f"{endless}:1: the line is 300,000 characters long" in error_of(endless)
    table = write(tmp_path / f"a.tsv{packing}", "id\ttext\n1\t" + "x" * 11_000 + "\n")
    assert f"{table}:2: the line is 11,000 characters" in error_of(table)
    record = write(tmp_path / f"a.jsonl{packing}", json.dumps({"text": "x" * 11_000}) + "\n")
    assert f"{record}:1: the line is 11,000 characters" in error_of(record)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst"])
@pytest.mark.parametrize("harm", ["cut", "flip", "not at all"])
def test_damaged_compression(tmp_path: Path, name: str, harm: str) -> None:
    path = tmp_path / name
    write(path, "".join(f"sentence number {i * i}\n" for i in range(5000)))
    raw = bytearray(path.read_bytes())
    if harm == "cut":
        raw = raw[: len(raw) // 2]
    elif harm == "flip":
        raw[len(raw) // 2] ^= 0x55
        raw[len(raw) // 2 + 1] ^= 0x55
    else:
        raw = bytearray(b"plain text\n")
    path.write_bytes(raw)
    message = error_of(str(path))
    assert f"{path}:" in message
    assert "damaged" in message or "UTF-8" in message or "NUL" in message


def test_tsv_rows_of_the_wrong_width(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "id\tsentence\n1\tone\n\n2\ttwo\tthree\n")
    assert f"{path}:4: the row has 3 fields, the header has 2" in error_of(path)
    path = write(tmp_path / "b.tsv", "id\tsentence\nalone\n")
    assert f"{path}:2: the row has 1 field, the header has 2" in error_of(path)
    path = write(tmp_path / "c.tsv", "\nalone\n")
    assert f"{path}:1: the first line is empty" in error_of(path)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{not json}", "not valid JSON (Expecting property name"),
        ("[" * 100_000, "not valid JSON"),
        ('["a"]', "a JSON list, not an object"),
        ('{"other": "a"}', "the column 'text' is missing"),
        ('{"text": null}', "the column 'text' is missing"),
        ('{"text": 3}', "the column 'text' holds int, not text"),
        ('{"text": "\\ud800"}', "half a surrogate pair"),
    ],
)
def test_broken_json_lines(tmp_path: Path, line: str, expected: str) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "fine"}\n' + line + "\n")
    message = error_of(path)
    assert f"{path}:2: " in message
    assert expected in message


def test_missing_folder_and_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    write(tmp_path / "sentences.txt", "one\n")
    message = error_of(str(tmp_path / "sentnces.txt"))
    assert "does not exist (did you mean 'sentences.txt'?)" in message
    assert "neither does its folder" in error_of(str(tmp_path / "no" / "such.txt"))
    assert "is a folder" in error_of(str(tmp_path))
    assert "no file matches" in error_of(str(tmp_path / "*.nothing"))
    assert "quotes in a text can break the rows" in error_of(write(tmp_path / "a.csv", "a,b\n"))
    for name, why in (("a.csv.gz", "quotes in a text can break the rows"), ("a.json.gz", "give .jsonl")):
        (tmp_path / name).write_bytes(gzip.compress(b"a,b\n"))
        assert why in error_of(str(tmp_path / name))
    assert "empty part" in error_of(f"{tmp_path / 'sentences.txt'},")
    assert "did you mean 'wiki'" in error_of("wikki")
    for text in ("", "\n \n\t\n"):
        assert "holds no sentences" in error_of(write(tmp_path / "empty.txt", text))
    assert "holds no sentences" in error_of(write(tmp_path / "empty.tsv", "sentence\n"))
    (tmp_path / "shut.txt").symlink_to(tmp_path / "gone")
    assert "does not exist" in error_of(str(tmp_path / "shut.txt"))
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "nowhere"))
    assert "HOLDFAST_DATA" in error_of("wiki")


def test_what_is_named_wrongly_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        read_corpus(str(tmp_path / "none.txt"))


def test_names_globs_and_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "unlabelled").mkdir()
    for part in ("01", "00"):
        write(tmp_path / "unlabelled" / f"wiki_train_{part}.tsv.gz", f"sentence\npart {part}\n")
    for source in ("wiki", "unlabelled/wiki_train_*.tsv.gz", str(tmp_path / "unlabelled" / "*")):
        assert list(read_corpus(source, data=tmp_path)) == ["part 00", "part 01"]
    comma = write(tmp_path / "a,b.txt", "one\n")
    assert list(read_corpus(comma)) == ["one"]
    assert "give --data" in error_of("wiki-dev", data=tmp_path)
    (tmp_path / "other").mkdir()  # what a named folder lacks is not downloaded
    assert "or leave out both for hf:princeton-nlp/" in error_of("wiki", data=tmp_path / "other")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        closed = False
        buffer = io.BytesIO(b"one\n\ntw\xc3\xb6\n")

    monkeypatch.setattr("sys.stdin", Stdin)
    assert list(read_corpus("-")) == ["one", "twö"]
    Stdin.buffer = io.BytesIO(b"one\n\xff\n")
    assert "standard input:2: byte 0" in error_of("-")
    assert "only once" in error_of("-,-")


def test_reading_never_runs_ahead(tmp_path: Path) -> None:
    """The writer of a pipe is still waiting to write the rest when the first sentences come out."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    may_go_on = threading.Event()

    def feed() -> None:
        with path.open("wb", buffering=0) as pipe:
            pipe.write(b"first\n" + b"x" * 10 + b"\n" * 70_000)
            may_go_on.wait(10)
            pipe.write(b"last\n")

    writer = threading.Thread(target=feed)
    writer.start()
    sentences = read_corpus(str(path))
    assert next(sentences) == "first"
    assert not may_go_on.is_set()
    may_go_on.set()
    assert list(sentences)[-1] == "last"
    writer.join()


def test_an_endless_line_is_not_read_into_memory() -> None:
    class Endless(io.RawIOBase):
        largest = 0

        def readable(self) -> bool:
            return True

        def readline(self, size: int | None = -1) -> bytes:  # type: ignore[override]
            assert size is not None
            Endless.largest = max(Endless.largest, size)
            return b"x" * size

    with pytest.raises(UserError, match="more than 67,108,864 characters"):
        list(untrusted_lines.numbered_lines(Endless(), "x", 1000))  # type: ignore[arg-type]
    assert Endless.largest <= 1 << 16
