"""The compiled graph of a transformer: read or exported, compared with torch, and described for results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.backends.backend_options import Backend
from holdfast.backends.graph_export import INPUTS, export_onnx, probes
from holdfast.backends.graph_files import PLAIN, GraphFile, GraphSource, graph_file
from holdfast.backends.graph_sessions import GraphSession, OnnxSession, OpenVinoSession
from holdfast.errors import UserError, emit_notice, first_line
from holdfast.models import evaluating

_LONGEST_PROBE = 512
_OTHER_VECTORS = 0.5
"""Mean cosine of outputs below which a graph cannot be a quantised form of the model's weights."""
_SAME_VECTORS = 0.99
"""The same of a graph that is not quantised, such as one that was left in a folder whose weights were trained on."""


class GraphModel(nn.Module):
    """A graph in place of a Hugging Face model, without gradients, on the CPU.

    Args:
        session: the compiled graph.
        config: the configuration of the model that it replaces.
    """

    device = torch.device("cpu")

    def __init__(self, session: GraphSession, config: Any) -> None:
        super().__init__()
        self.session, self.config = session, config


def run_graph(session: GraphSession, features: Mapping[str, Any]) -> Tensor:
    """Return the output of a graph for a padded batch; token types that the tokeniser does not give are zeros."""
    ids: Tensor = features["input_ids"]
    given = {name: features.get(name, torch.zeros_like(ids)) for name in session.inputs}
    arrays = {name: value.cpu().numpy().astype(session.inputs[name], copy=False) for name, value in given.items()}
    return torch.from_numpy(session.run(arrays))


def graph_of(
    model: Any, output: str, tokenizer: Any, names: tuple[str, ...], limit: int, source: GraphSource
) -> tuple[GraphSession, dict[str, Any]]:
    """Return the compiled graph of a model, and its record for a result.

    Args:
        model: the Hugging Face model, on the CPU and in fp32.
        output: the attribute of its output that the graph gives, ``"last_hidden_state"`` or ``"logits"``.
        tokenizer: its tokeniser.
        names: the inputs that the tokeniser gives, of `INPUTS`.
        limit: the maximum number of tokens of a text.
        source: the backend, and the folder of the model.

    Raises:
        NotInstalled: the library of the backend is not installed.
        UserError: the graph cannot be made or read, or it asks for inputs that a text does not have.
    """
    batches = probes(tokenizer, names, min(limit, _LONGEST_PROBE))
    file = graph_file(source, lambda path: export_onnx(model, output, batches, path, source.spec))
    session = _opened(source.backend, file)
    unknown = [given for given, kind in session.inputs.items() if given not in INPUTS or kind is None]
    if unknown:
        raise UserError(
            f"{source.spec}: {file.name}: the graph asks for {unknown[0]}, and a text has {', '.join(INPUTS)}: export "
            "it as an encoder"
        )
    cosine = _agreement(model, output, session, batches, f"{source.spec}: {file.name}")
    plain = source.backend.file is None and source.backend.name in PLAIN
    if not cosine >= (_SAME_VECTORS if plain else _OTHER_VECTORS):
        emit_notice(
            f"{source.spec}: {file.name} gives other vectors than the model's weights (mean cosine {cosine:.2f}): it "
            "may be of an older version of the model"
        )
    origin = "exported by holdfast" if file.exported else "the model's folder"
    record = {"library": session.version, "file": file.name, "from": origin, "sha256": file.sha256}
    return session, record | {"cosine_to_torch": round(cosine, 4)}


def _opened(backend: Backend, file: GraphFile) -> GraphSession:
    if backend.library == "openvino":
        return OpenVinoSession(file.path, bf16=backend.name == "openvino-bf16")
    return OnnxSession(file.path)


@torch.inference_mode()
def _agreement(model: Any, output: str, session: GraphSession, batches: list[dict[str, Tensor]], name: str) -> float:
    """Return the mean cosine of the outputs for real tokens, or texts, by the graph and by torch, on random tokens.

    Raises:
        UserError: the graph, ``name``, takes no batches of any length, or gives something else than the model.
    """
    cosines = []
    with evaluating(model):
        for batch in batches:
            expected = getattr(model(**batch), output).float()
            try:
                found = run_graph(session, batch)
            except Exception as error:  # each library has classes of its own
                raise UserError(
                    f"{name}: the graph does not take a batch of {tuple(batch['input_ids'].shape)} tokens "
                    f"({first_line(error)}): export it with free axes for texts and tokens"
                ) from error
            if expected.shape != found.shape:
                raise UserError(
                    f"{name}: the graph gives numbers of the shape {tuple(found.shape)}, and the model "
                    f"{tuple(expected.shape)}: export the vectors of the tokens (last_hidden_state)"
                )
            if expected.ndim == 3:
                real = batch["attention_mask"].bool()
                expected, found = expected[real], found[real]
            cosines.append(nn.functional.cosine_similarity(expected, found, dim=-1).numpy())
    return float(np.concatenate(cosines).mean())
