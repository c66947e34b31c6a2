"""Cosines of sentence vectors, what is remembered of them, and where a threshold comes from."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from holdfast.attacks import text_similarity
from holdfast.attacks.text_similarity import USE_HANDLES, SentenceSimilarity, encoder_identity, split_spec
from holdfast.errors import UserError

VECTORS = {"east": [2.0, 0.0], "north": [0.0, 3.0], "north-east": [1.0, 1.0], "nowhere": [0.0, 0.0]}


class Encoder:
    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.asked.append(list(texts))
        return np.array([VECTORS[text] for text in texts], dtype=np.float32)


class TestCosines:
    def test_of_pairs(self) -> None:
        found = SentenceSimilarity(Encoder(), source="compass")
        pairs = [("east", "north"), ("north-east", "east"), ("north", "north"), ("nowhere", "east")]
        assert found.cosines(pairs) == [0.0, 0.70711, 1.0, 0.0]
        assert found.cosines([]) == []
        assert found.source == "compass"

    def test_each_text_is_encoded_once(self) -> None:
        encoder = Encoder()
        found = SentenceSimilarity(encoder, source="")
        found.cosines([("east", "north"), ("east", "north-east")])
        found.cosines([("east", "nowhere"), ("north", "nowhere")])
        assert encoder.asked == [["east", "north", "north-east"], ["nowhere"]]

    def test_the_memory_is_bounded_and_forgets_the_oldest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(text_similarity, "_MEMO", 2)
        encoder = Encoder()
        found = SentenceSimilarity(encoder, source="")
        found.cosines([("east", "north")])
        found.cosines([("east", "north-east")])  # north is the one used longest ago
        found.cosines([("east", "north-east")])
        assert found.cosines([("north", "east"), ("north-east", "nowhere")]) == [0.0, 0.0]  # more than it keeps
        assert encoder.asked == [["east", "north"], ["north-east"], ["north", "nowhere"]]

    def test_a_remembered_vector_does_not_keep_its_batch(self) -> None:
        found = SentenceSimilarity(Encoder(), source="")
        found.cosines([("east", "north")])
        assert all(vector.base is None for vector in found._units._known.values())


def test_a_real_encoder(make_encoder_model: Callable[..., Any], tmp_path: Path, sentences: list[str]) -> None:
    model = make_encoder_model(pooling="mean")
    model.save_pretrained(str(tmp_path / "encoder"))
    found = SentenceSimilarity.read(str(tmp_path / "encoder"), device="cpu")
    vectors = model.encode(sentences, normalize_embeddings=True)
    pairs = list(zip(sentences[1:], sentences[:-1], strict=True))
    expected = [float(a @ b) for a, b in zip(vectors[1:], vectors[:-1], strict=True)]
    assert found.cosines(pairs) == pytest.approx(expected, abs=2e-5)
    alone = SentenceSimilarity.read(str(tmp_path / "encoder"), device="cpu")
    assert [alone.cosines([pair])[0] for pair in pairs] == pytest.approx(found.cosines(pairs), abs=1.1e-5)
    assert found.source == f"{tmp_path / 'encoder'}, thresholds of USE taken over, not calibrated"
    assert found.threshold(0.8776) == 0.8776


class TestThresholds:
    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            ("use", ("use", "")),
            ("use@0.8", ("use", "0.8")),
            ("owner/name@-1", ("owner/name", "-1")),
            ("name@.5", ("name", ".5")),
            ("name@dir/c.json", ("name", "dir/c.json")),
            ("me@home", ("me@home", "")),
            ("me@home@0.7", ("me@home", "0.7")),
        ],
    )
    def test_spec(self, spec: str, expected: tuple[str, str]) -> None:
        assert split_spec(spec) == expected

    def test_as_published_or_one_or_between_calibrated_ones(self) -> None:
        assert SentenceSimilarity(Encoder(), source="").threshold(0.877582562) == 0.87758
        assert SentenceSimilarity(Encoder(), source="", thresholds=0.7).threshold(0.2) == 0.7
        calibrated = SentenceSimilarity(Encoder(), source="", thresholds={0.8: 0.6, 0.2: 0.1})
        assert [calibrated.threshold(value) for value in (0.2, 0.5, 0.8, 0.9, 1.0)] == [0.1, 0.35, 0.6, 0.8, 1.0]

    @pytest.fixture
    def encoder(self, make_encoder_model: Callable[..., Any], tmp_path: Path) -> str:
        make_encoder_model().save_pretrained(str(tmp_path / "encoder"))
        return str(tmp_path / "encoder")

    def calibration(self, path: Path, encoder: str, **changes: Any) -> Path:
        rows = [{"published": 0.8, "own": 0.65}]
        content = {"model_sha256": encoder_identity(encoder), "reference": "use", "thresholds": rows, **changes}
        path.write_text(json.dumps(content))
        return path

    def test_one_for_all_recipes(self, encoder: str) -> None:
        found = SentenceSimilarity.read(f"{encoder}@0.75", device="cpu")
        assert found.threshold(0.2) == found.threshold(0.9) == 0.75
        assert found.source == f"{encoder}, cosine ≥ 0.75 in all recipes"
        with pytest.raises(UserError, match="between -1 and 1"):
            SentenceSimilarity.read(f"{encoder}@80", device="cpu")

    def test_calibrated(self, encoder: str, tmp_path: Path) -> None:
        path = self.calibration(tmp_path / "c.json", encoder)
        found = SentenceSimilarity.read(f"{encoder}@{path}", device="cpu")
        assert found.threshold(0.8) == 0.65
        assert found.source == f"{encoder}, thresholds calibrated against use (c.json)"

    @pytest.mark.parametrize(
        ("changes", "named"),
        [
            ({"model_sha256": "0" * 64}, "another encoder"),
            ({"thresholds": []}, "one at least"),
            ({"thresholds": [{"published": 0.8, "own": 80}]}, "between -1 and 1"),
            ({"thresholds": [{"published": 0.8}]}, "not a calibration"),
            ({"thresholds": 3}, "not a calibration"),
        ],
    )
    def test_a_calibration_that_does_not_fit(
        self, encoder: str, tmp_path: Path, changes: dict[str, Any], named: str
    ) -> None:
        path = self.calibration(tmp_path / "c.json", encoder, **changes)
        with pytest.raises(UserError, match=named):
            SentenceSimilarity.read(f"{encoder}@{path}", device="cpu")

    def test_a_calibration_that_cannot_be_read(self, encoder: str, tmp_path: Path) -> None:
        (tmp_path / "c.json").write_text("{")
        with pytest.raises(UserError, match="not a calibration"):
            SentenceSimilarity.read(f"{encoder}@{tmp_path / 'c.json'}", device="cpu")
        with pytest.raises(UserError, match="cannot read"):
            SentenceSimilarity.read(f"{encoder}@{tmp_path / 'd.json'}", device="cpu")


class TestUSE:
    """A module of TensorFlow Hub's name: USE itself is not run here."""

    @pytest.fixture
    def hub(self, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
        module: Any = types.ModuleType("tensorflow_hub")
        module.batches, module.loaded = [], []

        def model(texts: list[str]) -> npt.NDArray[np.float32]:
            assert type(texts) is list
            module.batches.append(len(texts))
            return np.array([VECTORS.get(text, [1.0, 0.0]) for text in texts], dtype=np.float32)

        def load(handle: str) -> Any:
            module.loaded.append(handle)
            if handle == USE_HANDLES["use-large"]:
                raise OSError("no route to host\nand much more")
            return model

        module.load = load
        monkeypatch.setitem(sys.modules, "tensorflow_hub", module)
        find = importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: module if name == "tensorflow_hub" else find(name)
        )
        return module

    def test_its_vectors_and_its_own_thresholds(self, hub: Any) -> None:
        found = SentenceSimilarity.read("use")
        assert found.cosines([("north-east", "east")]) == [0.70711]
        assert found.threshold(0.8776) == 0.8776
        assert found.source == f"{USE_HANDLES['use']}, its own published thresholds"
        assert hub.loaded == [USE_HANDLES["use"]]
        many = [(f"text {i}", f"text {i + 1}") for i in range(600)]
        hub.batches.clear()
        assert found.cosines(many) == [1.0] * 600
        assert hub.batches == [256, 256, 89]

    def test_one_threshold(self, hub: Any) -> None:
        assert SentenceSimilarity.read("use@0.9").threshold(0.2) == 0.9

    def test_it_cannot_be_had(self, hub: Any) -> None:
        with pytest.raises(UserError, match=r"\(no route to host\).*--similarity"):
            SentenceSimilarity.read("use-large")

    def test_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(UserError, match=r"tensorflow-hub.*--similarity"):
            SentenceSimilarity.read("use")
