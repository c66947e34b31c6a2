"""The demo of the methods from end to end with a small random masked language model, and its measurements by hand."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from holdfast.cli import main
from holdfast.cli.methods_summary import summary, verdict
from holdfast.demo.demo_sentences import load_pairs
from holdfast.demo.methods_run import run_methods_demo
from holdfast.demo.methods_settings import BEFORE, CLASSIFIERS, METHODS, MethodsDemoSettings
from holdfast.demo.methods_stages import MethodsStage, similarity_judge
from holdfast.demo.probe import HARD_KINDS, noise_metrics, spread
from holdfast.demo.reload import AGREES, reload_differences
from holdfast.errors import UserError
from holdfast.results import read_result


@pytest.fixture
def small(lm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MethodsDemoSettings:
    """A demo of two steps on eighty sentences."""
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    corpus = [pair.sentence1 for pair in load_pairs()[:80]]
    sizes = {"steps": 2, "batch_size": 8, "epochs": 1.0, "attacked": 3, "audited": 2}
    return MethodsDemoSettings(str(lm), tmp_path / "demo", corpus, **sizes)


@pytest.mark.slow
def test_the_demo_from_end_to_end(small: MethodsDemoSettings, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_methods_demo(small)
    assert result == read_result(small.file("demo.json"))
    rows = {(row["model"], row["task"], row["split"]): row["metrics"] for row in result["results"]}
    assert {key[0] for key in rows} == {BEFORE, *METHODS}
    assert len(rows) == 4 * 3
    for method in METHODS:
        assert result["reload_max_difference"][method] < AGREES
        assert rows[method, "demo-noise", "typos"] != rows[BEFORE, "demo-noise", "typos"]
    assert {(row["classifier"], row["recipe"]) for row in result["attacks"]} == {
        (name, recipe) for name in CLASSIFIERS for recipe in ("typos", "bertattack")
    }
    assert {name: len(verdicts) > 8 for name, verdicts in result["audits"].items()} == {BEFORE: True, METHODS[-1]: True}
    _check_files(small)
    _check_told(result, small)

    # A finished demo is not run again into its folder; one that was stopped goes on, and nothing is made twice.
    assert main(["demo", "--methods", "--output", str(small.output), "--model", small.model]) == 2
    message = capsys.readouterr().err
    lines = [
        line for line in message.splitlines() if not line.endswith(" s so far")
    ]  # signs of life, on a busy machine
    assert len(lines) == 1, message
    assert "is finished" in lines[0]
    made = [small.file(name) / "model.safetensors" for name in (*METHODS, *CLASSIFIERS)]
    made += [path for path in small.results if path.name != "demo.json"]
    before = [path.stat().st_mtime_ns for path in made]
    small.file("report.html").unlink()
    again = run_methods_demo(small)
    assert [path.stat().st_mtime_ns for path in made] == before
    assert (again["results"], again["attacks"]) == (result["results"], result["attacks"])
    assert small.file("report.html").is_file()


def _check_files(settings: MethodsDemoSettings) -> None:
    """Each part is an ordinary result, on the demo's own texts alone, and the page is made of all of them."""
    kinds = [read_result(path)["kind"] for path in settings.results]
    assert kinds == ["evaluate"] * 3 + ["train"] * 2 + ["finetune"] * 2 + ["attack"] * 2 + ["audit"] * 2 + ["demo"]
    attacked = [read_result(settings.attack_file(name)) for name in CLASSIFIERS]
    judges = {one["protocol"]["resources"]["similarity"] for one in attacked}
    assert len(judges) == 1, "both classifiers are attacked by the same rules"
    assert judges.pop().startswith(f"{settings.file('simcse')}@")
    assert {len(one["examples"]) for one in attacked} == {2 * settings.attacked}
    page = settings.file("report.html").read_text(encoding="utf-8")
    for wanted in ("The holdfast demo", "Report card of robustembed", "bertattack", "Loss and its terms", "δ"):
        assert wanted in page, wanted


def _check_told(result: dict[str, object], settings: MethodsDemoSettings) -> None:
    console = Console(width=120, file=io.StringIO())
    tables, text = summary(result)
    for table in tables:
        console.print(table)
    rows: list[dict[str, dict[str, float]]] = result["results"]  # type: ignore[assignment]
    message = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"{rows[0]['metrics']['spearman']:.1f}" in message
    assert "bertattack" in message
    assert "the same vectors" in text
    assert "were not trained to represent sentences" in text
    assert text.endswith(str(settings.file("report.html"))), "the report's path comes last"


