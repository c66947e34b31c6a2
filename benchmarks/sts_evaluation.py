"""The seven STS test sets, by our evaluation against what users write with sentence-transformers.

Theirs: per task ``model.encode(first sentences)``, ``model.encode(second sentences)`` at its defaults, the cosine of
each pair, Spearman. Ours: `holdfast.evaluation.sts.evaluate_sts`, which encodes each distinct sentence of all the tasks
once, in fp32 and in bf16. Data is read outside of the times. All ways are interleaved; the ratio of each round is
taken, and the median printed, with the largest difference of a score to theirs.

    python benchmarks/sts_evaluation.py --model MODEL --data DIR [--rounds 3] [--limit PAIRS] [--json FILE]

Of the time, seconds of this process's CPU are compared as well: other work on the machine does not count into them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from claims import Claim, machine, save
from holdfast.evaluation.sts import STS_TASKS, StsTask, load_sts
from holdfast.evaluation.task_sample import sample_pairs
from holdfast.evaluation.vectors import encode_once
from holdfast.models import load_sentence_transformer
from holdfast.precision import ResolvedPrecision, bf16_is_fast

Scores = dict[str, float]

FLOORS = {
    "ours, fp32": "69 % of the sentences are distinct (1.44); the rest is less padding",
    "ours, bf16": "the same, and the processor's bf16 products are about twice as fast",
}


def theirs(model: SentenceTransformer, tasks: list[StsTask]) -> Scores:
    scores = {}
    for task in tasks:
        first = model.encode(list(task.pairs.sentences1))
        second = model.encode(list(task.pairs.sentences2))
        cosines = (first * second).sum(axis=1) / (np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1))
        scores[task.name] = 100 * float(spearmanr(cosines, task.pairs.scores).statistic)
    return scores


def ours(model: SentenceTransformer, tasks: list[StsTask], precision: ResolvedPrecision) -> Scores:
    encode = encode_once(model, (s for task in tasks for s in task.sentences), precision=precision)
    return {task.name: task.score(encode)["metrics"]["spearman"] for task in tasks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a sentence encoder: folder, hub name, pypi:...")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, help="pairs of each task, for a try [default: all]")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    model = load_sentence_transformer(options.model)
    tasks = [load_sts(name, data=options.data) for name in STS_TASKS]
    if options.limit:
        tasks = [StsTask(sample_pairs(task.pairs, options.limit)) for task in tasks]
    ways: dict[str, Callable[[], Scores]] = {
        "encode at its defaults": lambda: theirs(model, tasks),
        "ours, fp32": lambda: ours(model, tasks, "fp32"),
    }
    if bf16_is_fast(model.device):
        ways["ours, bf16"] = lambda: ours(model, tasks, "bf16")
    wall: dict[str, list[float]] = {way: [] for way in ways}
    cpu: dict[str, list[float]] = {way: [] for way in ways}
    scores: dict[str, Scores] = {}
    for _ in range(options.rounds):
        for way, measure in ways.items():
            began, used = time.perf_counter(), time.process_time()
            scores[way] = measure()
            wall[way].append(time.perf_counter() - began)
            cpu[way].append(time.process_time() - used)
    report(wall, cpu, scores, sum(len(task.pairs.scores) for task in tasks), options.json)


def report(
    wall: dict[str, list[float]], cpu: dict[str, list[float]], scores: dict[str, Scores], pairs: int, path: Path | None
) -> None:
    first = next(iter(wall))
    print(f"{pairs:,} pairs; {machine()}, {torch.get_num_threads()} threads")
    print("| way | median s | CPU s | times faster | range | by CPU | largest difference of a score |")
    print("|---|---|---|---|---|---|---|")
    claims = []
    for way in wall:
        ratios = [a / b for a, b in zip(wall[first], wall[way], strict=True)]
        by_cpu = [a / b for a, b in zip(cpu[first], cpu[way], strict=True)]
        apart = max(abs(scores[way][task] - score) for task, score in scores[first].items())
        print(
            f"| {way} | {statistics.median(wall[way]):.1f} | {statistics.median(cpu[way]):.1f} "
            f"| {statistics.median(ratios):.2f} | {min(ratios):.2f}-{max(ratios):.2f} "
            f"| {statistics.median(by_cpu):.2f} | {apart:.4f} |"
        )
        if way != first:
            name = f"STS evaluation: encode at its defaults / {way}"
            claims.append(Claim(name, by_cpu, at_least=3.0, unit="CPU", floor=FLOORS[way]))
            claims.append(Claim(f"STS evaluation: largest difference of a score, {way}", [apart], at_most=0.05))
    if path:
        save(path, claims)


if __name__ == "__main__":
    main()
