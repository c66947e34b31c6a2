"""Search for the parts of a transformer by one pass: the module whose output enters the first layer, and the layers.

No list of architectures is needed. Encoders have an ``embeddings`` module, ELECTRA and ALBERT project it, and decoders
have a bare table of token embeddings. Some models add or scale something in between, outside any module: these are
refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from holdfast.models import evaluating

_FOUND = "_holdfast_parts"
"""The attribute of a model with its parts, since objectives ask for them at each step."""
_ROWS, _LENGTH = 2, 3


@dataclass(frozen=True)
class BackboneParts:
    """The names of a backbone's parts below the module that was searched.

    Attributes:
        model: the Hugging Face model; "" if it was searched itself.
        embedding: the module whose output enters the first layer.
        layers: the list of layers.
        depth: number of layers that a pass goes through; ALBERT goes through the same ones several times.
    """

    model: str
    embedding: str
    layers: str
    depth: int


def find_parts(root: nn.Module, run: Callable[[dict[str, Any]], Any]) -> BackboneParts | str:
    """Return the names of the parts of the transformer in ``root``, or the reason why it has no such parts.

    The answer is kept on ``root``. The pass is made in evaluation mode without gradient, and draws no random numbers.

    Args:
        root: the Hugging Face model, or a module around it.
        run: runs it on ``input_ids`` and ``attention_mask``.
    """
    kept: BackboneParts | str | None = getattr(root, _FOUND, None)
    if kept is None or not _names_parts_of(root, kept):
        kept = _search(root, run)
        setattr(root, _FOUND, kept)
    return kept


def is_causal(root: nn.Module, run: Callable[[dict[str, Any]], Any]) -> bool:
    """Return True if the vector of a text's first token does not depend on the others, as in causal attention.

    Args:
        root: a sentence-transformers module around a Hugging Face model.
        run: runs it on features, to which it adds ``token_embeddings``.
    """
    features = _some_features(root)
    features["input_ids"][:, 0] = 1  # the other tokens of the two rows differ
    with evaluating(root), torch.no_grad():
        first, second = run(features)["token_embeddings"][:, 0]
    return torch.equal(first, second)


def _names_parts_of(root: nn.Module, kept: BackboneParts | str) -> bool:
    """Return False if modules have other names now, as after the model was wrapped for adapters."""
    if not isinstance(kept, BackboneParts):
        return False
    try:
        root.get_submodule(kept.layers)
        root.get_submodule(kept.embedding)
    except AttributeError:
        return False
    return True


def _search(root: nn.Module, run: Callable[[dict[str, Any]], Any]) -> BackboneParts | str:
    stacks = _outer_lists(root)
    inputs: dict[str, list[Any]] = {}  # of all layers, by the name of their list
    outputs: list[tuple[str, Any]] = []  # of the other modules, in the order in which they end

    def keep_input(name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            inputs.setdefault(name, []).append(args[0] if args else kwargs.get("hidden_states"))

        return hook

    def keep_output(name: str) -> Callable[..., None]:
        return lambda _module, _args, output: outputs.append((name, output))

    handles = [
        layer.register_forward_pre_hook(keep_input(name), with_kwargs=True)
        for name, layers in stacks.items()
        for layer in layers
    ]
    inside = tuple(f"{name}." for name in stacks)
    handles += [
        module.register_forward_hook(keep_output(name))
        for name, module in root.named_modules()
        if not name.startswith(inside)
    ]
    try:
        with evaluating(root), torch.no_grad():
            run(_some_features(root))
    except Exception as error:  # of any class: a backbone that cannot be run on two short rows is not supported
        return f"it cannot be run on token ids ({type(error).__name__})"
    finally:
        for handle in handles:
            handle.remove()
    if len(inputs) != 1:
        return "it has no single list of layers"
    [(layers, [entering, *further])] = inputs.items()
    if not isinstance(entering, Tensor) or entering.shape[:2] != (_ROWS, _LENGTH):
        return "its first layer takes no rows of token vectors"
    names = [name for name, output in outputs if output is entering]
    ends = [name for name, _ in outputs]
    # The last one is the outermost, and behind a dropout that does nothing now.
    if not names:
        return "it changes its embeddings, outside any module, before they enter the first layer"
    if ends.count(names[-1]) != 1:  # what is changed there would change there too
        return f"the module that gives its embeddings to the first layer ({names[-1]}) runs again elsewhere"
    return BackboneParts(_model_around(root, layers), names[-1], layers, 1 + len(further))


def _outer_lists(root: nn.Module) -> dict[str, Any]:
    """Return the lists of modules that are in no other list, by name."""
    found: dict[str, Any] = {}
    for name, module in root.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) and not name.startswith(tuple(f"{n}." for n in found)):
            found[name] = module
    return found


def _some_features(root: nn.Module) -> dict[str, Any]:
    """Return two rows of tokens."""
    device = next(root.parameters()).device
    ids = torch.arange(_ROWS * _LENGTH, device=device).view(_ROWS, _LENGTH)  # every vocabulary has so many
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _model_around(root: nn.Module, layers: str) -> str:
    """Return the name of the outermost Hugging Face model around a list of layers."""
    names = layers.split(".")
    paths = [".".join(names[:count]) for count in range(len(names))]
    return next(path for path in paths if isinstance(root.get_submodule(path), PreTrainedModel))
