"""The table of docs/architectures.md is what the commands do: python tests/docs/architecture_table.py makes it anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from architecture_table import ARCHITECTURES, COMMANDS, PAGE, cells, commands, head, refusals, row, table_of

TABLE = table_of(PAGE.read_text(encoding="utf-8"))
QUICK = ("Qwen3", "StaticEmbedding")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in ARCHITECTURES]
)
def test_the_row_of_an_architecture_is_what_its_commands_do(name: str, tmp_path: Path) -> None:
    found = cells(ARCHITECTURES[name], tmp_path)
    lines = TABLE.splitlines(keepends=True)
    assert [line for line in lines if line.startswith(f"| {name} |")] == [row(name, found)]
    refused = [line for line in lines if line.startswith(f"- {name}: ")]
    assert "".join(refused) == refusals(name, found)


def test_the_table_has_each_architecture_once_and_tells_its_commands() -> None:
    names = [line.split(" | ")[0].removeprefix("| ") for line in TABLE.splitlines() if line.startswith("| ")]
    assert names == ["architecture", *ARCHITECTURES]
    assert TABLE.startswith(head())
    assert TABLE.endswith(commands())
    assert set(COMMANDS) >= {"evaluate", "audit", "attack", "attack with gradients", "train", "harden"}
