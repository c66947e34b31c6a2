"""Print edits of one kind on public texts, to be read and judged: python benchmarks/edit_samples.py KIND --count 200.

Each line is the changed text, with every change as [old→new]. The last line is the coverage: the share of the texts
that the edit changes. The texts come from HOLDFAST_DATA: Wikipedia sentences, STS-B dev sentences and questions that
people typed, in equal parts, in an order that the seed fixes.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import os
import random
import time
from pathlib import Path

from holdfast.edits.edit import Edit, Edited
from holdfast.edits.tagging import TextBlobTagger

SOURCES = {
    "wiki": ("unlabelled/wiki_dev.tsv.gz", "sentence"),
    "wiki_train": ("unlabelled/wiki_train_00.tsv.gz", "sentence"),
    "stsb": ("stsb/dev.tsv.gz", "sentence1"),
    "questions": ("questions/nq_open.tsv.gz", "question"),
}


def texts(source: str, seed: int) -> list[str]:
    """Return the different texts of a source, shuffled."""
    name, column = SOURCES[source]
    with gzip.open(Path(os.environ["HOLDFAST_DATA"]) / name, "rt", encoding="utf-8", newline="\n") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    place = rows[0].index(column) if column in rows[0] else 0
    found = sorted({row[place] for row in rows[1:]})
    random.Random(f"{seed}/{source}").shuffle(found)
    return found


def edits(name: str) -> list[Edit]:
    """Return the edits of a name or kind."""
    from holdfast.edits.grammatical_edits import grammatical_edits
    from holdfast.edits.lexical_edits import lexical_edits
    from holdfast.edits.wordnet import WordNet

    tagger, wordnet = TextBlobTagger(), WordNet.read(Path(os.environ["HOLDFAST_DATA"]) / "wordnet")
    corpus = [text for source in ("wiki_train", "stsb", "questions") for text in texts(source, 0)[:1500]]
    every = (*grammatical_edits(tagger), *lexical_edits(corpus, tagger, wordnet))
    found = [edit for edit in every if name in {edit.NAME, edit.kind}]
    if not found:
        raise SystemExit(f"there is no edit {name}")
    return found


def marked(made: Edited) -> str:
    """Return the text with its changes as [old→new]."""
    parts, end = [], 0
    for change in made.changes:
        parts += [made.original[end : change.begin], f"[{made.original[change.begin : change.end]}→{change.new}]"]
        end = change.end
    return "".join(parts) + made.original[end:]


def main() -> None:
    """Print the samples and the coverage of each source."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sources", default="wiki,stsb,questions")
    arguments = parser.parse_args()
    chosen = arguments.sources.split(",")
    pools = [[(source, text) for text in texts(source, arguments.seed)] for source in chosen]
    tried, applied, spent, shown = dict.fromkeys(chosen, 0), dict.fromkeys(chosen, 0), 0.0, 0
    made_by = itertools.cycle(edits(arguments.kind))
    for source, text in (item for row in itertools.zip_longest(*pools) for item in row if item):
        if shown == arguments.count:
            break
        edit = next(made_by)
        begun = time.perf_counter()
        made = edit(text, random.Random(f"{arguments.seed}/{edit.NAME}/{text}"))
        spent += time.perf_counter() - begun
        tried[source] += 1
        if made:
            applied[source] += 1
            shown += 1
            print(f"{shown:3} {marked(made)}")
    shares = ", ".join(f"{source} {applied[source]}/{tried[source]}" for source in chosen)
    print(f"applied: {shares}; {1000 * spent / max(1, sum(tried.values())):.2f} ms a text with tagging")


if __name__ == "__main__":
    main()
