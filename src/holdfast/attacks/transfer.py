"""Transferability of adversarial texts from one classifier to another (ADCL, Table 3)."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.attacks.classifier import Classifier, load_classifier
from holdfast.attacks.targets import Groups, merged
from holdfast.data.class_names import ClassNames
from holdfast.data.labels import ClassMatch, has_classes, match_classes
from holdfast.encoding import Progress
from holdfast.errors import UserError
from holdfast.evaluation.intervals import share_interval
from holdfast.model_lookup import model_identity, resolve_model
from holdfast.progress import stage
from holdfast.results import examples_of, new_result, read_result
from holdfast.text_prompts import PromptOptions, prompt_protocol

if TYPE_CHECKING:
    from rich.console import Console


def transferability(
    results: Sequence[Path],
    *,
    models: Sequence[str] | None = None,
    recipe: str | None = None,
    label_map: Mapping[str, str] | None = None,
    prompts: PromptOptions | None = None,
    console: Console | None = None,
    command: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Measure the success rates of the adversarial texts of some results on some classifiers.

    From each result, the texts that deceived the attacked model are used, if the other classifier predicts their
    originals correctly; the success rate is the share of these that it misclassifies, in fp32.

    Args:
        results: result files of attacks on classifiers.
        models: the classifiers to evaluate; None: the attacked ones.
        recipe: use only the texts of this recipe; None: all recipes.
        label_map: the task's class for each class of a classifier, for classifiers that have all of these classes. A
            classifier that was attacked with a label map uses that map again; the classes of all others are matched by
            name.
        prompts: the choice of a prompt for classifiers on frozen encoders; None: their defaults.
        console: console for a line per model.
        command: the command line, for the result.

    Returns:
        A result with a row ``{task, split, n, texts, recipe, made_against, made_in, on, class_match, metrics, items,
        items_sha256}`` for each result and classifier. ``n`` is the number of originals, ``texts`` that of their
        adversarial texts; those that several recipes made from one original are not separate items. The metrics are
        ``success_rate`` ×100, the mean over the originals, and its 95 % interval, ``success_rate_low`` and
        ``success_rate_high``; there are none if n is 0. ``items`` holds for each original the index of its first
        ``text`` among the result's examples, from 0, and the share of its texts whose prediction is ``correct``.
        ``items_sha256`` is the hash of these examples, by which `holdfast compare` pairs texts of the same attack.

    Raises:
        UserError: a file is not a result of an attack on a classifier, or the classes of a classifier cannot be matched
            with those of the task.
    """
    attacks = [(path, read_result(path)) for path in results]
    for path, result in attacks:
        if result["kind"] != "attack" or result["protocol"].get("goal", {}).get("kind") != "class":
            raise UserError(f"{path} is not the result of an attack on a classifier")
    examples = {path: examples_of(result, path) for path, result in attacks}
    successes = {path: _successes(rows, recipe, path) for path, rows in examples.items()}
    hashes = {path: _hash_of(rows) for path, rows in examples.items()}
    firsts = {path: _firsts(rows) for path, rows in examples.items()}
    names = list(models) if models is not None else list(dict.fromkeys(str(result["model"]) for _, result in attacks))
    if not names:
        raise UserError("--models names no classifier")
    # An error before any text is tried.
    identities = {name: model_identity(resolve_model(name))["model_sha256"] for name in names}
    rows: list[dict[str, Any]] = []
    unused = label_map is not None
    for name in names:
        with stage(console, f"loading {name}", announce=False):
            classifier = load_classifier(name, prompts=prompts)
        for path, result in attacks:
            first = result["results"][0]
            task, names_of = _task_of(result)
            given = label_map if label_map is not None and has_classes(classifier.class_names, label_map) else None
            unused = unused and given is None
            found = match_classes(classifier.class_names, task, given or _recorded_map(name, task, attacks))
            _print(console, found.describe())
            renumbered = _renumbered(successes[path], names_of, found, path)
            with stage(console, f"trying the texts of {path} on {name}", unit="texts") as message:
                correct = _tried(classifier, found.groups, renumbered, message.update)
            shares = _by_original(correct, firsts[path])
            rows.append(
                {
                    "task": first["task"],
                    "split": first["split"],
                    "n": len(shares),
                    "texts": len(correct),
                    "recipe": recipe or ", ".join(row["recipe"] for row in result["results"]),
                    "made_against": result["model"],
                    "made_in": str(path),
                    "on": name,
                    "class_match": found.record(),
                    **prompt_protocol(classifier.model, sides=False),
                    "metrics": _success_rate([1.0 - share for share in shares.values()]),
                    "items": {"text": list(shares), "correct": list(shares.values())},
                    "items_sha256": hashes[path],
                }
            )
    if unused:
        raise UserError(
            f"--label-map: no classifier of {', '.join(names)} has all the classes {', '.join(label_map or ())}"
        )
    return new_result(
        "transfer",
        command=command,
        model=", ".join(names),
        identity={"model_sha256": " ".join(identities.values()), "model_files": identities},
        protocol={"results": [str(path) for path in results], "recipe": recipe, "precision": "fp32"},
        seed=None,
        results=rows,
    )


