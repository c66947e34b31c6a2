"""The table of architectures and verbs in docs/architectures.md: python tests/docs/architecture_table.py.

Each cell is one command on a small random model. A cell is "yes" or a reference to the line that refuses it; any other
exit code, or an error that is not one line, is an error here. `test_docs_architectures.py` compares the page.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from architectures import DECODERS, WORDS, save_transformer, word_tokenizer

PAGE = Path(__file__).parents[2] / "docs/architectures.md"
_PART = re.compile(r"(?<=<!-- architectures -->\n).*?(?=<!-- /architectures -->)", re.DOTALL)

ARCHITECTURES = {
    "BERT": "bert",
    "RoBERTa": "roberta",
    "XLM-RoBERTa": "xlm-roberta",
    "DistilBERT": "distilbert",
    "MPNet": "mpnet",
    "ELECTRA": "electra",
    "ALBERT": "albert",
    "DeBERTa-v2": "deberta-v2",
    "ModernBERT": "modernbert",
    "NomicBERT": "nomic_bert",
    "CLIP (text)": "clip_text_model",
    "Qwen3": "qwen3",
    "Llama": "llama",
    "Mistral": "mistral",
    "Gemma3": "gemma3",
    "Gemma3 (bidirectional)": "gemma3-bidirectional",
    "Granite": "granite",
    "Router (two BERTs)": "router",
    "StaticEmbedding": "static",
    "BERT, LoRA adapter": "adapter of bert",
    "Qwen3, LoRA adapter": "adapter of qwen3",
}
"""The kinds of models by their names on the page."""

_TRAINED = ["--corpus", "texts.txt", "--max-steps", "1", "--batch-size", "8", "--precision", "fp32"]
_ATTACK = ["attack", "MODEL", "--texts", "texts.txt", "--examples", "2", "--precision", "fp32", "--recipes"]
_RESOURCES = ["--synonyms", "near.tsv", "--tagger", "textblob", "--similarity", "MODEL", "--masked-lm", "bundled-mlm"]
_AUDIT = ["--items", "full-stop,typing", "--texts-per-item", "4", "--examples", "1", "--precision", "fp32"]
COMMANDS: dict[str, list[str]] = {
    "evaluate": ["evaluate", "MODEL", "--tasks", "stsb", "--data", "DATA"],
    "audit": ["audit", "MODEL", "--texts", "texts.txt", *_AUDIT],
    "attack": [*_ATTACK, "typos"],
    "attack with gradients": [*_ATTACK, "geometry", *_RESOURCES],
    "train": ["train", "simcse", "--model", "MODEL", *_TRAINED, "--no-report-sts", "--output", "trained"],
    "harden": ["harden", "MODEL", *_TRAINED, "--no-audit", "--hold-out", "4", "--output", "hardened"],
    "distill": ["distill", "MODEL", *_TRAINED, "--student", "layers=1", "--hold-out", "4", "--output", "student"],
}
"""The command of each column; the last column, export, loads what the trainings wrote in sentence-transformers."""
EXPORT, OUTPUTS = "export", ("trained", "hardened", "student")
_DROPOUT = ["--dropout", "0.1"]


# --- models and texts --------------------------------------------------------------------------------------------


def save_model(folder: Path, kind: str) -> None:
    """Write a small random SentenceTransformer."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Router, StaticEmbedding

    torch.manual_seed(0)
    modules: list[Any]
    if kind.startswith("adapter of "):
        save_adapter(folder, kind.removeprefix("adapter of "))
        return
    if kind == "static":
        modules = [StaticEmbedding(word_tokenizer().backend_tokenizer, embedding_dim=16)]
    elif kind == "router":
        sides = {f"{side}_modules": [*_pooled(folder / side, "bert", "mean")] for side in ("query", "document")}
        modules = [Router.for_query_document(**sides, default_route="document")]
    else:
        modules = [*_pooled(folder / "base", kind, "lasttoken" if kind in DECODERS else "mean")]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder / "MODEL"))


def save_adapter(folder: Path, kind: str) -> None:
    """Write a base model of a kind, and a folder with adapters of it that change its vectors."""
    from sentence_transformers import SentenceTransformer

    from holdfast.adapters import Lora, add_lora, save_with_base

    save_model(folder, kind)
    base = (folder / "MODEL").rename(folder / "whole")
    model = SentenceTransformer(str(base), device="cpu")
    add_lora(model, Lora(r=2), str(base))
    for name, parameter in model.named_parameters():
        if ".lora_B." in name:
            torch.nn.init.normal_(parameter, std=0.1)
    save_with_base(model, folder / "MODEL")


def _pooled(folder: Path, kind: str, pooling: str) -> Iterator[Any]:
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    yield Transformer(str(save_transformer(folder, kind, layers=2)))
    yield Pooling(16, pooling)


