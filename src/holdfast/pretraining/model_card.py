"""The model card of a masked language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from holdfast.card_terms import terms_of


def card(
    record: Mapping[str, Any],
    outcome: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    prompts: Sequence[Mapping[str, Any]],
) -> str:
    """Return the text of the model card.

    Args:
        record: the run's record (``run.json``).
        outcome: outcome of the training: ``parameters``, ``stored``, ``megabytes``, ``steps``, ``tokens``, ``epochs``,
            ``train_seconds``.
        rows: rows of the result; empty if there are no held-out sentences.
        prompts: as returned by `holdfast.pretraining.model.fill`.
    """
    front = {"library_name": "transformers", "pipeline_tag": "fill-mask", "tags": ["fill-mask", "holdfast"]}
    front |= terms_of(record["base_model"])
    settings = "\n".join(f"| {name} | {value} |" for name, value in _settings(record, outcome))
    terms = "Its owner's terms apply (`--attribution` names them)."
    if record["attribution"]:
        terms = f"Attribution: {record['attribution']}."
    begun = f"`{record['base_model']}`, continued" if record["base_model"] else "trained from scratch"
    return f"""---
{yaml.safe_dump(front, sort_keys=False).strip()}
---

# A masked language model, {begun}

{outcome["parameters"] / 1e6:.1f} million weights, {outcome["megabytes"]:.1f} MB in {outcome["stored"]} safetensors,
with its masked-LM head.

```python
from transformers import pipeline

fill = pipeline("fill-mask", "path/to/this/folder")
print(fill("The cat sat on the {record["mask_token"]}."))
```

It is a starting point: contrastive methods train a sentence encoder from it, and masked-LM attacks use its proposals.
Its own vectors are not sentence embeddings. It has the biases and the gaps of its corpus.

## Corpus

{record["corpus"]["source"]}: {record["corpus"]["sentences"]:,} sentences, {record["corpus"]["tokens"]:,} tokens
(sha256 {record["corpus"]["sha256"][:16]}…). {terms}

## Held-out sentences

{_measured(record, rows)}

## Training

| | |
|---|---|
{settings}
{_prompts(prompts)}"""


def _measured(record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "Not measured: no sentences were held out."
    metrics, held = rows[0]["metrics"], record["held_out"]
    return (
        f"Perplexity **{metrics['perplexity']:.2f}** and masked accuracy **{metrics['masked_accuracy']:.2f} %** over "
        f"{rows[0]['n']:,} masked places of {held['sentences']:,} sentences\n({held['source']}), never trained on; "
        f"fp32, the stored weights.\nOf the places to predict 80 % are {record['mask_token']}, 10 % any token, 10 % "
        "unchanged. Perplexities of models with different\nvocabularies cannot be compared. No step was selected by "
        "them: the last one was kept."
    )


def _settings(record: Mapping[str, Any], outcome: Mapping[str, Any]) -> list[tuple[str, Any]]:
    training = {name: value for name, value in record["training"].items() if value is not None}
    shape = ", ".join(f"{value} {name}" for name, value in record["shape"].items())
    rows: list[tuple[str, Any]] = [("shape", shape), ("vocabulary", record["vocabulary"]["told"])]
    rows += [(name.replace("_", " "), f"`{value}`") for name, value in training.items()]
    rows += [
        ("length", f"{outcome['steps']:,} steps, {outcome['tokens']:,} tokens, {outcome['epochs']:.2f} epochs"),
        ("duration", f"{outcome['train_seconds'] / 60:.1f} minutes"),
        ("holdfast", record["versions"]["holdfast"]),
    ]
    return rows


def _prompts(prompts: Sequence[Mapping[str, Any]]) -> str:
    if not prompts:
        return ""
    lines = "\n".join(
        f"| {prediction['prompt']} | {', '.join(f'{word} {chance:.2f}' for word, chance in prediction['top'])} |"
        for prediction in prompts
    )
    return f"\n## Predictions\n\n| prompt | most probable tokens, with their probabilities |\n|---|---|\n{lines}\n"
