"""The file of a graph: in the model's folder, as sentence-transformers stores it, or an export in holdfast's cache.

The cache, ``$HOLDFAST_CACHE/graphs``, has a folder for each model and version of the libraries, with the files
``onnx/model.onnx`` and so on: such a folder ``onnx`` may be copied into the model's own.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.backends.backend_options import Backend
from holdfast.backends.graph_export import narrow_weights, quantise
from holdfast.errors import UserError, did_you_mean
from holdfast.files import atomic_path, cache_folder, sha256
from holdfast.folder_checks import check_files
from holdfast.model_folder import TRANSFORMERS, model_modules
from holdfast.model_lookup import model_identity

_VERSION = 2
"""Part of the names in the cache; it is raised when exports change."""
_IN_FOLDER = {
    "onnx": "onnx/model.onnx",
    "openvino": "openvino/openvino_model.xml",
    "openvino-bf16": "openvino/openvino_model.xml",
}
"""The files that sentence-transformers stores in a model's folder."""
PLAIN = tuple(_IN_FOLDER)
"""The backends that read such a file, which is not quantised."""
_CACHED = {
    "onnx": "onnx/model.onnx",
    "onnx-int8": "onnx/model_int8.onnx",
    "onnx-int8-rows": "onnx/model_int8_rows.onnx",
    "openvino": "onnx/model.onnx",  # which OpenVINO reads as it is
    "openvino-bf16": "onnx/model.onnx",
}
_LIBRARIES = ("torch", "transformers", "onnxruntime")


@dataclass(frozen=True)
class GraphFile:
    """A file with a graph.

    Attributes:
        path: its path.
        name: its path below the model's folder or below the model's folder in the cache.
        exported: it is in the cache.
        sha256: its hash; of an OpenVINO graph, that of the ``.xml`` and the ``.bin`` together.
    """

    path: Path
    name: str
    exported: bool
    sha256: str


@dataclass(frozen=True)
class GraphSource:
    """Origin of the graph of a transformer.

    Attributes:
        backend: the backend that runs it.
        root: the folder of the model.
        module: name of the transformer in the model, such as ``"0"``.
        spec: name of the model for messages.
    """

    backend: Backend
    root: Path
    module: str
    spec: str


def graph_file(source: GraphSource, export: Callable[[Path], None]) -> GraphFile:
    """Return the graph: the one in the model's folder, else the one in the cache, which is made if it is not there.

    Args:
        source: the model and the backend.
        export: writes the fp32 ONNX graph to a path.

    Raises:
        UserError: the user named a file that is not there, or the file is a link to outside of the model.
    """
    return _graph_in_folder(source) or _cached_graph(source, source.backend.name, export)


def _graph_in_folder(source: GraphSource) -> GraphFile | None:
    """Return the graph that the model's own folder holds; None if it must be exported."""
    backend, root, spec = source.backend, source.root, source.spec
    name = f"{backend.library}/{backend.file}" if backend.file is not None else _IN_FOLDER.get(backend.name)
    if name is None:
        return None
    own = [module.folder for module in model_modules(root) if module.kind in TRANSFORMERS]
    for folder in dict.fromkeys((*own, root)) if len(own) == 1 else ():  # of several it would not be known whose it is
        path = folder / name
        if path.is_file():
            for place in {folder / backend.library, path.parent}:
                check_files(place, root, spec)
            return GraphFile(path, path.relative_to(root).as_posix(), False, _hash_of(path))
    if backend.file is None:
        return None
    there = sorted(file.name for file in (root / backend.library).glob("*") if file.suffix == Path(name).suffix)
    hint = did_you_mean(backend.file, there) or (f": there is {', '.join(there)}" if there else "")
    raise UserError(f"{spec} has no {name}{hint}")


def _cached_graph(source: GraphSource, name: str, export: Callable[[Path], None]) -> GraphFile:
    """Return the graph of a backend's name from the cache, after making it if it is not there."""
    identity = model_identity(source.root)
    key = {
        "version": _VERSION,
        "files": identity["model_files"],
        "sha256": identity["model_sha256"],  # of an adapter, its base is in this alone
        "module": source.module,
        "libraries": [importlib.metadata.version(library) for library in _LIBRARIES],
    }
    if name == "onnx-int8" and narrow_weights():  # a cache shared between machines has a graph for either processor
        key["narrow"] = True
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:20]
    path = cache_folder("graphs") / digest / _CACHED[name]
    if not path.is_file():
        whole = _cached_graph(source, "onnx", export).path if name.startswith("onnx-int8") else None
        with atomic_path(path) as temporary:
            if whole is None:
                export(temporary)
            else:
                quantise(whole, temporary, by_rows=name == "onnx-int8-rows")
    return GraphFile(path, _CACHED[name], True, _hash_of(path))


def _hash_of(path: Path) -> str:
    """Return the hash of a graph's file, and of the files beside it that hold its weights."""
    beside = [path.with_suffix(".bin")] if path.suffix == ".xml" else sorted(path.parent.glob(f"{path.name}*data"))
    hashes = [sha256(file) for file in (path, *beside) if file.is_file()]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
