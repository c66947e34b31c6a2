"""Every claim of speed and memory, in one table: each benchmark in a process of its own, one after another.

    python benchmarks/run_all.py --output DIR --model LM --encoder ENCODER --classifier CLASSIFIER --data DIR \\
        --corpus FILE [--short] [--only train_step,sts_evaluation]

A benchmark whose inputs are not given is left out, and said so; so is one that fails, with the end of what it said in
``DIR/NAME.log``. ``DIR/claims.json`` and ``DIR/claims.md`` hold the table, the machine, its device, the versions.
A claim whose bound is not met is marked. The exit code is 1 where a benchmark failed, and 0 whatever the figures
are: they depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sentence_transformers.util import get_device_name

from claims import Claim, machine, read
from holdfast.results import environment

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Benchmark:
    """A script and its words: ``{model}`` and the like stand for this command's options; ``short`` is for a try."""

    name: str
    words: str
    short: str
    usual: str = ""

    def command(self, given: dict[str, Any], *, short: bool) -> list[str]:
        """The words, filled in.

        Raises:
            KeyError: an option that is not given.
        """
        words = f"{self.words} {self.short if short else self.usual}".split()
        return [str(given[word[1:-1]]) if word.startswith("{") else word for word in words]


BENCHMARKS = (
    Benchmark(
        "train_step",
        "--model {model} --corpus {corpus} --methods robustembed,v-advcse,adcse,l2p-csr --naive",
        "--rounds 1 --steps 3 --batch-size 16",
        "--rounds 3 --steps 6",
    ),
    Benchmark("sts_evaluation", "--model {encoder} --data {data}", "--rounds 1 --limit 200"),
    Benchmark(
        "attack_speed",
        "--model {classifier} --data {data}",
        "--rounds 1 --examples 2 --pad-to 128",
        "--rounds 2 --examples 8",
    ),
    Benchmark("ensemble_attack", "--model {encoder} --data {data}", "--examples 2 --alone typos"),
    Benchmark("finetune_defences", "--model {model} --data {data}", "--rounds 1 --steps 2 --batch-size 8"),
    Benchmark("pretrain_step", "--corpus {corpus}", "--rounds 1 --tokens 4096", "--rounds 3"),
    Benchmark(
        "distill_step",
        "--model {encoder} --corpus {corpus}",
        "--rounds 1 --steps 2 --batch-size 16 --student layers=1,hidden=32,vocabulary=2000",
    ),
    Benchmark("harden_step", "--model {encoder} --corpus {corpus}", "--rounds 1 --steps 2 --batch-size 8"),
    Benchmark(
        "grad_cache_step",
        "--model {encoder} --corpus {corpus} --methods simcse,robustembed",
        "--rounds 1 --batch-size 8 --mini-batch-size 4",
    ),
    Benchmark("backend_encoding", "--model {encoder} --data {data}", "--rounds 1 --limit 16 --backends onnx"),
    Benchmark("search_backend", "--model {encoder} --data {data}", "--rounds 1 --examples 2 --backends onnx"),
    Benchmark("corpus_memory", "", "--sizes 1000,100000 --batches 1000"),
    Benchmark("first_step", "", "--sentences 10000"),
)


def run(benchmark: Benchmark, options: argparse.Namespace) -> tuple[list[Claim], str | None]:
    """The claims of a benchmark, and why there are none."""
    given = {name: value for name, value in vars(options).items() if value is not None}
    try:
        words = benchmark.command(given, short=options.short)
    except KeyError as missing:
        return [], f"--{missing.args[0]} is not given"
    told, log = options.output / f"{benchmark.name}.json", options.output / f"{benchmark.name}.log"
    told.unlink(missing_ok=True)
    command = [sys.executable, str(HERE / f"{benchmark.name}.py"), *words, "--json", str(told)]
    began = time.monotonic()
    with log.open("w", encoding="utf-8") as file:
        print(*command, file=file, flush=True)
        code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
    print(f"{benchmark.name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    if code or not told.exists():
        return [], f"failed with exit code {code}: see {log}"
    return read(told), None


def row(name: str, claim: Claim) -> str:
    met = {None: "", True: "yes", False: "**no**"}[claim.met]
    spread = f" ({min(claim.values):.3g}-{max(claim.values):.3g})" if len(claim.values) > 1 else ""
    unit = f" {claim.unit}" if claim.unit else ""
    return f"| {name} | {claim.name} | {claim.bound} | {claim.value:.3g}{unit}{spread} | {met} | {claim.floor} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--model", help="a masked language model")
    parser.add_argument("--encoder", help="a sentence encoder")
    parser.add_argument("--classifier", help="a classifier of MR, by `holdfast finetune`")
    parser.add_argument("--data", help="the folder of labelled data")
    parser.add_argument("--corpus", help="a corpus of sentences")
    parser.add_argument("--only", default="", help="names of benchmarks, joined by commas")
    parser.add_argument("--short", action="store_true", help="a try, whose figures say little")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    names = [name for name in options.only.split(",") if name]
    if unknown := set(names) - {benchmark.name for benchmark in BENCHMARKS}:
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}")
    chosen = [benchmark for benchmark in BENCHMARKS if not names or benchmark.name in names]
    found = {benchmark.name: run(benchmark, options) for benchmark in chosen}
    lines = ["| script | claim | bound | measured | met | floor |", "|---|---|---|---|---|---|"]
    lines += [row(name, claim) for name, (claims, _) in found.items() for claim in claims]
    left_out = {name: why for name, (_, why) in found.items() if why is not None}
    lines += ["", *(f"Left out: {name}: {why}." for name, why in left_out.items()), "", f"{machine()}."]
    table = "\n".join(lines) + "\n"
    (options.output / "claims.md").write_text(table, encoding="utf-8")
    record = {
        "machine": machine(),
        "environment": environment(get_device_name()),
        "short": options.short,
        "claims": [
            {"script": name, **asdict(claim), "value": claim.value, "met": claim.met}
            for name, (claims, _) in found.items()
            for claim in claims
        ],
        "left_out": left_out,
    }
    (options.output / "claims.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(table)
    sys.exit(any("failed" in why for why in left_out.values()))


if __name__ == "__main__":
    main()
