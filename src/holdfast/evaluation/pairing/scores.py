"""Samples from rows of scores with their items: of evaluations, trainings and fine-tuned classifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import UserError
from holdfast.evaluation.pairing.compare_inputs import ComparedResult, RowKey, as_object, common, name_of, recipe_of
from holdfast.evaluation.retrieval import TASK as RETRIEVAL
from holdfast.evaluation.retrieval_differences import retrieval_sample
from holdfast.evaluation.retrieval_table import is_lexical
from holdfast.evaluation.samples import Correlations, Sample, SeedBySeed, Shares
from holdfast.forms import form_of
from holdfast.results import shown

# Parts of a split that `finetune` draws by its seed.
_DRAWN_SPLITS = ("held-out", "held-out-test")


class _OtherTexts(UserError):
    """Rows of one split have different texts; rows of other splits may still be comparable."""


def scored_samples(sources: Sequence[ComparedResult], baselines: int) -> tuple[dict[RowKey, Sample], list[str]]:
    """Return samples of the rows that all results hold; the first ``baselines`` results are the baseline's."""
    rows = [_scored(source) for source in sources]
    shared, notes = common([list(own) for own in rows], sources)
    notes += _without_items(sources)
    samples: dict[RowKey, Sample] = {}
    unpaired: list[_OtherTexts] = []
    for key in shared:
        same = [own[key] for own in rows]
        check_data(key, same, sources)
        if (reason := _other_noise(same, sources)) is not None:
            unpaired.append(_OtherTexts(f"{name_of(key)}: {reason}"))
            continue
        try:
            groups = _by_items(key, same, sources, baselines)
        except _OtherTexts as error:
            unpaired.append(error)
            continue
        by_items = [sample_of(key, [same[i] for i in group], [sources[i] for i in group]) for group in groups]
        samples[key] = by_items[0] if len(by_items) == 1 else SeedBySeed(by_items)
    if not samples:
        raise unpaired[0]
    notes += [f"not compared: {error}" for error in unpaired]
    by_seed = [name_of(key) for key, sample in samples.items() if isinstance(sample, SeedBySeed)]
    if by_seed:
        notes.append(f"paired seed by seed, as each seed has its own texts: {', '.join(by_seed)}")
    return samples, notes


def _scored(source: ComparedResult) -> dict[RowKey, Mapping[str, Any]]:
    """Return a result's rows that hold items.

    Raises:
        UserError: there is no such row.
    """
    rows = {key: row for row in source.result["results"] if _is_of_scores(row) for key in _keys_of(row)}
    if not rows:
        tasks = ", ".join(dict.fromkeys(row["task"] for row in source.result["results"])) or "nothing"
        raise UserError(
            f"{source.path} (a result of {source.result['kind']}, of {tasks}) holds no items to compare: give results "
            "of `holdfast evaluate`, `finetune`, `attack`, `audit` or `transfer`, and make those of an earlier version "
            "again"
        )
    return rows


def _without_items(sources: Sequence[ComparedResult]) -> list[str]:
    """Return a line about the rows that hold scores but no items."""
    names = dict.fromkeys(
        f"{row['task']} {row['split']}"
        for source in sources
        for row in source.result["results"]
        if "items" not in row and row["metrics"]
    )
    return [f"without items, so not compared: {', '.join(names)}"] if names else []


def _is_of_scores(row: Mapping[str, Any]) -> bool:
    return "items" in row and "text" not in row["items"]


def _keys_of(row: Mapping[str, Any]) -> list[RowKey]:
    """Return the key of a row, or a key for each metric of a row of retrieval, by its collection and its system.

    A row of BM25 has none: it is the same for all models.
    """
    if row["task"] == RETRIEVAL:
        if is_lexical(row):
            return []
        return [RowKey(row["task"], row["split"], recipe_of(row), metric, form_of(row)) for metric in row["items"]]
    metric = "accuracy" if "correct" in row["items"] else "spearman"
    return [RowKey(row["task"], row["split"], None, metric, form_of(row))]


def _values(items: Mapping[str, Any]) -> Sequence[float]:
    values: Sequence[float] = items["similarity"] if "similarity" in items else items["prediction"]
    return values


def check_data(key: RowKey, rows: Sequence[Mapping[str, Any]], sources: Sequence[ComparedResult]) -> None:
    """Refuse rows of different data; they may hold different items of the same split."""
    for row, source in zip(rows[1:], sources[1:], strict=True):
        if row.get("data_sha256") != rows[0].get("data_sha256"):
            raise _other_data(key, source, sources[0])


