"""The demo of the methods, offline: training on Python's prose, comparison, attacks, audits and a report.

The results are shown whether they are good or bad. Every stage leaves ordinary runs and results in the demo's folder,
and a demo that was stopped can be resumed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.data.python_prose import load_python_prose
from holdfast.demo import methods_stages
from holdfast.demo.demo_clock import DemoClock
from holdfast.demo.demo_folder import REPORT_FILE, RESULT_FILE, lines_of, prepare, refuse_finished
from holdfast.demo.demo_sentences import load_pairs, write_sentiment
from holdfast.demo.methods_settings import (
    BEFORE,
    CLASSIFIERS,
    CORPUS_FILE,
    METHODS,
    PAIRS_FILE,
    TASK_FOLDER,
    MethodsDemoSettings,
)
from holdfast.demo.probe import Probe
from holdfast.demo.reload import reload_differences
from holdfast.files import exclusive
from holdfast.model_lookup import model_identity, resolve_model
from holdfast.results import new_result, write_result
from holdfast.runs.run_folder import alone

if TYPE_CHECKING:
    from rich.console import Console

Results = dict[str, dict[str, Any]]
"""The results of a stage by the name of their encoder or classifier."""


@exclusive(lambda settings: alone(settings.output))
def run_methods_demo(settings: MethodsDemoSettings, console: Console | None = None) -> dict[str, Any]:
    """Run the demo and return its result, also written to ``OUTPUT/demo.json`` with a report in ``OUTPUT/report.html``.

    Raises:
        UserError: the model is not available, the folder holds something else or a finished demo, or this Python has
            too little prose.
    """
    from rich.console import Console

    console = console or Console(quiet=True)
    clock = DemoClock(console)
    refuse_finished(settings.output)
    base = resolve_model(settings.model)
    corpus = list(settings.corpus) if settings.corpus is not None else load_python_prose()
    pairs = list(dict.fromkeys(text for pair in load_pairs() for text in (pair.sentence1, pair.sentence2)))
    files = {CORPUS_FILE: lines_of(corpus), PAIRS_FILE: lines_of(pairs)}
    prepare(settings.output, settings.record, model_identity(base)["model_sha256"], files)
    write_sentiment(settings.file(TASK_FOLDER))
    settings = replace(settings, corpus=corpus)
    stage = methods_stages.MethodsStage(settings, base, console, _command(settings))
    probe = Probe.make(settings.seed)
    console.print(f"{len(corpus):,} sentences of this Python's documentation and docstrings", highlight=False)
    similarity = _encoders(stage, probe, clock)
    with clock.stage("reload", "reloading the encoders in a Python without holdfast"):
        reloaded = reload_differences([settings.file(method) for method in METHODS], probe.sentences)
    attacks = _classifiers(stage, similarity, clock)
    audits = {}
    for name in (BEFORE, METHODS[-1]):
        with clock.stage(f"audit_{name}", f"auditing {settings.encoder(name)}"):
            audits[name] = methods_stages.audit_encoder(stage, name)
    result = _result(stage, similarity, attacks, audits, reloaded)
    result["timing"] = clock.record()
    write_result(settings.file(RESULT_FILE), result)
    with clock.stage("report", "writing the report"):
        methods_stages.write_demo_report(stage, settings.file(REPORT_FILE))
    return result


def _command(settings: MethodsDemoSettings) -> tuple[str, ...]:
    return ("holdfast", "demo", "--methods", "--model", settings.model, "--output", str(settings.output))


def _encoders(stage: methods_stages.MethodsStage, probe: Probe, clock: DemoClock) -> Results:
    """Train each encoder; measure these and the original model."""
    settings = stage.settings
    with clock.stage(f"measure_{BEFORE}", f"measuring {settings.model} before training"):
        results = {BEFORE: methods_stages.measure_encoder(stage, BEFORE, probe)}
    for method in METHODS:
        message = f"training {method}: {settings.steps} steps of {settings.batch_size} sentences"
        with clock.stage(f"train_{method}", message):
            methods_stages.train_encoder(stage, method)
        with clock.stage(f"measure_{method}", f"measuring {method}"):
            results[method] = methods_stages.measure_encoder(stage, method, probe)
    return results


def _classifiers(stage: methods_stages.MethodsStage, similarity: Results, clock: DemoClock) -> Results:
    """Fine-tune each classifier and attack it, with the same judge of similarity for all."""
    judge = methods_stages.similarity_judge(stage.settings, similarity[METHODS[0]])
    results = {}
    for name, encoder in CLASSIFIERS.items():
        with clock.stage(f"finetune_{name}", f"fine-tuning a classifier from {stage.settings.encoder(encoder)}"):
            methods_stages.train_classifier(stage, name)
        with clock.stage(f"attack_{name}", f"attacking it: {', '.join(stage.recipes)}"):
            results[name] = methods_stages.attack_classifier(stage, name, judge)
    return results


def _result(
    stage: methods_stages.MethodsStage,
    similarity: Results,
    attacks: Results,
    audits: Results,
    reloaded: dict[str, float],
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
