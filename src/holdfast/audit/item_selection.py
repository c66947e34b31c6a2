"""The choice of audit items by ``--items``: names as the card prints them, and groups of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.audit.item_names import item_name
from holdfast.edits.evasion import EVASIONS
from holdfast.edits.noise import NOISE
from holdfast.errors import UserError, one_of

CHECKS = ("vectors", "quality")
ATTACKED = ("adversarial-typos", "adversarial-synonyms", "advsts-typos", "advsts", "neighbours", "poisoning")
GRAMMAR_MOVES = ("negation", "roles", "tense", "modality")
GRAMMAR_HOLDS = ("contraction", "voice", "punctuation", "word-order")
WORD_MOVES = ("antonym", "number", "quantifier", "name", "noun")
WORD_HOLDS = ("spelling-variant", "number-form")
MEANING = "meaning"
LABELLED = ("breaking-nli", "snli", "mnli", "sick")
RETRIEVAL = tuple(f"retrieval.{version}" for version in ("clean", "typing", "speech", "typos"))

_HUMAN_NOISE = ("typing", "speech", "ocr", "accents", "whitespace")
_EVASION = tuple(EVASIONS)
_FORM = ("case.lower", "case.upper", "case.title", "case.sentence", "full-stop", "blank", "punctuation")
_PARAPHRASE = ("synonyms", "contraction", "voice", "word-order", *WORD_HOLDS)
_MOVES = (*GRAMMAR_MOVES, *WORD_MOVES)
_HOLDS = (*_FORM, "typos", "noise", *_HUMAN_NOISE, *_EVASION, *_PARAPHRASE, "fillers", *RETRIEVAL, *ATTACKED)

ITEMS: tuple[str, ...] = (*CHECKS, *_HOLDS, *_MOVES, MEANING, *LABELLED)
"""The names of all items, apart from further versions of the queries of ``--retrieval``."""
GROUPS: Mapping[str, Sequence[str]] = {
    "hold": _HOLDS,
    "move": (*_MOVES, MEANING, *LABELLED),
    "space": CHECKS,
    "attacks": ATTACKED,
    "retrieval": RETRIEVAL,
    "human-noise": _HUMAN_NOISE,
    "evasion": _EVASION,
    "form": _FORM,
    "paraphrase": _PARAPHRASE,
    "labelled": LABELLED,
}

_BESIDE = ("typos", "full-stop", "case.lower")
"""Noise that stands beside a move edit; paraphrases do, too (`holdfast.audit.move_items`)."""


@dataclass(frozen=True)
class ItemSelection:
    """The items of an audit that are measured.

    Attributes:
        names: their names; None: all.
    """

    names: frozenset[str] | None = None

    @classmethod
    def parse(cls, text: str | None, versions: Iterable[str] = ()) -> ItemSelection:
        """Read names of items and groups, joined by commas; None: all items.

        Args:
            text: the names.
            versions: the versions of the queries of a labelled collection, beside the usual ones.

        Raises:
            UserError: a name is unknown (the message names the nearest one), or there is none.
        """
        if text is None:
            return cls()
        further = _further(versions)
        groups = {**GROUPS, **{name: (*GROUPS[name], *further) for name in ("hold", "retrieval")}}
        names: set[str] = set()
        for name in filter(None, map(str.strip, text.split(","))):
            names |= set(groups.get(name) or [one_of("--items", name, (*groups, *ITEMS, *further))])
        if not names:
            raise UserError(f"--items names no item: give some of {', '.join((*groups, *ITEMS))}")
        return cls(frozenset(names))

    def has(self, name: str) -> bool:
        """Return True if an item is measured."""
        return self.names is None or name in self.names

    def possible(self, versions: Iterable[str] = ()) -> list[str]:
        """Return the names of the items that may be measured, given the versions of a labelled collection's queries."""
        return [name for name in (*ITEMS, *_further(versions)) if self.has(name)]

    def any_of(self, names: Iterable[str]) -> bool:
        """Return True if one of some items is measured."""
        return any(map(self.has, names))

    @property
    def versions(self) -> list[str]:
        """The chosen items of further versions of the queries; with all items they are not known here."""
        return sorted((self.names or frozenset()) - set(ITEMS))

    def wants(self, rows: Iterable[tuple[str, str]]) -> bool:
        """Return True if a step is needed whose rows have these tasks and splits; `MEANING` needs all move edits."""
        names = [item_name({"task": task, "split": split}) for task, split in rows]
        return self.any_of(names) or (self.has(MEANING) and any(name in _MOVES for name in names))

    def needs_family(self, family: str) -> bool:
        """Return True if the edits of a family are needed, which opens its resources: see `family_builders`."""
        moves = self.any_of((*_MOVES, MEANING))
        if family in ("grammar", "words", "synonyms"):
            own = {"grammar": GRAMMAR_HOLDS, "words": WORD_HOLDS}.get(family, ())
            return moves or self.any_of(own)
        if family == "evasion":
            return self.any_of(_EVASION)
        assert family in NOISE, family
        return self.any_of((family, f"retrieval.{family}")) or (moves and family in _BESIDE)

    def record(self) -> list[str] | None:
        """Return the entry of the protocol; None for all items."""
        return None if self.names is None else sorted(self.names)


def _further(versions: Iterable[str]) -> list[str]:
    return [name for name in (f"retrieval.{version}" for version in versions) if name not in ITEMS]


def copies_of_a_text(selection: ItemSelection) -> int:
    """Return at most how many changed copies of a text the selected items need, of all that may apply to it.

    A changed meaning needs two copies, and so does a pair of a labelled set; `noise` uses those of `typos`.
    """
    moves = sum(map(selection.has, _MOVES)) if not selection.has(MEANING) else len(_MOVES)
    own = [name for name in _HOLDS if name not in (*ATTACKED, *RETRIEVAL, "noise")]
    held = sum(map(selection.has, own)) + int(selection.has("noise") and not selection.has("typos"))
    retrieval = [name for name in RETRIEVAL if selection.has(name)]
    queries = len({*retrieval, RETRIEVAL[0]}) if retrieval else 0
    return held + 2 * moves + queries + 4 * sum(map(selection.has, LABELLED))
