"""The second device, or the CPU made to do as it does: where a script's part runs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

from second_device import DEVICE_TYPE, Waits, second_device

from holdfast.encoder import Encoder
from holdfast.pretraining import pretraining_run

THERE = f"{DEVICE_TYPE}:0"
CPU = "cpu"


@contextlib.contextmanager
def on(place: str) -> Iterator[Waits | None]:
    """The second device for ``THERE``; for ``CPU`` the CPU without what is done on CPUs alone.

    In groups of like length, or with the CPU's own way to draw it, dropout would be another.
    """
    defaults: Any = Encoder.__init__.__kwdefaults__
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(defaults, {"length_groups": 1}))
        # Pretraining's groups are small on a CPU, for its cache.
        stack.enter_context(mock.patch.object(pretraining_run, "CPU_GROUP_TOKENS", 128 // pretraining_run._GPU_GROUPS))
        for module in [module for name, module in sys.modules.items() if name.startswith("holdfast.")]:
            if hasattr(module, "fast_on_cpu"):
                stack.enter_context(mock.patch.object(module, "fast_on_cpu", contextlib.nullcontext))
        yield stack.enter_context(second_device()) if place == THERE else None
