"""A fixed list of commands whose weights and metrics a change of names or structure must not touch.

    python tests/same_results.py --output before.json        # at the first commit
    python tests/same_results.py --against before.json       # at the last one, on the same machine

Each command runs in a process of its own, on one thread and in fp32, on sentences of this Python's documentation. The
first differing value of each command is printed, and the exit code is 1 where there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

METHODS = ("simcse", "robustembed", "adcl", "adcse", "l2p-csr")
_UNSTABLE = {"created", "timing", "command", "content_sha256", "environment", "version", "device", "seconds", "model"}


def commands(data: Path | None) -> dict[str, list[str]]:
    """Return the words of each command, and the file or folder it writes as ``{name: words}``, in the order of need."""
    trained = ["--corpus", "corpus.txt", "--model", "bundled-mlm", "--max-steps", "20", "--batch-size", "16"]
    trained += ["--no-report-sts", "--selection", "last", "--precision", "fp32"]
    texts = ["--texts", "texts.txt", "--resources", "light"]
    sets = [] if data is None else ["--data", str(data)]
    every = {method: ["train", method, *trained, "--output", method] for method in METHODS}
    every["harden"] = [
        *("harden", "simcse", "--corpus", "corpus.txt", "--max-steps", "10", "--batch-size", "16"),
        *("--examples", "4", "--precision", "fp32", "--output", "harden"),
    ]
    every["attack"] = ["attack", "simcse", *texts, "--recipes", "typos,bertattack", "--output", "attack.json"]
    every["audit"] = ["audit", "simcse", *texts, "--examples", "6", "--output", "audit.json"]
    every["space"] = [
        "space",
        "simcse",
        "--attacked",
        "attack.json",
        "--outcome",
        "all",
        "--no-stsb",
        "--output",
        "space.json",
    ]
    if data is not None:
        every["evaluate"] = ["evaluate", "simcse", "--tasks", "stsb,sickr,mr", *sets, "--output", "evaluate.json"]
        every["reproduce"] = [
            *(
                "reproduce",
                "adcse/table1",
                "--only",
                "SimCSE",
                "--scale",
                "smoke",
                "--model",
                "bundled-mlm",
                "--corpus",
                "corpus.txt",
                *sets,
            ),
            *("--resources", "light", "--output", "reproduce"),
        ]
    return every


def run(folder: Path, data: Path | None, only: str | None) -> dict[str, Any]:
    """Run them all in a folder, and return what each made: ``{name: {file: content}}``."""
    from holdfast.data.python_prose import load_python_prose

    sentences = list(load_python_prose())
    (folder / "corpus.txt").write_text("\n".join(sentences[:640]) + "\n", encoding="utf-8")
    (folder / "texts.txt").write_text("\n".join(sentences[640:660]) + "\n", encoding="utf-8")
    made = {}
    for name, words in commands(data).items():
        if only is not None and name not in (only, "simcse"):
            continue
        print(f"{name}: holdfast {' '.join(words)}", flush=True)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HOLDFAST_CACHE": str(folder / "cache")}
        environment.pop("HOLDFAST_DATA", None)
        command = [sys.executable, "-m", "holdfast", *words]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name} ended with exit code {done.returncode}: {done.stderr[-2000:]}")
        made[name] = dict(_made(folder, words[words.index("--output") + 1]))
    return made


def _made(folder: Path, output: str) -> Iterator[tuple[str, Any]]:
    """The hashes and the results of a file, or of all files of a folder that are not its cache."""
    from holdfast.files import sha256

    place = folder / output
    for path in [place] if place.is_file() else sorted(place.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".safetensors" and "checkpoint" not in name:
            yield name, sha256(path)
        elif path.suffix == ".json" and "results" in (value := json.loads(path.read_text(encoding="utf-8"))):
            yield name, _stable({key: value.get(key) for key in ("results", "examples", "selected", "model_sha256")})


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stable(held) for key, held in value.items() if key not in _UNSTABLE}
    return [_stable(held) for held in value] if isinstance(value, list) else value


def differences(before: Any, now: Any, place: str = "") -> Iterator[str]:
    """Yield a line for each value that is not the same."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now}):
            yield from differences(before.get(key), now.get(key), f"{place}/{key}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from differences(old, new, f"{place}/{number}")
    elif before != now:
        yield f"{place}: {str(before)[:100]} before, {str(now)[:100]} now"


def main() -> int:
    """Return 0 where nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="write what was made to this file")
    parser.add_argument("--against", type=Path, help="compare with such a file")
    parser.add_argument("--only", help="one command alone, with what it needs")
    given = parser.parse_args()
    data = Path(os.environ["HOLDFAST_DATA"]).absolute() if os.environ.get("HOLDFAST_DATA") else None
    with tempfile.TemporaryDirectory(prefix="holdfast-same-") as folder:
        made = run(Path(folder), data, given.only)
    if given.output is not None:
        given.output.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    if given.against is None:
        return 0
    before = json.loads(given.against.read_text(encoding="utf-8"))
    found = list(differences({name: before.get(name) for name in made}, made))
    print("\n".join([*found[:20], f"{len(found)} values differ in {len(made)} commands"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
