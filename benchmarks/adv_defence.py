"""What ADV does to the success of the attack that it trains on, by the source of its candidates.

Classifiers of one task are fine-tuned without a defence, with ADV on the masked LM's words (filtered by its input
embeddings), and with ADV on synonyms, all for as many epochs, seed by seed. Each is then attacked by the recipe
``geometry`` with ADV's own share, number of words and candidates, from the neighbour lists: on test texts and on texts
it was trained on. Differences to the undefended classifier are paired over the texts that both classify correctly;
their 95 % intervals are of a bootstrap over texts, where a text brings its results of all seeds. From the training's
log: the share of attacked texts that were deceived, and the loss of the changed texts, in each epoch with the attack.

First, ADV's own attack is run once with each source of candidates, on equal training texts and the undefended
classifier of the first seed, in batches of 32: the share of texts deceived, and the time for a text.

A stopped run goes on where it was: everything is kept in ``--work``.

    python benchmarks/adv_defence.py --model LM --data DATA --work FOLDER [--task trec] [--seeds 2]
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from claims import machine
from holdfast.attacks.attack_run import attack
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.classifier import load_classifier
from holdfast.classifiers import FinetuneSettings, finetune
from holdfast.classifiers.defences import Training, make_defence
from holdfast.classifiers.training_data import load_training_data
from holdfast.results import read_result
from holdfast.runs.run_log import METRICS_FILE, RESULT_FILE, read_log

ROWS: Mapping[str, Mapping[str, Any]] = {
    "none": {"defence": "none"},
    "adv, masked LM": {"defence": "adv", "options": {"source": "masked-lm"}},
    "adv, synonyms": {"defence": "adv", "options": {"source": "neighbours"}},
}
ATTACKS: Mapping[str, Mapping[str, Any]] = {
    "geometry": {"max_share": 0.4, "max_words": 10, "candidates": 50},  # of ADV
    "textfooler": {},
    "pwws": {},
}
RESAMPLES = 10_000


def train(options: argparse.Namespace, name: str, seed: int, console: Console) -> Path:
    """Fine-tune a row's classifier, and return its folder."""
    folder = options.work / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"
    settings = FinetuneSettings(
        model=options.model,
        task=options.task,
        output=folder,
        epochs=options.epochs,
        learning_rate=options.learning_rate,
        max_length=options.max_length,
        examples=options.examples,
        seed=seed,
        data=options.data,
        train_split=options.train_split,
        **ROWS[name],
    )
    finetune(settings, resume=True, console=console)
    return folder


def attacked(options: argparse.Namespace, folder: Path, recipe: str, split: str, console: Console) -> dict[str, bool]:
    """Attack a classifier; return, for each text that it classifies correctly, whether it was deceived."""
    output = folder.parent / f"{folder.name}-{recipe}-{split}.json"
    settings = AttackSettings(
        model=str(folder),
        recipes=[recipe],
        task=options.task,
        split=split,
        examples=options.attacked,
        constants=dict(ATTACKS[recipe]),
        resources="light",
        masked_lm=options.model,
        data=options.data,
        output=output,
        seed=1,
    )
    attack(settings, resume=True, console=console)
    rows = read_result(output)["examples"]
    return {row["original"]: row["outcome"] == "succeeded" for row in rows if row["outcome"] != "skipped"}


def difference(pairs: Sequence[tuple[Mapping[str, bool], Mapping[str, bool]]]) -> tuple[float, float, float, int]:
    """Return the difference in success ×100 of (defended, undefended), its interval, and the number of texts."""
    found: dict[str, list[int]] = {}
    for mine, plain in pairs:
        for text in mine.keys() & plain.keys():
            found.setdefault(text, []).append(int(mine[text]) - int(plain[text]))
    texts = sorted(found)
    sums, counts = (np.array([measure(found[text]) for text in texts]) for measure in (sum, len))
    drawn = np.random.default_rng(0).integers(len(texts), size=(RESAMPLES, len(texts)))
    low, high = np.percentile(100 * sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1), [2.5, 97.5])
    return float(100 * sums.sum() / counts.sum()), float(low), float(high), len(texts)


