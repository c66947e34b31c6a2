"""Construction of a baseline: load, fit if necessary, export as a plain SentenceTransformer, write the result."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sentence_transformers import SentenceTransformer

from holdfast.baselines.baseline_settings import BaselineSettings
from holdfast.baselines.corpus_vectors import corpus_vectors, drawn_sentences
from holdfast.baselines.flow_training import FlowOptions, fit_flow
from holdfast.baselines.model_card import card
from holdfast.baselines.native_flow import native_modules
from holdfast.baselines.pooling import load_pooled
from holdfast.baselines.whitening import Moments, Whitening
from holdfast.baselines.word_vectors import word_vector_model
from holdfast.data.corpus import MAX_CHARS, SpooledCorpus, spool_corpus
from holdfast.edits.tokenizer_normaliser import with_normaliser
from holdfast.edits.word_vectors import read_word_vectors
from holdfast.encoding import Vectors
from holdfast.errors import UserError
from holdfast.files import check_folder_place, exclusive, one_line_write_errors, sha256
from holdfast.input_limits import Cuts, cut_line, input_limit
from holdfast.model_lookup import model_identity, resolve_model
from holdfast.models import read_as
from holdfast.progress import stage
from holdfast.results import new_result, write_result
from holdfast.runs.run_folder import LOCK_FILE, alone
from holdfast.runs.run_log import RESULT_FILE
from holdfast.text_prompts import PromptOptions, prompt_protocol, prompts_with_default
from holdfast.training.export import export


@dataclass
class _BuiltModel:
    """A finished model, its settings and inputs, and the results of its fit; ``seed``: None if nothing was drawn."""

    model: SentenceTransformer
    protocol: dict[str, Any]
    fit: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    seed: int | None = None
    cuts: Cuts | None = None


@exclusive(lambda settings: alone(settings.output))
def make_baseline(
    settings: BaselineSettings, *, console: Console | None = None, command: list[str] | None = None
) -> dict[str, Any]:
    """Make a baseline, write it to ``settings.output`` and return its result, also written to ``OUTPUT/results.json``.

    Args:
        settings: the settings of the baseline.
        console: the console that shows progress; None: no output.
        command: the words of the command, for the record; None: the command of this process.

    Raises:
        UserError: an error in the settings or the files, an output folder that is not empty, or a full disk.
    """
    console = console or Console(quiet=True)
    settings.check()
    _refuse_used(settings.output)
    began = time.monotonic()
    built = _BUILDERS.get(settings.name, _make_pooled)(settings, console)
    output = settings.output
    protocol = {"baseline": settings.name, **built.protocol}
    export(built.model, output, card(settings.name, protocol, built.fit, built.notes))
    result = new_result(
        "baseline",
        command=command,
        model=str(output),
        path=output,
        protocol=protocol,
        seed=built.seed,
        timing={"baseline_seconds": time.monotonic() - began},
        device=str(built.model.device),
    )
    result |= {"fit": built.fit, "notes": built.notes, "dimensions": built.model.get_embedding_dimension()}
    if built.cuts is not None:
        result["truncated"] = built.cuts.record()
    write_result(output / RESULT_FILE, result)
    return result


def _refuse_used(output: Path) -> None:
    check_folder_place("--output", output)
    if output.is_dir() and {path.name for path in output.iterdir()} - {LOCK_FILE}:
        raise UserError(f"{output} is not empty: choose an empty or new --output folder")


def _make_glove(settings: BaselineSettings, console: Console) -> _BuiltModel:
    assert settings.vectors is not None  # checked
    drop = bool(settings.drop_stop_words)
    with stage(console, f"reading {settings.vectors}", unit="words", announce=False) as bar:
        vectors = read_word_vectors(
            settings.vectors,
            words=settings.words,
            progress=bar.update,
        )
    read = {"words": len(vectors.words), "dimensions": vectors.matrix.shape[1]}
    left_out = {"duplicate_words": vectors.duplicates, "words_with_spaces": vectors.spaced}
    notes = [f"{count:,} lines were left out: {what.replace('_', ' ')}." for what, count in left_out.items() if count]
    notes.append(
        "A text without a known word has the zero vector, whose cosine with anything is undefined."
        + (" So has a text of stop words only." if drop else "")
    )
    console.print(f"{read['words']:,} words, {read['dimensions']} numbers each", highlight=False)
    return _BuiltModel(
        word_vector_model(vectors, drop_stop_words=drop),
        {
            "vectors": {"file": str(settings.vectors), "sha256": sha256(settings.vectors)},
            "words_asked_for": settings.words,
            "stop_words": "left out (sentence-transformers' English list)" if drop else "kept",
        },
        {**read, **left_out},
        notes,
    )


def _make_pooled(settings: BaselineSettings, console: Console) -> _BuiltModel:
    model, protocol, notes = _base(settings, settings.name, console)
    console.print(f"{settings.model}: {_width(model)} dimensions", highlight=False)
    return _BuiltModel(model, protocol, notes=notes)


def _make_whitening(settings: BaselineSettings, console: Console) -> _BuiltModel:
    model, protocol, notes = _base(settings, settings.pooling, console, settings)
    corpus, protocol["corpus"] = _corpus(settings, console)
    moments = Moments(_width(model))
    cuts = _encode(model, corpus, settings, console, moments.update)
    whitening = Whitening.fit(moments, settings.dimensions)
    width, k = whitening.weight.shape
    if whitening.rank < width:
        notes.append(
            f"The vectors of the {moments.count:,} sentences vary in {whitening.rank} of {width} directions; the "
            f"others have no variance to divide by and are left out."
        )
        console.print(notes[-1], highlight=False)
    model.append(whitening.module().to(model.device))
    protocol["dimensions_asked_for"] = settings.dimensions
    fit = {"sentences": moments.count, "rank": whitening.rank, "dimensions": k, "variance_kept": whitening.kept}
    return _BuiltModel(model, protocol, fit, notes, _seed(settings), cuts)


def _make_flow(settings: BaselineSettings, console: Console) -> _BuiltModel:
    options = FlowOptions.of(settings.options or {})
    model, protocol, notes = _base(settings, settings.pooling, console, settings)
    corpus, protocol["corpus"] = _corpus(settings, console)
    with tempfile.TemporaryDirectory(prefix="holdfast-flow-") as folder:
        path = Path(folder) / "vectors.f32"
        # Not written through the map: on a full disk that would kill the process.
        with one_line_write_errors(path), path.open("wb") as file:
            cuts = _encode(model, corpus, settings, console, lambda part: file.write(np.ascontiguousarray(part).data))
        # Mapped, (n, d): a million vectors of 768 numbers are 3 GB.
        shape = (drawn_sentences(corpus, settings.sentences), _width(model))
        vectors = np.memmap(path, dtype=np.float32, mode="r", shape=shape)
        with stage(console, "flow", unit="steps") as bar:
            flow, fitted = fit_flow(
                vectors,
                options,
                seed=_seed(settings),
                progress=lambda done, total, loss: bar.update(done, total, f"loss {loss:.4f}"),
            )
        del vectors
    for module in native_modules(flow):
        model.append(module.to(model.device))
    protocol |= {"options": asdict(options), "selection": "the last step"}
    return _BuiltModel(model, protocol, asdict(fitted), notes, _seed(settings), cuts)


def _make_normalised(settings: BaselineSettings, console: Console) -> _BuiltModel:
    model, protocol = _loaded(settings, settings.pooling, console)
    with_normaliser(model, name=str(settings.model))
    console.print(f"{settings.model}: its tokeniser normalises texts", highlight=False)
    protocol["normaliser"] = "invisible characters removed, NFKC, look-alikes folded, in tokenizer.json"
    return _BuiltModel(model, protocol)


def _encode(
    model: SentenceTransformer,
    corpus: SpooledCorpus,
    settings: BaselineSettings,
    console: Console,
    use: Callable[[Vectors], object],
) -> Cuts:
    """Call ``use`` with the vectors of each part of the corpus, (n, d) float32; return the truncated sentences."""
    cuts, seed = Cuts(), _seed(settings)
    with stage(console, "encoding", unit="sentences") as bar:
        for vectors in corpus_vectors(model, corpus, settings.sentences, seed=seed, progress=bar.update, cuts=cuts):
            use(vectors)
    if line := cut_line(cuts.record()):
        console.print(line, highlight=False)
    return cuts


def _seed(settings: BaselineSettings) -> int:
    return 42 if settings.seed is None else settings.seed


def _base(
    settings: BaselineSettings, pooling: str | None, console: Console, prompts: PromptOptions | None = None
) -> tuple[SentenceTransformer, dict[str, Any], list[str]]:
    """Load the encoder of the baseline, and return it, its description for the protocol, and notes for its users."""
    model, protocol = _loaded(settings, pooling, console, prompts)
    return model, protocol, _remove_truncation(model, console)


def _loaded(
    settings: BaselineSettings, pooling: str | None, console: Console, prompts: PromptOptions | None = None
) -> tuple[SentenceTransformer, dict[str, Any]]:
    """Load the encoder of the baseline, and return it and its description for the protocol."""
    assert settings.model is not None  # checked
    identity = model_identity(resolve_model(settings.model))
    with stage(console, f"loading {settings.model}", announce=False):
        model, pooling_name = load_pooled(settings.model, pooling, prompts)
    # What is fitted to vectors with a prompt is of use with it alone. A model without a default has its prompts named.
    if prompts is not None and (model.default_prompt_name is not None or prompts.prompt_name is None):
        named, model.default_prompt_name = prompts_with_default(model)
        model.prompts = {**named}
    protocol = {
        "base_model": settings.model,
        "base_model_sha256": identity["model_sha256"],
        "pooling": pooling_name,
        **read_as(model),
        **({} if prompts is None else prompt_protocol(model, sides=False)),
        "max_seq_length": input_limit(model),
    }
    return model, protocol


def _remove_truncation(model: SentenceTransformer, console: Console) -> list[str]:
    """Remove ``truncate_dim``, which does not apply to an appended module's input; return a note if it cut vectors."""
    truncate_dim, model.truncate_dim = model.truncate_dim, None
    width = _width(model)
    if truncate_dim is None or truncate_dim >= width:
        return []
    note = f"The model's vectors are cut to {truncate_dim} of {width} dimensions (truncate_dim); the baseline uses all."
    console.print(note, highlight=False)
    return [note]


def _corpus(settings: BaselineSettings, console: Console) -> tuple[SpooledCorpus, dict[str, Any]]:
    assert settings.corpus is not None  # checked
    with stage(console, f"reading {settings.corpus}", unit="sentences", announce=False) as bar:
        corpus = spool_corpus(
            settings.corpus,
            column=settings.column,
            data=settings.data,
            max_chars=settings.max_chars or MAX_CHARS,
            progress=bar.update,
        )
    drawn = drawn_sentences(corpus, settings.sentences)
    record = {"source": corpus.source, "sentences": corpus.sentences, "sha256": corpus.sha256, "drawn": drawn}
    console.print(f"{drawn:,} of {corpus.sentences:,} sentences in {corpus.source}", highlight=False)
    return corpus, record


def _width(model: SentenceTransformer) -> int:
    width = model.get_embedding_dimension()
    if width is None:
        raise UserError("the model does not say how many dimensions its vectors have: nothing can be fitted to it")
    return width


_BUILDERS: dict[str, Callable[[BaselineSettings, Console], _BuiltModel]] = {
    "glove": _make_glove,
    "whitening": _make_whitening,
    "flow": _make_flow,
    "normalised": _make_normalised,
}
