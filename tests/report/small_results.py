"""Small results of every kind, written by hand: no model is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.result_layout import SCHEMA
from holdfast.results import write_result

WILD = "<script>hit()</script>\"><img src=x onerror=hit()></script>'{{7*7}}\u202e\u2028שלום]]>"
"""What would run, were it markup, a template or a script."""

STS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")


def result(kind: str, model: str = "runs/a", rows: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "kind": kind,
        "created": "2026-01-02T03:04:05+00:00",
        "model": model,
        "model_sha256": f"sha of {model}",
        "model_files": {},
        "protocol": {},
        "environment": {"python": "3.11", "cpu": "a processor", "device": "cpu", "packages": {"torch": "2"}},
        "command": f"holdfast {kind} {model}",
        "seed": 1,
        "timing": {},
        "results": rows or [],
    } | more


def write(path: Path, made: dict[str, Any]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_result(path, made)
    return str(path)


def row(
    task: str, n: int = 100, split: str = "test", metrics: dict[str, float] | None = None, **more: Any
) -> dict[str, Any]:
    return {"task": task, "split": split, "n": n, "metrics": metrics or {}} | more


def evaluate(model: str, base: float, **more: Any) -> dict[str, Any]:
    rows = [row(task, 1000, metrics={"spearman": base + place}) for place, task in enumerate(STS)]
    rows += [row("mr", 500, "all", {"accuracy": base + 5})]
    rows += [row("space", 900, "dev", {"alignment": base / 300, "uniformity": -base / 30}, positives=90)]
    return result("evaluate", model, rows, **more)


def example(number: int, recipe: str = "pwws", outcome: str = "succeeded", **more: Any) -> dict[str, Any]:
    return {
        "number": number,
        "recipe": recipe,
        "outcome": outcome,
        "original": f"a man is cutting fish number {number}",
        "adversarial": f"a man is cutting Pisces number {number}",
        "reason": None,
        "other": None,
        "label": 1,
        "before": {"label": 1, "value": 0.9, "correct": True},
        "after": {"label": 0, "value": 0.2, "correct": False},
        "words": 7,
        "changed": [[4, "fish", "Pisces"]],
        "queries": 30,
        "passes": 20,
        "similarity": 0.8,
    } | more


def attack(
    model: str, success: float, *, recipes: tuple[str, ...] = ("pwws", "typos"), split: str = "all", **more: Any
) -> dict[str, Any]:
    rows = [
        row(
            "mr",
            40,
            split,
            {
                "examples": 40,
                "attacked": 30,
                "succeeded": 10,
                "skipped": 10,
                "success_rate": success + place,
                "success_rate_low": success - 10,
                "success_rate_high": success + 10,
                "queries": 50.0 + success + 10 * place,
                "replaced": 12.0,
                "accuracy": 80.0,
                "accuracy_under_attack": 80.0 - success,
            },
            recipe=recipe,
        )
        for place, recipe in enumerate(recipes)
    ]
    examples = [example(number, recipe) for recipe in recipes for number in range(2)]
    return result("attack", model, rows, protocol={"task": "mr", "split": split}, **{"examples": examples, **more})


def audit(model: str = "runs/a") -> dict[str, Any]:
    message = {"verdict": "holds", "headline": "stability", "told": "small letters move nothing"}
    rates = {"success_rate": 90.0, "success_rate_low": 75.0, "success_rate_high": 100.0, "queries": 30.0}
    broken = {"verdict": "breaks", "headline": "success_rate", "told": "90 % can be moved", "recipe": "typos"}
    absent = {"verdict": "absent", "headline": None, "told": "there is no WordNet"}
    rows = [
        row("audit-case", 50, "lower", {"stability": 0.99, "stability_low": 0.98, "stability_high": 1.0}, **message),
        row("audit-adversarial-typos", 20, "all", rates, **broken),
        row("audit-synonyms", 0, "all", {}, **absent),
    ]
    examples = [example(3, "typos", item="audit-adversarial-typos", neighbours=["near", "far"], queries=1)]
    return result("audit", model, rows, examples=examples)


def audit_of_both_sides(model: str, stability: float, nearer: float) -> dict[str, Any]:
    hold = {"stability": stability, "stability_low": stability - 0.1, "stability_high": stability + 0.1}
    move = {"p_hold_nearer": nearer, "p_hold_nearer_low": nearer - 0.1, "p_hold_nearer_high": nearer + 0.1}
    told = {"told": "in words", "verdict": "bends"}
    rows = [
        row("audit-typos", 50, "all", hold, headline="stability", side="hold", group="synthetic noise", **told),
        row(
            "audit-typing", 50, "all", {"stability": stability - 0.2}, headline="stability", group="human noise", **told
        ),
        row("audit-meaning", 50, "all", move, headline="p_hold_nearer", side="move", group="meaning", **told),
    ]
    return result("audit", model, rows)


def train(
    folder: Path, *, method: str = "robustembed", records: list[dict[str, Any]] | None = None, **more: Any
) -> str:
    steps = [
        {
            "step": 25 * n,
            "loss": 0.2 / n,
            "grad_norm": 0.5,
            "learning_rate": 1e-5,
            "delta_norm": 0.0045,
            "attack_loss_rise": 0.01 / n,
            "robust": 0.19 / n,
            "adversarial": 0.01 / n,
            "epoch": 0.1,
        }
        for n in (1, 2, 3)
    ]
    scores = [{"step": 25 * n, "eval_stsb_dev_spearman": 70.0 + n, "eval_runtime": 2.0} for n in (1, 2, 3)]
    made = result(
        "train",
        str(folder),
        protocol={
            "method": method,
            "options": {"radius": 0.005},
            "training": {"batch_size": 64, "precision": "bf16"},
        },
        timing={"train_seconds": 81.0},
        selected={"protocol": "best", "step": 50, "steps": 75, "score": 72.0},
    )
    path = write(folder / "results.json", made | more)
    lines = [json.dumps(record) for record in (steps + scores if records is None else records)]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def space(model: str = "runs/a", pairs: int = 6, labels: tuple[Any, ...] = (0, 1)) -> dict[str, Any]:
    points = [
        {
            "pair": n,
            "kind": kind,
            "label": labels[n % len(labels)],
            "x": n / pairs + 0.05 * (kind == "adversarial"),
            "y": 0.5,
            "text": f"{kind} text {n}",
        }
        for n in range(pairs)
        for kind in ("clean", "adversarial")
    ]
    metrics = {"d_pos": 0.5, "d_neg": 1.2, "delta": 0.7, "d_pos_unit": 0.4, "d_neg_unit": 1.1, "delta_unit": 0.7}
    rows = [row("space-attacked", pairs, "all", metrics, recipe="typos", item=None)]
    plane = {"method": "t-SNE", "perplexity": 3.0, "seed": 1, "recipe": "typos", "item": None, "n": pairs}
    return result("space", model, rows, coordinates={**plane, "points": points})


def compare() -> dict[str, Any]:
    metrics = {"baseline": 70.0, "other": 72.0, "difference": 2.0, "low": -0.5, "high": 4.5, "p": 0.00001}
    rows = [
        row(
            "stsb",
            900,
            metrics=metrics,
            metric="spearman",
            baseline="A model",
            other="B model",
            seeds=[1, 1],
            test="bootstrap",
        )
    ]
    made = result("compare", "A model, B model", rows)
    made["protocol"]["notes"] = [["not compared: mr, in one result alone", "paired seed by seed: stsb"]]
    return made


def transfer() -> dict[str, Any]:
    rows = [
        row("mr", 25, "all", {"success_rate": rate}, made_against=made, on=on)
        for made, on, rate in (("a", "a", 100.0), ("a", "b", 40.0), ("b", "a", 35.0), ("b", "b", 100.0))
    ]
    return result("transfer", "a, b", rows)


def reproduce() -> dict[str, Any]:
    rows = [
        row("NP", 1, "Acc.", {"mean": 56.25}, labels={"encoder": "NP"}, published=90.0, not_run=[], values=[56.25]),
        row("NP", 0, "Typos", {}, labels={"encoder": "NP"}, published=80.0, not_run=["no data"], values=[]),
    ]
    protocol = {"table": "small", "title": "Small table", "source": "a test", "scale": "smoke", "seeds": 1}
    return result("reproduce", "tiny", rows, protocol={**protocol, "columns": ["Acc.", "Typos"]})


def finetune(model: str = "runs/mr") -> dict[str, Any]:
    return result("finetune", model, [row("mr", 966, "held-out", {"accuracy": 82.7})], protocol={"task": "mr"})


def everything(folder: Path) -> list[str]:
    """A result of every kind, three of them of models that are compared; the words of the command."""
    made = {
        "a": evaluate("runs/a", 60.0),
        "b-1": evaluate("runs/b-1", 62.0),
        "b-2": evaluate("runs/b-2", 63.0),
        "attack-a": attack("runs/a", 60.0),
        "attack-c": attack("runs/c", 30.0),
        "audit": audit(),
        "sides": audit_of_both_sides("runs/b", 0.9, 0.4),
        "space": space(),
        "compare": compare(),
        "transfer": transfer(),
        "reproduce": reproduce(),
        "finetune": finetune(),
        "other": result("masks", "lm", [row("masks", 34, "layer 0", {"weakened_tokens": 16.3})]),
        "baseline": result("baseline", "whitened"),
    }
    words = {name: write(folder / f"{name}.json", value) for name, value in made.items()}
    seeds = f"{words.pop('b-1')},{words.pop('b-2')}"
    return [seeds, *words.values(), train(folder / "run")]


def wild(value: Any, keep: frozenset[str] = frozenset({"schema", "kind", "outcome"})) -> Any:
    """Every text of a result replaced or followed by something that would run, were it markup."""
    if isinstance(value, str):
        return value + WILD
    if isinstance(value, list):
        return [wild(one) for one in value]
    if isinstance(value, dict):
        return {key: one if key in keep else wild(one) for key, one in value.items()}
    return value


def wild_results(folder: Path) -> list[str]:
    makers = [attack("a", 50), audit(), compare(), transfer(), reproduce(), result("masks", "lm", [row("m")])]
    results = [wild(one) for one in makers]
    results[0]["examples"][0]["outcome"] = WILD
    results.append(wild(evaluate("b", 60), frozenset({"schema", "kind", "task", "split"})))
    plane = space("c")
    for point in plane["coordinates"]["points"]:
        point["text"] += WILD
    results.append(plane | {"model": "c" + WILD, "command": WILD})
    words = [write(folder / f"{n}.json", one) for n, one in enumerate(results)]
    words.append(write(folder / f"{WILD.replace('/', '')}.json", evaluate("name" + WILD, 50)))
    records = [{"step": n, "loss": 1.0 / n, WILD: 0.5, "eval_" + WILD + "_accuracy": 50.0} for n in (1, 2)]
    return [*words, train(folder / "run", method=WILD, records=records, model="run" + WILD)]


def many(folder: Path) -> list[str]:
    """Ten results with 5,000 adversarial examples of 120 words."""
    text = " ".join(f"word{n}" for n in range(120))
    rows = [
        example(
            n,
            ("pwws", "typos")[n % 2],
            ("succeeded", "failed")[n % 3 == 0],
            original=f"{text} {n}",
            adversarial=f"{text} {n}".replace("word7 ", "Pisces "),
            changed=[[7, "word7", "Pisces"], [50, "word50", f"other{n}"]],
        )
        for n in range(1000)
    ]
    made = [attack(f"m{n}", 50.0 - n, examples=rows) for n in range(5)] + [
        evaluate(f"m{n}", 60.0 + n) for n in range(5)
    ]
    return [write(folder / f"many-{n}.json", one) for n, one in enumerate(made)]
