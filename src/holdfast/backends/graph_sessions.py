"""Running of a graph by onnxruntime or OpenVINO on the processor, with as many threads as torch uses."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from holdfast.errors import NotInstalled, UserError, first_line

Array = npt.NDArray[Any]

OUTPUTS = ("last_hidden_state", "token_embeddings", "logits")
"""Names of the outputs that are read; in a graph without these, the first output is."""
_TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "i64": np.int64, "i32": np.int32}


class GraphSession(Protocol):
    """A compiled graph.

    Attributes:
        inputs: the type of each input, by name.
        version: name and version of the library.
    """

    inputs: Mapping[str, Any]
    version: str

    def run(self, features: Mapping[str, Array]) -> npt.NDArray[np.float32]:
        """Return the output for the inputs."""


class OnnxSession:
    """A graph that onnxruntime runs.

    Args:
        path: the ``.onnx`` file.

    Raises:
        NotInstalled: onnxruntime is not installed.
        UserError: it cannot read the file.
    """

    def __init__(self, path: Path) -> None:
        import torch

        library = import_library("onnxruntime", "--backend onnx")
        options = library.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
        options.log_severity_level = 3  # errors, which are raised, too
        try:
            self._session = library.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has a class of its own for each kind of error
            raise UserError(f"{path}: onnxruntime cannot read the graph: {first_line(error)}") from error
        self.inputs: Mapping[str, Any] = {given.name: _TYPES.get(given.type) for given in self._session.get_inputs()}
        self._output = _chosen(given.name for given in self._session.get_outputs())
        self.version = _version("onnxruntime")

    def run(self, features: Mapping[str, Array]) -> npt.NDArray[np.float32]:
        """Return the output for the inputs."""
        (found,) = self._session.run([self._output], dict(features))
        return np.asarray(found, dtype=np.float32)


class OpenVinoSession:
    """A graph that OpenVINO runs.

    Args:
        path: an ``.xml`` file with its ``.bin``, or an ``.onnx`` file.
        bf16: compute in bf16.

    Raises:
        NotInstalled: openvino is not installed.
        UserError: it cannot read the file.
    """

    def __init__(self, path: Path, *, bf16: bool) -> None:
        import torch

        library = import_library("openvino", "--backend openvino")
        settings = {"INFERENCE_PRECISION_HINT": "bf16" if bf16 else "f32", "NUM_STREAMS": 1}
        settings |= {"INFERENCE_NUM_THREADS": torch.get_num_threads()}
        try:
            core = library.Core()
            compiled = core.compile_model(core.read_model(str(path)), "CPU", settings)
        except Exception as error:  # RuntimeError, and others of its parsers
            raise UserError(f"{path}: OpenVINO cannot read the graph: {first_line(error)}") from error
        self._request = compiled.create_infer_request()
        self.inputs: Mapping[str, Any] = {
            given.get_any_name(): _TYPES.get(given.get_element_type().get_type_name()) for given in compiled.inputs
        }
        outputs = {name: output for output in compiled.outputs for name in output.get_names()}
        self._output = outputs[_chosen(outputs)] if outputs else compiled.outputs[0]
        self.version = _version("openvino")

    def run(self, features: Mapping[str, Array]) -> npt.NDArray[np.float32]:
        """Return the output for the inputs."""
        found = self._request.infer(dict(features))[self._output]
        return np.array(found, dtype=np.float32)  # a copy: the next batch overwrites the library's memory


def import_library(name: str, needed_by: str) -> Any:
    """Import an optional library.

    Raises:
        NotInstalled: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NotInstalled(f"{needed_by} needs {name}: pip install 'holdfast[backends]'") from error


def _version(library: str) -> str:
    return f"{library} {importlib.metadata.version(library)}"


def _chosen(names: Any) -> str:
    found = list(names)
    return next((name for name in OUTPUTS if name in found), found[0])
