"""A filter of synonyms: is the text with the substitute still a well-formed sentence with the same meaning?

WordNet lists the synonyms of all senses of a word, so most of them do not fit a given sentence (snow: coke). The filter
asks, cheapest first: rules of form (:mod:`holdfast.edits.substitution_form`), then the minimum of each of five signals.
The minimums come from labelled substitutions (``benchmarks/synonym_validity.py``, `docs/resources.md`).

The model under attack has no part in it, nor has another sentence encoder, which would be some model under attack
itself: all models are judged with the same synonyms. The second opinion on WordNet's is a list of neighbours in
word-vector space.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.edits.substitution_form import Substitution, SubstitutionForm
from holdfast.errors import UserError

if TYPE_CHECKING:
    from holdfast.adversary.word_likelihood import WordLikelihood
    from holdfast.attacks.resources import Resources
    from holdfast.edits.synonyms import Synonyms
    from holdfast.edits.tagging import Tagger
    from holdfast.edits.word_frequency import WordFrequency
    from holdfast.edits.wordnet import WordNet

_NEAREST = 8  # neighbours of a word that count as agreement: as many as the lists have
_REMEMBERED = 1 << 17  # answers


class Signals(NamedTuple):
    """The signals of a substitution that has no fault of form, or their minimums.

    Attributes:
        senses: share of the original's senses that the substitute has too, by WordNet. A word shares few of its senses
            by chance, and the one that is meant is hardly among them.
        others_senses: share of the substitute's senses that the original has too.
        frequency: log10 of the substitute's occurrences in a billion words.
        agreement: 1 if each word is among the nearest eight of the other in the synonym lists or vectors, ½ if only one
            is, else 0.
        ratio: log-likelihood of the substitute at its place minus that of the original, by the masked LM.
    """

    senses: float
    others_senses: float
    frequency: float
    agreement: float
    ratio: float

    def reach(self, minimums: Signals) -> bool:
        """Return True if no signal is below its minimum."""
        return all(own >= least for own, least in zip(self, minimums, strict=True))


WITH_LISTS = Signals(senses=0.34, others_senses=0.0, frequency=2.0, agreement=1.0, ratio=-5.0)
"""The minimums where there are lists or vectors of synonyms."""

WITHOUT_LISTS = Signals(senses=0.7, others_senses=0.5, frequency=2.0, agreement=0.0, ratio=-5.0)
"""The minimums where there are none: WordNet alone has to be sure."""


class ValidSynonyms:
    """The filter; recent answers are cached by text, place and substitute.

    Args:
        wordnet: senses and phrases.
        tagger: parts of speech.
        frequency: frequencies of words.
        likelihood: the masked language model.
        synonyms: lists or vectors of synonyms, a second opinion on WordNet's; None: without.
        minimums: the minimums of the signals; None: the calibrated ones.
    """

    def __init__(
        self,
        wordnet: WordNet,
        tagger: Tagger,
        frequency: WordFrequency,
        likelihood: WordLikelihood,
        synonyms: Synonyms | None = None,
        *,
        minimums: Signals | None = None,
    ) -> None:
        self.form = SubstitutionForm(wordnet, tagger)
        self._wordnet, self._frequency, self._likelihood, self._synonyms = wordnet, frequency, likelihood, synonyms
        self.minimums = minimums or (WITHOUT_LISTS if synonyms is None else WITH_LISTS)
        agreement = "no synonym lists" if synonyms is None else synonyms.source
        self.source = "; ".join((wordnet.source, tagger.source, frequency.source, agreement, likelihood.source))
        self._known: dict[tuple[tuple[str, ...], int, str], bool] = {}

    @classmethod
    def of(cls, resources: Resources) -> ValidSynonyms:
        """Create the filter of some resources; without agreement if their lists of synonyms are not here.

        Raises:
            UserError: WordNet, the tagger, the masked LM or the frequencies of words are missing.
        """
        from holdfast.adversary.word_likelihood import WordLikelihood
        from holdfast.edits.word_frequency import english_frequency

        frequency = english_frequency()
        try:
            synonyms = resources.synonyms
        except UserError:
            synonyms = None
        likelihood = WordLikelihood(resources.filtering_masked_lm)
        return cls(resources.wordnet, resources.tagger, frequency, likelihood, synonyms)

    def valid(self, asked: Sequence[Substitution]) -> list[bool]:
        """Return, for each substitution, whether it is valid. The masked LM answers for all of them in batches."""
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        keys = [(each.words.parts, each.place, each.word) for each in asked]
        new = {key: each for key, each in zip(keys, asked, strict=True) if key not in self._known}
        # What the cheap signals refuse is not asked of the masked LM.
        cheap = {key: signals for key, each in new.items() if (signals := self._cheap_signals(each)) is not None}
        likely = [key for key, signals in cheap.items() if signals.reach(self.minimums)]
        ratios = dict(zip(likely, self._ratios([new[key] for key in likely]), strict=True))
        for key in new:
            ratio = ratios.get(key)
            self._known[key] = ratio is not None and ratio >= self.minimums.ratio
        return [self._known[key] for key in keys]

    def signals(self, asked: Sequence[Substitution]) -> list[Signals | None]:
        """Return all signals of each substitution; None if a rule of form or the masked LM's window refuses it."""
        cheap = [self._cheap_signals(each) for each in asked]
        formed = [number for number, signals in enumerate(cheap) if signals is not None]
        ratios = dict(zip(formed, self._ratios([asked[number] for number in formed]), strict=True))
        return [
            None if signals is None or ratios[number] is None else signals._replace(ratio=float(ratios[number] or 0.0))
            for number, signals in enumerate(cheap)
        ]

    def _cheap_signals(self, asked: Substitution) -> Signals | None:
        """Return the signals with an infinite ratio; None if a rule of form refuses the substitution."""
        if self.form.fault(asked) is not None:
            return None
        old, word = asked.old.lower(), asked.word.lower()
        senses, others = self._wordnet.shared_senses(old, word, self.form.tag(asked.words, asked.place))
        agreement = (self._lists(old, word) + self._lists(word, old)) / 2
        return Signals(senses, others, self._frequency.per_billion(word), agreement, float("inf"))

    def _lists(self, word: str, other: str) -> bool:
        return self._synonyms is not None and other in self._synonyms.nearest(word, _NEAREST)

    def _ratios(self, asked: Sequence[Substitution]) -> list[float | None]:
        """Return the likelihood ratio of each substitution; None beyond the masked LM's window."""
        logs = self._likelihood.log_probabilities(
            [(each.words, each.place, word) for each in asked for word in (each.word, each.old)]
        )
        pairs = zip(logs[::2], logs[1::2], strict=True)
        return [None if new is None or old is None else new - old for new, old in pairs]
