"""Planning: from the pipeline of a cell to its pieces of work, with every current default written out.

The stages are an encoder (a method trained on a corpus, a baseline, or the unchanged model), a classifier on it, and an
attack on either. An evaluation or an inspection of the encoder can replace the classifier and the attack. After an
attack, its texts can be tried on another classifier, or measured in the space of another model.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.recipe_choice import make_recipes
from holdfast.attacks.recipes.auto import Auto
from holdfast.attacks.resource_names import PAPER, ResourceNames
from holdfast.attacks.resources import synonyms_at
from holdfast.attacks.score_scale import fitting_split
from holdfast.baselines.registry import BASELINES
from holdfast.classifiers.defences import DEFENCES, Defence, all_options
from holdfast.classifiers.finetune_settings import FinetuneSettings
from holdfast.classifiers.splits import train_split_of
from holdfast.data.registry import TEXTS
from holdfast.data.tasks import task_named
from holdfast.errors import UserError, one_of
from holdfast.evaluation.adversarial_space import OUTCOMES
from holdfast.evaluation.evaluation_run import task_names
from holdfast.evaluation.retrieval import is_retrieval
from holdfast.experiments.cells import Cell
from holdfast.experiments.definition import Pipeline, merged
from holdfast.experiments.input_hashes import OF_TASK, Identities, files_at, task_and_split
from holdfast.experiments.stage_settings import check_names, fitted_settings, recorded, taken_count
from holdfast.experiments.translations import POSITIVE_COLUMN
from holdfast.models import POOLINGS
from holdfast.objectives import Objective
from holdfast.option_parsing import fitted
from holdfast.precision import Precision, ResolvedPrecision, auto_here
from holdfast.training.method_options import method_options, objective_class, option_defaults
from holdfast.training.train_config import TrainConfig
from holdfast.user_classes import is_user_class

AS_IT_IS = "none"
"""The method of an encoder that is not trained: no pre-training ("NP") in ADCL's tables."""

FIRST_SEED = 1
"""The seed of the first training, and of every measurement, whatever the training's seed. Between seeds only the
training differs: attacks use the same texts and the same random numbers, so that their results can be paired. Texts
that a fine-tuning holds out itself, or draws for ``test_examples``, are drawn by its own seed."""

STSB_DEV = "stsb-dev"
"""The evaluation task of the STS-B dev pairs, on which ablations are reported."""

INSPECTIONS = ("similarity", "masks", "hard-positives")
"""The kinds of inspections of given texts: the similarity of pairs, the tokens that L2P-CSR weakens, and the texts
that ADCL's attack makes."""

_PAIRS_DRAWN = 50

_ENCODER_OWN = ("method", "model", "corpus", "from", "teacher", "back_translated")


@dataclass(frozen=True)
class Setting:
    """Inputs of a reproduction other than its table.

    Attributes:
        model: the model that encoders start from; None: each must name its own.
        corpus: the training corpus of encoders that name none.
        data: the data folder.
        resources: of the attacks.
        tasks: for each task, the scale's settings of the cells on it.
        scale: the scale's settings of all cells.
        vectors: the word vectors of the baseline "glove".
        translators: two translation models, into another language and back, for trainings on back-translations.
    """

    model: str | None
    corpus: str | None
    data: Path | None
    resources: ResourceNames = PAPER
    tasks: Mapping[str, Pipeline] = field(default_factory=dict)
    scale: Pipeline = field(default_factory=dict)
    vectors: Path | None = None
    translators: tuple[str, str] | None = None


