"""An independent checker of attack results: a second implementation of what every adversarial text must keep to.

It reads the resources, cuts texts into words and runs the models by itself, with the standard library and plain
transformers, and takes nothing from the attacks but their result file and the list of stop words.

    python tests/attacks/attack_checker.py RESULT.json --data DIR [--masked-lm DIR]

It understands results made with `--resources light`: neighbour lists, WordNet's tables.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import torch

from holdfast.adversary.words import STOP_WORDS

WORD = re.compile(r"[^\W_]+")
# Constants as the papers' table has them; a result that changed one says so itself.
MOST = {"bertattack": 0.4, "typos": 0.2, "geometry": 0.4}
AT_MOST_WORDS = {"geometry": 20}
KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


class Broken(AssertionError):
    """A rule that an adversarial text breaks."""


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
        for row in self.result["examples"]:
            try:
                self.check_row(row)
            except Broken as broken:
                raise Broken(
                    f"{row['recipe']} #{row['number']}: {broken}\n{row['original']}\n{row['adversarial']}"
                ) from None
            counts[row["recipe"]] = counts.get(row["recipe"], 0) + bool(row["changed"])
        return counts

    def check_row(self, row: dict[str, Any]) -> None:
        """One example.

        Raises:
            Broken: it breaks a rule.
        """
        words = [match.span() for match in WORD.finditer(row["original"])]
        places = [place for place, _, _ in row["changed"]]
        require(len(set(places)) == len(places), "a word was changed twice")
        require(row["words"] == len(words), f"it has {len(words)} words, not {row['words']}")
        require(self.rebuilt(row, row["changed"]) == row["adversarial"], "the changes are not the difference")
        constants = self.recipes[row["recipe"]]["constants"]
        if row["recipe"] in MOST:
            most = int(constants["max_share"] * len(words) + 1e-9)
            most = min(most, constants.get("max_words") or most)
            require(len(places) <= most, f"{len(places)} of {len(words)} words were changed, {most} may be")
        if row["outcome"] == "skipped":
            require(not places and bool(row["reason"]), "a skipped text was changed, or has no reason")
        if row["outcome"] == "succeeded":
            require(bool(places), "a text that was not changed succeeded")
        for number, (place, old, new) in enumerate(row["changed"]):
            begin, end = words[place]
            require(row["original"][begin:end] == old, f"word {place} is not {old!r}")
            require(old.isalpha() and len(old) > 1 and old.lower() not in STOP_WORDS, f"{old!r} may not be changed")
            require(new != old, f"{old!r} was exchanged by itself")
            before = self.rebuilt(row, row["changed"][:number])
            require(
                self.is_candidate(row["recipe"], constants, before, row["original"], place, old, new),
                f"{new!r} is no candidate of {row['recipe']} for {old!r}",
            )

    @staticmethod
    def rebuilt(row: dict[str, Any], changes: Iterable[Any]) -> str:
        """The original with some of its changes."""
        new = {place: word for place, _, word in changes}
        numbers = itertools.count()
        return WORD.sub(lambda match: new.get(next(numbers), match.group()), row["original"])

    def is_candidate(
        self, recipe: str, constants: dict[str, Any], before: str, original: str, place: int, old: str, new: str
    ) -> bool:
        """Whether the recipe's resource offers a word for another."""
        if recipe == "textfooler":
            return new.lower() in self.neighbours(old)[: constants["candidates"]]
        if recipe == "textbugger":
            return new.lower() in self.neighbours(old)[: constants["neighbours"]] or is_bug(old, new)
        if recipe == "pwws":
            return new.lower() in self.synonyms(old.lower())
        if recipe == "bae-r":
            return new.lower() in self.fillers(before, place, constants["candidates"])
        if recipe == "bertattack":
            return self.reads(original, place, constants["candidates"], new)
        if recipe == "geometry":
            near = new.lower() in self.neighbours(old)
            # "auto" means the lists themselves, which is what this checker reads.
            return near and (constants["source"] != "masked-lm" or new.lower() in self.fillers(before, place, 100))
        return is_typo(old, new)

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
    def synsets(self) -> dict[str, set[str]]:
        """Word to all words that share a synset with it."""
        shared: dict[str, set[str]] = {}
        for row in self.rows("wordnet/synsets"):
            lemmas = [lemma.lower() for lemma in row["lemmas"].split("|")]
            for lemma in lemmas:
                shared.setdefault(lemma, set()).update(lemmas)
        return shared

    @cache  # noqa: B019
    def synonyms(self, word: str) -> set[str]:
        """Words in a synset of the word, or of anything that it may be a form of."""
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
        return set().union(*(self.synsets().get(form, set()) for form in forms))

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
        told = f"{path}: {sum(counts.values())} changed texts keep to the rules {counts}"
        if result["protocol"]["goal"]["kind"] == "class":
            told += f"; {check_labels(result, result['model'])} flips confirmed in fp32"
        print(told)


if __name__ == "__main__":
    main()
