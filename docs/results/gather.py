"""Take the tables that `holdfast reproduce` made into docs/results, without the texts of data sets.

python docs/results/gather.py [OUTPUT ...]

Each result goes into the folder of its scale, with its pictures. The texts behind the points of a plane belong to the
data sets and are left out; the points stay. Then the pages and indexes of all results are written anew (a page of one
seed names the deviation between the seeds of the others), and the tables of claims in README.md, from claims.yaml.
"""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

from holdfast.evaluation.seed_variance import StandardError
from holdfast.experiments.markup import markdown_table
from holdfast.experiments.render import index, markdown
from holdfast.files import write_text
from holdfast.results import read_result, write_result

HERE = Path(__file__).parent
BEGIN, END = "<!-- claims -->", "<!-- /claims -->"
RULE = (
    "Written on 2026-11-26, before the runs that are to come. Each is two-sided at 5 % with Holm's correction over\n"
    "the rows of its table; *shown* needs a significant difference in the claimed direction."
)
_EFFECT = StandardError(1.0).minimum_detectable()
LEFT_OUT = "a text of the data set, which is not copied here"


def gather(output: Path, into: Path = HERE) -> list[Path]:
    """Copy the tables in one output folder and return the files of their results."""
    taken = []
    for path in sorted(output.glob("*.json")):
        result = without_texts(read_result(path))
        folder = into / result["protocol"]["scale"]
        write_result(folder / path.name, result)
        for picture in pictures_of(path):
            shutil.copyfile(picture, folder / picture.name)
        taken.append(folder / path.name)
    return taken


def without_texts(result: dict[str, Any]) -> dict[str, Any]:
    """A result whose planes hold points alone."""
    for row in result["results"]:
        for point in row.get("coordinates", {}).get("points", ()):
            point["text"] = LEFT_OUT
    return result


def pictures_of(path: Path) -> list[Path]:
    """The pictures beside a result, in the order of their numbers."""
    found = (
        file
        for file in path.parent.glob(f"{path.stem}*.svg")
        if file.stem.removeprefix(path.stem).strip("-0123456789") == ""
    )
    return sorted(found, key=lambda file: (len(file.name), file.name))


def page_of(path: Path) -> str:
    """The page of a result, with the pictures beside it, and what is known of the variance between trainings."""
    result = read_result(path)
    protocol = result["protocol"]
    compares = any(_is_sts(row) for row in result["results"])
    one = protocol["seeds"] == 1 and protocol["scale"] != "smoke" and compares
    pictures = [picture.name for picture in pictures_of(path)]
    return markdown(result, pictures, seeds_elsewhere(path.parent) if one else ())


def seeds_elsewhere(folder: Path) -> list[str]:
    """A line on the deviation between seeds of the average of seven STS sets, where a folder has several seeds."""
    found: dict[str, tuple[float, int, str]] = {}
    for path in sorted(folder.glob("*.json")):
        for row in read_result(path)["results"]:
            if _is_sts(row) and "std" in row["metrics"]:
                found[row["task"]] = (row["metrics"]["std"], row["n"], path.stem)
    if not found:
        return []
    pooled = math.sqrt(
        sum(std**2 * (count - 1) for std, count, _ in found.values()) / sum(count - 1 for _, count, _ in found.values())
    )
    largest = max(std for std, _, _ in found.values())
    names, stems = "; ".join(found), dict.fromkeys(stem for _, _, stem in found.values())
    where = ", ".join(f"[{stem}]({stem}.md)" for stem in stems)
    effects = [_EFFECT * math.sqrt(2.0) * std for std in (pooled, largest)]
    return [
        f"Where seeds were repeated at this scale ({names}; {where}), the average of the "
        f"seven STS sets has a standard deviation of {pooled:.2f} over seeds, and at most {largest:.2f}. From this "
        "alone, a true difference between two rows of one seed each is found with a probability of 80 % "
        f"from {effects[0]:.1f} points on, with the largest deviation from {effects[1]:.1f} on."
    ]


def _is_sts(row: dict[str, Any]) -> bool:
    """True for an average of the seven STS sets."""
    return row["measure"] == "sts" or row["measure"].startswith("mean of STS12, STS13, ")


def index_of(folder: Path) -> str:
    """The index of every table in a folder."""
    return index({path.stem: read_result(path) for path in sorted(folder.glob("*.json"))})


def claims() -> dict[str, Any]:
    """The claims of the papers and the tests that decide them, as `claims.yaml` holds them."""
    found: dict[str, Any] = yaml.safe_load((HERE / "claims.yaml").read_text(encoding="utf-8"))
    return found


def verdict_of(claim: dict[str, Any]) -> str:
    """The verdict on a claim: what was measured, what could have been found, why, and what makes it obsolete."""
    said = f"**{claim['verdict']}**"
    if "measured" in claim:
        said += f": {claim['measured']}"
    if "detectable" in claim:
        said += f"; minimum detectable effect: {claim['detectable']}"
    said += f". {claim['why'][0].upper()}{claim['why'][1:]}."
    if "before" in claim and "measured" in claim:
        said += f" Measured before this mend, to be run again: {claim['before']}."
    elif "before" in claim:
        said += f" To be run with this mend: {claim['before']}."
    return said


def claims_tables() -> str:
    """The claims as one table for each paper, and the tests."""
    found = claims()
    lines = []
    for paper in dict.fromkeys(claim["paper"] for claim in found["claims"]):
        rows = [
            (each["id"], each["claim"], each["place"], each["published"], each["test"], each["baseline"], each["n"],
             verdict_of(each))
            for each in found["claims"] if each["paper"] == paper
        ]  # fmt: skip
        header = ("", "claim", "place", "published", "test", "against", "n here", "verdict")
        body = [[cell.strip().replace("|", "\\|") for cell in row] for row in rows]
        lines += [f"### {paper}", "", *markdown_table(header, body, left=range(len(header))), ""]
    lines += ["### Tests", "", RULE, ""]
    lines += [f"- `{name}`: {' '.join(rule.split())}" for name, rule in found["tests"].items()]
    return "\n".join(lines)


def with_claims(page: str) -> str:
    """The page with the tables of claims between its two marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{claims_tables()}\n\n{END}{rest.partition(END)[2]}"


def write_pages(into: Path = HERE) -> None:
    """Write the page of every result and the index of every scale."""
    for folder in sorted({path.parent for path in into.glob("*/*.json")}):
        for path in folder.glob("*.json"):
            write_text(path.with_suffix(".md"), page_of(path))
        write_text(folder / "README.md", index_of(folder))


if __name__ == "__main__":
    for taken in (path for output in sys.argv[1:] for path in gather(Path(output))):
        print(taken.relative_to(HERE))
    write_pages()
    write_text(HERE / "README.md", with_claims((HERE / "README.md").read_text(encoding="utf-8")))
