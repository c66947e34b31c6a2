"""Vectors of all training texts by a frozen teacher, computed once and kept on disk, the targets of a distillation.

They are a memory-mapped ``.npy`` file in half precision: a million vectors of 384 numbers are 768 MB on disk, and a
batch reads only its rows. The name of the file is a hash of all that determines its content. The texts are encoded in
blocks; a killed run continues with the block that it was in.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor

from holdfast.data.corpus import SpooledCorpus
from holdfast.encoding import Vectors, encode_sentences
from holdfast.errors import EndsRun, UserError
from holdfast.files import cannot_write, created_folder, locked, read_object, sha256, write_json
from holdfast.input_limits import input_limit
from holdfast.launch import require_single_process
from holdfast.objectives import Objective
from holdfast.precision import ResolvedPrecision
from holdfast.progress import stage
from holdfast.runs.run import Run
from holdfast.text_prompts import prompt_of
from holdfast.training.train_config import TrainConfig

BLOCK = 8192
"""Texts of a block: what a killed run loses at most, and enough texts to sort by length."""
_LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class TeacherVectors:
    """The vectors of the training texts, in the order of the corpus.

    Attributes:
        path: the ``.npy`` file.
        rows: (n, d) memory-mapped float16.
    """

    path: Path
    rows: np.ndarray[Any, np.dtype[np.float16]]

    @property
    def dimensions(self) -> int:
        """The length d of a vector."""
        return int(self.rows.shape[1])

    def of(self, numbers: Tensor | Sequence[int]) -> Tensor:
        """Return the vectors of rows, (B, d) float32 on the CPU; only these are read from the file."""
        chosen = numbers.cpu().numpy() if isinstance(numbers, Tensor) else np.asarray(numbers)
        return torch.from_numpy(np.asarray(self.rows[chosen], dtype=np.float32))


def vectors_identity(
    teacher: SentenceTransformer, teacher_sha256: str, corpus: SpooledCorpus, precision: ResolvedPrecision
) -> dict[str, Any]:
    """Return all that determines the vectors: the key of the cache."""
    return {
        "teacher_sha256": teacher_sha256,
        "teacher_modules_sha256": _hash_of_modules(teacher),
        "prompt": prompt_of(teacher) or "",
        "poolings": [module.pooling_mode for module in teacher.modules() if isinstance(module, Pooling)],
        "max_seq_length": input_limit(teacher),
        "precision": precision,
        "texts_sha256": corpus.sha256,
        "rows": corpus.sentences,
        "dimensions": teacher.get_embedding_dimension(),
    }


def _hash_of_modules(teacher: SentenceTransformer) -> str:
    """Return a hash of what a model does beside its weights: its modules with their settings, and its tokeniser."""
    tokenizer = teacher.tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    content = repr(type(tokenizer))
    if hasattr(backend, "to_str"):  # without what the last call has set
        content = json.dumps(json.loads(backend.to_str()) | {"truncation": None, "padding": None}, sort_keys=True)
    lower = [bool(getattr(module, "do_lower_case", False)) for module in teacher.children()]
    settings = [getattr(tokenizer, "truncation_side", ""), *lower, _config_of(teacher)]
    return hashlib.sha256("\n".join([str(list(teacher.children())), str(settings), content]).encode()).hexdigest()


def _config_of(teacher: SentenceTransformer) -> str:
    """Return the configuration of a model's transformer; "" if it has none."""
    transformer = teacher.transformers_model
    if transformer is None:
        return ""
    without = ("transformers_version", "dtype", "torch_dtype")
    config = {name: value for name, value in transformer.config.to_dict().items() if name not in without}
    return json.dumps({name: value for name, value in config.items() if name[:1] != "_"}, sort_keys=True, default=str)


def teacher_vectors(
    teacher: SentenceTransformer,
    corpus: SpooledCorpus,
    folder: Path,
    *,
    teacher_sha256: str,
    precision: ResolvedPrecision = "fp32",
    console: Console | None = None,
    block: int = BLOCK,
) -> TeacherVectors:
    """Return the teacher's vectors of all texts of a corpus: read from ``folder``, or computed and written there.

    Args:
        teacher: the teacher, with its prompt and length limit.
        corpus: the texts, in the column ``sentence``.
        folder: folder of the files, created if it is missing.
        teacher_sha256: hash of the teacher's files.
        precision: precision of the teacher's passes.
        console: console for the progress.
        block: texts per block.

    Raises:
        UserError: another process writes the file, the disk is full, a file of this name holds other vectors, or a
            vector does not fit into half precision.
    """
    identity = vectors_identity(teacher, teacher_sha256, corpus, precision)
    name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    path = folder / f"vectors-{name}.npy"
    with created_folder(folder):
        if not path.exists():
            with locked(folder / f".{path.name}.lock", path):
                if not path.exists():
                    _write(path, teacher, corpus, identity, block, console)
        return open_vectors(path, identity)


