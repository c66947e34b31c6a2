"""``holdfast reproduce``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.app import STUDY, AsJson, DataFolder, app
from holdfast.cli.console import console, print_json, progress_console, table, work_quietly
from holdfast.cli.doctor import MaskedLMOption, SimilarityOption, SynonymsOption, TaggerOption, WordNetOption
from holdfast.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from holdfast.experiments.reproduction import ReproduceSettings


@app.command(
    short_help="Make the tables and figures of the five papers.",
    rich_help_panel=STUDY,
    epilog="\b\nExample:\n"
    "  holdfast reproduce list\n"
    "  holdfast reproduce all --scale smoke --model bundled --corpus mine.txt --resources light\n"
    "  holdfast reproduce adcl/table1 --scale small --model my-lm --resources light --masked-lm my-lm --only AG\n"
    "  holdfast reproduce adcl/table2 --scale small --model my-lm --corpus wiki --against pre-training=NP\n"
    "  holdfast reproduce my-table.yaml --scale small --model my-lm --corpus wiki --seeds 3 --output runs/tables",
)
def reproduce(
    ctx: typer.Context,
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...",
            help="PAPER/TABLE, PAPER/FIGURE or FILE.yaml; PAPER or all for every table of it; or list.",
        ),
    ],
    scale: Annotated[
        str, typer.Option(help="smoke (minutes on two cores), small (hours) or paper (a GPU and up).")
    ] = "smoke",
    output: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder of the results; all reproductions keep and share their cells there."),
    ] = Path("reproduced"),
    model: Annotated[str | None, typer.Option(help="Model that encoders start from. [default: the scale's]")] = None,
    corpus: Annotated[
        str | None,
        typer.Option(help="Corpus of the encoders, unless the table names one. [default: the scale's]"),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Repetitions of every cell, from the encoder's training on.")] = 1,
    only: Annotated[
        str | None, typer.Option(help="Make only rows whose name contains one of these words, joined by commas.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="ROW",
            help="Compare the other rows with this one, on the same items; with AXIS=LABEL each with that which is "
            "the same but for this label. [default: the table's, if it has one]",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="STAGE.NAME=VALUE",
            help="Override a setting of the scale: encoder.sentences=6400, attack.examples=100; repeatable.",
        ),
    ] = None,
    vectors: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Word vectors as text, for the rows of GloVe.")
    ] = None,
    translators: Annotated[
        str | None,
        typer.Option(
            metavar="THERE,BACK",
            help="Two translation models, into another language and back, for the rows of BTCL: "
            "Helsinki-NLP/opus-mt-en-de,Helsinki-NLP/opus-mt-de-en.",
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Cells to make at once. [default: one on each GPU, or one]")] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the cells to make and the expected time, and make nothing.")
    ] = False,
    so_far: Annotated[
        bool, typer.Option("--so-far", help="Write the table of the finished cells, and make nothing.")
    ] = False,
    resources: Annotated[
        str, typer.Option(metavar="SET", help="Resources of the attacks: paper or light; see `holdfast doctor`.")
    ] = "paper",
    synonyms: SynonymsOption = None,
    wordnet: WordNetOption = None,
    tagger: TaggerOption = None,
    masked_lm: MaskedLMOption = None,
    similarity: SimilarityOption = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Make tables and figures of a paper: train, fine-tune, attack and measure what is not there yet, cell by cell."""
    from holdfast.attacks.resources import choose
    from holdfast.data.folder import data_folder
    from holdfast.experiments.definition import tables_named
    from holdfast.experiments.reproduction import ReproduceSettings, describe_tables
    from holdfast.experiments.reproduction import reproduce as run

    if tables == ["list"]:
        known = describe_tables()
        if as_json:
            print_json(known)
        else:
            rows = [[t["table"], t["kind"], t["title"], t["source"], f"{t['rows']} × {t['columns']}"] for t in known]
            console().print(table(["name", "kind", "what it shows", "source", "size"], rows))
        return
    data_folder(data)  # raises an error for a missing data folder before anything is loaded
    names = tables_named(tables)
    if only is not None and len(names) > 1:
        raise UserError(f"--only is of the rows of one table, and {len(names)} are to be made: leave it out")
    if against is not None and len(names) > 1:
        raise UserError(f"--against is a row of one table, and {len(names)} are to be made: leave it out")
    named = {"synonyms": synonyms, "wordnet": wordnet, "tagger": tagger, "masked_lm": masked_lm}
    first = ReproduceSettings(
        table=names[0],
        scale=scale,
        output=output,
        model=model,
        corpus=corpus,
        data=data,
        resources=choose(resources, **named, similarity=similarity),
        seeds=seeds,
        only=[word.strip() for word in (only or "").split(",") if word.strip()],
        vectors=vectors,
        translators=_two(translators),
        jobs=jobs,
        changes=set_ or (),
        against=against,
        so_far=so_far,
    )
    every = [replace(first, table=name) for name in names]
    if len({settings.result_file for settings in every}) < len(every):
        raise UserError("two of the tables would write the same result: give their files different names")
    if plan:
        _print_plan(every, as_json=as_json)
        return
    progress = progress_console(ctx, as_json)
    results = {}
    for number, settings in enumerate(every, start=1):
        if len(every) > 1:
            progress.print(f"{settings.table}: table {number} of {len(every)}", markup=False, highlight=False)
        with work_quietly():
            result = results[settings.result_file] = run(settings, console=progress, command=ctx.obj)
            pictures = _pictures(settings.result_file, result)
        if not as_json:
            _tell(settings.result_file, result, pictures)
    if as_json:
        print_json(next(iter(results.values())) if len(results) == 1 else list(results.values()))
    if len(results) > 1:
        index = _write_index(output / f"tables-{scale}.md", results)
        progress.print(f"{len(results)} tables: {index}", markup=False, highlight=False)


