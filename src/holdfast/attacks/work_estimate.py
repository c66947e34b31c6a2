"""An estimate of the work before it starts: texts, texts and calls to encode, and the time that they will take."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.attacks.examples import Example
from holdfast.attacks.targets import CallableTarget, ClassifierTarget, Target
from holdfast.edits.words import Words
from holdfast.progress import duration

QUERIES_PER_WORD = 6
"""About the queries that an attack makes per word of a text; PWWS asks more, typing errors fewer."""
_FIRST_BATCH = 16


@dataclass(frozen=True)
class WorkEstimate:
    """The work of an audit or an attack, estimated.

    Attributes:
        texts: the number of texts.
        encodings: at most so many texts to encode, apart from the queries of attacks.
        queries: about so many queries of attacks.
        seconds_per_text: the time of a text, measured on a first batch.
        call_batch: largest number of texts in a call of a function; None: the model is no function.
        limit: the seconds after which the work ends in any case; 0: none.
    """

    texts: int
    encodings: int
    queries: int
    seconds_per_text: float
    call_batch: int | None = None
    limit: float = 0.0

    @property
    def seconds(self) -> float:
        """The time of all texts and queries, without the limit."""
        return (self.encodings + self.queries) * self.seconds_per_text

    @property
    def calls(self) -> int | None:
        """At least so many calls of a function; None: the model is no function."""
        if self.call_batch is None:
            return None
        return math.ceil(self.encodings / self.call_batch) + math.ceil(self.queries / self.call_batch)

    def line(self) -> str:
        """Return the estimate in one line."""
        parts = [f"at most {self.encodings:,} texts to encode"] if self.encodings else []
        parts += [f"about {self.queries:,} queries of attacks"] if self.queries else []
        calls = f" in {self.calls:,} calls or more" if self.calls is not None else ""
        rate = f"{1000 * self.seconds_per_text:.3g} ms a text"
        limit = f", ended after {duration(self.limit)} (--max-seconds)" if 0.0 < self.limit < self.seconds else ""
        work = f"{' and '.join(parts) or 'nothing to encode'}{calls}"
        return f"estimate: {self.texts:,} texts, {work}: about {duration(self.seconds)} at {rate}{limit}"

    def record(self) -> dict[str, Any]:
        """Return the estimate for a machine."""
        return {**vars(self), "seconds": self.seconds, "calls": self.calls}


def queries_of(texts: Sequence[str], attacks: int) -> int:
    """Return about how many queries some attacks on texts make."""
    return QUERIES_PER_WORD * attacks * sum(len(Words.of(text).words) for text in texts)


def attack_estimate(target: Target, examples: Sequence[Example], recipes: int, call_batch: int | None) -> WorkEstimate:
    """Estimate an attack; the time of a text is measured on the first examples.

    Args:
        target: what is attacked.
        examples: the examples.
        recipes: the number of recipes.
        call_batch: as in `WorkEstimate`.
    """
    seconds = 0.0
    first = [example for example in examples if example.text.strip()][:_FIRST_BATCH]  # others are skipped
    if isinstance(target, (ClassifierTarget, CallableTarget)):  # that of an encoder encodes them
        refused = target.prepare(first)
        first = [example for example, reason in zip(first, refused, strict=True) if reason is None]
    batch = [target.model_input(example, example.text) for example in first]
    if batch:
        target.outputs(batch[:1], exact=True)  # the first call is slower than the others
        began = time.monotonic()
        target.outputs(batch, exact=True)
        seconds = (time.monotonic() - began) / len(batch)
    queries = queries_of([example.text for example in examples], recipes)
    return WorkEstimate(len(examples), 0, queries, seconds, call_batch)
