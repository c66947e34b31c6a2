"""Vectors of a corpus by a teacher: equal to its own, computed once, continued after a kill, never another's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize

from holdfast.data.corpus import SpooledCorpus, spool_corpus
from holdfast.errors import UserError
from holdfast.files import read_object, write_json
from holdfast.input_limits import set_limit
from holdfast.models import load_sentence_transformer
from holdfast.objectives.anchored import Anchored
from holdfast.text_prompts import PromptOptions
from holdfast.training import teacher_vectors as module
from holdfast.training.teacher_vectors import sampled_texts, teacher_vectors


@pytest.fixture
def spooled(corpus: Path, tmp_path: Path) -> SpooledCorpus:
    return spool_corpus(str(corpus), folder=tmp_path / "spooled")


@pytest.fixture
def teacher(tiny: Path) -> SentenceTransformer:
    return load_sentence_transformer(str(tiny), pooling="mean", device="cpu")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of texts of each call that encodes."""
    calls: list[int] = []
    encode = module.encode_sentences

    def counting(model: Any, texts: list[str], **options: Any) -> Any:
        calls.append(len(texts))
        return encode(model, texts, **options)

    monkeypatch.setattr(module, "encode_sentences", counting)
    return calls


def test_they_are_the_teachers_in_half_precision(
    teacher: SentenceTransformer, spooled: SpooledCorpus, tmp_path: Path, counted: list[int]
) -> None:
    vectors = teacher_vectors(teacher, spooled, tmp_path / "v", teacher_sha256="a", block=25)
    assert counted == [25, 25, 10]
    assert vectors.rows.dtype == np.float16
    assert isinstance(vectors.rows, np.memmap)
    expected = teacher.encode(list(spooled.dataset["sentence"]))
    np.testing.assert_allclose(vectors.rows, expected, rtol=2e-3, atol=2e-3)
    some = vectors.of(torch.tensor([59, 0, 31]))
    assert some.dtype == torch.float32
    np.testing.assert_array_equal(some.numpy(), vectors.rows[[59, 0, 31]].astype(np.float32))
    again = teacher_vectors(teacher, spooled, tmp_path / "v", teacher_sha256="a", block=25)
    assert counted == [25, 25, 10], "they are computed once"
    assert again.path == vectors.path
    assert {path.suffix for path in (tmp_path / "v").iterdir()} == {".npy", ".json"}


def test_a_killed_run_continues_with_its_block(
    teacher: SentenceTransformer, spooled: SpooledCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = teacher_vectors(teacher, spooled, tmp_path / "whole", teacher_sha256="a", block=25)
    encode, calls = module.encode_sentences, []

    def dying(model: Any, texts: list[str], **options: Any) -> Any:
        calls.append(texts[0])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return encode(model, texts, **options)

    monkeypatch.setattr(module, "encode_sentences", dying)
    with pytest.raises(KeyboardInterrupt):
        teacher_vectors(teacher, spooled, tmp_path / "v", teacher_sha256="a", block=25)
    assert not list((tmp_path / "v").glob("*.npy")), "an unfinished file must not look finished"
    resumed = teacher_vectors(teacher, spooled, tmp_path / "v", teacher_sha256="a", block=25)
    assert calls[2:] == [spooled.dataset[50]["sentence"]] * 2
    np.testing.assert_array_equal(resumed.rows, whole.rows)


def test_whatever_determines_them_is_part_of_their_name(
    teacher: SentenceTransformer, spooled: SpooledCorpus, tmp_path: Path, tiny: Path
) -> None:
    folder = tmp_path / "v"
    made = [teacher_vectors(teacher, spooled, folder, teacher_sha256="a").path]
    made.append(teacher_vectors(teacher, spooled, folder, teacher_sha256="b").path)
    made.append(teacher_vectors(teacher, spooled, folder, teacher_sha256="a", precision="bf16").path)
    prompted = load_sentence_transformer(str(tiny), pooling="mean", device="cpu", prompts=PromptOptions(prompt="the "))
    made.append(teacher_vectors(prompted, spooled, folder, teacher_sha256="a").path)
    other_pooling = load_sentence_transformer(str(tiny), pooling="max", device="cpu")
    made.append(teacher_vectors(other_pooling, spooled, folder, teacher_sha256="a").path)
    normalised = SentenceTransformer(modules=[*teacher.children(), Normalize()], device="cpu")
    made.append(teacher_vectors(normalised, spooled, folder, teacher_sha256="a").path)
    set_limit(teacher, 5)
    made.append(teacher_vectors(teacher, spooled, folder, teacher_sha256="a").path)
    (tmp_path / "other.txt").write_text("the dog\na cat\n" * 30, encoding="utf-8")
    other = spool_corpus(str(tmp_path / "other.txt"), folder=tmp_path / "spooled")
    made.append(teacher_vectors(teacher, other, folder, teacher_sha256="a").path)
    assert len(set(made)) == len(made)


def test_the_configuration_and_the_side_of_truncation_are_part_of_their_name(teacher: SentenceTransformer) -> None:
    before = module._hash_of_modules(teacher)
    assert module._hash_of_modules(teacher) == before
    teacher.tokenizer.truncation_side = "left"
    assert module._hash_of_modules(teacher) != before
    teacher.tokenizer.truncation_side = "right"
    assert module._hash_of_modules(teacher) == before
    teacher.transformers_model.config.hidden_act = "relu"
    assert module._hash_of_modules(teacher) != before


def test_vectors_of_another_teacher_are_refused(
    teacher: SentenceTransformer, spooled: SpooledCorpus, tmp_path: Path
) -> None:
    path = teacher_vectors(teacher, spooled, tmp_path, teacher_sha256="a").path
    notes = path.with_suffix(".json")
    written = read_object(notes)
    write_json(notes, {**written, "identity": {**written["identity"], "teacher_sha256": "b"}})
    with pytest.raises(UserError, match=r"holds other vectors \(teacher_sha256 differ\)"):
        teacher_vectors(teacher, spooled, tmp_path, teacher_sha256="a")
    write_json(notes, written)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="is damaged: delete it"):
        teacher_vectors(teacher, spooled, tmp_path, teacher_sha256="a")


