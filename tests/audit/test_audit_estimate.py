"""An audit tells its work first; ``--estimate`` does nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from holdfast.audit.item_selection import ItemSelection, copies_of_a_text
from holdfast.cli import main

SERVICE = """
SENT = []

def embed(texts):
    SENT.append(len(texts))
    return [[float(len(text)), 1.0, float(text.count("a"))] for text in texts]
"""


def test_copies_of_a_text() -> None:
    def copies(names: str) -> int:
        return copies_of_a_text(ItemSelection.parse(names))

    assert copies("typing,blank") == 2
    assert copies("typos,noise") == copies("noise") == 1
    assert copies("negation") == 2
    assert copies("meaning") == copies("negation,meaning") == 18, "all nine changes of the meaning"
    assert copies("retrieval.typing") == 2, "and the clean one"
    assert copies("attacks,space") == 0


@pytest.mark.parametrize("as_json", [True, False])
def test_the_estimate_of_a_function(
    here: Path, as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "estimated_service.py").write_text(SERVICE)
    monkeypatch.syspath_prepend(str(here))
    sys.modules.pop("estimated_service", None)
    words = ["audit", "call:estimated_service:embed", "--texts", "mine.txt", "--output", "r.json", "--call-batch", "16"]
    words += ["--items", "typing,negation,adversarial-typos", "--examples", "2", "--estimate"]
    assert main([*words, *(["--json"] if as_json else [])]) == 0
    message = capsys.readouterr()
    assert not list(here.glob("*r.json*"))
    import estimated_service  # type: ignore[import-not-found]

    assert estimated_service.SENT == [1, 16, 15], "the first 32 texts"
    if as_json:
        found = json.loads(message.out)["estimate"]
        assert (found["texts"], found["encodings"]) == (40, 40 + 3 * 40)
        assert found["calls"] == 10 + -(-found["queries"] // 16)
    else:
        assert "estimate: 40 texts, at most 160 texts to encode and about " in message.err


@pytest.mark.parametrize(("options", "limit"), [([], 1e-9), (["--examples", "2", "--texts-per-item", "9"], 0.0)])
def test_exact_numbers_have_no_limit_of_time(
    here: Path, options: list[str], limit: float, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["audit", "lm", "--texts", "mine.txt", "--items", "blank", "--max-seconds", "1e-9", "--estimate", "--json"]
    assert main([*words, *options]) == 0
    assert json.loads(capsys.readouterr().out)["estimate"]["limit"] == limit


def test_every_audit_begins_with_its_estimate(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "lm", "--texts", "mine.txt", "--items", "blank", "--texts-per-item", "7"]) == 0
    lines = capsys.readouterr().err.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("estimate: 40 texts, at most 47 texts"))
    assert any(line.startswith("1/3 vectors: ") for line in lines[place:])
