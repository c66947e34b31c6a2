"""The model card of a masked language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml


def card(
    record: Mapping[str, Any],
    made: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    prompts: Sequence[Mapping[str, Any]],
) -> str:
    """Return the text of the model card.

    Args:
        record: the run's record (``run.json``).
        made: outcome of the training: ``parameters``, ``stored``, ``megabytes``, ``steps``, ``tokens``, ``epochs``,
            ``train_seconds``.
        rows: rows of the result; empty if there are no held-out sentences.
        prompts: as returned by `holdfast.pretraining.model.fill`.
    """
    front = {"library_name": "transformers", "pipeline_tag": "fill-mask", "tags": ["fill-mask", "holdfast"]}
    settings = "\n".join(f"| {name} | {value} |" for name, value in _settings(record, made))
    begun = f"`{record['base_model']}`, continued" if record["base_model"] else "trained from scratch"
    return f"""---
{yaml.safe_dump(front, sort_keys=False).strip()}
---

# A masked language model, {begun}

{made["parameters"] / 1e6:.1f} million weights, {made["megabytes"]:.1f} MB in {made["stored"]} safetensors,
with its masked-LM head.

```python
from transformers import pipeline

fill = pipeline("fill-mask", "path/to/this/folder")
print(fill("The cat sat on the {record["mask_token"]}."))
```

It is there to begin from: contrastive methods make a sentence encoder of it, masked-LM attacks take its proposals. Its
own vectors are not sentence embeddings. What its corpus says and leaves out, it says and leaves out too.

## Corpus

{record["corpus"]["source"]}: {record["corpus"]["sentences"]:,} sentences, {record["corpus"]["tokens"]:,} tokens
(sha256 {record["corpus"]["sha256"][:16]}…). {_attribution(record)}

## Held-out sentences

{_measured(record, rows)}

## Training

| | |
|---|---|
{settings}
{_prompts(prompts)}"""


def _attribution(record: Mapping[str, Any]) -> str:
    message = record["attribution"]
    return (
        f"Attribution: {message}."
        if message
        else "Its owner's terms apply; the run was not told them (`--attribution`)."
    )


def _measured(record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "Not measured: no sentences were held out."
    metrics, held = rows[0]["metrics"], record["held_out"]
    return (
        f"Perplexity **{metrics['perplexity']:.2f}** and masked accuracy **{metrics['masked_accuracy']:.2f} %** over "
        f"{rows[0]['n']:,} masked places of {held['sentences']:,} sentences\n({held['source']}), never trained on; "
        f"fp32, the stored weights.\nOf the places to predict 80 % are {record['mask_token']}, 10 % any token, 10 % as "
        "they were. Perplexities of models with different\nvocabularies cannot be compared. It chose nothing: the last "
        "step was kept."
    )


def _settings(record: Mapping[str, Any], made: Mapping[str, Any]) -> list[tuple[str, Any]]:
    training = {name: value for name, value in record["training"].items() if value is not None}
    shape = ", ".join(f"{value} {name}" for name, value in record["shape"].items())
    rows: list[tuple[str, Any]] = [("shape", shape), ("vocabulary", record["vocabulary"]["told"])]
    rows += [(name.replace("_", " "), f"`{value}`") for name, value in training.items()]
    rows += [
        ("made", f"{made['steps']:,} steps, {made['tokens']:,} tokens, {made['epochs']:.2f} epochs"),
        ("took", f"{made['train_seconds'] / 60:.1f} minutes"),
        ("holdfast", record["versions"]["holdfast"]),
    ]
    return rows


def _prompts(prompts: Sequence[Mapping[str, Any]]) -> str:
    if not prompts:
        return ""
    lines = "\n".join(
        f"| {message['prompt']} | {', '.join(f'{word} {chance:.2f}' for word, chance in message['top'])} |"
        for message in prompts
    )
    return f"\n## What it fills in\n\n| prompt | the likeliest five, with their probability |\n|---|---|\n{lines}\n"
