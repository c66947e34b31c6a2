"""`holdfast.load`: an entry's encoder where its weights are at hand, else one line on how to get them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from board_samples import board, entry
from sentence_transformers import SentenceTransformer

import holdfast
from holdfast.errors import UserError
from holdfast.model_lookup import bundled_model, model_identity


def test_published_entries_are_loaded_by_name() -> None:
    model = holdfast.load("bundled")
    assert isinstance(model, SentenceTransformer)
    assert holdfast.load("hashing").vectors(["a", "b"]).shape == (2, 384)


def test_what_is_no_encoder_or_not_known_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"^bm25 is a search by words, without vectors: use `holdfast evaluate --systems"
    ):
        holdfast.load("bm25")
    with pytest.raises(
        UserError, match=r"^no entry 'bundle' \(did you mean 'bundled'\?\)|^no entry 'bundle'.*'bundled'"
    ):
        holdfast.load("bundle")
    with pytest.raises(UserError, match=r"^no entry '\.\./x'"):
        holdfast.load("../x")


def test_a_folder_is_looked_for_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    folder = bundled_model("bundled")
    board(tmp_path, entry("mine", model_sha256=model_identity(folder)["model_sha256"], get="write to its owner"))
    with pytest.raises(
        UserError, match=r"^the weights of mine are not at hand \(there is no folder .*\): write to its owner$"
    ):
        holdfast.load("mine", board=tmp_path)
    shutil.copytree(folder, tmp_path / "cache/models/mine")
    assert holdfast.load("mine", board=tmp_path, device="cpu").device.type == "cpu"


def test_other_weights_than_the_measured_ones_are_refused(tmp_path: Path) -> None:
    board(tmp_path, entry("mine", source="bundled", get="pip install it"))
    with pytest.raises(
        UserError, match=r"^the weights of mine in .* are not those that were measured .*: pip install it$"
    ):
        holdfast.load("mine", board=tmp_path)


def test_a_package_that_is_not_installed_is_told(tmp_path: Path) -> None:
    board(tmp_path, entry("mine", source="package:no-such-package/model", get="pip install no-such-package"))
    with pytest.raises(
        UserError, match=r"\(the package no-such-package is not installed\): pip install no-such-package$"
    ):
        holdfast.load("mine", board=tmp_path)
