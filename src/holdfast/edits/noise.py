"""Human noise by name: the Edits that keep the meaning, copies of texts with noise, and the option ``--noise``."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.edits.accents_edit import Accents
from holdfast.edits.case_edits import FullStop, LowerCase, SentenceCase, TitleCase, UpperCase
from holdfast.edits.edit import ENGLISH, Edit
from holdfast.edits.misspellings import Misspellings
from holdfast.edits.ocr_edit import OCR
from holdfast.edits.speech_edit import Speech
from holdfast.edits.synthetic_typos_edit import SyntheticTypos
from holdfast.edits.typing_edit import PeoplesTyping
from holdfast.edits.whitespace_edit import Whitespace
from holdfast.edits.words import Words
from holdfast.errors import UserError, one_of


class NoiseKind(NamedTuple):
    """A kind of noise: the function that makes its Edit, its usual strength, and whether it changes whole texts."""

    make: Callable[[], Edit]
    strength: float
    whole: bool = False


NOISE: Mapping[str, NoiseKind] = {
    "typing": NoiseKind(PeoplesTyping, 0.07),  # the share of words that typists of NoiseQA got wrong
    "speech": NoiseKind(Speech, 0.18),  # the share of words that a recogniser of NoiseQA's questions got wrong
    "ocr": NoiseKind(OCR, 0.1),
    "accents": NoiseKind(Accents, 1.0),
    "case.lower": NoiseKind(LowerCase, 1.0, whole=True),
    "case.upper": NoiseKind(UpperCase, 1.0, whole=True),
    "case.title": NoiseKind(TitleCase, 1.0, whole=True),
    "case.sentence": NoiseKind(SentenceCase, 1.0, whole=True),
    "whitespace": NoiseKind(Whitespace, 0.1),
    "full-stop": NoiseKind(FullStop, 1.0, whole=True),
    "typos": NoiseKind(SyntheticTypos, 0.1),
}
"""All kinds of noise, by the names of their Edits."""


def noise_edits(kinds: Iterable[str] = tuple(NOISE), *, misspellings: Misspellings | None = None) -> tuple[Edit, ...]:
    """Return the Edits of some kinds of noise, of all by default.

    Args:
        kinds: names from `NOISE`.
        misspellings: known misspellings of words, from which "typing" draws.

    Raises:
        UserError: a kind is unknown.
    """
    return tuple(_noise_edit(one_of("noise", kind, tuple(NOISE)), misspellings) for kind in kinds)


def needs_english(kind: str) -> bool:
    """Return True if a kind of noise is made for English texts.

    Raises:
        UserError: the kind is unknown.
    """
    return noise_edits([kind])[0].LANGUAGE == ENGLISH


def _noise_edit(kind: str, misspellings: Misspellings | None) -> Edit:
    if kind == PeoplesTyping.NAME and misspellings is not None:
        return PeoplesTyping(misspellings=misspellings)
    return NOISE[kind].make()


class Noise(NamedTuple):
    """A kind of noise and its strength, the share of words to change; ``str`` gives it as ``--noise`` takes it.

    ``misspellings`` are known misspellings of words, from which the noise "typing" draws.
    """

    kind: str
    strength: float
    misspellings: Misspellings | None = None

    def __str__(self) -> str:
        return f"{self.kind}={self.strength:g}"

    @classmethod
    def parse(cls, text: str, where: str = "--noise", misspellings: Misspellings | None = None) -> list[Noise]:
        """Read ``KIND[=STRENGTH][,KIND...]``; without a strength the kind's usual one.

        Raises:
            UserError: a kind is unknown or given twice, a strength is not above 0 and at most 1, there is no kind, or
                there are misspellings and no noise "typing".
        """
        found: list[Noise] = []
        for part in (part.strip() for part in text.split(",") if part.strip()):
            name, sign, value = part.partition("=")
            kind = one_of(where, name.strip(), tuple(NOISE))
            strength = _strength(value, f"{where} {part}") if sign else NOISE[kind].strength
            found.append(cls(kind, strength, misspellings if kind == PeoplesTyping.NAME else None))
        if not found:
            raise UserError(f"{where} names no noise: give some of {', '.join(NOISE)}")
        if len({noise.kind for noise in found}) < len(found):
            raise UserError(f"{where} {text}: a kind is given twice")
        if misspellings is not None and not any(noise.misspellings for noise in found):
            raise UserError(f"--misspellings is for the noise {PeoplesTyping.NAME}: add it to {where} {text}")
        return found


def _strength(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value <= 1.0:
        raise UserError(f"{where}: the strength is a share of words, above 0 and at most 1, not {text!r}")
    return value


def noisy(
    texts: Sequence[str],
    kind: str,
    strength: float | None = None,
    seed: int = 0,
    *,
    misspellings: Misspellings | None = None,
) -> list[str]:
    """Return copies of texts with noise, as people's texts have it: some texts get much, some nothing.

    The number of changed words of a text of n words is drawn from a binomial distribution, so that ``strength`` is the
    share of words changed over all texts, short ones included. Noise that changes whole texts (case, a full stop)
    changes a share ``strength`` of them. Speech without a word misheard still has neither case nor punctuation. The
    noise of a text depends on the seed, the kind, the strength and the text: equal texts get equal noise.

    Args:
        texts: any texts, without prompts.
        kind: a name from `NOISE`.
        strength: the share of words to change, 0 to 1; None: the usual one of the kind.
        seed: the random seed.
        misspellings: known misspellings of words, from which the noise "typing" draws.

    Raises:
        TypeError: ``texts`` is a single text.
        ValueError: the strength is not between 0 and 1.
        UserError: the kind is unknown.

    Example:
        >>> noisy(["How many points did the defence surrender?"], "case.lower")
        ['how many points did the defence surrender?']
    """
    if isinstance(texts, str):
        raise TypeError("texts are a list: write [text] for a single one")
    (edit,) = noise_edits([kind], misspellings=misspellings)
    share = NOISE[kind].strength if strength is None else strength
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"strength must be between 0 and 1, not {share}")
    return [_noisy(text, edit, share, random.Random(f"{seed}/{kind}/{share}/{text}")) for text in texts]


def _noisy(text: str, edit: Edit, strength: float, rng: random.Random) -> str:
    words = 1 if NOISE[edit.NAME].whole else len(Words.of(text).words)
    count = sum(rng.random() < strength for _ in range(words))
    if count:
        made = edit(text, rng, count / words)
        return text if made is None else made.text
    return edit.plain(text) if isinstance(edit, Speech) and strength > 0.0 else text
