"""`holdfast harden`: what it writes, what it compares, how it goes on, and what it refuses."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.evaluation.evaluation_run import evaluate_tasks
from holdfast.evaluation.sts import STS_TASKS
from holdfast.hardening import HardenSettings, harden
from holdfast.hardening.hardening_run import rows_before_and_after
from holdfast.models import load_sentence_transformer
from holdfast.results import read_result

WORDS = "man woman child dog cat runs sleeps eats plays sings park house bed red big".split()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory, make_masked_lm: Callable[..., Path]) -> Path:
    """An encoder in use."""
    folder = tmp_path_factory.mktemp("hardened")
    load_sentence_transformer(str(make_masked_lm(folder / "lm")), pooling="mean").save_pretrained(str(folder / "old"))
    return folder / "old"


@pytest.fixture
def here(tmp_path: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("holdfast.attacks.resources._wordnet_places", lambda data: iter(()))
    (tmp_path / "old").symlink_to(encoder)
    (tmp_path / "lm").symlink_to(encoder.parent / "lm")
    texts = [
        f"The {a} {b} in the {c} {d}" for a in WORDS[:5] for b in WORDS[5:10] for c, d in (WORDS[10:12], WORDS[12:14])
    ]
    (tmp_path / "mine.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    shutil.copytree(encoder, tmp_path / "prompted")
    message = tmp_path / "prompted" / "config_sentence_transformers.json"
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": None}
    message.write_text(json.dumps({**json.loads(message.read_text(encoding="utf-8")), **prompts}), encoding="utf-8")
    (tmp_path / "near.tsv").write_text("word\tneighbors\nman\twoman\ndog\tcat\n", encoding="utf-8")
    return tmp_path


def settings(**changed: Any) -> HardenSettings:
    given = {"model": "old", "corpus": "mine.txt", "output": Path("new"), "batch_size": 8, "max_steps": 3, **changed}
    return HardenSettings(**given)


def test_the_whole_command(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["harden", "old", "--corpus", "mine.txt", "--output", "new", "--batch-size", "8", "--max-steps", "3"]
    words += ["--synonyms", "near.tsv", "--set", "share=0.5", "--examples", "3", "--texts", "mine.txt"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "before" in printed
    assert "typos" in printed
    assert 'Load it with: SentenceTransformer("new")' in printed
    result = read_result(here / "new" / "harden.json")
    assert result["kind"] == "harden"
    assert result["protocol"]["method"] == "anchored"
    assert result["protocol"]["options"]["synonyms"] == "near.tsv"
    assert result["protocol"]["options"]["share"] == 0.5
    assert result["protocol"]["steps"] == 3
    audits = [read_result(here / "new" / f"audit-{when}.json") for when in ("before", "after")]
    assert audits[0]["model_sha256"] != audits[1]["model_sha256"] == result["model_sha256"]
    typos = next(row for row in result["results"] if row["task"] == "audit-typos")
    for when, audit in zip(("before", "after"), audits, strict=True):
        row = next(row for row in audit["results"] if row["task"] == "audit-typos")
        assert typos["metrics"][when] == row["metrics"][row["headline"]]
    apart = [
        np.array(next(row for row in audit["results"] if row["task"] == "audit-typos")["items"]["stability"])
        for audit in audits
    ]
    assert typos["metrics"]["difference"] == pytest.approx((apart[1] - apart[0]).mean(), abs=1e-6)
    assert typos["metrics"]["difference_low"] <= typos["metrics"]["difference"] <= typos["metrics"]["difference_high"]
    for row in result["results"]:
        assert ("p" in row["metrics"]) is (row["task"] != "audit-vectors"), row["task"]
    assert SentenceTransformer("new").encode("The dog runs.").shape == (16,)
    # The same once more: nothing is trained or audited again.
    before = {path.name: path.stat().st_mtime_ns for path in (here / "new").iterdir() if path.name != "harden.json"}
    assert main([*words, "--resume"]) == 0
    after = {path.name: path.stat().st_mtime_ns for path in (here / "new").iterdir() if path.name != "harden.json"}
    assert after == before
    # Other texts are audited: that is another audit.
    assert main([*words, "--examples", "4", "--resume"]) == 0
    audits = [read_result(here / "new" / f"audit-{when}.json") for when in ("before", "after")]
    assert [audit["protocol"]["examples"] for audit in audits] == [4, 4]


def sts_sets(folder: Path, scores: Callable[[int], float] = lambda number: 1 + number % 41 / 10) -> Path:
    """The seven test sets, of made-up pairs."""
    pairs = [(f"The {a} {b}", f"A {b} in the {c}") for a in WORDS[:4] for b in WORDS[5:9] for c in WORDS[10:12]]
    for task in STS_TASKS:
        (folder / task).mkdir(parents=True)
        rows = [f"{n}\tx\t{one}\t{two}\t{scores(7 * n + len(task))}" for n, (one, two) in enumerate(pairs)]
        text = "\n".join(["id\tsubset\tsentence1\tsentence2\tscore", *rows]) + "\n"
        (folder / task / "test.tsv").write_text(text, encoding="utf-8")
    return folder


def test_the_sts_test_sets_are_measured_where_they_are_at_hand(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sts_sets(here / "data")
    words = ["harden", "old", "--corpus", "mine.txt", "--output", "new", "--batch-size", "8", "--max-steps", "3"]
    words += ["--examples", "3", "--texts", "mine.txt", "--data", "data", "--learning-rate", "1e-2"]
    assert main(words) == 0
    assert "sts average" in capsys.readouterr().out
    result = read_result(here / "new" / "harden.json")
    first, *others = result["results"]
    assert first["task"] == "sts average"
    assert all(row["task"].startswith("audit-") for row in others)
    assert others
    sides = {}
    for when, model in (("before", "old"), ("after", "new")):
        rows = evaluate_tasks(load_sentence_transformer(model), STS_TASKS, data=here / "data")
        sides[when] = np.mean([row["metrics"]["spearman"] for row in rows])
        written = read_result(here / "new" / f"sts-{when}.json")
        assert [row["metrics"] for row in written["results"]] == [row["metrics"] for row in rows]
        assert first["metrics"][when] == pytest.approx(sides[when])
    assert sides["before"] != sides["after"]
    metrics = first["metrics"]
    assert metrics["difference"] == pytest.approx(sides["after"] - sides["before"])
    assert metrics["difference_low"] < metrics["difference"] < metrics["difference_high"]
    assert main(["compare", "new/sts-before.json", "new/sts-after.json"]) == 0
    # The same once more: nothing is measured again.
    made = {path.name: path.stat().st_mtime_ns for path in (here / "new").glob("sts-*.json")}
    assert main([*words, "--resume"]) == 0
    assert {path.name: path.stat().st_mtime_ns for path in (here / "new").glob("sts-*.json")} == made
    # Another model's numbers under that name are not taken for this one's.
    shutil.copy(here / "new" / "sts-before.json", here / "new" / "sts-after.json")
    assert main([*words, "--resume"]) == 2
    assert "sts-after.json" in capsys.readouterr().err.splitlines()[-1]
    assert read_result(here / "new" / "harden.json")["results"][0]["metrics"] == pytest.approx(metrics)


def test_a_hardening_is_not_lost_to_sets_without_a_score(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sts_sets(here / "data", lambda number: 1.0)
    result = harden(settings(data=here / "data", examples=3, texts="mine.txt"))
    assert result["results"]
    assert all(row["task"].startswith("audit-") for row in result["results"])
    assert isinstance(result["protocol"]["sts"], str)
    assert "score" in result["protocol"]["sts"]


def test_without_audits_and_the_defaults(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["harden", "old", "--corpus", "mine.txt", "--output", "new", "--batch-size", "8", "--max-steps", "2"]
    assert main([*words, "--no-audit", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["results"] == []
    assert result["protocol"]["selection"] == "last"
    assert result["protocol"]["training"]["max_length"] == 64
    assert result["protocol"]["options"]["synonyms"] is None
    assert not (here / "new" / "audit-before.json").exists()


def test_it_is_hardened_against_the_synonyms_that_are_at_hand(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["harden", "old", "--corpus", "mine.txt", "--batch-size", "8", "--max-steps", "1", "--no-audit"]

    def synonyms(output: str, *more: str) -> str | None:
        assert main([*words, "--output", output, *more]) == 0
        found: str | None = read_result(here / output / "harden.json")["protocol"]["options"]["synonyms"]
        return found

    assert synonyms("zero") is None
    assert "synonyms" not in capsys.readouterr().err
    assert synonyms("one", "--synonyms", "auto") is None
    assert "against noise alone: no synonyms are on this machine" in capsys.readouterr().err
    lists = here / "data" / "synonyms" / "counterfitted_neighbors.tsv"
    lists.parent.mkdir(parents=True)
    shutil.copy(here / "near.tsv", lists)
    assert synonyms("two", "--data", "data", "--synonyms", "auto") == "data/synonyms/counterfitted_neighbors.tsv"
    assert "synonyms: data/synonyms/counterfitted_neighbors.tsv" in " ".join(capsys.readouterr().err.split())
    wordnet = here / "wordnet"
    wordnet.mkdir()
    (wordnet / "synsets.tsv").write_text("pos\tlemmas\nn\tbed|couch\n", encoding="utf-8")
    (wordnet / "exceptions.tsv").write_text("pos\tinflected\tlemmas\n", encoding="utf-8")
    monkeypatch.setattr("holdfast.attacks.resources._wordnet_places", lambda data: iter([wordnet / "synsets.tsv"]))
    both = synonyms("three", "--data", "data", "--synonyms", "auto")
    assert both == f"data/synonyms/counterfitted_neighbors.tsv,{wordnet}"
    # What is named is what is taken.
    assert synonyms("four", "--data", "data", "--synonyms", "near.tsv") == "near.tsv"
    assert synonyms("five", "--data", "data", "--synonyms", "auto", "--set", "synonyms=near.tsv") == "near.tsv"
    assert synonyms("six", "--data", "data") is None


def test_another_language_is_trained_with_typing_alone(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("py3langid")
    pytest.importorskip("num2words")
    pytest.importorskip("symspellpy")
    assert settings().usable_edits() == (["typing", "speech"], {})
    german = "Der Vertrag wird jedes Jahr verlängert, wenn niemand ihn kündigt und alle zufrieden sind"
    (here / "german.txt").write_text("".join(f"{german} {number}.\n" for number in range(20)), encoding="utf-8")
    monkeypatch.setattr("holdfast.hardening.hardening_run.train", lambda *_, **__: {})
    for more, line in (([], "against typing alone: the texts are not in English\n"), (["--set", "edits=speech"], "")):
        assert main(["harden", "old", "--corpus", "german.txt", "--output", "new", "--no-audit", *more]) == 0
        assert capsys.readouterr().err == line
    assert settings(corpus="german.txt").training().options["edits"] == "typing"
    assert settings(corpus="german.txt", options={"edits": "speech"}).training().options["edits"] == "speech"
    assert settings(corpus="-").usable_edits() == (["typing", "speech"], {}), "standard input is read once"
    assert settings(corpus="-", language="de").usable_edits()[0] == ["typing"]


def test_a_language_that_is_given_is_not_detected_and_one_that_is_assumed_is_told(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("num2words")
    pytest.importorskip("symspellpy")
    audited = []
    monkeypatch.setattr("holdfast.hardening.hardening_run.train", lambda *_, **__: {})
    monkeypatch.setattr("holdfast.hardening.hardening_run.prepare_inputs", audited.append)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # the library is not installed
    assumed = "language: en, assumed: to detect it, pip install 'holdfast[attacks]', or give --language\n"
    for more, lines in (([], assumed), (["--language", "DE"], "against typing alone: the texts are not in English\n")):
        assert main(["harden", "old", "--corpus", "mine.txt", "--output", "new", *more]) == 0
        assert capsys.readouterr().err == lines
    assert [each.language for each in audited] == [None, "DE"]
    german = settings(corpus="mine.txt", language="de")
    texts, spelling = german.texts_to_train_on()
    assert texts.language == spelling.language == texts.choose(None).language == "de"
    assert texts.record()["language"] == "de"
    assert main(["harden", "old", "--corpus", "mine.txt", "--output", "new", "--language", "german"]) == 2
    assert (
        "--language takes a code of two letters (ISO 639-1), such as en or de, not 'german'" in capsys.readouterr().err
    )


def test_what_is_said_of_the_training_reaches_it(here: Path) -> None:
    said = {"column": "text", "epochs": 2.0, "max_steps": None, "batch_size": 5, "learning_rate": 3e-6, "seed": 7}
    said |= {"pooling": "mean", "precision": "fp32", "save_steps": 9, "max_length": 17, "max_chars": 99, "data": here}
    (here / "mine.tsv").write_text("text\nThe man sleeps in the park\n", encoding="utf-8")
    training = settings(corpus="mine.tsv", **said).training()
    assert {name: getattr(training, name) for name in said} == said
    assert (training.method, training.model, training.corpus) == ("anchored", "old", "mine.tsv")


def row(verdict: str = "bends", **changed: Any) -> dict[str, Any]:
    metrics = {"stability": 0.5, "stability_low": 0.4, "stability_high": 0.6, "other": 1.0}
    return {"task": "audit-typos", "split": "all", "n": 9, "metrics": metrics, "verdict": verdict,
            "headline": "stability", "told": "", **changed}  # fmt: skip


def test_items_are_compared_by_task_and_split() -> None:
    changed = {"stability": 0.9, "stability_low": 0.8, "stability_high": 0.95}
    before = {
        "results": [row(), row(split="upper"), row(task="audit-x", headline=None, metrics={}), row(task="audit-y"),
                    row(task="audit-z", metrics={})]
    }  # fmt: skip
    after = {
        "results": [row(split="upper", metrics=changed, verdict="holds", n=7), row(), row(task="audit-y", metrics={}),
                    row(task="audit-z")]
    }  # fmt: skip
    paired = {("audit-typos", "upper"): {"difference": 0.4, "low": 0.3, "high": 0.5, "p": 0.01, "baseline": 0.5}}
    same, upper = rows_before_and_after(before, after, paired)
    assert same["metrics"] == {
        "before": 0.5,
        "before_low": 0.4,
        "before_high": 0.6,
        "after": 0.5,
        "after_low": 0.4,
        "after_high": 0.6,
    }
    assert (upper["split"], upper["n"], upper["metric"]) == ("upper", 7, "stability")
    assert upper["metrics"]["after"] == 0.9
    names = ("difference", "difference_low", "difference_high", "p")
    assert [upper["metrics"][name] for name in names] == [0.4, 0.3, 0.5, 0.01]
    assert upper["verdicts"] == ["bends", "holds"]


@pytest.mark.parametrize("count", [7, 9])
def test_an_item_with_fewer_texts_is_compared_on_those_of_both_audits(count: int) -> None:
    before, after = {"results": [row()]}, {"results": [row(n=count)]}
    pair = {"baseline": 0.6, "other": 0.7, "difference": 0.1, "low": 0.0, "high": 0.2, "p": 0.04, "n": 6}
    (made,) = rows_before_and_after(before, after, {("audit-typos", "all"): pair})
    assert made["n"] == 6
    assert made["metrics"] == {
        "before": 0.6,
        "after": 0.7,
        "difference": 0.1,
        "difference_low": 0.0,
        "difference_high": 0.2,
        "p": 0.04,
    }


def test_a_raw_masked_lm_is_refused_unless_it_is_said_how_it_is_used(here: Path) -> None:
    with pytest.raises(UserError, match="raw language model"):
        harden(settings(model="lm"))
    assert not (here / "new").exists()
    assert harden(settings(model="lm", pooling="mean", audited=False))["protocol"]["pooling"] == "mean"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"synonyms": "nearest.tsv"}, "nearest.tsv"),
        ({"synonyms": "neighbours"}, "--data DIR"),
        ({"data": Path("nowhere")}, "nowhere"),
        ({"options": {"shares": "0.5"}}, "did you mean 'share'"),
        ({"options": {"edits": "swop"}}, "unknown edit 'swop'"),
        ({"corpus": "none.txt"}, "none.txt"),
        ({"texts": "absent.txt"}, "absent.txt"),
        ({"examples": 0}, "--examples must be from 1 to 1000000000, got 0"),
        ({"masked_lm": "nowhere"}, "--masked-lm"),
        ({"seed": -1}, "--seed must be from 0 to 4294967295, got -1"),
        ({"model": "prompted"}, "prompted has prompts and no default: query 'query: '; choose one with --prompt-name"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(here: Path, changed: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        harden(settings(**{"texts": "mine.txt", **changed}))
    assert not (here / "new").exists()


@pytest.fixture
def pipe(here: Path) -> Iterator[Path]:
    """A named pipe that holds the texts the first time it is opened, and then nothing."""
    pipe, content, closing = here / "pipe", (here / "mine.txt").read_bytes(), threading.Event()
    os.mkfifo(pipe)

    def write() -> None:
        left = content
        while not closing.is_set():
            pipe.write_bytes(left)  # waits for a reader
            left = b""

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    yield pipe
    closing.set()
    os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
    writer.join(10)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_corpus_from_a_pipe_is_whole(here: Path, pipe: Path) -> None:
    texts = (here / "mine.txt").read_text(encoding="utf-8").splitlines()
    result = harden(settings(corpus=str(pipe), audited=False, max_steps=7))
    assert result["protocol"]["corpus"]["sentences"] == len(texts)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_the_texts_of_two_audits_are_in_a_file(here: Path, pipe: Path) -> None:
    for source in (str(pipe), "-"):
        with pytest.raises(UserError, match="can be read only once, and both audits need it"):
            harden(settings(texts=source))
    assert not (here / "new").exists()


def test_another_run_in_the_folder_is_not_overwritten(here: Path) -> None:
    harden(settings(audited=False))
    with pytest.raises(UserError, match="continue it with --resume"):
        harden(settings(audited=False))
