"""The radius of δ's ball from the options of a method or a defence; without torch, for readers of logs."""

from __future__ import annotations

from collections.abc import Mapping


def ball_radius(options: Mapping[str, float]) -> float | None:
    """Return the option ``radius``, or without it the reach of the FGSM steps (see `MixedAscent`); None if unknown.

    Args:
        options: the options that are numbers.
    """
    if "radius" in options or "fgsm_steps" not in options or "fgsm_size" not in options:
        return options.get("radius")
    return options["fgsm_steps"] * options["fgsm_size"]
