"""Classifiers on top of an encoder, fine-tuned or fitted to its frozen vectors, for use and for attacks."""

from __future__ import annotations

from holdfast.attacks.classifier import Classifier, load_classifier
from holdfast.classifiers.finetune import finetune
from holdfast.classifiers.finetune_settings import FinetuneSettings

__all__ = ["Classifier", "FinetuneSettings", "finetune", "load_classifier"]
