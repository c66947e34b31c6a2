"""Check that the demo's encoders work without holdfast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from holdfast.encoding import encode_sentences
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer

AGREES = 1e-5
"""Largest accepted difference of a reloaded model's vectors, for rounding."""
_SHOWN_CHARS = 400
"""Number of last characters of a process's output to show: an error's name and message are at the end."""

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
    """Return, by name, the largest difference of a coordinate of holdfast's and plain sentence-transformers' vectors.

    Args:
        folders: folders of models with the same dimension; a folder's name is the model's name.
        sentences: the sentences to encode.

    Raises:
        UserError: plain sentence-transformers cannot load the models or encode with them.
    """
    vectors = [encode_sentences(load_sentence_transformer(str(folder)), sentences) for folder in folders]
    reloaded = _plain_vectors(folders, sentences)
    return {folder.name: float(np.abs(a - b).max()) for folder, a, b in zip(folders, vectors, reloaded, strict=True)}


def _plain_vectors(folders: Sequence[Path], sentences: list[str]) -> npt.NDArray[np.float32]:
    """Return the models' vectors, (models, sentences, d), from a process that cannot import holdfast."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "vectors.npy"
        process = subprocess.run(
            [sys.executable, "-c", _RELOAD, *(str(folder.resolve()) for folder in folders), str(file)],
            input=json.dumps(sentences),
            text=True,
            errors="replace",
            cwd=scratch,  # not the user's folder, which could have a file json.py
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            check=False,
        )
        if process.returncode:
            end = process.stderr.strip()[-_SHOWN_CHARS:] or "no error output"
            names = ", ".join(folder.name for folder in folders)
            raise UserError(f"{names} could not be loaded without holdfast: exit code {process.returncode}: {end}")
        vectors: npt.NDArray[np.float32] = np.load(file)
    return vectors
