"""Whether the demo's encoders are what they claim to be: models that need no holdfast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from holdfast.encoding import encode_sentences
from holdfast.models import load_sentence_transformer

AGREES = 1e-5
"""Vectors of the reloaded model may differ by rounding, not by more."""

_RELOAD = """
import sys
sys.modules["holdfast"] = None  # from here on, importing holdfast fails
import json, numpy
from sentence_transformers import SentenceTransformer
*folders, file = sys.argv[1:]
sentences = json.load(sys.stdin)
numpy.save(file, [SentenceTransformer(folder).encode(sentences) for folder in folders])
"""


def reload_differences(folders: Sequence[Path], sentences: list[str]) -> dict[str, float]:
    """The largest difference of any coordinate between our vectors and those of plain sentence-transformers, by name.

    Args:
        folders: models whose vectors are equally long; the folder's name is the model's.
        sentences: what is encoded.
    """
    ours = [encode_sentences(load_sentence_transformer(str(folder)), sentences) for folder in folders]
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "vectors.npy"
        subprocess.run(
            [sys.executable, "-c", _RELOAD, *(str(folder.resolve()) for folder in folders), str(file)],
            input=json.dumps(sentences),
            text=True,
            cwd=scratch,  # not the user's folder, where a file could be called json.py
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            check=True,
        )
        theirs = np.load(file)
    return {folder.name: float(np.abs(a - b).max()) for folder, a, b in zip(folders, ours, theirs, strict=True)}
