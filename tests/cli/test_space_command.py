"""``holdfast space``: from a result's texts to numbers, points and a picture, and mistakes in one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.cli import main
from holdfast.evaluation.adversarial_space import pair_distances
from holdfast.models import load_sentence_transformer
from holdfast.results import new_result, read_result, write_result

CLEAN = ["the old man sleeps", "a dog runs in the park", "the woman sings", "a cat eats", "child plays on the bed"]
ADVERSARIAL = [
    "the red man sleeps",
    "a dog sings in the park",
    "the woman runs",
    "a cat plays",
    "child eats on the bed",
]


@pytest.fixture
def here(tmp_path: Path, masked_lm: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the model `lm`, the result `attack.json` and STS-B dev in `data`."""
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lm").symlink_to(masked_lm)
    examples = [
        {"number": i, "recipe": recipe, "outcome": "succeeded", "original": a, "adversarial": b, "label": i % 2}
        for recipe in ("typos", "pwws")
        for i, (a, b) in enumerate(zip(CLEAN, ADVERSARIAL, strict=True))
    ]
    examples[-1]["outcome"] = "failed"
    result = new_result("attack", model="victim", identity={"model_sha256": "0" * 64}, protocol={}, seed=1)
    write_result(tmp_path / "attack.json", {**result, "examples": examples})
    (tmp_path / "data" / "stsb").mkdir(parents=True)
    rows = [f"{a}\t{b}\t{4 + i % 2}\n" for i, (a, b) in enumerate(zip(CLEAN, ADVERSARIAL, strict=True))]
    (tmp_path / "data" / "stsb" / "dev.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(rows))
    return tmp_path


def test_the_shape_and_the_distances_of_each_recipe(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["space", "lm", "--data", "data", "--attacked", "attack.json", "--output", "space.json"]
    assert main(words) == 0
    message = capsys.readouterr().out
    result = read_result(here / "space.json")
    assert result["kind"] == "space"
    assert result["seed"] is None, "nothing was drawn"
    assert [row["task"] for row in result["results"]] == ["space", "space-attacked", "space-attacked"]
    shape, typos, pwws = result["results"]
    assert {"alignment", "uniformity", "anisotropy", "effective_rank"} <= set(shape["metrics"])
    assert (typos["n"], pwws["n"], pwws["left_out"]) == (5, 4, {"failed": 1})
    model = load_sentence_transformer("lm")
    distances = pair_distances(model.encode(CLEAN), model.encode(ADVERSARIAL))
    for name, value in distances.items():
        assert typos["metrics"][name] == pytest.approx(value, abs=1e-4)
        assert f"{value:.3f}"[:-1] in message
    assert result["protocol"]["attacked_model"] == "victim"
    assert len(result["protocol"]["attacked_sha256"]) == 64
    assert "effective rank" in message


def test_points_and_picture_of_one_recipe(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    words = ["space", "lm", "--attacked", "attack.json", "--recipe", "typos", "--no-stsb", "--pairs", "4"]
    words += ["--plot", "plane.svg", "--coordinates", "plane.json", "--json"]
    assert main(words) == 0
    result = json.loads(capsys.readouterr().out)
    assert [row["task"] for row in result["results"]] == ["space-attacked"]
    assert result["results"][0]["n"] == 5, "the numbers are of all pairs"
    assert result["seed"] == 42
    assert result["protocol"]["projection"] == {"method": "t-SNE", "perplexity": pytest.approx(7 / 3), "pairs": 4}
    plane = json.loads((here / "plane.json").read_text())
    assert (plane["model"], plane["recipe"], plane["n"]) == ("lm", "typos", 4)
    assert len(plane["points"]) == 8
    assert {"model": "lm", **result["coordinates"]} == plane, "the result holds the points too, for the report"
    assert "before and after typos, as lm sees them" in (here / "plane.svg").read_text()
    before = (here / "plane.json").read_text()
    assert main(words) == 0
    assert (here / "plane.json").read_text() == before
    assert main([*words, "--seed", "1"]) == 0
    assert (here / "plane.json").read_text() != before


def test_points_alone_need_no_matplotlib(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    words = ["space", "lm", "--attacked", "attack.json", "--recipe", "typos", "--no-stsb"]
    assert main([*words, "--coordinates", "plane.json"]) == 0
    assert len(json.loads((here / "plane.json").read_text())["points"]) == 10
    capsys.readouterr()
    assert main([*words, "--plot", "plane.png"]) == 2
    assert capsys.readouterr().err == "holdfast: --plot needs matplotlib: pip install 'holdfast[report]'\n"


MISTAKES = [
    ([], "model"),
    (["lm", "--plot", "a.png"], "--attacked"),
    (["lm", "--recipe", "typos"], "--attacked"),
    (["lm", "--item", "audit-typos"], "--attacked"),
    (["lm", "--no-stsb"], "--no-stsb"),
    (["lm", "--attacked", "nowhere.json"], "nowhere.json"),
    (["lm", "--attacked", "attack.json", "--recipe", "tpyos"], "'typos'"),
    (["lm", "--attacked", "attack.json", "--item", "audit-typos"], "no items"),
    (["lm", "--attacked", "attack.json", "--outcome", "al"], "'all'"),
    (["lm", "--attacked", "attack.json", "--plot", "a.png"], "there are typos, pwws"),
    (["lm", "--attacked", "attack.json", "--recipe", "pwws", "--plot", "a.gif"], ".svg"),
    (["lm", "--attacked", "attack.json", "--recipe", "pwws", "--plot", "a.png", "--perplexity", "9"], "1 to 2.333"),
    (["lm", "--attacked", "attack.json", "--recipe", "pwws", "--plot", "a.png", "--pairs", "1"], "from 2 to"),
    (["lm", "--attacked", "attack.json", "--pairs", "3"], "--plot"),
    (["lm", "--attacked", "attack.json", "--no-stsb", "--output", "data"], "folder"),
    (["lm", "--attacked", "attack.json", "--recipe", "pwws", "--coordinates", "data"], "folder"),
    (["lm", "--attacked", "attack.json", "--no-stsb", "--seed", "-1"], "--seed must be from 0 to 4294967295"),
    (["lm", "--attacked", "attack.json", "--recipe", "pwws", "--plot", "a.png", "--seed", "5000000000"], "--seed"),
    (["lm", "--precision", "fp16"], "fp32"),
    (["ml", "--data", "data"], "'lm'"),
    (["lm", "--data", "dta"], "dta"),
]


@pytest.mark.parametrize(("words", "named"), MISTAKES, ids=lambda value: " ".join(value) if type(value) is list else "")
def test_a_mistake_is_one_line(words: list[str], named: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["space", *words]) == 2
    message = capsys.readouterr()
    assert message.out == ""
    (line,) = [line for line in message.err.splitlines() if line.startswith("holdfast: ")]
    assert named in line
    assert not list(here.glob("a.*"))


def test_vectors_that_are_not_finite_are_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(model: Any, texts: Any, **_: Any) -> Any:
        return np.full((len(texts), 4), np.nan, dtype=np.float32)

    monkeypatch.setattr("holdfast.encoding.encode_sentences", broken)
    assert main(["space", "lm", "--attacked", "attack.json", "--no-stsb", "--output", "space.json"]) == 2
    assert "not finite" in capsys.readouterr().err
    assert not (here / "space.json").exists()


def test_a_classifier_of_pairs_is_refused(
    here: Path, make_masked_lm: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    config = json.loads((here / "lm" / "config.json").read_text())
    config |= {"architectures": ["BertForSequenceClassification"], "holdfast": {"task": "snli", "takes_pairs": True}}
    make_masked_lm(here / "nli")
    (here / "nli" / "config.json").write_text(json.dumps(config))
    assert main(["space", "nli", "--attacked", "attack.json", "--no-stsb"]) == 2
    assert "takes pairs of texts" in capsys.readouterr().err
