"""What a run attacks: the examples, and the model with its goal."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import itertools
import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from holdfast.attacks.encoders import (
    SCALE,
    DriftTarget,
    EncoderTarget,
    RetrievalTarget,
    ScoredPairTarget,
    fitted_scale,
    halfway,
)
from holdfast.attacks.examples import Example
from holdfast.attacks.targets import CallableTarget, ClassifierTarget, Target
from holdfast.data.corpus import read_corpus
from holdfast.data.registry import is_local, load_labelled, load_pairs
from holdfast.data.tables import MAX_ROW_CHARS
from holdfast.data.tasks import Task, task_named
from holdfast.errors import UserError, first_line
from holdfast.finding import model_identity, resolve_model
from holdfast.models import load_sentence_transformer

Goal = Literal["auto", "class", "score", "drift", "neighbours"]

CALL = "call:"
"""What the name of a Python function begins with, where a model is expected."""

_SPLITS = ("test", "dev", "dev_matched", "all", "test_r1", "test_sample")
_FIT = {"stsb": ("dev", "train"), "sickr": ("trial", "train")}
"""The splits that the scale from cosines to people's scores is fitted on: the first that is not attacked. Of SICK's
tasks it is SICK-R's, of all others STS-B's."""


@dataclass(frozen=True)
class Material:
    """The examples of a run.

    Attributes:
        task: the task's id, or "texts".
        split: its split.
        examples: what is attacked, in the order of the data.
        goal: what for.
        classes: names of the labels, where there are any.
        data: where the texts are from, and their hash, for the record.
    """

    task: str
    split: str
    examples: list[Example]
    goal: Goal
    classes: list[str] | None
    data: dict[str, Any]


@dataclass(frozen=True)
class Victim:
    """The target of a run, and what the record says of it."""

    target: Target
    identity: dict[str, Any]
    goal: dict[str, Any] = field(default_factory=dict)
    device: str = "cpu"


def load_material(
    task: str | None,
    texts: str | None,
    *,
    split: str | None,
    goal: Goal,
    count: int | None,
    seed: int,
    data: Path | None,
) -> Material:
    """The examples of a labelled task, of scored pairs, or of any texts.

    Args:
        task: a task's name.
        texts: a corpus, where there is no task.
        split: of the task; None: its test split, else its dev split, else all of it.
        goal: "auto" is the goal that goes with the kind of data.
        count: draw so many examples at random, kept in the order of the data; None: all.
        seed: of the drawing.
        data: the data folder.

    Raises:
        UserError: neither or both of task and texts, a goal that does not go with the data, or what loading refuses.
    """
    if (task is None) == (texts is None):
        raise UserError("give either --task (a labelled task) or --texts (a corpus, for goals without labels)")
    if texts is not None:
        return _from_corpus(texts, goal, count, seed, data)
    assert task is not None
    known = task_named(task)
    part = split or _default_split(known, data)
    scored = known.kind == "sts"
    natural: Goal = "score" if scored else "class"
    chosen = natural if goal == "auto" else goal
    if chosen in ("class", "score") and chosen != natural:
        raise UserError(f"--goal {chosen} does not go with {task}: its examples carry {_CARRIED[natural]}")
    if scored:
        pairs = load_pairs(task, part, data=data)
        rows = [
            Example(i, (a, b), 1, score)
            for i, (a, b, score) in enumerate(zip(pairs.sentences1, pairs.sentences2, pairs.scores, strict=True))
        ]
        record, classes = {"source": pairs.source, "sha256": pairs.sha256}, None
    else:
        labelled = load_labelled(task, part, data=data)
        columns = [labelled.sentences1] + ([labelled.sentences2] if labelled.sentences2 is not None else [])
        rows = [
            Example(i, fields, len(fields) - 1, label)
            for i, (fields, label) in enumerate(zip(zip(*columns, strict=True), labelled.labels, strict=True))
        ]
        record, classes = {"source": labelled.source, "sha256": labelled.sha256}, labelled.classes
    if chosen in ("drift", "neighbours"):
        rows = [Example(row.number, (row.texts[0],)) for row in rows]
        classes = None
    return Material(task, part, _drawn(rows, count, seed), chosen, classes, record)


_CARRIED = {"score": "scores, not classes", "class": "classes, not scores"}


def _from_corpus(texts: str, goal: Goal, count: int | None, seed: int, data: Path | None) -> Material:
    if goal in ("class", "score"):
        raise UserError(f"--goal {goal} needs labels: give --task in place of --texts")
    # Of a corpus too long to be read as a whole the beginning is drawn from.
    lines = list(itertools.islice(read_corpus(texts, data=data, max_chars=MAX_ROW_CHARS), _CORPUS_HEAD))
    rows = [Example(i, (line,)) for i, line in enumerate(lines)]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    record = {"source": texts, "sha256": digest, "sentences": len(lines)}
    return Material("texts", "all", _drawn(rows, count, seed), "drift" if goal == "auto" else goal, None, record)


_CORPUS_HEAD = 100_000


def _drawn(rows: list[Example], count: int | None, seed: int) -> list[Example]:
    if count is None or count >= len(rows):
        return rows
    if count < 1:
        raise UserError(f"--examples must be at least 1, not {count}")
    return [rows[i] for i in sorted(random.Random(seed).sample(range(len(rows)), count))]


def load_victim(
    model: str,
    material: Material,
    *,
    threshold: float | None,
    k: int,
    margin: float,
    data: Path | None,
    device: str | None,
    corpus: Sequence[str] | None = None,
) -> tuple[Victim, Material]:
    """The model with the goal that goes with the material, and the material in the model's own numbering of classes.

    Args:
        model: a classifier for classes, an encoder for the other goals, or ``call:package.module:function``.
        material: the examples.
        threshold: of the goal "drift", a cosine; None: half-way between 1 and the mean cosine of the texts.
        k: of the goal "neighbours".
        margin: of the goal "score".
        data: the data folder.
        device: where the model goes; None: the machine's best.
        corpus: of the goal "neighbours", what is searched; None: the texts of the examples.
    """
    if model.startswith(CALL):
        if material.goal != "class":
            raise UserError(f"a function can be attacked through its classes alone, not with the goal {material.goal}")
        function, identity = _function(model)
        return Victim(CallableTarget(function, name=model), identity), material
    if material.goal == "class":
        from holdfast.attacks.classifier import load_classifier

        classifier = load_classifier(model, device=device)
        numbered = _renumbered(material, classifier.classes, model)
        identity = model_identity(resolve_model(model))
        return Victim(ClassifierTarget(classifier), identity, device=str(classifier.device)), numbered
    _refuse_regression(model)
    encoder = load_sentence_transformer(model, device=device)
    identity = model_identity(resolve_model(model))
    target: EncoderTarget
    goal: dict[str, Any]
    if material.goal == "score":
        task = "sickr" if material.task in ("sickr", "sickr-full") else "stsb"
        split = next(each for each in _FIT[task] if (task, each) != (material.task, material.split))
        pairs = load_pairs(task, split, data=data)
        lowest = 1.0 if task == "sickr" else SCALE[0]
        scale = fitted_scale(encoder, pairs.sentences1, pairs.sentences2, pairs.scores, lowest=lowest)
        target = ScoredPairTarget(encoder, source=model, scale=scale, margin=margin)
        goal = {"margin": margin, "scale": f"isotonic fit of scores on cosines, {task} {split}"}
    elif material.goal == "drift":
        probe = DriftTarget(encoder, source=model, threshold=0.0)
        bound = halfway(probe, [e.text for e in material.examples]) if threshold is None else threshold
        target = DriftTarget(encoder, source=model, threshold=bound)
        goal = {"threshold": bound, "chosen": "half-way to other texts" if threshold is None else "given"}
    else:
        searched = list(corpus) if corpus is not None else [e.text for e in material.examples]
        target = RetrievalTarget(encoder, source=model, corpus=searched, k=k)
        goal = {"k": k, "corpus": len(set(searched))}
    return Victim(target, identity, goal, str(encoder.device)), material


def _default_split(task: Task, data: Path | None) -> str:
    """The split that is attacked where none is named; of those at hand, if any is."""
    names = [split.name for split in task.splits]
    ordered = [name for name in _SPLITS if name in names] or names
    return next((name for name in ordered if is_local(task.name, name, data)), ordered[0])


def _refuse_regression(model: str) -> None:
    """A model that was fine-tuned to give one number would otherwise be taken for an encoder."""
    path = resolve_model(model) / "config.json"
    if path.is_file() and json.loads(path.read_text(encoding="utf-8")).get("problem_type") == "regression":
        raise UserError(
            f"{model} gives one number for a text, and attacks need classes or vectors: name a classifier or an encoder"
        )


def _renumbered(material: Material, classes: list[str], model: str) -> Material:
    """Labels as the model numbers them: by name where the names are the same, otherwise as they are."""
    assert material.classes is not None
    names = [name.lower() for name in classes]
    wanted = [name.lower() for name in material.classes]
    if len(names) < len(wanted):
        raise UserError(
            f"{model} knows {len(names)} classes and {material.task} has {len(wanted)}: fine-tune it with "
            f"`holdfast finetune {model} --task {material.task} --output DIR`"
        )
    order = [names.index(name) for name in wanted] if set(wanted) <= set(names) else list(range(len(wanted)))
    examples = [
        Example(e.number, e.texts, e.attacked, order[e.label] if isinstance(e.label, int) else e.label)
        for e in material.examples
    ]
    return Material(material.task, material.split, examples, material.goal, classes, material.data)


def _function(spec: str) -> tuple[Callable[[list[Any]], Any], dict[str, Any]]:
    """The function that ``call:package.module:function`` names, and the hash of the file it is in."""
    module_name, colon, name = spec.removeprefix(CALL).partition(":")
    if not colon or not module_name or not name:
        raise UserError(f"{spec!r} is not call:package.module:function")
    sys.path.insert(0, "")  # a module in the current folder is found, as by `python -m`
    try:
        function = getattr(importlib.import_module(module_name), name)
    except Exception as error:  # whatever the module does when it is imported
        raise UserError(f"{spec}: {type(error).__name__}: {first_line(error)}") from error
    finally:
        sys.path.remove("")
    if not callable(function):
        raise UserError(f"{spec} is no function")
    try:
        source = Path(inspect.getsourcefile(function) or "").read_bytes()
    except (TypeError, OSError):
        source = b""
    digest = hashlib.sha256(source).hexdigest()
    return function, {"model_sha256": digest, "model_files": {module_name: digest}}
