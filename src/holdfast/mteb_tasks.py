"""Robustness tasks as task classes of mteb, over local files: changed meanings, and queries with people's noise.

The module needs mteb, datasets and numpy, and nothing of holdfast: users of mteb can import it alone or copy it.

```python
import mteb
from holdfast.mteb_tasks import HoldMovePairs, HumanNoiseRetrieval

model = mteb.get_model("sentence-transformers/all-MiniLM-L6-v2")
mteb.evaluate(model, [HoldMovePairs("triplets.tsv"), HumanNoiseRetrieval("noiseqa")])
```
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict
from mteb.abstasks.pair_classification import AbsTaskPairClassification
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata

MEANINGS = Path(__file__).parent / "demo" / "meanings.tsv"
"""Triplets written by holdfast's authors, under its licence."""

_TIED = 1e-6
"""Two similarities in fp32 that differ by less are equal."""


class _LocalFiles:
    """A task whose metadata name its files, so that each instance has its own."""

    dataset: Any
    data_loaded: bool

    def unload_data(self) -> None:
        """Release the data, and keep the metadata, which mteb's own method would drop from the instance."""
        self.dataset, self.data_loaded = None, False


class HoldMovePairs(_LocalFiles, AbsTaskPairClassification):
    """Is a rewording of a text nearer to it than a change of its meaning that keeps most of its words?

    The file is a table with a header, separated by tabs and unquoted, with the columns ``text``, ``same`` (a text of
    the same meaning) and ``other`` (one of another meaning), and perhaps ``kind`` (such as negation). The main score
    ``hold_nearer`` is the share of rows in which ``same`` is nearer to ``text`` than ``other`` is, by the model's
    similarity; ½ for a tie. The scores of pair classification are there, too: all pairs of one meaning against all of
    two meanings.

    Args:
        path: the file, or a packed one (``.gz``); None: triplets that come with holdfast.
        name: name of the task; None: ``HoldMove.`` and the name of the file.
        languages: the languages of the texts, as mteb writes them.
        seed: seed of the task.
        described: more fields of mteb's ``TaskMetadata``, such as ``license`` and ``reference``.
    """

    input1_column_name = "sentence1"
    input2_column_name = "sentence2"
    label_column_name = "labels"

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        name: str | None = None,
        languages: Sequence[str] = ("eng-Latn",),
        seed: int = 42,
        **described: Any,
    ) -> None:
        self.path = MEANINGS if path is None else Path(path)
        self.metadata = TaskMetadata(
            name=name or f"HoldMove.{self.path.name.partition('.')[0]}",
            description="Is a rewording of a text nearer to it than a change of its meaning that keeps most words?",
            type="PairClassification",
            category="t2t",
            main_score="hold_nearer",
            eval_splits=["test"],
            eval_langs=list(languages),
            dataset={"path": str(self.path), "revision": _hash_of([self.path])},
            **described,
        )
        super().__init__(seed)
        self._kinds: list[str] = []

    def load_data(self, num_proc: int | None = None, **options: Any) -> None:
        """Read the file: two pairs for each row, the one of one meaning first."""
        if self.data_loaded:
            return
        rows = list(_table(self.path, ("text", "same", "other")))
        self._kinds = [row.get("kind") or "" for row in rows]
        pairs = [(row["text"], row[column], label) for row in rows for column, label in (("same", 1), ("other", 0))]
        first, second, labels = (list(column) for column in zip(*pairs, strict=True))
        data = Dataset.from_dict({"sentence1": first, "sentence2": second, "labels": labels})
        self.dataset, self.data_loaded = DatasetDict({"test": data}), True

    def _compute_metrics(self, similarity_scores: Any, labels: Any) -> dict[str, float]:
        """Add the share of triplets, and that of each kind, to the scores of pair classification."""
        values = np.asarray(similarity_scores["similarity_scores"], dtype=np.float64)
        difference = values[0::2] - values[1::2]
        nearer = np.where(np.abs(difference) < _TIED, 0.5, difference > 0)
        kinds = np.array(self._kinds)
        of_kinds = {f"hold_nearer_{kind}": float(nearer[kinds == kind].mean()) for kind in dict.fromkeys(kinds) if kind}
        scores: dict[str, float] = super()._compute_metrics(similarity_scores, labels)
        return {**scores, "hold_nearer": float(nearer.mean()), **of_kinds}


