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
import numpy.typing as npt

from holdfast.encoding import encode_sentences
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer

AGREES = 1e-5
"""Vectors of the reloaded model may differ by rounding, not by more."""
_TOLD = 400
"""Characters of what a process wrote last: an error's name and message stand at the end."""

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

    Raises:
        UserError: plain sentence-transformers cannot load them or encode with them.
    """
    ours = [encode_sentences(load_sentence_transformer(str(folder)), sentences) for folder in folders]
    theirs = _plain_vectors(folders, sentences)
    return {folder.name: float(np.abs(a - b).max()) for folder, a, b in zip(folders, ours, theirs, strict=True)}


def _plain_vectors(folders: Sequence[Path], sentences: list[str]) -> npt.NDArray[np.float32]:
    """Each model's vectors of the sentences, (models, sentences, d), by a process that cannot import holdfast."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "vectors.npy"
        done = subprocess.run(
            [sys.executable, "-c", _RELOAD, *(str(folder.resolve()) for folder in folders), str(file)],
            input=json.dumps(sentences),
            text=True,
            errors="replace",
            cwd=scratch,  # not the user's folder, where a file could be called json.py
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            check=False,
        )
        if done.returncode:
            end = done.stderr.strip()[-_TOLD:] or "it wrote nothing"
            names = ", ".join(folder.name for folder in folders)
            raise UserError(
                f"{names} could not be loaded without holdfast: that process ended with {done.returncode}: {end}"
            )
        vectors: npt.NDArray[np.float32] = np.load(file)
    return vectors
