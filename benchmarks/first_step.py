"""The time to the first step on a long corpus, the memory it takes, and the longest silence until then.

A corpus of random words is written, and a verb that trains is started on it as a user starts it, with its output in a
pipe. The corpus is read from its file the first time and from its spooled copy the second time.

    python benchmarks/first_step.py [--sentences 5000000] [--verb train|harden] [--model bundled-mlm] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from claims import Claim, save
from corpus_memory import write

MOST_SILENT = 5.0


def words_of(verb: str, model: str, corpus: Path, output: Path) -> list[str]:
    """The command, for two steps."""
    given = ["--corpus", str(corpus), "--output", str(output), "--max-steps", "2"]
    if verb == "harden":
        return ["harden", model, *given, "--no-audit"]
    return ["train", "simcse", "--model", model, *given, "--no-report-sts", "--selection", "last"]


def measure(words: list[str], cache: Path) -> dict[str, float]:
    """Run it; seconds to the first line and the first step, the longest silence, and the peak of its memory in MiB."""
    began = last = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOLDFAST_CACHE": str(cache)},
    )
    assert process.stderr is not None
    silence, found, line = 0.0, {}, ""
    for line in process.stderr:
        now = time.monotonic()
        silence, last = max(silence, now - last), now
        found.setdefault("first_line_s", now - began)
        if line.startswith("training: 1/"):
            found.setdefault("first_step_s", now - began)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"it ended with exit code {process.returncode}: {line.rstrip()}")
    return {**found, "silence_s": silence, "peak_mib": usage.ru_maxrss / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=5_000_000)
    parser.add_argument("--verb", choices=("train", "harden"), default="train")
    parser.add_argument("--model", default="bundled-mlm")
    parser.add_argument("--folder", type=Path, help="where the corpus and its copy are made [default: a temporary one]")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    rows = []
    print("| corpus | first line, s | first step, s | longest silence, s | peak MiB |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        write(folder / "corpus.txt", options.sentences, seed=1)
        for number, state in enumerate(("read", "spooled before")):
            words = words_of(options.verb, options.model, folder / "corpus.txt", folder / f"out-{number}")
            row = measure(words, folder / "cache")
            rows.append({**row, "corpus": state})
            figures = " | ".join(f"{row[key]:.1f}" for key in ("first_line_s", "first_step_s", "silence_s"))
            print(f"| {state} | {figures} | {row['peak_mib']:.0f} |", flush=True)
    if options.json:
        silences = [row["silence_s"] for row in rows]
        claim = Claim(f"{options.verb}: longest silence", silences, at_most=MOST_SILENT, unit="s")
        save(options.json, [claim], rows=rows)


if __name__ == "__main__":
    main()
