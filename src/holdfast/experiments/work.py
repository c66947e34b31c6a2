"""Doing a piece of work: each kind of cell by the command it stands for, resumed where it was killed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.experiments.cells import Cell, Store
from holdfast.experiments.stages import OF_TASK, Setting
from holdfast.files import write_text
from holdfast.results import new_result, write_result

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Work:
    """One cell to be made.

    Attributes:
        cell: what.
        output: where its product goes.
        inputs: the products that it takes.
        setting: of the reproduction.
        console: for progress.
        command: for the record.
    """

    cell: Cell
    output: Path
    inputs: Mapping[str, Path]
    setting: Setting
    console: Console
    command: list[str]


def do(cell: Cell, store: Store, setting: Setting, console: Console, command: list[str]) -> None:
    """Make a cell's product; all that it takes is there.

    Raises:
        UserError: what the command of its kind refuses.
    """
    makers: Mapping[str, Callable[[Work], None]] = {
        "encoder": _train,
        "classifier": _finetune,
        "attack": _attack,
        "evaluation": _evaluate,
        "transfer": _transfer,
    }
    inputs = {name: store.product(taken) for name, taken in cell.inputs.items()}
    store.place(cell).mkdir(parents=True, exist_ok=True)
    makers[cell.kind](Work(cell, store.product(cell), inputs, setting, console, command))


def _train(work: Work) -> None:
    from holdfast.training.config import TrainConfig
    from holdfast.training.run import train

    settings = {name: value for name, value in work.cell.settings.items() if name != "corpus"}
    corpus = str(work.cell.where["corpus"])
    if corpus.startswith(OF_TASK):
        corpus = str(_corpus_of_task(work, corpus.removeprefix(OF_TASK)))
    config = TrainConfig(
        model=str(work.inputs["start"]),
        corpus=corpus,
        output=work.output,
        data=work.setting.data,
        report_sts=False,
        **settings,
    )
    train(config, resume=True, console=work.console, command=work.command)


def _corpus_of_task(work: Work, name: str) -> Path:
    """The training texts of a task, each once, without those of its test splits and attack sets."""
    from holdfast.classifiers.material import load_material

    path = work.output.parent / "corpus.jsonl"
    if not path.exists():
        task, _, split = name.partition("/")
        seed = work.cell.settings["seed"]
        material = load_material(task, train_split=split or None, examples=None, seed=seed, data=work.setting.data)
        texts = dict.fromkeys(side for text in material.train.texts for side in text if side.strip())
        write_text(path, "".join(json.dumps({"sentence": text}) + "\n" for text in texts))
    return path


def _finetune(work: Work) -> None:
    from holdfast.classifiers import FinetuneSettings, finetune

    settings = {name: value for name, value in work.cell.settings.items() if name not in ("data", "masked_lm")}
    settings["options"] = {**settings["options"], **work.cell.where}
    model = str(work.inputs["encoder"])
    run = FinetuneSettings(model=model, output=work.output, data=work.setting.data, **settings)
    finetune(run, resume=True, console=work.console, command=work.command)


def _attack(work: Work) -> None:
    from holdfast.attacks.run import AttackSettings, attack

    not_asked = ("data", "resources", "recipe")
    settings = {name: value for name, value in work.cell.settings.items() if name not in not_asked}
    run = AttackSettings(
        model=str(work.inputs["victim"]),
        recipes=[work.cell.settings["recipe"]],
        resources=work.setting.resources,
        data=work.setting.data,
        output=work.output,
        **settings,
    )
    attack(run, resume=True, console=work.console, command=work.command)


def _evaluate(work: Work) -> None:
    from holdfast.evaluation.run import evaluate_tasks
    from holdfast.models import load_sentence_transformer

    said, model = work.cell.settings, work.inputs["encoder"]
    encoder = load_sentence_transformer(str(model), pooling=said["pooling"])
    rows = evaluate_tasks(encoder, said["tasks"], data=work.setting.data, text=said["text"])
    result = new_result(
        "evaluate",
        command=work.command,
        model=str(model),
        path=model,
        protocol={key: said[key] for key in ("tasks", "text", "pooling")},
        seed=None,
        results=rows,
        device=str(encoder.device),
    )
    write_result(work.output, result)


def _transfer(work: Work) -> None:
    from holdfast.attacks.transfer import transferability

    texts, on = work.inputs["texts"], str(work.inputs["on"])
    write_result(work.output, transferability([texts], models=[on], console=work.console, command=work.command))
