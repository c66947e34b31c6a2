"""Fit the rates of typing errors, `src/holdfast/edits/typing_rates.tsv`, which holds shares and no words.

Misspellings: `misspellings/learners.tsv.gz` gives words and how learners wrote them. Each pair is aligned; the operations
are counted by the length of the word, by place and by letter. How likely a word is misspelt is its number of
misspellings per use in `questions/` and `unlabelled/`, by frequency and length.

Slips: typed questions of `noiseqa/` (every other paragraph, for choices; the others test the likeness) have both kinds of
error. The share of misspellings is that which explains their substitutions of letters that are not neighbours on the
keyboard. Slips are given the operations and counts that misspellings leave; they hit any key alike.

    python benchmarks/fit_typing.py --data DIR [--output FILE]
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from noiseqa_questions import changed_words, questions, words_apart
from typing_alignment import Operation, is_near, operations

from holdfast.edits.typing_errors import KEYBOARD
from holdfast.edits.typing_rates import LENGTHS, MISSPELLING, PLACES, SLIP, frequency_class, length_class, place_class
from holdfast.files import write_text

Groups = dict[tuple[str, str], Counter[str]]
MOST = 3  # more operations than this are another word
_LETTERS = re.compile("[a-z]+")
_USES = ("questions/nq_open", "questions/webquestions", "unlabelled/wiki_train_00")


def rows(file: Path) -> Iterator[list[str]]:
    with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
        next(lines)
        for line in lines:
            yield line.rstrip("\n").split("\t")


def learners(data: Path) -> Iterator[tuple[str, str]]:
    """Pairs of a word and a misspelling of it, in lower case, letters only."""
    for word, misspellings in rows(data / "misspellings" / "learners.tsv.gz"):
        for typed in misspellings.split(" "):
            if _LETTERS.fullmatch(word.lower()) and _LETTERS.fullmatch(typed.lower()):
                yield word.lower(), typed.lower()


def aligned(pairs: Iterator[tuple[str, str]]) -> Iterator[tuple[str, list[Operation]]]:
    """Words with the operations of their errors, 1 to `MOST`."""
    for word, typed in pairs:
        found = operations(word, typed)
        if 1 <= len(found) <= min(MOST, max(1, len(word) // 2)):
            yield word, found


def fit_misspellings(data: Path) -> Groups:
    groups: Groups = defaultdict(Counter)
    letters: Counter[str] = Counter()
    for word, found in aligned(learners(data)):
        letters.update(word)
        groups[f"{MISSPELLING}/count", length_class(word)][str(len(found))] += 1
        for operation in found:
            name, index = operation.name, max(operation.index, 0)
            groups[f"{MISSPELLING}/operation", length_class(word)][name] += 1
            groups[f"{MISSPELLING}/place", name][place_class(index, len(word))] += 1
            groups[f"{MISSPELLING}/letter", name][word[index]] += 1
            if name in ("substitute", "insert"):
                groups[f"{MISSPELLING}/{name}", word[index]][operation.letter] += 1
    for (table, _), counts in groups.items():
        if table == f"{MISSPELLING}/letter":  # relative to how often the letter occurs
            for letter in counts:
                counts[letter] = counts[letter] / letters[letter]  # type: ignore[assignment]
    return groups


def fit_apostrophes(data: Path) -> Counter[str]:
    """How often a misspelling of a word with an apostrophe has none."""
    words = ((word, typed) for word, lists in rows(data / "misspellings" / "learners.tsv.gz") for typed in lists.split(" "))
    return Counter("kept" if "'" in typed or "’" in typed else "lost" for word, typed in words if "'" in word[1:-1])


def fit_risk(data: Path) -> Counter[str]:
    """Misspellings per use of a word, by frequency and length."""
    uses: Counter[str] = Counter()
    for name in _USES:
        for (text,) in rows(data / f"{name}.tsv.gz"):
            uses.update(_LETTERS.findall(text.lower()))
    wrong: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for word, _ in learners(data):
        wrong[f"{frequency_class(word)} {length_class(word)}"] += 1
    for word in {word for word, _ in learners(data)}:
        used[f"{frequency_class(word)} {length_class(word)}"] += uses[word] + 1
    return Counter({key: wrong[key] / used[key] for key in sorted(wrong)})  # type: ignore[arg-type]


def fit_slips(data: Path, groups: Groups) -> tuple[float, Groups]:
    """The share of misspellings among typed errors, and what they leave: the slips."""
    far = Counter(not_near(word, each) for word, found in aligned(learners(data)) for each in found)
    typed: Groups = defaultdict(Counter)
    typed_far: Counter[bool] = Counter()
    pairs = [pair for question in questions(data, chosen=True) for pair in changed_words(question)]
    apart = Counter(kind for question in questions(data, chosen=True) for kind in words_apart(question))
    capitals = sum(word.lower() == typed.lower() for word, typed in pairs)
    for word, found in aligned((word.lower(), typed.lower()) for word, typed in pairs):
        typed[f"{SLIP}/count", length_class(word)][str(len(found))] += 1
        for operation in found:
            typed_far[not_near(word, operation)] += 1
            typed[f"{SLIP}/operation", ""][operation.name] += 1
    misspelt = share(typed_far, True) / share(far, True)
    overall = sum((groups[f"{MISSPELLING}/operation", key] for key in LENGTHS), Counter())
    every = typed.pop((f"{SLIP}/operation", ""))
    slips = Counter({name: share(every, name) - misspelt * share(overall, name) for name in sorted(every)})
    slips = Counter({name: max(0.0, value) for name, value in slips.items()})  # type: ignore[arg-type]
    # errors that no misspelling has: a lost capital, words joined or split
    total = every.total()
    slips.update({"capital": capitals / total, "join": apart["join"] / total, "split": apart["split"] / total})
    return misspelt, {**typed, (f"{SLIP}/operation", ""): slips}


def not_near(word: str, operation: Operation) -> bool:
    """Whether a letter is substituted by one that is no neighbour on the keyboard."""
    return operation.name == "substitute" and not is_near(word, operation)


def share(counts: Counter, key: object) -> float:
    return counts[key] / sum(counts.values())


def table(groups: Groups, least: float = 0.002) -> str:
    """The table's text; outcomes of a smaller share than ``least`` are left out."""
    lines = ["table\tkey\toutcome\tshare"]
    for (name, key), counts in sorted(groups.items()):
        kept = {outcome: value for outcome, value in counts.items() if value / sum(counts.values()) >= least}
        for outcome in sorted(kept, key=_order):
            lines.append(f"{name}\t{key}\t{outcome}\t{kept[outcome] / sum(kept.values()):.5f}")
    return "\n".join(lines) + "\n"


def _order(outcome: str) -> tuple[int, str]:
    return (PLACES.index(outcome) if outcome in PLACES else -1, outcome)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=Path("src/holdfast/edits/typing_rates.tsv"))
    arguments = parser.parse_args()
    groups = fit_misspellings(arguments.data)
    misspelt, slips = fit_slips(arguments.data, groups)
    groups |= slips
    groups["mixture", ""] = Counter({MISSPELLING: misspelt, SLIP: 1 - misspelt})  # type: ignore[dict-item]
    groups["risk", ""] = fit_risk(arguments.data)
    groups[f"{MISSPELLING}/apostrophe", ""] = fit_apostrophes(arguments.data)
    groups = {key: counts for key, counts in groups.items() if key[0] != f"{MISSPELLING}/insert" or key[1] in KEYBOARD}
    write_text(arguments.output, table(groups))
    print(f"{arguments.output}: misspellings {misspelt:.3f} of typing errors, {len(groups)} groups of shares")


if __name__ == "__main__":
    main()
