"""The file of an endpoint's answers: damage, half-written lines and several writers."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np

from holdfast.endpoint_cache import EndpointCache

VECTORS = np.arange(12, dtype=np.float32).reshape(3, 4)


def cache(folder: Path) -> EndpointCache:
    return EndpointCache(folder, "https://h/v1", "m")


def test_vectors_are_kept_by_text(tmp_path: Path) -> None:
    cache(tmp_path / "new").add(["a", "b", "\ud800"], VECTORS)
    found = cache(tmp_path / "new").known(["b", "none", "\ud800"])
    assert {text: vector.tolist() for text, vector in found.items()} == {
        "b": VECTORS[1].tolist(),
        "\ud800": VECTORS[2].tolist(),
    }
    assert EndpointCache(tmp_path / "new", "https://h/v1", "n").known(["a"]) == {}
    (file,) = (tmp_path / "new").glob("*")
    assert file.read_bytes().startswith(b"# https://h/v1 m\n")
    assert file.stat().st_mode & 0o77 == 0, "for the owner only"


def test_a_damaged_line_is_left_out(tmp_path: Path) -> None:
    own = cache(tmp_path)
    own.add(["a", "b", "c"], VECTORS)
    lines = own.path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2][:80] + (b"B" if lines[2][80:81] == b"A" else b"A") + lines[2][81:]
    own.path.write_bytes(b"".join(lines))
    assert list(cache(tmp_path).known(["a", "b", "c"])) == ["a", "c"]


def test_a_line_that_is_being_written_is_read_when_it_is_complete(tmp_path: Path) -> None:
    writer, reader = cache(tmp_path / "w"), cache(tmp_path)
    writer.add(["a", "b"], VECTORS[:2])
    content = writer.path.read_bytes()
    reader.path.write_bytes(content[:-20])
    assert list(reader.known(["a", "b"])) == ["a"]
    reader.path.write_bytes(content)
    assert list(reader.known(["a", "b"])) == ["a", "b"]


def test_a_line_that_a_killed_process_left_is_ended_by_the_next_writer(tmp_path: Path) -> None:
    own = cache(tmp_path)
    own.add(["a", "b"], VECTORS[:2])
    own.path.write_bytes(own.path.read_bytes()[:-5])
    own.add(["c"], VECTORS[2:])
    assert list(cache(tmp_path).known(["a", "b", "c"])) == ["a", "c"]


def test_a_writer_waits_for_another(tmp_path: Path) -> None:
    own = cache(tmp_path)
    own.add(["a"], VECTORS[:1])
    with own.path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        thread = threading.Thread(target=own.add, args=(["b"], VECTORS[1:2]))
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
    thread.join(60)
    assert list(own.known(["a", "b"])) == ["a", "b"]


def test_lines_of_several_processes_are_not_mixed(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; import numpy as np; from holdfast.endpoint_cache import EndpointCache\n"
        "cache = EndpointCache(Path(sys.argv[1]), 'https://h/v1', 'm')\n"
        "for n in range(60): cache.add([f'{sys.argv[2]} {n}'], np.full((1, 3000), float(n), np.float32))"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "ab"]
    assert [process.wait(timeout=300) for process in running] == [0, 0]
    texts = [f"{name} {number}" for name in "ab" for number in range(60)]
    found = cache(tmp_path).known(texts)
    assert {text: float(vector[0]) for text, vector in found.items()} == {t: float(t.split()[1]) for t in texts}


def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    reader, writer = cache(tmp_path), cache(tmp_path)
    writer.add(["a", "b"], VECTORS[:2])
    assert list(reader.known(["a", "b"])) == ["a", "b"]
    reader.path.unlink()
    assert reader.known(["a"]) == {}
    cache(tmp_path).add(["b", "a", "c"], VECTORS)
    found = reader.known(["a", "b"])
    assert (found["a"].tolist(), found["b"].tolist()) == (VECTORS[1].tolist(), VECTORS[0].tolist())
