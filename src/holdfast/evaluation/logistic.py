"""Logistic regressions on the same features, fitted together: all folds and strengths of a cross-validation.

Fitted one by one, each would read all features again in every iteration; together they are columns of one matrix
product. The features are first rotated to their principal axes, where the bound on the curvature of Böhning (1992) is
diagonal; scaled by this bound, L-BFGS needs few iterations on any vectors. The rotation and the shift do not change the
minimum: the penalty is the same in all directions, and the intercept has no penalty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from holdfast.errors import UserError

_TOLERANCE = 1e-7
"""Largest mean distance of the loss per row from its minimum, as estimated by L-BFGS's quadratic model."""

_MEMORY = 10
_MAX_ITERATIONS = 1000
_MAX_HALVINGS = 30
_SUFFICIENT = 1e-4  # Armijo's constant: the share of the decrease predicted by the slope
# Bound on the Hessian of log Σ exp: 1/4 for a single logit, 1/2 for several (Böhning 1992).
_CURVATURE = {True: 0.25, False: 0.5}


@dataclass(frozen=True)
class Linear:
    """P fitted models.

    Attributes:
        weight: (d, P, K), where K is the number of classes, or 1 for two classes.
        bias: (P, K).
    """

    weight: Tensor
    bias: Tensor

    def predict(self, features: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the classes that the models predict for the rows of (n, d): (P, n)."""
        width, models, logits = self.weight.shape
        scores = torch.as_tensor(np.asarray(features), dtype=torch.float64) @ self.weight.reshape(width, -1)
        scores = scores.reshape(-1, models, logits) + self.bias
        found = (scores[..., 0] > 0).long() if logits == 1 else scores.argmax(dim=-1)
        return np.asarray(found.T.numpy(), dtype=np.int64)


class Regressions:
    """Logistic regressions on rows of the same features, as scikit-learn's ``LogisticRegression`` defines them.

    The objective is ``C Σ loss + ‖w‖²/2``, in fp64, without a penalty on the intercept; two classes use one logit,
    more classes use the softmax.

    Args:
        features: (n, d), finite.
        labels: n class numbers.
        classes: number of classes.
    """

    def __init__(self, features: npt.ArrayLike, labels: Sequence[int] | npt.NDArray[np.int64], classes: int) -> None:
        exact = torch.as_tensor(np.asarray(features), dtype=torch.float64)
        self._mean = exact.mean(dim=0)
        centred = exact - self._mean
        spectrum, self._axes = torch.linalg.eigh(centred.T @ centred)
        self._spectrum = spectrum.clamp(min=0.0)
        self._features = centred @ self._axes
        numbers = torch.as_tensor(np.asarray(labels))
        self._single = classes == 2
        one_hot = torch.nn.functional.one_hot(numbers, classes).to(torch.float64)
        self._wanted = one_hot[:, 1:] if self._single else one_hot  # (n, K)

    def fit(self, rows: npt.ArrayLike, strengths: Sequence[float]) -> Linear:
        """Fit P models, each to its own rows with its own strength.

        Args:
            rows: (P, n), True where a row belongs to the model's training part; every class must occur in it.
            strengths: P values of C, the inverse of the penalty's weight.

        Raises:
            UserError: the iterations do not converge (the coordinates differ too much in size for fp64).
        """
        used = torch.as_tensor(np.asarray(rows), dtype=torch.float64)  # (P, n)
        penalty = 1.0 / torch.as_tensor(strengths, dtype=torch.float64)  # (P,)
        counts = used.sum(dim=1)
        curvature = _CURVATURE[self._single]
        # The spectrum of a part is about its share of the spectrum of all rows; a rough scale is enough.
        share = counts / len(self._features)
        scale = torch.cat(
            [
                1.0 / (curvature * self._spectrum[:, None] * share + penalty),
                1.0 / (curvature * counts)[None],
            ]
        )[..., None]  # (d + 1, P, 1)

        def loss(theta: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
            return self._loss(theta, used[which], penalty[which])

        width, logits = self._features.shape[1], self._wanted.shape[1]
        start = torch.zeros(width + 1, len(used), logits, dtype=torch.float64)
        theta = _minimise(loss, start, scale, _TOLERANCE * counts)
        weight = torch.einsum("de,epk->dpk", self._axes, theta[:-1])
        return Linear(weight, theta[-1] - torch.einsum("d,dpk->pk", self._mean, weight))

    def _loss(self, theta: Tensor, used: Tensor, penalty: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses (P,) and gradients (d + 1, P, K) of models whose last row is the intercept."""
        width, models, logits = theta.shape
        scores = self._features @ theta[:-1].reshape(width - 1, -1)
        scores = scores.reshape(-1, models, logits) + theta[-1]  # (n, P, K)
        mask = used.T
        wanted = self._wanted[:, None, :]
        if self._single:
            losses = torch.nn.functional.softplus(scores[..., 0]) - (wanted * scores)[..., 0]
            wrong = torch.sigmoid(scores) - wanted
        else:
            total = torch.logsumexp(scores, dim=-1)
            losses = total - (wanted * scores).sum(dim=-1)
            wrong = torch.exp(scores - total[..., None]) - wanted
        wrong = wrong * mask[..., None]
        gradient = (self._features.T @ wrong.reshape(len(wrong), -1)).reshape(width - 1, models, logits)
        weight = theta[:-1] * penalty[:, None]
        values = (losses * mask).sum(dim=0) + 0.5 * (weight * theta[:-1]).sum(dim=(0, 2))
        return values, torch.cat([gradient + weight, wrong.sum(dim=0)[None]])


# --- L-BFGS of many problems side by side ------------------------------------------------------------------------

_Loss = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Maps the parameters (D, p, K) of some problems and their indices (p,) to values (p,) and gradients (D, p, K)."""


@dataclass
class _Pairs:
    """The last steps and changes of the gradient, (D, p, K) each, and the inverses of their dot products, (p,)."""

    steps: list[Tensor]
    changes: list[Tensor]
    inverses: list[Tensor]

    def add(self, step: Tensor, change: Tensor) -> None:
        product = _dot(step, change)
        # An inverse of 0 excludes a pair without curvature (a step lost in rounding) from that problem's recursion.
        self.inverses.append(torch.where(product > 0.0, 1.0 / product, 0.0))
        self.steps.append(step)
        self.changes.append(change)
        for kept in (self.steps, self.changes, self.inverses):
            del kept[:-_MEMORY]

    def keep(self, going: Tensor) -> None:
        self.steps = [step[:, going] for step in self.steps]
        self.changes = [change[:, going] for change in self.changes]
        self.inverses = [inverse[going] for inverse in self.inverses]

    def direction(self, gradient: Tensor, scale: Tensor) -> Tensor:
        """Run the two-loop recursion (Nocedal and Wright 2006, algorithm 7.4) with a diagonal first matrix."""
        left = gradient.clone()
        weights = []
        for step, change, inverse in zip(self.steps[::-1], self.changes[::-1], self.inverses[::-1], strict=True):
            weights.append(inverse * _dot(step, left))
            left -= weights[-1][:, None] * change
        left *= scale
        if self.steps:
            curvature = self.inverses[-1] * _dot(self.changes[-1], scale * self.changes[-1])
            left *= torch.where(curvature > 0.0, 1.0 / curvature, 1.0)[:, None]
        recursion = zip(self.steps, self.changes, self.inverses, weights[::-1], strict=True)
        for step, change, inverse, weight in recursion:
            left += (weight - inverse * _dot(change, left))[:, None] * step
        return -left


def _minimise(loss: _Loss, theta: Tensor, scale: Tensor, tolerances: Tensor) -> Tensor:
    """Return the minima (D, P, K) of P convex functions, each within its tolerance; finished ones are left out."""
    found = theta.clone()
    which = torch.arange(theta.shape[1])
    pairs = _Pairs([], [], [])
    value, gradient = loss(theta, which)
    for _ in range(_MAX_ITERATIONS):
        direction = pairs.direction(gradient, scale)
        slope = _dot(gradient, direction)
        going = -0.5 * slope > tolerances
        if not going.all():
            found[:, which[~going]] = theta[:, ~going]
            if not going.any():
                return found
            which, tolerances, value, slope = which[going], tolerances[going], value[going], slope[going]
            theta, gradient, direction, scale = (x[:, going] for x in (theta, gradient, direction, scale))
            pairs.keep(going)
        moved, value, after = _search(loss, which, theta, direction, value, slope)
        pairs.add(moved - theta, after - gradient)
        theta, gradient = moved, after
    raise UserError("the logistic regression does not settle: the vectors' coordinates differ too much in size")


def _search(
    loss: _Loss, which: Tensor, theta: Tensor, direction: Tensor, value: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return parameters, values and gradients after a step, halved until the value decreases enough."""
    length = torch.ones_like(value)
    moved = theta + direction
    values, gradients = loss(moved, which)
    for _ in range(_MAX_HALVINGS):
        # An increase that rounding can explain in a sum of so many terms is allowed.
        allowed = value + _SUFFICIENT * length * slope + 1e-13 * value.abs()
        short = torch.nonzero(~(values <= allowed))[:, 0]
        if not len(short):
            break
        length[short] *= 0.5
        moved[:, short] = theta[:, short] + length[short][:, None] * direction[:, short]
        values[short], gradients[:, short] = loss(moved[:, short], which[short])
    return moved, values, gradients


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(dim=(0, 2))
