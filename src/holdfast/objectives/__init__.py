"""Training objectives, one file per method. Each is a valid sentence-transformers loss."""

from __future__ import annotations

from holdfast.objectives.adcl import ADCL
from holdfast.objectives.adcse import AdCSE
from holdfast.objectives.anchored import Anchored
from holdfast.objectives.combined import Combined
from holdfast.objectives.consert import ConSERT
from holdfast.objectives.ct import ContrastiveTension
from holdfast.objectives.diffcse import DiffCSE
from holdfast.objectives.l2p_csr import L2PCSR
from holdfast.objectives.objective import Objective
from holdfast.objectives.rankcse import RankCSE
from holdfast.objectives.robustembed import RobustEmbed
from holdfast.objectives.simcse import SimCSE
from holdfast.objectives.simcse_plus import SimCSEPlus
from holdfast.objectives.v_advcse import VAdvCSE

METHODS: dict[str, type[Objective]] = {
    "simcse": SimCSE,
    "consert": ConSERT,
    "ct": ContrastiveTension,
    "v-advcse": VAdvCSE,
    "robustembed": RobustEmbed,
    "adcl": ADCL,
    "adcse": AdCSE,
    "l2p-csr": L2PCSR,
    "combined": Combined,
    "anchored": Anchored,
    "rankcse": RankCSE,
    "simcse-plus": SimCSEPlus,
    "diffcse": DiffCSE,
}
"""The methods by their command-line names."""

__all__ = [
    "ADCL",
    "L2PCSR",
    "METHODS",
    "AdCSE",
    "Anchored",
    "Combined",
    "ConSERT",
    "ContrastiveTension",
    "DiffCSE",
    "Objective",
    "RankCSE",
    "RobustEmbed",
    "SimCSE",
    "SimCSEPlus",
    "VAdvCSE",
]
