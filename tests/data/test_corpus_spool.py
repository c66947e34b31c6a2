"""Spooling: one checked pass, a memory map, nothing read twice and nothing half-written."""

import errno
import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.data.corpus import shuffled, spool_corpus
from holdfast.errors import UserError

SENTENCES = [f"Sentence {i} says 'naïve' \u0085 things." for i in range(2500)]
DIGEST = hashlib.sha256("\n".join(SENTENCES).encode()).hexdigest()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text("\n".join(SENTENCES) + "\n\n \n", encoding="utf-8")
    return path


def test_spooled_corpus(corpus: Path, tmp_path: Path) -> None:
    seen: list[int] = []
    spooled = spool_corpus(str(corpus), folder=tmp_path / "cache", at_least=64, progress=seen.append)
    assert spooled.dataset["sentence"][:] == SENTENCES
    assert (spooled.sentences, spooled.sha256, spooled.skipped_blank) == (2500, DIGEST, 2)
    assert spooled.source == str(corpus)
    assert seen == [1000, 2000, 2500]
    assert spooled.dataset.cache_files[0]["filename"] == str(tmp_path / "cache" / f"{DIGEST}.arrow")


def test_hash_is_of_the_sentences_not_of_the_file(tmp_path: Path) -> None:
    table, records = tmp_path / "a.tsv", tmp_path / "a.jsonl"
    table.write_text("sentence\n" + "\n".join(SENTENCES), encoding="utf-8", newline="\n")
    records.write_text("\n".join(json.dumps({"text": s}) for s in SENTENCES))
    for path in (table, records):
        assert spool_corpus(str(path), folder=tmp_path / "cache").sha256 == DIGEST
    assert len(list((tmp_path / "cache").glob("*.arrow"))) == 1


def test_a_file_is_read_as_the_name_of_its_link_says(tmp_path: Path) -> None:
    (tmp_path / "t.data").write_text("sentence\ttopic\na dog runs\tdogs\na cat sleeps\tcats\n")
    for name in ("t.txt", "t.tsv"):
        (tmp_path / name).symlink_to("t.data")
    found = [spool_corpus(str(tmp_path / name), folder=tmp_path / "cache").sentences for name in ("t.txt", "t.tsv")]
    assert found == [3, 2]


def test_unchanged_corpus_is_not_read_again(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    first = spool_corpus(str(corpus), folder=folder)

    def refuse(*args: object) -> None:
        raise AssertionError("read again")

    with monkeypatch.context() as patch:
        patch.setattr("holdfast.data.corpus.read_records", refuse)
        again = spool_corpus(str(corpus), folder=folder)
        assert (again.sentences, again.sha256, again.skipped_blank) == (first.sentences, first.sha256, 2)
        with pytest.raises(UserError, match="fewer than one batch of 5,000"):
            spool_corpus(str(corpus), folder=folder, at_least=5000)
        with pytest.raises(AssertionError):
            spool_corpus(str(corpus), folder=folder, max_chars=500)
    corpus.write_text("Another sentence.\n")
    assert spool_corpus(str(corpus), folder=folder).sentences == 1


@pytest.mark.parametrize("harm", ["flip", "cut", "gone", "memo", "memo shape"])
def test_damaged_cache_is_rebuilt(corpus: Path, tmp_path: Path, harm: str) -> None:
    folder = tmp_path / "cache"
    spool_corpus(str(corpus), folder=folder)
    arrow, memo = folder / f"{DIGEST}.arrow", next(folder.glob("*.json"))
    raw = bytearray(arrow.read_bytes())
    if harm == "flip":
        raw[len(raw) // 2] ^= 1
        arrow.write_bytes(raw)
    elif harm == "cut":
        arrow.write_bytes(raw[:1000])
    elif harm == "gone":
        arrow.unlink()
    else:
        memo.write_text("{" if harm == "memo" else "[]")
    again = spool_corpus(str(corpus), folder=folder)
    assert again.dataset["sentence"][:] == SENTENCES
    assert json.loads(memo.read_text())["sha256"] == DIGEST


def test_too_few_sentences_leave_nothing_behind(tmp_path: Path) -> None:
    path, folder = tmp_path / "a.txt", tmp_path / "cache"
    path.write_text("one\n" * 12)
    with pytest.raises(UserError, match=r"a\.txt holds 12 sentences, fewer than one batch of 64: "):
        spool_corpus(str(path), folder=folder, at_least=64)
    path.write_text("\n")
    with pytest.raises(UserError, match="holds no sentences"):
        spool_corpus(str(path), folder=folder)
    path.write_bytes(b"one\n\xff\n")
    with pytest.raises(UserError, match=r"a\.txt:2: "):
        spool_corpus(str(path), folder=folder)
    assert list(folder.iterdir()) == []


def test_full_disk(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="no space left on the disk while writing"):
        spool_corpus(str(corpus), folder=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_write_that_fails_half_way(corpus: Path, tmp_path: Path) -> None:
    """A real failure of a real write, in a process that may only write small files."""
    script = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "import datasets, pyarrow\n"
        "from holdfast.data.corpus import spool_corpus\n"
        "from holdfast.errors import UserError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "try:\n    spool_corpus(sys.argv[1], folder=Path(sys.argv[2]))\n"
        "except UserError as error:\n    print(error)\n"
    )
    folder = tmp_path / "cache"
    run = subprocess.run(
        [sys.executable, "-c", script, str(corpus), str(folder)], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("cannot write "), run
    assert list(folder.iterdir()) == []


def test_folder_that_cannot_be_made(corpus: Path) -> None:
    with pytest.raises(UserError, match="cannot write"):
        spool_corpus(str(corpus), folder=corpus / "cache")


def test_default_folder(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "mine"))
    spool_corpus(str(corpus))
    assert (tmp_path / "mine" / "corpora" / f"{DIGEST}.arrow").is_file()


def test_pipes_are_spooled_and_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        closed = False
        buffer = io.BytesIO(b"one\ntwo\n")

    monkeypatch.setattr("sys.stdin", Stdin)
    assert spool_corpus("-", folder=tmp_path).sentences == 2
    assert not list(tmp_path.glob("*.json"))


def test_shuffle_is_a_permutation_that_the_seed_decides(corpus: Path, tmp_path: Path) -> None:
    spooled = spool_corpus(str(corpus), folder=tmp_path / "cache")
    order = list(shuffled(spooled, seed=1))
    assert sorted(order) == sorted(SENTENCES)
    assert order != SENTENCES
    assert order == list(shuffled(spooled, seed=1))
    assert order != list(shuffled(spooled, seed=2))
    # Pinned: a resumed run in a year must draw the same order.
    assert order[:3] == [SENTENCES[i] for i in (659, 967, 671)]
