"""The console of rich that all output of the verbs goes through, but for JSON and single lines."""

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
    """A console that shows controls instead of passing them on, and reads no markup in what it prints.

    Args:
        **settings: as of rich's console.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Make rich's text of ``text``; controls are exchanged before rich drops some of them and measures the rest."""
        return super().render_str(visible(text), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render anything; also text that was made elsewhere shows its controls."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))

    def status(self, status: RenderableType, **settings: Any) -> Status:
        """Return a line with a spinner."""
        return _PlainStatus(_unmarked(status), console=self, **settings)

    def on_broken_pipe(self) -> None:
        """Pass the error on, where rich would end the process with another exit code than the one documented."""
        raise BrokenPipeError(errno.EPIPE, "nobody reads the output")


class _PlainStatus(Status):
    def update(self, status: RenderableType | None = None, **settings: Any) -> None:
        super().update(None if status is None else _unmarked(status), **settings)


def _unmarked(status: RenderableType) -> RenderableType:
    """A spinner would read markup in what is a str."""
    return Text(visible(status)) if isinstance(status, str) else status