def save_texts(folder: Path) -> None:
    """Write texts without labels, scored pairs and synonyms."""
    texts = [
        f"{a} {b} {c} in the {d} {e}" for a, b, c, d, e in zip(*(WORDS[i:] + WORDS[:i] for i in range(5)), strict=True)
    ]
    (folder / "texts.txt").write_text("\n".join(texts) + "\n")
    (folder / "near.tsv").write_text("word\tneighbors\n" + "".join(f"{a}\t{b}\n" for a, b in itertools.pairwise(WORDS)))
    (folder / "DATA/stsb").mkdir(parents=True)
    rows = [f"{a}\t{b}\t{i % 6}" for i, (a, b) in enumerate(itertools.pairwise(texts))]
    (folder / "DATA/stsb/test.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *rows]) + "\n")


# --- cells -------------------------------------------------------------------------------------------------------


def cells(kind: str, folder: Path) -> dict[str, str]:
    """Run the commands on a model of one kind in a new folder; return "yes" or the line that refuses it, by column."""
    save_texts(folder)
    with quiet():
        save_model(folder, kind)
    found: dict[str, str] = {}
    with inside(folder):
        for column, words in COMMANDS.items():
            found[column] = outcome(words)
            if "--dropout" in found[column] and outcome([*words, *_DROPOUT]) == "yes":
                found[column] = "with `--dropout`"
        found[EXPORT] = exported([name for name in OUTPUTS if Path(name, "modules.json").is_file()])
    return found


def outcome(words: list[str]) -> str:
    """Return "yes" if a command succeeds, else the line that refuses it.

    Raises:
        AssertionError: it ended in another way, or the error is not one line.
    """
    from holdfast.cli import main

    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = main(words)
    lines = [line for line in errors.getvalue().splitlines() if line.strip()]
    if code == 0:
        return "yes"
    assert code == 2, (words, code, errors.getvalue())
    assert lines, words
    assert "Traceback" not in errors.getvalue(), errors.getvalue()
    assert lines[-1].startswith("holdfast: "), errors.getvalue()
    return lines[-1].removeprefix("holdfast: ")


def exported(outputs: list[str]) -> str:
    """Return "yes" if sentence-transformers loads each output and gives holdfast's vectors; "" without outputs."""
    from sentence_transformers import SentenceTransformer

    from holdfast.encoding import encode_sentences
    from holdfast.models import load_sentence_transformer

    texts = Path("texts.txt").read_text().splitlines()[:8]
    for output in outputs:
        with quiet():
            plain = SentenceTransformer(output, device="cpu").encode(texts)
            own = encode_sentences(load_sentence_transformer(output, device="cpu"), texts)
        np.testing.assert_allclose(own, plain, rtol=1e-5, atol=1e-5 * float(np.abs(plain).max()))
    return "yes" if outputs else ""


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder, without outside data and with a cache of its own."""
    here, before = Path.cwd(), dict(os.environ)
    os.chdir(folder)
    os.environ.pop("HOLDFAST_DATA", None)
    os.environ |= {"HOLDFAST_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    try:
        yield
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Print nothing."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


# --- the page ----------------------------------------------------------------------------------------------------


def row(name: str, found: dict[str, str]) -> str:
    """Return the row of an architecture."""
    return f"| {name} | {' | '.join(_cell(line) for line in found.values())} |\n"


def refusals(name: str, found: dict[str, str]) -> str:
    """Return the lines with which the refused cells of an architecture are refused."""
    columns: dict[str, list[str]] = {}
    for column, line in found.items():
        if _cell(line) == "no":
            columns.setdefault(line, []).append(column)
    return "".join(f"- {name}: {', '.join(refused)}: `{line}`\n" for line, refused in columns.items())


def _cell(line: str) -> str:
    return line if line in ("yes", "") or line.startswith("with `") else "no"


def head() -> str:
    """Return the head of the table."""
    columns = ["architecture", *COMMANDS, EXPORT]
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"


def commands() -> str:
    """Return the commands of the columns."""
    return "".join(f"- {column}: `holdfast {' '.join(words)}`\n" for column, words in COMMANDS.items())


def table_of(page: str) -> str:
    """Return the generated part of a page."""
    found = _PART.search(page)
    assert found is not None
    return found[0]


def with_table(page: str) -> str:
    """Return the text of a page with the present table."""
    found = {}
    for name, kind in ARCHITECTURES.items():
        with tempfile.TemporaryDirectory() as folder:
            found[name] = cells(kind, Path(folder))
    rows = "".join(row(name, each) for name, each in found.items())
    refused = "".join(refusals(name, each) for name, each in found.items())
    part = f"{head()}{rows}\nRefused:\n\n{refused}\nThe commands:\n\n{commands()}"
    return _PART.sub(lambda _: part, page)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
