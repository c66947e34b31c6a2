"""Options of methods that fit a model of two layers and eight sentences, for tests of all methods.

Scripts that tests start by `warm` find this module too.
"""

from __future__ import annotations

from typing import Any

ADCL: dict[str, Any] = {
    "queue_size": 20,
    "projection_size": 8,
    "max_share": 0.5,
    "source": "masked-lm",
    "min_similarity": -1.0,
}
"""For `adcl`, of a masked language model."""
ADCL_WITH_LM: dict[str, Any] = {**ADCL, "masked_lm": "LM"}
"""For `adcl`, of a sentence encoder; "LM" stands for the folder of a masked language model."""
COMBINED: dict[str, Any] = {
    "keys": "momentum",
    "negatives": "batch+queue+adversaries",
    "queue_size": 20,
    "adversarial_positive": True,
    "weakening": True,
    "weakening_layers": 2,
    "regularisation": 0.5,
}
"""For `combined`, with all of its parts."""
