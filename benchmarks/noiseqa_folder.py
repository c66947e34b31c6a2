"""Make the folder ``noiseqa`` of a data folder from a clone of NoiseQA's repository, in BEIR's layout.

    git clone https://github.com/noiseQA/NoiseQA
    python benchmarks/noiseqa_folder.py NoiseQA --data DIR

Each paragraph is a document, each question a query whose relevant document is its paragraph; the same questions as
people typed them, as a speech recogniser heard them and as a machine translated them are further versions of the
queries. Every other article is taken: 120 paragraphs, 612 questions. The files have the bytes that were measured:
their SHA-256 is checked, and nothing is written if one differs (another commit of the repository). The code is under
the MIT licence, the passages (SQuAD, XQuAD) under CC BY-SA 4.0. Not for training.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.files import write_text

VERSIONS = {
    "queries": "xquad-context-en-question-en",
    "queries-keyboard": "xquad-keyboard-natural",
    "queries-asr": "xquad-asr-natural",
    "queries-translation": "xquad-translation-natural",
}
"""The files of the repository's folder ``Natural``, by the versions of the queries."""
COMMIT = "25c49cea2b54103ce22e45ebcfec0c02b5dcb41f"
SHA256 = {
    "corpus.jsonl": "491d9fb0820bf73f62844a98d2531f8f4b779574e4e277b2fffde84f14858654",
    "qrels/test.tsv": "2b7cbe92162421004370822c33a7b6488c28b93a1b55f32fa46f91e2da02cde2",
    "queries-asr.jsonl": "796958eed49d19bc273ff0f94dbc7be51aa8616970b5c87d8c050fd1966bc29c",
    "queries-keyboard.jsonl": "ff9f1188443c9a8fd3f2327f4bd397f9a566db9ee981f51b591f56a4c01d9578",
    "queries-translation.jsonl": "2525bf1023b51a35b80b0c75c1809b9225c5f5b309b8fc10350c04a8e0c1119b",
    "queries.jsonl": "04b4c5fdbeaea62467d319999033a3d3ead8100d6729cfd3a4f13c7c2e10bdcb",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path, help="a clone of the repository")
    parser.add_argument("--data", type=Path, required=True, help="the data folder")
    args = parser.parse_args()
    made = collection(args.clone / "Natural")
    for name, text in made.items():
        if hashlib.sha256(text.encode()).hexdigest() != SHA256[name]:
            sys.exit(f"{name} would not have the bytes that were measured: check out commit {COMMIT} in {args.clone}")
    for name, text in made.items():
        path = args.data / "noiseqa" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
        print(path)


def collection(natural: Path) -> dict[str, str]:
    """Return the content of each file, by its name, from the repository's folder ``Natural``."""
    made = {}
    for version, name in VERSIONS.items():
        made[f"{version}.jsonl"] = "".join(
            _line(_id=question["id"], text=question["question"])
            for _, paragraph in paragraphs(natural / f"{name}.json")
            for question in paragraph["qas"]
        )
    clean = list(paragraphs(natural / f"{VERSIONS['queries']}.json"))
    made["corpus.jsonl"] = "".join(_line(_id=number, title="", text=each["context"]) for number, each in clean)
    relevant = (f"{question['id']}\t{number}\t1\n" for number, each in clean for question in each["qas"])
    made["qrels/test.tsv"] = "query-id\tcorpus-id\tscore\n" + "".join(relevant)
    return made


def paragraphs(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the paragraphs of every other article, each with a name that all files share."""
    try:
        articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"{path} is not a file of NoiseQA's repository: {error}")
    for article in range(0, len(articles), 2):
        for number, paragraph in enumerate(articles[article]["paragraphs"]):
            yield f"{article:02}-{number:02}", paragraph


def _line(**record: str) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
