"""The students of a distillation: what --student names, their layers, positions and dimensions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize

from holdfast.errors import UserError
from holdfast.hardening.distillation_run import _is_model
from holdfast.hardening.student import (
    NewStudent,
    Student,
    TeacherLayers,
    build_student,
    extend_positions,
    parse_student,
    without_projection,
)
from holdfast.hardening.student_card import space_of
from holdfast.input_limits import position_table
from holdfast.models import load_sentence_transformer
from holdfast.text_prompts import PromptOptions, prompt_of


def never(_: int) -> Any:
    raise AssertionError("no new vocabulary is needed")


@pytest.fixture
def teacher(tmp_path: Path, make_masked_lm: Callable[..., Path]) -> SentenceTransformer:
    """A teacher of four layers and 16 numbers, of length 1."""
    model = load_sentence_transformer(str(make_masked_lm(tmp_path / "lm", layers=4)), pooling="mean", device="cpu")
    model.append(Normalize())
    return model


@pytest.mark.parametrize(
    ("spec", "student"),
    [
        ("some/model", "some/model"),
        ("layers=3", TeacherLayers(3)),
        ("layers=2,hidden=128", NewStudent(2, 128, 12_000, 2, 512)),
        ("hidden=32, vocabulary=500", NewStudent(4, 32, 500, 1, 128)),
        ("layers=1,hidden=48,heads=3,intermediate=50", NewStudent(1, 48, 12_000, 3, 50)),
    ],
)
def test_what_a_student_is_named_by(spec: str, student: Any) -> None:
    assert parse_student(spec) == student


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("layrs=3", "unknown size 'layrs' (did you mean 'layers'?)"),
        ("layers=3,hidden=256,", "unknown size ''"),
        ("layers=3,layers=4", "layers is given twice"),
        ("layers=none", "layers"),
        ("layers=0,hidden=16", "layers must be from 1 to"),
        ("layers=2,hidden=130,heads=4", "hidden 130 cannot be divided over 4 heads"),
    ],
)
def test_a_wrong_student_is_refused(spec: str, says: str) -> None:
    with pytest.raises(UserError, match=re.escape(says)):
        parse_student(spec)


def test_a_folder_with_an_equals_sign_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a=b").mkdir()
    assert parse_student(str(tmp_path / "a=b")) == str(tmp_path / "a=b")


def test_layers_of_the_teacher_are_evenly_spaced(teacher: SentenceTransformer, tmp_path: Path) -> None:
    student, projection = build_student(TeacherLayers(2), teacher, never, 16)
    assert projection is None
    old, new = (model[0].model.encoder.layer for model in (teacher, student))
    assert [len(old), len(new)] == [4, 2]
    for place, number in enumerate((0, 3)):
        for name, value in new[place].state_dict().items():
            assert torch.equal(value, old[number].state_dict()[name])
    assert isinstance(list(student.children())[-1], Normalize)
    assert sum(isinstance(module, Normalize) for module in student.children()) == 1
    student.save_pretrained(str(tmp_path / "student"), create_model_card=False)
    saved = SentenceTransformer(str(tmp_path / "student"), device="cpu")
    np.testing.assert_allclose(saved.encode(["the dog runs"]), student.encode(["the dog runs"]), atol=1e-6)
    with pytest.raises(UserError, match="the teacher has 4 layers"):
        build_student(TeacherLayers(5), teacher, never, 16)


@pytest.mark.parametrize("kind", ["qwen3", "gemma3"])
def test_layers_of_a_decoder_keep_their_attention(
    kind: str, make_encoder_model: Callable[..., Any], tmp_path: Path
) -> None:
    """Gemma3's layers attend to a window or to everything, by a list in the configuration."""
    teacher = make_encoder_model(kind, layers=4)
    student, _ = build_student(TeacherLayers(2), teacher, never, 16)
    old, new = teacher[0].model, student[0].model
    assert new.config.layer_types == [old.config.layer_types[number] for number in (0, 3)]
    for place, number in enumerate((0, 3)):
        assert torch.equal(new.layers[place].mlp.up_proj.weight, old.layers[number].mlp.up_proj.weight)
    student.save_pretrained(str(tmp_path / "student"), create_model_card=False)
    saved = SentenceTransformer(str(tmp_path / "student"), device="cpu")
    texts = ["the dog runs", "the old man sleeps on the big red bed in the house under the park"]
    np.testing.assert_allclose(saved.encode(texts), student.encode(texts), atol=1e-5)


