"""A run of a method of one's own: what it records, and that its code is part of what it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from holdfast.errors import UserError
from holdfast.files import sha256
from holdfast.training.train_config import TrainConfig
from holdfast.training.training_run import train

CODE = """
from typing import ClassVar
from holdfast.objectives import SimCSE

class Colder(SimCSE):
    TITLE: ClassVar = "Colder SimCSE"
    TRAINING: ClassVar = {"learning_rate": 1e-4}

    def __init__(self, model, *, temperature: float = 0.01) -> None:
        super().__init__(model, temperature=temperature)
"""


def test_a_method_of_ones_own_is_trained_recorded_and_known_again(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    file, output = tmp_path / "colder.py", tmp_path / "out"
    file.write_text(CODE)
    config = TrainConfig(
        f"{file}:Colder",
        str(tiny),
        str(corpus),
        output,
        {"temperature": "0.02"},
        max_steps=2,
        batch_size=8,
        report_sts=False,
    )
    protocol = train(config)["protocol"]
    assert protocol["method"] == f"{file}:Colder"
    assert protocol["method_sha256"] == sha256(file)
    assert protocol["options"]["temperature"] == 0.02
    assert protocol["training"]["learning_rate"] == 1e-4
    card = (output / "README.md").read_text()
    assert "trained with Colder SimCSE" in card
    assert all(".py" not in tag for tag in yaml.safe_load(card.split("---")[1])["tags"])

    (output / "results.json").unlink()  # as if it had not come to its end
    file.write_text(CODE + "# changed\n")
    with pytest.raises(UserError, match=r"cannot resume .* method_sha256 was"):
        train(config, resume=True)


def test_what_a_method_of_ones_own_leaves_open_is_simcses(tiny: Path) -> None:
    from holdfast.objectives import Objective

    completed = TrainConfig("x:Y", str(tiny), "corpus", Path("out")).completed(Objective)
    assert (completed.learning_rate, completed.batch_size, completed.epochs) == (3e-5, 64, 1.0)
