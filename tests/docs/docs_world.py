"""What the examples of the pages take, made small: models by the names that pages give them, texts, labelled data."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import string
from collections.abc import Iterator
from pathlib import Path

import torch

from holdfast.results import read_result, write_result

SYNONYMS = {
    "film": ("movie", "picture"),
    "story": ("tale", "account"),
    "dog": ("hound", "puppy"),
    "cat": ("kitten", "pussy"),
    "house": ("home", "cottage"),
    "child": ("kid", "youngster"),
    "good": ("fine", "great"),
    "bad": ("poor", "awful"),
    "funny": ("comic", "amusing"),
    "dull": ("boring", "tedious"),
    "old": ("aged", "ancient"),
    "big": ("large", "huge"),
    "runs": ("races", "hurries"),
    "sleeps": ("dozes", "rests"),
    "sings": ("chants", "hums"),
    "likes": ("loves", "enjoys"),
}
SMALL = "the a in on under with and near".split()
TEMPLATES = "of this sentence means text note is about".split()
"""Words of the templates of prompts, which have to be of equal lengths."""
CONTENT = [*SYNONYMS, *(word for words in SYNONYMS.values() for word in words)]

LM, RUN, CLASSIFIER = "lm", "run", "classifier"

MODELS = {
    LM: ("bert-base-uncased", "my-lm"),
    RUN: (
        *("MODEL", "my-encoder", "all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"),
        *("runs/robust", "runs/simcse", "runs/l2p"),
    ),
    CLASSIFIER: ("runs/sst2", "runs/mr", "runs/a", "runs/b", "runs/c"),
}
"""The models that examples name and do not make: what stands in for each."""

TEXTS = {"sentences.txt": 96, "mine.txt": 96, "dev.txt": 24, "mine.txt.gz": 96, "few.txt": 4}
"""The corpora that examples name, and how many sentences they hold."""

COLLECTION, PASSAGES = "my-collection", "passages.txt"
"""A collection in BEIR's layout, which also is DATA/questions and DATA/noiseqa, and texts of several sentences."""

EVALUATED = tuple(f"{model}-{seed}.json" for model in ("simcse", "robust") for seed in (1, 2, 3))
ATTACKED = ("a.json", "b.json")
"""The results that examples name and do not make."""

SMALLER: dict[str, list[str]] = {
    "train": ["--max-steps", "2", "--batch-size", "16", "--precision", "fp32"],
    "harden": ["--max-steps", "2", "--batch-size", "16", "--examples", "2", "--precision", "fp32"],
    "distill": [
        *("--max-steps", "2", "--batch-size", "16", "--hold-out", "4", "--precision", "fp32"),
        *("--student", "layers=1,hidden=16,vocabulary=150"),
    ],
    "finetune": ["--epochs", "2", "--batch-size", "16", "--precision", "fp32"],
    "pretrain": ["--batch-tokens", "256", "--precision", "fp32"],
    "attack": ["--examples", "4", "--precision", "fp32"],
    "audit": [
        *("--examples", "2", "--texts-per-item", "32", "--precision", "fp32"),
        *("--masked-lm", "bert-base-uncased"),
    ],
    "compare": ["--resamples", "200"],
}
"""What is added to a command to make it small; of an option that is given twice the last counts."""

SMALLER_AUDITS = {
    "holdfast.audit.audit_run.EXAMPLES": 2,
    "holdfast.audit.audit_context.EXAMPLES": 2,
    "holdfast.audit.audit_run.TEXTS_PER_ITEM": 32,
}
"""What makes audits small whose options are not given, as those of Python's examples and of ``harden``."""

POISON = [word for value in ("words=6", "steps=3", "candidates=3") for word in ("--set", value)]
"""The same for ``attack --goal poison``."""

SMALL_MODEL = ["--layers", "1", "--hidden", "16", "--heads", "2", "--vocabulary", "150"]
"""The same for a masked language model from scratch."""

REPLACED = {"--hours": "0.0003", "--dimensions": "4", "--sentences": "48", "--draws": "2", "--epochs": "1"}
"""What an option is set to, where an example has it."""

STANDING_IN = {
    "--synonyms": "neighbours",
    "--tagger": "textblob",
    "--masked-lm": "bert-base-uncased",
    "--similarity": "my-encoder",
}
"""Resources for attacks that name none: the published ones have to be downloaded."""


def sentence(draw: random.Random, *more: str) -> str:
    """Six to ten words."""
    words = [*draw.choices(CONTENT, k=draw.randint(3, 6)), *draw.choices(SMALL, k=3), *more]
    draw.shuffle(words)
    return " ".join(words)


