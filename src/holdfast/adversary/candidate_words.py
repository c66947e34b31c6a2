"""Sources of candidate words for attacks in training: synonyms, a masked language model, or what this machine has.

The recipe ``geometry`` of ``holdfast attack`` decides in the same way, so that a model is trained against the attack
that measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from holdfast.adversary.geometry import Proposer
from holdfast.adversary.masked_lm import Fillers, MaskedLM
from holdfast.data.folder import VARIABLE, data_folder
from holdfast.data.registry import locate
from holdfast.data.tasks import task_named
from holdfast.edits.synonyms import NEAR, Synonyms, read_synonyms
from holdfast.edits.words import Words
from holdfast.errors import UserError
from holdfast.files import expanded

Source = Literal["auto", "masked-lm", "neighbours"]

NEIGHBOURS = "neighbours"
"""As a file of synonyms: the neighbour lists of the data folder."""

_NO_LISTS = (
    "candidates of the training attack: the masked LM's words, filtered by its embeddings, since no synonyms are at "
    f"hand ({VARIABLE}, --data or word_vectors=): this attack is far weaker than one with synonyms"
)


def neighbour_lists(data: Path | None = None) -> Path | None:
    """Return the file of neighbour lists of a data folder, by default that in ``HOLDFAST_DATA``; None without one.

    Raises:
        UserError: the data folder does not exist.
    """
    folder = data_folder(data)
    files = folder and locate(task_named("synonyms").split("counterfitted_neighbors"), folder)
    return files[0] if files else None


def synonyms_option(options: Mapping[str, Any]) -> str | None:
    """Return the name of the option for a file of synonyms; None if it is given, or if ``source`` is "masked-lm"."""
    return None if options.get("word_vectors") is not None or options.get("source") == "masked-lm" else "word_vectors"


def with_synonyms(options: Mapping[str, Any], data: Path | None) -> dict[str, Any]:
    """Return the options of a method or a defence with the file of its synonyms written out, for the record of a run.

    ``source`` and ``word_vectors`` are read. With ``source="auto"`` and no file the neighbour lists of the data folder
    are named, if it has them; the name "neighbours" is replaced by their path.

    Raises:
        UserError: the neighbour lists are named and not there, or the data folder does not exist.
    """
    source, named = options.get("source", "auto"), options.get("word_vectors")
    if named == NEIGHBOURS or (named is None and source == "neighbours"):
        return {**options, "word_vectors": str(_lists(data))}
    if named is None and source == "auto" and (found := neighbour_lists(data)) is not None:
        return {**options, "word_vectors": str(found)}
    return dict(options)


def _lists(data: Path | None) -> Path:
    found = neighbour_lists(data)
    if found is None:
        raise UserError(
            f"the neighbour lists are not here: give --data DIR, set {VARIABLE}, or name a file with word_vectors="
        )
    return found


@dataclass(frozen=True)
class Neighbours:
    """Candidates for a word: its synonyms, whatever the text around it.

    Attributes:
        synonyms: the synonyms.
        limit: T, maximum number of candidates for a word.
        minimum_cosine: smallest cosine of a word's vector and its neighbours'; lists of neighbours have none.
    """

    synonyms: Synonyms
    limit: int
    minimum_cosine: float = NEAR

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"at least one candidate is needed, got a limit of {self.limit}")

    @property
    def source(self) -> str:
        """The description of the source, for the record."""
        return self.synonyms.source

    def candidates(self, sentences: Sequence[Words], places: Sequence[int]) -> list[list[str]]:
        """Return at most T other words for the word ``places[i]`` of each sentence, nearest first."""
        words = [sentence.words[place] for sentence, place in zip(sentences, places, strict=True)]
        return [self.synonyms.nearest(word, self.limit, self.minimum_cosine)[: self.limit] for word in words]


@dataclass(frozen=True)
class Candidates:
    """The chosen source of candidates.

    Attributes:
        proposer: the source.
        masked_lm: the masked language model, if the source uses one.
        notice: a line for the user; "" for none.
    """

    proposer: Proposer
    masked_lm: MaskedLM | None = None
    notice: str = ""


def candidate_words(
    source: Source, word_vectors: str | None, load: Callable[[], MaskedLM], *, minimum_cosine: float, limit: int
) -> Candidates:
    """Return the source of candidates.

    Args:
        source: "neighbours": the synonyms in the file; "masked-lm": words of the masked LM that are near the original
            by the file, or by the masked LM's embeddings; "auto": as the recipe ``geometry``: "neighbours" if the file
            holds lists, which contain hardly any words of the masked LM, "masked-lm" if it holds word vectors.
        word_vectors: a file of word vectors or neighbour lists, or "neighbours"; None: unless the source is
            "masked-lm", the neighbour lists in ``HOLDFAST_DATA``; without these "auto" takes the masked LM.
        load: loads the masked LM; called only if it is used.
        minimum_cosine: minimum cosine of a candidate's word vector to the original's; lists have none.
        limit: T, maximum number of candidates for a word.

    Raises:
        UserError: the named file, or the lists, do not exist or have another format.
    """
    named = with_synonyms({"source": source, "word_vectors": word_vectors}, None)["word_vectors"]
    if source != "masked-lm" and named is not None:
        synonyms = read_synonyms(expanded(named))
        if source == "neighbours" or not synonyms.complete:
            return Candidates(Neighbours(synonyms, limit, minimum_cosine))
    model = load()
    fillers = Fillers.filtered(model, named, minimum_cosine, limit=limit)
    return Candidates(fillers, model, _NO_LISTS if source == "auto" and named is None else "")
