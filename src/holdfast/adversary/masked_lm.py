"""A masked language model as a source of candidate words, and its embeddings as a similarity of words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.hooks import RemovableHandle

from holdfast.adversary.token_batches import in_batches
from holdfast.edits.synonyms import Similarity, read_similarity
from holdfast.edits.words import Words, is_content_word, others
from holdfast.errors import UserError
from holdfast.files import expanded
from holdfast.input_limits import checked_limit
from holdfast.loading import loading
from holdfast.model_folder import type_without_masks
from holdfast.model_lookup import BUNDLED_MLM, resolve_model
from holdfast.model_with_head import folder_of_config, load_with_head
from holdfast.shortening import shortened_for

PROPOSALS = 100
"""Number of most probable words considered per place, before any filter (ADCL's released code: 4·25)."""

_LOGIT_STEP = 2.0**-13
_SPARE = 8  # extra words, so that rounding can still reorder the last ones
_REMEMBERED = 50_000  # words whose vectors are cached: more than a vocabulary has, less than a corpus


class MaskedLM:
    """A masked language model that proposes the most probable whole words for a place in a text.

    It is deliberately not an ``nn.Module``, so that an objective that holds it does not train, save or move it.

    Args:
        spec: a folder or hub name, as for :func:`holdfast.model_lookup.resolve_model`; an adapter is merged into its
            base model.

    Raises:
        UserError: the model does not exist, is not safe to load, or has no masked-LM head or mask token.
    """

    def __init__(self, spec: str) -> None:
        self.source = spec
        self.tokenizer, self.model = _load(spec)
        self._window = checked_limit(self.tokenizer, self.model, spec)

    def to(self, device: torch.device) -> MaskedLM:
        """Move the model to a device."""
        self.model.to(device)
        self.__dict__.pop("_usable", None)  # made anew where the model is
        return self

    @torch.no_grad()
    def propose(self, sentences: Sequence[Words], places: Sequence[int]) -> list[list[str]]:
        """Return, for each sentence, whole content words for the place of word ``places[i]``, most probable first.

        The list is empty for a word beyond the model's window.
        """
        if not sentences:
            return []
        masked = [s.exchanged(i, self.tokenizer.mask_token) for s, i in zip(sentences, places, strict=True)]
        starts = [s.spans[i][0] for s, i in zip(sentences, places, strict=True)]
        encoded = self.tokenised(masked)
        positions = [self._mask_position(encoded, row, start) for row, start in enumerate(starts)]
        proposals: list[list[str]] = [[] for _ in sentences]
        for rows, features in in_batches(self.tokenizer, encoded, self.model.device):
            here = torch.tensor([positions[row] or 0 for row in rows], device=self.model.device)
            with head_at(self.model, here[:, None]):
                logits: Tensor = self.model(**features).logits[:, 0].float()
            logits = logits.masked_fill(~self._usable, float("-inf"))
            best = _top(logits, min(PROPOSALS, self._proposable))[1].tolist()
            for row, tokens in zip(rows, best, strict=True):
                if positions[row] is not None:
                    proposals[row] = [word for token in tokens if (word := self._words[token]) is not None]
        return proposals

    @torch.no_grad()
    def read(self, sentences: Sequence[Words], limit: int) -> list[list[list[str]]]:
        """Return the ``limit`` most probable words at each word of each sentence, without masking, best first.

        For a word of several sub-words these are the most probable combinations, by the sum of their log-probabilities
        (BERT-Attack ranks them by perplexity, which is the same order for equally many sub-words). Words that are not
        content words are left out, so there may be fewer; none for a word beyond the window.
        """
        encoded = self.tokenised(sentences)
        readings: list[list[list[str]]] = [[] for _ in sentences]
        for rows, features in in_batches(self.tokenizer, encoded, self.model.device):
            logits: Tensor = self.model(**features).logits.float()
            values, tokens = _top(logits, limit)
            values = values - logits.logsumexp(dim=-1, keepdim=True)
            for i, row in enumerate(rows):
                options = [
                    list(zip(v, t, strict=True)) for v, t in zip(values[i].tolist(), tokens[i].tolist(), strict=True)
                ]
                # Some tokenisers count the space before a word to its first token: test for overlap.
                placed = [(*span, at) for at, span in enumerate(encoded["offset_mapping"][row]) if span[0] < span[1]]
                read = max((last for _, last, _ in placed), default=0)
                cut = len(encoded["input_ids"][row]) >= self._window  # a word of which a part is read has no meaning
                readings[row] = [
                    self._combined([options[at] for first, last, at in placed if first < end and begin < last], limit)
                    if begin < read and (end <= read or not cut)
                    else []  # skip the search: most words of a long text are beyond the window
                    for begin, end in sentences[row].spans
                ]
        return readings

    def _combined(self, pieces: list[list[tuple[float, int]]], limit: int) -> list[str]:
        """Return the most probable words with one option per sub-word; the best ones extend the best prefixes."""
        if not pieces:
            return []
        if len(pieces) == 1:
            return [word for _, token in pieces[0] if (word := self._words[token]) is not None]
        best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        for options in pieces:
            sums = [(total + value, (*tokens, token)) for total, tokens in best for value, token in options]
            best = sorted(sums, key=lambda pair: -pair[0])[:limit]
        words = [self.tokenizer.decode(list(tokens)).strip() for _, tokens in best]
        return [word for word in dict.fromkeys(words) if is_content_word(word)]

    def tokenised(self, sentences: Sequence[Words]) -> Any:
        """Tokenise sentences, truncated to the window, with offsets."""
        texts = shortened_for(self.tokenizer, [sentence.text for sentence in sentences], self._window)
        return self.tokenizer(texts, truncation=True, max_length=self._window, return_offsets_mapping=True)

    def _mask_position(self, encoded: Any, row: int, start: int) -> int | None:
        """Return the token position of the mask that begins at character ``start``; the text may hold other masks."""
        tokens = zip(encoded["input_ids"][row], encoded["offset_mapping"][row], strict=True)
        for position, (token, (begin, end)) in enumerate(tokens):
            if token == self.tokenizer.mask_token_id and begin <= start < end:
                return position
        return None

    def pieces(self, words: Sequence[str]) -> list[list[int]]:
        """Return the sub-word ids of words, as inside a text (after a space)."""
        pieces: list[list[int]] = self.tokenizer([f" {word}" for word in words], add_special_tokens=False)["input_ids"]
        return pieces

    @cached_property
    def _usable(self) -> Tensor:
        """Return, for each token of the vocabulary, whether it may be proposed."""
        return torch.tensor([word is not None for word in self._words], device=self.model.device)

    @cached_property
    def _proposable(self) -> int:
        """Return how many tokens may be proposed."""
        return sum(word is not None for word in self._words)

    @cached_property
    def _words(self) -> list[str | None]:
        """Return, for each token of the vocabulary, the content word that this single token encodes, or None.

        They are found when they are first asked for: it takes half a second, and who asks only how likely words are,
        as `WordLikelihood` does, needs none.
        """
        words: list[str | None] = [None] * self.model.config.vocab_size
        surfaces = {token: self.tokenizer.decode([token]).strip() for token in self.tokenizer.get_vocab().values()}
        content = [(token, surface) for token, surface in sorted(surfaces.items()) if is_content_word(surface)]
        # The text of each token is tokenised again, so that this works with every kind of tokeniser.
        for (token, surface), pieces in zip(content, self.pieces([word for _, word in content]), strict=True):
            if pieces == [token]:
                words[token] = surface
        return words


class EmbeddingSimilarity:
    """Similarity of words by the cosine of the masked LM's input embeddings, with a threshold.

    The embedding of a word is the mean of the embeddings of its sub-words. Computed in fp32 on the CPU.

    Args:
        masked_lm: the model.
        threshold: minimum cosine of similar words.
    """

    def __init__(self, masked_lm: MaskedLM, *, threshold: float) -> None:
        self.threshold = threshold
        self.source = f"input embeddings of {masked_lm.source}, cosine ≥ {threshold:g}"
        self._pieces = masked_lm.pieces
        self._table = masked_lm.model.get_input_embeddings().weight.detach().cpu()
        self._vectors: dict[str, Tensor] = {}

    def similar(self, word: str, candidates: Sequence[str]) -> list[str]:
        """Return the candidates whose cosine with ``word`` is at least the threshold."""
        vectors = self._stacked([word, *candidates])
        near = ((vectors[1:] * vectors[0]).sum(dim=1) >= self.threshold).tolist()  # no matmul: fp32 in autocast
        return [candidate for candidate, passes in zip(candidates, near, strict=True) if passes]

    def _stacked(self, words: Sequence[str]) -> Tensor:
        """Return the normalised vectors, (len(words), e)."""
        if len(self._vectors) > _REMEMBERED:  # the words of a corpus are not bounded
            self._vectors.clear()
        new = sorted(set(words) - self._vectors.keys())
        if new:
            for word, pieces in zip(new, self._pieces(new), strict=True):
                self._vectors[word] = F.normalize(self._table[pieces].mean(dim=0), dim=0)
        return torch.stack([self._vectors[word] for word in words])


class Fillers:
    """Candidates for a word: proposals of a masked LM that are similar in meaning (ADCL, §3.3 (3)).

    Args:
        masked_lm: the model that proposes.
        similarity: the filter.
        limit: T, maximum number of candidates for a word.
    """

    def __init__(self, masked_lm: MaskedLM, similarity: Similarity, *, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"at least one candidate is needed, got a limit of {limit}")
        self.masked_lm, self.similarity, self.limit = masked_lm, similarity, limit
        self.source = f"masked LM {masked_lm.source}; {similarity.source}"

    @classmethod
    def filtered(cls, masked_lm: MaskedLM, word_vectors: str | None, threshold: float, *, limit: int) -> Fillers:
        """Return candidates that are similar by a file of word vectors or neighbour lists, or by the embeddings."""
        if word_vectors is None:
            return cls(masked_lm, EmbeddingSimilarity(masked_lm, threshold=threshold), limit=limit)
        return cls(masked_lm, read_similarity(expanded(word_vectors), threshold=threshold), limit=limit)

    def candidates(self, sentences: Sequence[Words], places: Sequence[int]) -> list[list[str]]:
        """Return at most T other words for the word ``places[i]`` of each sentence, most probable first."""
        proposals = self.masked_lm.propose(sentences, places)
        words = [sentence.words[place] for sentence, place in zip(sentences, places, strict=True)]
        return [
            self.similarity.similar(word, others(word, proposed))[: self.limit]
            for word, proposed in zip(words, proposals, strict=True)
        ]


def _top(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` largest logits, rounded, and their token ids; equal ones in the order of the vocabulary.

    Rounding makes the candidates independent of the batch, which changes the last digits of a logit.
    """
    spare = min(count + _SPARE, logits.shape[-1])
    values, tokens = logits.topk(spare)
    values = (values / _LOGIT_STEP).round() * _LOGIT_STEP
    tokens, order = tokens.sort(dim=-1)
    values, order = values.gather(-1, order).sort(dim=-1, descending=True, stable=True)
    return values[..., :count], tokens.gather(-1, order)[..., :count]


def head_at(model: Any, positions: Tensor) -> RemovableHandle:
    """Apply the masked-LM head, which costs more than the layers, to (B, K) positions only; undone by the handle."""

    def pick(_module: nn.Module, _args: Any, output: Any) -> Any:
        hidden = output.last_hidden_state
        output.last_hidden_state = hidden[torch.arange(len(hidden), device=hidden.device)[:, None], positions]
        return output

    handle: RemovableHandle = model.base_model.register_forward_hook(pick)
    return handle


def _load(spec: str) -> tuple[Any, Any]:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = resolve_model(spec)
    if kind := type_without_masks(folder_of_config(folder, spec)):
        raise UserError(
            f"{spec} is a {kind} model, which fills no masks: name a masked language model, such as {BUNDLED_MLM}, "
            "with masked_lm="
        )
    with loading(folder, spec):
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model, report = load_with_head(AutoModelForMaskedLM, folder, spec)
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])[0]
        raise UserError(
            f"{spec} has no masked-LM head ({missing} is missing): name a model that has one, such as {BUNDLED_MLM}, "
            "with masked_lm="
        )
    if tokenizer.mask_token is None or not tokenizer.is_fast:
        raise UserError(f"{spec}: its tokeniser has no mask token or no offsets: name another model with masked_lm=")
    # The positions of words are counted from the beginning of a row, and a text is read from its beginning.
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    return tokenizer, model.eval().requires_grad_(False)
