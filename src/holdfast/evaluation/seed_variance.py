"""The standard error of a difference over seeds and items, and the interval, p and smallest effect that follow from it.

Every seed of a method is measured on the same items, so that seeds and items are crossed. Three parts of the variance
of a mean over S seeds and n items (Owen 2007, "The pigeonhole bootstrap", §2) are

- σ²_item / n, of the items: the bootstrap over items sees it;
- σ²_seed / S, of the trainings: the sample variance over seeds sees it;
- σ²_both / (n S), of a training's luck with an item: both see it, so that it is subtracted once.

To draw a few seeds with replacement would make the second part too small by (S − 1) / S and would take its quantiles
from S values. Its sample variance and Student's t with Satterthwaite's degrees of freedom have neither fault.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LEVEL = 95.0
"""The level of all intervals, in percent."""
POWER = 80.0
"""The power of the minimum detectable effect, in percent."""

Array = npt.NDArray[np.float64]

# A variance of equal scores is not 0 but this part of their square, from rounding.
_ROUNDING = 1e-15


@dataclass(frozen=True)
class StandardError:
    """A standard error with its degrees of freedom.

    Attributes:
        value: the standard error, in the unit of the difference.
        freedom: the degrees of freedom; infinite if only items vary.
    """

    value: float
    freedom: float = math.inf

    def of_few(self, items: int) -> StandardError:
        """Return the standard error of a mean of n items from that of its bootstrap, which divides by n, not n - 1."""
        return StandardError(self.value * math.sqrt(items / (items - 1)), float(items - 1))

    def interval(self, difference: float) -> tuple[float, float]:
        """Return the ends of the interval of `LEVEL` %."""
        half = _quantile(0.5 + LEVEL / 200.0, self.freedom) * self.value
        return difference - half, difference + half

    def p(self, difference: float) -> float:
        """Return the two-sided p of the hypothesis that there is no difference.

        Equal differences of a few items have no variance; their p is that of the test that exchanges signs.
        """
        from scipy.stats import norm, t

        if self.value == 0.0:
            return 1.0 if difference == 0.0 else 2.0**-self.freedom
        ratio = abs(difference) / self.value
        tail = norm.sf(ratio) if math.isinf(self.freedom) else t.sf(ratio, self.freedom)
        return float(min(1.0, 2.0 * tail))

    def minimum_detectable(self) -> float:
        """Return the smallest difference that a two-sided test at 5 % finds with a power of `POWER` %.

        It is (1.96 + 0.84) = 2.80 standard errors if only items vary, and more with few seeds: t's quantiles take the
        normal ones' place.
        """
        return (_quantile(0.5 + LEVEL / 200.0, self.freedom) + _quantile(POWER / 100.0, self.freedom)) * self.value


def standard_error(drawn: Sequence[Array], points: Sequence[Array], items: int) -> StandardError:
    """Return the standard error of the difference of the mean scores of two sides, or of the mean of one side.

    Args:
        drawn: for each side the scores on R resamples of the items, one column for each of its S seeds: (R, S). The
            resamples are the same for both sides; the second is subtracted from the first. Differences of paired
            seeds are a single side.
        points: for each side the scores on all items: (S,).
        items: the number of items.
    """
    means = [side.mean(axis=1) for side in drawn]
    of_items = float(np.var(means[0] - means[1] if len(means) > 1 else means[0], ddof=1))
    total, uncertain = of_items, of_items**2 / max(1, items - 1)
    for side, mean, values in zip(drawn, means, points, strict=True):
        seeds = len(values)
        if seeds == 1:
            continue
        over_seeds = float(np.var(values, ddof=1)) / seeds
        both = (float(np.var(side, axis=0, ddof=1).mean()) - float(np.var(mean, ddof=1))) / (seeds - 1)
        total += max(0.0, over_seeds - both)
        uncertain += over_seeds**2 / (seeds - 1)
    if total < _ROUNDING * max(1.0, max(float(np.square(values).max()) for values in points)):
        return StandardError(0.0)
    single = all(len(values) == 1 for values in points)
    return StandardError(math.sqrt(total), math.inf if single else max(1.0, total**2 / uncertain))


def _quantile(share: float, freedom: float) -> float:
    from scipy.stats import norm, t

    return float(norm.ppf(share) if math.isinf(freedom) else t.ppf(share, freedom))