def _two(translators: str | None) -> tuple[str, str] | None:
    if translators is None:
        return None
    names = [name.strip() for name in translators.split(",")]
    if len(names) != 2 or not all(names):
        raise UserError(f"--translators {translators}: give two models, THERE,BACK")
    return names[0], names[1]


def _print_plan(tables: list[ReproduceSettings], *, as_json: bool) -> None:
    """Print the number of cells by kind, and the time left as estimated from finished cells."""
    from holdfast.experiments.plan import plan
    from holdfast.runs.run_status import duration

    with work_quietly():
        planned = plan(tables)
    if as_json:
        print_json([vars(sort) for sort in planned])
        return
    lines = []
    for sort in planned:
        left = sort.cells - sort.finished
        time = "" if not left else "not known" if sort.seconds is None else duration(sort.seconds)
        lines.append([sort.kind, sort.what, str(sort.cells), str(sort.finished), str(left), time])
    out = console()
    counts = ["cells", "finished", "left"]
    out.print(table(["kind", "what", *counts, "may take"], lines, right=counts))
    known = sum(sort.seconds for sort in planned if sort.seconds is not None)
    unknown = sum(sort.cells - sort.finished for sort in planned if sort.seconds is None)
    rest = f", and {unknown} cells of kinds of which none is finished in this --output yet" if unknown else ""
    out.print(f"about {duration(known)} by what cells alike took, one at a time{rest}", highlight=False)


def _tell(path: Path, result: dict[str, Any], pictures: list[str]) -> None:
    """Print a table, its notes, and its path."""
    from holdfast.experiments.render import differences_notes, notes, reasons, text_lines

    out = console()
    out.print(_table(result))
    for line in notes(result):
        out.print(line, markup=False, highlight=False)
    if (compared := _differences(result)) is not None:
        out.print(compared)
    message = [
        *differences_notes(result),
        *text_lines(result),
        *(f"not run: {reason}" for reason in reasons(result)),
        *pictures,
    ]
    for line in (*message, f"{path} (also .md and .tex)"):
        out.print(line, markup=False, highlight=False)


def _write_index(path: Path, results: dict[Path, dict[str, Any]]) -> Path:
    """Write a page with links to the tables; return its path."""
    from holdfast.experiments.render import index
    from holdfast.files import write_text

    write_text(path, index({file.stem: result for file, result in results.items()}))
    return path


def _pictures(path: Path, result: dict[str, Any]) -> list[str]:
    """Write the pictures of a figure and add them to its page; return their paths, or the reason why there are none."""
    from holdfast.experiments.render import markdown
    from holdfast.files import write_text
    from holdfast.report.plots import check_plots
    from holdfast.report.reproduced import write_pictures

    if result["protocol"]["figure"] is None:
        return []
    try:
        check_plots(path.parent)
    except UserError:
        return ["no picture: drawing needs matplotlib: pip install 'holdfast[report]'"]
    written = write_pictures(path, result)
    write_text(path.with_suffix(".md"), markdown(result, [file.name for file in written if file.suffix == ".svg"]))
    return [str(picture) for picture in written] or ["no picture: nothing to draw was measured"]


def _differences(result: dict[str, Any]) -> Table | None:
    from holdfast.experiments.render import differences_laid_out, differences_title

    header, lines = differences_laid_out(result)
    labels = len(result["results"][0]["labels"])
    return table(header, lines, title=differences_title(result), right=header[labels:]) if lines else None


def _table(result: dict[str, Any]) -> Table:
    from holdfast.experiments.render import laid_out

    header, lines = laid_out(result)
    labels = len(result["results"][0]["labels"])
    title = f"{result['protocol']['title']}: ours (published, difference)"
    return table(header, lines, title=title, right=header[labels:])