def attacks(options: argparse.Namespace, folder: Path, console: Console) -> None:
    """Print what ADV's attack with each source of candidates does to equal texts, and what it costs."""
    classifier = load_classifier(str(folder))
    data = load_training_data(
        options.task, train_split=options.train_split, examples=options.attacked, seed=1, data=options.data
    )
    texts, labels = data.train.texts, torch.tensor(data.train.labels)
    table = Table("candidates", "texts", "deceived", "words", "ms a text", title="ADV's attack, once")
    for name, row in ROWS.items():
        if row["defence"] != "adv":
            continue
        defence = make_defence("adv", {**row["options"], "masked_lm": options.model})
        defence.begin(Training(classifier.model, classifier.tokenizer, texts, options.max_length, 4.0))
        logged: list[dict[str, float]] = []
        for begin in range(0, len(texts), 32):
            defence.adversaries(classifier.model, texts[begin : begin + 32], labels[begin : begin + 32])
            weight = len(texts[begin : begin + 32])
            logged.append({key: float(value) * weight for key, value in defence.diagnostics.items()})
            share = float(defence.diagnostics["attacked"])
            logged[-1]["deceived"] = float(defence.diagnostics["attack_success"]) * share * weight
        total = {key: sum(each[key] for each in logged) for key in logged[0]}
        table.add_row(
            name,
            f"{total['attacked']:.0f}",
            f"{100 * total['deceived'] / total['attacked']:.1f} %",
            f"{total['replaced_words'] / total['attacked']:.2f}",
            f"{1e3 * total['attack_seconds'] / total['attacked']:.1f}",
        )
    console.print(table)


def by_epoch(folder: Path, quantity: str) -> list[float]:
    """Return the mean of a logged quantity in each epoch that has it."""
    epochs: dict[int, list[float]] = {}
    for record in read_log(folder / METRICS_FILE):
        if quantity in record and record.get("attacked"):
            epochs.setdefault(int(record["epoch"] - 1e-9), []).append(record[quantity])
    return [statistics.mean(values) for _, values in sorted(epochs.items())]


def shown(values: Sequence[float], digits: int) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a masked LM: folder or hub name")
    parser.add_argument("--data", type=Path, required=True, help="the folder of labelled data, with neighbour lists")
    parser.add_argument("--work", type=Path, required=True, help="folder of models and results, for a stopped run")
    parser.add_argument("--task", default="trec")
    parser.add_argument("--train-split", help="the split to train on; None: as holdfast finetune")
    parser.add_argument("--examples", type=int, default=4000, help="training texts")
    parser.add_argument("--epochs", type=float, default=4.0, help="of every row; ADV's first is clean")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--max-length", type=int, default=64)
    parser.add_argument("--attacked", type=int, default=500, help="texts of each split to attack")
    parser.add_argument("--recipes", default="geometry", help=f"joined by commas, of {', '.join(ATTACKS)}")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", default=";".join(ROWS), help="joined by semicolons")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    console, names = Console(), options.rows.split(";")
    folders: dict[str, list[Path]] = {name: [] for name in names}
    success: dict[tuple[str, str, str], list[dict[str, bool]]] = {}
    for seed in range(1, options.seeds + 1):
        for name in names:
            folders[name].append(train(options, name, seed, console))
            for recipe in options.recipes.split(","):
                for split in ("test", options.train_split or "train"):
                    found = attacked(options, folders[name][-1], recipe, split, console)
                    success.setdefault((name, recipe, split), []).append(found)
    attacks(options, folders["none"][0], console)
    report(options, console, folders, success)


def report(
    options: argparse.Namespace,
    console: Console,
    folders: Mapping[str, Sequence[Path]],
    success: Mapping[tuple[str, str, str], Sequence[Mapping[str, bool]]],
) -> None:
    """Print one row for each defence, recipe and split, and one of each training."""
    table = Table("defence", "recipe", "split", "success", "to none", "95 %", "texts", title=options.task)
    figures = []
    for (name, recipe, split), found in success.items():
        rates = [100 * statistics.mean(each.values()) for each in found]
        paired = difference(list(zip(found, success["none", recipe, split], strict=True)))
        by, low, high, texts = paired
        compared = () if name == "none" else (f"{by:+.1f}", f"{low:+.1f} to {high:+.1f}", str(texts))
        table.add_row(name, recipe, split, shown(rates, 1), *compared)
        figures.append({"row": name, "recipe": recipe, "split": split, "success": rates, "difference": paired})
    console.print(table)
    training = Table("defence", "seed", "accuracy", "seconds", "deceived in training", "their loss", title="training")
    for name, seeds in folders.items():
        for seed, folder in enumerate(seeds, 1):
            result = read_result(folder / RESULT_FILE)
            (accuracy,) = [row["metrics"]["accuracy"] for row in result["results"] if row["split"] == "test"]
            deceived, loss = (by_epoch(folder, name) for name in ("attack_success", "adversarial_loss"))
            row = {"row": name, "seed": seed, "accuracy": accuracy, "seconds": result["timing"]["train_seconds"]}
            figures.append({**row, "deceived": deceived, "adversarial_loss": loss})
            training.add_row(
                name, str(seed), f"{accuracy:.1f}", f"{row['seconds']:.0f}", shown(deceived, 3), shown(loss, 2)
            )
    console.print(training)
    console.print(machine())
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
