"""``holdfast finetune``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.classifiers.finetune_settings import FinetuneSettings
from holdfast.cli.app import TRAIN
from holdfast.cli.console import work_quietly
from holdfast.cli.verbs import Call, verb


@verb(
    FinetuneSettings,
    short_help="Train a classifier from an encoder and a labelled task.",
    panel=TRAIN,
    resumes=True,
    examples="""
holdfast finetune google-bert/bert-base-uncased --task sst2 --output runs/sst2
holdfast finetune runs/robust --task sst2 --defence freelb --set steps=2 --output runs/sst2-freelb
holdfast finetune runs/robust --task mr --frozen --data ~/sts-data --output runs/mr-frozen.json
""",
)
def finetune(settings: FinetuneSettings, call: Call) -> None:
    """Make a classifier of an encoder and a labelled task."""
    settings.check_given()
    with work_quietly():
        from holdfast.classifiers.finetune_run import finetune as run

        result = run(settings, resume=call.resume, console=call.progress, command=call.command)
    load = "SentenceTransformer" if settings.frozen else "AutoModelForSequenceClassification.from_pretrained"
    call.print_made(result, "A classifier", _rows(result), f'Load it with: {load}("{settings.folder}")')


def _rows(result: Mapping[str, Any]) -> dict[str, str]:
    chosen, protocol = result["selected"], result["protocol"]
    train = protocol["data"]["train"]
    out = sum(exclusion["from_train"] for exclusion in protocol["excluded"])
    kind = "scores" if protocol.get("regression") else f"{len(protocol['classes'])} classes"
    rows = {
        "task": f"{protocol['task']}, {kind}",
        "started from": protocol["base_model"],
        "trained on": f"{train['split']}, {train['texts']:,} texts; {out:,} excluded",
        "selection": f"{chosen['protocol']} ({chosen['score']:.2f})",
    }
    if not protocol["frozen"]:
        rows["defence"] = protocol["defence"]
        rows["steps"] = (
            f"{chosen['steps']:,} of {protocol['training']['batch_size']} texts; kept: step {chosen['step']:,}"
        )
    for row in result["results"]:
        scores = ", ".join(f"{name} {value:.2f}" for name, value in row["metrics"].items())
        rows[f"{row['task']} {row['split']}"] = f"{scores} ({row['n']:,} texts)"
    rows["training took"] = f"{result['timing']['train_seconds']:.1f} s"
    rows["model"] = result["model"]
    return rows
