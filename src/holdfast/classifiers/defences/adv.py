"""ADV: training on texts with words exchanged during training (ADCL: Meng et al., Findings of NAACL 2022, §4.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from holdfast.adversary.candidate_words import Source, candidate_words, synonyms_option, with_synonyms
from holdfast.adversary.geometry import GeometryAttack, Importance
from holdfast.adversary.loss_rise import loss_rise
from holdfast.adversary.masked_lm import MaskedLM
from holdfast.adversary.token_batches import padded
from holdfast.attacks.classifier import Text, tokenise
from holdfast.classifiers.defences.defence import Defence, Moment, TaskBatch, Training
from holdfast.classifiers.defences.labelled_batch import LabelledBatch
from holdfast.classifiers.losses import task_loss
from holdfast.encoder import attacking
from holdfast.errors import UserError
from holdfast.objectives.option_checks import check_words


class ADV(Defence):
    r"""After a clean epoch, each batch is extended by its own texts with words exchanged to increase the loss.

    The Geometry Attack on the task's loss (ADCL, §3.3 with cross-entropy in place of the contrastive loss;
    :class:`~holdfast.adversary.geometry.GeometryAttack`) is run on the texts of the batch that the classifier predicts
    correctly, with dropout off and the parameters frozen; it stops for a text when the predicted class has changed. All
    changed texts, successful or not, are appended to the batch; the loss is the mean over both. In a pair, the second
    text is attacked. z is the input of the last linear layer.

    Args:
        clean_epochs: passes over the texts before the first attack.
        iterations: N, iterations of the attack.
        max_share: at most min(N, max_share · words) words of a text are exchanged; a text for which this is below one
            is not attacked.
        candidates: T, the maximum number of candidates tried for a word.
        min_similarity: minimum cosine of a candidate's word vector to the original's; −1 for no filter.
        source: "neighbours": the candidates are the synonyms of the word; "masked-lm": words that a masked language
            model proposes and that are near the original; "auto": as the recipe ``geometry``, the synonyms if
            word_vectors holds lists, and the masked LM's words if it holds vectors, or if there are no synonyms.
        word_vectors: file of synonyms: word vectors (text, .npz), or neighbour lists (.tsv, .tsv.gz, without cosines,
            so min_similarity does not apply); "neighbours": the lists of the data folder. None: these lists, if they
            are there; otherwise, and with source="masked-lm", the input embeddings of the masked LM.
        masked_lm: folder or hub name of the masked language model; None: the model that the training starts from, which
            must have a masked-LM head. Not used with synonyms.
        importance: importance of a word of several sub-words: "mean-l2", the L2 norm of the mean of their gradients
            (ADCL, §3.3), or "sum-l1", the L1 norm of the sum (the authors' release).

    Defaults: one clean epoch and three more, the share and T are the paper's (appendix F). The paper gives no N for
    this defence; the default 10 is its value for the training without labels. With synonyms a word that has none uses
    up no iteration. The paper's candidates are ``source="masked-lm"`` with counter-fitted word vectors; with
    embeddings as the filter, few words remain, and this attack is weak (``docs/methods/adcl.md``).

    Logged: ``attacked``, the share of texts that are predicted correctly and attacked; ``attack_success``, the share of
    these that the attack deceives; ``adversarial_loss``, the loss of the changed texts in training.

    Differences from the release: there the direction is DeepFool's, the clean phase is half an epoch, and N is 50.
    """

    IDEA: ClassVar = "the texts, and the same with words exchanged while training"
    CITATION: ClassVar = (
        "Meng, Dong, Sachan and Wattenhofer. Self-Supervised Contrastive Learning with Adversarial Perturbations for "
        "Defending Word Substitution-based Attacks. Findings of NAACL 2022."
    )
    EPOCHS: ClassVar = 4.0
    NEEDS_MASKED_LM: ClassVar = True
    FILE_OPTIONS: ClassVar = ("masked_lm", "word_vectors")

    def __init__(
        self,
        *,
        clean_epochs: float = 1.0,
        iterations: int = 10,
        max_share: float = 0.4,
        candidates: int = 50,
        min_similarity: float = 0.5,
        source: Source = "auto",
        masked_lm: str | None = None,
        word_vectors: str | None = None,
        importance: Importance = "mean-l2",
    ) -> None:
        super().__init__()
        check_words(source=(source, Source))
        for name, value, least in (
            ("clean_epochs", clean_epochs, 0), ("candidates", candidates, 1), ("iterations", iterations, 1)
        ):  # fmt: skip
            if not value >= least:
                raise ValueError(f"{name} must be at least {least}, got {value:g}")
        if not 0.0 < max_share <= 1.0:
            raise ValueError(f"max_share must lie in (0, 1], got {max_share:g}")
        self.clean_epochs, self.candidates, self.min_similarity = clean_epochs, candidates, min_similarity
        self.source, self.masked_lm, self.word_vectors = source, masked_lm, word_vectors
        self.iterations, self.max_share, self.importance = iterations, max_share, importance
        self.attack: GeometryAttack | None = None

    @classmethod
    def completed_options(cls, options: Mapping[str, Any], data: Path | None) -> dict[str, Any]:
        """Return the options with the file of the synonyms written out."""
        return with_synonyms(options, data)

    @classmethod
    def candidates_option(cls, options: Mapping[str, Any]) -> str | None:
        """Return the option of the synonyms, unless the candidates are the masked LM's or a file is given."""
        return synonyms_option(options)

    def begin(self, training: Training) -> None:
        """Load the source of candidates and store the texts."""
        if training.epochs <= self.clean_epochs:
            raise UserError(
                f"adv attacks after {self.clean_epochs:g} clean epochs, and this training has {training.epochs:.3g}: "
                "train longer, or give --set clean_epochs=0"
            )
        self._tokenizer, self._texts, self._max_length = training.tokenizer, training.texts, training.max_length
        if not self._tokenizer.is_fast:
            raise UserError("adv needs the word of each token, and this model's tokeniser does not give it")
        found = candidate_words(
            self.source,
            self.word_vectors,
            lambda: MaskedLM(self.masked_lm or str(training.model.name_or_path)).to(training.model.device),
            minimum_cosine=self.min_similarity,
            limit=self.candidates,
        )
        self.notices = [found.notice] if found.notice else []
        self.attack = GeometryAttack(
            found.proposer, self.iterations, self.max_share, self.importance, skip_freely=found.masked_lm is None
        )

    def losses(self, model: nn.Module, batch: TaskBatch, moment: Moment) -> Iterator[Tensor]:
        """Yield one loss: of the batch, and after the clean epochs also of its adversarial texts."""
        texts = [self._texts[row] for row in batch.rows]
        changed: Mapping[int, Text] = {}
        if moment.epoch >= self.clean_epochs:
            changed = self.adversaries(getattr(model, "module", model), texts, batch.labels)
        if not changed:
            yield task_loss(model(**batch.features).logits, batch.labels)
            return
        encoded = tokenise(self._tokenizer, [*texts, *changed.values()], self._max_length)
        device = batch.labels.device
        features = padded(self._tokenizer, encoded, range(len(texts) + len(changed)), device)
        labels = torch.cat([batch.labels, batch.labels[torch.tensor(list(changed), device=device)]])
        logits = model(**features).logits
        adversarial = slice(len(texts), None)
        self.diagnostics["adversarial_loss"] = task_loss(logits[adversarial].detach(), labels[adversarial])
        yield task_loss(logits, labels)

    def adversaries(self, model: Any, texts: Sequence[Text], labels: Tensor) -> Mapping[int, Text]:
        """Return the texts that the attack has changed, by the number of the original; the model's mode is restored."""
        assert self.attack is not None  # begin() has been called
        with attacking(model):
            rows = LabelledBatch(model, self._tokenizer, texts, labels, self._max_length).unfinished()
            chosen = [texts[row] for row in rows]
            batch = LabelledBatch(model, self._tokenizer, chosen, labels[rows], self._max_length)
            attacked = self.attack.run([text[-1] for text in chosen], batch)
        share = 1.0 / max(len(texts), 1)
        self.diagnostics = {
            "attacked": torch.tensor(len(rows) * share),
            "attack_success": torch.tensor(sum(attacked.finished) / max(len(rows), 1)),
            "replaced_words": torch.tensor(sum(attacked.replaced) * share),
            "attack_seconds": torch.tensor(sum(attacked.cost.seconds.values()) * share),
            **loss_rise(attacked.loss_before, attacked.loss_after),
        }
        changes = zip(rows, attacked.texts, attacked.replaced, strict=True)
        return {row: (*texts[row][:-1], text) for row, text, replaced in changes if replaced}
