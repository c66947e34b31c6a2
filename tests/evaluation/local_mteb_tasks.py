"""Small tasks of mteb of each type over local files, named as users name theirs: mteb:local_mteb_tasks:Class=PATH."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from datasets import Dataset, DatasetDict
from mteb.abstasks.classification import AbsTaskClassification
from mteb.abstasks.clustering import AbsTaskClustering
from mteb.abstasks.multilabel_classification import AbsTaskMultilabelClassification
from mteb.abstasks.pair_classification import AbsTaskPairClassification
from mteb.abstasks.regression import AbsTaskRegression
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.abstasks.text.bitext_mining import AbsTaskBitextMining
from mteb.abstasks.text.summarization import AbsTaskSummarization
from mteb.abstasks.zeroshot_classification import AbsTaskZeroShotClassification

from holdfast.mteb_tasks import HumanNoiseRetrieval

Rows = list[dict[str, str]]


class _Table:
    """A task whose data are the rows of one table."""

    TYPE: ClassVar[str]
    MAIN: ClassVar[str]
    metadata: TaskMetadata

    def __init__(self, path: str, seed: int = 42) -> None:
        self.path = Path(path)
        kept: dict[str, Any] = {"eval_langs": ["eng-Latn"], "dataset": {"path": path, "revision": "1"}}
        kept |= {"category": "t2t", "description": "local", "main_score": self.MAIN, "type": self.TYPE}
        self.metadata = TaskMetadata(name=type(self).__name__, **kept)
        super().__init__(seed)

    def load_data(self, num_proc: int | None = None, **options: Any) -> None:
        with self.path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        self.dataset: Any = DatasetDict({split: Dataset.from_dict(own) for split, own in self.columns(rows).items()})
        self.data_loaded = True

    def unload_data(self) -> None:
        self.dataset, self.data_loaded = None, False

    def columns(self, rows: Rows) -> Mapping[str, Mapping[str, Sequence[Any]]]:
        raise NotImplementedError


class LocalSTS(_Table, AbsTaskSTS):
    TYPE, MAIN = "STS", "cosine_spearman"
    min_score, max_score = 0, 5

    def columns(self, rows: Rows) -> Mapping[str, Mapping[str, Sequence[Any]]]:
        names = ("sentence1", "sentence2")
        pairs: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in names}
        return {"test": {**pairs, "score": [float(row["score"]) for row in rows]}}


class LocalPairs(_Table, AbsTaskPairClassification):
    TYPE, MAIN = "PairClassification", "max_ap"

    def columns(self, rows: Rows) -> Mapping[str, Mapping[str, Sequence[Any]]]:
        pairs = {name: [row[name] for row in rows] for name in ("sentence1", "sentence2")}
        return {"test": {**pairs, "labels": [int(float(row["score"]) > 2.5) for row in rows]}}


class LocalBitext(_Table, AbsTaskBitextMining):
    TYPE, MAIN = "BitextMining", "f1"

    def columns(self, rows: Rows) -> Mapping[str, Mapping[str, Sequence[Any]]]:
        return {"test": {name: [row[name] for row in rows] for name in ("sentence1", "sentence2")}}


class LocalSummaries(_Table, AbsTaskSummarization):
    TYPE, MAIN = "Summarization", "cosine_spearman"
    min_score, max_score = 0, 5

    def columns(self, rows: Rows) -> Mapping[str, Mapping[str, Sequence[Any]]]:
        groups = [rows[start : start + 5] for start in range(0, len(rows), 5)]
        return {
            "test": {
                "text": [group[0]["sentence1"] for group in groups],
                "human_summaries": [[group[0]["sentence1"]] for group in groups],
                "machine_summaries": [[row["sentence2"] for row in group] for group in groups],
                "relevance": [[float(row["score"]) for row in group] for group in groups],
            }
        }


class _Labelled(_Table):
    def columns(self, rows: Rows) -> Mapping[str, Mapping[str, Sequence[Any]]]:
        return {
            split: {
                "text": [row["sentence"] for row in rows if row["split"] == split],
                "label": [self.label(row) for row in rows if row["split"] == split],
            }
            for split in ("train", "test")
        }

    def label(self, row: Mapping[str, str]) -> Any:
        return int(row["label"] == "positive")


class LocalClassification(_Labelled, AbsTaskClassification):
    TYPE, MAIN = "Classification", "accuracy"
    n_experiments = 3


class LocalMultilabel(_Labelled, AbsTaskMultilabelClassification):
    TYPE, MAIN = "MultilabelClassification", "accuracy"
    n_experiments = 2

    def label(self, row: Mapping[str, str]) -> list[int]:
        return [int(row["label"] == "positive"), 2 + len(row["sentence"]) % 2]


class LocalRegression(_Labelled, AbsTaskRegression):
    TYPE, MAIN = "Regression", "kendalltau"
    n_experiments, n_samples = 2, 16
    label_column_name = "label"

    def columns(self, rows: Rows) -> Mapping[str, Mapping[str, Sequence[Any]]]:
        both = super().columns(rows)
        return {
            split: {"text": own["text"], "label": [float(len(text)) for text in own["text"]]}
            for split, own in both.items()
        }


class LocalClustering(_Labelled, AbsTaskClustering):
    TYPE, MAIN = "Clustering", "v_measure"
    max_fraction_of_documents_to_embed, max_document_to_embed = None, 24
    n_clusters, max_documents_per_cluster = 3, 16

    def columns(self, rows: Rows) -> Mapping[str, Mapping[str, Sequence[Any]]]:
        own = super().columns(rows)["test"]
        return {"test": {"sentences": own["text"], "labels": own["label"]}}


class LocalZeroShot(_Labelled, AbsTaskZeroShotClassification):
    TYPE, MAIN = "ZeroShotClassification", "accuracy"
    input_column_name, label_column_name = "text", "label"

    def get_candidate_labels(self) -> list[str]:
        return ["a bad film", "a good film"]


class LocalReranking(HumanNoiseRetrieval):
    """Each query ranks the same three documents, in place of all."""

    def __init__(self, path: str, seed: int = 42) -> None:
        super().__init__(path, name="LocalReranking", seed=seed)
        self.metadata = self.metadata.model_copy(update={"type": "Reranking", "main_score": "map_at_1000"})

    def load_data(self, num_proc: int | None = None, **options: Any) -> None:
        super().load_data(num_proc)
        for splits in self.dataset.values():
            for split in splits.values():
                ranked = {query: list(split["corpus"]["id"])[:3] for query in split["queries"]["id"]}
                split["top_ranked"] = ranked


class LocalInstructions(HumanNoiseRetrieval):
    """Each query has an instruction."""

    def __init__(self, path: str, seed: int = 42) -> None:
        super().__init__(path, name="LocalInstructions", seed=seed)
        self.metadata = self.metadata.model_copy(update={"type": "InstructionRetrieval"})

    def load_data(self, num_proc: int | None = None, **options: Any) -> None:
        super().load_data(num_proc)
        for splits in self.dataset.values():
            for split in splits.values():
                told = ["find the place"] * len(split["queries"])
                split["queries"] = split["queries"].add_column("instruction", told)


ON_PAIRS = (LocalSTS, LocalPairs, LocalBitext, LocalSummaries)
ON_LABELS = (LocalClassification, LocalMultilabel, LocalRegression, LocalClustering, LocalZeroShot)
ON_COLLECTIONS = (LocalReranking, LocalInstructions, HumanNoiseRetrieval)
assert issubclass(LocalReranking, AbsTaskRetrieval)
