"""Take the tables that `holdfast reproduce` made into docs/results, without the texts of data sets.

python docs/results/gather.py OUTPUT [OUTPUT ...]

Each result goes into the folder of its scale: the result, its page, its pictures, and an index of them all. The texts
behind the points of a plane belong to the data sets and are left out; the points stay.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from holdfast.experiments.render import index, markdown
from holdfast.files import write_text
from holdfast.results import read_result, write_result

HERE = Path(__file__).parent
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
        write_text(folder / f"{path.stem}.md", page_of(folder / path.name))
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
    """The page of a result, with the pictures beside it."""
    return markdown(read_result(path), [picture.name for picture in pictures_of(path)])


def index_of(folder: Path) -> str:
    """The index of every table in a folder."""
    return index({path.stem: read_result(path) for path in sorted(folder.glob("*.json"))})


if __name__ == "__main__":
    for folder in {path.parent for output in sys.argv[1:] for path in gather(Path(output))}:
        write_text(folder / "README.md", index_of(folder))
        print(folder)
