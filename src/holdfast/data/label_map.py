"""The option ``--label-map`` of several verbs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from holdfast.settings import Spelling


def _parse(text: str) -> Mapping[str, str]:
    from holdfast.data.labels import parse_label_map

    return parse_label_map(text)


LabelMap = Annotated[Mapping[str, str], Spelling(metavar="MODEL=TASK,...", parse=_parse)]
"""The task's class for each class of a model, by name, as `holdfast.data.labels.parse_label_map` reads it."""
