"""The small world of the pages' examples, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs_world import CLASSIFIER, LM, RUN, make_results, make_world, smaller

from holdfast.cli import main


@pytest.fixture(scope="session")
def docs_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, texts, a masked LM, an encoder trained from it, a classifier, and results of these."""
    folder = tmp_path_factory.mktemp("docs-world")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_CACHE", str(folder / "cache"))
        patch.delenv("HOLDFAST_DATA", raising=False)
        patch.chdir(folder)
        make_world(folder)
        data, classifier = ["--data", "DATA"], str(folder / CLASSIFIER)
        commands = [
            smaller(["train", "simcse", "--model", LM, "--corpus", "sentences.txt", *data, "--output", RUN]),
            ["evaluate", RUN, "--tasks", "stsb", *data, "--output", "evaluated.json"],
            ["attack", classifier, "--task", "sst2", "--recipes", "typos", *data, "--output", "attacked.json"],
        ]
        for words in commands:
            assert main(words) == 0, words
        make_results(folder)
    return folder
