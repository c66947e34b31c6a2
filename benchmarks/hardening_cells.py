"""The cells of `hardening_study.py`: the training of a variant with a seed, and what it finds."""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from datasets import Dataset
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from transformers import PrinterCallback, set_seed

from fit_typing import rows
from hardening_variants import VARIANTS, AgainstMoves, Variant, unpadded
from holdfast.attacks.resource_names import SETS
from holdfast.attacks.resources import Resources
from holdfast.audit import AuditSettings, audit
from holdfast.baselines.spelling import SpellingCorrection
from holdfast.edits.noise import Noise
from holdfast.encoder import Encoder, freeze_unused
from holdfast.encoding import encode_sentences, normalised
from holdfast.evaluation.retrieval import similarity_of
from holdfast.files import atomic_path, read_object, write_json
from holdfast.hardening import HardenSettings
from holdfast.hardening.added_vocabulary import add_misspellings_of
from holdfast.hardening.goal import Goal, OldIndex, Outcomes, goal_texts, interpolated, judge, kept
from holdfast.hardening.goal.goal_queries import labelled_collection, usable_noise
from holdfast.hardening.goal.hold_out import hold_out, keys_of, training_rows
from holdfast.hardening.goal.interpolation import WEIGHTS, weights_of
from holdfast.hardening.goal.meaning_pairs import meaning_pairs
from holdfast.input_limits import lowered, set_limit
from holdfast.model_lookup import model_identity, resolve_model
from holdfast.models import load_sentence_transformer
from holdfast.objectives.anchored import Anchored
from holdfast.precision import auto_here
from holdfast.training.cpu import fast_on_cpu
from holdfast.training.method_options import method_options
from holdfast.training.teacher_vectors import TeacherVectors
from holdfast.training.trainer import HoldfastTrainer

CHOOSING = 5
"""One in so many held-out texts chooses."""
PAIRS = (150, 500)
"""Pairs of changed texts that choose, and that give the figures."""
QUESTIONS = 0.4
"""Held-out questions for each held-out sentence."""
BLOCK = 8192
"""Texts whose vectors are kept in one file."""
SEED = 0
"""Seed of all that is measured, whatever the training's."""

Cell = dict[str, Any]