class Planner:
    """A planner that turns pipelines into cells."""

    def __init__(self, setting: Setting, identity: Identities | None = None) -> None:
        self.setting = setting
        self.identity = Identities(setting.data) if identity is None else identity

    @functools.cached_property
    def _auto(self) -> ResolvedPrecision:
        """The precision that "auto" means on this machine; determined once, and only if a cell needs it."""
        return auto_here()

    def _precision(self, precision: Precision) -> ResolvedPrecision:
        """Resolve "auto" to the precision of this machine: a cell computed in another precision has another key."""
        return self._auto if precision == "auto" else precision

    def plan(self, pipeline: Pipeline, seed: int) -> Cell:
        """Return the cell whose product the pipeline measures; the cells that it depends on are its inputs.

        ``seed`` is that of the trainings; measurements use `FIRST_SEED`.

        Raises:
            UserError: the pipeline is invalid, is not to be run, or needs something that is missing.
        """
        if reason := pipeline.get("not_run"):
            raise UserError(str(reason))
        encoder = self._encoder(pipeline.get("encoder", {}), seed)
        if "evaluation" in pipeline:
            return self._evaluation(pipeline["evaluation"], encoder)
        if "inspection" in pipeline:
            return self._inspection(pipeline["inspection"], encoder)
        victim = encoder
        if "classifier" in pipeline:
            victim = self._classifier(pipeline["classifier"], encoder, seed)
        # Attack settings without a recipe belong to a whole table or row; this cell has no attack.
        if "attack" not in pipeline or ("classifier" in pipeline and "recipe" not in pipeline["attack"]):
            return victim
        task = pipeline["attack"].get("task", pipeline.get("classifier", {}).get("task"))
        attacked = self._attack(
            {"task": task, **self._task_settings(task, "attack"), **pipeline["attack"]}, victim, FIRST_SEED
        )
        if "transfer_to" in pipeline:
            on = self._other_model(pipeline, pipeline["transfer_to"], seed)
            return Cell("transfer", {}, {"texts": attacked, "on": on}, label=f"{attacked.label} → {on.label}")
        if "distances_in" in pipeline:
            stage = dict(pipeline["distances_in"])
            outcome = one_of("distances_in: outcome", str(stage.pop("outcome", OUTCOMES[0])), OUTCOMES)
            settings = {"pairs": stage.pop("pairs", _PAIRS_DRAWN), "outcome": outcome, "seed": FIRST_SEED}
            within = self._other_model(pipeline, stage, seed)
            label = f"{attacked.label}, in {within.label}"
            return Cell("distances", settings, {"texts": attacked, "within": within}, label=label)
        return attacked

    def _other_model(self, pipeline: Pipeline, changes: Pipeline, seed: int) -> Cell:
        """Plan another classifier, or encoder if there is none: the pipeline's own with ``changes``."""
        other = merged({key: pipeline[key] for key in ("encoder", "classifier") if key in pipeline}, changes)
        encoder = self._encoder(other.get("encoder", {}), seed)
        return self._classifier(other["classifier"], encoder, seed) if "classifier" in other else encoder

    def _task_settings(self, task: Any, stage: str) -> Pipeline:
        """Return the scale's settings of a stage for cells on a task."""
        return dict(self.setting.tasks.get(str(task), {}).get(stage, {}))

    def _encoder(self, spec: Mapping[str, Any], seed: int) -> Cell:
        """Plan the unchanged model, a training from it, or a baseline."""
        if "baseline" in spec:
            return self._baseline(spec, seed)
        check_names(spec, "encoder", _ENCODER_OWN)
        start = self._start_of(spec, seed)
        method = str(spec.get("method", AS_IT_IS))
        if method == AS_IT_IS:
            return start
        corpus = self._corpus(spec)
        if named := task_and_split(str(corpus)):
            task, split = named
            spec = {**self._task_settings(task, "encoder"), **spec}
            split = split or self._task_settings(task, "classifier").get("train_split", "")
            corpus = f"{OF_TASK}{task}/{split}" if split else corpus
        settings, where = self._training(spec, method, str(corpus), seed), {"corpus": str(corpus)}
        kind, options = objective_class(method), settings["options"]
        settings |= self.identity.option_files(kind.FILE_OPTIONS, options)
        if (name := kind.SYNONYMS_OPTION) is not None and options.get(name) is not None:
            sources = synonyms_at(str(options[name]), self.setting.data)
            options[name] = [self.identity.file(path) for source in sources for path in files_at(source)]
            where[name] = ",".join(map(str, sources))
        where |= self._same_synonyms(kind, options)
        inputs = {"start": start}
        if "teacher" in spec:
            if "teacher" not in options:
                raise UserError(f"encoder: the method {method} has no teacher")
            inputs["teacher"] = self._other(spec, "teacher", seed)
        if not isinstance(back_translated := spec.get("back_translated", False), bool):
            raise UserError(f"encoder: back_translated must be true or false, not {back_translated!r}")
        if back_translated:
            inputs["pairs"] = self._translation(where["corpus"], settings)
            settings["positive_column"] = POSITIVE_COLUMN
        where |= _without_paths(settings, where)
        label = f"{method} from {start.label}" if "from" in spec else f"{method}, seed {seed}"
        return Cell("encoder", settings, inputs, where, label)

    def _same_synonyms(self, kind: type[Objective] | type[Defence], options: dict[str, Any]) -> dict[str, str]:
        """Give a training's own attack the synonyms of the table's attacks: add their hashes to its options.

        Returns:
            Their name by the option, for the execution; empty if the training needs none.
        """
        if (name := kind.candidates_option(options)) is None:
            return {}
        synonyms = self.setting.resources.synonyms
        options[name] = self.identity.synonyms(synonyms) or synonyms
        return {name: synonyms}

    def _translation(self, corpus: str, training: Mapping[str, Any]) -> Cell:
        """Plan the back-translation of the sentences that a training sees."""
        if self.setting.translators is None:
            raise UserError("back-translations need two translation models: give --translators THERE,BACK")
        seen = training["max_steps"] and training["max_steps"] * training["batch_size"] * training["accumulate"]
        settings = {"corpus": training["corpus"], "sentences": seen, "seed": training["seed"]}
        if training["column"] is not None and task_and_split(corpus) is None:
            settings["column"] = training["column"]
        where = {"corpus": corpus}
        for name, model in zip(("there", "back"), self.setting.translators, strict=True):
            path = self.identity.resolved(model)
            settings[name], where[name] = self.identity.model(path), str(path)
        return Cell("translation", settings, where=where, label=f"there and back, seed {training['seed']}")

    def _start_of(self, spec: Mapping[str, Any], seed: int) -> Cell:
        """Plan the start of a training: a model, or another training, to which the scale's settings apply too."""
        if "from" in spec:
            return self._other(spec, "from", seed)
        model = spec.get("model", self.setting.model)
        if model is None:
            raise UserError("no model to start from: give --model")
        path = self.identity.resolved(str(model))
        return Cell("model", self.identity.model(path), where={"path": str(path)}, label=path.name)

    def _other(self, spec: Mapping[str, Any], name: str, seed: int) -> Cell:
        """Plan the encoder that a training names, of the same model and corpus unless it says otherwise."""
        if not isinstance(spec[name], Mapping):
            raise UserError(f"encoder: {name} must be the settings of another encoder, not {spec[name]!r}")
        same = {key: spec[key] for key in ("model", "corpus") if key in spec}
        trained = {} if "baseline" in spec[name] else self.setting.scale.get("encoder", {})
        return self._encoder(merged(trained, same, spec[name]), seed)

    def _baseline(self, spec: Mapping[str, Any], seed: int) -> Cell:
        """Plan a baseline, as ``holdfast baseline`` makes it."""
        name = one_of("encoder: baseline", str(spec["baseline"]), tuple(BASELINES))
        takes = (*BASELINES[name].needs, *BASELINES[name].takes)
        scale = {key: value for key, value in self.setting.scale.get("baseline", {}).items() if key in takes}
        own = {key: value for key, value in spec.items() if key not in ("baseline", "model", "corpus")}
        given = fitted_settings({**scale, **own}, "baseline", named_as="encoder")
        settings: dict[str, Any] = {"name": name, **given}
        inputs, where = {}, {}
        if "options" in takes:
            from holdfast.baselines.flow_training import FlowOptions

            settings["options"] = dataclasses.asdict(FlowOptions.of(given.get("options") or {}))
        if "model" in takes:
            inputs["start"] = self._encoder({"model": spec.get("model", self.setting.model), "method": AS_IT_IS}, seed)
        if "vectors" in takes:
            if self.setting.vectors is None:
                raise UserError(f"the baseline {name} needs word vectors: give --vectors FILE")
            settings["vectors"], where["vectors"] = self.identity.file(self.setting.vectors), str(self.setting.vectors)
        if "corpus" in takes:
            where["corpus"] = str(self._corpus(spec))
            settings["corpus"], settings["seed"] = self.identity.corpus(where["corpus"]), seed
        return Cell("baseline", settings, inputs, where, name)

    def _corpus(self, spec: Mapping[str, Any]) -> Any:
        corpus = spec.get("corpus", self.setting.corpus)
        if corpus is None:
            raise UserError("no corpus to train on: give --corpus")
        return corpus

    def _training(self, spec: Mapping[str, Any], method: str, corpus: str, seed: int) -> dict[str, Any]:
        """Return all settings of a training."""
        if is_user_class(method):  # a table may come from someone else, and a custom method is code
            raise UserError(f"encoder: method {method!r}: a table trains the methods of holdfast alone")
        objective = objective_class(method)
        given = fitted_settings({key: value for key, value in spec.items() if key not in _ENCODER_OWN}, "encoder")
        sentences, evaluations = (taken_count(given, name) for name in ("sentences", "evaluations"))
        options = method_options(method, given.get("preset"), given.get("options", {}))
        given["options"] = {
            name: value
            for name, value in {**option_defaults(objective), **paper_options(method), **options}.items()
            if (name, value) not in objective.PAPER_OPTIONS.items()
        }
        config = TrainConfig(method, "", "", Path(), seed=seed, **given).completed(objective)
        if sentences is not None:
            assert config.batch_size is not None
            config = dataclasses.replace(
                config, max_steps=math.ceil(sentences / (config.batch_size * config.accumulate))
            )
        if evaluations is not None and "eval_steps" not in given and config.max_steps is not None:
            # The same number at every batch size: large batches have few steps and would be evaluated only at the end.
            config = dataclasses.replace(config, eval_steps=math.ceil(config.max_steps / evaluations))
        settings = recorded(config, "encoder")
        for name in ("positive_column", "mini_batch_size", "lora", "matryoshka", "dropout", "warmup_share"):
            if settings[name] is None:
                del settings[name]  # keeps the keys from before this setting existed
        # The options contain all that a preset sets, so its name does not change the work.
        settings |= {"preset": None, "method": method, "seed": seed, "corpus": self.identity.corpus(corpus)}
        settings["precision"] = self._precision(config.precision)
        return settings | self.identity.selected_on(config.selection)

    def _classifier(self, spec: Mapping[str, Any], encoder: Cell, seed: int) -> Cell:
        """Plan a fine-tuning of the encoder on a task."""
        if "task" not in spec:
            raise UserError("a classifier needs a task")
        task = str(spec["task"])
        spec = {**self._task_settings(task, "classifier"), **spec}
        inputs = {"encoder": encoder}
        if (attacked := spec.pop("adversarial_texts", None)) is not None:
            # Attack the classifier without these texts on its own training split, with the seed of the training.
            victim = self._classifier(spec, encoder, seed)
            split = train_split_of(task_named(task), spec.get("train_split"), self.setting.data)
            inputs["texts"] = self._attack({"task": task, "split": split, **attacked}, victim, seed)
        given = fitted_settings(spec, "classifier")
        settings = FinetuneSettings(model="", output=Path(), seed=seed, data=self.setting.data, **given).completed()
        record = recorded(settings, "classifier")
        if record["test_examples"] is None:
            del record["test_examples"]  # keeps the keys from before this limit existed
        defence, options = DEFENCES[settings.defence], all_options(settings.defence, given.get("options", {}))
        record.update(
            options=options,
            precision=self._precision(settings.precision),
            seed=seed,
            data=self.identity.trained_on(task),
            **self.identity.option_files(defence.FILE_OPTIONS, options),
        )
        where = self._same_synonyms(defence, options)
        if defence.NEEDS_MASKED_LM and options.get("masked_lm") is None:
            # A trained encoder may have lost its masked-LM head, so every row uses the masked LM of the attacks.
            where["masked_lm"] = self.setting.resources.masked_lm
            record["masked_lm"] = self.identity.model(self.identity.resolved(str(where["masked_lm"])))
        where |= _without_paths(record, where)
        added = ", adversarial texts" if "texts" in inputs else ""
        label = f"{encoder.label} on {task} ({settings.defence}{added})"
        return Cell("classifier", record, inputs, where, label)

    def _attack(self, spec: Mapping[str, Any], victim: Cell, seed: int) -> Cell:
        """Plan the attack of one recipe on a classifier, or on an encoder with a task of scored pairs."""
        spec = dict(spec)
        if spec.get("task") is None or "recipe" not in spec:
            raise UserError("an attack needs a recipe, and a task where there is no classifier")
        task, recipe = str(spec["task"]), str(spec.pop("recipe"))
        if is_user_class(recipe):
            raise UserError(f"attack: recipe {recipe!r}: a table runs the recipes of holdfast alone")
        given = fitted_settings(spec, "attack")
        (constructed,) = make_recipes([recipe], given.get("constants", {}))
        settings = AttackSettings(model=victim.label, recipes=[recipe], seed=seed, **given)
        record = recorded(settings, "attack")
        record.update(
            recipe=recipe,
            precision=self._precision(settings.precision),
            # Constants of an ensemble's parts are none of its own.
            constants={
                **(given.get("constants", {}) if isinstance(constructed, Auto) else {}),
                **constructed.constants(),
            },
            resources=self.identity.resources(constructed.needs(), self.setting.resources),
            seed=seed,
            data=self.identity.task(task),
        )
        if victim.kind != "classifier" and (fitting := fitting_split(task, "")[0]) != task:
            record["scaled_by"] = self.identity.task(fitting)  # of an encoder's cosines
        return Cell("attack", record, {"victim": victim}, label=f"{recipe} against {victim.label}")

    def _evaluation(self, spec: Mapping[str, Any], encoder: Cell) -> Cell:
        """Plan the evaluation of the encoder's vectors on tasks."""
        for name in spec:
            one_of("evaluation", name, ("tasks", "text", "pooling", "limit"))
        words = [word.strip() for word in str(spec.get("tasks", "sts")).split(",")]
        known = ",".join(word for word in words if word != STSB_DEV)
        tasks = task_names(known, "evaluation: tasks") if known or STSB_DEV not in words else []
        tasks += [STSB_DEV] * (STSB_DEV in words)
        if searches := [task for task in tasks if is_retrieval(task)]:
            raise UserError(f"evaluation: tables measure no retrieval, and {searches[0]} is one")
        text = one_of("evaluation: text", spec.get("text", TEXTS[0]), TEXTS)
        if spec.get("pooling") is not None:
            one_of("evaluation: pooling", spec["pooling"], POOLINGS)
        settings: dict[str, Any] = {
            "tasks": tasks,
            "text": text,
            "pooling": spec.get("pooling"),
            "data": {task: self.identity.task("stsb" if task in ("space", STSB_DEV) else task, text) for task in tasks},
        }
        if spec.get("limit") is not None:
            settings["limit"] = fitted("evaluation: limit", spec["limit"], int, "limit")
        label = f"{spec.get('tasks', 'sts')} of {encoder.label}"
        return Cell("evaluation", settings, {"encoder": encoder}, label=label)

    def _inspection(self, spec: Mapping[str, Any], encoder: Cell) -> Cell:
        """Plan an inspection of the encoder on given texts."""
        for name in spec:
            one_of("inspection", name, ("kind", "texts", "options"))
        kind = one_of("inspection: kind", str(spec.get("kind")), INSPECTIONS)
        texts = spec.get("texts")
        if not isinstance(texts, list) or not texts:
            raise UserError("an inspection needs texts")
        settings: dict[str, Any] = {"kind": kind, "texts": texts}
        where: dict[str, str] = {}
        if kind != "similarity":
            settings["seed"] = FIRST_SEED
        if kind == "hard-positives":
            options = settings["options"] = method_options("adcl", None, spec.get("options", {}))
            where |= self._same_synonyms(objective_class("adcl"), options)
            where["masked_lm"] = self.setting.resources.masked_lm
            settings["masked_lm"] = self.identity.model(self.identity.resolved(str(where["masked_lm"])))
        return Cell("inspection", settings, {"encoder": encoder}, where, f"{kind} of {encoder.label}")


def paper_options(method: str) -> dict[str, Any]:
    """Return those of a method's `Objective.PAPER_OPTIONS` that it has."""
    kind = objective_class(method)
    defaults = option_defaults(kind)
    return {name: value for name, value in kind.PAPER_OPTIONS.items() if name in defaults}


def _without_paths(settings: dict[str, Any], known: Mapping[str, str]) -> dict[str, str]:
    """Take the names of files and models out of the options of a training, and return them by the option.

    They have hashes in ``option_files``, so that a cell is the same wherever they lie. What is not on this machine, and
    has no hash, stays in the options; ``known`` names are out of them already.
    """
    options, found = settings["options"], settings.get("option_files", {})
    here = [name for name, digest in found.items() if name not in known and digest != str(options[name])]
    return {name: str(options.pop(name)) for name in here}
