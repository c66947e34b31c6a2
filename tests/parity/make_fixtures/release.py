"""What the scripts that make fixtures share: reading the checkout, stand-ins for missing packages, writing numbers."""

from __future__ import annotations

import argparse
import json
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import recipe
import torch

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures"


def checkout(repository: str) -> Path:
    """Return the folder given on the command line, and put it first among the places of modules."""
    parser = argparse.ArgumentParser(description=f"make the fixture of {repository}")
    parser.add_argument("checkout", type=Path, help=f"a checkout of {repository}")
    folder: Path = parser.parse_args().checkout.resolve()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    torch.Tensor.cuda = lambda self, *_, **__: self  # type: ignore[method-assign, assignment]
    torch.Tensor.float = lambda self, *_, **__: self  # type: ignore[method-assign, assignment]
    sys.path.insert(0, str(folder))
    return folder


def without_its_tools(folder: Path, package: str) -> None:
    """Let the modules of a release's package be imported without its ``__init__``, which imports a search index."""
    module = types.ModuleType(package)
    module.__path__ = [str(folder / package)]
    sys.modules[package] = module


class _Anything(types.ModuleType):
    """A module that has every name, each a class without content."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def stand_in(*names: str, **contents: Any) -> None:
    """Put stand-ins in the place of packages that a release imports and its loss does not use."""
    for name in names:
        module = _Anything(name)
        module.__path__ = []
        vars(module).update(contents)
        sys.modules[name] = module


def bert_for_cl(release: Any, *, layers: int = 2, pooler: str = "cls", head: bool = True, **arguments: Any) -> Any:
    """Return a release's ``BertForCL``, SimCSE's class and its successors', in training mode with the recipe's weights.

    Args:
        release: the module that defines it.
        layers: of the backbone.
        pooler: SimCSE's ``pooler_type``; only with "cls" is there a head.
        head: fill the head.
        arguments: further fields of the release's ``model_args``.
    """
    from transformers import BertConfig  # ConSERT's scripts bring one of their own

    given = SimpleNamespace(pooler_type=pooler, temp=0.05, do_mlm=False, mlp_only_train=True, **arguments)
    made = release.BertForCL(BertConfig(num_hidden_layers=layers, **recipe.CONFIG), model_args=given).double().train()
    recipe.fill(made.bert)
    if pooler == "cls" and head:
        recipe.fill(made.mlp, "head.")
    return made


def drawing(torch_name: str, numbers: Callable[..., torch.Tensor]) -> None:
    """Let ``torch.<torch_name>`` return ``numbers(*shape)`` in place of random numbers."""

    def draw(*size: Any, **kwargs: Any) -> torch.Tensor:
        first = size[0]
        like = first.shape if isinstance(first, torch.Tensor) else first
        shape = tuple(like) if isinstance(like, (list, tuple, torch.Size)) else size
        return numbers(*shape).requires_grad_(bool(kwargs.get("requires_grad", False)))

    setattr(torch, torch_name, draw)


@dataclass(frozen=True)
class Call:
    """A call of a recorded function: its arguments and its result."""

    arguments: tuple[Any, ...]
    result: Any


def recording(function: Callable[..., Any], calls: list[Call]) -> Callable[..., Any]:
    """Return the function, whose calls are appended to a list."""

    def recorded(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        calls.append(Call(arguments, result))
        return result

    return recorded


def save(name: str, source: Mapping[str, Any], cases: Mapping[str, Any]) -> None:
    """Write a fixture."""
    FIXTURES.mkdir(exist_ok=True)
    text = json.dumps({"source": source, "cases": cases}, indent=1)
    (FIXTURES / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(text)
