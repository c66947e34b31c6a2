"""The head of a classifier that is fine-tuned further: kept if its classes are the task's, else reinitialised."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from holdfast.data.class_names import ClassNames
from holdfast.data.labels import ClassMatch, find_match, match_classes
from holdfast.errors import UserError


@dataclass(frozen=True)
class ClassifierHead:
    """The decision about the head of the classifier from which a run starts.

    Attributes:
        kept: True if the head is trained further, False if it is reinitialised.
        reason: reason of the decision.
        classes: the match between the classes of a kept head and the task's.
        drawn: names of parameters that are reinitialised although their sizes fit.
    """

    kept: bool
    reason: str
    classes: ClassMatch | None = None
    drawn: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return the decision as a line of text."""
        return f"the head is kept: {self.reason}" if self.kept else f"a new head is drawn: {self.reason}"

    def record(self) -> dict[str, Any]:
        """Return the decision as a record for the result."""
        match = {"class_match": self.classes.record()} if self.classes is not None else {}
        return {"kept": self.kept, "reason": self.reason, **match}


def decide_head(
    model: Any,
    report: Mapping[str, Any],
    existing: ClassNames,
    needed: ClassNames,
    task_has_scores: bool,
    label_map: Mapping[str, str] | None = None,
) -> ClassifierHead | None:
    """Keep the head of a loaded sequence classifier, with its rows in the task's order, or reinitialise its last layer.

    Args:
        model: the model as loaded for the task, with one output per class of the task, or one for its scores.
        report: the loading info of transformers: ``missing_keys`` and ``mismatched_keys``.
        existing: the classes in the model's own configuration.
        needed: the classes of the task.
        task_has_scores: True for a regression.
        label_map: the task's class for each class of the model; None: classes are matched by name.

    Returns:
        The decision; None if the model had no head.

    Raises:
        UserError: weights of the encoder, except a pooler's, are missing, or weights other than those of the last layer
            differ in size from config.json; the head has other classes and no final linear layer; or a label map does
            not fit the classes, or there is no head whose classes it could match.
    """
    spec = existing.owner
    name, layer = _last_layer(model, len(needed.names))
    last = {f"{name}.{parameter}" for parameter, _ in layer.named_parameters()} if layer is not None else set()
    _refuse_misfitting_body(model, report, last, spec)
    if last & set(report["missing_keys"]):
        if label_map is not None:
            raise UserError(f"--label-map is for classifiers, whose head is kept, and {spec} has no head: leave it out")
        return None
    if report["mismatched_keys"]:
        reason = f"{spec} has {_counted(existing)}, {needed.owner} has {_counted(needed, task_has_scores)}"
        if label_map is not None:
            raise UserError(f"--label-map: {reason}, so its head cannot be kept: leave it out")
        return ClassifierHead(False, reason)
    if task_has_scores:
        if label_map is not None:
            raise UserError(f"--label-map: {needed.owner} has scores, no classes: leave it out")
        return ClassifierHead(True, f"{spec} has one output, as a score has")
    match = find_match(existing, needed) if label_map is None else match_classes(existing, needed, label_map)
    if layer is None:
        if match is None or match.numbers != tuple(range(len(needed.names))):
            raise UserError(f"{spec} does not end in a linear layer that could be reinitialised for {needed.owner}")
    elif match is None:
        _draw(layer, model)
        reason = (
            f"{spec} has the classes {existing.listed()}, {needed.owner} has {needed.listed()}: the names do not match "
            "(--label-map keeps the head)"
        )
        return ClassifierHead(False, reason, drawn=tuple(sorted(last)))
    else:
        order = torch.tensor(match.numbers)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.copy_(parameter[order].clone())
    return ClassifierHead(True, match.describe(), match)


def _last_layer(model: nn.Module, outputs: int) -> tuple[str, nn.Linear | None]:
    """Return the name of the last linear layer with ``outputs`` outputs, and the layer."""
    layers = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module.out_features == outputs
    ]
    return layers[-1] if layers else ("", None)


def _refuse_misfitting_body(model: Any, report: Mapping[str, Any], last: Collection[str], spec: str) -> None:
    """Refuse weights that do not fit or do not fill the model below its last layer; a pooler may be missing."""
    for name, found, wanted in sorted(report["mismatched_keys"]):
        if name not in last:
            raise UserError(
                f"{spec}: the weights do not match config.json: {name} has the shape {_shape(found)}, which "
                f"should be {_shape(wanted)}"
            )
    body = {id(parameter) for parameter in model.base_model.parameters()} if model.base_model is not model else set()
    names = {name for name, parameter in model.named_parameters() if id(parameter) in body and "pooler." not in name}
    if missing := names & set(report["missing_keys"]):
        raise UserError(f"{spec}: the weights do not match config.json: {min(missing)} is missing")


def _shape(size: Sequence[int]) -> str:
    return " x ".join(map(str, size)) or "()"


def _counted(classes: ClassNames, scores: bool = False) -> str:
    count = len(classes.names)
    return "scores, one output" if scores else f"{count} classes" if count > 1 else "one output"


def _draw(layer: nn.Linear, model: Any) -> None:
    """Initialise a layer as transformers does for a new head."""
    nn.init.normal_(layer.weight, std=getattr(model.config, "initializer_range", 0.02))
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def draw_zeroed_pooler(model: Any) -> list[str]:
    """Reinitialise a pooler whose weights are all zero, and return the names of its parameters.

    If a weights file has no pooler, a SentenceTransformer stores its pooler as zeros (see
    :func:`holdfast.models.load_sentence_transformer`). With zeros, every text would have the same vector, and almost no
    gradient would reach the encoder.
    """
    new: list[str] = []
    for name, module in model.base_model.named_modules(prefix=model.base_model_prefix):
        parameters = dict(module.named_parameters(prefix=name))
        if name.rpartition(".")[2] != "pooler" or any(bool(value.any()) for value in parameters.values()):
            continue
        for parameter in (part.weight for part in module.modules() if isinstance(part, nn.Linear)):
            nn.init.normal_(parameter, std=getattr(model.config, "initializer_range", 0.02))
        new += parameters
    return new
