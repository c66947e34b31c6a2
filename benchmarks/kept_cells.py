"""Keep the finished cells of a long reproduction in the repository, without data and models, and put them back.

    python benchmarks/kept_cells.py save OUTPUT benchmarks/cells/NAME
    python benchmarks/kept_cells.py restore benchmarks/cells/NAME OUTPUT --data DIR

OUTPUT is the folder of `holdfast reproduce`. ``save`` writes each cell that was trained or evaluated into a compressed
file of its own: the record of the cell, its result and its run, but no model, and no gold score of a data set. Those
are taken from the data folder again by ``restore``, and the hash of each result is compared with that of the run that
wrote it. A reproduction with the same OUTPUT then makes only what is left; a model is trained again only where a
cell to make takes it. Both commands can be given again: what is there is left alone.

Cells of attacks and the like hold texts of data sets and are not kept. Give `holdfast reproduce` relative paths, since
results hold its command.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path
from typing import Any

from holdfast.data.registry import load_pairs
from holdfast.experiments.cells import CELL_FILE
from holdfast.files import atomic_path, write_json
from holdfast.results import HASH, content_sha256, write_result
from holdfast.runs.run_log import RESULT_FILE, RUN_FILE

MODELS = ("encoder", "baseline")
SUFFIX = ".json.gz"
ITEMS = {"gold", "similarity", "correct"}
"""The items of an evaluation that can be kept: of each pair the gold score, which is left out, and the cosine; of each
sentence of a transfer task a 1 if its class was found, else a 0. These are kept as one word."""


def files_of(folder: Path) -> dict[str, Path]:
    """Return the files of a cell that are kept, by their key in the kept record."""
    made = folder / "model" if folder.name.partition("-")[0] in MODELS else folder
    return {"cell": folder / CELL_FILE, "results": made / RESULT_FILE, "run": made / RUN_FILE}


def without_gold(result: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return an evaluation's result without the gold scores of its items."""
    rows = []
    for row in result["results"]:
        items = row.get("items", {})
        if not set(items) <= ITEMS:
            sys.exit(f"{folder}: items of {row['task']} that cannot be kept: {', '.join(sorted(set(items) - ITEMS))}")
        left = {name: values for name, values in items.items() if name != "gold"}
        if "correct" in left:
            left["correct"] = "".join(map(str, left["correct"]))
        rows.append({**row, **({"items": left} if items else {})})
    return {**result, "results": rows}


def with_gold(result: dict[str, Any], data: Path) -> dict[str, Any]:
    """Return the result as it was, with the gold scores of the data folder."""
    rows = []
    for row in result["results"]:
        items = row.get("items", {})
        if "similarity" in items:
            gold = list(map(float, load_pairs(row["task"], row["split"], data=data).scores))
            row = {**row, "items": {"gold": gold, **items}}
        elif "correct" in items:
            row = {**row, "items": {"correct": list(map(int, items["correct"]))}}
        rows.append(row)
    return {**result, "results": rows}


def save(output: Path, kept: Path) -> None:
    """Write the finished cells of a reproduction that are not kept yet."""
    for path in sorted((output / "cells").glob(f"*/{CELL_FILE}")):
        folder = path.parent
        kind, target = folder.name.partition("-")[0], kept / f"{folder.name}{SUFFIX}"
        if kind not in (*MODELS, "evaluation") or target.exists():
            continue
        record = {name: json.loads(file.read_text("utf-8")) for name, file in files_of(folder).items() if file.exists()}
        if kind == "evaluation":
            record["results"] = without_gold(record["results"], folder)
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"
        with atomic_path(target) as temporary:
            temporary.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))  # the same bytes each time
        print(target)


def restore(kept: Path, output: Path, data: Path) -> None:
    """Write the kept cells into the folder of a reproduction, where they are not there yet."""
    for path in sorted(kept.glob(f"*{SUFFIX}")):
        folder = output / "cells" / path.name.removesuffix(SUFFIX)
        if (folder / CELL_FILE).exists():
            continue
        record = json.loads(gzip.decompress(path.read_bytes()))
        if path.name.startswith("evaluation"):
            record["results"] = with_gold(record["results"], data)
        result = record["results"]
        if content_sha256(result) != result[HASH]:
            sys.exit(f"{path}: with the data in {data} it is not the result that was written")
        files = files_of(folder)
        files["results"].parent.mkdir(parents=True, exist_ok=True)
        write_result(files["results"], result)
        for name in ("run", "cell"):  # the record of the cell last: with it the cell is finished
            if name in record:
                write_json(files[name], record[name])
        print(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("save", "restore"))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--data", type=Path, help="the data folder, for restore")
    options = parser.parse_args()
    if not options.source.is_dir():
        parser.error(f"{options.source} is no folder")
    if options.what == "save":
        save(options.source, options.target)
    elif options.data is None:
        parser.error("restore needs --data DIR")
    else:
        restore(options.source, options.target, options.data)


if __name__ == "__main__":
    main()
