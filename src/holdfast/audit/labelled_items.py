"""Audit items of labelled inference sets, if the data folder has them: entailed pairs against contradicted ones.

Only pairs that share most of their words count, so that the shared words do not give the answer. Development splits
are used; Breaking NLI (Glockner et al. 2018) has a test set only, and serves for evaluation alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from holdfast.audit.audit_context import AuditContext
from holdfast.audit.audit_settings import TEXTS_PER_ITEM
from holdfast.audit.item_rows import Item, NotMeasured, item
from holdfast.audit.move_items import LEAST_TEXTS
from holdfast.audit.planned_items import NOT_ENCODED, Planned
from holdfast.audit.vector_movement import ROUNDING, Units
from holdfast.audit.verdicts import CHANCE, judged
from holdfast.audit.verdicts import nearer as nearer_measure
from holdfast.data.folder import VARIABLE, data_folder
from holdfast.data.tables import read_columns
from holdfast.edits.edit_table import MEANING
from holdfast.edits.words import Words
from holdfast.evaluation.comparison import RESAMPLES, percentile_interval
from holdfast.result_layout import AUDIT_ITEM

OVERLAP = 0.5
"""Least share of words that a pair has in common, of those in either text."""
_SHARE, _LEAST_PAIRS = 0.03, 50
"""The share of the rest of the time that the pairs of a set may take, and the pairs of each label in any case."""
_SUFFIXES = (".tsv.gz", ".tsv", ".tsv.zst")


@dataclass(frozen=True)
class InferenceSet:
    """A labelled set.

    Attributes:
        name: name of the item.
        split: the split in the result.
        file: file in the data folder, without its suffix.
        label: the column of the labels.
    """

    name: str
    split: str
    file: str
    label: str = "label"

    @property
    def task(self) -> str:
        """The task of the item."""
        return f"{AUDIT_ITEM}{self.name}"


INFERENCE_SETS = (
    InferenceSet("breaking-nli", "test", "breaking_nli/test"),
    InferenceSet("snli", "dev", "snli/dev"),
    InferenceSet("mnli", "dev", "mnli/dev_matched"),
    InferenceSet("sick", "trial", "sickr/trial", "entailment"),
)


@dataclass(frozen=True)
class LabelledPair:
    """A pair of sentences: its row in the file, from 0, the sentences, and whether the first entails the second."""

    row: int
    first: str
    second: str
    entailed: bool


def read_pairs(inference: InferenceSet, data: Path | None) -> list[LabelledPair]:
    """Read the entailed and the contradicted pairs with a high overlap.

    Raises:
        NotMeasured: the data folder does not have the set.
        UserError: its file is damaged.
    """
    folder = data_folder(data)
    paths = [folder / f"{inference.file}{suffix}" for suffix in _SUFFIXES] if folder else []
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        where = f"{folder} has no {inference.file}.tsv" if folder else f"give --data DIR or set {VARIABLE}"
        raise NotMeasured(f"needs {inference.name}: {where}")
    pairs = []
    # Without the column of the labels, as in a file of similarity scores alone, no pair has a label.
    for number, (first, second, label) in read_columns(path, ["sentence1", "sentence2", f"{inference.label}?"]):
        kind = label.lower()
        if kind in ("entailment", "contradiction") and overlap(first, second) >= OVERLAP:
            pairs.append(LabelledPair(number - 2, first, second, kind == "entailment"))
    return pairs


def overlap(first: str, second: str) -> float:
    """Return the share of distinct words, in lower case, that two texts have in common."""
    one, two = (set(Words.of(text.lower()).words) for text in (first, second))
    return len(one & two) / max(1, len(one | two))


def inference_items(context: AuditContext, inference: InferenceSet) -> Planned:
    """Plan the item of a labelled set: P(entailed pair nearer than contradicted pair)."""
    pairs = read_pairs(inference, context.settings.data)
    rng = random.Random(f"{context.settings.seed}/{inference.name}")
    most = _most_pairs(context, [pair.first for pair in pairs])
    chosen = []
    for entailed in (True, False):
        own = [pair for pair in pairs if pair.entailed is entailed]
        if len(own) < LEAST_TEXTS:
            raise NotMeasured(f"{inference.name} has {len(own)} pairs of a label with a high overlap: too few")
        chosen += rng.sample(own, min(most, len(own)))
    place = {id(pair): rank for rank, pair in enumerate(rng.sample(chosen, len(chosen)))}
    texts = [(place[id(pair)] // 2, text) for pair in chosen for text in (pair.first, pair.second)]
    return Planned(texts, lambda context: [_measure(context, inference, chosen)])


def _most_pairs(context: AuditContext, texts: Sequence[str]) -> int:
    """Return the number of pairs of each label: as given, else what fits into a small share of the time."""
    if context.settings.texts_per_item is not None:
        return context.settings.texts_per_item
    return context.budget.fitting(TEXTS_PER_ITEM, 4 * context.seconds_of(texts), _SHARE, _LEAST_PAIRS)


def _measure(context: AuditContext, inference: InferenceSet, chosen: Sequence[LabelledPair]) -> Item:
    known = context.vectors
    pairs = [pair for pair in chosen if pair.first in known and pair.second in known]
    first, second = (known.units([getattr(pair, side) for pair in pairs]) for side in ("first", "second"))
    cosines = _cosines(first, second)
    entailed = np.array([pair.entailed for pair in pairs], dtype=bool)
    if min(entailed.sum(), (~entailed).sum()) < LEAST_TEXTS:
        raise NotMeasured(NOT_ENCODED)
    nearer = placements(cosines[entailed], cosines[~entailed])
    probability = float(nearer.mean())
    low, high = _interval(cosines[entailed], cosines[~entailed], context.settings.seed)
    metrics = {
        "p_entailed_nearer": probability,
        "p_entailed_nearer_low": low,
        "p_entailed_nearer_high": high,
        "cosine_entailed": float(cosines[entailed].mean()),
        "cosine_contradicted": float(cosines[~entailed].mean()),
    }
    message = (
        f"entailed pairs (cosine {metrics['cosine_entailed']:.3f}) are nearer than contradicted ones "
        f"({metrics['cosine_contradicted']:.3f}) in {100 * probability:.0f} % of comparisons, at a word overlap of "
        f"{OVERLAP:g} or more"
    )
    return item(
        *(inference.task, inference.split, int((~entailed).sum()), metrics),
        judged(int((~entailed).sum()), nearer_measure(probability, low, high)),
        message + ("; no better than a coin" if low <= CHANCE else ""),
        headline="p_entailed_nearer",
        side="move",
        group=MEANING,
        entailed=int(entailed.sum()),
        entailed_nearer=np.round(placements(-cosines[~entailed], -cosines[entailed]), 5).tolist(),
        items={
            "text": [pair.row for pair in pairs if not pair.entailed],
            "nearer": np.round(nearer, 5).tolist(),
        },
    )


def _cosines(first: Units, second: Units) -> npt.NDArray[np.float64]:
    cosines: npt.NDArray[np.float64] = np.round((first * second).sum(axis=1), 5)
    return cosines


def placements(entailed: npt.NDArray[np.float64], contradicted: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return, for each contradicted pair, the share of entailed pairs that are nearer; ties count half.

    Their mean is P(entailed pair nearer than contradicted pair), the area under the ROC curve.
    """
    rising = np.sort(entailed)
    above = len(rising) - np.searchsorted(rising, contradicted + 1.5 * ROUNDING, side="right")
    from_here = len(rising) - np.searchsorted(rising, contradicted - 1.5 * ROUNDING, side="left")
    return (above + from_here) / (2.0 * len(rising))


def _interval(
    entailed: npt.NDArray[np.float64], contradicted: npt.NDArray[np.float64], seed: int
) -> tuple[float, float]:
    """Return the 95 % bootstrap interval: both kinds of pairs are resampled."""
    rng = np.random.default_rng(seed)
    drawn = [
        placements(rng.choice(entailed, len(entailed)), rng.choice(contradicted, len(contradicted))).mean()
        for _ in range(RESAMPLES)
    ]
    return percentile_interval(np.array(drawn))
