"""Texts per second of the two parts of a plain distillation: the teacher's vectors, and the steps of a student.

The parts take turns for several rounds, on one thread unless ``--threads`` says otherwise. Given are the texts per
second of *process CPU time*, which other work on the machine does not count into, and per second of wall time; medians
over the rounds, of which the first warms up. A step is that of the real trainer: tokens, forward and backward pass, and
the optimiser's step. The student's targets are random, which costs the same.

    python benchmarks/distill_step.py --model TEACHER --corpus FILE [--student layers=4,hidden=256,vocabulary=12000]
        [--rounds 3] [--steps 20] [--batch-size 128] [--join 0] [--threads 1]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformerTrainingArguments
from transformers import PrinterCallback

from claims import Claim, machine, save
from holdfast.data.corpus import SpooledCorpus, spool_corpus
from holdfast.data.joined_texts import divided
from holdfast.encoder import Encoder, freeze_unused
from holdfast.encoding import encode_sentences
from holdfast.hardening.distillation_run import ROWS_PER_GROUP
from holdfast.hardening.student import build_student, parse_student
from holdfast.models import load_sentence_transformer
from holdfast.objectives.anchored import Anchored
from holdfast.precision import auto_here
from holdfast.pretraining.vocabulary import own_tokenizer
from holdfast.training.cpu import fast_on_cpu
from holdfast.training.teacher_vectors import TeacherVectors
from holdfast.training.trainer import HoldfastTrainer


def steps_of(student: Any, corpus: SpooledCorpus, dimensions: int, given: argparse.Namespace) -> Callable[[], int]:
    """Return a function that makes the steps of a round, and returns the number of their texts."""
    draw = np.random.default_rng(0).standard_normal((corpus.sentences, dimensions)).astype(np.float16)
    encoder = Encoder(student)
    freeze_unused(encoder, encoder.tokenise(corpus.dataset[:2]["sentence"]))

    def run() -> int:
        objective = Anchored(student, noise=0.0)
        objective.use_labels()
        objective.length_groups = max(1, given.batch_size // ROWS_PER_GROUP) if student.device.type == "cpu" else None
        with tempfile.TemporaryDirectory() as folder:
            arguments = SentenceTransformerTrainingArguments(
                folder,
                per_device_train_batch_size=given.batch_size,
                max_steps=given.steps,
                bf16=auto_here() == "bf16",
                use_cpu=student.device.type == "cpu",
                optim="adamw_torch_fused",
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            )
            vectors = TeacherVectors(Path("random"), draw)
            trainer = HoldfastTrainer(
                model=student, args=arguments, train_dataset=corpus.dataset, loss=objective, vectors=vectors
            )
            trainer.remove_callback(PrinterCallback)
            with fast_on_cpu(objective):
                trainer.train()
        return int(given.steps * given.batch_size)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="the teacher")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--student", default="layers=4,hidden=256,vocabulary=12000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--join", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    corpus = divided(spool_corpus(given.corpus), join=given.join).training
    teacher = load_sentence_transformer(given.model)
    dimensions = teacher.get_embedding_dimension() or 0
    student, _ = build_student(
        parse_student(given.student), teacher, lambda pieces: own_tokenizer(corpus, pieces, max_length=256), 256
    )
    texts = list(corpus.dataset[: given.steps * given.batch_size // 4]["sentence"])

    def vectors() -> int:
        encode_sentences(teacher, texts, precision=auto_here())
        return len(texts)

    parts = {
        "the teacher's vectors": vectors,
        f"steps of {given.student}": steps_of(student, corpus, dimensions, given),
    }
    cpu: dict[str, list[float]] = {name: [] for name in parts}
    wall: dict[str, list[float]] = {name: [] for name in parts}
    for number in range(given.rounds + 1):
        for name, run in parts.items():
            began, used = time.perf_counter(), time.process_time()
            count = run()
            if number:
                cpu[name].append(count / (time.process_time() - used))
                wall[name].append(count / (time.perf_counter() - began))
    tokens = sum(map(len, student.tokenizer(texts)["input_ids"])) / len(texts)
    print(f"{machine()}, {auto_here()}; {tokens:.1f} tokens per text; {given.threads} thread(s)")
    for name in parts:
        by_cpu, by_wall = statistics.median(cpu[name]), statistics.median(wall[name])
        print(f"{by_cpu:8,.0f} texts/s of CPU  {by_wall:8,.0f} of wall  {name}")
    if given.json:
        save(given.json, [Claim(f"distillation: {name}", cpu[name], unit="texts/s of CPU") for name in parts])


if __name__ == "__main__":
    main()
