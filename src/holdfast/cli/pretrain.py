"""``holdfast pretrain``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.cli.app import TRAIN
from holdfast.cli.console import work_quietly
from holdfast.cli.verbs import Call, verb
from holdfast.pretraining.pretrain_settings import PretrainSettings


@verb(
    PretrainSettings,
    short_help="Train a masked language model from scratch, or continue one.",
    panel=TRAIN,
    resumes=True,
    examples="""
holdfast pretrain --config small --hours 2 --data ~/sts-data --output runs/small
holdfast pretrain --model runs/small --corpus mine.txt.gz --held-out dev.txt --epochs 3 --output runs/mine
""",
)
def pretrain(settings: PretrainSettings, call: Call) -> None:
    """Train a masked language model from scratch, or continue one."""
    with work_quietly():
        from holdfast.pretraining.pretraining_run import pretrain as run

        result = run(settings, resume=call.resume, console=call.progress, command=call.command)
    load = f'Load it with: AutoModelForMaskedLM.from_pretrained("{result["model"]}")'
    call.print_made(result, "A masked language model", _rows(result), load)


def _rows(result: Mapping[str, Any]) -> dict[str, str]:
    protocol, made = result["protocol"], result["made"]
    corpus = protocol["corpus"]
    rows = {
        "started from": protocol["base_model"] or "scratch",
        "shape": ", ".join(f"{value} {name}" for name, value in protocol["shape"].items()),
        "vocabulary": protocol["vocabulary"]["told"],
        "corpus": f"{corpus['source']}, {corpus['sentences']:,} sentences, {corpus['tokens']:,} tokens",
        "steps": f"{made['steps']:,}; {made['tokens']:,} tokens, {made['epochs']:.2f} epochs",
        "training took": f"{made['train_seconds'] / 60:.1f} min",
    }
    for row in result["results"]:
        metrics = row["metrics"]
        rows["held out"] = (
            f"perplexity {metrics['perplexity']:.2f}, {metrics['masked_accuracy']:.2f} % right "
            f"({row['n']:,} places of {protocol['held_out']['sentences']:,} sentences)"
        )
    for message in result["prompts"]:
        rows[message["prompt"]] = ", ".join(f"{word} {chance:.2f}" for word, chance in message["top"])
    rows["model"] = f"{result['model']}, {made['parameters']:,} weights, {made['megabytes']:.1f} MB in {made['stored']}"
    return rows
