"""The training of a hardened encoder, as an attacker reads it in its folder: kinds of noise, vocabulary, spelling.

An attacker who has the folder has all of it; a defence is worth what it withstands of such an attacker (Tramèr et al.,
NeurIPS 2020).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.edits.typing_errors import TYPING_ERRORS, every_typing_error
from holdfast.edits.typing_outcomes import outcomes
from holdfast.edits.typing_rates import MISSPELLING, SLIP, typing_rates
from holdfast.edits.word_frequency import english_words
from holdfast.errors import UserError
from holdfast.files import read_object

RECORDS = ("harden.json", "distill.json")
"""Files that `holdfast harden` and `holdfast distill` write into the folder of their model."""
_DICTIONARY = "spelling/words.txt"
_KNOWN = 3  # occurrences from which the spelling correction takes a word of the corpus as known
_PEOPLES = "typing"


def training_record(folder: Path) -> Path | None:
    """Return the record of a hardening or distillation in a model's folder; None if there is none."""
    return next((path for path in (folder / name for name in RECORDS) if path.is_file()), None)


@dataclass(frozen=True)
class TrainingEdits:
    """The changes of texts that an encoder was trained to ignore.

    Attributes:
        source: name of the file that tells them.
        kinds: kinds of noise and typing errors in training, as `holdfast.objectives.anchored` takes them.
        normalise: the tokeniser's normalisation, after which the vocabulary is read.
        vocabulary: entries of the tokeniser's vocabulary; words of no dictionary among them are misspellings, or names,
            that the encoder knows whole.
        dictionary: words that the encoder's spelling correction knows; None: it has none.
    """

    source: str
    kinds: tuple[str, ...]
    normalise: Callable[[str], str]
    vocabulary: frozenset[str]
    dictionary: frozenset[str] | None = None

    @classmethod
    def read(cls, folder: Path) -> TrainingEdits:
        """Read a folder.

        Raises:
            UserError: it has no record of a training against noise, or a file of it is damaged.
        """
        record = training_record(folder)
        if record is None:
            raise UserError(
                f"{folder} is not the folder of a hardened encoder ({' or '.join(RECORDS)}): adaptive-typos attacks "
                "those that `holdfast harden` and `holdfast distill` write; leave it out of --recipes"
            )
        kinds = _kinds(read_object(record), record)
        normalise, vocabulary = _tokeniser(folder)
        return cls(record.name, kinds, normalise, vocabulary, _dictionary(folder / _DICTIONARY))

    def record(self) -> dict[str, Any]:
        """Return what was read, for a result."""
        size = None if self.dictionary is None else len(self.dictionary)
        return {"source": self.source, "edits": list(self.kinds), "vocabulary": len(self.vocabulary), "spelling": size}

    def typing_errors(self, word: str, kinds: tuple[str, ...], *, outside: bool = True) -> list[str]:
        """Return the typing errors in a word, the least trained ones first; with ``outside=False`` the most trained.

        Left out are errors that the tokeniser does not see, such as another case for an uncased one, and those that it
        reads as another error of the list. First come errors that the vocabulary has no entry for and that no spelling
        correction undoes, the less probable in training the earlier.
        """
        found: dict[str, str] = {}
        for typed in every_typing_error(word, kinds):
            found.setdefault(self.normalise(typed), typed)
        found.pop(self.normalise(word), None)
        known = self.probabilities(word.lower())
        rank = {
            typed: (self.is_entry(read) + self.is_corrected(typed, word), known.get(typed.lower(), 0.0))
            for read, typed in found.items()
        }
        return sorted(rank, key=rank.__getitem__, reverse=not outside)

    def is_entry(self, read: str) -> bool:
        """Return True if the vocabulary has an entry for a misspelling: a word of no dictionary."""
        return read in self.vocabulary and read not in _english()

    def is_corrected(self, typed: str, word: str) -> bool:
        """Return True if the spelling correction takes a typing error as one: the word is known, and this is not.

        Words with capitals inside are never corrected.
        """
        if self.dictionary is None or not (typed.islower() or typed[1:].islower()):
            return False
        return word.lower() in self.dictionary and typed.lower() not in self.dictionary

    def probabilities(self, word: str) -> Mapping[str, float]:
        """Return how probable each wrong word was for a lower-case word that training mistyped, beside the others."""
        found: dict[str, float] = {}
        if _PEOPLES in self.kinds:
            shares = typing_rates().shares("mixture", "")
            for kind in (MISSPELLING, SLIP):
                for typed, part in outcomes(typing_rates(), kind, word).items():
                    found[typed] = found.get(typed, 0.0) + shares[kind] * part
        for kind in self.kinds:
            made = every_typing_error(word, (kind,)) if kind in TYPING_ERRORS else []
            for typed in made:
                found[typed] = found.get(typed, 0.0) + 1.0 / len(made)
        return found


@functools.cache
def _english() -> frozenset[str]:
    """Return the words of the English dictionary, if the package symspellpy is installed; else none."""
    try:
        return english_words()
    except (UserError, ModuleNotFoundError):
        return frozenset()


def _kinds(record: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    """Return the kinds of edits in the record of a training."""
    options = record.get("protocol", {}).get("options", {})
    edits = options.get("edits") if isinstance(options, Mapping) else None
    if not isinstance(edits, str):
        raise UserError(f"{path} does not tell the edits of the training: it is damaged, or of another program")
    return tuple(name.strip() for name in edits.split(",") if name.strip())


def _tokeniser(folder: Path) -> tuple[Callable[[str], str], frozenset[str]]:
    """Return the normalisation of a model's tokeniser, and the entries of its vocabulary."""
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    if not path.is_file():
        return str, frozenset()
    try:
        tokeniser = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exceptions
        raise UserError(f"{path} cannot be read ({error}): the folder of the model is damaged") from error
    normalise = str if tokeniser.normalizer is None else tokeniser.normalizer.normalize_str
    return normalise, frozenset(tokeniser.get_vocab(with_added_tokens=False))


def _dictionary(path: Path) -> frozenset[str] | None:
    """Return the words that a spelling correction knows; None if there is no correction."""
    if not path.is_file():
        return None
    rows = [line.split(" ") for line in path.read_text(encoding="utf-8").splitlines()]
    if not all(len(row) == 3 and row[1].isdigit() for row in rows):
        raise UserError(f"{path} has lines that are no words with their counts: make the spelling correction again")
    return frozenset(row[0] for row in rows if int(row[1]) >= _KNOWN) | _english()
