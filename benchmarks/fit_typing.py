"""Fit the rates of typing errors, `src/holdfast/edits/typing_rates.tsv`, which holds shares and no words.

Misspellings: `misspellings/learners.tsv.gz` gives words and how learners wrote them. Each pair is aligned; the
operations are counted by the length of the word, by place and by letter. How likely a word is misspelt is its number of
misspellings per use in `questions/` and `unlabelled/`, by frequency and length.

Slips: typed questions of `noiseqa/` (every other paragraph, for choices; the others test the likeness) have both kinds
of error. The share of misspellings is that which explains their substitutions of letters that are not neighbours on the
keyboard. Slips are given the operations and counts that misspellings leave; they hit any key alike.

    python benchmarks/fit_typing.py --data DIR [--output FILE]
"""

from __future__ import annotations

import argparse
import gzip
import re
import string
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from holdfast.edits.typing_alignment import Operation, is_near, operations
from holdfast.edits.typing_rates import MISSPELLING, PLACES, SLIP, frequency_class, length_class, place_class
from holdfast.edits.words import Words
from holdfast.files import write_text
from noiseqa_questions import Question, changed_words, questions, words_apart

Groups = dict[tuple[str, str], Counter[str]]
PRIOR = 5.0
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
    last: Counter[str] = Counter()
    for word, found in aligned(learners(data)):
        letters.update(word[:-1])
        last.update(word[-1])
        groups[f"{MISSPELLING}/count", length_class(word)][str(len(found))] += 1
        for operation in found:
            name, index = operation.name, max(operation.at, 0)
            groups[f"{MISSPELLING}/operation", length_class(word)][name] += 1
            groups[f"{MISSPELLING}/place", name][place_class(index, len(word))] += 1
            end = " last" if index == len(word) - 1 else ""
            groups[f"{MISSPELLING}/letter", name + end][word[index]] += 1
            if name in ("substitute", "insert"):
                groups[f"{MISSPELLING}/{name}", word[index] + end][operation.letter] += 1
    for (table, key), counts in groups.items():
        if table == f"{MISSPELLING}/letter":  # relative to how often the letter occurs there
            of = last if key.endswith(" last") else letters
            for letter in counts:
                counts[letter] = counts[letter] / of[letter]  # type: ignore[assignment]
    return groups


def fit_apostrophes(data: Path) -> Counter[str]:
    """How often a misspelling of a word with an apostrophe has none."""
    words = (
        (word, typed) for word, lists in rows(data / "misspellings" / "learners.tsv.gz") for typed in lists.split(" ")
    )
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


def fit_slips(data: Path, groups: Groups) -> Groups:
    """The share of misspellings among typed errors, and what they leave: the slips."""
    far = Counter(not_near(word, each) for word, found in aligned(learners(data)) for each in found)
    typed: Groups = defaultdict(Counter)
    typed_far: Counter[bool] = Counter()
    halves = questions(data, chosen=True)
    pairs = [pair for question in halves for pair in changed_words(question)]
    hit: Counter[str] = Counter()
    used = Counter(letter for each in halves for letter in each.clean.lower() if letter.isalpha())
    for word, found in aligned((word.lower(), written.lower()) for word, written in pairs):
        typed[f"{SLIP}/count", length_class(word)][str(len(found))] += 1
        for operation in found:
            typed_far[not_near(word, operation)] += 1
            name = "insert near" if operation.name == "insert" and is_near(word, operation) else operation.name
            typed[f"{SLIP}/operation", ""][name] += 1
            if name == "delete":
                hit[word[operation.at]] += 1
            typed[f"{SLIP}/place", operation.name][place_class(max(operation.at, 0), len(word))] += 1
    misspelt = share(typed_far, True) / share(far, True)
    every = typed[f"{SLIP}/operation", ""]
    near = Counter(
        is_near(word, each) for word, found in aligned(learners(data)) for each in found if each.name == "insert"
    )
    known = sum_of(groups, f"{MISSPELLING}/operation")
    known["insert near"] = known["insert"] * share(near, True)  # type: ignore[assignment]
    known["insert"] -= known["insert near"]
    groups = {**groups, (f"{MISSPELLING}/operation", ""): known}
    slips = {
        key: left(counts, groups[key[0].replace(SLIP, MISSPELLING), key[1]], misspelt) for key, counts in typed.items()
    }
    # errors that no misspelling has: words joined or split, capitals lost or doubled
    apart = Counter(kind for question in halves for kind in words_apart(question))
    for kind in ("join", "split"):
        slips[f"{SLIP}/operation", ""][kind] = apart[kind] / every.total()  # type: ignore[assignment]
    capitals = Counter(capital(*pair) for pair in pairs if pair[0][0].isupper())
    slips[f"{SLIP}/capital", ""] = left(capitals, Counter(kept=1), misspelt)
    for end in ("", " last"):
        slips[f"{SLIP}/letter", "delete" + end] = dropped(hit, used)
    slips[f"{SLIP}/key", ""] = by_frequency(halves, pairs, groups["risk", ""], misspelt)
    marks = Counter(mark(question) for question in halves if list(changed_words(question)))
    mixture = Counter({MISSPELLING: misspelt, SLIP: 1 - misspelt})
    return {**slips, ("final mark", ""): marks, ("mixture", ""): mixture}  # type: ignore[dict-item]


