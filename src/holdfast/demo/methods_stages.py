"""The stages of the demo: each makes an ordinary run or result in the demo's folder, or reuses an existing one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.demo.methods_settings import (
    CLASSIFIERS,
    CORPUS_FILE,
    METHODS,
    PAIRS_FILE,
    TASK_FOLDER,
    MethodsDemoSettings,
)
from holdfast.demo.probe import Probe, measure
from holdfast.errors import UserError
from holdfast.model_lookup import has_masked_lm_head, model_identity, resolve_model
from holdfast.models import load_sentence_transformer
from holdfast.results import earlier_result, new_result, write_result

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class MethodsStage:
    """The context of every stage.

    Attributes:
        settings: the settings of the demo.
        base: the folder of the original model.
        console: the console that shows progress.
        command: the words of the command, for the record of every result.
    """

    settings: MethodsDemoSettings
    base: Path
    console: Console
    command: Sequence[str]

    @property
    def masked_lm(self) -> str | None:
        """The original model if it is a masked language model, else None."""
        return self.settings.model if has_masked_lm_head(self.base) else None

    @property
    def recipes(self) -> tuple[str, ...]:
        """The attacks that need no further resources: typing errors, and a masked LM's substitutions if there is one.

        The other published recipes need synonyms or a tagger, which holdfast does not include.
        """
        return ("typos", "bertattack") if self.masked_lm else ("typos",)


def train_encoder(stage: MethodsStage, method: str) -> None:
    """Train an encoder without labels, in the folder of the method's name."""
    from holdfast.training.train_config import TrainConfig
    from holdfast.training.training_run import train

    settings = stage.settings
    config = TrainConfig(
        method=method,
        model=settings.model,
        corpus=str(settings.file(CORPUS_FILE)),
        output=settings.file(method),
        max_steps=settings.steps,
        batch_size=settings.batch_size,
        seed=settings.seed,
        selection="last",
        report_sts=False,
    )
    # For a resumed demo: a finished model is not trained again.
    train(config, resume=True, console=stage.console, command=list(stage.command))


def measure_encoder(stage: MethodsStage, name: str, probe: Probe) -> dict[str, Any]:
    """Measure an encoder on the pairs and the noise, and return a result of kind ``evaluate``."""
    settings = stage.settings
    output, spec = settings.similarity_file(name), settings.encoder(name)
    if (result := _earlier(output, spec, settings.seed)) is not None:
        return result
    encoder = load_sentence_transformer(spec)
    result = new_result(
        "evaluate",
        command=stage.command,
        model=spec,
        path=resolve_model(spec),
        protocol={
            "tasks": ["demo-pairs", "demo-spread", "demo-noise"],
            "similarity": "cosine",
            "pairs": "written and graded by holdfast's authors; not a benchmark",
            "precision": "fp32",
            "pooling": None,
        },
        seed=settings.seed,
        results=measure(encoder, probe),
        device=str(encoder.device),
    )
    write_result(output, result)
    return result


def train_classifier(stage: MethodsStage, name: str) -> dict[str, Any]:
    """Fine-tune a classifier on the labelled sentences, in the folder of its name."""
    from holdfast.classifiers.finetune_run import finetune
    from holdfast.classifiers.finetune_settings import FinetuneSettings

    settings = stage.settings
    chosen = FinetuneSettings(
        model=settings.encoder(CLASSIFIERS[name]),
        task=str(settings.file(TASK_FOLDER)),
        output=settings.file(name),
        epochs=settings.epochs,
        batch_size=16,
        learning_rate=settings.learning_rate,
        max_length=64,
        seed=settings.seed,
        data=settings.output,
    )
    return finetune(chosen, resume=True, console=stage.console, command=list(stage.command))


def attack_classifier(stage: MethodsStage, name: str, judge: str) -> dict[str, Any]:
    """Attack a classifier on sentences of its test split; ``judge`` names the sentence encoder and minimum cosine."""
    from holdfast.attacks.attack_run import attack
    from holdfast.attacks.attack_settings import AttackSettings
    from holdfast.attacks.resource_names import LIGHT

    settings = stage.settings
    output = settings.attack_file(name)
    if (result := _earlier(output, str(settings.file(name)), settings.seed)) is not None:
        return result
    chosen = AttackSettings(
        model=str(settings.file(name)),
        recipes=stage.recipes,
        task=str(settings.file(TASK_FOLDER)),
        split="test",
        examples=settings.attacked,
        resources=replace(LIGHT, masked_lm=settings.model, similarity=judge),
        seed=settings.seed,
        data=settings.output,  # not the user's data sets, so that the measurements do not depend on them
        output=output,
    )
    return attack(chosen, resume=True, console=stage.console, command=stage.command)


def similarity_judge(settings: MethodsDemoSettings, similarity: dict[str, Any]) -> str:
    """Return SimCSE's encoder and the minimum cosine for attacks: half-way between other sentences' mean cosine and 1.

    The recipes' own limits are for the space of the Universal Sentence Encoder and have no meaning in another one.

    ``similarity`` is the result of `measure_encoder` for that encoder.
    """
    (distance,) = (row["metrics"]["distance"] for row in similarity["results"] if row["task"] == "demo-spread")
    return f"{settings.file(METHODS[0])}@{1 - distance / 200:.3f}"


def audit_encoder(stage: MethodsStage, name: str) -> dict[str, Any]:
    """Audit an encoder on the sentences of the graded pairs."""
    from holdfast.audit import AuditSettings, audit

    settings = stage.settings
    output = settings.audit_file(name)
    if (result := _earlier(output, settings.encoder(name), settings.seed)) is not None:
        return result
    chosen = AuditSettings(
        model=settings.encoder(name),
        texts=str(settings.file(PAIRS_FILE)),
        examples=settings.audited,
        masked_lm=stage.masked_lm,
        seed=settings.seed,
        data=settings.output,
    )
    result = audit(chosen, console=stage.console, command=stage.command)
    write_result(output, result)
    return result


def _earlier(path: Path, model: str, seed: int) -> dict[str, Any] | None:
    """Read the result of a stage that an earlier, stopped run of this demo has finished; None if there is none.

    Raises:
        UserError: the file is damaged, or has another model or another seed than this demo.
    """
    result = earlier_result(path, model_identity(resolve_model(model))["model_sha256"])
    if result is not None and result["seed"] != seed:
        raise UserError(
            f"{path} has seed {result['seed']}, and this demo has seed {seed}: move the file out of the folder"
        )
    return result


def write_demo_report(stage: MethodsStage, report: Path) -> None:
    """Write the report of all results. It is written last, so its presence shows that the demo is finished."""
    from holdfast.report import write_report

    write_report([str(path) for path in stage.settings.results], report, title="The holdfast demo")
