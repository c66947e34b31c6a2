"""Everything that small runs of every verb take: models, a corpus, labelled tasks. All made here, in seconds."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import torch

TABLE = """\
title: Small
source: a test
rows:
  encoder:
    SimCSE: {encoder: {method: simcse, max_steps: 3, batch_size: 8, precision: fp32, selection: last}}
columns:
  Acc.: {classifier: &sst2 {task: sst2, max_steps: 4, batch_size: 16, learning_rate: 0.005, precision: fp32},
         measure: accuracy}
  Typos: {classifier: *sst2, attack: {recipe: typos, examples: 4, precision: fp32}, measure: success_rate}
published: {SimCSE: [90, 80]}
"""
OTHERS = "the a man woman child runs sleeps eats plays sings on under in park house bed red big old".split()
WORDS = [*OTHERS, "dog", "cat"]


@dataclass(frozen=True)
class World:
    """Where things lie.

    Attributes:
        folder: all of it.
        model: a masked LM of one layer.
        classifier: the same with a random head of two classes.
        corpus: 60 sentences.
        data: sst2, stsb dev and test.
        table: a table of an encoder, its classifier, and an attack.
        trained: where the result of the job `train` lies, once it has been run in the folder ``made``.
    """

    folder: Path

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def classifier(self) -> Path:
        return self.folder / "classifier"

    @property
    def corpus(self) -> Path:
        return self.folder / "corpus.txt"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def table(self) -> Path:
        return self.folder / "small.yaml"

    @property
    def trained(self) -> Path:
        return self.folder / "made" / "out" / "results.json"


def make_world(folder: Path) -> World:
    """Make it all in an empty folder."""
    world, draw = World(folder), random.Random(0)
    _make_models(world)
    lines = [_sentence(draw, draw.choice(["cat", "dog"])) for _ in range(60)]
    world.corpus.write_text("\n".join(lines) + "\n", encoding="utf-8")
    world.table.write_text(TABLE, encoding="utf-8")
    for split, count in {"train": 96, "dev": 24, "test": 24}.items():
        labelled = [(_sentence(draw, ["cat", "dog"][n % 2]), str(n % 2)) for n in range(count)]
        _write(world.data / "sst2" / f"{split}.tsv", ("sentence", "label"), labelled)
    for split in ("dev", "test"):
        pairs = [(_sentence(draw), _sentence(draw), str(draw.randint(0, 50) / 10)) for _ in range(30)]
        _write(world.data / "stsb" / f"{split}.tsv", ("sentence1", "sentence2", "score"), pairs)
    return world


def jobs(world: World) -> dict[str, list[str]]:
    """A command of each kind, as short as it can be while it saves, selects and exports; relative to its folder."""
    steps = ["--save-steps", "3", "--precision", "fp32"]
    selected = ["--max-steps", "11", "--batch-size", "8", "--eval-steps", "4", "--no-report-sts"]
    corpus = ["--corpus", str(world.corpus)]
    tiny = ["--layers", "1", "--hidden", "16", "--heads", "2", "--vocabulary", "90", "--batch-tokens", "128"]
    data = ["--data", str(world.data)]
    return {
        "train": ["train", "simcse", "--model", str(world.model), *corpus, *data, *selected, *steps, "--output", "out"],
        "finetune": [
            *("finetune", str(world.model), "--task", "sst2", *data, "--epochs", "2", "--batch-size", "16", *steps),
            *("--learning-rate", "5e-3", "--output", "out"),
        ],
        "pretrain": ["pretrain", *corpus, *tiny, "--max-steps", "8", "--max-length", "32", *steps, "--output", "out"],
        "attack": [
            *("attack", str(world.classifier), "--task", "sst2", *data, "--recipes", "typos", "--side-by-side", "2"),
            *("--precision", "fp32", "--output", "out.json"),
        ],
        "evaluate": ["evaluate", str(world.model), "--tasks", "stsb,space", *data, "--output", "out.json"],
        "harden": [
            *("harden", str(world.model), "--pooling", "mean", *corpus, *data, "--synonyms", "none"),
            *("--max-steps", "8", "--batch-size", "8", *steps, "--texts", str(world.corpus), "--examples", "2"),
            *("--output", "out"),
        ],
        "audit": [
            *("audit", str(world.model), "--texts", str(world.corpus), "--examples", "2", *data),
            *("--output", "out.json"),
        ],
        "baseline": [
            *("baseline", "flow", "--model", str(world.model), *corpus, "--set", "batch_size=16", "--output", "out"),
        ],
        "masks": [
            *("masks", str(world.model), "--text", "the dog sleeps", "--draws", "2", "--set", "layers=1"),
            *("--output", "out.json"),
        ],
        "space": ["space", str(world.model), *data, "--output", "out.json"],
        "report": ["report", str(world.trained), "--output", "out.html", "--plots", "plots"],
        "reproduce": [
            *("reproduce", str(world.table), "--scale", "paper", "--model", str(world.model), *corpus, *data),
            *("--resources", "light", "--output", "out"),
        ],
    }


JOBS = (
    *("train", "finetune", "pretrain", "attack", "evaluate", "harden", "audit", "baseline", "masks", "space"),
    *("report", "reproduce"),
)
RESUMABLE = ("train", "finetune", "pretrain", "attack", "audit", "harden")
ANEW = ("baseline",)
"""Jobs that take an empty folder: what a broken one has left is removed by whoever starts it again."""


def _make_models(world: World) -> None:
    from transformers import AutoModelForSequenceClassification, BertConfig, BertForMaskedLM, BertTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}, model_max_length=64)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(tokens), max_position_embeddings=64, initializer_range=0.5, **shape)
    BertForMaskedLM(config).save_pretrained(world.model)
    tokenizer.save_pretrained(world.model)
    names = {0: "0", 1: "1"}
    classifier = AutoModelForSequenceClassification.from_pretrained(
        world.model, num_labels=2, id2label=names, label2id={name: i for i, name in names.items()}
    )
    torch.nn.init.normal_(classifier.classifier.weight, std=0.7)
    classifier.save_pretrained(world.classifier)
    tokenizer.save_pretrained(world.classifier)


def _sentence(draw: random.Random, *more: str) -> str:
    words = [*draw.choices(OTHERS, k=draw.randint(4, 9)), *more]
    draw.shuffle(words)
    return " ".join(words)


def _write(path: Path, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(row) + "\n" for row in (header, *rows)), encoding="utf-8")
