"""The objectives that are tried on the second device, with the options that take other ways through the code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from small_options import ADCL_WITH_LM, COMBINED

SENTENCE, BOTH = ("sentence",), ("sentence", "positive")


@dataclass(frozen=True)
class Variant:
    """An objective and what it is trained on.

    Attributes:
        method: its name.
        options: of its class; "LM" stands for the folder of a masked language model.
        columns: of the data.
        pooling: of the model.
        bf16: whether it is trained in bf16.
        tolerance: to the CPU's numbers; sums are made in another order where attention has other kernels.
        batch_size: sentences in a step.
    """

    method: str
    options: dict[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = SENTENCE
    pooling: str | None = None
    bf16: bool = False
    tolerance: float = 1e-6
    batch_size: int = 8


VARIANTS = {
    "simcse": Variant("simcse"),
    "simcse-bf16": Variant("simcse", bf16=True, tolerance=5e-2),
    "simcse-given": Variant("simcse", columns=BOTH),
    "simcse-prompt": Variant("simcse", pooling="prompt"),
    "consert": Variant("consert"),
    "consert-cutoffs": Variant("consert", {"first_view": "token-cutoff", "second_view": "feature-cutoff"}),
    "consert-adversarial": Variant("consert", {"first_view": "adversarial", "second_view": "dropout"}),
    "ct": Variant("ct", {"negatives": 5}),
    "v-advcse": Variant("v-advcse"),
    "v-advcse-token": Variant("v-advcse", {"space": "token", "norm": "inf"}),
    "robustembed": Variant("robustembed"),
    "robustembed-l1": Variant("robustembed", {"norm": "1", "trajectory": "separate"}),
    "robustembed-released": Variant("robustembed", {"as_released": True}),
    "adcl": Variant("adcl", ADCL_WITH_LM),
    "adcl-released": Variant("adcl", {**ADCL_WITH_LM, "roles": "swapped", "as_released": True}),
    "adcse": Variant("adcse"),
    "adcse-tied": Variant("adcse", {"untied": False, "in_batch_negatives": False}),
    "l2p-csr": Variant("l2p-csr", {"layers": 2, "threshold": 0.4}),
    "l2p-csr-noise": Variant("l2p-csr", {"layers": 2, "noise": "embedding"}),
    "combined": Variant("combined", COMBINED),
    "anchored": Variant("anchored", {"adversarial": 0.5, "tries": 2}),
    "rankcse": Variant("rankcse", {"distillation": "listnet"}),
    "simcse-plus": Variant("simcse-plus"),
    "diffcse": Variant("diffcse", {"generator": "LM"}),
}