def open_vectors(path: Path, identity: dict[str, Any]) -> TeacherVectors:
    """Map a finished file of vectors.

    Raises:
        EndsRun: the file is damaged, or holds vectors of another teacher or of other texts.
    """
    notes = read_object(_notes(path))
    noted = notes.get("identity")
    if noted != identity:
        differing = [key for key in identity if not isinstance(noted, dict) or noted.get(key) != identity[key]]
        raise EndsRun(f"{path} holds other vectors ({', '.join(differing)} differ): delete it, or name another folder")
    if sha256(path) != notes.get("file_sha256"):  # a second or two for a gigabyte
        raise EndsRun(f"{path} is damaged: delete it, and run again")
    return TeacherVectors(path, np.load(path, mmap_mode="r"))


def sampled_texts(
    corpus: SpooledCorpus, vectors: TeacherVectors | None, count: int, seed: int
) -> tuple[list[str], Tensor | None]:
    """Return up to ``count`` texts, drawn with the seed, and their vectors (count, d) if there are any."""
    size = min(count, corpus.sentences)
    numbers = np.sort(np.random.default_rng(seed).choice(corpus.sentences, size, replace=False))
    texts: list[str] = corpus.dataset[numbers]["sentence"] if size else []
    return list(texts), None if vectors is None else vectors.of(numbers.tolist())


def _notes(path: Path) -> Path:
    """Return the path of the notes beside a file of vectors: its identity, and the blocks that are done."""
    return path.with_suffix(".json")


def _write(
    path: Path,
    teacher: SentenceTransformer,
    corpus: SpooledCorpus,
    identity: dict[str, Any],
    block: int,
    console: Console | None,
) -> None:
    """Encode the texts, block by block, into a temporary file, which gets its name at the end."""
    partial, notes = path.with_suffix(".part"), _notes(path)
    shape = (identity["rows"], identity["dimensions"])
    done = _done_rows(partial, notes, identity, shape)
    total = corpus.sentences
    try:
        rows: Any = np.lib.format.open_memmap(partial, mode="r+" if done else "w+", dtype=np.float16, shape=shape)
        _reserve(partial)
        with stage(console, "computing the teacher's vectors", unit="texts", total=total) as shown:
            shown.restart(total=total, first=done)
            for start in range(done, total, block):
                texts = list(corpus.dataset[start : start + block]["sentence"])
                # The count is of distinct texts: near enough for a bar.
                rows[start : start + len(texts)] = _half(
                    encode_sentences(
                        teacher,
                        texts,
                        precision=identity["precision"],
                        progress=lambda finished, _, start=start: shown.update(start + finished),  # type: ignore[misc]
                    )
                )
                rows.flush()  # before the notes that count it
                write_json(notes, {"identity": identity, "rows_done": start + len(texts)})
                shown.update(start + len(texts))
        del rows
        write_json(notes, {"identity": identity, "rows_done": total, "file_sha256": sha256(partial)})
        partial.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from error


def _reserve(path: Path) -> None:
    """Reserve the disk space of a sparse file: writing to a memory map on a full disk would kill the process.

    Raises:
        OSError: the disk is full.
    """
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def _done_rows(partial: Path, notes: Path, identity: dict[str, Any], shape: tuple[int, int]) -> int:
    """Return the number of rows that a killed run has finished; 0 if its file is missing or of another identity."""
    written = read_object(notes)
    if written.get("identity") != identity:
        return 0
    with suppress(OSError, ValueError):
        rows = np.load(partial, mmap_mode="r")
        if rows.shape == shape and rows.dtype == np.float16:
            return int(written.get("rows_done", 0))
    return 0


def _half(vectors: Vectors) -> np.ndarray[Any, np.dtype[np.float16]]:
    """Return vectors in half precision.

    Raises:
        UserError: a number is not finite or too large.
    """
    if not (np.abs(vectors) <= _LARGEST).all():  # False also for NaN
        raise UserError("the teacher's vectors are not finite, or too large for half precision: it cannot be a teacher")
    return vectors.astype(np.float16)


def expect_vectors(objective: Objective) -> None:
    """Prepare the objective of a training with ``--vectors``.

    Raises:
        UserError: the method learns no vectors, or several processes train.
    """
    require_single_process("train --vectors")
    try:
        objective.use_labels()
    except ValueError as error:
        raise UserError(f"--vectors: {error}") from error


def read_vectors(
    config: TrainConfig, model: SentenceTransformer, objective: Objective, corpus: SpooledCorpus, run: Run
) -> TeacherVectors | None:
    """Return the vectors of the corpus by the model before its training, if they are to be read from a file.

    The objective sees a sample of the texts, if it wants one.
    """
    vectors, precision = None, run.record["training"]["precision"]
    if config.vectors is not None:
        expect_vectors(objective)
        vectors = teacher_vectors(
            model,
            corpus,
            config.vectors,
            teacher_sha256=run.record["base_model_sha256"],
            precision=precision,
            console=run.console,
        )
    if wanted := objective.WANTED_TEXTS:
        with stage(run.console, "encoding the texts of the bank"):
            objective.see_texts(*sampled_texts(corpus, vectors, wanted, config.seed), precision=precision)
    return vectors
