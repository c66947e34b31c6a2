"""Equal sentences in a corpus: how many there are is logged and said, and a corpus of one sentence is refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.objectives import SimCSE
from holdfast.runs.duplicate_shares import duplicates_after, duplicates_before, logged_shares
from holdfast.runs.soundness import flags
from holdfast.training import training_run as run_module
from holdfast.training.train_config import TrainConfig
from holdfast.training.training_run import train

SENTENCES = ["a dog runs", "the cat sleeps", "a man sings", "the child plays", "a woman eats", "the big bed"]


@pytest.fixture
def repeated(tmp_path: Path) -> Path:
    """60 lines of six sentences."""
    path = tmp_path / "repeated.txt"
    path.write_text("\n".join(SENTENCES * 10) + "\n", encoding="utf-8")
    return path


def config(tiny: Path, corpus: Path, output: Path, **changed: Any) -> TrainConfig:
    given = {"method": "simcse", "batch_size": 8, "selection": "last", "precision": "fp32", "report_sts": False}
    return TrainConfig(model=str(tiny), corpus=str(corpus), output=output, **{**given, **changed})


def records(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]


def test_the_share_is_said_logged_and_kept_in_the_result(
    tiny: Path, repeated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: list[float] = []
    compute_loss = SimCSE.compute_loss

    def counted(self: SimCSE, z: Any, z_positive: Any, equal: Any = None) -> Any:
        shares.append(self.diagnostics["duplicates"].item())
        assert shares[-1] == (equal.sum(dim=1) > 1).float().mean().item()
        return compute_loss(self, z, z_positive, equal)

    monkeypatch.setattr(SimCSE, "compute_loss", counted)
    message = Console(file=io.StringIO(), width=400)
    result = train(config(tiny, repeated, tmp_path / "out", max_steps=40), console=message)
    assert "% of the sentences in the first 7 batches have an equal one in their batch; they are no" in _text(message)
    logged = [record["duplicates"] for record in records(tmp_path / "out") if "loss" in record]
    assert logged == shares[3::4], "ten records of 40 steps"
    assert len({*logged}) > 1, "batches differ, and so do their shares"
    assert result["duplicates"] == {"duplicates": pytest.approx(sum(logged) / 10)}
    assert result["protocol"]["options"]["duplicates"] == "mask"


def test_what_is_said_before_is_what_the_first_batches_hold(tiny: Path, repeated: Path, tmp_path: Path) -> None:
    message = Console(file=io.StringIO(), width=400)
    result = train(config(tiny, repeated, tmp_path / "out", epochs=1.0), console=message)
    share = result["duplicates"]["duplicates"]  # seven steps, a record each
    assert f"{100 * share:.1f} % of the sentences in the first 7 batches" in _text(message)


def test_different_sentences_need_no_word(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    message = Console(file=io.StringIO(), width=400)
    result = train(config(tiny, corpus, tmp_path / "out", max_steps=1), console=message)
    assert "equal one" not in _text(message)
    assert result["duplicates"] == {"duplicates": 0.0}
    assert duplicates_after(result["duplicates"], result["protocol"]["options"]) == ""


def test_the_command_says_it_once_at_its_end(
    tiny: Path, repeated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "simcse", "--model", str(tiny), "--corpus", str(repeated), "--output", str(tmp_path / "out")]
    words += ["--max-steps", "2", "--batch-size", "8", "--selection", "last", "--no-report-sts", "--preset", "paper"]
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("of the sentences in a batch have an equal one in it; they count as any others") == 1
    assert said.count("(duplicates=keep)") == 1


@pytest.mark.parametrize("method", ["simcse", "anchored"])
def test_equal_lines_are_a_corpus_of_one_sentence(tiny: Path, tmp_path: Path, method: str) -> None:
    path = tmp_path / "one.txt"
    path.write_text("a dog runs\n" * 64, encoding="utf-8")
    with pytest.raises(UserError) as error:
        train(config(tiny, path, tmp_path / "out", method=method, max_steps=1, pooling="mean"))
    assert str(error.value) == (f"the corpus {path} has one distinct sentence, 64 times: give sentences that differ")
    assert not (tmp_path / "out").exists()


def test_lines_that_the_model_cannot_tell_apart_are_one_sentence(tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("".join(f"a dog runs in the park {word}\n" for word in SENTENCES[1:] * 8), encoding="utf-8")
    with pytest.raises(UserError) as error:
        train(config(tiny, path, tmp_path / "out", max_steps=1, max_length=6))
    assert str(error.value) == (
        f"the corpus {path} has one distinct sentence, 40 times, as the model reads it (all give the same token ids, "
        "cut at 6): give sentences that differ"
    )
    train(config(tiny, path, tmp_path / "out", max_steps=1, max_length=16))


def test_one_text_among_many_equal_ones_is_found_wherever_it_stands(tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "nearly.txt"
    path.write_text("a dog runs\n" * 1500 + "the cat sleeps\n" + "a dog runs\n" * 10, encoding="utf-8")
    train(config(tiny, path, tmp_path / "out", max_steps=1))


def test_positives_that_are_all_one_text_are_refused(tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("sentence\tother\n" + "".join(f"{text}\tthe old house\n" for text in SENTENCES * 3), "utf-8")
    with pytest.raises(UserError, match="has one distinct positive, 18 times: give sentences that differ"):
        train(config(tiny, path, tmp_path / "out", max_steps=1, column="sentence", positive_column="other"))


def test_a_method_that_contrasts_nothing_says_nothing(
    tiny: Path, repeated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "share_in_first_batches", lambda *_: pytest.fail("asked"))
    result = train(config(tiny, repeated, tmp_path / "out", method="anchored", max_steps=1, pooling="mean"))
    assert "duplicates" not in result


def test_what_is_told_of_a_run() -> None:
    mask, keep = {"duplicates": "mask"}, {"duplicates": "keep"}
    assert duplicates_after({"duplicates": 0.0321}, mask) == (
        "3.2 % of the sentences in a batch have an equal one in it; they are no negatives of each other"
    )
    assert duplicates_after({"duplicates": 0.00031, "duplicates_in_queue": 0.4}, keep) == (
        "0.031 % of the sentences in a batch have an equal one in it, 40.0 % one in the queue; they count as any "
        "others (duplicates=keep)"
    )
    assert duplicates_after({"duplicates": 0.0, "duplicates_in_queue": 0.4}, mask) == (
        "40.0 % of the sentences in a batch have an equal one in the queue; they are no negatives of each other"
    )
    assert duplicates_before(0.049, 10, "mask") == ""
    assert duplicates_before(0.3, 1, "keep") == (
        "30.0 % of the sentences in the first batch have an equal one in their batch; they count as any others "
        "(duplicates=keep)"
    )


def test_a_large_share_is_worth_a_look() -> None:
    def message(*shares: float) -> list[tuple[str, str]]:
        log = [{"step": step, "duplicates": share} for step, share in enumerate(shares)]
        return [(flag.level, flag.message) for flag in flags(log, {"duplicates": "mask"}) if flag.what == "duplicates"]

    assert message(0.0, 0.0) == []
    rest = "of the sentences in a batch have an equal one in it; they are no negatives of each other"
    assert message(0.01, 0.03) == [("told", f"2.0 % {rest}")]
    assert message(0.3, 0.1) == [("look", f"20.0 % {rest}")]
    assert logged_shares([]) == {}


def _text(console: Console) -> str:
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]