def test_layers_of_a_teacher_that_cuts_its_vectors_cut_them_too(teacher: SentenceTransformer) -> None:
    teacher.truncate_dim = 8
    student, projection = build_student(TeacherLayers(4), teacher, never, 8)
    assert (projection, student.truncate_dim) == (None, 8)
    texts = ["the man sleeps", "a dog runs in the park"]
    np.testing.assert_allclose(student.encode(texts), teacher.encode(texts), atol=1e-6)


def test_rotary_positions_are_only_allowed(make_encoder_model: Callable[..., Any]) -> None:
    model = make_encoder_model("qwen3")
    texts = ["the dog runs", " ".join(["the old man sleeps on the bed"] * 20)]
    before = model.encode(texts)
    extend_positions(model, 300, "the student")
    assert model.max_seq_length == 300
    assert model.preprocess(texts)["input_ids"].shape[1] > 100
    after = model.encode(texts)
    np.testing.assert_allclose(after[0], before[0], atol=1e-5)
    assert np.abs(after[1] - before[1]).max() > 1e-2
    with pytest.raises(UserError, match="--max-positions 600: small takes 300 tokens, and has no table to extend"):
        extend_positions(model, 600, "small")


def test_layers_of_other_architectures_are_not_left_out(make_encoder_model: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match="layers of modernbert models cannot be left out"):
        build_student(TeacherLayers(2), make_encoder_model("modernbert"), never, 16)


def test_a_new_student_is_projected_to_its_teachers_dimension(teacher: SentenceTransformer) -> None:
    shape = parse_student("layers=1,hidden=24,heads=2,vocabulary=26")
    assert isinstance(shape, NewStudent)
    torch.manual_seed(0)
    student, projection = build_student(shape, teacher, lambda pieces: teacher.tokenizer, 40)
    assert isinstance(projection, Dense)
    assert (projection.in_features, projection.out_features) == (24, 16)
    assert isinstance(projection.activation_function, torch.nn.Identity)
    vector = student.encode("the dog runs")
    assert vector.shape == (16,)
    assert np.linalg.norm(vector) == pytest.approx(1)
    plain = without_projection(student, projection)
    assert plain.encode("the dog runs").shape == (24,)
    assert plain.get_embedding_dimension() == 24
    assert student.max_seq_length == 40
    torch.manual_seed(0)
    again, _ = build_student(shape, teacher, lambda pieces: teacher.tokenizer, 40)
    np.testing.assert_array_equal(again.encode("the dog runs"), vector)


@pytest.mark.parametrize("kind", ["layers=1,hidden=24,heads=2,vocabulary=26", "layers=1", "a masked LM", "an encoder"])
def test_a_student_compares_as_its_teacher_does(
    kind: str, teacher: SentenceTransformer, tmp_path: Path, make_masked_lm: Callable[..., Path]
) -> None:
    teacher.similarity_fn_name = "dot"
    if kind.startswith("layers"):
        shape: Student = parse_student(kind)
    else:
        shape = str(make_masked_lm(tmp_path / "small", layers=1, seed=5))
        if kind == "an encoder":
            load_sentence_transformer(shape, pooling="mean", device="cpu").save_pretrained(str(tmp_path / "encoder"))
            shape = str(tmp_path / "encoder")
    student, projection = build_student(shape, teacher, lambda pieces: teacher.tokenizer, 16)
    assert student.similarity_fn_name == "dot"
    if projection is not None:
        assert without_projection(student, projection).similarity_fn_name == "dot"


