"""Keep the finished cells of a long reproduction in the repository, without data and models, and put them back.

    python benchmarks/kept_cells.py save OUTPUT benchmarks/cells/NAME --data DIR
    python benchmarks/kept_cells.py restore benchmarks/cells/NAME OUTPUT --data DIR

OUTPUT is the folder of `holdfast reproduce`. ``save`` writes each cell that was trained, evaluated or attacked into a
compressed file of its own: the record of the cell, its result and its run, but no model, and no gold score, label or
text of a data set; of an attacked text the words that the attack put in, and their places. The rest is taken from the
data folder again by ``restore``, and the hash of each result is compared with that of the run that wrote it; ``save``
does so before it writes. A reproduction with the same OUTPUT then makes only what is left; a model is trained again
only where a cell to make takes it. Both commands can be given again: what is there is left alone.

Inspections, distances and transferred attacks are not kept. Give `holdfast reproduce` relative paths, since results
hold its command.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.attacks.attack_inputs import load_inputs
from holdfast.attacks.attack_run import write_attack
from holdfast.attacks.attack_settings import AttackSettings, Goal
from holdfast.attacks.examples import Attempt, Example
from holdfast.data.registry import load_pairs
from holdfast.edits.words import Words
from holdfast.experiments.cells import CELL_FILE
from holdfast.files import atomic_path, write_json
from holdfast.results import HASH, content_sha256, write_result
from holdfast.runs.run_log import RESULT_FILE, RUN_FILE

MODELS = ("encoder", "baseline", "classifier")
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


def without_texts(result: dict[str, Any], data: Path) -> dict[str, Any]:
    """Return an attack's result whose examples hold no text and no label of the data set, only what is put in.

    Raises:
        ValueError: it holds texts or labels that the data folder does not give back.
    """
    rows = []
    for row in result["examples"]:
        row = dict(row)
        original, words = row["original"], Words.of(row["original"]).words
        for name, value in of_data(result, row["number"], data).items():
            if row.pop(name) != value:
                raise ValueError(f"the {name} of example {row['number']} is not that of the data in {data}")
        if "neighbours" in row["before"] | row["after"]:
            raise ValueError("its verdicts hold texts of the data set")
        row["adversarial"] = put_in(original, row["adversarial"])
        row["changed"] = [
            [place, new] if words[place : place + 1] == (old,) else [place, old, new]
            for place, old, new in row["changed"]
        ]
        rows.append(row)
    return {**result, "examples": rows}


def with_texts(result: dict[str, Any], data: Path) -> dict[str, Any]:
    """Return an attack's result as it was, with the texts and labels of the data folder."""
    rows = []
    for row in result["examples"]:
        row = of_data(result, row["number"], data) | row
        words = Words.of(row["original"]).words
        changed = [[place, *(old or [words[place]]), new] for place, *old, new in row["changed"]]
        row |= {"adversarial": replaced(row["original"], row["adversarial"]), "changed": changed}
        rows.append(Attempt.from_row(row).row())
    return {**result, "examples": rows}


def of_data(result: dict[str, Any], number: int, data: Path) -> dict[str, Any]:
    """Return what an attacked example has from the data set, by its number there."""
    ((task, split),) = {(row["task"], row["split"]) for row in result["results"]}
    example = attacked_data(task, split, result["protocol"]["goal"]["kind"], data)[number]
    other = example.texts[1 - example.attacked] if len(example.texts) == 2 else None
    return {"original": example.text, "label": example.label, "other": other}


@functools.cache
def attacked_data(task: str, split: str, goal: Goal, data: Path) -> list[Example]:
    """Return all examples of a task, as an attack of any model reads them."""
    return load_inputs(AttackSettings("any", task=task, split=split, goal=goal, data=data)).examples


def put_in(original: str, changed: str) -> list[list[Any]]:
    """Return the differences of a changed text: begin and end in the original's words and gaps, and the new text."""
    before, after = Words.of(original).parts, Words.of(changed).parts
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [[begin, end, "".join(after[i:j])] for kind, begin, end, i, j in blocks if kind != "equal"]


def replaced(original: str, differences: Sequence[Sequence[Any]]) -> str:
    """Return the changed text; the inverse of `put_in`."""
    parts = list(Words.of(original).parts)
    for begin, end, text in reversed(differences):
        parts[begin:end] = [text]
    return "".join(parts)


def kept_result(result: dict[str, Any], folder: Path, data: Path) -> dict[str, Any]:
    """Return a result without what is of a data set."""
    if result["kind"] == "attack":
        return without_texts(result, data)
    return without_gold(result, folder)


def whole_result(result: dict[str, Any], data: Path) -> dict[str, Any]:
    """Return a result as it was, which its hash shows; the inverse of `kept_result`.

    Raises:
        ValueError: it is not the result that was written.
    """
    result = with_texts(result, data) if result["kind"] == "attack" else with_gold(result, data)
    if content_sha256(result) != result[HASH]:
        raise ValueError(f"with the data in {data} it is not the result that was written")
    return result


def save(output: Path, kept: Path, data: Path) -> None:
    """Write the finished cells of a reproduction that are not kept yet."""
    for path in sorted((output / "cells").glob(f"*/{CELL_FILE}")):
        folder = path.parent
        kind, target = folder.name.partition("-")[0], kept / f"{folder.name}{SUFFIX}"
        if kind not in (*MODELS, "evaluation", "attack") or target.exists():
            continue
        record = {name: json.loads(file.read_text("utf-8")) for name, file in files_of(folder).items() if file.exists()}
        try:
            record["results"] = kept_result(record["results"], folder, data)
            text = json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"
            whole_result(json.loads(text)["results"], data)
        except ValueError as error:
            sys.exit(f"{folder} cannot be kept: {error}")
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
        try:
            result = whole_result(record["results"], data)
        except ValueError as error:
            sys.exit(f"{path}: {error}")
        files = files_of(folder)
        files["results"].parent.mkdir(parents=True, exist_ok=True)
        write = write_attack if result["kind"] == "attack" else write_result
        write(files["results"], result)
        for name in ("run", "cell"):  # the record of the cell last: with it the cell is finished
            if name in record:
                write_json(files[name], record[name])
        print(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("save", "restore"))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="the data folder")
    options = parser.parse_args()
    if not options.source.is_dir():
        parser.error(f"{options.source} is no folder")
    if options.what == "save":
        save(options.source, options.target, options.data)
    else:
        restore(options.source, options.target, options.data)


if __name__ == "__main__":
    main()
