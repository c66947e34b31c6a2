"""Items in two steps: the texts that they need, which are encoded together, and the rows made of their vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.audit.audit_context import AuditContext
from holdfast.audit.item_rows import Item, NotMeasured
from holdfast.audit.vector_movement import Copy, Movement

NOT_ENCODED = "no text could be encoded before the end of the time budget (--max-seconds)"


@dataclass(frozen=True)
class Planned:
    """Items whose texts are known.

    Attributes:
        texts: the texts to encode, each with the index of the audited text that it belongs to: lower ones come first,
            so that all items lose alike if the time does not suffice.
        measure: returns the items once the texts are encoded, from the vectors of a context, which are the plain ones
            or those of a form; it may raise `NotMeasured`.
    """

    texts: Sequence[tuple[int, str]]
    measure: Callable[[AuditContext], list[Item]]


def planned_copies(
    copies: Sequence[Copy],
    measure: Callable[[AuditContext, Movement], list[Item]],
    without: str = "no text has a word that may be changed",
) -> Planned:
    """Plan items of copies; ``without`` is the reason if there are none.

    Raises:
        NotMeasured: there are no copies.
    """
    if not copies:
        raise NotMeasured(without)

    def measured(context: AuditContext) -> list[Item]:
        encoded = context.encoded(copies)
        if not encoded:
            raise NotMeasured(NOT_ENCODED)
        return measure(context, context.space.move(encoded))

    return Planned([(copy.index, copy.text) for copy in copies], measured)
