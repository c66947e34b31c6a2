"""CONTRIBUTING's table of layers is the contract that import-linter checks."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_table_of_contributing_equals_the_contract() -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = settings["contracts"]
    from_the_top = [set(layer.split(" : ")) for layer in contract["layers"]]

    table = (
        (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("| layer | content |")[2].partition("\n\n")[0]
    )
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    from_the_bottom = [set(re.findall(r"`(\w+)(?:/|\.py)`", row)) for row in rows]

    assert from_the_bottom == from_the_top[::-1]
