"""Entry point of ``python -m holdfast``, the command ``holdfast``."""

from __future__ import annotations

import sys

from holdfast.cli import main

if __name__ == "__main__":
    sys.exit(main())
