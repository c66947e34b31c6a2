"""Precision and recall of the filter of synonyms on labelled substitutions, and what each of its parts contributes.

The file of labels is a TSV (UTF-8, unquoted) with the columns split, text, place, substitute, valid: the place is the
number of the word from 0, valid is 1 or 0, and split is a name: each is reported by itself.

    python benchmarks/synonym_validity.py LABELS.tsv --data DIR
    python benchmarks/synonym_validity.py tests/attacks/labelled_synonyms.tsv --data DIR --show
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from holdfast.adversary.word_likelihood import WordLikelihood
from holdfast.attacks.resource_names import LIGHT, ResourceNames
from holdfast.attacks.resources import Resources
from holdfast.attacks.valid_synonyms import Signals, ValidSynonyms
from holdfast.data.tables import read_columns
from holdfast.edits.substitution_form import Substitution
from holdfast.edits.word_frequency import english_frequency
from holdfast.edits.words import Words

Labelled = list[tuple[str, Substitution, bool]]


def read_labels(path: Path) -> Labelled:
    """The split, the substitution and the label of each row."""
    rows = read_columns(path, ["split", "text", "place", "substitute", "valid"])
    return [
        (split, Substitution(Words.of(text), int(place), word), valid == "1")
        for _, (split, text, place, word, valid) in rows
    ]


def make_filter(names: ResourceNames, data: Path | None, *, lists: bool) -> ValidSynonyms:
    """The filter with the resources of the names, with or without lists of synonyms."""
    resources = Resources(names, data=data, device="cpu")
    return ValidSynonyms(
        resources.wordnet,
        resources.tagger,
        english_frequency(),
        WordLikelihood(resources.masked_lm),
        resources.synonyms if lists else None,
    )


def interval(successes: int, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    if count == 0:
        return 0.0, 1.0
    z, share = 1.959964, successes / count
    middle, half = share + z * z / (2 * count), z * math.sqrt(share * (1 - share) / count + z * z / (4 * count**2))
    return (middle - half) / (1 + z * z / count), (middle + half) / (1 + z * z / count)


def share(successes: int, count: int) -> str:
    """A share with its interval, in words."""
    low, high = interval(successes, count)
    return f"{successes}/{count} = {successes / max(1, count):.2f} ({low:.2f}-{high:.2f})"


def table(judge: ValidSynonyms, labelled: Labelled, signals: Sequence[Signals | None]) -> Table:
    """Precision and recall of each split: of the whole filter, and without one of its parts."""
    found = Table("split", "substitutions", "valid", "filter", "accepted", "precision (95 %)", "recall (95 %)")
    open_ = Signals(*(float("-inf"),) * len(Signals._fields))
    variants = {"whole": judge.minimums, "rules of form only": open_}
    for name in Signals._fields:
        if getattr(judge.minimums, name) > 0 or name == "ratio":
            variants[f"without {name}"] = judge.minimums._replace(**{name: float("-inf")})
    for split in dict.fromkeys(split for split, _, _ in labelled):
        rows = [(s, valid) for s, (name, _, valid) in zip(signals, labelled, strict=True) if name == split]
        valid = sum(valid for _, valid in rows)
        for name, minimums in variants.items():
            accepted = [valid for s, valid in rows if s is not None and s.reach(minimums)]
            found.add_row(
                split, str(len(rows)), str(valid), name, str(len(accepted)),
                share(sum(accepted), len(accepted)), share(sum(accepted), valid),
            )  # fmt: skip
    return found


def main() -> None:
    """Print precision and recall of each split."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path, nargs="+")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--masked-lm", default=LIGHT.masked_lm)
    parser.add_argument("--without-lists", action="store_true", help="leave out the lists of synonyms")
    parser.add_argument("--show", action="store_true", help="print what is accepted, and what is valid and refused")
    given = parser.parse_args()
    names = replace(LIGHT, masked_lm=given.masked_lm)
    judge = make_filter(names, given.data, lists=not given.without_lists)
    labelled = [row for path in given.labels for row in read_labels(path)]
    signals = judge.signals([asked for _, asked, _ in labelled])
    Console(width=140).print(table(judge, labelled, signals))
    faults = Counter((str(judge.form.fault(asked)), valid) for _, asked, valid in labelled)
    for (fault, valid), count in sorted(faults.items()):
        print(f"{'no fault of form' if fault == 'None' else 'refused by form: ' + fault}: {count}"
              f" {'valid' if valid else 'invalid'}")  # fmt: skip
    if given.show:
        for s, (split, asked, valid) in zip(signals, labelled, strict=True):
            accepted = s is not None and s.reach(judge.minimums)
            if accepted or valid:
                place = asked.words.exchanged(asked.place, f"[{asked.old}>{asked.word}]").around(asked.place, 9)
                print(split, "valid" if valid else "INVALID", "accepted" if accepted else "refused", place)


if __name__ == "__main__":
    main()