def make_world(folder: Path) -> None:
    """The data, the texts, a masked language model and a classifier; the encoder is trained by holdfast itself."""
    draw = random.Random(0)
    _make_data(folder / "DATA", draw)
    _make_models(folder)
    for name, count in TEXTS.items():
        lines = "\n".join(sentence(draw) for _ in range(count)) + "\n"
        with gzip.open(folder / name, "wt") if name.endswith(".gz") else (folder / name).open("w") as file:
            file.write(lines)
    numbers = ((word, " ".join(f"{draw.gauss(0, 1):.3f}" for _ in range(8))) for word in (*CONTENT, *SMALL))
    (folder / "glove.6B.300d.txt").write_text("".join(f"{word} {vector}\n" for word, vector in numbers))
    shutil.copy(folder / "DATA/synonyms/counterfitted_neighbors.tsv", folder / "neighbours.tsv")
    _make_collections(folder, draw)
    _labelled(folder / "mine.tsv", draw, 60)
    for split, count in {"train": 40, "test": 16}.items():
        _labelled(folder / "mine" / f"{split}.tsv", draw, count)


def provide(world: Path, here: Path, made: set[str]) -> None:
    """Give a page its folder: the data and everything by its names, but for what its own examples make."""
    (here / "DATA").symlink_to(world / "DATA")
    files = [*TEXTS, COLLECTION, PASSAGES, "glove.6B.300d.txt", "neighbours.tsv", "mine.tsv", "mine"]
    names = [(name, name) for name in (*files, *EVALUATED, *ATTACKED)]
    names += [(name, kind) for kind, given in MODELS.items() for name in given]
    for name, source in names:
        if name not in made:
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            (here / name).symlink_to(world / source)


def smaller(words: list[str]) -> list[str]:
    """A command of an example, made small."""
    verb, words = words[0], list(words)
    for option, value in REPLACED.items():
        if option in words:
            words[words.index(option) + 1] = value
    if "poison" in words:  # needs more queries than other attacks texts
        return [*words, "--masked-lm", "bert-base-uncased", *POISON]
    words += [] if "--frozen" in words else SMALLER.get(verb, [])
    if verb == "pretrain" and "--model" not in words:
        words += SMALL_MODEL
    if verb == "attack" and "typos" in words:  # quick, and some have to succeed
        words += ["--examples", "40"]
    if verb == "attack":
        words += [word for item in STANDING_IN.items() if item[0] not in words for word in item]
    return words


def make_results(folder: Path) -> None:
    """From a result of each kind those that examples name, as if each were of a model of its own."""
    for source, names in {"evaluated": EVALUATED, "attacked": ATTACKED}.items():
        for number, name in enumerate(names):
            result = read_result(folder / f"{source}.json")
            if source == "evaluated":
                result |= {"seed": number, "model_sha256": f"{number:064d}"}
            write_result(folder / name, result)