def test_a_masked_lm_becomes_a_student_with_mean_pooling(
    teacher: SentenceTransformer, tmp_path: Path, make_masked_lm: Callable[..., Path]
) -> None:
    folder = str(make_masked_lm(tmp_path / "small", layers=1, seed=5))
    student, projection = build_student(folder, teacher, never, 64)
    assert projection is None
    expected = load_sentence_transformer(folder, pooling="mean", device="cpu").encode("a cat eats")
    np.testing.assert_allclose(student.encode("a cat eats"), expected / np.linalg.norm(expected), atol=1e-6)


def test_a_student_has_no_prompt(teacher: SentenceTransformer, prompted: Callable[..., Path]) -> None:
    student, _ = build_student(str(prompted("query")), teacher, never, 16)
    assert not any(student.prompts.values())
    assert student.default_prompt_name is None
    assert any(load_sentence_transformer(str(prompted("query")), device="cpu").prompts.values())


def test_layers_of_a_teacher_that_averages_its_last_two_are_refused(
    make_masked_lm: Callable[..., Path], tmp_path: Path
) -> None:
    teacher = load_sentence_transformer(
        str(make_masked_lm(tmp_path / "lm", layers=3)), pooling="last-two", device="cpu"
    )
    with pytest.raises(UserError, match="means of its last two layers, which its first layers lack"):
        build_student(TeacherLayers(2), teacher, never, 16)


@pytest.mark.parametrize("own", [None, "a "])
def test_layers_of_a_prompted_teacher_have_their_own_prompt(prompted: Callable[..., Path], own: str | None) -> None:
    options = PromptOptions(prompt_name="query")
    teacher = load_sentence_transformer(str(prompted()), device="cpu", prompts=options)
    student, _ = build_student(TeacherLayers(1), teacher, never, 16, prompt=own)
    assert prompt_of(teacher)
    assert (prompt_of(student) or "") == (own or "")


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_more_positions_repeat_the_table_after_the_first(make_encoder_model: Callable[..., Any], kind: str) -> None:
    model = make_encoder_model(kind, pooling="mean")
    texts = ["the dog runs", " ".join(["the old man sleeps"] * 5)]
    long_text = " ".join(["the old man sleeps on the bed"] * 20)
    before = model.encode(texts)
    table = position_table(model[0].model)
    assert table is not None
    old = table.weight.detach().clone()
    begin = 0 if kind == "bert" else table.padding_idx + 1
    extend_positions(model, 150, "the student")
    table = position_table(model[0].model)
    assert table is not None
    assert table.num_embeddings == begin + 150
    assert model.max_seq_length == 150
    np.testing.assert_allclose(model.encode(texts), before, atol=1e-6)
    new = table.weight.detach()
    assert torch.equal(new[: len(old)], old)
    assert torch.equal(new[len(old)], old[begin + 1])
    cycle = len(old) - begin - 1
    assert torch.equal(new[len(old) + cycle], old[begin + 1])
    assert model.preprocess([long_text])["input_ids"].shape[1] == 142
    assert np.isfinite(model.encode(long_text)).all()


def test_positions_are_not_taken_away(teacher: SentenceTransformer) -> None:
    extend_positions(teacher, 10, "the student")
    assert teacher.max_seq_length == 64


def test_a_model_without_positions_is_not_extended(make_encoder_model: Callable[..., Any]) -> None:
    model = make_encoder_model("modernbert")
    limit = model.max_seq_length
    assert limit is not None
    with pytest.raises(UserError, match=r"--max-positions 5000: small takes \d+ tokens, and has no table to extend"):
        extend_positions(model, 5000, "small")


def test_checkpoints_are_no_part_of_the_finished_model() -> None:
    assert _is_model(Path("model.safetensors"))
    assert _is_model(Path("1_Dense/model.safetensors"))
    assert not _is_model(Path("checkpoint-20/model.safetensors"))
    assert not _is_model(Path("best/model.safetensors"))


@pytest.mark.parametrize(
    ("asked", "made", "space"), [("student", 384, "teacher"), ("student", 128, "student"), ("teacher", 384, "teacher")]
)
def test_a_student_as_wide_as_its_teacher_is_in_its_space(asked: str, made: int, space: str) -> None:
    assert space_of({"space": asked, "dimensions": 384}, {"dimensions": made}) == space
