"""Does each method lower its own objective on held-out sentences, against SimCSE with the same steps and batch?

    python benchmarks/positive_controls.py --model LM --data DIR --work DIR [--methods robustembed,ct] [--seeds 5]

For each seed and method the method itself, its baseline and the method without its idea are trained by `holdfast train`
with equal steps, batch, learning rate, data and seed, and measured on the same sentences of Wikipedia that no run saw
(`holdfast.evaluation.positive_controls`). ``WORK/METHOD-SEED.json`` holds the values of each sentence; what is there
is not made again, and a killed training is resumed, so the command can be given until the table is full. ``--table``
prints the table of what there is, and trains nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from holdfast.data.corpus import read_corpus
from holdfast.evaluation.positive_controls.frozen_runs import FrozenRun, HeldOut
from holdfast.evaluation.positive_controls.paired_seeds import PairedDifference, paired_difference
from holdfast.evaluation.positive_controls.registry import CONTROLS, Arm, Control, control_of
from holdfast.files import write_json
from holdfast.models import load_sentence_transformer
from holdfast.objectives import METHODS
from holdfast.precision import resolve
from holdfast.training.train_config import TrainConfig
from holdfast.training.training_run import train

OBJECTIVE = "objective.safetensors"
STEPS = {"adcl": 300}
"""Steps of a method and its baseline, else 100. After 100 ADCL's loss is above SimCSE's (docs/controls.md)."""
MAX_LENGTH = 32
"""Tokens per sentence, in training and measurement."""
STATELESS = ("adcl", "anchored", "consert")
"""Methods whose objective holds nothing that a control reads; that of ADCL would load a second language model."""


def steps_of(control: Control, options: argparse.Namespace) -> int:
    """Return the number of steps of all arms of a control."""
    return STEPS.get(control.method, 100) if options.steps is None else int(options.steps)


def folder_of(arm: Arm, seed: int, steps: int, options: argparse.Namespace) -> Path:
    """Return the folder of a run."""
    return Path(options.work) / "runs" / f"{arm.name.replace(' ', '_')}-{steps}-{seed}"


def trained(arm: Arm, seed: int, steps: int, options: argparse.Namespace) -> FrozenRun:
    """Return a run of an arm, trained unless it is there."""
    folder = folder_of(arm, seed, steps, options)
    if arm.method and not (folder / OBJECTIVE).exists():
        train(
            TrainConfig(
                arm.method,
                options.model,
                str(options.corpus),
                folder,
                options=dict(arm.options),
                data=options.data,
                max_steps=steps,
                batch_size=options.batch_size,
                learning_rate=options.learning_rate,
                max_length=MAX_LENGTH,
                seed=seed,
                selection="last",
                report_sts=False,
                save_steps=steps,
            ),
            resume=True,
        )
        checkpoint = folder / f"checkpoint-{steps}"
        (checkpoint / OBJECTIVE).rename(folder / OBJECTIVE)
        shutil.rmtree(checkpoint)
    model = load_sentence_transformer(str(folder) if arm.method else options.model)
    model.max_seq_length = MAX_LENGTH
    if not arm.method or arm.method in STATELESS:
        return FrozenRun(model, None, options.model)
    generator = {"generator": options.model} if arm.method == "diffcse" else {}  # the run's folder is no masked LM
    objective = METHODS[arm.method](model, **arm.options, **generator).to(model.device)
    objective.load_own_state(load_file(folder / OBJECTIVE))
    return FrozenRun(model, objective, options.model)


def measured(control: Control, arm: Arm, seed: int, texts: HeldOut, options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of an arm: ``{space: {name: [a value per text]}}``."""
    run = trained(arm, seed, steps_of(control, options), options)
    spaces = [space for space in control.spaces if space == "vector" or run.head is not None]
    with in_precision_of_training(run):
        values = {space: control.values(run, texts, seed, space=space) for space in spaces}
    return {space: {name: list(map(rounded, row)) for name, row in found.items()} for space, found in values.items()}


def rounded(value: float) -> float:
    """Return a value with seven significant digits, as fp32 has."""
    return float(f"{value:.7g}")


@contextlib.contextmanager
def in_precision_of_training(run: FrozenRun) -> Iterator[None]:
    """Compute in bf16 where the training did."""
    import torch

    device = run.model.device
    with torch.autocast(device.type, torch.bfloat16, enabled=resolve("auto", device) == "bf16"):
        yield


def cell(control: Control, seed: int, texts: HeldOut, options: argparse.Namespace) -> Path:
    """Train and measure the arms of a control with one seed; return the file of the values."""
    path = Path(options.work) / f"{control.method}-{seed}.json"
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"arms": {}}
    settings = {
        "model": options.model,
        "corpus": str(options.corpus),
        "steps": steps_of(control, options),
        "batch_size": options.batch_size,
        "learning_rate": options.learning_rate,
        "texts": len(texts.measured),
        "fitting": len(texts.fitting),
    }
    if record.setdefault("settings", settings) != settings:
        sys.exit(f"{path} was made with other settings: {record['settings']}")
    record |= {"method": control.method, "seed": seed}
    for arm in control.arms:
        if arm.name not in record["arms"]:
            record["arms"][arm.name] = measured(control, arm, seed, texts, options)
            record["date"] = date.today().isoformat()
            write_json(path, record)
            print(f"{path.stem}: {arm.name}", flush=True)
    return path


def table(options: argparse.Namespace) -> str:
    """Return the table of all finished seeds."""
    lines = [
        "| method | measure | space | seeds | method | other training | its value | difference (95 %) | lower |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for control in CONTROLS:
        paths = sorted(Path(options.work).glob(f"{control.method}-[0-9]*.json"))
        records = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        records = [record for record in records if all(arm.name in record["arms"] for arm in control.arms)]
        if records:
            lines += rows(control, records)
    return "\n".join(lines)


def rows(control: Control, records: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a row for each measure and each other arm of a control."""
    own = [record["arms"][control.trained.name] for record in records]
    for space in control.spaces:
        for name in own[0][space]:
            for other in control.arms[1:]:
                values = [record["arms"][other.name].get(space) for record in records]
                if None in values:
                    continue
                found = paired_difference([one[space][name] for one in own], [one[name] for one in values], name=name)
                cells = [control.method, name, space, str(len(records)), *numbers(found, other.name)]
                yield "| " + " | ".join(cells) + " |"


def numbers(found: PairedDifference, other: str) -> list[str]:
    """Return the last five cells of a row."""
    interval = f"{found.difference:+.4g} ({found.low:+.4g} to {found.high:+.4g})"
    return [f"{found.method:.4g}", other, f"{found.baseline:.4g}", interval, "yes" if found.lower else "**no**"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, default=os.environ.get("HOLDFAST_DATA"))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--methods", default=",".join(control.method for control in CONTROLS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="of every training [default: 300 of adcl and its baseline, else 100]")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--texts", type=int, default=512, help="held-out sentences that are measured")
    parser.add_argument("--fitting", type=int, default=256, help="held-out sentences for what is fitted")
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    if not options.table:
        options.corpus = options.data / "unlabelled" / "wiki_train_00.tsv.gz"
        controls = [control_of(method) for method in options.methods.split(",")]
        held_out = options.data / "unlabelled" / "wiki_dev.tsv.gz"
        sentences = list(islice(read_corpus(str(held_out)), options.texts + options.fitting))
        texts = HeldOut(sentences[: options.texts], sentences[options.texts :])
        for seed in range(1, options.seeds + 1):
            for control in controls:
                cell(control, seed, texts, options)
    print(table(options))


if __name__ == "__main__":
    main()