class Study:
    """The texts, the vectors and the measures that all cells share."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.precision = given, auto_here()
        self.sha = model_identity(resolve_model(given.model))["model_sha256"]
        model = load_sentence_transformer(given.model)
        sources = [
            column(given.data / "unlabelled" / "wiki_train_00.tsv.gz"),
            [text for file in sorted((given.data / "questions").glob("*.tsv.gz")) for text in column(file)],
        ]
        sources = [source[: given.texts] for source in sources]
        keys = [keys_of(source) for source in sources]
        held = [
            hold_out(own, round(share * given.hold_out / 2)) for own, share in zip(keys, (1.0, QUESTIONS), strict=True)
        ]
        excluded = np.concatenate([each.keys for each in held])
        ordered = [sources[0][row] for row in held[0].rows]
        documents = ordered[: given.index]
        queries = [sources[1][row] for row in held[1].rows[: held[1].held]]
        free = [set(training_rows(own, excluded).tolist()) for own in keys]
        # No text of the index is trained on, or is in the bank.
        self.sentences = [sources[0][row] for row in held[0].rows[given.index :].tolist() if row in free[0]]
        self.questions = [sources[1][row] for row in held[1].rows.tolist() if row in free[1]]
        self.documents = documents
        self.vectors = self._vectors(model, self.sentences + self.questions, None).astype(np.float16)
        units = normalised(self._vectors(model, documents, "document")).astype(np.float32)
        index = OldIndex(documents, units, similarity_of(model))
        self.noise, _ = usable_noise(Noise.parse(self.settings(Variant("")).noise), english=True)
        self.tagger = lambda: Resources(SETS["light"], data=given.data).tagger
        parts = [0, held[0].held // CHOOSING, held[0].held], [0, len(queries) // CHOOSING, len(queries)]
        self.goals = []
        for half in (0, 1):
            (first, last), (begin, end) = (part[half : half + 2] for part in parts)
            places = list(range(first, last))
            pairs = meaning_pairs(documents, places, self.tagger, most=PAIRS[half], seed=SEED)
            texts = goal_texts(documents, places, queries[begin:end], self.noise, seed=SEED, pairs=pairs)
            self.goals.append(Goal(model, index, texts, self.precision))
            say(f"{'choosing' if half == 0 else 'reporting'}: {texts.queries:,} queries, {len(pairs)} pairs")
        every = [*documents, *self.sentences, *queries, *self.questions]
        self.texts = hashlib.sha256("\n".join(every).encode()).hexdigest()

    @functools.cached_property
    def correction(self) -> Callable[[str], str]:
        """The spelling correction with the words of all texts; each text is corrected once."""
        return functools.cache(SpellingCorrection.of([*self.documents, *self.sentences, *self.questions]))

    @functools.cached_property
    def noiseqa(self) -> Goal:
        collection = labelled_collection(self.given.data / "noiseqa")
        model = load_sentence_transformer(self.given.model)
        index = OldIndex([], np.zeros((0, 1), dtype=np.float32))
        return Goal(model, index, goal_texts([], [], [], [], collection=collection), self.precision)

    def settings(self, variant: Variant) -> HardenSettings:
        corpus = str(self.given.data / "unlabelled" / "wiki_train_00.tsv.gz")  # its language chooses the noise
        return HardenSettings(self.given.model, corpus, Path("unused"), queries="questions", **variant.settings)

    def _vectors(self, model: SentenceTransformer, texts: Sequence[str], role: Any) -> npt.NDArray[np.float32]:
        """The original's vectors of texts, made or read, in blocks, so that a killed run loses little."""
        blocks = [texts[at : at + BLOCK] for at in range(0, len(texts), BLOCK)]
        return np.concatenate([self._block(model, block, role) for block in blocks])

    def _block(self, model: SentenceTransformer, texts: Sequence[str], role: Any) -> npt.NDArray[np.float32]:
        name = digest({"model": self.sha, "role": role, "precision": self.precision, "texts": texts})
        path = self.given.work / f"vectors-{name}.npy"
        if not path.exists():
            say(f"encoding {len(texts):,} texts")
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                np.save(file, encode_sentences(model, texts, role=role, precision=self.precision))
        made: npt.NDArray[np.float32] = np.load(path)
        return made

    # --- training -------------------------------------------------------------------------------------------------

    def training(self, variant: Variant, seed: int) -> dict[str, Any]:
        """All that determines the weights."""
        settings = self.settings(variant)
        config = settings.training().completed(Anchored)
        return {
            "model": self.sha,
            "texts": self.texts,
            "objective": variant.objective.__name__,
            "options": dict(config.options),
            "query_share": settings.query_share,
            "typo_vocabulary": settings.typo_vocabulary,
            "training": [config.learning_rate, config.batch_size, config.max_length, self.given.batch_size],
            "layers": variant.layers,
            "steps": round(variant.steps * self.given.steps),
            "precision": self.precision,
            "seed": seed if variant.steps else None,
        }

    def start(self, variant: Variant) -> SentenceTransformer:
        model = load_sentence_transformer(self.given.model)
        if size := self.settings(variant).typo_vocabulary:
            add_misspellings_of(model, [*self.documents, *self.sentences, *self.questions], size)
        return model

    def trained(self, variant: Variant, seed: int, model: SentenceTransformer) -> tuple[dict[str, Any], float]:
        """The weights after the training, and its seconds of the processor; made or read."""
        path = self.given.work / f"weights-{digest(self.training(variant, seed))}.safetensors"
        if not path.exists():
            seconds = self._train(variant, seed, model)
            with atomic_path(path) as temporary:
                save_file(
                    {name: value.contiguous() for name, value in weights_of(model).items()},
                    temporary,
                    metadata={"seconds": str(seconds)},
                )
        with safe_open(path, "pt") as file:
            return load_file(path), float(file.metadata()["seconds"])

    def _train(self, variant: Variant, seed: int, model: SentenceTransformer) -> float:
        record, config = self.training(variant, seed), self.settings(variant).training().completed(Anchored)
        batch = self.given.batch_size or config.batch_size
        chosen = self._drawn(record["query_share"], record["steps"] * batch, seed)
        texts = [self._text(row) for row in chosen]
        set_seed(seed)
        limit = model.max_seq_length
        set_limit(model, lowered(config.max_length, model))
        objective = variant.objective(model, **method_options(config.method, None, config.options))
        objective.use_labels()
        bank = np.random.default_rng(SEED).permutation(len(self.vectors))[: objective.WANTED_TEXTS]
        objective.see_texts([], torch.from_numpy(self.vectors[bank].astype(np.float32)))
        encoder = Encoder(model)
        if isinstance(objective, AgainstMoves):
            pairs = meaning_pairs(texts, range(len(texts)), self.tagger, most=len(texts), seed=seed)
            features = encoder.tokenise([texts[pair.document] for pair in pairs])
            objective.see_moves(dict(zip(map(tuple, unpadded(features)), (pair.move for pair in pairs), strict=True)))
        freeze_unused(encoder, encoder.tokenise(texts[:2]))
        for layer in encoder.backbone.layers[variant.layers :] if variant.layers is not None else []:
            layer.requires_grad_(False)
        with tempfile.TemporaryDirectory() as folder:
            arguments = SentenceTransformerTrainingArguments(
                folder,
                per_device_train_batch_size=batch,
                max_steps=record["steps"],
                learning_rate=config.learning_rate,
                lr_scheduler_type="linear",
                max_grad_norm=config.max_grad_norm,
                optim="adamw_torch_fused",
                bf16=self.precision == "bf16",
                use_cpu=model.device.type == "cpu",
                seed=seed,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            )
            trainer = HoldfastTrainer(
                model=model,
                args=arguments,
                train_dataset=Dataset.from_dict({"sentence": texts}),
                loss=objective,
                vectors=TeacherVectors(Path("vectors"), self.vectors[chosen]),
            )
            trainer.remove_callback(PrinterCallback)
            began = time.process_time()
            with fast_on_cpu(objective):
                trainer.train()
        set_limit(model, limit)
        model.requires_grad_(True)
        return time.process_time() - began

    def _drawn(self, share: float, total: int, seed: int) -> npt.NDArray[np.int64]:
        """The rows of the vectors to train on, some again where there are not enough."""
        rng, questions = np.random.default_rng(seed), round(share * total)
        sizes = (len(self.sentences), len(self.questions))
        parts = [
            np.resize(rng.permutation(size), count)
            for size, count in zip(sizes, (total - questions, questions), strict=True)
        ]
        return np.concatenate([parts[0], len(self.sentences) + parts[1]])

    def _text(self, row: int) -> str:
        known = len(self.sentences)
        return self.sentences[row] if row < known else self.questions[row - known]

    # --- cells ----------------------------------------------------------------------------------------------------

    def cell(self, name: str, seed: int) -> Cell:
        """The findings of a variant's seed, made or read."""
        variant = VARIANTS[name]
        record = {
            **self.training(variant, seed),
            "spelling": variant.spelling,
            "noise": list(map(str, self.noise)),
            "measured": [self.given.hold_out, self.given.index, PAIRS, CHOOSING],
        }
        path = self.given.work / f"cell-{digest(record)}.json"
        parts = {"goal": self._goal_part}
        parts |= {"noiseqa": self._noiseqa_part} if self.given.confirm else {}
        parts |= {"noiseqa curve": self._noiseqa_curve_part} if self.given.curve else {}
        parts |= {f"attack{self.given.attack}": self._attack_part} if self.given.attack else {}
        cell = read_object(path) or {"record": record}
        missing = [part for part in parts if part not in cell]
        if not missing:
            return cell
        began = time.process_time()
        model = self.start(variant)
        start, last, names = weights_of(model), None, [own for own, _ in model.named_parameters(remove_duplicate=False)]
        if variant.steps:
            last, cell["seconds"] = self.trained(variant, seed, model)

        def mixed(weight: float) -> SentenceTransformer:
            model.load_state_dict(start if last is None else interpolated(start, last, weight, names))
            return model

        correct = self.correction if variant.spelling else None
        for part in missing:
            cell[part] = parts[part](mixed, cell, correct, last is not None)
            write_json(path, cell)
        seconds, weight = time.process_time() - began, cell["goal"]["weight"]
        say(f"{name}, seed {seed}: {seconds:.0f} s of the processor, weight {weight:g}")
        return cell

    def _goal_part(self, mixed: Any, _: Cell, correct: Any, trained: bool) -> Any:
        choosing, reporting = self.goals
        if not trained:
            last, chosen = (packed(goal.measure(mixed(1.0), correct)) for goal in self.goals)
            return {"weight": 1.0, "curve": [], "chosen": chosen, "last": last}
        before = choosing.original_outcomes
        # As `holdfast harden` does, the weight is chosen without spelling correction.
        found = {weight: choosing.measure(mixed(weight)) for weight in WEIGHTS}
        candidates = [judge(before, own, step=self.given.steps, weight=weight) for weight, own in found.items()]
        best = kept(candidates)
        weight = 0.0 if best is None else best.weight
        return {
            "weight": weight,
            "curve": [each.record() for each in candidates],
            "chosen": packed(reporting.measure(mixed(weight), correct)),
            "last": packed(found[1.0] if correct is None else choosing.measure(mixed(1.0), correct)),
        }

    def _noiseqa_part(self, mixed: Any, cell: Cell, correct: Any, _: bool) -> Any:
        return {"chosen": packed(self.noiseqa.measure(mixed(cell["goal"]["weight"]), correct))}

    def _noiseqa_curve_part(self, mixed: Any, _: Cell, correct: Any, trained: bool) -> Any:
        weights = WEIGHTS if trained else (1.0,)
        return {f"{weight:g}": packed(self.noiseqa.measure(mixed(weight), correct)) for weight in weights}

    def _attack_part(self, mixed: Any, cell: Cell, _: Any, __: bool) -> Any:
        """The attack of `holdfast audit` on the kept and on the trained weights, without spelling correction."""
        found = {weight: self._attacked(mixed(weight)) for weight in {cell["goal"]["weight"], 1.0}}
        return {"chosen": found[cell["goal"]["weight"]], "last": found[1.0]}

    def _attacked(self, model: SentenceTransformer) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder, create_model_card=False)
            made = audit(
                AuditSettings(folder, items="adversarial-typos", examples=self.given.attack, data=self.given.data)
            )
        (row,) = [row for row in made["results"] if row["task"] == "audit-adversarial-typos"]
        return {"n": row["n"], "metrics": row["metrics"]}


def column(file: Path) -> list[str]:
    return [row[0] for row in rows(file)]


def digest(record: Any) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def packed(outcomes: Outcomes) -> dict[str, Any]:
    """What each query finds, a digit each, and which changed text of each pair is nearer."""
    found = {" ".join(version): "".join("01"[int(own)] for own in each) for version, each in outcomes.found.items()}
    return found | ({"hold/move": outcomes.nearer.tolist()} if outcomes.nearer.size else {})
