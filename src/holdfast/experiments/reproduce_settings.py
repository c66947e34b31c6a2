"""The settings of a reproduction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from holdfast.attacks.resource_names import ResourceOptions
from holdfast.errors import UserError
from holdfast.settings import Folder, Spelling

LEAVE, CANCEL = "leave", "cancel"
"""Values of ``on_stop``: the jobs of a command that is stopped go on, or end."""
RETRIES = 10
"""Continuations of a job that died or reached its time, unless their number is given."""


def _two(words: str) -> tuple[str, str]:
    there, _, back = (name.strip() for name in words.partition(","))
    if not there or not back or "," in back:
        raise UserError(f"--translators {words}: give two models, THERE,BACK")
    return there, back


@dataclass(frozen=True)
class ReproduceSettings(ResourceOptions):
    """Settings of a reproduction.

    Attributes:
        table: PAPER/TABLE, PAPER/FIGURE or FILE.yaml; PAPER or all for every table of it; or list.
        scale: smoke (minutes on two cores), small (hours) or paper (a GPU and up).
        output: Folder of the results; all reproductions keep and share their cells there.
        model: Model that encoders start from; None: the scale's.
        corpus: Corpus of the encoders, unless the table names one; None: the scale's, else the data folder's Wikipedia.
        data: Folder of labelled data sets; None: $HOLDFAST_DATA, else the hub.
        similarity: use, use-large, or a SentenceTransformer; @0.8 after it: threshold; None: that of --resources.
        seeds: Repetitions of every cell, from the encoder's training on; attacks use the same texts.
        only: Make only the rows that these words name, joined by commas: whole names, or parts of several; None: all.
        columns: Make only these columns or averages, whole names joined by commas; None: all.
        vectors: Word vectors as text, for the rows of GloVe.
        translators: Two translation models, into another language and back, for the rows of BTCL:
            Helsinki-NLP/opus-mt-en-de,Helsinki-NLP/opus-mt-de-en.
        jobs: Cells to make at once; None: one on each GPU, or one; on a cluster all that can be made.
        changes: Override a setting of the scale: encoder.sentences=6400, attack.examples=100; repeatable.
        against: Compare the other rows with this one, on the same items; with AXIS=LABEL each with that which is the
            same but for this label; with a column, the other columns with it; None: the table's, if it has one.
        plan: Print the cells to make and the expected time, what cannot be made and why, and make nothing.
        plan_memory: With --plan: measure a step of each training too, and say which fit a GPU of this memory, as 24GB;
            None: not measured.
        so_far: Write the table of the finished cells, and make nothing.
        executor: Make each cell in a job: slurm (of the cluster here) or local (a process of this machine that outlives
            the command), as many at once as --jobs says; None: in this command.
        slurm: Option of the jobs, or of those of a kind of cells: time=8:00:00, encoder.gpus=1, mem=16GB, cpus=4,
            partition=…, or any option of sbatch; repeatable.
        retries: With --executor, how often a job that died or reached its time is continued.
        on_stop: With --executor, leave or cancel: what becomes of the running jobs when the command is stopped.
    """

    table: Annotated[str | tuple[str, ...], Spelling(argument=True, metavar="TABLE...", repeated=True)]
    scale: str = "smoke"
    output: Folder = Path("reproduced")
    model: str | None = None
    corpus: str | None = None
    data: Folder | None = None
    similarity: Annotated[str | None, Spelling(metavar="NAME|DIR")] = None
    seeds: int = 1
    only: Sequence[str] = ()
    columns: Sequence[str] = ()
    vectors: Annotated[Path | None, Spelling(metavar="FILE")] = None
    translators: Annotated[tuple[str, str] | None, Spelling(metavar="THERE,BACK", parse=_two)] = None
    jobs: int | None = None
    changes: Annotated[Sequence[str], Spelling(flag="--set", metavar="STAGE.NAME=VALUE", repeated=True)] = ()
    against: Annotated[str | None, Spelling(metavar="ROW|COLUMN")] = None
    plan: bool = False
    plan_memory: Annotated[str | None, Spelling(metavar="GB")] = None
    so_far: bool = False
    executor: Annotated[str | None, Spelling(metavar="slurm|local")] = None
    slurm: Annotated[Sequence[str], Spelling(metavar="[KIND.]NAME=VALUE", repeated=True)] = ()
    retries: int = RETRIES
    on_stop: Annotated[str, Spelling(metavar="leave|cancel")] = LEAVE

    @property
    def name(self) -> str:
        """The table, where it is a single one."""
        assert isinstance(self.table, str)
        return self.table

    @property
    def result_file(self) -> Path:
        """The path of the result, named after the table or its file; the table is beside it as .md and .tex."""
        from holdfast.experiments.definition import known_tables

        name = self.name.replace("/", "-") if self.name in known_tables() else Path(self.name).stem
        return self.output / f"{name}-{self.scale}.json"
