"""The memory that reading a corpus takes, however long it is.

A corpus of random words is written for each size, spooled as `holdfast train` spools it (one validating pass into a
memory-mapped file), and read in the order of an epoch of training, batch by batch; each size in a process of its own,
whose peaks are told: of its resident memory, and of what of it is the process's own, without the pages of the mapped
file, which the system takes back as it needs them. The order of an epoch is a permutation of all row numbers: that
alone grows with the corpus.

    python benchmarks/corpus_memory.py [--sizes 100000,1000000,10000000] [--batches 20000] [--json FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from claims import Claim, save

WORDS = 20_000
MIB = 1 << 20


def write(path: Path, sentences: int, seed: int) -> None:
    """Sentences of 5 to 30 of 20,000 made-up words; equal sizes give equal files."""
    draw = np.random.default_rng(seed)
    words = ["".join(chr(97 + letter) for letter in draw.integers(0, 26, draw.integers(2, 11))) for _ in range(WORDS)]
    with path.open("w", encoding="utf-8", buffering=MIB) as file:
        for start in range(0, sentences, 10_000):
            lengths = draw.integers(5, 31, min(10_000, sentences - start))
            numbers = iter(draw.integers(0, WORDS, int(lengths.sum())).tolist())
            for length in lengths.tolist():
                file.write(" ".join(words[number] for number in itertools.islice(numbers, length)) + "\n")


class Peak(threading.Thread):
    """Looks ten times a second at what this process holds: all, and without mapped files, in MiB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.resident = self.own = 0.0

    def look(self) -> None:
        fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        self.resident = max(self.resident, int(fields["VmRSS"].split()[0]) / 1024)
        self.own = max(self.own, int(fields["RssAnon"].split()[0]) / 1024)

    def run(self) -> None:
        while True:
            self.look()
            time.sleep(0.1)

    def restart(self) -> None:
        self.resident = self.own = 0.0
        self.look()


def measure(path: Path, folder: Path, batches: int) -> dict[str, float]:
    """In a process of its own: spool, then read ``batches`` batches of 64 in an epoch's order."""
    from holdfast.data.corpus import spool_corpus
    from holdfast.training.sampling import epoch_batches

    peak = Peak()
    peak.look()
    told = {"imports": peak.own}
    peak.start()
    began = time.perf_counter()
    corpus = spool_corpus(str(path), folder=folder)
    told |= {"spool_s": time.perf_counter() - began, "spool_resident": peak.resident, "spool_own": peak.own}
    peak.restart()
    began = time.perf_counter()
    for number, rows in enumerate(epoch_batches(corpus.sentences, 64, seed=1)):
        if number == batches:
            break
        texts = corpus.dataset[rows]["sentence"]
    assert len(texts) == 64
    told |= {"read_s": time.perf_counter() - began, "read_resident": peak.resident, "read_own": peak.own}
    return {**told, "sentences": corpus.sentences}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100000,1000000,10000000")
    parser.add_argument(
        "--batches", type=int, default=20_000, help="of 64 sentences, that are read in an epoch's order"
    )
    parser.add_argument("--folder", type=Path, help="where the corpus and its copy are made [default: a temporary one]")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.folder, options.batches)))
        return
    rows = []
    print("| sentences | MB | spooling, s | peak MiB | own | reading, s | peak MiB | own |")
    print("|---|---|---|---|---|---|---|---|")
    for size in map(int, options.sizes.split(",")):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            corpus = Path(folder) / "corpus.txt"
            write(corpus, size, seed=1)
            command = [sys.executable, __file__, "--measure", str(corpus), "--folder", folder]
            done = subprocess.run(
                [*command, "--batches", str(options.batches)], stdout=subprocess.PIPE, text=True, check=True
            )
            row = {**json.loads(done.stdout.splitlines()[-1]), "bytes": corpus.stat().st_size}
        rows.append(row)
        print(
            f"| {size:,} | {row['bytes'] / 1e6:.0f} | {row['spool_s']:.0f} | {row['spool_resident']:.0f} "
            f"| {row['spool_own']:.0f} | {row['read_s']:.0f} | {row['read_resident']:.0f} | {row['read_own']:.0f} |",
            flush=True,
        )
    if options.json:
        first, last = rows[0], rows[-1]
        order = last["sentences"] * 8 / MIB
        claims = [
            Claim(
                "corpus: own memory while spooling, largest corpus − smallest",
                [last["spool_own"] - first["spool_own"]],
                at_most=64.0,
                unit="MiB",
            ),
            Claim(
                "corpus: own memory while reading, largest corpus − smallest",
                [last["read_own"] - first["read_own"]],
                at_most=64.0 + order,
                unit="MiB",
                floor=f"{order:.0f} MiB are the row numbers of an epoch's order",
            ),
        ]
        save(options.json, claims, rows=rows)


if __name__ == "__main__":
    main()
