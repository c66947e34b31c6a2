"""The kinds of files that `fuzz.py` damages: a good one of each, and what reads it."""

from __future__ import annotations

import base64
import contextlib
import csv
import gzip
import io
import json
import random
import re
import tempfile
import unicodedata
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from holdfast.errors import UserError

# Read by the line; a line may be as long as this.
MAX_CHARS = 2000
# Unicode's categories of what a terminal may obey: controls, separators of lines and paragraphs, halves of pairs. Not
# the formats (Cf), which hold joiners that letters need.
_OBEYED = ("Cc", "Zl", "Zp", "Cs")


@dataclass
class Kind:
    """A kind of file and what reads it.

    Attributes:
        name: of the file; a folder's file may be named with its folder.
        good: a file as it should be.
        read: reads it to the end; takes the folder that the file lies in.
        hostile: returns the good file with an entry that a careful reader refuses, or None where it has no place.
    """

    name: str
    good: bytes
    read: Callable[[Path], Any]
    hostile: Callable[[bytes, random.Random], bytes | None] | None = None


_SENTENCES = (
    "The cat sat on the mat.\nTwo dogs – né à Paris – ran off.\n\n  A third line of text, longer than others  \n"
)
_TSV = "id\tsentence\tlabel\n1\ta dog runs\t1\n2\ta cat's nap\t0\n3\t\u201cquoted\u201d text\t1\n"
_PAIRS = "sentence1\tsentence2\tscore\na dog\tthe dog\t4.5\na cat\ta car\t0\n"
_JSONL = '{"sentence": "a dog runs", "label": 1}\n{"sentence": "a cat naps", "label": "0", "more": [1, null]}\n'
_VECTORS = "dog 0.1 0.2 -0.3\ncat 1e-3 2 3.5\nmat -1 0 0.25\n"
_CONFIG = (
    "model: some/model\ncorpus: mine.txt\noutput: out\nlearning-rate: 3e-5\nbatch_size: 64\noptions:\n  tau: 0.05\n"
)
_NOWHERE = "./no-such-model"
_DATA_NOUN = (
    "  1 This software\n00001740 03 n 02 dog 0 hound 0 002 @ 00001741 n 0000 ~ 00001742 n 0000 | an animal\n"
    "00001741 03 n 01 cat 0 000 | another\n"
)
_INDEX_NOUN = "  1 This software\ndog n 1 1 @ 1 0 00001740\nhound n 1 1 @ 1 0 00001740\ncat n 1 0 1 0 00001741\n"
_SYNSETS = "pos\toffset\tlemmas\nn\t1\tdog|hound\nv\t2\trun|sprint\ns\t3\tbig|large\n"
_EXCEPTIONS = "pos\tinflected\tlemmas\nnoun\tmice\tmouse\nverb\tran\trun\n"


def all_kinds() -> list[Kind]:
    """Every kind of file that a user hands to holdfast."""
    return [*_corpora(), *_labelled(), *_settings(), *_results(), *_resources(), *_own_files(), *_models()]


def _corpora() -> list[Kind]:
    from holdfast.data.corpus import read_corpus

    def corpus(name: str, good: bytes, column: str | None = None) -> Kind:
        return Kind(name, good, lambda f: list(read_corpus(str(f / name), column=column, max_chars=MAX_CHARS)))

    return [
        corpus("corpus.txt", _SENTENCES.encode()),
        corpus("corpus.txt.gz", gzip.compress(_SENTENCES.encode())),
        corpus("corpus.txt.zst", zstandard.compress(_SENTENCES.encode())),
        corpus("corpus.tsv", _TSV.encode()),
        corpus("corpus.tsv.gz", gzip.compress(_TSV.encode()), "sentence"),
        corpus("corpus.jsonl", _JSONL.encode()),
        corpus("corpus.jsonl.zst", zstandard.compress(_JSONL.encode())),
        corpus("corpus.parquet", _parquet(), "sentence"),
    ]


def _parquet() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    rows = {"sentence": ["a dog", "a cat", "né à Paris"] * 20, "n": list(range(60))}
    pq.write_table(pa.table(rows), buffer, compression="snappy", row_group_size=25)
    return buffer.getvalue()


