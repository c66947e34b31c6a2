"""Adversarial texts of earlier attacks, as additional training texts (ADCL, appendix E: "pre-generated")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.attacks.classifier import Text
from holdfast.errors import UserError
from holdfast.files import sha256
from holdfast.results import examples_of, read_result


@dataclass(frozen=True)
class AdversarialTexts:
    """Texts that one result of an attack adds to a training part.

    Attributes:
        path: the file of the result.
        sha256: hash of that file.
        texts: n texts, or pairs of texts, with the attacked text replaced.
        labels: the n labels of the originals.
        foreign: number of adversarial texts whose originals are not in the training part (held out, left out, or from
            other data), or are there with several labels.
        measured_on: number of texts left out because a set for selection or measurement has the same text.
    """

    path: Path
    sha256: str
    texts: list[Text]
    labels: list[float]
    foreign: int
    measured_on: int = 0

    def describe(self) -> str:
        """Return a line with the number of texts, the name of their file, and the numbers of texts left out.

        The line is part of the run's record: with other words, a run of an earlier version could not be resumed.
        """
        left = f" ({self.foreign:,} of texts that are not trained on are left out)" if self.foreign else ""
        left += f" ({self.measured_on:,} that are measured on are left out)" if self.measured_on else ""
        return f"trained on besides: {len(self.texts):,} adversarial texts of {self.path.name}{left}"

    def record(self) -> dict[str, Any]:
        """Return the record for the result."""
        counts = {"texts": len(self.texts), "foreign": self.foreign, "measured_on": self.measured_on}
        return {"source": str(self.path), "sha256": self.sha256, **counts}


def read_adversarial_texts(path: Path, texts: Sequence[Text], labels: Sequence[float]) -> AdversarialTexts:
    """Read the adversarial texts of a result of ``holdfast attack`` on a training split.

    For each training text that was attacked, the final text of the attack is taken with the training text's label,
    whether the attack succeeded or not; texts that the attack skipped or did not change are left out.

    Raises:
        UserError: the file is not a result of an attack, or has no adversarial text of any of the training texts.
    """
    result = read_result(path)
    if result["kind"] != "attack":
        raise UserError(f"{path} is a result of {result['kind']}: adversarial texts come from `holdfast attack`")
    places: dict[tuple[str, str | None], tuple[int, int]] = {}
    ambiguous = set()
    for row, text in enumerate(texts):
        for key, side in _keys(text):
            first, _ = places.setdefault(key, (row, side))
            if labels[first] != labels[row]:
                ambiguous.add(key)
    added: dict[Text, float] = {}
    foreign = 0
    for example in examples_of(result, path):
        if example["outcome"] == "skipped" or example["adversarial"] == example["original"]:
            continue
        key = (example["original"], example.get("other"))
        place = places.get(key)
        if place is None or key in ambiguous:
            foreign += 1
            continue
        row, side = place
        text = texts[row]
        changed = (*text[:side], example["adversarial"], *text[side + 1 :])
        added[changed] = labels[row]
    if not added:
        raise UserError(
            f"{path} holds no adversarial text of a training text: attack the training split, as "
            "in `holdfast attack CLASSIFIER --task TASK --split train`"
        )
    return AdversarialTexts(path, sha256(path), list(added), list(added.values()), foreign)


def _keys(text: Text) -> Iterator[tuple[tuple[str, str | None], int]]:
    """Yield the keys of a text in an attack, ``(attacked, other)``, each with the index of the attacked side."""
    if len(text) == 1:
        yield (text[0], None), 0
        return
    for side in range(2):
        yield (text[side], text[1 - side]), side
