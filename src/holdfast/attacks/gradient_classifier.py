"""A classifier with gradients, for the Geometry Attack: in the geometry recipe, and in training with ADV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.hooks import RemovableHandle

from holdfast.adversary.geometry import BatchGradients
from holdfast.adversary.token_batches import in_batches, tokens_first
from holdfast.attacks.classifier import Text, tokenise
from holdfast.attacks.examples import Example
from holdfast.attacks.requests import LossGradient
from holdfast.edits.words import Words
from holdfast.errors import UserError

if TYPE_CHECKING:
    from holdfast.attacks.classifier import Classifier


class GradientClassifier:
    """A Hugging Face sequence classifier with gradients: z is the input of the classification layer.

    Its parameters are frozen while gradients are computed, and its tokeniser is a fast one.

    Raises:
        UserError: the classifier does not end in a linear layer.
    """

    def __init__(self, model: Any, tokenizer: Any, *, max_tokens: int, source: str) -> None:
        self._model, self._tokenizer, self._max_tokens, self._source = model, tokenizer, max_tokens, source
        self._device = next(model.parameters()).device
        self.layer = classification_layer(model, model.config.num_labels, source)
        # Its output enters the first layer. ELECTRA projects its embeddings; GPT-2 has word embeddings only.
        base = model.base_model
        module = getattr(base, "embeddings_project", None) or getattr(base, "embeddings", None)
        self._embedding: nn.Module = module or model.get_input_embeddings()

    def tokenised(self, texts: Sequence[Text]) -> Any:
        """Tokenise texts or pairs without padding, with the character offsets of the tokens."""
        columns = [list(column) for column in zip(*texts, strict=True)]
        return self._tokenizer(
            *columns, truncation=True, max_length=self._max_tokens, return_offsets_mapping=True, verbose=False
        )

    def gradients(
        self, encoded: Any, features: dict[str, Tensor], rows: Sequence[int], attacked: Sequence[int], loss: Loss
    ) -> BatchGradients:
        """Return z, and the gradients at z and at the input of the first layer, in one pass.

        Args:
            encoded: output of :meth:`tokenised`.
            features: the padded rows.
            rows: their numbers in ``encoded``.
            attacked: for each row, the index of the attacked text; tokens of the other text have the span (0, 0).
            loss: returns a scalar from the logits (n, classes).
        """
        embedded: list[Tensor] = []
        entering: list[Tensor] = []

        def as_leaf(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
            embedded.append(output.detach().requires_grad_())
            return embedded[-1]

        with torch.enable_grad(), self._embedding.register_forward_hook(as_leaf), self._record_inputs(entering):
            logits = self._model(**features).logits
            direction, tokens = torch.autograd.grad(loss(logits), [entering[0], embedded[0]])
        places = self._places(entering[0], features, logits)
        tokens = tokens_first(tokens * features["attention_mask"].unsqueeze(-1), features["attention_mask"])
        offsets = [
            [
                span if sequence == text else (0, 0)
                for sequence, span in zip(encoded.sequence_ids(row), encoded["offset_mapping"][row], strict=True)
            ]
            for row, text in zip(rows, attacked, strict=True)
        ]
        vectors, direction = _at(entering[0].detach(), places), _at(direction, places)
        return BatchGradients(vectors.float(), direction.float(), tokens, offsets)

    @torch.no_grad()
    def vectors(self, texts: Sequence[Text]) -> tuple[Tensor, Tensor]:
        """Return z (n, d) and the logits (n, classes) of n texts, computed in batches of similar length."""
        encoded = tokenise(self._tokenizer, texts, self._max_tokens)
        order: list[int] = []
        logits: list[Tensor] = []
        entering: list[Tensor] = []
        vectors: list[Tensor] = []
        with self._record_inputs(entering):
            for rows, features in in_batches(self._tokenizer, encoded, self._device):
                logits.append(self._model(**features).logits.float())
                last = entering.pop()
                vectors.append(_at(last, self._places(last, features, logits[-1])))
                order += rows
        back = torch.tensor(order).argsort().to(self._device)  # one copy for both
        return torch.cat(vectors).float()[back], torch.cat(logits)[back]

    def _record_inputs(self, entering: list[Tensor]) -> RemovableHandle:
        """Append the inputs of the classification layer to a list, one entry per pass, until the handle is removed."""
        return self.layer.register_forward_pre_hook(lambda _module, args: entering.append(args[0]))

    @torch.no_grad()
    def _places(self, entering: Tensor, features: dict[str, Tensor], logits: Tensor) -> Tensor | None:
        """Return the token of each row whose vector is classified, (n,); None: the layer takes one vector per row.

        Decoders classify every token, and take the result of the last one that is not padding.

        Raises:
            UserError: another token is taken, so that no single vector represents the text.
        """
        if entering.dim() == 2:
            return None
        ids = features["input_ids"]
        real = (ids != self._model.config.get_text_config().pad_token_id).long()
        places: Tensor = (torch.arange(ids.shape[1], device=ids.device) * real).argmax(dim=1)
        taken: Tensor = self.layer.forward(_at(entering, places))
        if taken.shape != logits.shape or not torch.allclose(taken.float(), logits.float(), rtol=1e-3, atol=1e-3):
            raise UserError(f"{self._source} classifies each token before it takes one: leave the geometry recipe out")
        return places


def _at(values: Tensor, places: Tensor | None) -> Tensor:
    """Return one vector per row: those at a token, (n, d) of (n, L, d), or all."""
    return values if places is None else values[torch.arange(len(values), device=values.device), places]


Loss = Callable[[Tensor], Tensor]


def classification_layer(model: nn.Module, classes: int, source: str) -> nn.Linear:
    """Return the last linear layer with one output per class.

    Raises:
        UserError: there is no such layer, so the geometry recipe cannot be used.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear) and layer.out_features == classes]
    if not layers:
        raise UserError(f"{source} does not end in a linear layer: leave the geometry recipe out")
    return layers[-1]


def cross_entropy_gradients(
    classifier: Classifier,
    questions: Sequence[tuple[Example, Words]],
    groups: Sequence[Sequence[int]] | None = None,
) -> list[LossGradient]:
    """Return the gradients of the cross-entropy of each example's class, in fp32.

    With ``groups``, labels are indices of groups of classes, whose probabilities are summed.
    """
    model = gradient_classifier(classifier)
    encoded = model.tokenised([example.with_text(words.text) for example, words in questions])
    by_row: dict[int, LossGradient] = {}
    for rows, features in in_batches(classifier.tokenizer, encoded, classifier.device):
        labels = torch.tensor([int(questions[row][0].label or 0) for row in rows], device=classifier.device)

        def loss(logits: Tensor, labels: Tensor = labels) -> Tensor:
            logits = logits.float()
            if groups is not None:
                logits = torch.stack([logits[:, list(group)].logsumexp(dim=1) for group in groups], dim=1)
            return F.cross_entropy(logits, labels, reduction="sum")

        attacked = [questions[row][0].attacked for row in rows]
        gradients = model.gradients(encoded, features, rows, attacked, loss)
        by_row |= zip(rows, LossGradient.of_batch(gradients, [questions[row][1] for row in rows]), strict=True)
    return [by_row[row] for row in range(len(questions))]


def gradient_classifier(classifier: Classifier) -> GradientClassifier:
    """Return a loaded classifier with gradients."""
    return GradientClassifier(
        classifier.model, classifier.tokenizer, max_tokens=classifier.max_tokens, source=classifier.source
    )
