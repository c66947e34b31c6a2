"""Distances between adversarial texts and their clean texts: d_pos, d_neg and δ (ADCL, §4.5 and Table 4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from holdfast.errors import UserError, one_of
from holdfast.evaluation.space import unit_directions
from holdfast.model_folder import CLASSES_FILE
from holdfast.result_layout import AUDIT_ITEM
from holdfast.results import read_result
from holdfast.text_prompts import PromptOptions, choose_prompts

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

OUTCOMES = ("succeeded", "failed", "all")
"""Outcomes of the attempts to take; the adversarial text of a failed attempt is the best text that was found."""

_ROWS_AT_ONCE = 512


@dataclass(frozen=True)
class TextPairs:
    """M different clean texts, and the adversarial text that one recipe made from each.

    Attributes:
        recipe: the attack's name.
        item: the item of an audit that they belong to; None for an attack.
        clean: M texts.
        adversarial: M texts, each different from its clean text.
        labels: M correct classes or gold scores; None where there is none.
        with_other: True if some of the texts were attacked as one text of a pair.
        left_out: number of attempts that were not taken, by reason.
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
        """The name of the recipe, preceded by the audit's item if there is one."""
        return self.recipe if self.item is None else f"{self.item} {self.recipe}"

    def __len__(self) -> int:
        return len(self.clean)


def read_pairs(
    path: Path, *, recipe: str | None = None, item: str | None = None, outcome: str = "succeeded"
) -> list[TextPairs]:
    """Return the clean and adversarial texts of a result of ``attack`` or ``audit``, recipe by recipe.

    If there are several attempts on one text, the first is taken, because a text cannot be its own negative. An
    attempt that did not change the text has no adversarial text. ``recipe``, ``item`` (of an audit) and ``outcome``
    (one of `OUTCOMES`) choose the attempts.

    Raises:
        UserError: the file is not a result with texts, it has no such recipe, item or outcome, or no recipe has two
            texts left.
    """
    one_of("--outcome", outcome, OUTCOMES)
    attempts = _attempts(path)
    if recipe is not None:
        attempts = _chosen(attempts, lambda row: str(row["recipe"]), recipe, f"--recipe (of {path})")
    if item is not None:
        if not any(map(_item, attempts)):
            raise UserError(f"{path} has no items: --item is for results of audit")
        attempts = _chosen(attempts, _item, item.removeprefix(AUDIT_ITEM), f"--item (of {path})")
    groups: dict[tuple[str | None, str], list[Mapping[str, Any]]] = {}
    for row in attempts:
        groups.setdefault((row.get("item"), str(row["recipe"])), []).append(row)
    pairs = [_pairs(recipe, item, rows, outcome) for (item, recipe), rows in groups.items()]
    if measurable := [recipe_pairs for recipe_pairs in pairs if len(recipe_pairs) > 1]:
        return measurable
    found = max(map(len, pairs), default=0)
    attempted = "" if outcome == "all" else f" of attempts that {outcome}"
    raise UserError(
        f"{path} holds {'one adversarial text' if found else 'no adversarial texts'}{attempted}: distances need pairs "
        "of at least two different texts"
        + ("" if outcome == "all" else "; --outcome all takes every changed text, or attack more --examples")
    )


def _item(row: Mapping[str, Any]) -> str:
    """Return the name of an attempt's item, as the card prints it; "" without an item."""
    return str(row.get("item") or "").removeprefix(AUDIT_ITEM)


