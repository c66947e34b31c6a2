"""The result of an evaluation: of `holdfast evaluate`, of a reproduction's cell, or of a hardening."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.evaluation.dense_search import DECIMALS
from holdfast.evaluation.form_losses import SEED as SEED_OF_LOSSES
from holdfast.evaluation.noisy_task import SEED as SEED_OF_NOISE
from holdfast.evaluation.retrieval import RetrievalOptions, similarity_of
from holdfast.evaluation.retrieval_differences import SEED as BOOTSTRAP_SEED
from holdfast.evaluation.sts import ALL_STS_TASKS
from holdfast.evaluation.transfer import FOLDS, SEED, STRENGTHS, STRENGTHS_ACROSS, TRANSFER_TASKS
from holdfast.forms import forms_protocol
from holdfast.input_limits import input_protocol
from holdfast.models import read_as
from holdfast.results import new_result
from holdfast.text_prompts import prompt_protocol
from holdfast.user_functions import VectorFunction

if TYPE_CHECKING:
    from holdfast.edits.noise import Noise
    from holdfast.forms import Form
    from holdfast.user_functions import SentenceEncoder


def evaluation_options(
    tasks: Sequence[str],
    *,
    text: str = "raw",
    precision: str = "fp32",
    pooling: str | None = None,
    limit: int | None = None,
    noises: Sequence[Noise] = (),
    forms: Sequence[Form] = (),
) -> dict[str, Any]:
    """Return the options of an evaluation, the first part of the protocol of its result.

    Args:
        tasks: ids of the tasks; ``stsb/dev`` for the pairs that training selects checkpoints by.
        text: ``"raw"`` or ``"senteval"``.
        precision: precision of the encoder.
        pooling: pooling of a raw masked LM, if one was given.
        limit: number of rows of each part of a task, if only some were measured.
        noises: the noise in which the tasks were measured, too.
        forms: the forms of vectors in which they were.
    """
    options: dict[str, Any] = {"tasks": list(tasks), "text": text, "precision": precision, "pooling": pooling}
    if noises:
        options |= {"noise": [str(noise) for noise in noises], "noise_seed": SEED_OF_NOISE}
        for noise in noises:
            options |= {"misspellings": noise.misspellings.record()} if noise.misspellings is not None else {}
    if forms:
        options |= {**forms_protocol(forms), "losses_of_forms": f"paired bootstrap over items, seed {SEED_OF_LOSSES}"}
    return options if limit is None else {**options, "limit": limit}


def evaluation(
    model: str,
    encoder: SentenceEncoder,
    rows: Sequence[dict[str, Any]],
    *,
    options: dict[str, Any],
    identity: dict[str, Any],
    command: Sequence[str] | None = None,
    seconds: float | None = None,
    retrieval: RetrievalOptions | None = None,
) -> dict[str, Any]:
    """Build a result of kind ``evaluate`` from the rows of `evaluate_tasks`, the encoder, and its name ``model``.

    ``options`` are those of `evaluation_options`, ``identity`` the model's hashes (`model_identity`), ``seconds`` the
    duration of the evaluation, and ``retrieval`` the options of retrieval, if it was measured.
    """
    return new_result(
        "evaluate",
        command=command,
        model=model,
        identity=identity,
        protocol={
            **options,
            **_methods([row["task"] for row in rows]),
            **(retrieval_protocol(encoder, retrieval) if retrieval is not None else {}),
            **({} if isinstance(encoder, VectorFunction) else input_protocol(encoder)),
            **read_as(encoder),
            **prompt_protocol(encoder),
        },
        seed=None,
        results=rows,
        timing={} if seconds is None else {"evaluate_seconds": seconds},
        device=str(encoder.device),
    )


def _methods(tasks: Sequence[str]) -> dict[str, Any]:
    """Return a description of the methods of measurement, for the kinds of the tasks."""
    methods: dict[str, Any] = {}
    if any(task in ALL_STS_TASKS for task in tasks):
        methods |= {"similarity": "cosine", "aggregation": "all subsets of a task together, no regressor"}
    if any(task in TRANSFER_TASKS for task in tasks):
        methods["transfer"] = {
            "classifier": "logistic regression on frozen vectors, L2, minimised to convergence in fp64",
            "selection": "SentEval: nested folds (mr cr subj mpqa), folds of train (trec mrpc), dev (sst2)",
            "folds": FOLDS,
            "fold_seed": SEED,
            "C": list(STRENGTHS),
            "C_folds_of_train": list(STRENGTHS_ACROSS),
        }
    return methods


def retrieval_protocol(model: SentenceEncoder, options: RetrievalOptions) -> dict[str, Any]:
    """Return the part of the protocol about retrieval; the identity of another index is not in it."""
    return {
        "retrieval": {
            "similarity": similarity_of(model),
            "search": f"exact; on a tie of {DECIMALS} decimals the earlier document first",
            "metrics": "ir_measures; recall@k: share of a query's relevant documents among the first k",
            "interval": f"paired bootstrap over queries, seed {BOOTSTRAP_SEED}",
            "systems": {system.name: system.record for system in options.systems},
        }
    }