class HumanNoiseRetrieval(_LocalFiles, AbsTaskRetrieval):
    """Does a query still find its documents if it is mistyped, dictated or translated?

    The folder has BEIR's layout: ``corpus.jsonl``, ``qrels/SPLIT.tsv``, ``queries.jsonl``, and further versions of the
    same queries in ``queries-NAME.jsonl``, each of which is a subset beside ``clean``. Files may be packed (``.gz``).

    Args:
        path: the folder.
        name: name of the task; None: ``HumanNoise.`` and the name of the folder.
        split: the split of ``qrels``.
        languages: the languages of the texts, as mteb writes them.
        seed: seed of the task.
        described: more fields of mteb's ``TaskMetadata``, such as ``license`` and ``reference``.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        split: str = "test",
        languages: Sequence[str] = ("eng-Latn",),
        seed: int = 42,
        **described: Any,
    ) -> None:
        self.path, self._split = Path(path), split
        self._queries = dict(self._files())
        read = [_file(self.path, "corpus.jsonl"), _file(self.path, f"qrels/{split}.tsv"), *self._queries.values()]
        self.metadata = TaskMetadata(
            name=name or f"HumanNoise.{self.path.resolve().name}",
            description="Does a query still find its documents if it is mistyped, dictated or translated?",
            type="Retrieval",
            category="t2t",
            main_score="ndcg_at_10",
            eval_splits=[split],
            eval_langs={subset: list(languages) for subset in self._queries},
            dataset={"path": str(self.path), "revision": _hash_of(read)},
            **described,
        )
        super().__init__(seed)

    def _files(self) -> Iterator[tuple[str, Path]]:
        """Yield the files of queries by the names of their subsets, the clean ones first."""
        yield "clean", _file(self.path, "queries.jsonl")
        found: dict[str, Path] = {}
        for file in sorted(self.path.glob("queries-*")):
            name = file.name.removesuffix(".gz")
            if name.endswith(".jsonl"):
                other = found.setdefault(name.removesuffix(".jsonl").removeprefix("queries-"), file)
                if other is not file:
                    raise ValueError(f"{other} and {file} are the same file in two forms: remove one")
        yield from found.items()

    def load_data(self, num_proc: int | None = None, **options: Any) -> None:
        """Read the folder; a query without a relevant document is left out."""
        if self.data_loaded:
            return
        relevant: dict[str, dict[str, int]] = {}
        for row in _table(_file(self.path, f"qrels/{self._split}.tsv"), ("query-id", "corpus-id", "score")):
            if int(row["score"]) > 0:
                relevant.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
        corpus = Dataset.from_list(
            [
                {"id": str(each["_id"]), "title": each.get("title") or "", "text": each["text"]}
                for each in _objects(_file(self.path, "corpus.jsonl"))
            ]
        )
        self.dataset = {}
        for subset, file in self._queries.items():
            asked = [{"id": str(each["_id"]), "text": each["text"]} for each in _objects(file)]
            queries = Dataset.from_list([each for each in asked if each["id"] in relevant])
            own = {identifier: relevant[identifier] for identifier in queries["id"]}
            split = {"corpus": corpus, "queries": queries, "relevant_docs": own, "top_ranked": None}
            self.dataset[subset] = {self._split: split}
        self.data_loaded = True


def _file(folder: Path, name: str) -> Path:
    """Return the file with this name, or its packed form."""
    found = next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)
    if found is None:
        raise FileNotFoundError(f"there is no {folder / name}")
    return found


def _hash_of(files: Iterable[Path]) -> str:
    """Return a hash of files: the revision of the data, which mteb's cache looks at."""
    digests = (hashlib.sha256(file.read_bytes()).hexdigest() for file in files)
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()[:40]


def _lines(file: Path) -> Iterator[str]:
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8", newline="\n") as lines:
        yield from lines


def _objects(file: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_lines(file), start=1):
        if line.strip():
            found = json.loads(line)
            if not isinstance(found, dict) or not {"_id", "text"} <= set(found):
                raise ValueError(f"{file}:{number}: not an object with _id and text")
            yield found


def _table(file: Path, columns: Sequence[str]) -> Iterator[dict[str, str]]:
    lines = _lines(file)
    header = next(lines, "").rstrip("\n").split("\t")
    missing = [column for column in columns if column not in header]
    if missing:
        raise ValueError(f"{file}: its header has no column {missing[0]!r}: it takes {', '.join(columns)}")
    for number, line in enumerate(lines, start=2):
        values = line.rstrip("\n").split("\t")
        if len(values) != len(header):
            raise ValueError(f"{file}:{number}: {len(values)} columns, the header has {len(header)}")
        yield dict(zip(header, values, strict=True))
