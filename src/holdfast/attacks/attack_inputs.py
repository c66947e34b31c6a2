"""Inputs of an attack run: the examples, and the model with its goal."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from holdfast.attacks.attack_settings import AttackSettings, Goal
from holdfast.attacks.encoder_targets import DriftTarget, EncoderTarget, halfway
from holdfast.attacks.examples import Example
from holdfast.attacks.retrieval_target import RetrievalTarget
from holdfast.attacks.score_scale import fitting_pairs
from holdfast.attacks.scored_pair_target import SCALE, ScoredPairTarget, fitted_scale
from holdfast.attacks.search_corpus import Searched, read_searched
from holdfast.attacks.targets import CallableTarget, ClassifierTarget, Target
from holdfast.backends.backend_options import Backend
from holdfast.data.class_names import ClassNames
from holdfast.data.labels import ClassMatch, match_classes
from holdfast.data.registry import Labelled, ScoredPairs, hidden_labels_note, is_local, load_labelled, load_pairs
from holdfast.data.tasks import Task, task_named
from holdfast.encoding import encode_sentences
from holdfast.endpoint import load_vector_function
from holdfast.errors import UserError, emit_notice
from holdfast.evaluation.pairing.compare_inputs import as_object
from holdfast.files import read_object
from holdfast.forms import FittedForm, Form, parse_form
from holdfast.input_limits import UNLIMITED, Cuts, count_cut, input_limit
from holdfast.model_lookup import is_function, model_identity, resolve_model
from holdfast.models import backend_of, load_sentence_transformer, read_as
from holdfast.progress import stage
from holdfast.runs.run_log import RUN_FILE
from holdfast.settings import refuse_given
from holdfast.text_prompts import prompt_of, prompt_protocol, refuse_prompts
from holdfast.user_functions import VectorFunction, load_function

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from holdfast.user_functions import SentenceEncoder

_SPLITS = ("test", "dev", "dev_matched", "all", "test_r1", "test_sample")


@dataclass(frozen=True)
class AttackInputs:
    """The examples of a run, in the order of the data, and their source.

    Attributes:
        task: the task's id, or "texts".
        classes: names of the labels, for the goal "class".
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
    read_as: dict[str, Any] = field(default_factory=dict)
    prompts: dict[str, str | None] = field(default_factory=dict)
    form: FittedForm | None = None


def load_inputs(settings: AttackSettings) -> AttackInputs:
    """Load the examples of a labelled task, of scored pairs, or of any texts.

    Raises:
        UserError: neither or both of task and texts, a goal that does not fit the data, an option of another goal, or
            data that cannot be loaded.
    """
    goal, task, data = settings.goal, settings.task, settings.data
    if (task is None) == (settings.texts is None):
        raise UserError("give either --task (a labelled task) or --texts (a corpus, for goals without labels)")
    if task is None:
        return _from_corpus(settings)
    known = task_named(task)
    split = settings.split or default_split(known, data)
    natural: Goal = "score" if known.kind == "sts" else "class"
    chosen = natural if goal == "auto" else goal
    if chosen in ("class", "score") and chosen != natural:
        raise UserError(f"--goal {chosen} does not go with {task}: its examples carry {_CARRIED[natural]}")
    refuse_of_other_goals(settings, chosen)
    found: ScoredPairs | Labelled
    labels: Sequence[float]
    if natural == "score":
        found = load_pairs(task, split, data=data, scale=SCALE if chosen == "score" else None)
        labels = found.scores
    else:
        found = load_labelled(task, split, data=data)
        labels = found.labels
    columns = [column for column in (found.sentences1, found.sentences2) if column is not None]
    numbered = enumerate(zip(zip(*columns, strict=True), labels, strict=True))
    rows = [Example(i, texts, len(texts) - 1, label) for i, (texts, label) in numbered]
    if chosen in ("drift", "neighbours"):
        rows = [Example(row.number, row.texts[:1]) for row in rows]
    classes, note = None, None
    if chosen == "class" and isinstance(found, Labelled):
        classes, note = found.classes, hidden_labels_note(found.classes, found.labels, found.source)
    searched = _searched(chosen, settings, Searched([row.texts[0] for row in rows], f"{task} {split}"))
    record = {"source": found.source, "sha256": found.sha256}
    notes = () if note is None else (note,)
    return AttackInputs(task, split, _drawn(rows, settings), chosen, classes, record, searched, notes)


_GOALS_OF: Mapping[str, Sequence[Goal]] = {
    "search": ("neighbours", "poison"),
    "k": ("neighbours",),
    "queries": ("poison",),
    "passages": ("poison",),
    "threshold": ("drift",),
    "margin": ("score",),
    "label_map": ("class",),
}
"""The goals that read an option, for options that others do not read."""


def refuse_of_other_goals(settings: AttackSettings, goal: Goal) -> None:
    """Refuse options that attacks with a goal do not read.

    Raises:
        UserError: one of them is given.
    """
    for name, goals in _GOALS_OF.items():
        if goal not in goals:
            reason = f"is for --goal {goals[0]}, and this is --goal {goal}: leave it out"
            refuse_given(settings, (name,), reason)


