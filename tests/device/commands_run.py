"""Run by test_device_commands.py in a process of its own: whole commands on the second device beside the CPU."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from places import CPU, THERE, on
from safetensors.torch import load_file
from second_device import register

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))

from small_world import World, jobs, make_world

from holdfast.audit import poisoning_item
from holdfast.classifiers.classifier_trainer import ClassifierTrainer
from holdfast.cli import main
from holdfast.pretraining.pretrain_trainer import PretrainTrainer

register()

DIFFERS = {
    *("created", "timing", "command", "environment", "elapsed", "time", "train_runtime", "tokens_per_second"),
    "model_files",
    "megabytes",  # see `compare`
}
"""What two runs of one command need not agree on."""
_TIMED = re.compile("sha256|per_second|_seconds|_runtime")


def world(folder: str) -> World:
    """The small world of tests/faults with a small WordNet; it is the working folder from now on."""
    made = make_world(Path(folder))
    synsets = [
        *("n\tman|woman|child", "n\tdog|cat", "v\trun|sleep|eat", "v\tplay|sing"),
        *("n\tpark|house|bed", "a\tred|big"),
    ]
    files = {
        "synsets.tsv": "\n".join(["pos\tlemmas", *synsets]) + "\n",
        "exceptions.tsv": "pos\tinflected\tlemmas\n",
    }
    (made.data / "wordnet").mkdir()
    (made.data / "synonyms").mkdir()
    neighbours = "word\tneighbors\ndog\tcat man\nruns\tplays sings\nred\tbig old\nhouse\tbed park\n"
    (made.data / "synonyms" / "counterfitted_neighbors.tsv.gz").write_bytes(gzip.compress(neighbours.encode()))
    for name, text in files.items():
        (made.data / "wordnet" / name).write_text(text, encoding="utf-8")
    os.environ |= {"HOLDFAST_CACHE": str(made.folder / "cache"), "HOLDFAST_DATA": str(made.data), "HF_HUB_OFFLINE": "1"}
    os.chdir(made.folder)
    poisoning_item.CONSTANTS["steps"] = 4  # as tests/conftest.py has it in the process of pytest
    return made


RECIPES = "typos,textfooler,textbugger,pwws,bae-r,bertattack,geometry"


def commands(made: World) -> dict[str, list[str]]:
    """A short run of each command that computes anything with a model, into ``out`` or ``out.json``."""
    lm, classifier, corpus = str(made.model), str(made.classifier), ["--corpus", str(made.corpus)]
    texts, kept = ["--texts", str(made.corpus)], ["--examples", "3", "--precision", "fp32", "--output", "out.json"]
    light = ["--resources", "light", "--masked-lm", lm, "--similarity", lm, *kept]
    flow = ["--set", "levels=1", "--set", "depth=1", "--set", "width=8", "--set", "batch_size=16"]
    return {
        **{name: words for name, words in jobs(made).items() if name in ("train", "pretrain")},
        "evaluate": ["evaluate", lm, "--tasks", "stsb,space,sst2", "--output", "out.json"],
        "audit": ["audit", lm, *texts, "--texts-per-item", "16", "--tagger", "textblob", *kept],
        "space": ["space", lm, "--output", "out.json"],
        "masks": ["masks", lm, "--text", "the dog sleeps", "--draws", "2", "--set", "layers=1", "--output", "out.json"],
        "whitening": ["baseline", "whitening", "--model", lm, *corpus, "--output", "out"],
        "flow": ["baseline", "flow", "--model", lm, *corpus, *flow, "--output", "out"],
        "classifier": ["attack", classifier, "--task", "sst2", "--recipes", RECIPES, *light],
        "pairs": ["attack", classifier, "--task", _pairs(made), "--recipes", "typos,pwws", *light],
        "scores": ["attack", lm, "--task", "stsb", "--recipes", "typos,textfooler", *light],
        "encoder": ["attack", lm, *texts, "--recipes", "typos,geometry", *light],
        "neighbours": [
            *("attack", lm, *texts, "--goal", "neighbours", "--search", str(made.corpus), "--recipes", "typos,pwws"),
            *light,
        ],
        "harden": [
            *(
                "harden",
                lm,
                "--pooling",
                "mean",
                *corpus,
                "--synonyms",
                "none",
                "--no-audit",
                "--max-steps",
                "3",
                "--batch-size",
                "8",
            ),
            *("--set", "adversarial=0.5", "--precision", "fp32", "--output", "out"),
        ],
    }


def _pairs(made: World) -> str:
    """Write a task of pairs of texts, and return its file."""
    sentences = made.corpus.read_text(encoding="utf-8").splitlines()
    rows = [f"{one}\t{two}\t{number % 2}" for number, (one, two) in enumerate(itertools.pairwise(sentences))]
    path = made.folder / "pairs.tsv"
    path.write_text("\n".join(["sentence1\tsentence2\tlabel", *rows]) + "\n", encoding="utf-8")
    return str(path)


def runs_alike(name: str, folder: str) -> None:
    """A command ends in the same numbers on both."""
    made = world(folder)
    words = commands(made)[name]
    first, second = (_run(place, lambda: main(words)) for place in (CPU, THERE))
    compare(first, second)


def defends_alike(name: str, folder: str, *options: str) -> None:
    """So does fine-tuning with a defence; and a run that was broken off on either goes on on the other.

    That is tried without a defence, and with the one that has a state of its own.
    """
    made = world(folder)
    words = [
        *("finetune", str(made.model), "--task", "sst2", "--max-steps", "4", "--batch-size", "16", "--save-steps", "2"),
        *("--defence", name, *(f"--set={option}" for option in options), "--learning-rate", "1e-3"),
        *("--precision", "fp32", "--output", "out"),
    ]
    first, second = (_run(place, lambda: main(words)) for place in (CPU, THERE))
    compare(first, second)
    for begun, ended in ((THERE, CPU), (CPU, THERE)) if name in ("none", "smart") else ():
        with mock.patch.object(ClassifierTrainer, "training_step", _broken_off(ClassifierTrainer.training_step, at=3)):
            _run(begun, lambda: main(words), keep=True, code=130)
        ended_in = _run(ended, lambda: main([*words, "--resume"]))
        del ended_in["metrics.jsonl"]  # it says where the run was broken off
        compare({name: value for name, value in first.items() if name in ended_in}, ended_in)


def is_not_resumed_in_other_groups(folder: str) -> None:
    """A pretraining run is refused on a device on which its steps would see other sentences; the line says so."""
    made = world(folder)
    words = [*commands(made)["pretrain"], "--batch-tokens", "256"]
    with mock.patch.object(PretrainTrainer, "training_step", _broken_off(PretrainTrainer.training_step, at=4)):
        _run(CPU, lambda: main(words), keep=True, code=130)
    message = io.StringIO()
    with contextlib.redirect_stderr(message), on(THERE):
        assert main([*words, "--resume"]) == 2
    assert "training group_tokens was 32 and is now 64" in message.getvalue(), message.getvalue()
    _run(CPU, lambda: main([*words, "--resume"]))


def waits_of_a_step(name: str, folder: str, *options: str) -> None:
    """Print what the CPU waits for in the fourth step of a pretraining, or of fine-tuning with a defence."""
    made = world(folder)
    if name == "pretrain":
        trainer, words = PretrainTrainer, commands(made)["pretrain"]
    else:
        trainer = ClassifierTrainer
        words = [
            *("finetune", str(made.model), "--task", "sst2", "--max-steps", "4", "--batch-size", "16"),
            *("--defence", name, *(f"--set={option}" for option in options), "--precision", "fp32", "--output", "out"),
        ]
    step, message = trainer.training_step, [""]
    with on(THERE) as waits:
        assert waits is not None

        def counted(self: Any, *given: Any, **named: Any) -> torch.Tensor:
            waits.clear()
            total = step(self, *given, **named)
            if self.state.global_step == 3:
                message[0] = f"{waits.describe()}\ntotal {waits.total}"
            return total

        with mock.patch.object(trainer, "training_step", counted):
            assert main(words) == 0
    print(message[0])


def _broken_off(step: Callable[..., torch.Tensor], *, at: int) -> Callable[..., torch.Tensor]:
    """A training step that Ctrl-C comes before, once so many have been made."""

    def breaks(self: Any, *given: Any, **named: Any) -> torch.Tensor:
        if self.state.global_step == at:
            raise KeyboardInterrupt
        return step(self, *given, **named)

    return breaks


def _run(place: str, command: Callable[[], int], *, keep: bool = False, code: int = 0) -> dict[str, Any]:
    """What a command leaves: its result, its log and its weights; the output is removed unless it is to be kept."""
    with on(place):
        assert command() == code
    left: dict[str, Any] = {}
    for path in (Path("out.json"), Path("out/results.json"), Path("out/metrics.jsonl")):
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines() if path.suffix == ".jsonl" else [path.read_text()]
            left[path.name] = [json.loads(line) for line in lines]
    for path in sorted(Path("out").rglob("*.safetensors")):
        if "checkpoint" not in str(path):
            left[str(path)] = load_file(path)
    if not keep:
        assert left, "a command that leaves nothing compares nothing"
        shutil.rmtree("out", ignore_errors=True)
        for path in Path().glob("out*json*"):
            path.unlink()
    return left


def compare(first: Any, second: Any, where: str = "") -> None:
    """What two runs left agrees, but for the last digits."""
    if isinstance(first, dict):
        for name in [name for name in first if name not in DIFFERS and not _TIMED.search(name)]:
            if not name.endswith("key.bias"):  # no output depends on it: its gradient is nothing but rounding
                compare(first[name], second[name], f"{where}/{name}")
        # Tensors that are tied are two once they come back from this device, unlike from a GPU.
        more = second.keys() - first.keys() if where.endswith(".safetensors") else set()
        assert first.keys() == second.keys() - more, where
    elif isinstance(first, list):
        assert len(first) == len(second), where
        for number, (one, other) in enumerate(zip(first, second, strict=True)):
            compare(one, other, f"{where}/{number}")
    elif isinstance(first, torch.Tensor):
        torch.testing.assert_close(first, second, atol=1e-3, rtol=1e-3, msg=lambda text: f"{where}: {text}")
    elif isinstance(first, float):
        assert np.isclose(first, second, rtol=5e-3, atol=1e-3, equal_nan=True), f"{where}: {first} and {second}"
    else:
        assert first == second, f"{where}: {first} and {second}"
