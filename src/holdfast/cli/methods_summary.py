"""The results of the demo of the methods for readers: tables, and a description of the numbers in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.console import table
from holdfast.demo.demo_folder import RESULT_FILE
from holdfast.demo.methods_settings import BEFORE, METHODS
from holdfast.demo.probe import NOISES
from holdfast.demo.reload import AGREES
from holdfast.model_lookup import PYPI_MODEL

if TYPE_CHECKING:
    from rich.table import Table

_SIMILARITY, _HARD = "similarity, all pairs (Spearman)", "  hard pairs"
_MOVEMENT = "{} noise: vectors move by"
_VERDICTS = ("holds", "bends", "breaks", "too few", "absent")

Rows = Sequence[Mapping[str, Any]]


def summary(result: Mapping[str, Any]) -> tuple[list[Table], str]:
    """Return the demo's tables, and a text with their interpretation and the next steps."""
    folder, worst = Path(result["output"]), max(result["reload_max_difference"].values())
    agree = "the same vectors" if worst < AGREES else "DIFFERENT VECTORS"
    protocol, rows = result["protocol"], result["results"]
    pairs = next(row["n"] for row in rows if row["task"] == "demo-pairs")
    sentences = f"{protocol['corpus']['sentences']:,} sentences"
    changes = "\n".join(f"{name}:\n  " + ",\n  ".join(verdict(rows, name)) for name in METHODS)
    cards = "\n".join(f"Report card of {name}: {_counted(verdicts)}" for name, verdicts in result["audits"].items())
    return (
        [_similarity_table(rows), _attack_table(result["attacks"])],
        f"""{changes}
("About the same": a change of less than 1 point, or of less than a twentieth of the movement.)

{cards}

A small demonstration of all stages, not a benchmark: one seed; {protocol["steps"]} steps with a batch of
{protocol["batch_size"]}, from {sentences} of this Python's own documentation; the {pairs} pairs and the
sentences of the classifiers were written by holdfast's authors. {_expected(result["model"])}

Loaded with sentence-transformers alone, the encoders give {agree}
(largest difference {worst:.1e}). The demo took {result["timing"]["demo_seconds"] / 60:.1f} minutes.

Use a model:   SentenceTransformer("{folder / METHODS[-1]}")
On your text:  holdfast train robustembed --model {result["model"]} --corpus mine.txt --output runs/mine
Measure it:    holdfast evaluate runs/mine
All numbers:   {folder / RESULT_FILE}
The report:    {result["report"]}""",
    )


def _expected(model: str) -> str:
    """Return a sentence about the effect to expect from the original model."""
    if model == PYPI_MODEL:
        return (
            "The\noriginal model was trained on more than a billion sentence pairs: such a short\n"
            "training without labels is not expected to improve it."
        )
    return "The\nvectors of a masked language model were not trained to represent sentences."


def _counted(verdicts: Sequence[str]) -> str:
    counts = Counter(verdicts)
    words = {
        "holds": "hold",
        "bends": "bend",
        "breaks": "break",
        "too few": "have too few texts",
        "absent": "could not be measured",
    }
    return ", ".join(f"{counts[verdict]} {words[verdict]}" for verdict in _VERDICTS if counts[verdict])


def verdict(rows: Rows, model: str) -> list[str]:
    """Describe the changes of ``model``'s numbers from those before training, in words."""
    values = {label: value for label, _, value in _lines(rows)}
    change = {label: value[model] - value[BEFORE] for label, value in values.items()}
    scores = {_SIMILARITY: "similarity is", _HARD: "similarity of the hard pairs is"}
    words = [_in_words(change[label], 1.0, what, "lower", "higher", "about the same") for label, what in scores.items()]
    for kind in NOISES:
        label = _MOVEMENT.format(kind)
        limit = values[label][BEFORE] / 20
        words.append(_in_words(change[label], limit, f"{kind} noise moves vectors", "less", "more", "about as far"))
    return words


def _in_words(change: float, limit: float, what: str, down: str, up: str, same: str) -> str:
    return f"{what} {same if abs(change) < limit else up if change > 0 else down} ({change:+.1f})"


def _similarity_table(rows: Rows) -> Table:
    models = (BEFORE, *METHODS)
    cells = [[label, *(f"{values[name]:.1f}" for name in models), better] for label, better, values in _lines(rows)]
    return table(["×100", *models, "better"], cells, title="Before and after", right=models)


def _attack_table(attacks: Rows) -> Table:
    numbers = ["accuracy", "under attack", "success, %", "queries"]
    cells = []
    for row in attacks:
        values = (row.get(name) for name in ("accuracy", "accuracy_under_attack", "success_rate", "queries"))
        cells.append([row["from"], row["recipe"], *("–" if value is None else f"{value:.1f}" for value in values)])
    columns = ["fine-tuned from", "attack", *numbers]
    return table(columns, cells, title="Sentiment classifiers under attack", right=numbers)


def _lines(rows: Rows) -> list[tuple[str, str, dict[str, float]]]:
    """Return the lines of the table: a label, the better direction, and the value of each model."""
    by_key: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        by_key.setdefault((row["task"], row["split"]), {})[row["model"]] = row
    pairs, spread = by_key["demo-pairs", "all"], by_key["demo-spread", "all"]
    lines = [(_SIMILARITY, "higher", {m: row["metrics"]["spearman"] for m, row in pairs.items()})]
    for kind in ("ordinary", "hard"):
        values = {name: row["subsets"][kind]["spearman"] for name, row in pairs.items()}
        lines.append((f"  {kind} pairs", "higher", values))
    for kind in NOISES:
        noise = by_key["demo-noise", kind]
        lines += [
            (_MOVEMENT.format(kind), "lower", {m: row["metrics"]["movement"] for m, row in noise.items()}),
            ("  nearest to their own sentence", "higher", {m: row["metrics"]["found"] for m, row in noise.items()}),
        ]
    scale = {name: row["metrics"]["distance"] for name, row in spread.items()}
    return [*lines, ("distance of different sentences, for scale", "", scale)]
