"""The positive controls: for each method what it should lower, against which training, and itself without its idea."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import one_of
from holdfast.evaluation.positive_controls import newer_objectives as newer
from holdfast.evaluation.positive_controls import own_objectives as own
from holdfast.evaluation.positive_controls.frozen_runs import Array, FrozenRun, HeldOut, Space, measuring

Measure = Callable[[FrozenRun, HeldOut, Space, Mapping[str, Any]], dict[str, Array]]


@dataclass(frozen=True)
class Arm:
    """A training: a method with options.

    Attributes:
        method: name of the method; "" for the language model before any training.
        options: options that differ from the method's defaults.
    """

    method: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the arm, such as ``v-advcse regularisation=0.0``."""
        return " ".join([self.method or "untrained", *(f"{key}={value}" for key, value in self.options.items())])


UNTRAINED = Arm("")


@dataclass(frozen=True)
class Control:
    """The positive control of a method.

    Attributes:
        method: name of the method.
        measure: what the method optimises, of a frozen encoder.
        baseline: the training that it is compared with: SimCSE, with the same head where the measure needs one.
        without: the same method with its idea switched off, whose control must not succeed.
        also: other trainings to compare with, such as the method with a part of its idea.
        spaces: where the measure is computed; the first is the one that is compared.
    """

    method: str
    measure: Measure
    baseline: Arm = Arm("simcse")
    without: Arm = UNTRAINED
    also: tuple[Arm, ...] = ()
    spaces: tuple[Space, ...] = ("vector",)

    @property
    def trained(self) -> Arm:
        """The method itself, with its default options."""
        return Arm(self.method)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The trainings of the control, each once: the method itself first, then its baseline and the others."""
        arms = (self.trained, self.baseline, self.without, *self.also)
        return tuple({arm.name: arm for arm in arms}.values())

    def values(
        self,
        run: FrozenRun,
        texts: HeldOut,
        seed: int,
        *,
        space: Space | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> dict[str, Array]:
        """Return what the method optimises for each measured text, by name, for any run; lower is better.

        Args:
            run: the run of any method.
            texts: the held-out texts.
            seed: of the measurement's random numbers; equal for the runs that are compared.
            space: one of the control's spaces; None: the first.
            options: options of the measuring objective, which has the method's defaults.
        """
        with measuring(run, seed):
            return self.measure(run, texts, space or self.spaces[0], options or {})


_PLAIN_VIEWS = {"first_view": "none", "second_view": "none", "encoder_dropout": True}
_NO_ATTACK = {"pgd_steps": 0, "fgsm_steps": 0, "radius": 0.0}
# A weight of 0 is refused. With the clean term, at its minimum, Adam would make steps of rounding errors.
_NO_NOISE = {"noise": 1e-20, "clean": 0.0, "relations": 0.0}

CONTROLS = (
    Control("simcse", own.dropout_views, baseline=UNTRAINED),
    Control("consert", own.augmented_views, without=Arm("consert", _PLAIN_VIEWS)),
    Control("ct", own.pair_products),
    Control(
        "v-advcse",
        own.virtual_perturbation,
        baseline=Arm("simcse", {"head": "bn"}),
        without=Arm("v-advcse", {"regularisation": 0.0}),
        spaces=("head",),
    ),
    Control(
        "robustembed",
        own.perturbed_embeddings,
        without=Arm("robustembed", {**_NO_ATTACK, "positives": "clean", "gamma": 0.0}),
        also=(Arm("robustembed", _NO_ATTACK),),
        spaces=("head", "vector"),
    ),
    Control("adcl", own.exchanged_words, without=Arm("adcl", {"positives": "dropout"})),
    Control(
        "adcse",
        own.learned_negatives,
        without=Arm("adcse", {"negatives": 0}),
        spaces=("head", "vector"),
    ),
    Control(
        "l2p-csr",
        own.masked_views,
        without=Arm("l2p-csr", {"token_mask": False, "feature_mask": False}),
        also=(Arm("l2p-csr", {"learning": False}),),
        spaces=("head", "vector"),
    ),
    # The anchors are the vectors before training, from which SimCSE moves away: the comparison is with the start.
    Control(
        "anchored",
        own.mistyped_texts,
        baseline=UNTRAINED,
        without=Arm("anchored", _NO_NOISE),
        also=(Arm("simcse"),),
    ),
    Control(
        "rankcse",
        newer.rankings_of_the_start,
        without=Arm("rankcse", {"consistency": 0.0, "ranking": 0.0}),
        spaces=("head", "vector"),
    ),
    Control(
        "diffcse",
        newer.replaced_tokens,
        baseline=Arm("simcse", {"head": "bn"}),
        without=Arm("diffcse", {"weight": 0.0}),
        spaces=("head",),
    ),
    Control(
        "simcse-plus",
        newer.still_negatives_and_dimensions,
        without=Arm("simcse-plus", {"negatives_dropout": True, "dimension_weight": 0.0}),
        also=(Arm("simcse-plus", {"dimension_weight": 0.0}), Arm("simcse-plus", {"negatives_dropout": True})),
        spaces=("head", "vector"),
    ),
)


def control_of(method: str) -> Control:
    """Return the control of a method.

    Raises:
        UserError: it has none.
    """
    found = {control.method: control for control in CONTROLS}
    one_of("control", method, tuple(found))
    return found[method]
