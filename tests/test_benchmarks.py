"""What the benchmarks' scripts share: claims, and the table of all of them."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SHARED = {"claims", "noiseqa_questions", "hardening_cells", "hardening_variants", "textattack_process"}
"""Modules that the scripts share."""


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_a_claim_is_met_by_the_median_of_its_values(tmp_path: Path) -> None:
    from claims import Claim, read, save

    claim = Claim("a / b", [1.0, 9.0, 4.0], at_least=3.5, floor="none")
    assert claim.value == 4.0
    assert claim.met
    assert not Claim("a / b", [1.0, 9.0, 4.0], at_least=3.5, at_most=3.9).met
    assert Claim("a", [2.0], at_most=2.0).met
    assert Claim("a", [2.0]).met is None
    assert Claim("a", [2.0], at_least=1.0, at_most=3.0).bound == "≥ 1 and ≤ 3"
    save(tmp_path / "claims.json", [claim], seconds={"a": [1.0]})
    assert read(tmp_path / "claims.json") == [claim]


def test_all_benchmarks_are_run_with_what_is_given_and_others_left_out() -> None:
    from claims import Claim
    from run_all import BENCHMARKS as ALL
    from run_all import row

    scripts = {path.stem for path in BENCHMARKS.glob("*.py")} - SHARED - {"run_all"}
    # These train for hours, or settle a choice once (what they found is in RESULTS.md), or print texts to be read.
    others = {
        "adv_defence",
        "adaptive_typos",
        "poison_transfer",
        "positive_controls",
        "train_methods",
        "tune_learning_rate",
        "calibrate_similarity",
        "edit_samples",
        "fit_typing",
        "harden_seeds",
        "idea_share",
        "kept_cells",
        "hardening_study",
        "noise_likeness",
        "noiseqa_folder",
        "normaliser",
        "spelling_correction",
        "synonym_validity",
    }
    assert {benchmark.name for benchmark in ALL} == scripts - others
    evaluation = next(benchmark for benchmark in ALL if benchmark.name == "sts_evaluation")
    words = evaluation.command({"encoder": "a model", "data": Path("d")}, short=True)
    assert words == ["--model", "a model", "--data", "d", "--rounds", "1", "--limit", "200"]
    with pytest.raises(KeyError, match="data"):
        evaluation.command({"encoder": "a model"}, short=False)
    message = row("script", Claim("a / b", [1.0, 3.0], at_least=3.5, floor="5"))
    assert message == "| script | a / b | ≥ 3.5 | 2 (1-3) | **no** | 5 |"


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_every_script_says_how_it_is_called(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert path.stem in SHARED or f"python benchmarks/{path.name} " in text
    importlib.import_module(path.stem)  # what it takes from holdfast is there


FAKE_TEXTATTACK = """
import json, sys
def ask(kind, *arguments):
    print(json.dumps([kind, *arguments]), flush=True)
    return json.loads(sys.stdin.readline())
given = ask("recipe")
while (example := ask("example")) is not None:
    words = example["text"].split()
    found = [ask("candidates", example["number"], example["text"], example["text"], i, w) for i, w in enumerate(words)]
    text = " ".join((more or [word])[0] for word, more in zip(words, found))
    assert set(given["stop_words"]) >= {word for word, more in zip(words, found) if not more}
    ask("result", "SuccessfulAttackResult", len(words), text, 0.0, words)
"""


def test_textattack_asks_for_candidates_and_gives_a_row_per_text(monkeypatch: pytest.MonkeyPatch) -> None:
    import textattack_process
    from holdfast.attacks.examples import Example

    monkeypatch.setattr(textattack_process, "_SCRIPT", FAKE_TEXTATTACK)
    resources: Any = SimpleNamespace(wordnet=SimpleNamespace(synonyms=lambda word: [word.upper()]))
    (recipe,) = textattack_process.recipes("pwws")
    run = textattack_process.TextAttack(Path(sys.executable), "a model", recipe, resources, max_tokens=8)
    rows = run.run([Example(3, ("a dog ran",), label=0), Example(5, ("2 dogs",), label=1)])
    assert [(row.outcome, row.queries, row.text) for row in rows] == [
        ("succeeded", 3, "a DOG RAN"),
        ("succeeded", 2, "2 DOGS"),
    ]
    assert rows[0].words == ("a", "dog", "ran")
    with pytest.raises(RuntimeError, match="single texts"):
        run.run([Example(0, ("a dog", "a cat"), label=0)])
    monkeypatch.setattr(textattack_process, "_SCRIPT", "raise SystemExit('no such package')")
    with pytest.raises(RuntimeError, match="no such package"):
        run.run([Example(0, ("a dog",), label=0)])


def test_the_folder_of_noiseqa(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import noiseqa_folder

    natural = tmp_path / "clone" / "Natural"
    natural.mkdir(parents=True)
    for version, name in noiseqa_folder.VERSIONS.items():
        questions = [
            [{"id": f"{article}-{n}", "question": f"{version} é {article} {n}"} for n in range(2)]
            for article in range(3)
        ]
        articles = [{"paragraphs": [{"context": f"text {number}", "qas": qas}]} for number, qas in enumerate(questions)]
        (natural / f"{name}.json").write_text(json.dumps({"data": articles}), encoding="utf-8")
    made = noiseqa_folder.collection(natural)
    assert set(made) == set(noiseqa_folder.SHA256)
    assert made["corpus.jsonl"].splitlines()[1] == '{"_id": "02-00", "title": "", "text": "text 2"}'
    assert made["queries-asr.jsonl"].splitlines()[2] == '{"_id": "2-0", "text": "queries-asr é 2 0"}'
    assert made["qrels/test.tsv"].splitlines()[1:3] == ["0-0\t00-00\t1", "0-1\t00-00\t1"]
    monkeypatch.setattr(sys, "argv", ["noiseqa_folder", str(natural.parent), "--data", str(tmp_path / "data")])
    with pytest.raises(SystemExit, match="would not have the bytes that were measured: check out commit 25c49"):
        noiseqa_folder.main()
    assert not (tmp_path / "data").exists()
    hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in made.items()}
    monkeypatch.setattr(noiseqa_folder, "SHA256", hashes)
    noiseqa_folder.main()
    assert len(capsys.readouterr().out.splitlines()) == 6
    assert (tmp_path / "data" / "noiseqa" / "qrels" / "test.tsv").read_text() == made["qrels/test.tsv"]