_CARRIED = {"score": "scores, not classes", "class": "classes, not scores"}


def _from_corpus(settings: AttackSettings) -> AttackInputs:
    goal, texts = settings.goal, settings.texts
    assert texts is not None
    if goal in ("class", "score"):
        raise UserError(f"--goal {goal} needs labels: give --task in place of --texts")
    chosen: Goal = "drift" if goal == "auto" else goal
    refuse_of_other_goals(settings, chosen)
    refuse_given(settings, ("split",), "is of a task, and --texts are sentences without labels: leave it out")
    # Examples of a very large corpus are sampled from its beginning.
    own = read_searched(texts, data=settings.data)
    rows = [Example(i, (line,)) for i, line in enumerate(own.texts)]
    record = {name: value for name, value in own.record().items() if name in ("source", "sha256", "sentences")}
    searched = _searched(chosen, settings, own)
    return AttackInputs("texts", "all", _drawn(rows, settings), chosen, None, record, searched)


def _searched(goal: Goal, settings: AttackSettings, own: Searched) -> Searched | None:
    """Return the texts to search: the given corpus, or else the texts of the source itself."""
    if goal != "neighbours":
        return None
    return own if settings.search is None else read_searched(settings.search, data=settings.data)


def _drawn(rows: list[Example], settings: AttackSettings) -> list[Example]:
    count = settings.examples
    if count is None or count >= len(rows):
        return rows
    return [rows[i] for i in sorted(random.Random(settings.seed).sample(range(len(rows)), count))]


def load_attacked_model(
    settings: AttackSettings, inputs: AttackInputs, console: Console | None = None
) -> tuple[AttackedModel, AttackInputs]:
    """Load the model as a target; return it, and the inputs with labels in the class order of the model.

    Raises:
        UserError: a model that does not fit the goal or cannot be loaded, classes that cannot be matched, or too few
            texts to search.
    """
    if inputs.searched is not None:
        inputs.searched.require(settings.k)
    form = None if settings.form is None else parse_form(settings.form)
    form = None if form == Form() else form
    if inputs.goal == "class":
        if form is not None:
            raise UserError(f"--as {form} is for goals that use vectors, and this is --goal class")
        return _classifier(settings, inputs)
    model, threshold = settings.model, settings.threshold
    sides_only = inputs.goal == "neighbours"
    encoder, identity = attacked_encoder(settings, sides_only=sides_only)
    if form is not None:
        form.require_of(encoder, model)
        if settings.search_form is not None:
            raise UserError(f"--search-backend searches without --as {form}: leave one of them out")
    target: EncoderTarget
    goal: dict[str, Any]
    if inputs.goal == "score":
        pairs = fitting_pairs(inputs.task, inputs.split, settings.data)
        fitted = _calibrated(form, encoder, [*pairs.first, *pairs.second])
        scale = fitted_scale(encoder, pairs.first, pairs.second, pairs.scores, lowest=pairs.lowest, form=fitted)
        target = ScoredPairTarget(encoder, source=model, scale=scale, margin=settings.margin, form=fitted)
        goal = {"margin": settings.margin, "scale": f"isotonic fit of scores on cosines, {pairs.source}"}
    elif inputs.goal == "drift":
        texts = list(dict.fromkeys(example.text for example in inputs.examples))
        fitted = _calibrated(form, encoder, texts)
        probe = DriftTarget(encoder, source=model, threshold=0.0, form=fitted)
        bound = halfway(probe, texts) if threshold is None else threshold
        target = DriftTarget(encoder, source=model, threshold=bound, form=fitted)
        goal = {"threshold": bound, "chosen": "half-way to other texts" if threshold is None else "given"}
    else:
        assert inputs.searched is not None
        with stage(console, "encoding what is searched", unit="texts") as message:
            searched = inputs.searched.texts
            target = RetrievalTarget(
                encoder, source=model, corpus=searched, k=settings.k, progress=message.update, form=form
            )
        goal = {"k": settings.k, "searched": inputs.searched.record()}
    device, prompts = str(encoder.device), prompt_protocol(encoder)
    attacked = AttackedModel(
        target, identity, goal, device, read_as=read_as(encoder), prompts=prompts, form=target.form
    )
    if (search := settings.search_form) is not None:
        target.search_model = load_sentence_transformer(
            model, device=settings.device, prompts=settings, sides_only=sides_only, backend=search
        )
        attacked = replace(attacked, read_as={**attacked.read_as, **_search_record(target.search_model, search)})
    return attacked, inputs


def _calibrated(form: Form | None, encoder: SentenceEncoder, texts: Sequence[str]) -> FittedForm | None:
    """Return the form calibrated on the distinct ones of some texts."""
    return None if form is None else form.fitted(encode_sentences(encoder, list(dict.fromkeys(texts))))