def test_vectors_that_do_not_fit_into_half_precision_are_refused(
    teacher: SentenceTransformer, spooled: SpooledCorpus, tmp_path: Path
) -> None:
    with torch.no_grad():
        teacher[0].model.encoder.layer[-1].output.LayerNorm.weight.fill_(1e7)
    with pytest.raises(UserError, match="too large for half precision"):
        teacher_vectors(teacher, spooled, tmp_path, teacher_sha256="a")


def test_a_sample_of_the_texts_comes_with_their_vectors(
    teacher: SentenceTransformer, spooled: SpooledCorpus, tmp_path: Path
) -> None:
    vectors = teacher_vectors(teacher, spooled, tmp_path, teacher_sha256="a")
    texts, of_texts = sampled_texts(spooled, vectors, 10, seed=3)
    assert len(texts) == 10
    assert of_texts is not None
    np.testing.assert_allclose(of_texts.numpy(), teacher.encode(texts), rtol=2e-3, atol=2e-3)
    assert sampled_texts(spooled, None, 10, seed=3) == (texts, None)
    assert sampled_texts(spooled, None, 10, seed=4)[0] != texts
    assert len(sampled_texts(spooled, None, 1000, seed=3)[0]) == spooled.sentences


@pytest.mark.parametrize("options", [{}, {"noise": 0.0, "adversarial": 1.0}])
def test_labels_train_as_the_objectives_own_anchors(
    make_masked_lm: Callable[..., Path], tmp_path: Path, sentences: list[str], options: dict[str, float]
) -> None:
    """Loss and gradients, at weights that have left the original."""
    folder = str(make_masked_lm(tmp_path / "lm"))
    found = []
    for with_labels in (False, True):
        model = load_sentence_transformer(folder, pooling="mean", device="cpu")
        features = dict(model.preprocess(sentences))
        labels = torch.from_numpy(model.encode(sentences)) if with_labels else None
        torch.manual_seed(0)
        objective = Anchored(model, **options)
        if with_labels:
            objective.use_labels()
            assert not any(name.startswith("original.") for name in objective.own_state())
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
        torch.manual_seed(1)
        terms = objective([features], labels)
        sum(terms.values()).backward()  # type: ignore[union-attr]
        found.append((terms, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}))
    (own, own_gradients), (given, gradients) = found
    assert own.keys() == given.keys()
    for name, value in own.items():
        assert value.item() > 1e-4
        torch.testing.assert_close(given[name], value, rtol=0, atol=1e-6)
    for name, gradient in own_gradients.items():
        torch.testing.assert_close(gradients[name], gradient, rtol=0, atol=1e-6)


def test_only_methods_that_learn_vectors_take_them(teacher: SentenceTransformer) -> None:
    from holdfast.objectives import METHODS

    with pytest.raises(ValueError, match="learns no vectors of a teacher"):
        METHODS["simcse"](teacher).use_labels()
