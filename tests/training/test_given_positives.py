"""`holdfast train --positive-column`: who takes positives, what reaches the loss, and what is refused beforehand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserError
from holdfast.objectives import SimCSE
from holdfast.training.train_config import TrainConfig
from holdfast.training.training_run import train


@pytest.fixture
def pairs(tmp_path: Path, corpus: Path) -> Path:
    """Every sentence of the corpus beside its words in reverse."""
    sentences = dict.fromkeys(corpus.read_text().splitlines())
    rows = [{"text": sentence, "back": " ".join(reversed(sentence.split()))} for sentence in sentences if sentence]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def config(tiny: Path, pairs: Path, output: Path, **changed: Any) -> TrainConfig:
    given = {"method": "simcse", "batch_size": 8, "max_steps": 2, "precision": "fp32", "positive_column": "back"}
    settings: dict[str, Any] = {"selection": "last", "report_sts": False, **given, **changed}
    return TrainConfig(model=str(tiny), corpus=str(pairs), output=output, **settings)


def test_each_sentence_reaches_the_loss_beside_its_own_positive(
    tiny: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[list[int], list[int]]] = []
    forward = SimCSE.forward

    def watched(self: SimCSE, sentence_features: Any, labels: Any = None) -> Any:
        columns = list(sentence_features)
        words = [
            [
                ids[mask.bool()][1:-1].tolist()
                for ids, mask in zip(each["input_ids"], each["attention_mask"], strict=True)
            ]
            for each in columns
        ]
        seen.extend(zip(*words, strict=True))
        return forward(self, columns, labels)

    monkeypatch.setattr(SimCSE, "forward", watched)
    result = train(config(tiny, pairs, tmp_path / "out"))
    assert len(seen) == 16
    assert all(positive == sentence[::-1] for sentence, positive in seen)
    assert any(positive != sentence for sentence, positive in seen)
    assert result["protocol"]["corpus"]["positives"] == "back"


@pytest.mark.parametrize(
    ("method", "options"), [("simcse", {}), ("v-advcse", {}), ("adcse", {}), ("adcl", {"positives": "given"})]
)
def test_methods_that_take_positives(
    tiny: Path, pairs: Path, tmp_path: Path, method: str, options: dict[str, Any]
) -> None:
    result = train(config(tiny, pairs, tmp_path / "out", method=method, options=options))
    assert result["selected"]["steps"] == 2
    alone = train(config(tiny, pairs, tmp_path / "alone", method=method, positive_column=None))
    assert result["model_sha256"] != alone["model_sha256"]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        *((name, {}) for name in ("consert", "ct", "robustembed", "combined", "anchored", "adcl")),
        ("l2p-csr", {"layers": 1}),
    ],
)
def test_methods_that_make_their_own_refuse_others(
    tiny: Path, pairs: Path, tmp_path: Path, method: str, options: dict[str, Any]
) -> None:
    with pytest.raises(UserError, match=r"takes one column, of sentences.*; leave out --positive-column"):
        train(config(tiny, pairs, tmp_path / "out", method=method, options=options))
    assert not (tmp_path / "out").exists()


def test_positives_that_were_promised_are_missed(tiny: Path, pairs: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"takes two columns with positives=given.*; name the other with --positive-column"
    ):
        train(
            config(tiny, pairs, tmp_path / "out", method="adcl", options={"positives": "given"}, positive_column=None)
        )
    assert not (tmp_path / "out").exists()


def test_a_run_is_not_resumed_with_other_positives(tiny: Path, pairs: Path, tmp_path: Path) -> None:
    train(config(tiny, pairs, tmp_path / "out", max_steps=4, save_steps=2))
    again = tmp_path / "again"
    again.mkdir()
    shutil.copy(tmp_path / "out" / "run.json", again)
    shutil.copytree(tmp_path / "out" / "checkpoint-2", again / "checkpoint-2")
    with pytest.raises(UserError, match=r"cannot resume .*corpus"):
        train(config(tiny, pairs, again, max_steps=4, positive_column=None), resume=True)
