import importlib
import importlib.util
import re

import pytest

from holdfast.renamed import RENAMED


@pytest.mark.parametrize("old", RENAMED)
def test_import_by_an_old_name_gives_the_new_one(old: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"^{re.escape(f'{old} is now {RENAMED[old]}')}$") as raised:
        importlib.import_module(old)
    assert raised.value.name == old


@pytest.mark.parametrize("old", RENAMED)
def test_new_name_exists(old: str) -> None:
    new = RENAMED[old].partition(",")[0]
    assert importlib.util.find_spec(new) is not None, new


def test_renamed_class_exists() -> None:
    from holdfast.edits.random_edits import RandomEdits

    assert RandomEdits.__name__ in RENAMED["holdfast.adversary.slips"]


def test_other_missing_modules_have_pythons_message() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'holdfast\.adversary\.nothing'"):
        importlib.import_module("holdfast.adversary.nothing")
