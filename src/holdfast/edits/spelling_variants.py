"""British spellings replaced by American ones and the reverse, and words with and without a hyphen: the meaning stays.

Families of words are made from stems; words that are another word in the other spelling (check, tire, story, practice)
are left out, or replaced in the safe direction alone.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterator, Mapping

from holdfast.edits.edit import ENGLISH, Change, Edit, Edited
from holdfast.edits.number_forms import NumberForm
from holdfast.edits.words import Words, in_case_of

# Stems in -our and -or, with their endings.
_OUR = """
arm/s/ed behavi/s/al/ally cand clam/s/ed col/s/ed/ing/ful/less demean endeav/s/ed/ing fav/s/ed/ing/able/ably/ite/ites
ferv flav/s/ed/ing harb/s/ed/ing hon/s/ed/ing/able/ably hum/s lab/s/ed/ing/er/ers
neighb/s/ing/hood/hoods/ly od/s parl/s rum/s/ed sav/s/ed/y savi splend tum/s val vap/s vig
"""
# Stems in -ise and -ize.
_ISE = """
apolog author capital categor central character civil colon commercial computer critic dramat econom emphas familiar
final formal fertil general global hospital ideal immun industrial internal legal liberal local material maxim memor
minim mobil modern monopol national neutral normal optim organ penal personal popular priorit privat public radical
rational real recogn reorgan revolution special stabil standard steril summar symbol sympath synthes urban util victim
visual western
"""
_YSE = "anal paral catal"
_RE = "cent theat fib calib lust somb spect meag millimet centimet kilomet lit millilit"
_DOUBLED = "cancel channel counsel dial equal fuel label level marvel model quarrel signal total travel tunnel"
# British and American, both ways; | separates the forms of a word.
_PAIRS = """
aeroplane|aeroplanes airplane|airplanes; aluminium aluminum; anaemia anemia; anaesthetic|anaesthesia
anesthetic|anesthesia; analogue analog; archaeology|archaeologist|archaeologists|archaeological
archeology|archeologist|archeologists|archeological; artefact|artefacts artifact|artifacts;
catalogue|catalogues|catalogued catalog|catalogs|cataloged; cosy cozy; defence|defences defense|defenses;
offence|offences offense|offenses; pretence pretense; diarrhoea diarrhea; encyclopaedia|encyclopaedias
encyclopedia|encyclopedias; enrol enroll; enrolment enrollment; foetus|foetal fetus|fetal; fulfil|fulfils|fulfilment
fulfill|fulfills|fulfillment; grey|greyish gray|grayish; gynaecology gynecology; haemoglobin hemoglobin;
instalment|instalments installment|installments; jewellery jewelry; judgement|judgements judgment|judgments;
leukaemia leukemia; manoeuvre|manoeuvres maneuver|maneuvers; mediaeval medieval; mould|moulds|moulded
mold|molds|molded; moustache|moustaches mustache|mustaches; oestrogen estrogen; orthopaedic orthopedic; paediatric
pediatric; palaeontology|palaeontologist paleontology|paleontologist; plough|ploughs|ploughed plow|plows|plowed;
pyjamas pajamas; sceptic|sceptics|sceptical|scepticism skeptic|skeptics|skeptical|skepticism; skilful|skilfully
skillful|skillfully; smouldering smoldering; ageing aging; adviser|advisers advisor|advisors; towards toward;
afterwards afterward; amongst among; mum|mums mom|moms; maths math; acknowledgement acknowledgment; sulphur sulfur;
sulphate sulfate; orientated oriented; focussed focused;
co-operate|co-operates|co-operated|co-operating|co-operation|co-operative
cooperate|cooperates|cooperated|cooperating|cooperation|cooperative;
co-ordinate|co-ordinated|co-ordinating|co-ordination|co-ordinator
coordinate|coordinated|coordinating|coordination|coordinator; e-mail|e-mails email|emails; re-elected|re-election
reelected|reelection; post-war postwar; pre-war prewar; non-profit nonprofit; semi-final|semi-finals|semi-finalist
semifinal|semifinals|semifinalist; quarter-final|quarter-finals|quarter-finalist
quarterfinal|quarterfinals|quarterfinalist; line-up|line-ups lineup|lineups; on-line online;
co-founder|co-founders|co-founded cofounder|cofounders|cofounded; make-up makeup;
multi-national multinational; anti-war antiwar; co-author|co-authored
coauthor|coauthored; inter-war interwar; sub-species subspecies; play-off|play-offs playoff|playoffs; cease-fire
ceasefire; pre-existing preexisting; re-used reused; re-use reuse; micro-organisms microorganisms; mini-series
miniseries; best-seller bestseller; hand-made handmade; home-made homemade
"""
# One direction only: the other spelling has another meaning, too.
_ONE_WAY = """
whilst while; learnt learned; burnt burned; spelt spelled; leant leaned; dreamt dreamed; licence license; practise
practice; practised practiced; practising practicing; tyre tire; tyres tires; storey story; storeys stories;
programme program; programmes programs; sizeable sizable; metre meter; metres meters; gaol jail; kerb curb; per_cent
percent; draught draft; take-over takeover; world-wide worldwide; nation-wide nationwide
"""


class SpellingVariant(Edit):
    """A word in its British spelling replaced by the American one, or the reverse."""

    NAME = "spelling-variant"
    SIDE = "hold"
    LANGUAGE = ENGLISH
    ABOUT = "British and American spelling, words with and without a hyphen"

    def __init__(self) -> None:
        self._variants = spelling_variants()

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """See `Edit`."""
        places = [(match, new) for match in _WORD.finditer(text) if (new := self._variant(text, match)) is not None]
        if not places:
            return None
        wanted = max(1, round(strength * len(Words.of(text).words)))
        chosen = rng.sample(places, min(wanted, len(places)))
        chosen.sort(key=lambda place: place[0].start())
        return Edited(text, tuple(Change(*match.span(), new) for match, new in chosen))

    def _variant(self, text: str, match: re.Match[str]) -> str | None:
        """Return the other spelling of a word; None for a word without one, and for a part of a name."""
        word = match[0]
        new = self._variants.get(" ".join(word.lower().split()))
        if new is None:
            return None
        before = text[: match.start()].rstrip()
        opens = not before or before[-1] in ".!?:\"'\u201c(\n"
        if word[0].isupper() and (not opens or _CAPITAL.match(text, match.end()) or not word[1:].islower()):
            return None
        if _is_quoted(text, match) or _is_in_title(text, match):
            return None
        return in_case_of(word[:1], new) if word[0].isupper() else new


def _is_quoted(text: str, match: re.Match[str]) -> bool:
    """Return True if the word is all that stands in quotation marks: the text speaks of the word."""
    return text[: match.start()][-1:] in _QUOTES and text[match.end() :][:1] in _QUOTES


def _is_in_title(text: str, match: re.Match[str]) -> bool:
    """Return True if the words around show a title or a name in lower case (grey's anatomy, sword art online)."""
    before, behind = text[: match.start()].lower(), text[match.end() :]
    word = match[0].lower()
    if word in ("grey", "gray") and (
        behind[:1] in _APOSTROPHES
        or before.endswith("shades of ")
        or (text.islower() and not before.endswith(_DETERMINERS))
    ):
        return True
    return before.endswith(_BEFORE_IN_TITLES.get(word, ()))


_DETERMINERS = ("a ", "the ", "two ")  # before a colour; without one, "gray" in a question is mostly a name
_APOSTROPHES = ("'", "\u2019")
_QUOTES = ("'", '"', "`", "\u2018", "\u2019", "\u201c", "\u201d", "\u00ab", "\u00bb")
_POSSESSIVES = ("'s ", "\u2019s ", "s' ", "s\u2019 ")
# Lower-case words that end a title after these.
_BEFORE_IN_TITLES = {
    "online": ("art ",),
    "on-line": ("art ",),
    "neighborhood": _POSSESSIVES,
    "neighbourhood": _POSSESSIVES,
}

_WORD = re.compile(
    r"(?<![\w'\u2019/@.-])(?:per cent|[^\W\d_]+(?:-[^\W\d_]+)*)(?![\w/@-]|\.\w|['\u2019](?!s\b))", re.IGNORECASE
)
_CAPITAL = re.compile(r"\s+[^\W\d_a-z]")


@functools.cache
def spelling_variants() -> Mapping[str, str]:
    """Return the British spelling of American words and the reverse, in lower case."""
    return dict(_pairs())


def _pairs() -> Iterator[tuple[str, str]]:
    """Yield each spelling with the other one."""
    both = [*_families(), *_listed()]
    for british, american in both:
        if british != american:
            yield british, american
            yield american, british
    for line in _ONE_WAY.split(";"):
        british, american = line.replace("_", "-").split() if "_" not in line else line.split()
        yield british.replace("_", " "), american


def _families() -> Iterator[tuple[str, str]]:
    for item in _OUR.split():
        stem, *endings = item.split("/")
        for ending in ["", *endings]:
            yield f"{stem}our{ending}", f"{stem}or{ending}"
    for stem in _ISE.split():
        for ending in "e es ed ing ation ations er ers".split():
            yield f"{stem}is{ending}", f"{stem}iz{ending}"
    for stem in _YSE.split():
        for ending in "e ed ing".split():
            yield f"{stem}ys{ending}", f"{stem}yz{ending}"
    for stem in _RE.split():
        for ending in ("", "s"):
            yield f"{stem}re{ending}", f"{stem}er{ending}"
    yield "centred", "centered"
    for stem in _DOUBLED.split():
        for ending in "ed ing er ers".split():
            yield f"{stem}l{ending}", f"{stem}{ending}"


def _listed() -> Iterator[tuple[str, str]]:
    for line in _PAIRS.split(";"):
        if line.strip():
            yield from zip(*(forms.split("|") for forms in line.split()), strict=True)


def spelling_edits() -> list[Edit]:
    """Return the edits `SpellingVariant` and `NumberForm`."""
    return [SpellingVariant(), NumberForm()]
