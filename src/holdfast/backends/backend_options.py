"""The choice of a backend: its name, the file of a graph, and the option that several verbs share.

This module imports nothing heavy, since settings classes are made from its options.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Literal

from holdfast.errors import UserError, did_you_mean
from holdfast.model_folder import inside
from holdfast.precision import Precision
from holdfast.settings import Spelling

Library = Literal["torch", "onnx", "openvino"]

BACKENDS: dict[str, Library] = {
    "torch": "torch",
    "onnx": "onnx",
    "onnx-int8": "onnx",
    "onnx-int8-rows": "onnx",
    "openvino": "openvino",
    "openvino-bf16": "openvino",
}
"""The library that runs each backend."""
_SHORT = {"int8": "onnx-int8"}
_ENDING: dict[Library, str] = {"onnx": ".onnx", "openvino": ".xml"}


@dataclass(frozen=True)
class Backend:
    """A choice of `BACKENDS`.

    Attributes:
        name: its name.
        file: the graph to read, below the folder ``onnx`` or ``openvino`` of the model; None: the folder's usual one,
            or else an export of the model.
    """

    name: str = "torch"
    file: str | None = None

    @classmethod
    def parse(cls, text: str, option: str = "--backend") -> Backend:
        """Read ``NAME`` or ``NAME=FILE``; ``int8`` is short for ``onnx-int8``.

        Raises:
            UserError: there is no such backend, it reads no file, or the file is not below the model's folder.
        """
        given, equals, file = text.partition("=")
        name = _SHORT.get(given, given)
        if name not in BACKENDS:
            known = ", ".join(BACKENDS)
            raise UserError(f"{option}: no backend {given!r}{did_you_mean(given, BACKENDS)}: it is one of {known}")
        if not equals:
            return cls(name)
        ending = _ENDING.get(BACKENDS[name])
        if name not in _ENDING:
            raise UserError(f"{option} {text}: only onnx=FILE and openvino=FILE read a file of the model's folder")
        if not inside(file) or PurePosixPath(file).suffix != ending:
            raise UserError(f"{option} {text}: give a {ending} file below the folder {name} of the model")
        return cls(name, file)

    @property
    def library(self) -> Library:
        """The library that runs it."""
        return BACKENDS[self.name]

    @property
    def is_torch(self) -> bool:
        """True if the model is run as it was loaded."""
        return self.library == "torch"

    def __str__(self) -> str:
        return self.name if self.file is None else f"{self.name}={self.file}"


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """The option that chooses the backend of a model.

    Attributes:
        backend: Form in which the transformer is run: torch; onnx or openvino (a graph in the model's folder onnx or
            openvino, else an export of the model); onnx-int8; onnx-int8-rows; openvino-bf16; or onnx=FILE,
            openvino=FILE, a graph of that folder.
    """

    backend: Annotated[str, Spelling(metavar="NAME")] = "torch"

    @property
    def chosen_backend(self) -> Backend:
        """The parsed option."""
        return Backend.parse(self.backend)


def refuse_precision(backend: Backend, precision: Precision) -> None:
    """Refuse bf16 as a precision of torch for a graph, whose precision is fixed.

    Raises:
        UserError: the precision is bf16 and the backend not torch.
    """
    if not backend.is_torch and precision == "bf16":
        raise UserError(f"--precision bf16 is for torch, and this is --backend {backend}: use --backend openvino-bf16")
