"""The demo, offline: training on this Python's prose, comparison before and after, attacks, audits and a report.

The results are shown whether they are good or bad. Every stage leaves ordinary runs and results in the demo's folder,
and a demo that was stopped can be resumed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.data.python_prose import load_python_prose
from holdfast.demo import demo_stages
from holdfast.demo.demo_folder import prepare, refuse_finished
from holdfast.demo.demo_settings import BEFORE, CLASSIFIERS, METHODS, REPORT_FILE, RESULT_FILE, DemoSettings
from holdfast.demo.probe import Probe
from holdfast.demo.reload import reload_differences
from holdfast.files import exclusive
from holdfast.model_lookup import model_identity, resolve_model
from holdfast.progress import stage
from holdfast.results import new_result, write_result
from holdfast.runs.run_folder import alone

if TYPE_CHECKING:
    from rich.console import Console

Results = dict[str, dict[str, Any]]
"""The results of a stage by the name of their encoder or classifier."""


@exclusive(lambda settings: alone(settings.output))
def run_demo(settings: DemoSettings, console: Console | None = None) -> dict[str, Any]:
    """Run the demo and return its result, also written to ``OUTPUT/demo.json`` with a report in ``OUTPUT/report.html``.

    Raises:
        UserError: the model is not available, the folder holds something else or a finished demo, or this Python has
            too little prose.
    """
    from rich.console import Console

    console = console or Console(quiet=True)
    began = time.monotonic()
    refuse_finished(settings)
    base = resolve_model(settings.model)
    corpus = list(settings.corpus) if settings.corpus is not None else load_python_prose()
    prepare(settings, corpus, model_identity(base)["model_sha256"])
    settings = replace(settings, corpus=corpus)
    stage = demo_stages.DemoStage(settings, base, console, _command(settings))
    probe, clock = Probe.make(settings.seed), _Clock(console)
    console.print(f"{len(corpus):,} sentences of this Python's documentation and docstrings", highlight=False)
    similarity = _encoders(stage, probe, clock)
    with clock.stage("reload", "reloading the encoders in a Python without holdfast"):
        reloaded = reload_differences([settings.file(method) for method in METHODS], probe.sentences)
    attacks = _classifiers(stage, similarity, clock)
    audits = {}
    for name in (BEFORE, METHODS[-1]):
        with clock.stage(f"audit_{name}", f"auditing {settings.encoder(name)}"):
            audits[name] = demo_stages.audit_encoder(stage, name)
    result = _result(stage, similarity, attacks, audits, reloaded)
    result["timing"] = {"demo_seconds": time.monotonic() - began, **clock.seconds}
    write_result(settings.file(RESULT_FILE), result)
    with clock.stage("report", "writing the report"):
        demo_stages.write_demo_report(stage, settings.file(REPORT_FILE))
    return result


def _command(settings: DemoSettings) -> tuple[str, ...]:
    return ("holdfast", "demo", "--model", settings.model, "--output", str(settings.output))


def _encoders(stage: demo_stages.DemoStage, probe: Probe, clock: _Clock) -> Results:
    """Train each encoder; measure these and the original model."""
    settings = stage.settings
    with clock.stage(f"measure_{BEFORE}", f"measuring {settings.model} before training"):
        results = {BEFORE: demo_stages.measure_encoder(stage, BEFORE, probe)}
    for method in METHODS:
        message = f"training {method}: {settings.steps} steps of {settings.batch_size} sentences"
        with clock.stage(f"train_{method}", message):
            demo_stages.train_encoder(stage, method)
        with clock.stage(f"measure_{method}", f"measuring {method}"):
            results[method] = demo_stages.measure_encoder(stage, method, probe)
    return results


def _classifiers(stage: demo_stages.DemoStage, similarity: Results, clock: _Clock) -> Results:
    """Fine-tune each classifier and attack it, with the same judge of similarity for all."""
    judge = demo_stages.similarity_judge(stage.settings, similarity[METHODS[0]])
    results = {}
    for name, encoder in CLASSIFIERS.items():
        with clock.stage(f"finetune_{name}", f"fine-tuning a classifier from {stage.settings.encoder(encoder)}"):
            demo_stages.train_classifier(stage, name)
        with clock.stage(f"attack_{name}", f"attacking it: {', '.join(stage.recipes)}"):
            results[name] = demo_stages.attack_classifier(stage, name, judge)
    return results


class _Clock:
    """Clock that announces each stage and records ``NAME_seconds``, and ``NAME_cpu_seconds`` of this process."""

    def __init__(self, console: Console) -> None:
        self.seconds: dict[str, float] = {}
        self._console = console

    @contextlib.contextmanager
    def stage(self, name: str, message: str) -> Iterator[None]:
        wall, cpu = time.monotonic(), time.process_time()
        with stage(self._console, message):
            yield
        self.seconds[f"{name}_seconds"] = time.monotonic() - wall
        self.seconds[f"{name}_cpu_seconds"] = time.process_time() - cpu


def _result(
    stage: demo_stages.DemoStage, similarity: Results, attacks: Results, audits: Results, reloaded: dict[str, float]
) -> dict[str, Any]:
    """Build one result of all measurements of the demo; each part also has its own file."""
    settings = stage.settings
    assert settings.corpus is not None
    rows = [{"model": name, **row} for name, result in similarity.items() for row in result["results"]]
    result = new_result(
        "demo",
        command=stage.command,
        model=settings.model,
        path=stage.base,
        protocol={
            "methods": list(METHODS),
            "steps": settings.steps,
            "batch_size": settings.batch_size,
            "hyper_parameters": "the methods' own defaults; nothing was tuned on these measurements",
            "corpus": {"source": "prose of this Python installation", "sentences": len(settings.corpus)},
            "pairs": "written and graded by holdfast's authors; not a benchmark",
            "recipes": list(stage.recipes),
        },
        seed=settings.seed,
        results=rows,
    )
    result["output"] = str(settings.output)
    result["report"] = str(settings.file(REPORT_FILE))
    result["reload_max_difference"] = reloaded
    result["attacks"] = [
        {"classifier": name, "from": CLASSIFIERS[name], "recipe": row["recipe"], "n": row["n"], **row["metrics"]}
        for name, attacked in attacks.items()
        for row in attacked["results"]
    ]
    result["audits"] = {name: [row["verdict"] for row in audit["results"]] for name, audit in audits.items()}
    return result
