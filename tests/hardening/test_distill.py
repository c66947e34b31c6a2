"""`holdfast distill`: what it writes and measures, how it goes on after a kill, and what it refuses."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize

from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.files import sha256
from holdfast.hardening import DistillSettings, distill
from holdfast.hardening.student_evaluation import mean_cosine
from holdfast.models import load_sentence_transformer
from holdfast.objectives.anchored import Anchored
from holdfast.results import read_result
from holdfast.runs.run_status import standing_of
from warm import WarmPython

WORDS = "the a man woman child dog cat runs sleeps eats plays sings on under in park house bed red big old".split()
NEW = "layers=1,hidden=24,vocabulary=60,heads=2"
DIE = Path(__file__).with_name("distill_and_die.py")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory, make_masked_lm: Callable[..., Path]) -> Path:
    """A teacher of two layers and 16 numbers, of length 1."""
    folder = tmp_path_factory.mktemp("teacher")
    model = load_sentence_transformer(str(make_masked_lm(folder / "lm")), pooling="mean", device="cpu")
    model.append(Normalize())
    model.save_pretrained(str(folder / "teacher"))
    return folder / "teacher"


@pytest.fixture
def here(tmp_path: Path, teacher: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "teacher").symlink_to(teacher)
    (tmp_path / "lm").symlink_to(teacher.parent / "lm")
    draw = random.Random(0)
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(2, 12))) for _ in range(60)]
    (tmp_path / "mine.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "more.tsv").write_text("question\n" + "\n".join(f"{line} the" for line in lines[:20]) + "\n")
    return tmp_path


def settings(**changed: Any) -> DistillSettings:
    given = {"teacher": "teacher", "student": NEW, "corpus": "mine.txt", "output": Path("new"), "batch_size": 8}
    return DistillSettings(**{**given, "max_steps": 3, "max_positions": 32, "precision": "fp32", **changed})


def stsb_dev(folder: Path) -> Path:
    """A data folder with scored pairs."""
    (folder / "stsb").mkdir(parents=True)
    draw = random.Random(1)
    pairs = [
        [" ".join(draw.choices(WORDS, k=5)) for _ in range(2)] + [str(draw.randint(0, 50) / 10)] for _ in range(20)
    ]
    rows = ["sentence1\tsentence2\tscore", *("\t".join(pair) for pair in pairs)]
    (folder / "stsb" / "dev.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def test_the_whole_command(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["distill", "teacher", "--student", NEW, "--corpus", "mine.txt,more.tsv", "--output", "new"]
    words += ["--batch-size", "8", "--max-steps", "3", "--export", "fp16", "--data", str(stsb_dev(here / "data"))]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert 'Load it with: SentenceTransformer("new")' in printed
    assert "STS-B dev" in printed
    result = read_result(here / "new" / "distill.json")
    assert result["kind"] == "distill"
    assert result["protocol"]["corpus"]["sentences"] == 80 - result["protocol"]["held_out"]
    assert result["protocol"]["shape"] == {"layers": 1, "hidden": 24, "vocabulary": 60}
    assert result["made"]["steps"] == 3
    assert [(row["task"], row["split"]) for row in result["results"]] == [
        *(("teacher-cosine", f"held-out-{split}") for split in ("clean", "noisy")),
        ("stsb", "dev"),
    ]
    student = SentenceTransformer("new", device="cpu")
    assert student[0].model.dtype == torch.float32, "fp16 weights are computed in fp32"
    assert student.encode("The dog runs.").shape == (16,)
    assert student.max_seq_length == 256
    weights = sum(parameter.numel() for parameter in student.parameters())
    assert result["made"]["parameters"] == weights
    assert result["made"]["megabytes"] == pytest.approx(2 * weights / 1e6, abs=0.01)
    card = (here / "new" / "README.md").read_text(encoding="utf-8")
    assert "it can search an index of the teacher" in card
    assert standing_of(here / "new").state == "finished"
    assert not (here / "new" / "teacher-vectors").exists()
    # The same once more: nothing is done again.
    before = {path: path.stat().st_mtime_ns for path in (here / "new").iterdir()}
    assert main([*words, "--resume"]) == 0
    assert {path: path.stat().st_mtime_ns for path in (here / "new").iterdir()} == before


def test_a_student_learns_its_teachers_vectors(here: Path) -> None:
    result = distill(settings(max_steps=60, learning_rate=1e-2, options={"noise": 0.0}, hold_out=6))
    clean, noisy = (row["metrics"] for row in result["results"])
    assert clean["cosine"] > 0.7
    assert clean["teacher_cosine"] == pytest.approx(1, abs=1e-5)
    assert noisy["teacher_cosine"] < 0.999
    texts = (here / "mine.txt").read_text(encoding="utf-8").splitlines()
    student, teacher = (SentenceTransformer(name, device="cpu").encode(texts) for name in ("new", "teacher"))
    assert mean_cosine(student, teacher) > 0.8


def test_plain_distillation_decodes_no_text(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.objectives.anchored.recovered_texts", None)
    distill(settings(options={"noise": 0.0}))


def test_the_student_learns_what_the_teacher_says_after_its_prompt(here: Path) -> None:
    texts = (here / "mine.txt").read_text(encoding="utf-8").splitlines()
    student = "lm"
    distill(
        settings(student=student, prompt="the old ", max_steps=60, learning_rate=2e-3, options={"noise": 0.0}, join=0.0)
    )
    found = SentenceTransformer("new", device="cpu").encode(texts)
    teacher = SentenceTransformer("teacher", device="cpu")
    with_prompt, without = teacher.encode(texts, prompt="the old "), teacher.encode(texts)
    assert mean_cosine(found, with_prompt) > mean_cosine(found, without) + 0.01


@pytest.mark.parametrize("space", ["teacher", "student"])
def test_a_student_is_trained_with_its_own_prompt(
    here: Path, space: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    preprocess = SentenceTransformer.preprocess

    def recording(self: SentenceTransformer, inputs: Any, prompt: str | None = None, **named: Any) -> Any:
        read.append(f"{prompt or ''}{inputs[0]}")
        return preprocess(self, inputs, prompt=prompt, **named)

    monkeypatch.setattr(SentenceTransformer, "preprocess", recording)
    result = distill(settings(student_prompt="red ", space=space), console=Console(width=300))
    assert "the student reads every text after the prompt 'red '" in capsys.readouterr().out
    assert result["protocol"]["student_prompt"] == "red "
    assert sum(text.startswith("red ") for text in read) >= 3  # the batches of three steps, and the evaluations
    student = SentenceTransformer("new", device="cpu")
    plain, prompted = student.encode(["the cat"], prompt=""), student.encode(["the cat"])
    assert np.abs(plain - prompted).max() > 1e-4
    np.testing.assert_allclose(prompted, student.encode(["red the cat"], prompt=""), atol=1e-6)
    np.testing.assert_allclose(prompted, student.encode_query(["the cat"]), atol=1e-6)
    np.testing.assert_allclose(prompted, student.encode_document(["the cat"]), atol=1e-6)


def test_a_student_in_its_own_space(here: Path) -> None:
    result = distill(settings(space="student"))
    assert result["made"]["dimensions"] == 24
    student = SentenceTransformer("new", device="cpu")
    vector = student.encode("the dog runs")
    assert vector.shape == (24,)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    assert "a space of its own" in (here / "new" / "README.md").read_text(encoding="utf-8")


def test_the_exported_projection_gives_the_vectors_of_the_training(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.hardening import distillation_run

    trained: list[Any] = []
    monkeypatch.setattr(
        distillation_run,
        "export",
        lambda model, *args, export=distillation_run.export, **named: (
            trained.append(model.encode("a cat eats")),
            export(model, *args, **named),
        ),
    )
    distill(settings())
    saved = SentenceTransformer("new", device="cpu")
    assert (here / "new" / "2_Dense" / "model.safetensors").exists()
    np.testing.assert_allclose(saved.encode("a cat eats"), trained[0], atol=1e-6)


def test_vectors_are_kept_where_they_were_asked_for(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distill(settings(vectors=Path("kept")))
    (file,) = (here / "kept").glob("*.npy")
    made = file.stat().st_mtime_ns
    monkeypatch.setattr("holdfast.training.teacher_vectors.encode_sentences", None)
    distill(settings(vectors=Path("kept"), output=Path("second"), max_steps=4))
    assert file.stat().st_mtime_ns == made
    assert [path.name for path in (here / "kept").glob("*.npy")] == [file.name]


def test_hardening_reads_the_originals_vectors_from_a_file(here: Path) -> None:
    """Half precision of the vectors is all that differs."""
    words = ["train", "anchored", "--model", "teacher", "--corpus", "mine.txt", "--batch-size", "8", "--max-steps", "3"]
    words += ["--precision", "fp32", "--no-report-sts", "--set", "relations=0"]  # whose bank may be encoded in bf16
    assert main([*words, "--output", "own"]) == 0
    assert main([*words, "--output", "read", "--vectors", "kept"]) == 0
    own, read = (SentenceTransformer(name, device="cpu").encode("the dog runs") for name in ("own", "read"))
    np.testing.assert_allclose(own, read, atol=2e-3)
    losses = [
        [json.loads(line).get("loss") for line in (here / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("own", "read")
    ]
    assert [loss for loss in losses[0] if loss] == pytest.approx([loss for loss in losses[1] if loss], abs=1e-3)
    assert len(list((here / "kept").glob("*.npy"))) == 1


def test_a_method_without_a_teacher_refuses_vectors(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "simcse", "--model", "teacher", "--corpus", "mine.txt", "--batch-size", "8", "--max-steps", "3"]
    assert main([*words, "--output", "new", "--vectors", "kept"]) == 2
    assert "--vectors: SimCSE learns no vectors of a teacher" in capsys.readouterr().err


class Seeing(Anchored):
    """Anchored that notes the texts of its bank."""

    seen: list[Any] = []  # noqa: RUF012 - of the test

    def see_texts(self, texts: Any, vectors: torch.Tensor | None) -> None:
        self.seen.append((texts, vectors))
        super().see_texts(texts, vectors)


def test_the_objective_sees_a_sample_of_the_texts(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.hardening.distillation_run.Anchored", Seeing)
    Seeing.seen.clear()
    distill(settings(join=0.0, options={"bank": 7}))
    ((texts, vectors),) = Seeing.seen
    assert len(texts) == 7
    teacher = SentenceTransformer("teacher", device="cpu").encode(texts)
    np.testing.assert_allclose(vectors.numpy(), teacher, atol=1e-3)


@pytest.mark.slow
def test_a_killed_run_ends_in_the_same_bits(here: Path, warm: WarmPython) -> None:
    given = ["teacher", "mine.txt"]
    finished = warm.run(DIE, *given, "unbroken", "never")
    assert finished.returncode == 0, finished.stderr
    for point in ("block-2", "step-11", "exporting"):
        killed = warm.run(DIE, *given, "killed", point)
        assert killed.returncode == -9, killed.stderr
        assert not (here / "killed" / "modules.json").exists(), "a killed run must not look finished"
        assert (here / "killed" / "teacher-vectors").exists()
    resumed = warm.run(DIE, *given, "killed", "never")
    assert resumed.returncode == 0, resumed.stderr
    for name in ("model.safetensors", "2_Dense/model.safetensors", "checkpoint-20/objective.safetensors"):
        assert sha256(here / "killed" / name) == sha256(here / "unbroken" / name), name
    rows = [read_result(here / name / "distill.json")["results"] for name in ("killed", "unbroken")]
    assert rows[0] == rows[1]


def test_a_run_is_resumed_with_the_same_teacher_and_student_only(
    here: Path, make_masked_lm: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("holdfast.hardening.distillation_run.HoldfastTrainer", stop)
        with pytest.raises(KeyboardInterrupt):
            distill(settings())
    other = load_sentence_transformer(str(make_masked_lm(here / "other-lm", seed=3)), pooling="mean", device="cpu")
    other.save_pretrained(str(here / "other"))
    for changed, says in (
        ({"teacher": "other"}, "teacher was 'teacher' and is now 'other'"),
        ({"student": "layers=1,hidden=16,vocabulary=60"}, "cannot resume new: .* and is now "),
        ({"learning_rate": 0.01}, "training learning_rate was 0.0005 and is now 0.01"),
    ):
        with pytest.raises(UserError, match=says):
            distill(settings(**changed), resume=True)
    assert distill(settings(), resume=True)["made"]["steps"] == 3
    with pytest.raises(UserError, match="training precision was 'fp32' and is now 'bf16'"):
        distill(settings(precision="bf16"), resume=True)


def test_a_failed_run_keeps_the_teachers_vectors(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise UserError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("holdfast.training.teacher_vectors.encode_sentences", fail)
        with pytest.raises(UserError, match="the disk is full"):
            distill(settings())
    assert not (here / "new").exists(), "nothing was computed yet"
    with monkeypatch.context() as patched:
        patched.setattr("holdfast.hardening.distillation_run.HoldfastTrainer", fail)
        with pytest.raises(UserError, match="the disk is full"):
            distill(settings())
    monkeypatch.setattr("holdfast.training.teacher_vectors.encode_sentences", fail)
    assert distill(settings(), resume=True)["made"]["steps"] == 3


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"teacher": "lm"}, "lm is a raw language model, not an encoder: name its --pooling"),
        ({"batch_size": 56, "hold_out": 6}, "has 54 texts to train on, fewer than one batch of 56"),
        ({"batch_size": 100}, "holds 60 sentences, fewer than one batch of 100"),
        ({"warmup_share": 1.0}, "--warmup-share must be from 0 to below 1"),
        ({"join": -0.1}, "--join must be from 0 to below 1"),
        ({"export": "fp8"}, "--export"),
        ({"student": "layers=9"}, "the teacher has 2 layers"),
        ({"student": "layers=1,hidden=24,vocabulary=5"}, "--vocabulary 5 is too small"),
        ({"options": {"nois": 0.0}}, "anchored has no option 'nois'"),
        ({"options": {"noise": 0.0, "clean": 0.0}}, "one of clean, noise and adversarial"),
    ],
)
def test_mistakes_are_told_in_one_line(here: Path, changed: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as error:
        distill(settings(**changed))
    assert says in str(error.value)
    assert not (here / "new").exists()
