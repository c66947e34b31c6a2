"""A SentenceTransformer whose transformer is a graph; its tokeniser and all other modules stay what they are."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from torch import nn
from transformers.modeling_outputs import BaseModelOutput

from holdfast.backends.backend_options import Backend
from holdfast.backends.graph_export import INPUTS
from holdfast.backends.graph_files import GraphSource
from holdfast.backends.graph_of_model import GraphModel, graph_of, run_graph
from holdfast.errors import UserError
from holdfast.input_limits import UNLIMITED
from holdfast.models import store_backend


class GraphTransformer(GraphModel):
    """A graph in place of a Hugging Face transformer, without gradients, on the CPU."""

    def forward(self, **features: Any) -> BaseModelOutput:
        """Return the token vectors (B, L, d) of a padded batch; other features than the graph's inputs are ignored."""
        return BaseModelOutput(last_hidden_state=run_graph(self.session, features))


def with_backend(model: SentenceTransformer, backend: Backend, folder: Path, spec: str) -> SentenceTransformer:
    """Return a copy of a model whose transformers are run by a backend; it shares all other modules with the model.

    A graph is read from the model's folder (``onnx/model.onnx``, ``openvino/openvino_model.xml``, or the named file),
    or exported into the cache of holdfast, keyed by the model's files. The copy runs on the CPU.

    Args:
        model: a loaded model, on the CPU and in fp32.
        backend: the backend.
        folder: the model's folder.
        spec: name of the model for messages.

    Raises:
        NotInstalled: the library of the backend is not installed.
        UserError: the model has no transformer, or one that no graph can replace; or the graph cannot be read.
    """
    if backend.is_torch:
        return model
    records: list[dict[str, Any]] = []
    changed = _replaced(model, "", backend, folder, spec, records)
    if not records:
        raise UserError(f"{spec} has no transformer for --backend {backend}: leave the option out")
    store_backend(changed, {"name": str(backend), "graphs": records})
    result: SentenceTransformer = changed.eval()
    return result


def _replaced(
    module: nn.Module,
    name: str,
    backend: Backend,
    folder: Path,
    spec: str,
    records: list[dict[str, Any]],
) -> Any:
    """Return a module, or a copy of it in which all transformers are graphs; their records are added to ``records``."""
    if isinstance(module, Transformer):
        source = GraphSource(backend, folder, name.removeprefix("."), spec)
        graph, record = _graph_of(module, source)
        records.append(record)
        changed: Any = copy.copy(module)
        changed._modules = {**module._modules, "model": graph}
        changed.backend = backend.library  # otherwise sentence-transformers may join the texts of a batch
        return changed
    children = {
        key: child if child is None else _replaced(child, f"{name}.{key}", backend, folder, spec, records)
        for key, child in module._modules.items()
    }
    if all(children[key] is child for key, child in module._modules.items()):
        return module
    changed = copy.copy(module)
    changed._modules = children
    return changed


def _graph_of(module: Any, source: GraphSource) -> tuple[GraphTransformer, dict[str, Any]]:
    """Return the graph in place of a Transformer module, and its record."""
    text = (module.modality_config or {}).get("text", {})
    output = text.get("method_output_name")
    output = output[-1] if isinstance(output, (list, tuple)) else output
    if text.get("method") != "forward" or output != "last_hidden_state" or module.config.output_hidden_states:
        raise UserError(
            f"{source.spec}: its vectors are not the last hidden states of its transformer: use --backend torch"
        )
    features = module.preprocess(["a"])
    names = tuple(name for name in INPUTS if name in features)
    limit = module.max_seq_length or UNLIMITED
    session, record = graph_of(module.model, output, module.tokenizer, names, int(limit), source)
    return GraphTransformer(session, module.config), record
