"""Where adversarial texts lie beside the texts they were made of: d_pos, d_neg and δ (ADCL, §4.5 and Table 4)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from holdfast.errors import UserError, one_of
from holdfast.evaluation.space import normalised
from holdfast.results import read_result

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

OUTCOMES = ("succeeded", "failed", "all")
"""Which attempts of an attack are taken; of one that failed, the adversarial text is the best that was found."""

_ROWS_AT_ONCE = 512
# What holds the classes of a SentenceTransformer whose vectors are logits (`holdfast finetune --frozen`).
_CLASSES_FILE = "classifier.json"


@dataclass(frozen=True)
class TextPairs:
    """M clean texts, all different, and what one recipe made of each.

    Attributes:
        recipe: the attack's name.
        item: the item of an audit that they belong to; None for an attack's.
        clean: M texts.
        adversarial: M texts, each other than its clean one.
        labels: M right classes or gold scores; None where there are none.
        with_other: whether some of them were attacked as one text of a pair.
        left_out: how many attempts were not taken, by reason.
    """

    recipe: str
    item: str | None
    clean: tuple[str, ...]
    adversarial: tuple[str, ...]
    labels: tuple[int | float | None, ...]
    with_other: bool
    left_out: Mapping[str, int]

    @property
    def name(self) -> str:
        """The recipe, after the audit's item where there is one."""
        return self.recipe if self.item is None else f"{self.item} {self.recipe}"

    def __len__(self) -> int:
        return len(self.clean)


def read_pairs(
    path: Path, *, recipe: str | None = None, item: str | None = None, outcome: str = "succeeded"
) -> list[TextPairs]:
    """The clean and adversarial texts of a result of ``attack`` or ``audit``, recipe by recipe.

    Of several attempts on one text the first is taken: a text is no negative of itself. An attempt that left the text
    as it was has no adversarial text.

    Args:
        path: the result.
        recipe: only this one's.
        item: only this one's, of an audit.
        outcome: "succeeded", "failed" or "all".

    Raises:
        UserError: no result with texts, no such recipe, item or outcome in it, or no two texts of any recipe left.
    """
    one_of("--outcome", outcome, OUTCOMES)
    attempts = _attempts(path)
    for option, key, wanted in (("--recipe", "recipe", recipe), ("--item", "item", item)):
        if wanted is not None:
            known = sorted({str(row[key]) for row in attempts if row.get(key) is not None})
            if not known:
                raise UserError(f"{path} has no items: {option} is for results of audit")
            one_of(f"{option} (of {path})", wanted, known)
            attempts = [row for row in attempts if row.get(key) == wanted]
    groups: dict[tuple[str | None, str], list[Mapping[str, Any]]] = {}
    for row in attempts:
        groups.setdefault((row.get("item"), str(row["recipe"])), []).append(row)
    pairs = [_pairs(recipe, item, rows, outcome) for (item, recipe), rows in groups.items()]
    if enough := [of_one for of_one in pairs if len(of_one) > 1]:
        return enough
    found = max((len(of_one) for of_one in pairs), default=0)
    which = "" if outcome == "all" else f" of attempts that {outcome}"
    raise UserError(
        f"{path} holds {'one adversarial text' if found else 'no adversarial texts'}{which}: distances are between the "
        "pairs of at least two different texts"
        + ("" if outcome == "all" else "; --outcome all takes every changed text, or attack more --examples")
    )


def _attempts(path: Path) -> list[Mapping[str, Any]]:
    attempts = read_result(path).get("examples")
    if not isinstance(attempts, list) or not attempts:
        raise UserError(f"{path} holds no examples: give a result of attack or audit")
    for number, row in enumerate(attempts, start=1):
        texts = [row.get(key) for key in ("recipe", "outcome", "original", "adversarial")] if type(row) is dict else []
        if not texts or not all(isinstance(text, str) for text in texts):
            raise UserError(f"{path}: example {number} has no recipe, outcome, original and adversarial text")
    return attempts


def _pairs(recipe: str, item: str | None, rows: Iterable[Mapping[str, Any]], outcome: str) -> TextPairs:
    """The attempts that are taken, and the number of the others."""
    taken: dict[str, Mapping[str, Any]] = {}
    left_out: dict[str, int] = {}
    for row in rows:
        if row["outcome"] == "skipped":
            reason = "skipped"
        elif outcome not in ("all", row["outcome"]):
            reason = str(row["outcome"])
        elif row["adversarial"] == row["original"]:
            reason = "unchanged"
        elif row["original"] in taken:
            reason = "repeated text"
        else:
            taken[row["original"]] = row
            continue
        left_out[reason] = left_out.get(reason, 0) + 1
    chosen = list(taken.values())
    return TextPairs(
        recipe=recipe,
        item=item,
        clean=tuple(taken),
        adversarial=tuple(row["adversarial"] for row in chosen),
        labels=tuple(row.get("label") for row in chosen),
        with_other=any(row.get("other") is not None for row in chosen),
        left_out=left_out,
    )


