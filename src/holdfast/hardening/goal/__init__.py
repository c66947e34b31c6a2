"""The goal of a hardening: what the new encoder finds with noisy queries in an index of the original encoder.

`Goal` measures it on texts that are held out of the training, `GoalChoice` chooses the weights by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.hardening.goal.choice_rule import Candidate, judge, kept
    from holdfast.hardening.goal.goal_choice import GoalChoice
    from holdfast.hardening.goal.goal_queries import GoalTexts, QueryGroup, goal_texts
    from holdfast.hardening.goal.goal_rows import old_index_rows
    from holdfast.hardening.goal.hold_out import HoldOut, hold_out
    from holdfast.hardening.goal.interpolation import interpolated
    from holdfast.hardening.goal.measured_goal import Goal, Outcomes
    from holdfast.hardening.goal.mixed_texts import MixedTexts
    from holdfast.hardening.goal.old_index import OldIndex

__all__ = [
    "Candidate",
    "Goal",
    "GoalChoice",
    "GoalTexts",
    "HoldOut",
    "MixedTexts",
    "OldIndex",
    "Outcomes",
    "QueryGroup",
    "goal_texts",
    "hold_out",
    "interpolated",
    "judge",
    "kept",
    "old_index_rows",
]

__getattr__ = lazy_exports(
    __name__,
    {
        **dict.fromkeys(("Candidate", "judge", "kept"), "choice_rule"),
        "GoalChoice": "goal_choice",
        **dict.fromkeys(("GoalTexts", "QueryGroup", "goal_texts"), "goal_queries"),
        "old_index_rows": "goal_rows",
        **dict.fromkeys(("HoldOut", "hold_out"), "hold_out"),
        "interpolated": "interpolation",
        **dict.fromkeys(("Goal", "Outcomes"), "measured_goal"),
        "MixedTexts": "mixed_texts",
        "OldIndex": "old_index",
    },
)