def _successes(examples: Sequence[Mapping[str, Any]], recipe: str | None, path: Path) -> dict[int, Mapping[str, Any]]:
    """Return the successful examples of a recipe, or of all recipes if None, by index."""
    if recipe is not None and not any(row["recipe"] == recipe for row in examples):
        raise UserError(f"{path} holds no attack with the recipe {recipe}")
    return {
        number: row
        for number, row in enumerate(examples)
        if row["outcome"] == "succeeded" and recipe in (None, row["recipe"])
    }


def _firsts(examples: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return for each example the index of the first one with the same original."""
    found: dict[tuple[Any, ...], int] = {}
    return [found.setdefault((row.get("other"), row["original"]), number) for number, row in enumerate(examples)]


def _by_original(correct: Mapping[int, bool], firsts: Sequence[int]) -> dict[int, float]:
    """Return for each original the share of its texts that are predicted correctly, by its first example."""
    found: dict[int, list[float]] = {}
    for text, right in correct.items():
        found.setdefault(firsts[text], []).append(float(right))
    return {original: statistics.mean(each) for original, each in found.items()}


def _success_rate(deceived: Sequence[float]) -> dict[str, float]:
    """Return the mean share of an original's texts that deceive, ×100, with its 95 % interval; {} without any."""
    if not deceived:
        return {}
    found = (statistics.mean(deceived), *share_interval(deceived, seed=0))
    names = ("success_rate", "success_rate_low", "success_rate_high")
    return {name: 100.0 * value for name, value in zip(names, found, strict=True)}


def _hash_of(examples: Sequence[Mapping[str, Any]]) -> str:
    """Return the SHA-256 of an attack's examples, which does not depend on the file name or the timing."""
    names = ("recipe", "label", "other", "original", "adversarial")
    rows = [[row.get(name) for name in names] for row in examples]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _print(console: Console | None, line: str) -> None:
    if console is not None:
        console.print(line, markup=False, highlight=False)


def _task_of(result: Mapping[str, Any]) -> tuple[ClassNames, dict[int, str]]:
    """Return the classes of the attacked task, and the class name for each label of the examples.

    Older results, from before classes were matched by name, only have the classes of the attacked model.
    """
    task, protocol = str(result["results"][0]["task"]), result["protocol"]
    numbers = protocol.get("class_match", {}).get("numbers")
    if numbers is None:
        numbers = {str(name): number for number, name in enumerate(protocol.get("classes") or ())}
    return ClassNames.of(task, list(numbers), task), {number: name for name, number in numbers.items()}


def _recorded_map(
    model: str, task: ClassNames, attacks: Sequence[tuple[Path, Mapping[str, Any]]]
) -> dict[str, str] | None:
    """Return the label map of a result that attacked this model on a task with these classes, or None."""
    for _, result in attacks:
        match = result["protocol"].get("class_match", {})
        if result["model"] == model and match.get("by") == "label map" and set(match["matched"]) == set(task.names):
            return {name: task_class for task_class, names in match["matched"].items() for name in names}
    return None


def _renumbered(
    examples: Mapping[int, Mapping[str, Any]], names_of: Mapping[int, str], found: ClassMatch, path: Path
) -> dict[int, Mapping[str, Any]]:
    """Return the examples with labels in the class order of the classifier."""
    numbers = dict(zip(found.task, found.numbers, strict=True))
    if foreign := {row["label"] for row in examples.values()} - set(names_of):
        raise UserError(f"{path}: an example has the label {min(foreign)}, which is none of the result's classes")
    return {number: {**row, "label": numbers[names_of[row["label"]]]} for number, row in examples.items()}


def _tried(
    classifier: Classifier, groups: Groups | None, examples: Mapping[int, Mapping[str, Any]], progress: Progress
) -> dict[int, bool]:
    """Return, for originals predicted correctly, whether the adversarial text is predicted correctly, too."""
    kept = _right(classifier, groups, examples, "original", progress)
    right = _right(classifier, groups, {number: examples[number] for number in kept}, "adversarial", progress)
    return {number: number in right for number in kept}


def _right(
    classifier: Classifier,
    groups: Groups | None,
    examples: Mapping[int, Mapping[str, Any]],
    field: str,
    progress: Progress,
) -> dict[int, None]:
    """Return the indices of the examples whose text is predicted correctly."""
    if not examples:
        return {}
    texts = [_texts(row, row[field]) for row in examples.values()]
    logits = classifier.logits(texts, progress=progress).astype(np.float64)
    rows = zip(examples.items(), merged(logits, groups).argmax(axis=1), strict=True)
    return dict.fromkeys(number for (number, row), label in rows if label == row["label"])


def _texts(row: Mapping[str, Any], text: str) -> tuple[str, ...]:
    """Return the model input; the attacked text of a pair is the second one."""
    return (text,) if row.get("other") is None else (row["other"], text)
