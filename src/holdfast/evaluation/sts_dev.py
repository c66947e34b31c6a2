"""The evaluator that the trainer selects checkpoints by: STS-B *dev*, never a test set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentence_transformers.base.evaluation import BaseEvaluator

from holdfast.encoding import Batch, Precision, encode_batches, tokenise
from holdfast.evaluation.sts import score_pairs
from holdfast.limits import limited_to

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from holdfast.data.registry import ScoredPairs


class StsDev(BaseEvaluator):
    """Spearman and Pearson x100 on the STS-B dev pairs, for ``SentenceTransformerTrainer(evaluator=...)``.

    The pairs are tokenised at the first call and kept. Nothing is written to disk, no random number is drawn, and the
    model comes back in the mode and with the length limit that it had.

    Args:
        pairs: the dev pairs, n of them.
        max_seq_length: the length limit in tokens during the evaluation (training often cuts at 32); ``None`` keeps
            the model's.
        precision: ``"fp32"`` or ``"bf16"``.
        name: what the metrics begin with.
    """

    def __init__(
        self,
        pairs: ScoredPairs,
        *,
        max_seq_length: int | None = None,
        precision: Precision = "fp32",
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

    def __call__(  # type: ignore[override]  # the base class takes models of every kind, this one encoders
        self,
        model: SentenceTransformer,
        output_path: str | None = None,
        epoch: int = -1,
        steps: int = -1,
    ) -> dict[str, float]:
        """The metrics of ``model``: ``{"stsb_dev_spearman": x100, "stsb_dev_pearson": x100}``.

        Raises:
            UserError: the model's vectors have no correlation with anything (not finite, zero, or all the same).
        """
        with limited_to(model, self.max_seq_length):
            vectors = encode_batches(model, self._tokenised(model), len(self._sentences), precision=self.precision)
        row = score_pairs(self.pairs, vectors[self._rows1], vectors[self._rows2])
        return {f"{self.name}_{metric}": value for metric, value in row["metrics"].items()}

    def _tokenised(self, model: SentenceTransformer) -> list[Batch]:
        """The batches, made again only when another tokeniser or another length limit comes."""
        key = (model.tokenizer, model.max_seq_length)
        if self._tokenised_by is None or self._tokenised_by[0] is not key[0] or self._tokenised_by[1] != key[1]:
            self._batches = list(tokenise(model, self._sentences))
            self._tokenised_by = key
        return self._batches

    def get_config_dict(self) -> dict[str, Any]:
        """What the model card says about this evaluator."""
        return {"max_seq_length": self.max_seq_length, "precision": self.precision}
