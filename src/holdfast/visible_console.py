"""The rich console for all output of the commands, except JSON and single lines."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from holdfast.terminal import visible


class VisibleConsole(Console):
    """A console that escapes control characters and does not interpret markup; its settings are those of rich's."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Return ``text`` as rich's text, with controls escaped before rich removes or measures them."""
        return super().render_str(visible(text), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render anything, with controls escaped in every segment."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))

    def status(self, status: RenderableType, **settings: Any) -> Status:
        """Return a status line with a spinner."""
        return _PlainStatus(_unmarked(status), console=self, **settings)

    def on_broken_pipe(self) -> None:
        """Raise `BrokenPipeError`; rich would exit with another code than the documented one."""
        raise BrokenPipeError(errno.EPIPE, "nobody reads the output")


class _PlainStatus(Status):
    def update(self, status: RenderableType | None = None, **settings: Any) -> None:
        super().update(None if status is None else _unmarked(status), **settings)


def _unmarked(status: RenderableType) -> RenderableType:
    """Return a str as text without markup, which a spinner would interpret."""
    return Text(visible(status)) if isinstance(status, str) else status
