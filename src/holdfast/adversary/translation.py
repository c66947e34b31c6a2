"""Back-translation: translate to another language and back, for milder positives (BTCL in ADCL, §3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from holdfast.adversary.token_batches import in_batches
from holdfast.errors import UserError
from holdfast.loading import loading
from holdfast.model_lookup import resolve_model
from holdfast.model_with_head import refuse_adapter


class Translator:
    """A sequence-to-sequence model that translates sentences by beam search; it is deterministic.

    Args:
        spec: a folder or hub name, as for :func:`holdfast.model_lookup.resolve_model`, of a Marian, T5 or BART model.
        prefix: text put before each sentence, such as T5's "translate English to German: ".
        beams: width of the beam.
        longest: maximum number of tokens of a translation.
        device: device of the model; None: the best available one.

    Raises:
        UserError: the model does not exist, is not safe to load, or has no sequence-to-sequence head.
    """

    def __init__(
        self, spec: str, *, prefix: str = "", beams: int = 4, longest: int = 128, device: str | None = None
    ) -> None:
        from sentence_transformers.util import get_device_name
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        self.prefix, self.beams, self.longest = prefix, beams, longest
        folder = resolve_model(spec)
        refuse_adapter(folder, spec, "a translation model")
        with loading(folder, spec):
            self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            model, report = AutoModelForSeq2SeqLM.from_pretrained(
                folder, dtype=torch.float32, local_files_only=True, use_safetensors=True, output_loading_info=True
            )
        if report["missing_keys"]:
            raise UserError(f"{spec} does not translate: it has no {min(report['missing_keys'])}")
        self.model: Any = model.eval().to(device or get_device_name())

    @torch.inference_mode()
    def __call__(self, sentences: Sequence[str]) -> list[str]:
        """Return the translations of the sentences, in the given order."""
        encoded = self.tokenizer([self.prefix + sentence for sentence in sentences], truncation=True)
        translations = [""] * len(sentences)
        for rows, features in in_batches(self.tokenizer, encoded, self.model.device):
            features.pop("token_type_ids", None)
            ids = self.model.generate(**features, num_beams=self.beams, do_sample=False, max_new_tokens=self.longest)
            for row, text in zip(rows, self.tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True):
                translations[row] = text.strip()
        return translations


def back_translate(sentences: Sequence[str], there: Translator, back: Translator) -> list[str]:
    """Translate each sentence with ``there`` into another language and with ``back`` into the original one.

    A sentence whose back-translation is empty is returned unchanged. The result can be used as the second column of the
    training data, for ``ADCL(positives="given")``.
    """
    again = back(there(sentences))
    return [new or old for new, old in zip(again, sentences, strict=True)]