def cut_texts(target: Target, examples: Sequence[Example]) -> Cuts | None:
    """Count the examples that the target truncates; return None for a function, whose limit is unknown."""
    if isinstance(target, ClassifierTarget):
        classifier = target.classifier
        limit = None if classifier.max_tokens >= UNLIMITED else classifier.max_tokens
        return count_cut(classifier.tokenizer, [example.texts for example in examples], limit)
    if isinstance(target, EncoderTarget) and not isinstance(target.model, VectorFunction):
        prompt = prompt_of(target.model, target.role) or ""
        texts = [prompt + example.text for example in examples]
        return count_cut(target.model.tokenizer, texts, input_limit(target.model))
    return None


def _classifier(settings: AttackSettings, inputs: AttackInputs) -> tuple[AttackedModel, AttackInputs]:
    """Load the classifier; return it, and the inputs with labels in its class order."""
    model = settings.model
    task = ClassNames.of(inputs.task, inputs.classes or (), inputs.task)
    if settings.endpoint is not None:
        raise UserError(
            f"--goal class needs scores of classes, and {model} gives vectors: give --texts, or --goal drift or "
            "neighbours"
        )
    if is_function(model):
        refuse_prompts(settings, model)
        refuse_backends(settings, "is a function")
        function, identity = load_function(model)
        called = CallableTarget(function, name=model, call_batch=settings.call_batch, retries=settings.retries)
        names = ClassNames.of_columns(model, called.columns(inputs.examples))
        found = match_classes(names, task, settings.label_map)
        called.groups = found.groups
        return AttackedModel(called, identity, classes=found), _renumbered(inputs, found)
    from holdfast.attacks.classifier import load_classifier

    classifier = load_classifier(model, device=settings.device, prompts=settings, backend=settings.chosen_backend)
    found = match_classes(classifier.class_names, task, settings.label_map)
    identity = model_identity(folder := resolve_model(model))
    _warn_of_learnt_texts(folder, inputs)
    target = ClassifierTarget(classifier, found.groups)
    device, notes = str(classifier.device), read_as(classifier.model)
    if (form := settings.search_form) is not None:
        search = load_classifier(model, device=settings.device, prompts=settings, backend=form)
        target.search_classifier = search
        notes = {**notes, **_search_record(search.model, form)}
    prompts = prompt_protocol(classifier.model, sides=False)
    attacked = AttackedModel(target, identity, device=device, classes=found, read_as=notes, prompts=prompts)
    return attacked, _renumbered(inputs, found)


def _warn_of_learnt_texts(folder: Path, inputs: AttackInputs) -> None:
    """Emit a notice if the attacked texts are from the file that `holdfast finetune` trained the classifier on."""
    trained = as_object(as_object(read_object(folder / RUN_FILE).get("data")).get("train"))
    if (trained.get("split"), trained.get("sha256")) == (inputs.split, inputs.data["sha256"]):
        other = "--task textfooler/mr" if inputs.task == "mr" else "texts that it was not trained on"
        emit_notice(
            f"{folder.name} was trained on texts of {inputs.task} {inputs.split}, which are attacked here: this is "
            f"mostly the success on learnt texts; attack {other} for that on unseen ones"
        )


def attacked_encoder(settings: AttackSettings, *, sides_only: bool) -> tuple[SentenceEncoder, dict[str, Any]]:
    """Load the encoder; return it and its hashes."""
    model = settings.model
    if is_function(model):
        refuse_prompts(settings, model)
        refuse_backends(settings, "is a function")
        return load_vector_function(settings)
    folder = resolve_model(model)
    path = folder / "config.json"
    if path.is_file() and json.loads(path.read_text(encoding="utf-8")).get("problem_type") == "regression":
        raise UserError(  # it would be loaded as an encoder
            f"{model} gives one number for a text, and attacks need classes or vectors: name a classifier or an encoder"
        )
    encoder = load_sentence_transformer(
        model, device=settings.device, prompts=settings, sides_only=sides_only, backend=settings.chosen_backend
    )
    return encoder, model_identity(folder)


def _search_record(model: Any, form: Backend) -> dict[str, Any]:
    """Return the record of the form of the search for the protocol."""
    return {"search_backend": backend_of(model) or {"name": str(form)}}


def refuse_backends(settings: AttackSettings, reason: str) -> None:
    """Refuse ``backend`` and ``search_backend`` for what is no model.

    Raises:
        UserError: one of them is given.
    """
    given = {"--backend": not settings.chosen_backend.is_torch, "--search-backend": settings.search_form is not None}
    for option in (option for option, is_given in given.items() if is_given):
        raise UserError(f"{option} is for a model, and {settings.model} {reason}: leave it out")


def default_split(task: Task, data: Path | None) -> str:
    """Return the default split: the first of the preferred splits that is available locally, else the first one."""
    names = [split.name for split in task.splits]
    ordered = [name for name in _SPLITS if name in names] or names
    return next((name for name in ordered if is_local(task.name, name, data)), ordered[0])


def _renumbered(inputs: AttackInputs, found: ClassMatch) -> AttackInputs:
    """Return the inputs with labels in the class order of the model."""
    examples = [
        replace(example, label=found.numbers[example.label]) if isinstance(example.label, int) else example
        for example in inputs.examples
    ]
    return replace(inputs, examples=examples, classes=found.classes)