def sum_of(groups: Groups, name: str) -> Counter[str]:
    return sum((counts for (table, _), counts in groups.items() if table == name), Counter())


def left(typed: Counter[str], misspelt: Counter[str], weight: float) -> Counter[str]:
    """What a share ``weight`` of misspellings leaves of typed errors; no outcome below 0."""
    rest = {key: share(typed, key) - weight * share(misspelt, key) for key in sorted(typed)}
    return Counter({key: value for key, value in rest.items() if value > 0})  # type: ignore[misc]


def by_frequency(
    halves: list[Question], pairs: list[tuple[str, str]], risk: Counter[str], misspelt: float
) -> Counter[str]:
    """How likely a slip hits a key of a function word, and of another word: what misspellings leave, per key."""
    words = [word for each in halves for word in Words.of(each.clean).words if word.isalpha()]
    keys, risks = Counter[str](), Counter[str]()
    for word in words:
        keys[frequency_class(word)] += len(word) + word[0].isupper()
        risks[frequency_class(word)] += risk[f"{frequency_class(word)} {length_class(word)}"]
    rest = left(Counter(frequency_class(word) for word, _ in pairs), risks, misspelt)
    return Counter({name: rest[name] / keys[name] for name in sorted(keys)})  # type: ignore[misc]


def dropped(hit: Counter[str], used: Counter[str], prior: float = PRIOR) -> Counter[str]:
    """How likely a typist drops each letter, relative to its use; drawn to the mean as if by ``prior`` more of each."""
    mean = hit.total() / used.total()
    return Counter(
        {letter: (hit[letter] + prior) / (used[letter] * mean + prior) for letter in string.ascii_lowercase}  # type: ignore[misc]
    )


def capital(word: str, typed: str) -> str:
    """What an error in a capitalised word was."""
    if word.lower() != typed.lower():
        return "kept"
    return "lost" if sum(map(str.isupper, typed)) < sum(map(str.isupper, word)) else "doubled"


def mark(question: Question) -> str:
    """Whether a changed question still ends in its question mark."""
    return "lost" if question.clean.rstrip().endswith("?") and not question.changed.rstrip().endswith("?") else "kept"


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
    groups["risk", ""] = fit_risk(arguments.data)
    groups |= fit_slips(arguments.data, groups)
    groups[f"{MISSPELLING}/apostrophe", ""] = fit_apostrophes(arguments.data)
    write_text(arguments.output, table(groups))
    misspelt = share(groups["mixture", ""], MISSPELLING)
    print(f"{arguments.output}: misspellings {misspelt:.3f} of typing errors, {len(groups)} groups of shares")


if __name__ == "__main__":
    main()