def _labelled() -> list[Kind]:
    from holdfast.data.inventory import check_data
    from holdfast.data.registry import load_graded, load_labelled, load_pairs

    senteval = "\t".join(["main", "MSR", "2012", "0001", "4.2", "a dog", "the dog"]) + "\n"
    manifest = json.dumps({"files": [{"file": "sst2/test.tsv", "sha256": "0" * 64, "rows": 3}]})
    return [
        Kind("own.tsv", _TSV.encode(), lambda f: load_labelled(str(f / "own.tsv"), "all")),
        Kind("own.jsonl", _JSONL.encode(), lambda f: load_labelled(str(f / "own.jsonl"), "all")),
        Kind("scored.tsv", _PAIRS.encode(), lambda f: load_graded(str(f / "scored.tsv"), "all")),
        Kind("sst2/test.tsv", _TSV.encode(), lambda f: load_labelled("sst2", "test", data=f)),
        Kind("stsb/test.tsv.gz", gzip.compress(_PAIRS.encode()), lambda f: load_pairs("stsb", "test", data=f)),
        Kind("STS/STSBenchmark/sts-dev.csv", senteval.encode(), lambda f: load_pairs("stsb", "dev", data=f)),
        Kind(
            "TREC/TREC_10.label", b"NUM:dist How far?\nHUM:ind Who?\n", lambda f: load_labelled("trec", "test", data=f)
        ),
        Kind("manifest.json", manifest.encode(), check_data),
    ]


def _settings() -> list[Kind]:
    from holdfast.experiments.definition import read_definition, tables_folder
    from holdfast.pretraining.pretrain_settings import PretrainSettings
    from holdfast.settings import read_settings
    from holdfast.training.train_config import TrainConfig

    table = min(tables_folder().glob("*/*.yaml"), key=lambda path: path.stat().st_size).read_bytes()
    pretrain = (
        _CONFIG.replace("options:\n  tau: 0.05\n", "")
        .replace("batch_size", "batch-tokens")
        .replace("model: some/model\n", "")
    )
    given = _CONFIG.replace("some/model", _NOWHERE).replace("tau", "temperature")
    return [
        Kind(
            "train.yaml", _CONFIG.encode(), lambda f: read_settings(TrainConfig, {"method": "simcse"}, f / "train.yaml")
        ),
        Kind("pretrain.yaml", pretrain.encode(), lambda f: read_settings(PretrainSettings, {}, f / "pretrain.yaml")),
        Kind("table.yaml", table, lambda f: read_definition(str(f / "table.yaml"), "smoke")),
        Kind("given.yaml", given.encode(), lambda f: _refusal("train", "simcse", "--config", f / "given.yaml")),
        Kind(
            "lm.yaml",
            f"model: {_NOWHERE}\n{pretrain}".encode(),
            lambda f: _refusal("pretrain", "--config", f / "lm.yaml"),
        ),
    ]


def small_result(**more: Any) -> dict[str, Any]:
    from holdfast.results import new_result

    return {
        **new_result(
            "evaluate",
            command=["holdfast"],
            model="m",
            identity={"model_sha256": "0" * 64, "model_files": {}},
            protocol={"precision": "fp32", "goal": {"kind": "class"}, "recipes": {"pwws": {"constants": {}}}},
            seed=1,
        ),
        **more,
    }


def _results() -> list[Kind]:
    from holdfast.evaluation.adversarial_space import read_pairs
    from holdfast.evaluation.pairing.compare_inputs import read_side
    from holdfast.evaluation.pairing.rows import compare
    from holdfast.report import write_report
    from holdfast.results import to_json

    items = {"gold": [1.0, 2.0, 3.0, 2.5], "similarity": [0.1, 0.9, 0.5, 0.4]}
    row = {"task": "stsb", "split": "test", "n": 4, "metrics": {"spearman": 80.0}, "items": items}
    evaluated = small_result(results=[row])
    verdict = {"label": 1, "value": 0.9, "correct": True}
    examples = [
        {
            "recipe": "pwws",
            "number": n,
            "outcome": "succeeded",
            "original": f"a dog {n}",
            "queries": 3,
            "adversarial": f"a cat {n}",
            "changed": [[1, "dog", "cat"]],
            "before": verdict,
            "after": verdict,
            "label": 1,
            "words": 3,
            "other": None,
            "reason": None,
            "passes": 2,
            "similarity": 0.9,
        }
        for n in range(4)
    ]
    metrics = {"attacked": 4, "succeeded": 4, "success_rate": 100.0, "queries": 3.0, "accuracy": 90.0}
    attack_row = {"task": "sst2", "split": "test", "n": 4, "recipe": "pwws", "metrics": metrics, "skipped": {}}
    attacked = small_result(kind="attack", results=[attack_row], examples=examples)

    def compared(name: str, good: dict[str, Any]) -> Kind:
        def read(folder: Path) -> None:
            other = folder / "other.json"
            other.write_text(to_json({**good, "model_sha256": "1" * 64}))
            compare(read_side(str(other)), read_side(str(folder / name)), resamples=100)

        return Kind(name, to_json(good).encode(), read)

    def reported(name: str) -> Callable[[Path], Any]:
        def read(folder: Path) -> None:
            write_report([str(folder / name)], folder / "page.html")
            _check_spreadsheets((folder / "page.html").read_text(encoding="utf-8"))

        return read

    whole = to_json(evaluated).encode()
    texts = to_json(attacked).encode()
    log = '{"step": 25, "loss": 1.5, "learning_rate": 1e-05}\n{"step": 50, "loss": 1.25, "epoch": 1.0}\n'

    def logged(folder: Path) -> None:
        trained = {**evaluated, "kind": "train", "selected": {"step": 50, "steps": 50, "score": 70.0}, "results": []}
        (folder / "run" / "results.json").write_text(to_json(trained))
        write_report([str(folder / "run" / "results.json")], folder / "page.html")

    return [
        compared("result.json", evaluated),
        compared("attacked.json", attacked),
        compared("audited.json", small_audit(examples, {**row, "split": "dev"})),
        Kind("page.json", whole, reported("page.json")),
        Kind("texts.json", texts, reported("texts.json")),
        Kind("shown.json", texts, lambda f: _command("show", f / "shown.json")),
        Kind("shown\x1b]0;x\x07.json", texts, lambda f: _command("show", f / "shown\x1b]0;x\x07.json")),
        Kind("printed.json", texts, lambda f: _command("show", f / "printed.json", "--json", "--outcome", "all")),
        Kind("pairs.json", texts, lambda f: read_pairs(f / "pairs.json", outcome="all")),
        Kind("run/metrics.jsonl", log.encode(), logged),
    ]


