"""The settings of the demo of the methods, and the files of its folder.

Nothing was tuned on the demo's measurements: the methods have their own defaults (the papers' hyper-parameters), and
the sizes are chosen for a few minutes on two cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.demo.demo_folder import RESULT_FILE
from holdfast.model_lookup import BUNDLED_MLM

METHODS = ("simcse", "robustembed")
"""The trained methods: the plain contrastive baseline, and contrastive training with adversarial positives."""
BEFORE = "before"
"""The name of the original model, beside those of the methods."""
CLASSIFIERS = {"classifier": BEFORE, "classifier-robustembed": "robustembed"}
"""The classifiers' folders, and the encoder that each one is fine-tuned from."""


@dataclass(frozen=True)
class MethodsDemoSettings:
    """Settings of the demo of the methods.

    Attributes:
        model: Masked LM or encoder to start from.
        output: New folder for everything that the demo makes, or that of a stopped demo.
        corpus: Training sentences of the encoders; None: the prose of this Python installation.
        steps: Optimiser steps of each encoder.
        batch_size: Sentences per step.
        epochs: Passes of each classifier over its sentences.
        learning_rate: Learning rate of the classifiers; a small model with a new head needs a higher one.
        attacked: Sentences of the test split that each recipe attacks.
        audited: Sentences that the audit attacks.
        seed: Random seed of all draws.
    """

    model: str = BUNDLED_MLM
    output: Path = Path("holdfast-demo")
    corpus: Sequence[str] | None = None
    steps: int = 60
    batch_size: int = 64
    epochs: float = 6.0
    learning_rate: float = 1e-4
    attacked: int = 60
    audited: int = 20
    seed: int = 42

    @property
    def record(self) -> dict[str, Any]:
        """The settings that must be the same for a resumed demo."""
        names = ("steps", "batch_size", "epochs", "learning_rate", "attacked", "audited", "seed")
        return {"methods": True, **{name: getattr(self, name) for name in names}}

    def file(self, name: str) -> Path:
        """Return the path of a file or folder of the demo."""
        return self.output / name

    def similarity_file(self, name: str) -> Path:
        """Return the file of an encoder's measurements (of a method or `BEFORE`)."""
        return self.file(f"similarity-{name}.json")

    def attack_file(self, classifier: str) -> Path:
        """Return the file of a classifier's attack."""
        return self.file(f"attack-{classifier}.json")

    def audit_file(self, name: str) -> Path:
        """Return the file of an encoder's report card."""
        return self.file(f"audit-{name}.json")

    def encoder(self, name: str) -> str:
        """Return a method's model, or the original one, as an argument for `holdfast.model_lookup.resolve_model`."""
        return self.model if name == BEFORE else str(self.file(name))

    @property
    def results(self) -> list[Path]:
        """The result files of the report, in its order."""
        return [
            *(self.similarity_file(name) for name in (BEFORE, *METHODS)),
            *(self.file(name) / "results.json" for name in (*METHODS, *CLASSIFIERS)),
            *(self.attack_file(name) for name in CLASSIFIERS),
            *(self.audit_file(name) for name in (BEFORE, METHODS[-1])),
            self.file(RESULT_FILE),
        ]


CORPUS_FILE, PAIRS_FILE, TASK_FOLDER = "python-prose.txt", "sentences.txt", "sentiment"
