"""Run by test_failing_processes.py under torchrun: train, and let process 1 fail in its second step.

Usage: fail_on_one.py HOW WORDS..., where HOW is "raises" or "dies", and WORDS are those after ``holdfast``.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.training.trainer import HoldfastTrainer


def failing(how: str) -> None:
    step = HoldfastTrainer.training_step

    def patched(self: Any, *args: Any, **kwargs: Any) -> Any:
        if os.environ["RANK"] == "1" and self.state.global_step == 1:
            if how == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            raise UserError("the disk of this machine is full")
        return step(self, *args, **kwargs)

    HoldfastTrainer.training_step = patched  # type: ignore[method-assign]


if __name__ == "__main__":
    failing(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