def _chosen(
    attempts: Iterable[Mapping[str, Any]], name: Callable[[Mapping[str, Any]], str], wanted: str, where: str
) -> list[Mapping[str, Any]]:
    """Return the attempts with a name.

    Raises:
        UserError: there is none.
    """
    named = [(name(row), row) for row in attempts]
    one_of(where, wanted, sorted({own for own, _ in named if own}))
    return [row for own, row in named if own == wanted]


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
    """Return the attempts that are taken, and the number of attempts that are left out."""
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
    r"""Return the mean distance of M adversarial texts to their own clean texts and to the other texts (ADCL, §4.5).

    .. math::
        d_{pos} = \frac1M \sum_i \lVert v_i - v'_i \rVert, \qquad
        d_{neg} = \frac{1}{2M(M-1)} \sum_i \sum_{j \neq i}
            \big(\lVert v_i - v_j \rVert + \lVert v_i - v'_j \rVert\big), \qquad
        \delta = d_{neg} - d_{pos}

    The paper does not number these equations. It prints 1/(2(M−1)) before the sum of d_neg, which does not give an
    average, and :math:`v'_i` in its second term, which is a positive; both are read as above. It does not name the
    distance either: here it is the Euclidean distance of unnormalised vectors, because distances in its Table 4 exceed
    2, the maximum for normalised vectors.

    Args:
        clean: v, (M, d).
        adversarial: v', (M, d); row i is made from row i of ``clean``.

    Returns:
        ``d_pos``, ``d_neg``, ``delta``.

    Raises:
        UserError: there is only one pair, or vectors are not finite.
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
    # The sum over j ≠ i: ‖v_i − v_i‖ is 0, ‖v_i − v'_i‖ is subtracted.
    d_pos, d_neg = float(own.mean()), (total - float(own.sum())) / pairs
    return {"d_pos": d_pos, "d_neg": d_neg, "delta": d_neg - d_pos}


def space_of_pairs(pairs: TextPairs, clean: npt.ArrayLike, adversarial: npt.ArrayLike) -> dict[str, Any]:
    """Return a result row with the distances of one recipe's M texts, from their vectors, (M, d) each.

    Returns:
        ``{task: "space-attacked", split: "attacked", recipe, item, n, metrics, left_out}``; n is the number of pairs;
        ``metrics`` are those of `pair_distances`, and, with the suffix ``_unit``, the same of the normalised vectors,
        which can be compared between models whose vectors differ in length.

    Raises:
        UserError: as `pair_distances`, or a vector is zero.
    """
    directions = pair_distances(unit_directions(clean), unit_directions(adversarial))
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
    """Refuse texts that were attacked as one text of a pair if the model is a classifier.

    A classifier of pairs never gets a single text as its input.

    Raises:
        UserError: the model takes pairs of texts, or it is a classifier and texts were attacked as one text of a pair.
    """
    config = _classifier_config(spec)
    if config is None:
        return
    with_other = [recipe_pairs.name for recipe_pairs in pairs if recipe_pairs.with_other]
    takes_pairs = (config.get("holdfast") or {}).get("takes_pairs")
    if takes_pairs or with_other:
        reason = "takes pairs of texts" if takes_pairs else f"is a classifier, and {with_other[0]} attacked pairs"
        raise UserError(f"{spec} {reason}: a single text of a pair is measured only in an encoder: give that encoder")


def load_space_encoder(
    spec: str, *, pooling: str | None = None, prompts: PromptOptions | None = None
) -> SentenceTransformer:
    """Load the encoder whose space is measured: a model, or the part of a classifier below its head.

    For a fine-tuned sequence classifier this is its transformer, pooled like a masked language model ([CLS] by
    default); for a classifier on a frozen encoder it is that encoder. The arguments are as for
    :func:`holdfast.models.load_sentence_transformer`.

    Raises:
        UserError: the model cannot be loaded, or a pooling is named for a classifier on a frozen encoder.
    """
    from holdfast.model_lookup import resolve_model
    from holdfast.models import load_sentence_transformer

    folder = resolve_model(spec)
    if not (folder / "modules.json").is_file() or not (folder / CLASSES_FILE).is_file():
        return load_sentence_transformer(spec, pooling=pooling, prompts=prompts)
    if pooling is not None:
        raise UserError(f"{spec} is a classifier on an encoder with a pooling of its own: leave --pooling out")
    from sentence_transformers import SentenceTransformer

    classifier = load_sentence_transformer(spec, scores=True)
    *encoder, _ = classifier.children()
    below = SentenceTransformer(
        modules=encoder,
        device=str(classifier.device),
        prompts={name: prompt for name, prompt in classifier.prompts.items() if prompt is not None},
        default_prompt_name=classifier.default_prompt_name,
    )
    if prompts is not None:
        choose_prompts(below, prompts, spec=spec)
    return below


def _classifier_config(spec: str) -> dict[str, Any] | None:
    """Return the configuration of a classifier, ``{}`` if it has a frozen encoder; None for an encoder."""
    from holdfast.adapter_folder import adapter_in
    from holdfast.model_lookup import resolve_model

    folder = resolve_model(spec)
    if (folder / "modules.json").is_file():
        return {} if (folder / CLASSES_FILE).is_file() else None
    if adapter_in(folder) is not None:
        return None
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kinds = config.get("architectures") or []
    return config if any(str(kind).endswith("ForSequenceClassification") for kind in kinds) else None
