"""Execution of a cell by the command of its kind; killed work is resumed."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.attacks.resources import synonyms_for_training
from holdfast.data.untrusted_lines import MAX_ROW_CHARS
from holdfast.experiments.cell_planning import STSB_DEV, Setting, paper_options
from holdfast.experiments.cells import Cell, Store
from holdfast.experiments.input_hashes import task_and_split
from holdfast.experiments.translations import COLUMN, drawn, pairs_of, write_pairs
from holdfast.files import write_text
from holdfast.progress import stage
from holdfast.results import new_result, write_result

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Work:
    """A cell to make, the path of its product, and the paths of the products that it takes, by their role."""

    cell: Cell
    output: Path
    inputs: Mapping[str, Path]
    setting: Setting
    console: Console
    command: list[str]

    def write(
        self, kind: str, model: Any, protocol: dict[str, Any], rows: list[dict[str, Any]], device: Any, **entries: Any
    ) -> None:
        """Write the result of a cell that is not made by a command; ``entries`` are added to it."""
        result = new_result(
            kind,
            command=self.command,
            model=str(model),
            path=Path(model),
            protocol=protocol,
            seed=self.cell.settings.get("seed"),
            results=rows,
            device=str(device),
        )
        write_result(self.output, {**result, **entries})


def make(cell: Cell, store: Store, setting: Setting, console: Console, command: list[str], *, jobs: int = 1) -> None:
    """Make a cell that is missing, damaged or without its model, unless another process has made it in the meantime.

    ``jobs``, the number of cells made at the same time, is recorded: cells that share the machine take longer.

    Raises:
        InUse: another process is making it.
        UserError: as the command of its kind.
    """
    with store.alone(cell):
        if store.damage(cell) is not None or store.model_removed(cell):
            store.discard(cell)
        if not store.finished(cell):
            began = time.monotonic()
            do(cell, store, setting, console, command)
            store.finish(cell, began, jobs)


def do(cell: Cell, store: Store, setting: Setting, console: Console, command: list[str]) -> None:
    """Make a cell's product; its inputs must exist.

    Raises:
        UserError: as the command of its kind.
    """
    makers: Mapping[str, Callable[[Work], None]] = {
        "translation": _translate,
        "encoder": _train,
        "baseline": _baseline,
        "classifier": _finetune,
        "attack": _attack,
        "evaluation": _evaluate,
        "inspection": _inspect,
        "transfer": _transfer,
        "distances": _distances,
    }
    inputs = {name: store.product(taken) for name, taken in cell.inputs.items()}
    store.place(cell).mkdir(parents=True, exist_ok=True)
    with stage(console, f"{cell.kind}: {cell.label}", announce=False):
        makers[cell.kind](Work(cell, store.product(cell), inputs, setting, console, command))


def _without(entries: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in entries.items() if name not in names}


def _paths(work: Work) -> dict[str, str]:
    """Return the options of a training that name files and models, as the paths here."""
    paths = {name: str(value) for name, value in work.cell.where.items() if name != "corpus"}
    if "word_vectors" in paths:  # the name of the attacks' synonyms
        paths["word_vectors"] = str(synonyms_for_training(paths["word_vectors"], work.setting.data))
    return paths


def _train(work: Work) -> None:
    from holdfast.training.train_config import TrainConfig
    from holdfast.training.training_run import train

    settings = _without(work.cell.settings, "corpus", "selected_on", "option_files")
    settings["options"] = {**paper_options(settings["method"]), **settings["options"], **_paths(work)}
    if "teacher" in work.inputs:
        settings["options"]["teacher"] = str(work.inputs["teacher"])
    if "pairs" in work.inputs:
        corpus = str(pairs_of(work.inputs["pairs"]))
        settings |= {"column": COLUMN, "max_chars": MAX_ROW_CHARS}
    else:
        corpus = _corpus(work)
        if corpus != work.cell.where["corpus"]:
            settings["max_chars"] = MAX_ROW_CHARS  # the longest IMDB review has about 14,000
    config = TrainConfig(
        model=str(work.inputs["start"]),
        corpus=corpus,
        output=work.output,
        data=work.setting.data,
        report_sts=False,
        **settings,
    )
    train(config, resume=True, console=work.console, command=work.command)


def _baseline(work: Work) -> None:
    from holdfast.baselines.baseline_settings import BaselineSettings
    from holdfast.baselines.construction import make_baseline

    settings = _without(work.cell.settings, "corpus", "vectors")
    settings |= {name: Path(value) if name == "vectors" else value for name, value in work.cell.where.items()}
    if "start" in work.inputs:
        settings["model"] = str(work.inputs["start"])
    if "corpus" in settings:
        settings["data"] = work.setting.data
    if work.output.exists():
        shutil.rmtree(work.output)  # an interrupted baseline starts again
    make_baseline(BaselineSettings(output=work.output, **settings), console=work.console, command=work.command)


def _translate(work: Work) -> None:
    from holdfast.adversary.translation import Translator
    from holdfast.data.corpus import spool_corpus

    settings, where = work.cell.settings, work.cell.where
    column = settings.get("column")
    corpus = spool_corpus(_corpus(work), column=column, data=work.setting.data, max_chars=MAX_ROW_CHARS)
    chosen = drawn(corpus, settings["sentences"], settings["seed"])
    there, back = (Translator(str(where[name])) for name in ("there", "back"))
    rows = write_pairs(work.output.parent, chosen, there, back, work.console)
    protocol = {"corpus": where["corpus"], "sentences": settings["sentences"], "back": where["back"]}
    work.write("translation", where["there"], protocol, rows, there.model.device)


def _corpus(work: Work) -> str:
    """Return the corpus of a cell's sentences.

    The training texts of a task are first written to a file, each once, without those of its test splits and attack
    sets.
    """
    corpus = str(work.cell.where["corpus"])
    of_task = task_and_split(corpus)
    if of_task is None:
        return corpus
    from holdfast.classifiers.training_data import load_training_data

    path = work.output.parent / "corpus.jsonl"
    (task, split), seed = of_task, work.cell.settings["seed"]
    material = load_training_data(task, train_split=split or None, examples=None, seed=seed, data=work.setting.data)
    texts = dict.fromkeys(side for text in material.train.texts for side in text if side.strip())
    write_text(path, "".join(json.dumps({"sentence": text}) + "\n" for text in texts))
    return str(path)


def _finetune(work: Work) -> None:
    from holdfast.classifiers import FinetuneSettings, finetune

    settings = _without(work.cell.settings, "data", "masked_lm", "option_files")
    settings["options"] = {**settings["options"], **_paths(work)}
    model = str(work.inputs["encoder"])
    texts = str(work.inputs["texts"]) if "texts" in work.inputs else None
    run = FinetuneSettings(model=model, output=work.output, data=work.setting.data, adversarial_texts=texts, **settings)
    finetune(run, resume=True, console=work.console, command=work.command)


def _attack(work: Work) -> None:
    from holdfast.attacks.attack_run import attack
    from holdfast.attacks.attack_settings import AttackSettings

    settings = _without(work.cell.settings, "data", "resources", "recipe")
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
    from holdfast.evaluation.evaluation_result import evaluation, evaluation_options
    from holdfast.evaluation.evaluation_run import evaluate_sts_dev, evaluate_tasks
    from holdfast.model_lookup import model_identity
    from holdfast.models import load_sentence_transformer

    settings, model = work.cell.settings, work.inputs["encoder"]
    encoder = load_sentence_transformer(str(model), pooling=settings["pooling"])
    tasks, limit = [task for task in settings["tasks"] if task != STSB_DEV], settings.get("limit")
    rows = evaluate_tasks(encoder, tasks, data=work.setting.data, text=settings["text"], limit=limit) if tasks else []
    if STSB_DEV in settings["tasks"]:
        rows += evaluate_sts_dev(encoder, data=work.setting.data, text=settings["text"], limit=limit)
    result = evaluation(
        str(model),
        encoder,
        rows,
        options=evaluation_options(settings["tasks"], text=settings["text"], pooling=settings["pooling"], limit=limit),
        identity=model_identity(model),
        command=work.command,
    )
    write_result(work.output, result)


def _inspect(work: Work) -> None:
    from holdfast.experiments import inspections
    from holdfast.models import load_sentence_transformer

    settings, model = work.cell.settings, work.inputs["encoder"]
    encoder = load_sentence_transformer(str(model))
    if settings["kind"] == "similarity":
        rows = inspections.similarities(encoder, settings["texts"])
    elif settings["kind"] == "masks":
        rows = inspections.masks(encoder, model, settings["texts"], seed=settings["seed"])
    else:
        options = {**settings["options"], **_paths(work)}
        rows = inspections.hard_positives(encoder, settings["texts"], options=options, seed=settings["seed"])
    protocol = {"kind": settings["kind"], "texts": settings["texts"]}
    work.write("inspection", model, protocol, rows, encoder.device)


def _distances(work: Work) -> None:
    """Measure d_pos, d_neg and δ of an attack's texts in a model's space, and project some of the texts to a plane."""
    from holdfast.encoding import encode_sentences
    from holdfast.evaluation.adversarial_space import (
        check_single_texts,
        load_space_encoder,
        read_pairs,
        space_of_pairs,
    )
    from holdfast.evaluation.projection import drawn, project

    settings, model = work.cell.settings, work.inputs["within"]
    (pairs,) = read_pairs(work.inputs["texts"], outcome=settings["outcome"])
    check_single_texts(str(model), [pairs])
    encoder = load_space_encoder(str(model))
    vectors = encode_sentences(encoder, [*pairs.clean, *pairs.adversarial])
    clean, adversarial = vectors[: len(pairs)], vectors[len(pairs) :]
    chosen, rows = drawn(pairs, settings["pairs"], settings["seed"])
    plane = project(chosen, clean[rows], adversarial[rows], seed=settings["seed"])
    protocol = {"attacked": str(work.inputs["texts"]), **settings}
    space = [space_of_pairs(pairs, clean, adversarial)]
    work.write("space", model, protocol, space, encoder.device, coordinates=plane.as_json())


def _transfer(work: Work) -> None:
    from holdfast.attacks.transfer import transferability

    texts, model = work.inputs["texts"], str(work.inputs["on"])
    write_result(work.output, transferability([texts], models=[model], console=work.console, command=work.command))
