"""Run by test_lora.py in two processes: run_command.py STEP WORDS…, a command of holdfast that is killed at a step.

At step 0 it is not killed.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from holdfast.cli import main
from holdfast.training.trainer import HoldfastTrainer


def kill_at(step: int) -> None:
    """Let the training step after ``step`` steps kill its process."""
    training_step = HoldfastTrainer.training_step

    def killing(self: Any, *given: Any) -> Any:
        if self.state.global_step == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return training_step(self, *given)

    setattr(HoldfastTrainer, "training_step", killing)  # noqa: B010


if __name__ == "__main__":
    if int(sys.argv[1]):
        kill_at(int(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
