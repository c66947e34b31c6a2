"""Spelling correction as a step before a model: a folder that a model carries, and a model that corrects its queries.

The folder has no part in the model: sentence-transformers loads the model as if it were not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.baselines.spelling import SpellingCorrection, SpellingSettings
from holdfast.baselines.spelling_counts import PAIRS, WORDS, SpellingCounts
from holdfast.errors import UserError
from holdfast.files import expanded, read_object, sha256, write_json, write_text
from holdfast.version import __version__

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

SPELLING_FOLDER = "spelling"
"""The folder of the step within that of a model."""
FORMAT = 1
_RECORD = "spelling.json"
_HINT = "make it again, with holdfast.spelling_of_corpus or `holdfast harden --spelling`"

_README = f"""\
# Spelling correction of queries

Made by holdfast {__version__} from a corpus. The model beside this folder does not use it unless it is switched on:

    import holdfast
    model = holdfast.with_spelling("MODEL")      # the model's folder; only queries are corrected
    model.encode_query("how do I chnage my pasword")

Without holdfast, SymSpell alone corrects with the same words (`pip install symspellpy`), with more mistakes:

    import importlib.resources, symspellpy
    spell = symspellpy.SymSpell(max_dictionary_edit_distance=2)
    spell.load_dictionary(importlib.resources.files("symspellpy") / "frequency_dictionary_en_82_765.txt", 0, 1)
    spell.load_dictionary("MODEL/spelling/{WORDS}", 0, 1, encoding="utf-8")
    print(spell.lookup("pasword", symspellpy.Verbosity.TOP, 2)[0].term)

`{WORDS}` has the corpus' words with their counts and how often they have a capital, `{PAIRS}` its pairs of neighbours.
Names and other rare words of the corpus are among them: treat this folder as you treat the corpus. The English counts
are not here; they come with symspellpy (MIT licence; from Google Books Ngram data and SCOWL).
"""


def spelling_of_corpus(texts: Iterable[str], folder: str | Path) -> SpellingCorrection:
    """Count the words of a stream of texts, write a correction with them to a folder, and return it.

    Raises:
        UserError: the texts have no words, or the folder cannot be written.
    """
    made = SpellingCorrection.of(texts)
    if not made.counts.words:
        raise UserError("the corpus has no words: spelling correction needs some texts")
    save_spelling(made, folder)
    return made


def save_spelling(correction: SpellingCorrection, folder: str | Path) -> None:
    """Write a correction to a folder; `spelling.json` comes last, with the hashes of the others.

    Raises:
        UserError: the folder cannot be written.
    """
    target = expanded(folder)
    correction.counts.write(target)
    write_text(target / "README.md", _README)
    record = {
        "format": FORMAT,
        "holdfast": __version__,
        "english": "symspellpy",
        **correction.record(),
        "sha256": {name: sha256(target / name) for name in (WORDS, PAIRS)},
    }
    write_json(target / _RECORD, record)


def has_spelling(model: Path) -> bool:
    """Return True if a model's folder has a correction, complete: its record is written last."""
    return (model / SPELLING_FOLDER / _RECORD).is_file()


def spelling_step(folder: str | Path) -> SpellingCorrection:
    """Load the correction in a folder, or in the folder `spelling` of a model: a function from a text to a text.

    Raises:
        UserError: there is none, it is damaged or of a newer holdfast.
    """
    place = _step_folder(expanded(folder))
    record = read_object(place / _RECORD)
    if record.get("format") != FORMAT:
        made_by = (
            f"of format {record['format']}, holdfast {__version__} reads {FORMAT}" if "format" in record else "damaged"
        )
        raise UserError(f"{place / _RECORD} is {made_by}: {_HINT}")
    for name, expected in record.get("sha256", {}).items():
        if not (place / name).is_file() or sha256(place / name) != expected:
            raise UserError(f"{place / name} is not the file that {_RECORD} was written with: {_HINT}")
    try:
        sizes = record["counts"]
        counts = SpellingCounts.read(place, total=int(sizes["total"]), texts=int(sizes["texts"]))
        known = {each.name for each in fields(SpellingSettings)}
        settings = SpellingSettings(**{name: value for name, value in record["settings"].items() if name in known})
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{place / _RECORD} is damaged: {_HINT}") from error
    return SpellingCorrection(counts, settings)


def _step_folder(folder: Path) -> Path:
    found = next((each for each in (folder, folder / SPELLING_FOLDER) if (each / _RECORD).is_file()), None)
    if found is None:
        raise UserError(f"{folder} has no spelling correction (no {_RECORD}, here or in {SPELLING_FOLDER}/): {_HINT}")
    return found


def step_sha256(folder: str | Path) -> str:
    """Return the hash of a step's `spelling.json`, which holds those of its other files."""
    return sha256(_step_folder(expanded(folder)) / _RECORD)


def with_spelling(
    model: str | Path | SentenceTransformer,
    correct: Callable[[str], str] | str | Path | None = None,
    *,
    queries_only: bool = True,
) -> SentenceTransformer:
    """Return a model that corrects the spelling of its queries before they are tokenised.

    Queries are what `encode_query` gets; `encode_document` and `encode` do not correct. Prompts are never corrected.
    `save_pretrained` writes the model as it was, without the correction.

    Args:
        model: a model, which is changed in place, or the folder of one.
        correct: a correction, or its folder; None: that in the model's folder.
        queries_only: False: texts given to `encode` are corrected, too, but no documents.

    Raises:
        UserError: the folder has no correction, or the model corrects already.
    """
    from sentence_transformers import SentenceTransformer

    if correct is None and isinstance(model, SentenceTransformer):
        raise UserError("with_spelling needs the folder of the correction, if it gets a model that is loaded")
    step = correct if callable(correct) else spelling_step(model if correct is None else correct)  # type: ignore[arg-type]
    if not isinstance(model, SentenceTransformer):
        from holdfast.models import load_sentence_transformer

        model = load_sentence_transformer(str(model), sides_only=queries_only)
    module: Any = model[0]
    if isinstance(module.__dict__.get("preprocess"), _CorrectedInputs):
        raise UserError("the model corrects its queries already: load it again for another correction")
    # An attribute of the instance, so that the module keeps its class and is saved as it was.
    module.preprocess = _CorrectedInputs(module.preprocess, step, queries_only)
    return model


class _CorrectedInputs:
    """The function `preprocess` of a model's first module, with the texts of queries corrected before."""

    def __init__(self, preprocess: Callable[..., Any], correct: Callable[[str], str], queries_only: bool) -> None:
        self._preprocess, self._correct, self._queries_only = preprocess, correct, queries_only

    def __call__(self, inputs: Sequence[Any], *args: Any, task: str | None = None, **kwargs: Any) -> Any:
        if task == "query" or (task is None and not self._queries_only):
            inputs = [self._correct(text) if isinstance(text, str) else text for text in inputs]
        if task is not None:
            kwargs["task"] = task
        return self._preprocess(inputs, *args, **kwargs)
