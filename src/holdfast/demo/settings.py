"""What decides a demo, and what its folder is made of.

Nothing was tuned on what the demo measures: the methods run with their own defaults (the papers' hyper-parameters), and
the sizes are what fits in a few minutes on two cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.finding import BUNDLED_MODEL

METHODS = ("simcse", "robustembed")
"""What is trained: the plain contrastive baseline, and the same with adversarial positives."""
BEFORE = "before"
"""What the model that the demo starts from is called beside those."""
CLASSIFIERS = {"classifier": BEFORE, "classifier-robustembed": "robustembed"}
"""The classifiers' folders, and the encoder that each is fine-tuned from."""


@dataclass(frozen=True)
class DemoSettings:
    """Everything that decides a demo.

    Attributes:
        model: what it starts from, a masked language model or a SentenceTransformer.
        output: its folder, new or empty, or that of a demo that was stopped.
        corpus: the sentences that encoders are trained on; None: the prose of this Python installation.
        steps: optimiser steps of each encoder.
        batch_size: sentences of each step.
        epochs: passes of each classifier over its sentences.
        learning_rate: of the classifiers; a small model with a new head wants more than a large one.
        attacked: sentences of the test split that each recipe attacks.
        audited: sentences that the audit attacks.
        seed: of everything that is drawn.
    """

    model: str = BUNDLED_MODEL
    output: Path = Path("holdfast-demo")
    corpus: Sequence[str] | None = None
    steps: int = 60
    batch_size: int = 64
    epochs: float = 6.0
    learning_rate: float = 1e-4
    attacked: int = 60
    audited: int = 20
    seed: int = 42

    def file(self, name: str) -> Path:
        """A file or folder of the demo."""
        return self.output / name

    def similarity_file(self, name: str) -> Path:
        """What was measured of an encoder, a method's or the one before."""
        return self.file(f"similarity-{name}.json")

    def attack_file(self, classifier: str) -> Path:
        """How a classifier was attacked."""
        return self.file(f"attack-{classifier}.json")

    def audit_file(self, name: str) -> Path:
        """An encoder's report card."""
        return self.file(f"audit-{name}.json")

    def encoder(self, name: str) -> str:
        """The model that a method made, or the one before, as `holdfast.finding.resolve_model` takes it."""
        return self.model if name == BEFORE else str(self.file(name))

    @property
    def results(self) -> list[Path]:
        """The result files that the report is made of, in its order."""
        return [
            *(self.similarity_file(name) for name in (BEFORE, *METHODS)),
            *(self.file(name) / "results.json" for name in (*METHODS, *CLASSIFIERS)),
            *(self.attack_file(name) for name in CLASSIFIERS),
            *(self.audit_file(name) for name in (BEFORE, METHODS[-1])),
            self.file(RESULT_FILE),
        ]


CORPUS_FILE, PAIRS_FILE, TASK_FOLDER = "python-prose.txt", "sentences.txt", "sentiment"
RECORD_FILE, RESULT_FILE, REPORT_FILE = "demo-run.json", "demo.json", "report.html"
