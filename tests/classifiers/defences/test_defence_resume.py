"""A defended run that is killed and resumed ends in the bits of an unbroken one, whatever its defence remembers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from holdfast.classifiers import FinetuneSettings, finetune
from holdfast.classifiers.classifier_trainer import DEFENCE_FILE, ClassifierTrainer
from holdfast.files import sha256
from warm import WarmPython

DIE = Path(__file__).parents[1] / "die.py"
RUNS = {
    "adv": ["min_similarity=-1"],
    "pgd": [],
    "freelb": [],
    "smart": ["radius=0.01"],
    "robustembed": ["fgsm_size=0.01"],
}


@pytest.mark.slow
@pytest.mark.parametrize("defence", RUNS)
def test_a_killed_run_ends_in_the_same_bits(
    defence: str, tiny: Path, data: Path, tmp_path: Path, warm: WarmPython
) -> None:
    """Killed at step 24 of 37 with its checkpoint not sealed: after adv's clean epoch and SMART's first tenth."""
    unbroken, output = tmp_path / "unbroken", tmp_path / "killed"
    how = [defence, *RUNS[defence]]
    finished = warm.run(DIE, str(tiny), str(data), str(unbroken), "never", *how)
    assert finished.returncode == 0, finished.stderr
    killed = warm.run(DIE, str(tiny), str(data), str(output), "saving-24", *how)
    assert killed.returncode == -9, killed.stderr
    resumed = warm.run(DIE, str(tiny), str(data), str(output), "never", *how)
    assert resumed.returncode == 0, resumed.stderr
    names = ["model.safetensors", "checkpoint-37/model.safetensors", "checkpoint-37/optimizer.pt"]
    if defence == "smart":
        names.append(f"checkpoint-37/{DEFENCE_FILE}")
    for name in names:
        assert sha256(output / name) == sha256(unbroken / name), name


def test_smarts_teacher_is_in_the_checkpoint_and_comes_back(
    settings: Callable[..., FinetuneSettings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(**changes: object) -> FinetuneSettings:
        return settings(defence="smart", options={"warm_momentum": 0.5}, max_steps=12, save_steps=4, **changes)

    finetune(begin(output=tmp_path / "unbroken"))
    step = ClassifierTrainer.training_step

    def breaks(self: ClassifierTrainer, *args: object, **kwargs: object) -> torch.Tensor:
        if self.state.global_step == 10:
            raise KeyboardInterrupt
        return step(self, *args, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(ClassifierTrainer, "training_step", breaks)
        with pytest.raises(KeyboardInterrupt):
            finetune(begin())
    teacher = load_file(tmp_path / "out" / "checkpoint-8" / DEFENCE_FILE)
    weights = load_file(tmp_path / "out" / "checkpoint-8" / "model.safetensors")
    assert teacher.keys() == weights.keys()
    assert not torch.equal(teacher["classifier.weight"], weights["classifier.weight"])
    before = load_file(tmp_path / "out" / "checkpoint-4" / DEFENCE_FILE)
    assert not torch.equal(teacher["classifier.weight"], before["classifier.weight"]), "it does not follow"
    finetune(begin(), resume=True)
    for name in ("model.safetensors", f"checkpoint-12/{DEFENCE_FILE}"):
        assert sha256(tmp_path / "out" / name) == sha256(tmp_path / "unbroken" / name), name


def test_another_option_is_not_resumed(settings: Callable[..., FinetuneSettings]) -> None:
    from holdfast.errors import UserError

    finetune(settings(defence="pgd", max_steps=2, save_steps=1))
    (settings().folder / "config.json").unlink()
    with pytest.raises(UserError, match=r"defence_options radius was 0\.3 and is now 0\.5"):
        finetune(settings(defence="pgd", options={"radius": "0.5"}, max_steps=2, save_steps=1), resume=True)
