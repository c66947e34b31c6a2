"""A sequence classifier that is run as a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers.modeling_outputs import SequenceClassifierOutput

from holdfast.backends.backend_options import Backend
from holdfast.backends.graph_export import INPUTS
from holdfast.backends.graph_files import GraphSource
from holdfast.backends.graph_of_model import GraphModel, graph_of, run_graph
from holdfast.models import store_backend


class GraphClassifier(GraphModel):
    """A graph in place of a Hugging Face sequence classifier, without gradients, on the CPU."""

    def forward(self, **features: Any) -> SequenceClassifierOutput:
        """Return the logits (B, classes) of a padded batch."""
        return SequenceClassifierOutput(logits=run_graph(self.session, features))


def graph_classifier(
    model: Any, tokenizer: Any, limit: int, backend: Backend, folder: Path, spec: str
) -> GraphClassifier:
    """Return the graph of a sequence classifier, for a backend that is not torch.

    Args:
        model: the classifier, on the CPU and in fp32.
        tokenizer: its tokeniser.
        limit: the maximum number of tokens of an input.
        backend: the backend.
        folder: the model's folder.
        spec: name of the model for messages.

    Raises:
        NotInstalled: the library of the backend is not installed.
        UserError: the graph cannot be made or read.
    """
    encoded = tokenizer("a")
    names = tuple(name for name in INPUTS if name in encoded)
    session, record = graph_of(model, "logits", tokenizer, names, limit, GraphSource(backend, folder, "", spec))
    graph = GraphClassifier(session, model.config)
    store_backend(graph, {"name": str(backend), "graphs": [record]})
    return graph
