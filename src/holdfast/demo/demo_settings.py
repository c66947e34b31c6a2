"""The settings of the demo, and the files of its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from holdfast.model_lookup import BUNDLED_ENCODER, BUNDLED_MLM
from holdfast.settings import PYTHON_ONLY, Folder

CORPUS_FILE, QUESTIONS_FILE, TEXTS_FILE, HARDENED = "corpus.txt", "questions.txt", "texts.txt", "hardened"


@dataclass(frozen=True)
class DemoSettings:
    """Settings of a demo.

    Attributes:
        model: Encoder to harden, or the masked LM or encoder that --methods starts from; None: bundled, with --methods
            bundled-mlm.
        output: New folder for everything that the demo makes, or that of a stopped demo.
        methods: Show the methods of the papers instead: SimCSE and RobustEmbed from a masked LM, and classifiers under
            attack.
        prose: Sentences of the training corpus, beside the demo's own texts; None: the prose of this Python
            installation.
        steps: Optimiser steps of the hardening.
        batch_size: Sentences per step.
        learning_rate: Peak learning rate of the hardening: higher than the default, for a small encoder and few steps.
        audited: Texts that the audits attack.
        seed: Random seed of all draws.
    """

    model: str | None = None
    output: Folder = Path("holdfast-demo")
    methods: bool = False
    prose: Annotated[Sequence[str] | None, PYTHON_ONLY] = None
    steps: Annotated[int, PYTHON_ONLY] = 400
    batch_size: Annotated[int, PYTHON_ONLY] = 64
    learning_rate: Annotated[float, PYTHON_ONLY] = 1e-4
    audited: Annotated[int, PYTHON_ONLY] = 40
    seed: Annotated[int, PYTHON_ONLY] = 42

    @property
    def start(self) -> str:
        """The model to start from."""
        return self.model or (BUNDLED_MLM if self.methods else BUNDLED_ENCODER)

    @property
    def record(self) -> dict[str, Any]:
        """The settings that must be the same for a resumed demo."""
        names = ("methods", "steps", "batch_size", "learning_rate", "audited", "seed")
        return {name: getattr(self, name) for name in names}

    def file(self, name: str) -> Path:
        """Return the path of a file or folder of the demo."""
        return self.output / name
