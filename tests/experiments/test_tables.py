"""The tables and figures that come with holdfast: planned at every scale with a tiny model, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.attacks.resource_names import ResourceNames
from holdfast.experiments import cell_planning, input_hashes, preparation, reproduction
from holdfast.experiments.baseline_values import baselines
from holdfast.experiments.cells import Cell
from holdfast.experiments.definition import SCALES, known_tables, read_definition
from holdfast.experiments.markup import markdown_table
from holdfast.experiments.render import published_of
from holdfast.experiments.scales import read_scale
from holdfast.objectives import L2PCSR
from holdfast.training.method_options import option_defaults

Plan = Callable[..., dict[tuple[str, str], Cell | str]]

# Why cells are not planned, where that is meant.
KNOWN_REASONS = (
    "quoted: ",
    "the neighbour lists are not here",
    "back-translations need two translation models",
)


@pytest.fixture
def plan(tmp_path: Path, make_masked_lm: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Plan:
    """``plan(table, scale)``: the cell of each row and column, every model being a tiny one."""
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    model = make_masked_lm(tmp_path / "tiny", layers=3)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a dog runs\n")
    lists = tmp_path / "near.tsv"
    lists.write_text("word\tneighbors\ndog\tcat\n")
    monkeypatch.setattr(input_hashes, "resolve_model", lambda name: model)

    def planned(table: str, scale: str) -> dict[tuple[str, str], Cell | str]:
        known = read_scale(scale)
        given = (known.model or str(model), known.corpus or str(corpus))
        resources = ResourceNames(str(lists), "wordnet", "textblob", str(model), str(model))
        setting = cell_planning.Setting(*given, None, resources, known.tasks, known.stages, corpus)
        settings = preparation.ReproduceSettings(table, scale, tmp_path)
        entries = preparation.planned_entries(read_definition(table, scale), cell_planning.Planner(setting), settings)
        return {(entry.row.name, entry.column): entry.cells[0] for entry in entries}

    return planned


@pytest.mark.parametrize("scale", SCALES)
def test_every_table_and_figure_plans(plan: Plan, scale: str) -> None:
    for table in known_tables():
        cells = plan(table, scale)
        assert cells, table
        reasons = {cell for cell in cells.values() if isinstance(cell, str)}
        assert all(reason.startswith(KNOWN_REASONS) for reason in reasons), (table, reasons)
        assert any(isinstance(cell, Cell) for cell in cells.values()), table


def encoder_of(cell: Cell | str) -> Cell:
    assert isinstance(cell, Cell)
    return next(needed for needed in cell.needed() if needed.kind == "encoder")


def test_one_simcse_serves_all_tables(plan: Plan) -> None:
    places = {
        "v-advcse/table1": ("SimCSE-BERT", "STS12"),
        "v-advcse/table2": ("SimCSE-BERT", "MR"),
        "v-advcse/table3": ("SimCSE-BERT", "Dev R1"),
        "v-advcse/table4": ("SimCSE w/o BatchNorm", "STS-B"),
        "robustembed/table1": ("BERT-base SimCSE", "STS-B"),
        "robustembed/table2": ("BERT-base SimCSE", "MR"),
        "robustembed/table3": ("TextFooler SimCSE", "SST2"),
        "robustembed/table4": ("TextFooler SimCSE", "AdvSTS-B"),
        "robustembed/figure3": ("SimCSE", "alignment"),
        "adcse/table1": ("SimCSE-BERT", "STS12"),
        "adcse/table3": ("SimCSE", "potato (5.00)"),
        "adcse/figure3": ("SimCSE", "STS"),
        "adcse/figure4": ("SimCSE", "batch 64"),
        "l2p-csr/table1": ("BERT-base +SimCSE", "STS12"),
        "l2p-csr/table2": ("BERT-base +SimCSE", "MR"),
        "holdfast/pretraining": ("SST-2 SimCSE", "Acc."),
    }
    longer = {  # at the scale small 1,000 steps
        "v-advcse/table2": places.pop("v-advcse/table2"),
        "robustembed/table2": places.pop("robustembed/table2"),
        "robustembed/figure3": places.pop("robustembed/figure3"),
        "adcse/figure3": places.pop("adcse/figure3"),
        "holdfast/similarity": ("SimCSE", "STS"),
    }
    for scale, tables in (("small", places), ("small", longer), ("paper", {**places, **longer})):
        keys = {table: encoder_of(plan(table, scale)[place]).key for table, place in tables.items()}
        assert len(set(keys.values())) == 1, (scale, keys)


def test_tables_share_evaluations_classifiers_and_attacks(plan: Plan) -> None:
    def key(table: str, row: str, column: str, scale: str = "small") -> str:
        cell = plan(table, scale)[row, column]
        assert isinstance(cell, Cell)
        return cell.key

    sts = key("robustembed/table1", "BERT-base RobustEmbed", "STS12")
    assert key("robustembed/table1", "BERT-base RobustEmbed", "STS-B") == sts  # a row is one evaluation
    assert key("robustembed/table5", "L∞", "Correlation") == sts
    assert key("robustembed/table6", "0.5", "Correlation") == sts
    assert key("robustembed/table8", "1/128", "STS") == sts
    assert key("robustembed/figure4", "1e-3", "α 1e-5") == sts
    assert key("robustembed/figure5", "RobustEmbed", "N 5") == sts
    assert key("robustembed/table8", "1/128", "SST2") == key("robustembed/table3", "TextFooler RobustEmbed", "SST2")
    assert key("robustembed/figure2", "PWWS USCAL", "queries") == key("robustembed/table3", "PWWS USCAL", "SST2")
    adcse = key("adcse/table1", "AdCSE-BERT", "STS12")
    assert key("adcse/table2", "AdCSE", "STS12") == key("adcse/figure4", "AdCSE", "batch 64") == adcse
    assert key("l2p-csr/figure2", "STS-B", "φ 0.05") == key("l2p-csr/table3", "Ours", "STS-B", "small")
    for scale in SCALES:
        assert key("adcl/table4", "AG", "ADCL+ADV δ", scale) == key("adcl/figure3", "ADCL + ADV", "d_pos", scale)
        adv = plan("adcl/table1", scale)["AG ADCL ADV", "Acc."]
        within = plan("adcl/table4", scale)["AG", "ADCL+ADV d_pos"]
        assert isinstance(adv, Cell)
        assert isinstance(within, Cell)
        assert within.inputs["within"].key == adv.key
        assert within.inputs["texts"].inputs["victim"].key == key("adcl/table1", "AG NP FTC", "Acc.", scale)
        # Below paper scale table 1 has a shorter queue, as short as the runs are.
        in_table_6 = key("adcl/table6", "32768", "Success", scale)
        assert (in_table_6 == key("adcl/table1", "AG ADCL FTC", "Geometry", scale)) == (scale == "paper")
        adversarial = f"{'TREC' if scale == 'small' else 'AG'} NP ADV"
        assert key("adcl/table8", "On-the-fly", "PWWS", scale) == key("adcl/table1", adversarial, "PWWS", scale)
        in_domain = key("adcl/table2", "AG in-domain ADCL", "PWWS", scale)
        assert in_domain == key("adcl/table1", "AG ADCL FTC", "PWWS", scale)


def test_l2p_csr_has_the_paper_s_step_at_paper_scale_alone(plan: Plan) -> None:
    for table, place in {
        "l2p-csr/table1": ("BERT-base +Ours", "STS12"),
        "l2p-csr/table2": ("BERT-base +Ours", "MR"),
        "l2p-csr/table3": ("w/o token mask", "STS-B"),
        "l2p-csr/figure2": ("STS-B", "φ 0.2"),
    }.items():
        sizes = [encoder_of(plan(table, scale)[place]).settings["options"]["step_size"] for scale in ("small", "paper")]
        assert sizes == [option_defaults(L2PCSR)["step_size"], 0.5], table


def test_simcse_is_compared_with_l2p_csr_at_equal_steps(plan: Plan) -> None:
    for scale in ("small", "paper"):
        cells = plan("l2p-csr/table1", scale)
        ours, simcse = (
            encoder_of(cells[f"BERT-base {row}", "STS12"]).settings for row in ("+Ours", "+SimCSE, steps of Ours")
        )
        for name in ("batch_size", "max_steps", "eval_steps", "learning_rate", "corpus"):
            assert ours[name] == simcse[name], (scale, name)


def test_adcl_has_the_papers_head_at_paper_scale_alone(plan: Plan) -> None:
    places = {
        "adcl/table1": ("AG ADCL FTC", "Acc."),
        "adcl/table3": ("AG PWWS", "ADCL → NP"),
        "adcl/figure3": ("ADCL + FTC", "d_pos"),
        "adcl/table9": ("ADCL", "film"),
        "holdfast/frontier": ("ADCL", "STS"),
        "holdfast/pretraining": ("SST-2 ADCL", "Acc."),
    }
    for table, place in places.items():
        paper, small = (encoder_of(plan(table, scale)[place]).settings["options"] for scale in ("paper", "small"))
        names = ("projection", "normalize", "queue_size")
        assert [paper[name] for name in names] == ["mlp", False, 32768], table
        assert [small[name] for name in names] == ["linear", True, 25600 // 8], table


def test_pre_generated_texts_are_of_the_attack_that_is_made_on_the_fly(plan: Plan) -> None:
    for scale in SCALES:
        cells = plan("adcl/table8", scale)
        attacks = [cells[row, "PWWS"] for row in ("Pre-generated", "On-the-fly")]
        assert all(isinstance(cell, Cell) for cell in attacks), attacks
        before, during = (cell.inputs["victim"] for cell in attacks if isinstance(cell, Cell))
        attack, adv = before.inputs["texts"].settings, during.settings["options"]
        assert attack["recipe"] == "geometry"
        constants = attack["constants"]
        assert (constants["max_share"], constants["max_words"]) == (adv["max_share"], adv["iterations"])
        assert (constants["candidates"], constants["source"]) == (adv["candidates"], adv["source"])
        assert constants["minimum_cosine"] == adv["min_similarity"]


def test_a_sweep_changes_one_option(plan: Plan) -> None:
    cells = plan("adcse/figure4", "small")
    at = {column: encoder_of(cells["AdCSE", column]).settings for column in ("batch 32", "batch 64", "τ 0.01")}
    changed = [name for name, value in at["batch 64"].items() if at["batch 32"][name] != value]
    assert sorted(changed) == ["batch_size", "eval_steps", "max_steps", "options"]  # the sentences stay: fewer steps
    assert at["batch 32"]["options"]["negatives"] == 32
    assert at["batch 64"]["options"]["negatives"] == 64
    options, others = at["batch 64"]["options"], at["τ 0.01"]["options"]
    assert {name for name in options if options[name] != others[name]} == {"temperature"}


def listing() -> str:
    """Return the tables and figures that come with holdfast as Markdown."""
    header = ("name", "content", "source", "rows × columns")
    rows = [
        (f"`{t['table']}`", t["title"], t["source"], f"{t['rows']} × {t['columns']}")
        for t in reproduction.describe_tables()
    ]
    return "\n".join(markdown_table(header, rows, left=range(4))) + "\n"


def test_the_page_lists_what_there_is() -> None:
    """Paste what `listing()` returns into docs/reproduce.md where this fails."""
    page = Path(__file__).parents[2] / "docs" / "reproduce.md"
    assert listing() in page.read_text(encoding="utf-8")


def test_holdfasts_own_tables_compare_every_row_with_a_baseline_at_every_scale() -> None:
    """Of the rows, those of a baseline stay: one, or one for each data set."""
    for scale in SCALES:
        for table, count in (
            ("holdfast/defences", 1),
            ("holdfast/frontier", 1),
            ("holdfast/pretraining", None),
        ):
            definition = read_definition(table, scale)
            assert definition.against is not None
            rows = {row.name: row.labels for row in definition.rows}
            partners = baselines(rows, ["a"], definition.against)
            sets = count or len({labels["data"] for labels in rows.values()})
            assert len(partners) == len(rows) - sets, (table, scale)


@pytest.mark.parametrize(
    ("mean", "message"), [(69.96, "70.0, +0.0"), (70.04, "70.0, +0.0"), (69.94, "70.0, −0.1"), (-1.0, "70.0, −71.0")]
)
def test_a_difference_that_rounds_to_nothing_has_no_minus(mean: float, message: str) -> None:
    assert published_of({"published": 70.0, "digits": 1, "metrics": {"mean": mean}}) == message
