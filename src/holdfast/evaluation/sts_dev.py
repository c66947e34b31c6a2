"""The evaluator with which the trainer selects checkpoints: STS-B *dev*, never a test set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentence_transformers.base.evaluation import BaseEvaluator

from holdfast.encoding import Batch, encode_batches, tokenise
from holdfast.evaluation.sts import score_pairs
from holdfast.input_limits import limited_to
from holdfast.precision import ResolvedPrecision

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from holdfast.data.registry import ScoredPairs


class StsDev(BaseEvaluator):
    """Evaluator of Spearman and Pearson x100 on the STS-B dev pairs, for ``SentenceTransformerTrainer(evaluator=...)``.

    The pairs are tokenised at the first call and kept. Nothing is written to disk, no random number is drawn, and the
    model's mode and length limit are restored.

    Args:
        pairs: the dev pairs.
        max_seq_length: the length limit in tokens during the evaluation (training often cuts at 32); ``None`` keeps
            the model's limit.
        precision: ``"fp32"`` or ``"bf16"``.
        name: the prefix of the metrics' names.
    """

    def __init__(
        self,
        pairs: ScoredPairs,
        *,
        max_seq_length: int | None = None,
        precision: ResolvedPrecision = "fp32",
        name: str = "stsb_dev",
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pairs = pairs
        self.max_seq_length = max_seq_length
        self.precision = precision
        self.name = name
        self.primary_metric = f"{name}_spearman"
        self._sentences = list(dict.fromkeys((*pairs.sentences1, *pairs.sentences2)))
        row = {sentence: index for index, sentence in enumerate(self._sentences)}
        self._rows1 = [row[sentence] for sentence in pairs.sentences1]
        self._rows2 = [row[sentence] for sentence in pairs.sentences2]
        self._tokenised_by: Any = None
        self._batches: list[Batch] = []

    def __call__(  # type: ignore[override]  # the base class takes all kinds of models, this class only encoders
        self,
        model: SentenceTransformer,
        output_path: str | None = None,
        epoch: int = -1,
        steps: int = -1,
    ) -> dict[str, float]:
        """Return the metrics of ``model``: ``{"stsb_dev_spearman": x100, "stsb_dev_pearson": x100}``.

        Raises:
            UserError: the correlation is undefined (vectors that are not finite, zero, or all the same).
        """
        with limited_to(model, self.max_seq_length):
            vectors = encode_batches(model, self._tokenised(model), len(self._sentences), precision=self.precision)
        row = score_pairs(self.pairs, vectors[self._rows1], vectors[self._rows2])
        return {f"{self.name}_{metric}": value for metric, value in row["metrics"].items()}

    def _tokenised(self, model: SentenceTransformer) -> list[Batch]:
        """Return the batches; they are made again only if the tokeniser or the length limit has changed."""
        key = (model.tokenizer, model.max_seq_length)
        if self._tokenised_by is None or self._tokenised_by[0] is not key[0] or self._tokenised_by[1] != key[1]:
            self._batches = list(tokenise(model, self._sentences))
            self._tokenised_by = key
        return self._batches

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings of this evaluator for the model card."""
        return {"max_seq_length": self.max_seq_length, "precision": self.precision}
