"""Choose the learning rate of each method on STS-B dev, with the same grid and the same budget for all.

    python benchmarks/tune_learning_rate.py --model LM --corpus FILE --data DIR --output DIR [--methods simcse,adcse]

Each run is a `holdfast train` on the first sentences of the small scale (25,600), with the method's own batch size, and
is evaluated eight times on STS-B dev, of which the best counts; no test set is read. A finished run is a line of
``DIR/runs.jsonl`` and is not made again, and a killed one is resumed, so the command can be given until the table is
full. Rates that the training does not survive are lines, too. The table, in Markdown, has the mean over the seeds of
the best dev score, marks each method's best rate, and says where that is the end of the grid: such a method needs a
wider one. ``--limit N`` ends after N new runs.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

METHODS = ("simcse", "consert", "ct", "v-advcse", "robustembed", "adcse", "l2p-csr", "adcl")
RATES = (1e-5, 3e-5, 1e-4, 3e-4)
SENTENCES, EVALUATIONS = 25_600, 8
"""Those of `holdfast reproduce --scale small`."""
NAMES = ("method", "learning_rate", "seed", "options", "batch_size", "steps", "model_sha256", "corpus", "precision")
"""What two runs of which one is not made again have in common."""

BROKE_OFF = ("try a lower --learning-rate", "vectors that are not finite", "a zero vector", "collapsed?")
"""Parts of the messages of a training that its learning rate has destroyed."""


def settings_of(method: str, rate: float, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a run, by which it is found again."""
    from holdfast.model_lookup import model_identity, resolve_model
    from holdfast.objectives import METHODS as ALL

    size = given.batch_size or int(ALL[method].TRAINING.get("batch_size", 64))
    named = [word.partition(":")[2] for word in given.set if word.partition(":")[0] == method]
    return {
        "method": method,
        "learning_rate": rate,
        "seed": seed,
        "options": dict(word.split("=", 1) for word in named),
        "batch_size": size,
        "steps": math.ceil(given.sentences / size),
        "model_sha256": model_identity(resolve_model(given.model))["model_sha256"],
        "corpus": given.corpus,
        "precision": given.precision,
    }


def made(settings: Mapping[str, Any], given: argparse.Namespace) -> dict[str, Any]:
    """Make a run, and return its record: ``dev``, the best score on STS-B dev, is None if it broke off."""
    from holdfast.errors import UserError
    from holdfast.training.train_config import TrainConfig
    from holdfast.training.training_run import train

    name = f"{settings['method']}-{settings['learning_rate']:g}-{settings['seed']}"
    folder, every = given.output / name, max(1, math.ceil(settings["steps"] / EVALUATIONS))
    config = TrainConfig(
        settings["method"],
        given.model,
        given.corpus,
        folder,
        options=settings["options"],
        data=given.data,
        max_steps=settings["steps"],
        batch_size=settings["batch_size"],
        learning_rate=settings["learning_rate"],
        seed=settings["seed"],
        precision=given.precision,
        selection="stsb-dev",
        eval_steps=every,
        save_steps=every,  # so that a killed run goes on from its last evaluation
        report_sts=False,
    )
    began = time.process_time()
    found: dict[str, Any] = {"dev": None, "kept_step": None}
    try:
        result = train(config, resume=True)
        found = {"dev": result["selected"]["score"], "kept_step": result["selected"]["step"]}
    except UserError as error:
        if not any(part in str(error) for part in BROKE_OFF):
            raise
        found["failed"] = str(error)
    curve = scores(folder / "metrics.jsonl")
    shutil.rmtree(folder, ignore_errors=True)  # the model: the record has what is asked
    seconds = round(time.process_time() - began, 1)
    return {**settings, **found, "curve": curve, "cpu_seconds": seconds, "date": date.today().isoformat()}


def scores(log: Path) -> list[tuple[int, float]]:
    """Return the scores on STS-B dev of a run's log, each with its step."""
    from holdfast.runs.run_log import read_log

    name = "eval_stsb_dev_spearman"
    return [(int(record["step"]), round(record[name], 2)) for record in read_log(log) if name in record]


def read(path: Path) -> list[dict[str, Any]]:
    """Return the finished runs; a line that was cut off by a kill is left out."""
    records = []
    for line in path.read_text(encoding="utf-8").split("\n") if path.exists() else []:
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def append(path: Path, record: Mapping[str, Any]) -> None:
    """Add a line; it begins on a new one, even if the last was cut off."""
    cut = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" * cut + json.dumps(record) + "\n")


def table(records: Iterable[Mapping[str, Any]], rates: Iterable[float]) -> str:
    """Return the mean of the best dev scores by method and rate; the best of a method is bold, "-" broke off."""
    rates, records = sorted(rates), list(records)
    lines = ["| method | steps × batch | " + " | ".join(f"{rate:g}" for rate in rates) + " | best |"]
    lines.append("|---" * (len(rates) + 3) + "|")
    for method in dict.fromkeys(record["method"] for record in records):
        own = [record for record in records if record["method"] == method]
        means: dict[float, float] = {}
        cells: dict[float, str] = {}
        for rate in rates:
            values = [record["dev"] for record in own if record["learning_rate"] == rate]
            if values and None not in values:
                means[rate] = statistics.fmean(values)
                spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
                cells[rate] = f"{means[rate]:.2f}{spread}"
            else:
                cells[rate] = "-" if values else ""
        best = max(means, key=lambda rate: means[rate]) if means else None
        verdict = "" if best is None else f"{best:g}"
        if best is not None:
            cells[best] = f"**{cells[best]}**"
            verdict += ", the end of the grid" if best in (rates[0], rates[-1]) else ""
        size = f"{own[0]['steps']} × {own[0]['batch_size']}"
        lines.append("| " + " | ".join([method, size, *(cells[rate] for rate in rates), verdict]) + " |")
    return "\n".join(lines)


def main(words: list[str] | None = None) -> None:
    """Make the missing runs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--rates", default=",".join(f"{rate:g}" for rate in RATES))
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    parser.add_argument("--batch-size", type=int, help="the same for all methods, in place of each one's own")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--set", action="append", default=[], metavar="METHOD:NAME=VALUE", help="an option of a method")
    parser.add_argument("--limit", type=int, help="end after so many new runs")
    given = parser.parse_args(words)
    given.output.mkdir(parents=True, exist_ok=True)
    methods, rates = given.methods.split(","), [float(rate) for rate in given.rates.split(",")]
    if unknown := [method for method in methods if method not in METHODS]:
        sys.exit(f"no such method: {unknown[0]}; methods: {', '.join(METHODS)}")
    path, shown, new = given.output / "runs.jsonl", [], 0
    for seed in map(int, given.seeds.split(",")):
        for method in methods:
            for rate in rates:
                settings = settings_of(method, rate, seed, given)
                known = (each for each in read(path) if {name: each.get(name) for name in NAMES} == settings)
                if (record := next(known, None)) is None and new != given.limit:
                    record, new = made(settings, given), new + 1
                    append(path, record)
                    print(f"{method} {rate:g} seed {seed}: {record['dev']}", file=sys.stderr, flush=True)
                shown += [record] if record is not None else []
    print(table(shown, rates))


if __name__ == "__main__":
    main()
