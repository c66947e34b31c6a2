"""The settings of an attack run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from holdfast.attacks.resource_names import ResourceOptions
from holdfast.backends.backend_options import Backend, BackendOptions
from holdfast.data.label_map import LabelMap
from holdfast.endpoint_options import EndpointOptions
from holdfast.model_lookup import CALL_BATCH
from holdfast.precision import Precision
from holdfast.settings import ARGUMENT, PYTHON_ONLY, Assignments, Folder, Spelling
from holdfast.text_prompts import RolePromptOptions

Goal = Literal["auto", "class", "score", "drift", "neighbours", "poison"]

SIDE_BY_SIDE = 64
"""Number of parallel attacks. More attacks fill larger batches, which helps on a GPU more than on a CPU."""


@dataclass(frozen=True)
class AttackSettings(BackendOptions, ResourceOptions, RolePromptOptions, EndpointOptions):
    """Settings of an attack run.

    Attributes:
        model: A classifier, an encoder, or call:package.module:function (list of texts -> scores of classes, or
            vectors); none with --endpoint.
        recipes: Recipes, or FILE.py:Class, joined by commas; `holdfast recipes` lists them. auto: the worst case over
            all, for each text, the figure for a claim of robustness.
        task: sst2, mr, ag_news, textfooler/mr, snli, ...: wrong classes; stsb, sickr: wrong scores.
        texts: Sentences without labels in place of a task, as for --corpus of train.
        search: For --goal neighbours: corpus to search, as for --corpus of train; None: all of --texts, or of the
            task's split. For --goal poison: the corpus that passages are added to.
        queries: For --goal poison: queries, as for --corpus of train; passages are made for one half of them, drawn
            with --seed, and measured on the other.
        passages: For --goal poison: passages to make, each for a group of similar queries.
        split: Split of the task; None: test, else dev, else all.
        goal: class (another class), score (a similarity further from people's), drift (a vector far from where it was),
            neighbours (the nearest texts lost), poison (passages made to be found by many queries), or auto: by the
            data.
        examples: Attack this many examples, or use this many queries, drawn with --seed; None: all.
        constants: Constant of a recipe: candidates=20, or pwws.same_tag=true; repeatable.
        threshold: For --goal drift: cosine below which an attack succeeds; None: half-way to other texts.
        k: For --goal neighbours: neighbours to displace.
        margin: For --goal score: required increase of the error, in points of 5.
        similarity: use, use-large, or a SentenceTransformer; @0.8 after it: threshold; None: that of --resources.
        precision: Precision of the search: auto, fp32 or bf16. Every success is confirmed in fp32.
        search_backend: Search on this form of the model, as for --backend (onnx, int8, ...), in place of --precision.
            Every success is confirmed on the form of --backend, and the search goes on if it is none there; None: not.
        seed: Random seed of --examples, of recipes that draw at random, and of the intervals.
        data: Folder of labelled data sets; None: $HOLDFAST_DATA, else the hub.
        output: Result file; FILE.examples.jsonl holds the texts, too. Without it, a stopped run cannot be resumed.
        side_by_side: Examples attacked at once.
        call_batch: For call:... and --endpoint: largest number of texts in one call.
        retries: For call:...: repeat a failed call so often, after 1, 2, 4, ... seconds.
        form: Attack the vectors in this form: int8, uint8, binary, ubinary, dim=256 (the first dimensions), or
            dim=256+int8; without gradients.
        estimate: Print the estimate of texts, queries and time, and stop.
        processes: Processes that share the examples on this machine.
        device: Device of the model.
        label_map: The task's class for each class of the model: NEGATIVE=neg,POSITIVE=pos; None: matched by name.
    """

    model: Annotated[str, ARGUMENT] = ""
    recipes: Sequence[str] = ("textfooler", "textbugger", "pwws", "bae-r", "bertattack", "geometry")
    task: str | None = None
    texts: str | None = None
    search: Annotated[str | None, Spelling(metavar="FILE|CORPUS")] = None
    queries: Annotated[str | None, Spelling(metavar="FILE|CORPUS")] = None
    passages: int = 5
    split: str | None = None
    goal: Goal = "auto"
    examples: int | None = None
    constants: Assignments = field(default_factory=dict)
    threshold: float | None = None
    k: int = 5
    margin: float = 1.0
    similarity: Annotated[str | None, Spelling(metavar="NAME|DIR")] = None
    precision: Precision = "auto"
    search_backend: Annotated[str | None, Spelling(metavar="NAME")] = None
    seed: int = 42
    data: Folder | None = None
    output: Annotated[Path | None, Spelling(metavar="FILE.json")] = None
    side_by_side: int = SIDE_BY_SIDE
    call_batch: int = CALL_BATCH
    retries: int = 0
    form: Annotated[str | None, Spelling(flag="--as", metavar="FORM")] = None
    estimate: bool = False
    processes: int = 1
    device: Annotated[str | None, PYTHON_ONLY] = None
    label_map: LabelMap | None = None

    @property
    def search_form(self) -> Backend | None:
        """The parsed option ``search_backend``."""
        return None if self.search_backend is None else Backend.parse(self.search_backend, "--search-backend")
