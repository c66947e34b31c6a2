"""An audit that was stopped goes on: nothing is sent or attacked twice, and the result is that of an unbroken one."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.attacks.engine import Engine
from holdfast.audit import AuditSettings, audit
from holdfast.audit.audit_journal import AuditJournal
from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.results import read_result

SERVICE = """
import zlib
import numpy as np

SENT, LEFT = [], [10 ** 9]

def embed(texts):
    if LEFT[0] <= 0:
        raise KeyboardInterrupt
    LEFT[0] -= 1
    SENT.append(tuple(texts))
    vectors = np.zeros((len(texts), 16))
    for row, text in enumerate(texts):
        for place, word in enumerate(text.split()):
            vectors[row, zlib.crc32(word.encode()) % 16] += 1.0 + place / 10
    return vectors
"""


@pytest.fixture
def service(here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of a service, which stops the process after so many calls."""
    (here / "stopping_service.py").write_text(SERVICE)
    monkeypatch.syspath_prepend(str(here))
    sys.modules.pop("stopping_service", None)
    import stopping_service  # type: ignore[import-not-found]

    yield stopping_service
    sys.modules.pop("stopping_service", None)


def settings(output: str, **more: Any) -> AuditSettings:
    given = {"texts": "mine.txt", "examples": 4, "texts_per_item": 30, "tagger": "textblob", "max_seconds": 0.0}
    return AuditSettings("call:stopping_service:embed", **{**given, **more}, output=Path(output), call_batch=16)


def measured(path: str) -> Any:
    result = read_result(Path(path))
    examples = [{**row, "passes": 0} for row in result["examples"]]
    return result["results"], examples, result["protocol"]


def test_an_audit_of_a_function_sends_nothing_twice(service: Any) -> None:
    audit(settings("whole.json"))
    whole = list(service.SENT)
    service.SENT.clear()
    stops = 0
    for calls in (1, 7, len(whole) // 2, len(whole) - 20, 10**9):
        service.LEFT[0] = calls
        try:
            audit(settings("parts.json"), resume=stops > 0)
        except KeyboardInterrupt:
            stops += 1
        else:
            break
        assert list(Path().glob(".parts.json.journal-*"))
        assert not Path("parts.json").exists()
    assert stops >= 3
    assert measured("parts.json") == measured("whole.json")
    sent = Counter(text for texts in service.SENT for text in texts)
    # The check that a vector does not depend on its batch sends the texts alone, and together.
    assert sent == Counter(text for texts in whole for text in texts)
    assert set(sent.values()) == {1, 3}
    assert not list(Path().glob(".parts.json.journal-*")), "the journal is removed"


def test_an_audit_of_a_model_attacks_nothing_twice(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"texts": "mine.txt", "examples": 4, "texts_per_item": 10, "tagger": "textblob", "max_seconds": 0.0}
    audit(AuditSettings("lm", **given, output=Path("whole.json")))
    attacked: list[int] = []
    real = Engine.run

    def noted(self: Engine, recipe: Any, examples: Any) -> Any:
        for attempt in real(self, recipe, examples):
            attacked.append(attempt.number)
            yield attempt
            if len(attacked) == 6:
                raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "run", noted)
    with pytest.raises(KeyboardInterrupt):
        audit(AuditSettings("lm", **given, output=Path("parts.json")))
    audit(AuditSettings("lm", **given, output=Path("parts.json")), resume=True)
    assert measured("parts.json") == measured("whole.json")
    whole = json.loads(Path("whole.json").read_text())["examples"]
    wanted = [row for row in whole if row["item"].removeprefix("audit-").startswith(("adv", "neighbours"))]
    assert len(attacked) - len(wanted) <= 1, "the one that was under way may be attacked again"


def test_a_journal_that_is_not_continued_or_of_another_audit_is_refused(service: Any) -> None:
    service.LEFT[0] = 5
    with pytest.raises(KeyboardInterrupt):
        audit(settings("r.json"))
    with pytest.raises(UserError, match=r"journal-audit is the journal of an audit that did not end: .* --resume"):
        audit(settings("r.json"))
    with pytest.raises(UserError, match=r"belongs to the audit .* with another seed and texts_sha256: delete"):
        audit(settings("r.json", seed=3), resume=True)
    with pytest.raises(UserError, match=r"give --output FILE\.json"):
        audit(AuditSettings("call:stopping_service:embed", texts="mine.txt"), resume=True)


def test_damaged_lines_are_told_and_made_again(service: Any, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    journal = AuditJournal(output, {"seed": 1})
    assert journal.open(resume=False) == []
    journal.add(["a", "b"], None, np.array([[1.5, 2.0], [3.0, 4.0]], dtype=np.float32))
    journal.add(["c"], 1, np.array([[5.0, 6.0]], dtype=np.float32))
    assert journal.planned("texts", lambda: 7) == 7
    (path,) = tmp_path.glob(".r.json.journal-*")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1] + lines[2].replace(b"dimensions", b"dimension5") + lines[3] + b'{"row": {"ve')
    again = AuditJournal(output, {"seed": 1})
    told = again.open(resume=True)
    assert told[0].endswith("2 vectors and 0 attacks are kept")
    assert told[1].endswith(":3 is damaged: 1 of its lines are left out")
    assert {place: vector.tolist() for place, vector in again.known(["b", "x", "a"], None).items()} == {
        0: [3.0, 4.0],
        2: [1.5, 2.0],
    }
    assert again.known(["b"], 1) == {}, "asked for alone it is another call"
    assert again.planned("texts", lambda: 8) == 7
    assert 0.0 < again.spent < 60.0
    again.add(["c"], 1, np.array([[5.0, 6.0]], dtype=np.float32))
    third = AuditJournal(output, {"seed": 1})
    assert len(third.open(resume=True)) == 1, "the rest of a line that was being written is gone"
    assert third.known(["c"], 1)[0].tolist() == [5.0, 6.0]


def test_a_stopped_audit_says_how_to_go_on_and_goes_on(service: Any, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["audit", "call:stopping_service:embed", "--texts", "mine.txt", "--examples", "1", "--output", "r.json"]
    service.LEFT[0] = 2
    assert main(words) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "holdfast: stopped; continue with --resume"
    service.LEFT[0] = 10**9
    assert main([*words, "--resume"]) == 0
    assert "32 vectors and 0 attacks are kept" in capsys.readouterr().err
    service.LEFT[0] = 0
    assert main(words[:-2]) == 130
    assert "nothing was kept: with --output" in capsys.readouterr().err
