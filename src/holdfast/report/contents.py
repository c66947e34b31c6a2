"""What a report holds: its sections in their order, each only where there is something to show."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.report import figures, tables, training
from holdfast.report.cards import VERDICTS, audit_card, hardening_table
from holdfast.report.examples import Examples, collect_examples
from holdfast.report.parts import Block, Card, Figure, Section, Table, colour
from holdfast.report.reproduced import reproduced_charts
from holdfast.report.scores import Scores
from holdfast.report.sources import OF_SEVERAL, Source, models_of
from holdfast.training.log import TRAININGS

_KNOWN = (
    *("evaluate", "train", "baseline", "attack", "audit", "finetune", "space", "compare", "harden", "transfer"),
    "reproduce",
)


@dataclass(frozen=True)
class Contents:
    """A report before it is a page.

    Attributes:
        sources: its results.
        cards: a card for each model.
        sections: tables and figures.
        examples: adversarial texts.
        colours: of each model.
    """

    sources: tuple[Source, ...]
    cards: tuple[Card, ...]
    sections: tuple[Section, ...]
    examples: Examples
    colours: dict[str, str]

    @property
    def tables(self) -> list[Table]:
        """All tables."""
        return [table for section in self.sections for table in section.tables]

    @property
    def figures(self) -> list[Figure]:
        """All figures."""
        return [figure for section in self.sections for figure in section.figures]


def make_contents(sources: Sequence[Source], *, examples: int) -> Contents:
    """Everything that the results have to show.

    Args:
        sources: the results.
        examples: how many adversarial texts at most.
    """
    drawn = models_of(source for source in sources if source.kind in ("attack", "audit", *TRAININGS))
    labels = models_of(sources)
    # The colours are few: models that figures draw by their colour come first.
    places = {label: place for place, label in enumerate(dict.fromkeys([*drawn, *labels]))}
    colours = {label: colour(places[label]) for label in labels}
    similarity, transfer = tables.similarity_scores(sources), tables.transfer_scores(sources)
    sections = (
        _measured(sources, similarity, transfer, colours),
        _attacked(sources, colours),
        _audited(sources, colours),
        _compared(sources),
        _reproduced(sources),
        _trained(sources, colours),
        _others(sources),
    )
    return Contents(
        sources=tuple(sources),
        cards=tuple(_card(label, sources, similarity, transfer) for label in colours),
        sections=tuple(section for section in sections if section.blocks),
        examples=collect_examples(sources, examples),
        colours=colours,
    )


def _blocks(*blocks: Block) -> tuple[Block, ...]:
    return tuple(block for block in blocks if block.tables or block.figures or block.flags)


def _there(*found: Table | None) -> tuple[Table, ...]:
    return tuple(table for table in found if table is not None and table.rows and len(table.columns) > table.labels)


# --- sections ----------------------------------------------------------------------------------------------------


def _measured(sources: Sequence[Source], similarity: Scores, transfer: Scores, colours: figures.Colours) -> Section:
    chart = figures.space_chart(tables.space_scores(sources), similarity, colours)
    blocks = _blocks(
        Block(tables=_there(tables.similarity_table(similarity))),
        Block(tables=_there(tables.transfer_table(transfer))),
        Block(tables=_there(*tables.classifier_tables(sources))),
        Block(
            tables=_there(tables.space_table(sources), tables.distance_table(sources)),
            figures=(*((chart,) if chart else ()), *figures.pairs_charts(sources)),
        ),
    )
    return Section("quality", "Quality and space", "", blocks)


def _attacked(sources: Sequence[Source], colours: figures.Colours) -> Section:
    note = "How often word-level attacks reach their goal, at what price."
    drawn: list[Figure] = [*figures.success_bars(sources, colours), *figures.queries_charts(sources, colours)]
    crossed = [tables.transferability_table(source) for source in sources if source.kind == "transfer"]
    blocks = _blocks(
        Block(figures=tuple(drawn), tables=_there(tables.attack_table(sources))), Block(tables=_there(*crossed))
    )
    return Section("attacks", "Attacks", note, blocks)


def _audited(sources: Sequence[Source], colours: figures.Colours) -> Section:
    audits = [source for source in sources if source.kind == "audit"]
    bars = figures.audit_bars(audits, colours)
    blocks = _blocks(
        *(Block(source.label, _counted(source), tables=(audit_card(source),)) for source in audits),
        Block(figures=(bars,) if bars else ()),
    )
    note = "What small changes of a text do to its vector. Holds, bends, breaks: against thresholds that are the same "
    return Section("audit", "Report cards", note + "for every model and stand in the protocol.", blocks)


def _counted(source: Source) -> str:
    counts = {verdict: sum(row["verdict"] == verdict for row in source.rows) for verdict in VERDICTS}
    words = {"holds": "hold", "bends": "bend", "breaks": "break", "absent": "could not be measured"}
    return ", ".join(f"{count} {words[verdict]}" for verdict, count in counts.items() if count)


def _compared(sources: Sequence[Source]) -> Section:
    makers = {"compare": tables.comparison_table, "harden": hardening_table}
    own = [makers[source.kind](source) for source in sources if source.kind in makers and source.rows]
    return Section("comparison", "Comparison", "", _blocks(Block(tables=_there(*own))))


def _reproduced(sources: Sequence[Source]) -> Section:
    own = [source for source in sources if source.kind == "reproduce" and source.rows]
    blocks = (
        Block(tables=_there(tables.reproduced_table(source)), figures=tuple(reproduced_charts(source)))
        for source in own
    )
    return Section("reproduced", "Tables and figures of the papers", "", _blocks(*blocks))


def _trained(sources: Sequence[Source], colours: figures.Colours) -> Section:
    runs = [source for source in sources if source.kind in TRAININGS]
    steps = figures.step_bars(sources, colours)
    blocks = _blocks(
        Block(figures=tuple(training.dev_charts(runs, colours))),
        *(_run(source) for source in runs),
        Block(figures=(steps,) if steps else ()),
    )
    without = [source.path.name for source in runs if not source.log]
    note = "From the log beside each result."
    if without:
        note += f" Without a log (metrics.jsonl), and so without curves: {', '.join(without)}."
    return Section("training", "Training", note, blocks)


def _run(source: Source) -> Block:
    own = source.protocol
    facts = [str(own[key]) for key in ("method", "defence", "task") if own.get(key)]
    seed = source.result["seed"]
    facts += [] if seed is None else [f"seed {seed}"]
    found = training.flags(source)
    return Block(source.label, ", ".join(facts), figures=tuple(training.run_charts(source)), flags=tuple(found))


def _others(sources: Sequence[Source]) -> Section:
    own = [tables.other_table(source) for source in sources if source.kind not in _KNOWN]
    return Section("more", "Other measurements", "", _blocks(Block(tables=_there(*own))))


# --- cards -------------------------------------------------------------------------------------------------------


def _card(label: str, sources: Sequence[Source], similarity: Scores, transfer: Scores) -> Card:
    own = [source for source in sources if source.label == label and source.kind not in OF_SEVERAL]
    facts: dict[str, str] = {}
    for name, scores in (("STS", similarity), ("transfer", transfer)):
        score = scores.get(label, {}).get(tables.AVERAGE)
        if score is not None:
            cell = score.cell()
            facts[f"{name} average"] = f"{cell.text} {cell.detail if score.std is not None else ''}".strip()
    rates = [
        row["metrics"]["success_rate"]
        for source in own
        if source.kind == "attack"
        for row in source.rows
        if "success_rate" in row["metrics"]
    ]
    if rates:
        several = f", mean of {len(rates)}" if len(rates) > 1 else ""
        facts[f"attack success{several}"] = f"{statistics.fmean(rates):.1f}\u00a0%"
    for source in own:
        facts |= _facts(source)
    return Card(label, own[0].model, tuple(facts.items()))


def _facts(source: Source) -> dict[str, str]:
    if source.kind == "audit":
        return {"audit": _counted(source)}
    if source.kind in ("finetune", "evaluate"):
        facts = {
            f"{row['task']} accuracy": f"{row['metrics']['accuracy']:.1f}"
            for row in source.rows
            if source.kind == "finetune" and "accuracy" in row["metrics"]
        }
        space = {
            name: f"{row['metrics'][name]:.3f}"
            for row in source.rows
            if row["task"] == "space"
            for name in ("alignment", "uniformity")
            if name in row["metrics"]
        }
        return facts | space
    if source.kind == "train":
        selected = source.result.get("selected")
        score = selected.get("score") if isinstance(selected, dict) else None
        facts = {"method": str(source.protocol["method"])} if source.protocol.get("method") else {}
        return facts | ({"dev score": f"{score:.2f}"} if isinstance(score, float) else {})
    return {}
