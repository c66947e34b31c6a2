"""Whether texts that deceive one classifier deceive another (ADCL, Table 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.attacks.classifier import load_classifier
from holdfast.attacks.metrics import rate
from holdfast.errors import UserError
from holdfast.finding import model_identity, resolve_model
from holdfast.results import examples_of, new_result, read_result

if TYPE_CHECKING:
    from rich.console import Console


def transferability(
    results: Sequence[Path],
    *,
    models: Sequence[str] | None = None,
    recipe: str | None = None,
    console: Console | None = None,
    command: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Success rates of the adversarial texts of some results on some classifiers.

    Of each result the texts that deceived its own model are taken, and of these those whose original the other
    classifier has right; its rate is the share that it gets wrong, in fp32.

    Args:
        results: result files of attacks on classifiers.
        models: the classifiers to try; None: those that the results attacked.
        recipe: only this recipe's texts; None: of all recipes.
        console: for a line per model.
        command: for the record.

    Returns:
        A result with a row ``{task, split, n, recipe, made_against, made_in, on, metrics}`` for each result and
        classifier: ``n`` texts were tried, and the metrics are ``success_rate`` ×100 and its 95 % interval,
        ``success_rate_low`` and ``success_rate_high``. Where none could be tried, there are no metrics.

    Raises:
        UserError: a file that is no result of an attack on a classifier.
    """
    made = [(path, read_result(path)) for path in results]
    for path, result in made:
        if result["kind"] != "attack" or result["protocol"].get("goal", {}).get("kind") != "class":
            raise UserError(f"{path} is no result of an attack on a classifier")
    names = list(models) if models is not None else list(dict.fromkeys(str(result["model"]) for _, result in made))
    rows: list[dict[str, Any]] = []
    identities = {}
    for name in names:
        if console is not None:
            console.print(f"trying the texts on {name}", markup=False, highlight=False)
        classifier = load_classifier(name)
        identities[name] = model_identity(resolve_model(name))["model_sha256"]
        for path, result in made:
            all_examples = examples_of(result, path)
            examples = [row for row in all_examples if row["outcome"] == "succeeded"]
            if recipe is not None:
                examples = [row for row in examples if row["recipe"] == recipe]
                if not any(row["recipe"] == recipe for row in all_examples):
                    raise UserError(f"{path} holds no attack with the recipe {recipe}")
            first = result["results"][0]
            deceived = _tried(classifier, _numbered_as(classifier.classes, result, examples))
            rows.append(
                {
                    "task": first["task"],
                    "split": first["split"],
                    "n": len(deceived),
                    "recipe": recipe or ", ".join(row["recipe"] for row in result["results"]),
                    "made_against": result["model"],
                    "made_in": str(path),
                    "on": name,
                    "metrics": rate("success_rate", deceived, seed=0) if deceived else {},
                }
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


def _numbered_as(
    classes: Sequence[str], result: Mapping[str, Any], examples: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The examples with their labels as another classifier numbers its classes; by name where both have the same."""
    theirs = [str(name).lower() for name in result["protocol"].get("classes") or ()]
    ours = [name.lower() for name in classes]
    if sorted(theirs) != sorted(ours) or len(set(ours)) < len(ours):
        return list(examples)
    return [{**row, "label": ours.index(theirs[row["label"]])} for row in examples]


def _tried(classifier: Any, examples: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Of the originals that the classifier has right, whether it has the adversarial text wrong."""
    if not examples:
        return []
    originals = [_texts(row, row["original"]) for row in examples]
    before = classifier.logits(originals).argmax(axis=1)
    kept = [row for row, label in zip(examples, before, strict=True) if label == row["label"]]
    if not kept:
        return []
    after = classifier.logits([_texts(row, row["adversarial"]) for row in kept]).argmax(axis=1)
    return [bool(label != row["label"]) for row, label in zip(kept, after, strict=True)]


def _texts(row: Mapping[str, Any], text: str) -> tuple[str, ...]:
    """The attacked text of a pair is the second one."""
    return (text,) if row.get("other") is None else (row["other"], text)