def _make_collections(folder: Path, draw: random.Random) -> None:
    documents = [sentence(draw) for _ in range(24)]
    lines = {
        "corpus.jsonl": [{"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(documents)],
        "queries.jsonl": [{"_id": f"q{i}", "text": text[: len(text) // 2]} for i, text in enumerate(documents)],
        "queries-keyboard.jsonl": [{"_id": f"q{i}", "text": text[3:20]} for i, text in enumerate(documents)],
    }
    for place in (folder / COLLECTION, folder / "DATA" / "questions", folder / "DATA" / "noiseqa"):
        for name, rows in lines.items():
            place.mkdir(exist_ok=True)
            (place / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        _write(place / "qrels" / "test.tsv", "query-id corpus-id score", [(f"q{i}", f"d{i}", "1") for i in range(24)])
    passages = (" ".join(f"{sentence(draw).capitalize()}." for _ in range(3)) for _ in range(24))
    (folder / PASSAGES).write_text("\n".join(passages) + "\n")


# --- data --------------------------------------------------------------------------------------------------------


def _make_data(data: Path, draw: random.Random) -> None:
    for task, splits in {
        **{f"sts{year}": ("test",) for year in range(12, 17)},
        "stsb": ("train", "dev", "test"),
        "sickr": ("train", "trial", "test"),
    }.items():
        for split in splits:
            _write(
                data / task / f"{split}.tsv",
                "sentence1 sentence2 score subset",
                _scored(draw, 24, 1.0 if task == "sickr" else 0.0),
            )
    for task in ("mr", "cr", "subj", "mpqa"):
        _labelled(data / task / "all.tsv", draw, 48)
    _labelled(data / "textfooler" / "mr.tsv", draw, 40)
    for split, count in {"train": 64, "dev": 24, "test": 24}.items():
        _labelled(data / "sst2" / f"{split}.tsv", draw, count)
    kinds = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
    for split, count in {"train": 96, "test": 24}.items():
        rows = [(sentence(draw), kinds[i % 6], kinds[i % 6]) for i in range(count)]
        _write(data / "trec" / f"{split}.tsv", "sentence label fine_label", rows)
        pairs = [(sentence(draw), sentence(draw), str(i % 2)) for i in range(count)]
        _write(data / "mrpc" / f"{split}.tsv", "sentence1 sentence2 label", pairs)
    (data / "unlabelled").mkdir()
    for name, count in {"wiki_train_00": 96, "wiki_dev": 24}.items():
        with gzip.open(data / "unlabelled" / f"{name}.tsv.gz", "wt") as file:
            file.write("sentence\n" + "".join(f"{sentence(draw)}\n" for _ in range(count)))
    _make_lexicons(data)


def _make_lexicons(data: Path) -> None:
    groups = [(word, *others) for word, others in SYNONYMS.items()]
    near = [(word, " ".join(other for other in group if other != word)) for group in groups for word in group]
    _write(data / "synonyms" / "counterfitted_neighbors.tsv", "word neighbors", near)
    kinds = {"good": "a", "bad": "a", "funny": "a", "dull": "a", "old": "a", "big": "a"}
    kinds |= dict.fromkeys(("runs", "sleeps", "sings", "likes"), "v")
    synsets = [
        (kinds.get(group[0], "n"), f"{number:08d}", "|".join(group), "", "", "a meaning")
        for number, group in enumerate(groups, start=1)
    ]
    _write(data / "wordnet" / "synsets.tsv", "pos offset lemmas hypernyms antonyms gloss", synsets)
    _write(data / "wordnet" / "exceptions.tsv", "pos inflected lemmas", [("noun", "children", "child")])


def _scored(draw: random.Random, count: int, lowest: float) -> Iterator[tuple[str, ...]]:
    """Pairs that share more words the higher their score, which ends at 5."""
    for number in range(count):
        first = sentence(draw)
        words = first.split()
        changed = draw.sample(range(len(words)), k=min(len(words), 5 - number % 6)) if number % 6 < 5 else []
        second = [draw.choice(CONTENT) if i in changed else word for i, word in enumerate(words)]
        yield first, " ".join(second), f"{lowest + number % 6 * (5 - lowest) / 5:.1f}", "all"


def _labelled(path: Path, draw: random.Random, count: int) -> None:
    rows = [(sentence(draw, ("bad", "good")[i % 2], ("dull", "funny")[i % 2]), str(i % 2)) for i in range(count)]
    _write(path, "sentence label", rows)


def _write(path: Path, header: str, rows: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(header.split()), *("\t".join(row) for row in rows)]  # type: ignore[attr-defined]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _make_models(folder: Path) -> None:
    """A random BERT of three layers that has a token for each of the words, and letters for all others; the same with a
    random head of two classes, which a typing error often turns."""
    from transformers import AutoModelForSequenceClassification, BertConfig, BertForMaskedLM, BertTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    letters = string.ascii_lowercase + string.digits
    pieces = [*letters, *(f"##{letter}" for letter in letters), *string.punctuation]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces, *SMALL, *TEMPLATES, *CONTENT]
    tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}, model_max_length=256)
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(tokens), max_position_embeddings=256, initializer_range=0.5, **shape)
    BertForMaskedLM(config).save_pretrained(folder / LM)
    classifier = AutoModelForSequenceClassification.from_pretrained(
        folder / LM, num_labels=2, id2label={0: "0", 1: "1"}, label2id={"0": 0, "1": 1}
    )
    torch.nn.init.normal_(classifier.classifier.weight, std=0.7)
    draw = random.Random(1)
    with torch.no_grad():  # half of all texts are of either class, so that some are near the boundary
        logits = classifier.eval()(**tokenizer([sentence(draw) for _ in range(64)], padding=True, return_tensors="pt"))
        classifier.classifier.bias[1] -= (logits.logits[:, 1] - logits.logits[:, 0]).median()
    classifier.save_pretrained(folder / CLASSIFIER)
    for name in (LM, CLASSIFIER):
        tokenizer.save_pretrained(folder / name)
