"""Rank the passages of `holdfast attack --goal poison` again: in other encoders, and in a larger corpus.

    python benchmarks/poison_transfer.py poisoned.json --models MODEL,MODEL --search CORPUS --queries FILE \
        [--sentences FILE --count 2000]

No passage is made: those of the result are ranked for its held-out queries, by each model, among the documents of the
corpus and the first ``--count`` texts of ``--sentences`` beside them. The table has the share of the queries with a
passage in the top 10 and its 95 % interval over the queries, and the same for as many random documents.
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from pathlib import Path

from holdfast.attacks.poisoning.mean_similarity import SearchSpace
from holdfast.attacks.poisoning.poison_queries import split_queries
from holdfast.attacks.poisoning.retrieved_share import ordinary_share, ranks_of, share_within
from holdfast.attacks.search_corpus import read_searched
from holdfast.data.corpus import read_corpus
from holdfast.models import load_sentence_transformer


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("--models", required=True)
    parser.add_argument("--search", required=True)
    parser.add_argument("--queries", required=True)
    parser.add_argument("--sentences")
    parser.add_argument("--count", type=int, default=2000)
    given = parser.parse_args()
    result = json.loads(given.result.read_text(encoding="utf-8"))
    seed, made_for = result["seed"], result["model"]
    made: dict[str, list[str]] = {}
    for row in result["examples"]:
        made.setdefault(row["recipe"], []).append(row["adversarial"])
    held_out = split_queries(read_searched(given.queries, data=None).texts, seed=seed).held_out
    corpus = list(dict.fromkeys(read_searched(given.search, data=None).texts))
    added = list(islice(read_corpus(given.sentences), given.count)) if given.sentences else []
    print("| passages of | model | documents | recipe | top 10 | as many random documents |\n|---|---|---|---|---|---|")
    for name in given.models.split(","):
        space = SearchSpace(load_sentence_transformer(name), source=name)
        queries, documents = space.queries(held_out), space.documents([*corpus, *added])
        for recipe, passages in made.items():
            ranks = ranks_of(queries, documents, space.documents(passages))
            own = share_within("success", ranks, seed=seed)
            other = ordinary_share(queries, documents, len(passages), seed=seed)
            interval = f"{own['success@10']:.1f} ({own['success@10_low']:.1f} to {own['success@10_high']:.1f})"
            cells = [made_for, name, str(len(documents)), recipe, interval, f"{other['ordinary@10']:.1f}"]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
