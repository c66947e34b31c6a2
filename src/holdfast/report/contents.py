"""The contents of a report: its sections in their order, each only if there is something to show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any

from holdfast.report import audit_figures, figures, tables, training
from holdfast.report.cards import VERDICTS, audit_cards, hardening_table
from holdfast.report.demo_tables import demo_tables, is_demo
from holdfast.report.elements import Block, Card, Figure, Section, Table, colour
from holdfast.report.examples import ShownExamples, collect_examples
from holdfast.report.model_scores import Score, Scores, collect, with_average
from holdfast.report.poisoning import is_poisoning, poisoning_charts, poisoning_tables
from holdfast.report.reproduced import reproduced_charts
from holdfast.report.result_sources import OF_SEVERAL, ReportSource, models_of
from holdfast.report.retrieval import retrieval_bars, retrieval_sources, retrieval_tables
from holdfast.runs.run_log import TRAININGS, number_of

_KNOWN = (
    *("evaluate", "train", "baseline", "attack", "audit", "finetune", "space", "compare", "harden", "transfer"),
    "reproduce",
)
_WORDS = dict(zip(VERDICTS, ("hold", "bend", "break", "have too few texts", "could not be measured"), strict=True))


@dataclass(frozen=True)
class Contents:
    """The contents of a report, before it is rendered as a page: a card and a colour for each model, and sections."""

    sources: tuple[ReportSource, ...]
    cards: tuple[Card, ...]
    sections: tuple[Section, ...]
    examples: ShownExamples
    colours: dict[str, str]

    @property
    def tables(self) -> list[Table]:
        """All tables."""
        return [table for section in self.sections for table in section.tables]

    @property
    def figures(self) -> list[Figure]:
        """All figures."""
        return [figure for section in self.sections for figure in section.figures]


def make_contents(sources: Sequence[ReportSource], *, examples: int) -> Contents:
    """Collect everything that the results have to show, with at most ``examples`` adversarial texts."""
    drawn = models_of(source for source in sources if source.kind in ("attack", "audit", *TRAININGS))
    drawn += models_of(retrieval_sources(sources))
    labels = models_of(sources)
    # There are few colours: models that figures draw in their colour come first.
    places = {label: place for place, label in enumerate(dict.fromkeys([*drawn, *labels]))}
    colours = {label: colour(places[label]) for label in labels}
    similarity, transfer = tables.similarity_scores(sources), tables.transfer_scores(sources)
    sections = (
        _demonstrated(sources),
        _measured(sources, similarity, transfer, colours),
        _retrieved(sources, colours),
        _attacked([source for source in sources if not is_poisoning(source)], colours),
        _poisoned(sources, colours),
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


def _filled(*found: Table | None) -> tuple[Table, ...]:
    return tuple(table for table in found if table is not None and table.rows and len(table.columns) > table.labels)


# --- sections ----------------------------------------------------------------------------------------------------


def _demonstrated(sources: Sequence[ReportSource]) -> Section:
    own = [Block(source.model, tables=_filled(*demo_tables(source))) for source in sources if is_demo(source)]
    note = "An encoder before and after its hardening. A small demonstration on texts of holdfast's authors."
    return Section("demo", "Before and after", note, _blocks(*own))


def _measured(
    sources: Sequence[ReportSource], similarity: Scores, transfer: Scores, colours: figures.Colours
) -> Section:
    chart = figures.space_chart(tables.space_scores(sources), similarity, colours)
    blocks = _blocks(
        Block(tables=_filled(tables.similarity_table(similarity))),
        Block(tables=_filled(tables.transfer_table(transfer))),
        Block(tables=_filled(tables.mteb_table(tables.mteb_scores(sources)))),
        Block(tables=_filled(*tables.classifier_tables(sources))),
        Block(
            tables=_filled(tables.space_table(sources), tables.distance_table(sources)),
            figures=(*((chart,) if chart else ()), *figures.pairs_charts(sources)),
        ),
    )
    return Section("quality", "Quality and space", "", blocks)


def _retrieved(sources: Sequence[ReportSource], colours: figures.Colours) -> Section:
    note = "Clean queries, and the same questions mistyped, dictated or translated."
    block = Block(figures=tuple(retrieval_bars(sources, colours)), tables=_filled(*retrieval_tables(sources)))
    return Section("retrieval", "Retrieval under noise", note, _blocks(block))


def _attacked(sources: Sequence[ReportSource], colours: figures.Colours) -> Section:
    note = "Success rates of word-level attacks, and their costs."
    drawn: list[Figure] = [*figures.success_bars(sources, colours), *figures.queries_charts(sources, colours)]
    crossed = [tables.transferability_table(source) for source in sources if source.kind == "transfer"]
    blocks = _blocks(
        Block(figures=tuple(drawn), tables=_filled(tables.attack_table(sources))), Block(tables=_filled(*crossed))
    )
    return Section("attacks", "Attacks", note, blocks)


def _poisoned(sources: Sequence[ReportSource], colours: figures.Colours) -> Section:
    note = "Passages that are made to be near many queries, measured on queries that they were not made for."
    block = Block(figures=tuple(poisoning_charts(sources, colours)), tables=_filled(*poisoning_tables(sources)))
    return Section("poisoning", "Poisoning of a corpus", note, _blocks(block))


def _audited(sources: Sequence[ReportSource], colours: figures.Colours) -> Section:
    audits = [source for source in sources if source.kind == "audit"]
    drawn = (
        audit_figures.sides_chart(audits, colours),
        audit_figures.noise_bars(audits, colours),
        figures.audit_bars(audits, colours),
    )
    blocks = _blocks(
        *(Block(source.label, _counted(source), tables=audit_cards(source)) for source in audits),
        Block(figures=tuple(figure for figure in drawn if figure is not None)),
    )
    note = "Effect of small changes of a text on its vector. The verdicts (holds, bends, breaks) have the same "
    return Section("audit", "Report cards", note + "thresholds for every model; the protocol lists them.", blocks)


def _counted(source: ReportSource) -> str:
    counts = _verdicts(source)
    return ", ".join(f"{counts[verdict]} {words}" for verdict, words in _WORDS.items() if counts[verdict])


def _verdicts(source: ReportSource) -> Counter[str]:
    return Counter(str(row["verdict"]) for row in source.rows)


def _compared(sources: Sequence[ReportSource]) -> Section:
    makers = {"compare": tables.comparison_table, "harden": hardening_table}
    own = [makers[source.kind](source) for source in sources if source.kind in makers and source.rows]
    return Section("comparison", "Comparison", "", _blocks(Block(tables=_filled(*own))))


def _reproduced(sources: Sequence[ReportSource]) -> Section:
    own = [source for source in sources if source.kind == "reproduce" and source.rows]
    blocks = (
        Block(
            tables=_filled(tables.reproduced_table(source), tables.differences_table(source)),
            figures=tuple(reproduced_charts(source)),
        )
        for source in own
    )
    return Section("reproduced", "Tables and figures of the papers", "", _blocks(*blocks))


def _trained(sources: Sequence[ReportSource], colours: figures.Colours) -> Section:
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


def _run(source: ReportSource) -> Block:
    own = source.protocol
    facts = [str(own[key]) for key in ("method", "defence", "task") if own.get(key)]
    seed = source.result["seed"]
    facts += [] if seed is None else [f"seed {seed}"]
    found = training.flags(source)
    return Block(source.label, ", ".join(facts), figures=tuple(training.run_charts(source)), flags=tuple(found))


def _others(sources: Sequence[ReportSource]) -> Section:
    others = [source for source in sources if source.kind not in _KNOWN and not is_demo(source)]
    own = [tables.check_table(each) if each.kind == "check" else tables.other_table(each) for each in others]
    return Section("more", "Other measurements", "", _blocks(Block(tables=_filled(*own))))


# --- cards -------------------------------------------------------------------------------------------------------


def _card(label: str, sources: Sequence[ReportSource], similarity: Scores, transfer: Scores) -> Card:
    own = [source for source in sources if source.label == label and source.kind not in OF_SEVERAL]
    averages = {name: scores.get(label, {}) for name, scores in (("STS", similarity), ("transfer", transfer))}
    facts = {
        f"{name} average": _with_spread(scores[tables.AVERAGE], 2)
        for name, scores in averages.items()
        if tables.AVERAGE in scores
    }
    facts |= _attack_facts(label, own) | _classifier_facts(label, own) | _space_facts(label, own)
    facts |= _training_facts(own) | _audit_facts(own)
    return Card(label, own[0].model, tuple(facts.items()))


def _with_spread(score: Score, digits: int) -> str:
    """Format a score with its spread over seeds; only the tables show the interval of a single one."""
    spread = "" if score.std is None else f" ± {score.std:.{digits}f}"
    return f"{score.mean:.{digits}f}{spread}"


def _attack_facts(label: str, own: Sequence[ReportSource]) -> dict[str, str]:
    attacks = [source for source in own if source.kind == "attack"]
    facts: dict[str, str] = {}
    for task in dict.fromkeys(tables.task_of(row) for source in attacks for row in source.rows):
        recipes = collect(attacks, partial(_recipe_on, task), "success_rate").get(label)
        if recipes and "auto" in recipes:  # the worst case over the others
            recipes = {"auto": recipes["auto"]}
        facts |= _success_facts(f"attack success on {task}", recipes) if recipes else {}
    return facts


def _recipe_on(task: str, row: Mapping[str, Any]) -> str | None:
    return str(row.get("recipe", "–")) if tables.task_of(row) == task else None


def _success_facts(name: str, recipes: dict[str, Score]) -> dict[str, str]:
    """Return the mean over recipes, or each recipe by itself if they have different numbers of seeds."""
    joined = with_average({name: recipes}, "", tuple(recipes))[name].get("")
    if joined is None:
        return {f"{name}, {recipe}": f"{_with_spread(score, 1)}\u00a0%" for recipe, score in recipes.items()}
    several = f", mean of {len(recipes)} recipes" if len(recipes) > 1 else ""
    several = ", worst case of all recipes" if [*recipes] == ["auto"] else several
    return {name + several: f"{_with_spread(joined, 1)}\u00a0%"}


def _classifier_facts(label: str, own: Iterable[ReportSource]) -> dict[str, str]:
    scores = collect((source for source in own if source.kind == "finetune"), tables.task_of, "accuracy")
    return {f"{task} accuracy": _with_spread(score, 1) for task, score in scores.get(label, {}).items()}


def _space_facts(label: str, own: Sequence[ReportSource]) -> dict[str, str]:
    scores = tables.space_scores(own).get(label, {})
    return {name: _with_spread(scores[name], 3) for name in ("alignment", "uniformity") if name in scores}


def _training_facts(own: Iterable[ReportSource]) -> dict[str, str]:
    trained = [source for source in own if source.kind == "train"]
    methods = dict.fromkeys(str(source.protocol["method"]) for source in trained if source.protocol.get("method"))
    selected = [source.result.get("selected") for source in trained]
    scores = [number_of(one.get("score")) for one in selected if isinstance(one, dict)]
    known = tuple(score for score in scores if score is not None)
    facts = {"method": ", ".join(methods)} if methods else {}
    return facts | ({"dev score": _with_spread(Score(known), 2)} if known else {})


def _audit_facts(own: Iterable[ReportSource]) -> dict[str, str]:
    """Count the items of the audit that hold, bend and break; for several seeds, return the mean of each count."""
    by_group: dict[int, list[Counter[str]]] = {}
    for source in own:
        if source.kind == "audit":
            by_group.setdefault(source.group, []).append(_verdicts(source))
    # Results of different groups are parts of one audit; results of one group are its seeds.
    seeds = [sum(filter(None, parts), Counter[str]()) for parts in zip_longest(*by_group.values())]
    if not seeds:
        return {}
    counts = {verdict: Score(tuple(float(seed[verdict]) for seed in seeds)) for verdict in VERDICTS}
    digits = int(len(seeds) > 1)
    parts = [f"{_with_spread(score, digits)} {_WORDS[verdict]}" for verdict, score in counts.items() if score.mean]
    return {"audit": ", ".join(parts)}
