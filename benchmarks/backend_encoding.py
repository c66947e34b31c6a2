"""The encoding of sentences by each backend, against the same encoder in fp32 torch.

All forms encode the same batches (`holdfast.encoding`: sorted by length, padded to the longest of a batch) in turn, in
every round; the ratio of each round is taken, and the median printed, with the cosine of the vectors to torch's and the
mean absolute difference of the cosines of pairs.

    python benchmarks/backend_encoding.py --model MODEL --data DIR [--rounds 5] [--limit SENTENCES]
        [--backends onnx,onnx-int8,onnx-int8-rows,openvino,openvino-bf16] [--json FILE]

Seconds of this process's CPU are compared: other work on the machine does not count into them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from claims import Claim, machine, save
from holdfast.backends.backend_options import BACKENDS, Backend
from holdfast.encoding import encode_sentences, normalised
from holdfast.evaluation.sts import load_sts
from holdfast.models import load_sentence_transformer

FLOOR = "the matrix products of the library at one thread, and the tokeniser, which all forms share"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a sentence encoder: folder, hub name, pypi:...")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=512, help="sentences of STS-B")
    parser.add_argument("--backends", default=",".join(name for name in BACKENDS if name != "torch"))
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    sentences = list(dict.fromkeys(load_sts("stsb", data=options.data).sentences))[: options.limit]
    names = ["torch", *options.backends.split(",")]
    forms = {
        name: load_sentence_transformer(options.model, device="cpu", backend=Backend.parse(name)) for name in names
    }
    units = {name: normalised(encode_sentences(form, sentences)) for name, form in forms.items()}  # and a warm-up
    used: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name, form in forms.items():
            began = time.process_time()
            encode_sentences(form, sentences)
            used[name].append(time.process_time() - began)
    report(used, units, len(sentences), options.json)


def report(used: dict[str, list[float]], units: dict[str, np.ndarray], count: int, path: Path | None) -> None:
    print(f"{count:,} sentences of STS-B; {machine()}, {torch.get_num_threads()} threads")
    print("| backend | sentences/s of CPU | times torch | range | least cosine to torch | cosines of pairs differ by |")
    print("|---|---|---|---|---|---|")
    claims = []
    pairs = units["torch"] @ units["torch"].T
    for name, seconds in used.items():
        ratios = [a / b for a, b in zip(used["torch"], seconds, strict=True)]
        cosine = float((units[name] * units["torch"]).sum(axis=1).min())
        apart = float(np.abs(units[name] @ units[name].T - pairs).mean())
        print(
            f"| {name} | {count / statistics.median(seconds):.0f} | {statistics.median(ratios):.2f} "
            f"| {min(ratios):.2f}-{max(ratios):.2f} | {cosine:.4f} | {apart:.5f} |"
        )
        if name != "torch":
            claims.append(Claim(f"encoding: torch fp32 / {name}", ratios, unit="CPU", floor=FLOOR))
        if name in ("onnx", "openvino"):
            claims.append(Claim(f"encoding: largest distance from torch, {name}", [1 - cosine], at_most=1e-5))
    if path:
        save(path, claims)


if __name__ == "__main__":
    main()
