"""Checks of a training run by its log: loss, gradients, attack, δ, selected step."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.results import percent_shown
from holdfast.runs.duplicate_shares import LARGE, duplicates_after, logged_shares
from holdfast.runs.run_log import RISE_SHARE, RISES, Record, curve, median_of, number_of

Level = Literal["good", "look", "bad", "told"]

_HARDLY = 1e-3
"""Minimum share of the gradient with which a regulariser, or a method's idea, has an effect on the encoder."""
_MOSTLY = 0.9
"""Minimum share of the views that should still be nearest to their own sentence."""
_STILL = 1e-3
"""Minimum angle, in degrees a step, by which learned negatives move: 1 degree in a thousand steps."""
_WEAK = 0.1
"""Minimum share of the attacked loss that should be the attack's work."""
_ROUNDING = 1e-3
"""Relative tolerance of the check that δ lies in its ball, for rounding errors."""


@dataclass(frozen=True)
class Flag:
    """The outcome of one check of a run.

    Attributes:
        level: "good", "look" (worth a look), "bad" or "told" (for information).
        what: subject of the check, such as "loss".
        message: finding, as text.
    """

    level: Level
    what: str
    message: str


def flags(log: Sequence[Record], options: Mapping[str, Any], selected: Any = None) -> list[Flag]:
    """Return the outcomes of all checks of a run; checks of quantities that were not logged are left out.

    Args:
        log: the records, as returned by `holdfast.runs.run_log.read_log`.
        options: options of the method or the defence, for the radius of δ's ball.
        selected: entry "selected" of a finished run's result; ignored if it is not a dict.
    """
    found = [
        _loss(log),
        _gradients(log),
        _rise(log),
        _ball(log, options),
        _share(log, "gradient_share", "regulariser"),
        _share(log, "idea_gradient_share", "idea"),
        _views(log),
        _duplicates(log, options),
        _selected(selected),
        _negatives(log),
    ]
    return [flag for flag in found if flag is not None]


