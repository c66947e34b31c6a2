"""Tokens per second of masked-LM training, of one recipe's model on real sentences, computed in several ways.

Every variant makes forward and backward passes over the same number of tokens, in turn, for several rounds, on one
thread unless ``--threads`` says otherwise. Given are the real tokens (padding not counted) per second of *process CPU
time*, which other work on the machine does not count into, and per second of wall time; medians over the rounds. The
optimiser's step is left out.

    python benchmarks/pretrain_step.py --corpus FILE [--config small] [--rounds 5] [--tokens 16384] [--threads 1]

"stock" is what transformers' example does: sentences in the order drawn, padded to the longest of the batch, the head
over every token. "packed" puts sentences one after another in rows of the longest length, each attending to itself
alone through a block-diagonal mask, with positions of its own.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from claims import Claim, save
from holdfast.data.corpus import spool_corpus
from holdfast.pretraining.batches import Group, as_group
from holdfast.pretraining.masking import Masking
from holdfast.pretraining.model import loss_of, new_model, ready_to_train
from holdfast.pretraining.pretrain_settings import PretrainSettings
from holdfast.pretraining.step_order import StepOrder
from holdfast.pretraining.tokens import Ids, TokenisedCorpus, tokenise_corpus
from holdfast.pretraining.vocabulary import own_tokenizer
from holdfast.settings import read_settings

Variant = tuple[str, Callable[[Any], int]]


def bf16(on: bool) -> Any:
    return torch.autocast("cpu", dtype=torch.bfloat16) if on else nullcontext()


def made_of(corpus: TokenisedCorpus, rows: Ids, masking: Masking, draw: np.random.Generator) -> Group:
    sentences = [corpus.sentence(row) for row in rows]
    return as_group(sentences, *masking.draw(np.concatenate(sentences), draw), 0)


def full_head(model: Any, group: Group) -> torch.Tensor:
    """The loss with the head over every token."""
    features = {name: group[name] for name in ("input_ids", "attention_mask") if name in group}
    logits = model(**features).logits.flatten(0, 1)
    return F.cross_entropy(logits[group["places"]].float(), group["labels"], reduction="sum")


def packed(corpus: TokenisedCorpus, rows: Ids, masking: Masking, draw: np.random.Generator, width: int) -> Group:
    """Sentences one after another in rows of ``width`` tokens, first fit, with the mask that keeps them apart."""
    lines: list[list[Ids]] = []
    for row in rows:
        sentence = corpus.sentence(row)
        line = next((line for line in lines if sum(map(len, line)) + len(sentence) <= width), None)
        if line is None:
            lines.append(line := [])
        line.append(sentence)
    sentences = [np.concatenate(line) for line in lines]
    group = as_group(sentences, *masking.draw(np.concatenate(sentences), draw), 0)
    longest = group["input_ids"].shape[1]
    owner = np.full((len(lines), longest), -1)
    positions = np.zeros((len(lines), longest), dtype=np.int64)
    for number, line in enumerate(lines):
        ends = np.cumsum([len(sentence) for sentence in line])
        owner[number, : ends[-1]] = np.repeat(np.arange(len(line)), [len(sentence) for sentence in line])
        positions[number, : ends[-1]] = np.concatenate([np.arange(len(sentence)) for sentence in line])
    apart = owner[:, None, :, None] != owner[:, None, None, :]
    mask = torch.zeros(apart.shape).masked_fill(torch.from_numpy(apart), torch.finfo(torch.float32).min)
    return {**group, "attention_mask": mask, "position_ids": torch.from_numpy(positions)}


def packed_loss(model: Any, group: Group) -> torch.Tensor:
    names = ("input_ids", "attention_mask", "position_ids")
    hidden = model.bert(**{name: group[name] for name in names}).last_hidden_state
    logits = model.cls(hidden.flatten(0, 1)[group["places"]][None])[0]
    return F.cross_entropy(logits.float(), group["labels"], reduction="sum")


def variants(corpus: TokenisedCorpus, masking: Masking, tokens: int, seed: int) -> list[Variant]:
    draw = np.random.default_rng(seed)
    lengths = corpus.lengths
    count = tokens // int(lengths.mean())

    def over(groups: list[Group], loss: Callable[[Any, Group], torch.Tensor], fast: bool, real: int) -> Any:
        def run(model: Any) -> int:
            for group in groups:
                with bf16(fast):
                    value = loss(model, group)
                value.backward()
            model.zero_grad(set_to_none=False)
            return real

        return run

    def bucketed(size: int) -> tuple[list[Group], int]:
        order = StepOrder(lengths, group_tokens=size, groups_per_step=tokens // size, seed=seed)
        rows = order.groups(0)
        return [made_of(corpus, group, masking, draw) for group in rows], int(sum(lengths[g].sum() for g in rows))

    drawn = [draw.integers(0, len(corpus), 64) for _ in range(max(1, count // 64))]
    plain = [made_of(corpus, rows, masking, draw) for rows in drawn]
    real = int(sum(lengths[rows].sum() for rows in drawn))
    whole = [packed(corpus, rows, masking, draw, int(lengths.max())) for rows in drawn]
    told: list[Variant] = [
        ("stock: padded batches of 64, head on every token, fp32", over(plain, full_head, False, real)),
        ("the same in bf16", over(plain, full_head, True, real)),
        ("padded, head on the masked places, bf16", over(plain, places_only, True, real)),
        ("packed with a block-diagonal mask, head on the masked places, bf16", over(whole, packed_loss, True, real)),
    ]
    for size in (1024, 2048, 4096, 8192):
        groups, tokens_of = bucketed(size)
        if size == 2048:
            told.append(
                ("bucketed, groups of 2048, head on every token, bf16", over(groups, full_head, True, tokens_of))
            )
            told.append(
                (
                    "bucketed, groups of 2048, head on the masked places, bf16",
                    over(groups, places_only, True, tokens_of),
                )
            )
            told.append(("ours in fp32, groups of 2048", over(groups, loss_of, False, tokens_of)))
        told.append(
            (f"ours: the last layer on the masked places too, groups of {size}", over(groups, loss_of, True, tokens_of))
        )
    return told


def places_only(model: Any, group: Group) -> torch.Tensor:
    """The head on the masked places, every layer on every token."""
    mask = {"attention_mask": group["attention_mask"]} if "attention_mask" in group else {}
    hidden = model.bert(input_ids=group["input_ids"], **mask).last_hidden_state
    logits = model.cls(hidden.flatten(0, 1)[group["places"]][None])[0]
    return F.cross_entropy(logits.float(), group["labels"], reduction="sum")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--config", default="small")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="only the variants whose name holds this")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    settings = read_settings(
        PretrainSettings,
        {"corpus": given.corpus, "output": Path("unused")},
        PretrainSettings.find_config(given.config),
    ).completed()
    spooled = spool_corpus(settings.corpus)
    tokenizer = own_tokenizer(spooled, settings.vocabulary or 0, max_length=settings.max_length)
    corpus = tokenise_corpus(spooled, tokenizer, max_length=settings.max_length)
    model = new_model(settings, tokenizer).train()
    masking = Masking(tokenizer, share=settings.mask_share)
    cpu: dict[str, list[float]] = {}
    wall: dict[str, list[float]] = {}
    with ready_to_train(model, settings.dropout):
        for number in range(given.rounds + 1):
            for name, run in variants(corpus, masking, given.tokens, number):
                if given.only not in name:
                    continue
                began, used = time.perf_counter(), time.process_time()
                tokens = run(model)
                if number:  # the first round warms up
                    cpu.setdefault(name, []).append(tokens / (time.process_time() - used))
                    wall.setdefault(name, []).append(tokens / (time.perf_counter() - began))
    print(f"{len(corpus):,} sentences, {len(corpus.ids) / len(corpus):.1f} tokens each; {given.threads} thread(s)")
    rows = {name: (statistics.median(cpu[name]), statistics.median(wall[name])) for name in cpu}
    first = next(iter(rows.values()))[0]
    for name, (by_cpu, by_wall) in rows.items():
        print(f"{by_cpu:8,.0f} tokens/s of CPU  {by_wall:8,.0f} of wall  x{by_cpu / first:.2f}  {name}")
    if given.json:
        stock, *ours = (name for name in cpu if name.startswith(("stock", "ours: ")))
        claims = [
            Claim(
                f"pre-training: {name} / {stock}",
                [a / b for a, b in zip(cpu[name], cpu[stock], strict=True)],
                unit="CPU",
            )
            for name in ours
        ]
        save(given.json, claims, tokens_per_second=rows)


if __name__ == "__main__":
    main()
