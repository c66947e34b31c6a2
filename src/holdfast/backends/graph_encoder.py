"""A SentenceTransformer whose transformer is a graph; its tokeniser and all other modules stay what they are."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput

from holdfast.backends.backend_options import Backend
from holdfast.backends.graph_export import INPUTS, export_onnx, probes
from holdfast.backends.graph_files import GraphFile, GraphSource, graph_file
from holdfast.backends.graph_sessions import GraphSession, OnnxSession, OpenVinoSession
from holdfast.errors import UserError, emit_notice
from holdfast.input_limits import UNLIMITED
from holdfast.models import store_backend

_LONGEST_PROBE = 512
_OTHER_VECTORS = 0.5
"""Mean cosine of token vectors below which a graph cannot be a quantised form of the model's weights."""


class GraphTransformer(nn.Module):
    """A graph in place of a Hugging Face transformer, without gradients, on the CPU.

    Args:
        session: the compiled graph.
        config: the configuration of the transformer that it replaces.
        name: the graph, for messages.
    """

    device = torch.device("cpu")

    def __init__(self, session: GraphSession, config: Any, name: str) -> None:
        super().__init__()
        self.session, self.config = session, config
        unknown = [given for given, kind in session.inputs.items() if given not in INPUTS or kind is None]
        if unknown:
            raise UserError(
                f"{name}: the graph asks for {unknown[0]}, and a text has {', '.join(INPUTS)}: export it as an encoder"
            )

    def forward(self, **features: Any) -> BaseModelOutput:
        """Return the token vectors (B, L, d) of a padded batch; other features than the graph's inputs are ignored."""
        return BaseModelOutput(last_hidden_state=run_graph(self.session, features))


def run_graph(session: GraphSession, features: Mapping[str, Any]) -> Tensor:
    """Return the output of a graph for a padded batch; token types that the tokeniser does not give are zeros."""
    ids: Tensor = features["input_ids"]
    given = {name: features.get(name, torch.zeros_like(ids)) for name in session.inputs}
    arrays = {name: value.cpu().numpy().astype(session.inputs[name], copy=False) for name, value in given.items()}
    return torch.from_numpy(session.run(arrays))


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
    spec, backend = source.spec, source.backend
    text = (module.modality_config or {}).get("text", {})
    output = text.get("method_output_name")
    output = output[-1] if isinstance(output, (list, tuple)) else output
    if text.get("method") != "forward" or output != "last_hidden_state" or module.config.output_hidden_states:
        raise UserError(f"{spec}: its vectors are not the last hidden states of its transformer: use --backend torch")
    limit = min(module.max_seq_length or UNLIMITED, _LONGEST_PROBE)
    features = module.preprocess(["a"])
    batches = probes(module.tokenizer, tuple(name for name in INPUTS if name in features), limit)

    file = graph_file(source, lambda path: export_onnx(module.model, output, batches, path, spec))
    session = open_graph(backend, file.path)
    graph = GraphTransformer(session, module.config, f"{spec}: {file.name}")
    cosine = _agreement(module.model, graph, batches)
    if not cosine >= _OTHER_VECTORS:
        emit_notice(
            f"{spec}: {file.name} gives other vectors than the model's weights (mean cosine {cosine:.2f}): it may be "
            "of an older version of the model"
        )
    return graph, graph_record(file, session) | {"cosine_to_torch": round(cosine, 4)}


def open_graph(backend: Backend, path: Path) -> GraphSession:
    """Compile the graph in a file with the library of a backend."""
    if backend.library == "openvino":
        return OpenVinoSession(path, bf16=backend.name == "openvino-bf16")
    return OnnxSession(path)


def graph_record(file: GraphFile, session: GraphSession) -> dict[str, Any]:
    """Return the record of a graph for a result."""
    source = "exported by holdfast" if file.exported else "the model's folder"
    return {"library": session.version, "file": file.name, "from": source, "sha256": file.sha256}


@torch.inference_mode()
def _agreement(model: Any, graph: GraphTransformer, batches: list[dict[str, Tensor]]) -> float:
    """Return the mean cosine of the vectors of real tokens, by the graph and by torch, on random tokens."""
    cosines = []
    for batch in batches:
        pair = [run(**batch).last_hidden_state.float() for run in (model, graph)]
        if pair[0].shape != pair[1].shape:
            return -1.0
        real = batch["attention_mask"].bool()
        cosines.append(nn.functional.cosine_similarity(pair[0][real], pair[1][real], dim=-1).numpy())
    return float(np.concatenate(cosines).mean())