def options_of(protocol: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of the method or the defence in a run's record or protocol; empty if there are none."""
    found = (protocol.get(key) for key in ("options", "defence_options"))
    return next((options for options in found if isinstance(options, dict)), {})


def radius_of(options: Mapping[str, Any]) -> float | None:
    """Return the option ``radius``, or without it the reach of the FGSM steps (`MixedAscent`); None if unknown."""
    radius, steps, size = (number_of(options.get(name)) for name in ("radius", "fgsm_steps", "fgsm_size"))
    return radius if radius is not None or steps is None or size is None else steps * size


def _loss(log: Sequence[Record]) -> Flag | None:
    losses = [(record["step"], record["loss"]) for record in log if "loss" in record]
    if not losses:
        return None
    broken = [step for step, value in losses if number_of(value) is None]
    if broken:
        return Flag("bad", "loss", f"not a finite number at step {broken[0]}")
    (first_step, first), (last_step, last) = losses[0], losses[-1]
    if len(losses) > 1 and last >= first:
        return Flag("look", "loss", f"did not fall: {first:.4g} at step {first_step}, {last:.4g} at step {last_step}")
    return Flag("good", "loss", f"from {first:.4g} to {last:.4g}")


def _gradients(log: Sequence[Record]) -> Flag | None:
    norms = [(record["step"], record["grad_norm"]) for record in log if "grad_norm" in record]
    if not norms:
        return None
    broken = [step for step, value in norms if number_of(value) is None]
    if broken:
        return Flag("bad", "gradients", f"not finite at step {broken[0]}")
    zero = [step for step, value in norms if value == 0]
    if zero:
        return Flag("bad", "gradients", f"exactly 0 in {len(zero)} of {len(norms)} logged steps, first at {zero[0]}")
    values = [value for _, value in norms]
    return Flag("good", "gradients", f"never 0; norm {min(values):.3g} to {max(values):.3g}")


def _rise(log: Sequence[Record]) -> Flag | None:
    rises = [y for name in RISES for _, y in curve(log, name)]
    if not rises:
        return None
    above = sum(rise > 0 for rise in rises)
    message = (
        f"the loss rose under the attack in {above} of {len(rises)} logged steps; median {statistics.median(rises):.3g}"
    )
    level: Level = "good" if above == len(rises) else "look" if 2 * above > len(rises) else "bad"
    if (share := median_of(log, RISE_SHARE)) is not None:
        message += f", {percent_shown(share)} of the attacked loss"
        if level == "good" and share < _WEAK:
            return Flag("look", "attack", f"{message}: it hardly changes what is trained; larger steps would")
    return Flag(level, "attack", message)


def _ball(log: Sequence[Record], options: Mapping[str, Any]) -> Flag | None:
    norms = [y for _, y in curve(log, "delta_norm")]
    radius = radius_of(options)
    if not norms:
        return None
    largest, middle = max(norms), statistics.median(norms)
    if not radius:
        return Flag("told", "δ", f"norm {middle:.3g} (median), at most {largest:.3g}")
    message = f"norm {middle:.3g} (median), {100 * middle / radius:.0f} % of the ball's radius {radius:g}"
    if largest > radius * (1 + _ROUNDING):
        return Flag("bad", "δ", f"{message}: leaves the ball, {largest:.4g}")
    if middle < 0.01 * radius:
        return Flag("look", "δ", f"{message}: it hardly leaves the centre")
    if (share := median_of(log, "projected")) is not None:  # without any, neither norm nor radius has an effect
        message += f"; projections move {percent_shown(share)} of coordinates" if share else "; no step leaves the ball"
    return Flag("good", "δ", message + (", at its edge" if middle > 0.99 * radius else ""))


def _share(log: Sequence[Record], name: str, what: str) -> Flag | None:
    if (middle := median_of(log, name)) is None:
        return None
    message = f"{percent_shown(middle)} of the gradient (median)"
    return _at_least(_HARDLY, middle, what, message, "it hardly trains the encoder")


def _views(log: Sequence[Record]) -> Flag | None:
    if (middle := median_of(log, "views_found")) is None:
        return None
    message = f"{100 * middle:.0f} % of the perturbed views are nearest to their own sentence (median)"
    return _at_least(_MOSTLY, middle, "positives", message, "the perturbation takes the sentence away")


def _at_least(bound: float, value: float, what: str, message: str, otherwise: str) -> Flag:
    """Return a flag that tells to look, and why, if a value is below its bound."""
    return Flag("look", what, f"{message}: {otherwise}") if value < bound else Flag("good", what, message)


def _duplicates(log: Sequence[Record], options: Mapping[str, Any]) -> Flag | None:
    shares = logged_shares(log)
    message = duplicates_after(shares, options)
    return Flag("look" if max(shares.values()) >= LARGE else "told", "duplicates", message) if message else None


def below_start(selected: Mapping[str, Any]) -> str:
    """Return a message if the kept step's score is below that of the model before training; "" if it is not known."""
    score, start = (number_of(selected.get(key)) for key in ("score", "start"))
    if score is None or start is None or score >= start:
        return ""
    return f"the training made the encoder worse: its dev score is {score:.2f}, and was {start:.2f} before"


def _selected(selected: Any) -> Flag | None:
    if not isinstance(selected, dict):
        return None
    if message := below_start(selected):
        return Flag("bad", "selection", message)
    step, steps, score = (number_of(selected.get(key)) for key in ("step", "steps", "score"))
    if step is None or steps is None:
        return None
    message = f"step {step:g} of {steps:g} was kept" + ("" if score is None else f", score {score:.2f}")
    if isinstance(line := selected.get("line"), str):
        return Flag("good" if step else "look", "selection", line)
    if score is not None and step == steps:
        return Flag("look", "selection", f"{message}: the last one, so longer training may be better")
    return Flag("good" if score is not None else "told", "selection", message)


def _negatives(log: Sequence[Record]) -> Flag | None:
    if (middle := median_of(log, "negatives_turned")) is None:
        return None
    message = f"turned by {middle:.2g} degrees a step (median)"
    return _at_least(_STILL, middle, "learned negatives", message, "they hardly move; try negatives_step=normalised")
