"""Export of a torch model as an ONNX graph with free batch and length, and its int8 forms.

A graph is accepted only if it gives torch's numbers on batches of other shapes than the one that it was exported with:
an export can fix a length, or a mask, without an error.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.backends.graph_sessions import OnnxSession, import_library
from holdfast.errors import UserError, first_line
from holdfast.loading import COLOUR, quiet
from holdfast.models import evaluating
from holdfast.precision import processor

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""The inputs that a graph may have."""
TOLERANCE = 1e-4
"""Maximum difference of an exported graph's output from torch's, relative to the largest output above one."""

_OPSET = 18
_BLOCK = 128
"""Columns of a weight matrix that share a scale in the form whose activations are quantised by rows."""
_PROBES = ((9, 5), (16, 7, 2))
"""Lengths of the texts in the two batches that a graph is exported and checked with."""


class _Positional(nn.Module):
    """A transformer with positional inputs and one output, as the exporters need it."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], output: str) -> None:
        super().__init__()
        self.model, self._names, self._output = model, names, output

    def forward(self, *inputs: Tensor) -> Tensor:
        given = dict(zip(self._names, inputs, strict=True))
        found: Tensor = getattr(self.model(**given, return_dict=True), self._output)
        return found


def probes(tokenizer: Any, names: tuple[str, ...], limit: int) -> list[dict[str, Tensor]]:
    """Return two small batches of random tokens, padded as the tokeniser does; the same ones in every call.

    Args:
        tokenizer: the model's tokeniser.
        names: the inputs of the model, of `INPUTS`.
        limit: the maximum number of tokens of a text.
    """
    special = set(tokenizer.all_special_ids)
    words = [number for number in sorted(tokenizer.get_vocab().values()) if number not in special] or [0]
    random = np.random.default_rng(0)
    batches = []
    for lengths in _PROBES:
        rows = [random.choice(words, size=min(length, limit)).tolist() for length in lengths]
        padded = tokenizer.pad({"input_ids": rows}, padding=True, return_tensors="pt", return_attention_mask=True)
        padded["token_type_ids"] = torch.zeros_like(padded["input_ids"])
        batches.append({name: padded[name] for name in names})
    return batches


def export_onnx(model: nn.Module, output: str, batches: list[dict[str, Tensor]], path: Path, spec: str) -> None:
    """Export a transformer, on the CPU and in fp32, to an ONNX file with free batch and length.

    Args:
        model: the transformer.
        output: the attribute of its output that is exported, ``"last_hidden_state"`` or ``"logits"``.
        batches: inputs of two different shapes (`probes`), for the export and the check.
        path: the file to write.
        spec: name of the model for messages.

    Raises:
        NotInstalled: a library that is needed is not installed.
        UserError: no exporter gives a graph with torch's numbers.
    """
    names = tuple(batches[0])
    causes = []
    with _exportable(model) as eager:
        wrapped = _Positional(eager, names, output).eval()  # an exporter restores the mode that it finds, in all parts
        # The older exporter is 10 times as fast, and its graphs of BERT run faster in onnxruntime.
        for export in (_traced, _from_program):
            try:
                with _silent():
                    export(wrapped, names, output, batches[0], path)
                difference = max(_difference(wrapped, OnnxSession(path), batch) for batch in batches)
            except Exception as error:  # any error of two exporters
                if isinstance(error, ImportError):
                    import_library(error.name or "onnx", "an export to ONNX")
                causes.append(_cause(error))
                continue
            if difference <= TOLERANCE:
                return
            causes.append(f"its numbers differ from torch's by {difference:.1g}")
    kind = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
    raise UserError(f"{spec}: {kind} cannot be exported to ONNX ({causes[-1]}): use --backend torch")


def _cause(error: BaseException) -> str:
    """Return the first cause of an exporter's error: the outer ones are advice for the authors of the model."""
    while error.__cause__ is not None:
        error = error.__cause__
    return COLOUR.sub("", first_line(error))


def narrow_weights() -> bool:
    """Return whether this processor needs weights of 7 bits: without VNNI, sums of products of 8 bits saturate 16."""
    return "vnni" not in processor("flags") and "avx2" in processor("flags")


def quantise(source: Path, target: Path, *, by_rows: bool) -> None:
    """Write the int8 form of an ONNX graph: 8-bit weights with a scale per output column, 8-bit activations.

    Args:
        source: the fp32 graph.
        target: the file to write.
        by_rows: scale the activations per row and per block of columns, so that a text's vector does not depend on the
            other texts in its batch (``MatMulNBits``). Otherwise per batch, the dynamic quantisation of onnxruntime and
            of sentence-transformers' ``export_dynamic_quantized_onnx_model``, which is faster and less exact.
    """
    import_library("onnx", "int8")
    with _silent():
        if by_rows:
            import onnx
            from onnxruntime.quantization.matmul_nbits_quantizer import (
                DefaultWeightOnlyQuantConfig,
                MatMulNBitsQuantizer,
            )

            settings = DefaultWeightOnlyQuantConfig(block_size=_BLOCK, is_symmetric=True, accuracy_level=4, bits=8)
            quantiser = MatMulNBitsQuantizer(onnx.load(str(source)), algo_config=settings)
            quantiser.process()
            quantiser.model.save_model_to_file(str(target), False)
        else:
            from onnxruntime.quantization import QuantType, quantize_dynamic

            quantize_dynamic(
                source, target, weight_type=QuantType.QInt8, per_channel=True, reduce_range=narrow_weights()
            )


def _traced(model: nn.Module, names: tuple[str, ...], output: str, batch: Mapping[str, Tensor], path: Path) -> None:
    axes = {name: {0: "batch", 1: "length"} for name in (*names, output)}
    if output == "logits":
        axes[output] = {0: "batch"}
    given = tuple(batch.values())
    with torch.inference_mode():
        torch.onnx.export(
            model,
            given,
            str(path),
            dynamo=False,
            input_names=list(names),
            output_names=[output],
            dynamic_axes=axes,
            opset_version=_OPSET,
        )


def _from_program(
    model: nn.Module, names: tuple[str, ...], output: str, batch: Mapping[str, Tensor], path: Path
) -> None:
    import_library("onnxscript", "the export of this model to ONNX")
    free = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    with torch.no_grad():
        torch.onnx.export(
            model,
            tuple(batch.values()),
            str(path),
            dynamo=True,
            input_names=list(names),
            output_names=[output],
            dynamic_shapes=(tuple(free for _ in names),),  # one tuple, for forward's *inputs
            external_data=False,
            verbose=False,
        )


def _difference(model: nn.Module, session: OnnxSession, batch: Mapping[str, Tensor]) -> float:
    """Return the largest difference of a graph's output from torch's at real tokens."""
    with torch.inference_mode():
        expected = model(*batch.values()).float().numpy()
    found = session.run({name: value.numpy() for name, value in batch.items()})
    if found.shape != expected.shape:
        return float("inf")
    if expected.ndim == 3:
        real = batch["attention_mask"].bool().numpy()
        expected, found = expected[real], found[real]
    return float(np.abs(found - expected).max() / max(1.0, np.abs(expected).max()))


@contextlib.contextmanager
def _exportable(model: Any) -> Iterator[nn.Module]:
    """Set evaluation mode and the plain attention, which both exporters know; restore the model afterwards."""
    before = getattr(model.config, "_attn_implementation", None)
    with quiet(), evaluating(model):
        try:
            model.set_attn_implementation("eager")
            yield model
        finally:
            if before is not None:
                model.set_attn_implementation(before)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Suppress the warnings and log lines of the exporters, which concern their own future."""
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