def pair_distances(clean: npt.ArrayLike, adversarial: npt.ArrayLike) -> dict[str, float]:
    r"""How far M adversarial texts lie from their own clean texts, and how far from the others (ADCL, §4.5).

    .. math::
        d_{pos} = \frac1M \sum_i \lVert v_i - v'_i \rVert, \qquad
        d_{neg} = \frac{1}{2M(M-1)} \sum_i \sum_{j \neq i}
            \big(\lVert v_i - v_j \rVert + \lVert v_i - v'_j \rVert\big), \qquad
        \delta = d_{neg} - d_{pos}

    The paper numbers none of them. It prints 1/(2(M−1)) before the sum of d_neg, which is no average, and
    :math:`v'_i` in its second term, which is a positive; both are read as above. It does not name the distance either:
    the Euclidean one, of vectors as they are, is taken, since those of its Table 4 exceed what normalised vectors can
    have (2).

    Args:
        clean: v, (M, d).
        adversarial: v', (M, d), row by row those made of ``clean``.

    Returns:
        ``d_pos``, ``d_neg``, ``delta``.

    Raises:
        UserError: a single pair, or vectors that are not finite.
    """
    from scipy.spatial.distance import cdist

    v, attacked = (np.asarray(vectors, dtype=np.float64) for vectors in (clean, adversarial))
    if len(v) < 2:
        raise UserError("space: one pair of texts has no negatives: give at least two")
    if not (np.isfinite(v).all() and np.isfinite(attacked).all()):
        raise UserError("space: the model gives vectors that are not finite, which have no distance")
    own = np.linalg.norm(v - attacked, axis=1)
    total = 0.0
    for start in range(0, len(v), _ROWS_AT_ONCE):
        rows = v[start : start + _ROWS_AT_ONCE]
        total += float(cdist(rows, v).sum() + cdist(rows, attacked).sum())
    pairs = 2 * len(v) * (len(v) - 1)
    # The sum over j ≠ i: ‖v_i − v_i‖ is 0, ‖v_i − v'_i‖ is taken away.
    d_pos, d_neg = float(own.mean()), (total - float(own.sum())) / pairs
    return {"d_pos": d_pos, "d_neg": d_neg, "delta": d_neg - d_pos}


def space_of_pairs(pairs: TextPairs, clean: npt.ArrayLike, adversarial: npt.ArrayLike) -> dict[str, Any]:
    """A result row with the distances of one recipe's texts.

    Args:
        pairs: M of them.
        clean: their vectors, (M, d).
        adversarial: those of the adversarial texts, (M, d).

    Returns:
        ``{task: "space-attacked", split: "attacked", recipe, item, n, metrics, left_out}``, n the pairs; ``metrics``
        are those of `pair_distances`, and with ``_unit`` at the end those of the vectors' directions, which compare
        between models whose vectors differ in length.

    Raises:
        UserError: as `pair_distances`, and a vector that is zero.
    """
    directions = pair_distances(normalised(clean), normalised(adversarial))
    return {
        "task": "space-attacked",
        "split": "attacked",
        "recipe": pairs.recipe,
        "item": pairs.item,
        "n": len(pairs),
        "metrics": {
            **pair_distances(clean, adversarial),
            **{f"{name}_unit": value for name, value in directions.items()},
        },
        "left_out": dict(pairs.left_out),
    }


def check_single_texts(spec: str, pairs: Sequence[TextPairs]) -> None:
    """Refuse texts that were attacked as one of a pair for a classifier of pairs, which never sees one alone.

    Args:
        spec: the model, as `load_space_encoder` takes it.
        pairs: what is to be measured in it.

    Raises:
        UserError: such texts for such a model.
    """
    config = _classifier_config(spec)
    if config is None:
        return
    with_other = [of_one.name for of_one in pairs if of_one.with_other]
    takes_pairs = (config.get("holdfast") or {}).get("takes_pairs")
    if takes_pairs or with_other:
        what = "takes pairs of texts" if takes_pairs else f"is a classifier, and {with_other[0]} attacked pairs"
        raise UserError(
            f"{spec} {what}: where one text of a pair lies is told of an encoder alone; give the encoder it was made of"
        )


def load_space_encoder(spec: str, *, pooling: str | None = None) -> SentenceTransformer:
    """The encoder whose space is looked at: a model, or what stands before the head of a classifier.

    Of a fine-tuned sequence classifier it is its transformer, pooled as a masked language model is ([CLS] by default);
    of a classifier on a frozen encoder, that encoder.

    Args:
        spec: as for :func:`holdfast.models.load_sentence_transformer`.
        pooling: "cls", "mean", "max" or "prompt".

    Raises:
        UserError: what loading a model refuses.
    """
    from holdfast.finding import resolve_model
    from holdfast.models import load_sentence_transformer

    folder = resolve_model(spec)
    if not (folder / "modules.json").is_file() or not (folder / _CLASSES_FILE).is_file():
        return load_sentence_transformer(spec, pooling=pooling)
    from sentence_transformers import SentenceTransformer

    whole = load_sentence_transformer(spec)
    *encoder, _ = whole.children()
    prompts = {name: prompt for name, prompt in whole.prompts.items() if prompt is not None}
    return SentenceTransformer(
        modules=encoder, device=str(whole.device), prompts=prompts, default_prompt_name=whole.default_prompt_name
    )


def _classifier_config(spec: str) -> dict[str, Any] | None:
    """What a classifier's folder says of it; None for an encoder."""
    from holdfast.finding import resolve_model

    folder = resolve_model(spec)
    if (folder / "modules.json").is_file():
        return {} if (folder / _CLASSES_FILE).is_file() else None
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kinds = config.get("architectures") or []
    return config if any(str(kind).endswith("ForSequenceClassification") for kind in kinds) else None