def _other_noise(rows: Sequence[Mapping[str, Any]], sources: Sequence[ComparedResult]) -> str | None:
    """Return a reason if the typing errors of rows in noise come from other misspellings; they follow the file."""
    if not str(rows[0].get("noise", "")).startswith("typing"):
        return None
    first, *others = (as_object(source.result["protocol"].get("misspellings")) for source in sources)
    other = next((source for source, own in zip(sources[1:], others, strict=True) if own != first), None)
    return None if other is None else f"{other.path} has other --misspellings than {sources[0].path}"


def sample_of(key: RowKey, rows: Sequence[Mapping[str, Any]], sources: Sequence[ComparedResult]) -> Sample:
    """Return the sample of several models' outputs on the same items.

    Raises:
        UserError: the items differ: in their number or their gold scores.
    """
    gold = rows[0]["items"].get("gold")
    for row, source in zip(rows[1:], sources[1:], strict=True):
        if row["n"] != rows[0]["n"] or row["items"].get("gold") != gold:
            raise _other_data(key, source, sources[0])
    if key.task == RETRIEVAL:
        return retrieval_sample([row["items"][key.metric] for row in rows])
    if key.metric == "accuracy":
        return Shares([row["items"]["correct"] for row in rows])
    return Correlations(gold, [_values(row["items"]) for row in rows])


def _other_data(key: RowKey, source: ComparedResult, first: ComparedResult) -> UserError:
    return UserError(
        f"{source.path}: {key.task} {key.split} has other data than in {first.path} (data_sha256): "
        "measure both on the same files"
    )


# --- the items of a split ----------------------------------------------------------------------------------------


def _by_items(
    key: RowKey, rows: Sequence[Mapping[str, Any]], sources: Sequence[ComparedResult], baselines: int
) -> list[list[int]]:
    """Return the indices of the results, grouped by equal items of a split.

    Returns:
        One group of all; or, if each seed has its own items, for each seed a pair of a baseline's and another's result.

    Raises:
        _OtherTexts: the items of a result are in no result of the other side, or in more than one.
    """
    groups: dict[str | None, list[int]] = {}
    for number, items in enumerate(_items_of(rows, sources)):
        groups.setdefault(items, []).append(number)
    if len(groups) == 1:
        return list(groups.values())
    if len(sources) == 2:
        raise _other_texts(key, rows, sources)
    for group in groups.values():
        for number in group:
            partners = sum((other < baselines) != (number < baselines) for other in group)
            if partners != 1:
                raise _OtherTexts(
                    f"{key.task} {key.split} has other texts for each seed and is paired seed by seed: for the texts "
                    f"of {sources[number].path} the other side has {partners or 'no'} results, not one: give both "
                    "sides the same --seed values, once each"
                )
    return list(groups.values())


def _items_of(rows: Sequence[Mapping[str, Any]], sources: Sequence[ComparedResult]) -> list[str | None]:
    """Return an identifier of each result's items: their hash, or, for earlier versions, the seed that drew them."""
    if all("items_sha256" in row for row in rows):
        return [str(row["items_sha256"]) for row in rows]
    return [_drawn_by(row, source) for row, source in zip(rows, sources, strict=True)]


def _drawn_by(row: Mapping[str, Any], source: ComparedResult) -> str | None:
    """Return the seed that drew the items of a row, in words; None if they are the whole split."""
    sample = as_object(row.get("sample"))
    if "seed" in sample:  # from `evaluate`, whose samples are the same for every model
        return f"the fixed seed {shown(sample['seed'])}"
    return f"seed {source.result['seed']}" if sample or row["split"] in _DRAWN_SPLITS else None


def _other_texts(key: RowKey, rows: Sequence[Mapping[str, Any]], sources: Sequence[ComparedResult]) -> _OtherTexts:
    """Return an error that says why two results of one split cannot be paired, and what to do."""
    first, second = (_drawn_by(row, source) for row, source in zip(rows, sources, strict=True))
    place = f"{sources[1].path}: {key.task} {key.split} has other texts than in {sources[0].path}"
    if first == second:
        return _OtherTexts(
            f"{place}, though of the same split (items_sha256): measure both with the same --data, --train-split and "
            "--test-examples"
        )
    drawn = [f"drawn by {by}" if by else "the whole split" for by in (second, first)]
    return _OtherTexts(
        f"{place} ({drawn[0]}, there {drawn[1]}): give both the same --seed, or measure both on a fixed test split"
    )
