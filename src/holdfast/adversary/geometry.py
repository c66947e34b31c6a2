"""The Geometry Attack: replace words one by one so that a vector moves where a loss rises (ADCL, §3.3, Algorithm 1).

After Meng and Wattenhofer (COLING 2020). A :class:`GradientModel` is attacked, and a :class:`Proposer` gives candidate
words; the attack itself does not depend on encoders or language models.

Words are ranked by the gradient of the loss at the input of the first layer, for encoders and classifiers alike: at the
output of the embedding module (the sum of word, position and type embeddings, after LayerNorm), where all perturbations
of vectors act, too (:class:`holdfast.backbone.Backbone`). Models: :class:`~holdfast.adversary.gradient_encoder.
GradientEncoder`, :class:`~holdfast.attacks.gradient_classifier.GradientClassifier`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from holdfast.edits.words import Words, is_content_word

Importance = Literal["mean-l2", "sum-l1"]
Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class BatchGradients:
    """Vectors and gradients of n texts. A positive factor of all gradients of a text has no effect.

    Attributes:
        z: the vectors, (n, d).
        direction: v, the gradient of each text's loss at its vector, (n, d).
        tokens: the gradient of the loss at the input of the first layer, (n, L, e).
        offsets: character span (begin, end) of each token, n lists of at most L pairs; the span of a special token is
            empty.
    """

    z: Tensor
    direction: Tensor
    tokens: Tensor
    offsets: Sequence[Spans]


class GradientModel(Protocol):
    """A model with a loss. ``rows`` gives the number of the original text of each text."""

    def gradients(self, texts: Sequence[str], rows: Sequence[int]) -> BatchGradients:
        """Return vectors and gradients of n texts, in one pass."""

    def vectors(self, texts: Sequence[str], rows: Sequence[int]) -> Tensor:
        """Return the vectors of n texts, (n, d), without gradients."""

    def loss(self, z: Tensor, rows: Sequence[int]) -> Tensor:
        """Return the mean loss of n vectors (n, d), a scalar."""

    def finished(self, z: Tensor, rows: Sequence[int]) -> Sequence[bool]:
        """Return, for each of n vectors of changed texts, True if the goal is reached."""


class Proposer(Protocol):
    """A source of candidate words."""

    @property
    def source(self) -> str:
        """The description of the source, for the record."""

    def candidates(self, sentences: Sequence[Words], places: Sequence[int]) -> list[list[str]]:
        """Return candidate replacements for the word ``places[i]`` of each sentence."""


@dataclass
class Cost:
    """The cost of an attack.

    Attributes:
        gradients: number of texts whose gradients were computed.
        proposals: number of words for which candidates were requested.
        scored: number of candidate texts that were encoded.
        seconds: seconds spent on each of these, by the same names.
    """

    gradients: int = 0
    proposals: int = 0
    scored: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"gradients": 0.0, "proposals": 0.0, "scored": 0.0})

    @contextlib.contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Add the time of the block to the entry ``part`` of :attr:`seconds`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - began


@dataclass(frozen=True)
class Attacked:
    """The result of an attack on n texts.

    Attributes:
        texts: the adversarial texts; unchanged ones are equal to the originals.
        replaced: number of replaced words of each text.
        words: number of words of each text.
        finished: for each text, True if the goal was reached by its changes.
        loss_before: mean loss of the attacked texts before the attack, a scalar; 0 if there are none.
        loss_after: the same after the attack.
        source: description of the source of candidates.
        cost: cost of the attack.
    """

    texts: list[str]
    replaced: list[int]
    words: list[int]
    finished: list[bool]
    loss_before: Tensor
    loss_after: Tensor
    source: str
    cost: Cost


@dataclass(eq=False)
class _Target:
    """One text under attack: its state between iterations."""

    row: int
    words: Words
    budget: int
    open: set[int]
    replaced: int = 0
    moved: bool = True
    finished: bool = False
    importance: list[float] = field(default_factory=list)
    direction: Tensor = field(default_factory=lambda: torch.empty(0))
    z: Tensor = field(default_factory=lambda: torch.empty(0))
    first_z: Tensor = field(default_factory=lambda: torch.empty(0))

    @property
    def alive(self) -> bool:
        return self.budget > 0 and bool(self.open)

    def move(self, words: Words, z: Tensor) -> None:
        """Set the text after one more replacement, and its vector."""
        self.words, self.z, self.moved = words, z, True
        self.replaced, self.budget = self.replaced + 1, self.budget - 1


_Choice = tuple[_Target, int, list[str]]
"""A text under attack, the number of a word of it, and the candidates for this word."""


@dataclass(frozen=True)
class GeometryAttack:
    """In each of N iterations, replace the most important word by the candidate that moves z farthest along v.

    With v = ∇_z ℓ: among the content words not yet changed, the one with the largest gradient at the input of the first
    layer is selected; its candidate with the largest projection ``(z_cand − z)·v/‖v‖`` replaces it. The projection is
    signed (the paper's absolute value would also accept a step that lowers the loss); if none is positive, the attack
    on the text ends. A word without candidates is skipped, which also takes an iteration. All texts of a batch are
    attacked together; the result for each is the same as alone. The attack is deterministic.

    Stop words, numbers, single letters and punctuation are never changed, and no word is changed twice.

    Attributes:
        proposer: source of the candidates.
        iterations: N.
        max_share: at most ``min(N, ⌊max_share · words⌋)`` words are replaced; if this is 0, the text is not attacked.
        importance: importance of a word of several sub-words: "mean-l2", the L2 norm of the mean of their gradients
            (ADCL, §3.3 (2)), or "sum-l1", the L1 norm of the sum (its released code).
        skip_freely: a word without candidates uses up no iteration: the next one is taken, as in the recipe
            ``geometry``. Otherwise it uses up one, as in Algorithm 1.
    """

    proposer: Proposer
    iterations: int = 10
    max_share: float = 0.2
    importance: Importance = "mean-l2"
    skip_freely: bool = False

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise ValueError(f"at least one iteration is needed, got {self.iterations}")
        if not 0.0 < self.max_share <= 1.0:
            raise ValueError(f"the share of words that may change must lie in (0, 1], got {self.max_share}")

    def run(self, texts: Sequence[str], model: GradientModel) -> Attacked:
        """Attack n texts and return the result."""
        targets = self._targets([Words.of(text) for text in texts])
        attacked = [target for target in targets if target.alive]
        cost = Cost()
        for _ in range(self.iterations):
            alive = [target for target in attacked if target.alive]
            if not alive:
                break
            self._iterate(alive, model, cost)
        before, after = self._losses(attacked, model)
        return Attacked(
            texts=[target.words.text for target in targets],
            replaced=[target.replaced for target in targets],
            words=[len(target.words.words) for target in targets],
            finished=[target.finished for target in targets],
            loss_before=before,
            loss_after=after,
            source=self.proposer.source,
            cost=cost,
        )

    def _targets(self, texts: Sequence[Words]) -> list[_Target]:
        return [
            _Target(
                row,
                words=text,
                # The small term corrects floating-point errors, as in the recipes: 0.29 of 100 is 28.999...
                budget=min(self.iterations, int(self.max_share * len(text.words) + 1e-9)),
                open={place for place, word in enumerate(text.words) if is_content_word(word)},
            )
            for row, text in enumerate(texts)
        ]

    def _iterate(self, targets: list[_Target], model: GradientModel, cost: Cost) -> None:
        """Make one iteration: steps 1 and 2 of ADCL, §3.3, for targets whose text has changed, then 3 and 4 for all."""
        with cost.timed("gradients"):
            self._differentiate([target for target in targets if target.moved], model, cost)
        with cost.timed("proposals"):
            choices = self._proposed([target for target in targets if target.alive], cost)
        with cost.timed("scored"):
            self._exchange(choices, model, cost)

    def _proposed(self, targets: list[_Target], cost: Cost) -> list[_Choice]:
        """Return each text's most important word with its candidates; with `skip_freely` the first that has any."""
        choices: list[_Choice] = []
        while targets:
            places = [max(sorted(target.open), key=target.importance.__getitem__) for target in targets]
            proposals = self.proposer.candidates([target.words for target in targets], places)
            cost.proposals += len(targets)
            for target, place in zip(targets, places, strict=True):
                target.open.remove(place)
            asked = list(zip(targets, places, proposals, strict=True))
            choices += [choice for choice in asked if choice[2]]
            targets = [target for target, _, words in asked if self.skip_freely and not words and target.alive]
        return choices

    def _differentiate(self, targets: list[_Target], model: GradientModel, cost: Cost) -> None:
        """Compute z, v and the importance of the words of texts that have changed."""
        if not targets:
            return
        rows = [target.row for target in targets]
        found = model.gradients([target.words.text for target in targets], rows)
        cost.gradients += len(targets)
        tokens = found.tokens.cpu()
        for i, target in enumerate(targets):
            target.z, target.direction, target.moved = found.z[i], found.direction[i], False
            if not target.replaced:
                target.first_z = target.z
            target.importance = word_importance(tokens[i], found.offsets[i], target.words.spans, self.importance)
            # A word has no gradient if it is beyond the maximum length, or if the loss is flat.
            target.open = {place for place in target.open if target.importance[place] > 0.0}

    def _exchange(self, choices: Sequence[_Choice], model: GradientModel, cost: Cost) -> None:
        """Encode all candidates of all texts at once and replace each text by its best candidate."""
        if not choices:
            return
        options = [
            (number, target.words.exchanged(place, word))
            for number, (target, place, words) in enumerate(choices)
            for word in words
        ]
        owners = [number for number, _ in options]
        z = model.vectors([words.text for _, words in options], [choices[number][0].row for number in owners])
        cost.scored += len(options)
        rows = torch.tensor(owners, device=z.device)
        origins = torch.stack([target.z for target, _, _ in choices])[rows]
        directions = torch.stack([target.direction for target, _, _ in choices])[rows]
        projections = (((z - origins) * directions).sum(dim=1) / directions.norm(dim=1)).tolist()
        moved, end = [], 0
        for target, _, words in choices:
            begin, end = end, end + len(words)
            best = max(range(begin, end), key=projections.__getitem__)
            if projections[best] > 0.0:
                target.move(options[best][1], z[best])
                moved.append(target)
            else:
                target.budget = 0
        if moved:
            done = model.finished(torch.stack([target.z for target in moved]), [target.row for target in moved])
            for target, enough in zip(moved, done, strict=True):
                target.finished = enough
                target.budget = 0 if enough else target.budget

    def _losses(self, attacked: list[_Target], model: GradientModel) -> tuple[Tensor, Tensor]:
        """Return the mean loss at the first vectors, and at the last."""
        if not attacked:
            return torch.zeros(()), torch.zeros(())
        rows = [target.row for target in attacked]
        first, last = (torch.stack(vectors) for vectors in zip(*((t.first_z, t.z) for t in attacked), strict=True))
        return model.loss(first, rows), model.loss(last, rows)


def word_importance(gradients: Tensor, offsets: Spans, spans: Spans, kind: Importance) -> list[float]:
    """Return the importance of W words, from the gradients of their sub-words (ADCL, §3.3 (2)).

    Args:
        gradients: at the input of the first layer, (L, e), in the order of ``offsets``; further rows are ignored.
        offsets: character span of each token.
        spans: character span of each word.
        kind: "mean-l2" or "sum-l1".

    Returns:
        W numbers; 0 for a word without tokens.
    """
    if not spans:
        return []
    begins, ends = np.array(offsets).T
    starts, stops = np.array(spans).T
    word = np.searchsorted(stops, begins, side="right").clip(max=len(spans) - 1)  # the first to end after it begins
    tokens = np.flatnonzero((starts[word] < ends) & (begins < stops[word]))
    members = torch.from_numpy(word[tokens])
    sums = gradients.new_zeros(len(spans), gradients.shape[1]).index_add_(0, members, gradients[tokens])
    if kind == "sum-l1":
        norms = sums.abs().sum(dim=1)
    else:
        counts = torch.bincount(members, minlength=len(spans)).clamp_min(1)
        norms = (sums / counts[:, None]).norm(dim=1)
    return [float(norm) for norm in norms]