def small_audit(examples: list[dict[str, Any]], quality: dict[str, Any]) -> dict[str, Any]:
    """An audit of four texts, with a row of each kind of items."""
    message = {"verdict": "bends", "told": "in words"}
    items = {"text": [0, 1, 2, 3], "stability": [0.5, 0.25, 1.0, 0.75]}
    typos = {"task": "audit-typos", "split": "all", "n": 4, "metrics": {"stability": 0.625}, "headline": "stability"}
    rate = {"metrics": {"success_rate": 100.0}, "headline": "success_rate", "recipe": "pwws", "skipped": {}}
    searched = {"task": "audit-synonyms", "split": "all", "n": 4, **rate}
    return small_result(
        kind="audit",
        protocol={"texts": {"sha256": "0"}, "max_words": 64, "opened_resources": {}},
        results=[
            {**typos, **message, "items": items},
            {**searched, **message},
            {**quality, **message, "headline": "spearman"},
        ],
        examples=[{**example, "item": "audit-synonyms"} for example in examples],
    )


def _command(*words: Any) -> None:
    """A verb, as a user gives it; what it tells in one line is an error here again.

    Nothing that it prints, to either stream, is a control that a terminal would obey.
    """
    from holdfast.cli import main as command

    output, error = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(error):
        code = command([str(word) for word in words])
    printed = {name: stream.buffer.getvalue().decode() for name, stream in (("out", output), ("err", error))}
    for text in printed.values():
        check_printed(text)
    if code:
        message = [line for line in printed["err"].splitlines() if line.startswith("holdfast: ")]
        assert len(message) == 1, printed["err"]
        raise UserError(message[0])


