"""``holdfast train``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.cli.app import TRAIN
from holdfast.cli.console import work_quietly
from holdfast.cli.verbs import Call, verb
from holdfast.training.train_config import TrainConfig


@verb(
    TrainConfig,
    short_help="Train a sentence encoder without labels.",
    panel=TRAIN,
    resumes=True,
    examples="""
holdfast train robustembed --model google-bert/bert-base-uncased --corpus wiki.txt.gz --output runs/robust
holdfast train simcse --config simcse.yaml --seed 1 --set temperature=0.1 --output runs/simcse-1
""",
)
def train(settings: TrainConfig, call: Call) -> None:
    """Train a sentence encoder without labels."""
    from holdfast.evaluation.score_tables import sts_table
    from holdfast.runs.duplicate_shares import duplicates_after
    from holdfast.training import training_run

    with work_quietly():
        result = training_run.train(settings, resume=call.resume, console=call.progress, command=call.command)
    if not result:  # not the first of several processes, which prints for all
        return
    if "plan" in result:
        call.finish(result, None, lambda: None)  # its lines are printed
        return
    scores = sts_table(result["results"]) if result["results"] else None
    duplicates = duplicates_after(result.get("duplicates", {}), result["protocol"]["options"])
    load = f'Load it with: SentenceTransformer("{settings.output}")'
    call.print_made(result, "Trained", _rows(result), scores, duplicates, load)


def _rows(result: Mapping[str, Any]) -> dict[str, str]:
    from holdfast.results import percent_shown

    chosen, protocol = result["selected"], result["protocol"]
    before = f"; {chosen['start']:.2f} before training" if chosen.get("start") is not None else ""
    kept = f"{chosen['step']} (STS-B dev {chosen['score']:.2f}{before})" if "step" in chosen else "the last"
    corpus = protocol["corpus"]
    attack = result.get("attack")
    under = {"attack": f"{percent_shown(attack['loss_share'])} of its loss (median)"} if attack else {}
    return {
        "method": protocol["method"] + (f" ({protocol['preset']})" if protocol["preset"] else ""),
        "started from": protocol["base_model"],
        "corpus": f"{corpus['source']}, {corpus['sentences']:,} sentences",
        "steps": f"{chosen['steps']:,} of {_per_step(protocol['training'])}",
        "step kept": kept,
        **under,
        "training took": f"{result['timing']['train_seconds']:.1f} s",
        "model": result["model"],
    }


def _per_step(training: Mapping[str, Any]) -> str:
    """Describe the sentences of one optimiser step: one batch, or several that are not contrasted with one another."""
    batch, batches = training["batch_size"], training["accumulate"]
    return f"{batch:,} sentences" if batches == 1 else f"{batches:,} × {batch:,} sentences"
