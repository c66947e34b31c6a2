"""Audits of encoders with prompts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from audited import by_task, run

from holdfast.audit.audit_run import matches
from holdfast.audit.audit_settings import AuditSettings
from holdfast.errors import UserError


def test_an_audit_uses_the_chosen_prompt_and_shows_texts_without_it(here: Path, prompted: Callable[..., Path]) -> None:
    model = str(prompted())
    with pytest.raises(UserError, match="has prompts and no default: query 'the old ', passage 'under '; choose"):
        run(model)
    with pytest.raises(UserError, match="--prompt-name is for a model, and call:services:embed is a function"):
        run("call:services:embed", prompt_name="query")
    result = run(model, query_prompt_name="query", document_prompt_name="passage", examples=4)
    protocol = result["protocol"]
    assert [protocol[name] for name in ("prompt", "query_prompt", "document_prompt")] == [
        "the old ",
        "the old ",
        "under ",
    ]
    mine = set((here / "mine.txt").read_text().splitlines())
    own = [row for row in result["examples"] if not row["item"].startswith("audit-advsts")]
    assert {row["original"] for row in own} <= mine
    assert all(not row["adversarial"].lower().startswith("the old the") for row in own)
    assert by_task(result)["audit-neighbours"]["verdict"] != "not measured"
    settings = {"texts": "mine.txt", "examples": 4, "tagger": "textblob", "data": here / "data"}
    sides = {"query_prompt_name": "query", "document_prompt_name": "passage"}
    assert matches(result, AuditSettings(model, **settings, **sides))
    assert not matches(result, AuditSettings(model, **settings))

    # Neighbours that are encoded with the query's prompt are others.
    alike = run(model, prompt_name="query", examples=4)
    assert (alike["protocol"]["prompt"], "document_prompt" in alike["protocol"]) == ("the old ", False)
    first, second = (
        [row["before"]["neighbours"] for row in each["examples"] if row["item"] == "audit-neighbours"]
        for each in (result, alike)
    )
    assert first != second
    assert by_task(alike)["audit-typos"]["metrics"] == by_task(result)["audit-typos"]["metrics"]
