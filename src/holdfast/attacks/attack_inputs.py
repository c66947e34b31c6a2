"""Inputs of an attack run: the examples, and the model with its goal."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.attacks.attack_settings import Goal
from holdfast.attacks.encoder_targets import (
    SCALE,
    DriftTarget,
    EncoderTarget,
    RetrievalTarget,
    ScoredPairTarget,
    fitted_scale,
    halfway,
)
from holdfast.attacks.examples import Example
from holdfast.attacks.search_corpus import Searched, read_searched
from holdfast.attacks.targets import CallableTarget, ClassifierTarget, Target
from holdfast.data.class_names import ClassNames
from holdfast.data.labels import ClassMatch, match_classes
from holdfast.data.registry import hidden_labels_note, is_local, load_labelled, load_pairs
from holdfast.data.tasks import Task, task_named
from holdfast.encoding import default_prompt
from holdfast.errors import UserError
from holdfast.input_limits import UNLIMITED, Cuts, count_cut, input_limit
from holdfast.model_lookup import CALL, CALL_BATCH, model_identity, resolve_model
from holdfast.models import load_sentence_transformer, read_as
from holdfast.progress import stage
from holdfast.user_functions import VectorFunction, load_function

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.user_functions import SentenceEncoder

_SPLITS = ("test", "dev", "dev_matched", "all", "test_r1", "test_sample")
_FIT = {"stsb": ("dev", "train"), "sickr": ("trial", "train")}
"""Splits for fitting the scale from cosines to human scores; the first one that is not attacked is used. SICK tasks use
SICK-R, all others STS-B."""


@dataclass(frozen=True)
class AttackInputs:
    """The examples of a run and their source.

    Attributes:
        task: the task's id, or "texts".
        split: its split.
        examples: the examples to attack, in the order of the data.
        goal: the goal of the attack.
        classes: names of the labels, if there are labels.
        data: source of the texts and their hash, for the result.
        searched: the corpus to search, for the goal "neighbours".
        notes: messages about the data for the user.
    """

    task: str
    split: str
    examples: list[Example]
    goal: Goal
    classes: list[str] | None
    data: dict[str, Any]
    searched: Searched | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class AttackedModel:
    """The target of a run, its record for the result, and the matching of its classes with those of the task."""

    target: Target
    identity: dict[str, Any]
    goal: dict[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    classes: ClassMatch | None = None
    read_as: dict[str, list[str]] = field(default_factory=dict)


def load_inputs(
    task: str | None,
    texts: str | None,
    *,
    split: str | None,
    goal: Goal,
    count: int | None,
    seed: int,
    data: Path | None,
    search: str | None = None,
) -> AttackInputs:
    """Load the examples of a labelled task, of scored pairs, or of any texts.

    Args:
        task: name of a task.
        texts: a corpus, if there is no task.
        split: split of the task; None: its test split, else its dev split, else all of it.
        goal: "auto" selects the goal by the type of the data.
        count: number of examples to sample, kept in the order of the data; None: all.
        seed: random seed of the sampling.
        data: the data folder.
        search: a corpus to search, for the goal "neighbours"; None: all texts of the same source, sampled or not.

    Raises:
        UserError: neither or both of task and texts, a goal that does not fit the data, a corpus to search with another
            goal, or data that cannot be loaded.
    """
    if search is not None and goal != "neighbours":
        raise UserError(f"--search {search} is for --goal neighbours, and this is --goal {goal}")
    if (task is None) == (texts is None):
        raise UserError("give either --task (a labelled task) or --texts (a corpus, for goals without labels)")
    if texts is not None:
        return _from_corpus(texts, goal, count, seed, data, search)
    assert task is not None
    known = task_named(task)
    part = split or _default_split(known, data)
    scored, note = known.kind == "sts", None
    natural: Goal = "score" if scored else "class"
    chosen = natural if goal == "auto" else goal
    if chosen in ("class", "score") and chosen != natural:
        raise UserError(f"--goal {chosen} does not go with {task}: its examples carry {_CARRIED[natural]}")
    if scored:
        pairs = load_pairs(task, part, data=data, scale=SCALE if chosen == "score" else None)
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
        note = hidden_labels_note(labelled.classes, labelled.labels, labelled.source)
    if chosen in ("drift", "neighbours"):
        rows = [Example(row.number, (row.texts[0],)) for row in rows]
        classes = None
    searched = _searched(chosen, search, Searched([row.texts[0] for row in rows], f"{task} {part}"), data)
    notes = () if note is None or chosen != "class" else (note,)
    return AttackInputs(task, part, _drawn(rows, count, seed), chosen, classes, record, searched, notes)


_CARRIED = {"score": "scores, not classes", "class": "classes, not scores"}


def _from_corpus(
    texts: str, goal: Goal, count: int | None, seed: int, data: Path | None, search: str | None
) -> AttackInputs:
    if goal in ("class", "score"):
        raise UserError(f"--goal {goal} needs labels: give --task in place of --texts")
    # Examples of a very large corpus are sampled from its beginning.
    own = read_searched(texts, data=data)
    rows = [Example(i, (line,)) for i, line in enumerate(own.texts)]
    record = {name: value for name, value in own.record().items() if name in ("source", "sha256", "sentences")}
    chosen: Goal = "drift" if goal == "auto" else goal
    searched = _searched(chosen, search, own, data)
    return AttackInputs("texts", "all", _drawn(rows, count, seed), chosen, None, record, searched)


def _searched(goal: Goal, search: str | None, own: Searched, data: Path | None) -> Searched | None:
    """Return the texts to search: the given corpus, or else the texts of the source itself."""
    if goal != "neighbours":
        return None
    return own if search is None else read_searched(search, data=data)


def _drawn(rows: list[Example], count: int | None, seed: int) -> list[Example]:
    if count is None or count >= len(rows):
        return rows
    return [rows[i] for i in sorted(random.Random(seed).sample(range(len(rows)), count))]


def load_attacked_model(
    model: str,
    material: AttackInputs,
    *,
    threshold: float | None,
    k: int,
    margin: float,
    data: Path | None,
    device: str | None,
    call_batch: int = CALL_BATCH,
    console: Console | None = None,
    label_map: Mapping[str, str] | None = None,
) -> tuple[AttackedModel, AttackInputs]:
    """Load the model as a target; return it, and the material with labels in the class order of the model.

    Args:
        model: a classifier for classes, an encoder for the other goals, or ``call:package.module:function``.
        material: the examples.
        threshold: cosine, for the goal "drift"; None: half-way between 1 and the mean cosine of the texts.
        k: number of neighbours, for the goal "neighbours".
        margin: margin in points, for the goal "score".
        data: the data folder.
        device: the device; None: the best one of the machine.
        call_batch: maximum number of texts per call of a function.
        console: console for the progress of long encodings; None: no output.
        label_map: the task's class for each class of the model, if they cannot be matched by name.

    Raises:
        UserError: a model that does not fit the goal or cannot be loaded, classes that cannot be matched, or too few
            texts to search.
    """
    if label_map is not None and material.goal != "class":
        raise UserError(f"--label-map is for --goal class, and this is --goal {material.goal}: leave it out")
    if material.searched is not None:
        material.searched.require(k)
    if material.goal == "class":
        return _classifier(model, material, device, call_batch, label_map)
    encoder, identity = _encoder(model, device, call_batch)
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
        assert material.searched is not None
        with stage(console, "encoding what is searched", unit="texts") as message:
            searched = material.searched.texts
            target = RetrievalTarget(encoder, source=model, corpus=searched, k=k, progress=message.update)
        goal = {"k": k, "searched": material.searched.record()}
    return AttackedModel(target, identity, goal, str(encoder.device), read_as=read_as(encoder)), material


def cut_texts(target: Target, examples: Sequence[Example]) -> Cuts | None:
    """Count the examples that the target truncates; return None for a function, whose limit is unknown.

    Args:
        target: the target of a victim.
        examples: the examples to attack.
    """
    if isinstance(target, ClassifierTarget):
        classifier = target.classifier
        limit = None if classifier.max_tokens >= UNLIMITED else classifier.max_tokens
        return count_cut(classifier.tokenizer, [example.texts for example in examples], limit)
    if isinstance(target, EncoderTarget) and not isinstance(target.model, VectorFunction):
        prompt = default_prompt(target.model) or ""
        texts = [prompt + example.text for example in examples]
        return count_cut(target.model.tokenizer, texts, input_limit(target.model))
    return None


def _classifier(
    model: str, material: AttackInputs, device: str | None, call_batch: int, label_map: Mapping[str, str] | None
) -> tuple[AttackedModel, AttackInputs]:
    """Load the classifier; return it, and the material with labels in its class order."""
    task = ClassNames.of(material.task, material.classes or (), material.task)
    if model.startswith(CALL):
        function, identity = load_function(model)
        called = CallableTarget(function, name=model, call_batch=call_batch)
        found = match_classes(ClassNames.of_columns(model, called.columns(material.examples)), task, label_map)
        called.groups = found.groups
        return AttackedModel(called, identity, classes=found), _renumbered(material, found)
    from holdfast.attacks.classifier import load_classifier

    classifier = load_classifier(model, device=device)
    found = match_classes(classifier.class_names, task, label_map)
    identity = model_identity(resolve_model(model))
    target = ClassifierTarget(classifier, found.groups)
    message = read_as(classifier.model)
    victim = AttackedModel(target, identity, device=str(classifier.device), classes=found, read_as=message)
    return victim, _renumbered(material, found)


def _encoder(model: str, device: str | None, call_batch: int) -> tuple[SentenceEncoder, dict[str, Any]]:
    """Load the encoder; return it and its hashes."""
    if model.startswith(CALL):
        return VectorFunction.named(model, call_batch=call_batch)
    _refuse_regression(model)
    return load_sentence_transformer(model, device=device), model_identity(resolve_model(model))


def _default_split(task: Task, data: Path | None) -> str:
    """Return the default split: the first of the preferred splits that is available locally, else the first one."""
    names = [split.name for split in task.splits]
    ordered = [name for name in _SPLITS if name in names] or names
    return next((name for name in ordered if is_local(task.name, name, data)), ordered[0])


def _refuse_regression(model: str) -> None:
    """Raise an error for a regression model, which would otherwise be loaded as an encoder."""
    path = resolve_model(model) / "config.json"
    if path.is_file() and json.loads(path.read_text(encoding="utf-8")).get("problem_type") == "regression":
        raise UserError(
            f"{model} gives one number for a text, and attacks need classes or vectors: name a classifier or an encoder"
        )


def _renumbered(material: AttackInputs, found: ClassMatch) -> AttackInputs:
    """Return the material with labels in the class order of the model."""
    order = found.numbers
    examples = [
        replace(example, label=order[example.label] if isinstance(example.label, int) else example.label)
        for example in material.examples
    ]
    return replace(material, examples=examples, classes=found.classes)