def check_printed(text: str) -> None:
    """A terminal obeys nothing of a text but its lines and tabs."""
    controls = {letter for letter in text if unicodedata.category(letter) in _OBEYED}
    obeyed = (controls | set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069") & set(text)) - set("\n\t")
    assert not obeyed, f"a terminal would obey {sorted(obeyed)}: {text[:500]!r}"


def _refusal(*words: Any) -> None:
    """A verb whose model and texts are nowhere, so that it ends before it does anything, whatever else it is given."""
    try:
        _command(*words)
    except UserError:
        return
    raise AssertionError(f"{words} was done")


def _check_spreadsheets(page: str) -> None:
    """No cell of the tables that the page offers as CSV is a formula to a spreadsheet."""
    offered = re.findall(r'data:text/csv[^,"]*;base64,([^"]*)', page)
    assert offered or "<table" not in page, "the page's tables are not offered as CSV"
    for table in offered:
        for row in csv.reader(io.StringIO(base64.b64decode(table).decode(), newline="")):
            for cell in row:
                text = cell.lstrip("".join(map(chr, range(33))) + "\x7f\u00a0\u2028\u2029\u3000")
                formula = text[:1] in ("=", "@") or (text[:1] in ("+", "-") and not text[1:2].isdecimal())
                assert not formula or len(text) < 2, f"a spreadsheet would compute {cell!r}"


def _resources() -> list[Kind]:
    from holdfast.edits.synonyms import read_similarity, read_synonyms
    from holdfast.edits.word_vectors import read_word_vectors
    from holdfast.edits.wordnet import WordNet

    arrays, archive = io.BytesIO(), io.BytesIO()
    np.savez(arrays, words=np.array(["dog", "cat"]), vectors=np.ones((2, 3), dtype=np.float32))
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for pos, name in (("n", "noun"), ("v", "verb"), ("a", "adj"), ("r", "adv")):
            opened.writestr(f"wordnet/data.{name}", _DATA_NOUN.replace(" n ", f" {pos} "))
            opened.writestr(f"wordnet/index.{name}", _INDEX_NOUN)
            opened.writestr(f"wordnet/{name}.exc", "mice mouse\n")
    neighbours = "word\tneighbors\ndog\thound cat\ncat\tdog\n"

    def database(folder: Path) -> None:
        place = folder / "dict"
        for name in ("noun", "verb", "adj", "adv"):
            for file, good in ((f"data.{name}", _DATA_NOUN), (f"index.{name}", _INDEX_NOUN), (f"{name}.exc", "a b\n")):
                if not (place / file).exists():
                    (place / file).write_text(good)
        WordNet.read(place).synonyms("dog")

    def tables(folder: Path) -> None:
        (folder / "tables" / "exceptions.tsv").write_text(_EXCEPTIONS)
        WordNet.read(folder / "tables").synonyms("ran")

    return [
        Kind("vectors.txt", _VECTORS.encode(), lambda f: read_synonyms(f / "vectors.txt").nearest("dog", 5)),
        Kind("vectors.npz", arrays.getvalue(), lambda f: read_synonyms(f / "vectors.npz").nearest("dog", 5)),
        Kind("lists.tsv", neighbours.encode(), lambda f: read_similarity(f / "lists.tsv", threshold=0.5)),
        Kind("glove.txt.gz", gzip.compress(_VECTORS.encode()), lambda f: read_word_vectors(f / "glove.txt.gz")),
        Kind("glove.vec", ("3 3\n" + _VECTORS).encode(), lambda f: read_word_vectors(f / "glove.vec")),
        Kind("wordnet.zip", archive.getvalue(), lambda f: WordNet.read(f / "wordnet.zip").synonyms("dog")),
        Kind("dict/data.noun", _DATA_NOUN.encode(), database),
        Kind("dict/index.verb", _INDEX_NOUN.encode(), database),
        Kind("tables/synsets.tsv", _SYNSETS.encode(), tables),
    ]


def _own_files() -> list[Kind]:
    """What holdfast writes for itself."""

    from holdfast.attacks.examples import Attempt
    from holdfast.attacks.journal import Journal, journals
    from holdfast.experiments.cells import Cell, Store
    from holdfast.runs.checkpoints import latest_intact
    from holdfast.runs.run import Run

    settings = {"task": "sst2", "seed": 1}
    with tempfile.TemporaryDirectory() as scratch:
        journal = Journal(Path(scratch) / "r.json", settings)
        journal.open(resume=False)
        for number in range(3):
            journal.add(Attempt(number, "pwws", "failed", "a dog", "a dog"), float(number))
        lines = next(journals(Path(scratch) / "r.json")).read_bytes()
    seal = json.dumps({"model.safetensors": "0" * 64, "1_Pooling/config.json": "1" * 64})
    record = {"what": "a run", "training": {"seed": 1}}
    cell = Cell("attack", {"a": 1})
    cell_file = f"cells/attack-{cell.key[:12]}/cell.json"

    def begun(folder: Path) -> None:
        Run("train", folder / "run-folder", resume=True, save_steps=None, console=None, command=None).begin(record)

    def damage(folder: Path) -> None:
        store = Store(folder / "cells")
        store.damage(cell)
        store.finished(cell)

    return [
        Kind(".r.json.journal-000", lines, lambda f: Journal(f / "r.json", settings).open(resume=True)),
        Kind("run/checkpoint-5/sealed.json", seal.encode(), lambda f: latest_intact(f / "run")),
        Kind("run-folder/run.json", json.dumps(record).encode(), begun),
        Kind(cell_file, json.dumps({"key": cell.key}).encode(), damage),
    ]


def _models() -> list[Kind]:
    from safetensors.numpy import save

    from holdfast.evaluation.masks import _read_record
    from holdfast.model_lookup import model_identity, resolve_model

    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    weights = save({"weight": np.ones((2, 3), dtype=np.float32)})

    def resolved(name: str) -> Callable[[Path], Any]:
        def read(folder: Path) -> None:
            (folder / name / "model.safetensors").write_bytes(weights)
            (folder / name / "1_Pooling").mkdir(exist_ok=True)
            model_identity(resolve_model(str(folder / name)))

        return read

    return [
        Kind("st/modules.json", json.dumps(modules).encode(), resolved("st")),
        Kind("lm/config.json", b'{"architectures": ["BertForMaskedLM"], "model_type": "bert"}', resolved("lm")),
        Kind("record.json", b'{"protocol": {"method": "l2p-csr"}}', lambda f: _read_record(f / "record.json")),
    ]
