"""The sentences of each optimiser step: each sentence once per epoch, grouped by length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.pretraining.tokens import Ids


def cut_into_groups(rows: Ids, lengths: Ids, tokens: int) -> list[Ids]:
    """Cut rows sorted by length into groups, so that (rows of a group) × (longest row) is at most ``tokens``.

    A row longer than the limit becomes a group by itself. ``lengths`` are those of every row of the corpus.
    """
    sizes = lengths[rows]
    groups, begin = [], 0
    while begin < len(rows):
        end = min(len(rows), begin + max(1, tokens // int(sizes[begin])))
        while end - begin > 1 and (end - begin) * int(sizes[end - 1]) > tokens:
            end = max(begin + 1, min(end - 1, begin + tokens // int(sizes[end - 1])))
        groups.append(rows[begin:end])
        begin = end
    return groups


@dataclass(frozen=True)
class _Epoch:
    number: int
    groups: list[Ids]
    tokens: Ids
    """Cumulative number of tokens before each group, and of all groups: (groups + 1,)."""


class StepOrder:
    """The groups of sentences of each step, which depend only on seed and step.

    In each epoch the sentences are shuffled, sorted by length (stable), and cut into groups, so that nearly all
    sentences of a group have the same length and there is little padding. The groups are then shuffled; a step takes
    several groups, of different lengths.

    Args:
        lengths: number of tokens of each sentence.
        group_tokens: maximum number of tokens of a group.
        groups_per_step: number of groups of a step; the last step of an epoch may have fewer.
        seed: seed of the run.
    """

    def __init__(self, lengths: Ids, *, group_tokens: int, groups_per_step: int, seed: int) -> None:
        self.lengths, self.group_tokens, self.seed = lengths, group_tokens, seed
        self.groups_per_step = groups_per_step
        self.tokens = int(lengths.sum())
        self._firsts = [0]  # the first step of each epoch
        self._current = self._drawn(0)

    def groups(self, step: int) -> list[Ids]:
        """Return the groups of a step, counted from 0."""
        epoch, within = self._place(step)
        begin = within * self.groups_per_step
        return self._epoch(epoch).groups[begin : begin + self.groups_per_step]

    def tokens_before(self, step: int) -> int:
        """Return the number of tokens of all steps before this one."""
        epoch, within = self._place(step)
        return epoch * self.tokens + int(self._epoch(epoch).tokens[within * self.groups_per_step])

    def epochs_before(self, step: int) -> float:
        """Return the number of passes over the corpus before this step, by tokens."""
        return self.tokens_before(step) / self.tokens

    def steps_of(self, epochs: float) -> int:
        """Return the number of steps of so many passes."""
        whole = int(epochs)
        self._count_to(whole)
        rest = epochs - whole
        return self._firsts[whole] + (max(1, round(rest * self._steps(self._epoch(whole)))) if rest else 0)

    def _place(self, step: int) -> tuple[int, int]:
        """Return the epoch of a step, and the number of the step in it."""
        while step >= self._firsts[-1]:
            self._count_to(len(self._firsts))
        epoch = int(np.searchsorted(self._firsts, step, side="right")) - 1
        return epoch, step - self._firsts[epoch]

    def _count_to(self, epoch: int) -> None:
        while len(self._firsts) <= epoch:
            self._firsts.append(self._firsts[-1] + self._steps(self._epoch(len(self._firsts) - 1)))

    def _steps(self, epoch: _Epoch) -> int:
        return -(-len(epoch.groups) // self.groups_per_step)

    def _epoch(self, number: int) -> _Epoch:
        if self._current.number != number:
            self._current = self._drawn(number)
        return self._current

    def _drawn(self, number: int) -> _Epoch:
        draw = np.random.default_rng([self.seed, number])
        order = draw.permutation(len(self.lengths))
        rows = order[np.argsort(self.lengths[order], kind="stable")]
        groups = cut_into_groups(rows, self.lengths, self.group_tokens)
        groups = [groups[place] for place in draw.permutation(len(groups))]
        tokens = np.cumsum([0, *(int(self.lengths[group].sum()) for group in groups)])
        return _Epoch(number, groups, tokens)
