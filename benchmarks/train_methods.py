"""Train every method alike on real sentences, several seeds each, and tell what it brought and what it cost.

Each arm is one `holdfast train` from the same model and corpus, selected on STS-B dev, and one `holdfast evaluate` of
what it exported. A finished arm is not made again and a killed one is resumed, so the command can be given until the
table is full.

    python benchmarks/train_methods.py --model DIR --corpus FILE --data DIR --output DIR [--arms simcse] [--seeds 1,2]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# What an arm adds to `holdfast train`. The first word is the method; batch size and learning rate are the method's own.
ARMS: dict[str, list[str]] = {
    "simcse": ["simcse"],
    "simcse-bn": ["simcse", "--set", "head=bn"],
    "consert": ["consert"],
    "ct": ["ct"],
    "v-advcse": ["v-advcse"],
    "robustembed": ["robustembed"],
    "uscal": ["robustembed", "--preset", "uscal"],
    "atcl": ["robustembed", "--preset", "atcl"],
    "adcl": ["adcl"],
    "adcse": ["adcse"],
    "adcse-paper": ["adcse", "--preset", "paper"],
    "l2p-csr": ["l2p-csr"],
    # Choices that the papers leave open, settled on STS-B dev.
    "v-advcse-0.1": ["v-advcse", "--set", "regularisation=0.1"],
    "v-advcse-1": ["v-advcse", "--set", "regularisation=1"],
    "v-advcse-3": ["v-advcse", "--set", "regularisation=3"],
    "robustembed-dropout": ["robustembed", "--set", "attack_dropout=true"],
    "robustembed-fp32": ["robustembed", "--precision", "fp32"],
    "combined": ["combined", "--set", "keys=momentum", "--set", "negatives=batch+queue+adversaries"],
}
EVALUATIONS = 8
"""Evaluations on STS-B dev in a run: every 50 steps of a run of 400."""


def batch_size(method: str) -> int:
    from holdfast.objectives import METHODS

    return int(METHODS[method].TRAINING["batch_size"])


def holdfast(arguments: list[str], log: Path) -> tuple[int, list[int], float]:
    """Run a command of holdfast.

    Returns:
        The peak of its resident memory in MiB; every ten seconds what of it is the process's own, without the pages
        of the mapped corpus, which come and go as rows are read; and its CPU seconds: what it cost, where the wall
        time says as much about what else the machine was doing.
    """
    samples = []
    with log.open("a", encoding="utf-8") as file:
        child = subprocess.Popen([sys.executable, "-m", "holdfast", *arguments], stdout=file, stderr=file)
        statm = Path(f"/proc/{child.pid}/statm")
        pid = 0
        while not pid:
            for _ in range(10):
                time.sleep(1)
                pid, status, usage = os.wait4(child.pid, os.WNOHANG)
                if pid:
                    break
            else:
                _, resident, mapped, *_ = map(int, statm.read_text().split())
                samples.append((resident - mapped) * os.sysconf("SC_PAGE_SIZE") >> 20)
    if status:
        sys.exit(f"holdfast {' '.join(arguments)} failed; see {log}")
    return usage.ru_maxrss // 1024, samples, usage.ru_utime + usage.ru_stime


def growth(samples: list[int]) -> int | None:
    """MiB between the medians of the second and the last quarter of a run; the first quarter warms up."""
    quarter = len(samples) // 4
    if quarter < 3:
        return None
    return int(statistics.median(samples[-quarter:]) - statistics.median(samples[quarter : 2 * quarter]))


def train(arm: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """One arm with one seed: trained, evaluated, and told in a JSON file of its own."""
    method, *rest = ARMS[arm]
    told = options.output / f"{arm}-{seed}.json"
    if told.exists():
        return dict(json.loads(told.read_text(encoding="utf-8")))
    folder, log = options.output / f"{arm}-{seed}", options.output / f"{arm}-{seed}.log"
    size = batch_size(method)
    steps = -(-options.sentences // size)
    every = max(1, steps // EVALUATIONS)
    words = ["train", method, *rest, "--model", options.model, "--corpus", options.corpus, "--data", str(options.data)]
    words += ["--output", str(folder), "--max-steps", str(steps), "--eval-steps", str(every), "--seed", str(seed)]
    words += ["--save-steps", str(every)]  # so that a killed arm goes on from its last evaluation
    began = time.monotonic()
    peak, samples, cpu_seconds = holdfast([*words, "--no-report-sts", "--resume"], log)
    print(f"{arm} seed {seed}: trained in {time.monotonic() - began:.0f} s, peak {peak} MiB", flush=True)
    evaluated = options.output / f"{arm}-{seed}-sts.json"
    holdfast(
        ["evaluate", str(folder), "--tasks", "sts,space", "--data", str(options.data), "--output", str(evaluated)], log
    )
    result = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    rows = {row["task"]: row["metrics"] for row in json.loads(evaluated.read_text(encoding="utf-8"))["results"]}
    space = rows.pop("space")
    record = {
        "arm": arm,
        "seed": seed,
        "command": result["command"],
        "steps": steps,
        "batch_size": size,
        "dev": result["selected"].get("score"),
        "kept_step": result["selected"].get("step"),
        "sts": {task: metrics["spearman"] for task, metrics in rows.items()},
        "average": statistics.mean(metrics["spearman"] for metrics in rows.values()),
        **space,
        "train_seconds": result["timing"]["train_seconds"],
        "cpu_seconds": cpu_seconds,
        "peak_mib": peak,
        "growth_mib": growth(samples),
    }
    told.write_text(json.dumps(record, indent=2), encoding="utf-8")
    return record


def line(arm: str, records: list[dict[str, Any]]) -> str:
    def mean(key: str, digits: int) -> str:
        values = [record[key] for record in records]
        spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
        return f"{statistics.mean(values):.{digits}f}{spread}"

    seeds = "/".join(str(record["seed"]) for record in records)
    cells = [arm, seeds, mean("dev", 2), mean("average", 2), mean("alignment", 3), mean("uniformity", 3)]
    grown = [record["growth_mib"] for record in records if record["growth_mib"] is not None]
    memory = [str(max(record["peak_mib"] for record in records)), f"{max(grown):+d}" if grown else ""]
    return "| " + " | ".join([*cells, mean("train_seconds", 0), *memory]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--sentences", type=int, default=25_600)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    arms = options.arms.split(",")
    if unknown := [arm for arm in arms if arm not in ARMS]:
        sys.exit(f"no such arm: {unknown[0]}; arms: {', '.join(ARMS)}")
    records: dict[str, list[dict[str, Any]]] = {arm: [] for arm in arms}
    for seed in map(int, options.seeds.split(",")):
        for arm in arms:
            records[arm].append(train(arm, seed, options))
    print("| arm | seeds | STS-B dev | STS average | alignment | uniformity | training, s | peak MiB | growth MiB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for arm in arms:
        print(line(arm, records[arm]))


if __name__ == "__main__":
    main()