def test_a_folder_with_anything_else_is_left_alone(small: MethodsDemoSettings) -> None:
    small.output.mkdir()
    (small.output / "python-prose.txt").write_text("my own")
    with pytest.raises(UserError, match="holds other files"):
        run_methods_demo(small)
    assert (small.output / "python-prose.txt").read_text() == "my own"
    file = MethodsDemoSettings(small.model, small.output / "python-prose.txt", small.corpus)
    with pytest.raises(UserError, match="is a file"):
        run_methods_demo(file)


def test_a_model_that_needs_more_than_sentence_transformers_is_told(
    lm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of what the other process says, in one line."""
    monkeypatch.setattr(
        "holdfast.demo.reload._RELOAD", "import sys; print('first\\nlast', file=sys.stderr); sys.exit(3)"
    )
    with pytest.raises(UserError) as message:
        reload_differences([lm], ["a dog"])
    assert str(message.value) == "lm could not be loaded without holdfast: exit code 3: first last"
    monkeypatch.setattr("holdfast.demo.reload._RELOAD", "raise ValueError('x' * 1000 + ' the end')")
    with pytest.raises(UserError, match=r"exit code 1: x+ the end$") as message:
        reload_differences([lm], ["a dog"])
    assert len(str(message.value)) < 500
    monkeypatch.setattr("holdfast.demo.reload._RELOAD", "import sys; sys.exit(1)")
    with pytest.raises(UserError, match="exit code 1: no error output"):
        reload_differences([lm], ["a dog"])


def test_without_a_masked_lm_the_attack_that_reads_one_is_left_out(lm: Path, tmp_path: Path) -> None:
    settings = MethodsDemoSettings(str(lm), tmp_path)
    stage = MethodsStage(settings, lm, Console(quiet=True), ("holdfast", "demo"))
    assert (stage.masked_lm, stage.recipes) == (str(lm), ("typos", "bertattack"))
    stage = MethodsStage(settings, tmp_path, Console(quiet=True), ("holdfast", "demo"))
    assert (stage.masked_lm, stage.recipes) == (None, ("typos",))


def test_the_judge_wants_a_cosine_half_way_to_other_sentences() -> None:
    similarity = {"results": [{"task": "demo-spread", "metrics": {"distance": 60.0}}]}  # cosines of 0.4
    assert similarity_judge(MethodsDemoSettings("lm", Path("out")), similarity) == "out/simcse@0.700"


def test_noise_metrics_by_hand() -> None:
    clean = np.array([[1, 0], [0, 2], [-3, 0]], dtype=np.float32)
    # The first copy has not moved, the second has turned by 45 degrees, the third lies nearest to the second.
    noisy = np.array([[5, 0], [-1, 1], [-1, 9]], dtype=np.float32)
    metrics = noise_metrics(clean, noisy)
    moved = [0, 1 - np.sqrt(0.5), 1 - 1 / np.sqrt(82)]
    assert metrics["movement"] == pytest.approx(100 * np.mean(moved))
    assert metrics["found"] in (pytest.approx(100 / 3), pytest.approx(200 / 3))  # 45 degrees is a tie


def test_spread_by_hand() -> None:
    vectors = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    apart = [1 - float(unit[i] @ unit[j]) for i in range(7) for j in range(7) if i != j]
    assert spread(vectors) == pytest.approx(100 * np.mean(apart), rel=1e-5)


def rows_of(model: str, similarity: float, moved: float) -> list[dict[str, object]]:
    subsets = {kind: {"spearman": similarity} for kind in ("ordinary", "hard")}
    rows: list[dict[str, object]] = [
        {"task": "demo-pairs", "split": "all", "metrics": {"spearman": similarity}, "subsets": subsets},
        {"task": "demo-spread", "split": "all", "metrics": {"distance": 90.0}},
    ]
    for kind in ("typing", "typos"):
        rows.append({"task": "demo-noise", "split": kind, "metrics": {"movement": moved, "found": 99.0}})
    return [{"model": model, **row} for row in rows]


@pytest.mark.parametrize(
    ("similarity", "moved", "quality", "noise"),
    [
        (70.5, 20.9, "is about the same (+0.5)", "moves vectors about as far (+0.9)"),
        (68.0, 18.0, "is lower (-2.0)", "moves vectors less (-2.0)"),
        (72.0, 22.0, "is higher (+2.0)", "moves vectors more (+2.0)"),
    ],
)
def test_the_verdict_says_what_the_numbers_say(similarity: float, moved: float, quality: str, noise: str) -> None:
    rows = [*rows_of("before", 70.0, 20.0), *rows_of("simcse", similarity, moved)]
    assert verdict(rows, "simcse") == [
        f"similarity {quality}",
        f"similarity of the hard pairs {quality}",
        f"typing noise {noise}",
        f"typos noise {noise}",
    ]


def test_every_pair_is_hard_or_ordinary() -> None:
    kinds = {pair.kind for pair in load_pairs()}
    assert kinds > HARD_KINDS
