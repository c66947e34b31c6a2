"""Rendering of a report's contents as one HTML file that loads nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import resources
from typing import Any

from holdfast.files import sha256
from holdfast.report.contents import Contents
from holdfast.report.examples import OUTCOMES, ShownExamples, as_json
from holdfast.report.export import as_csv, as_latex, as_markdown, data_url
from holdfast.report.result_sources import ReportSource, files_of
from holdfast.report.svg import draw, swatch
from holdfast.results import State, shown
from holdfast.runs.run_log import number_of
from holdfast.version import __version__

FIRST = 50
"""Number of examples in the page itself, for readers without JavaScript."""

_FORMATS = (
    ("CSV", "text/csv", "csv", as_csv),
    ("Markdown", "text/markdown", "md", as_markdown),
    ("LaTeX", "application/x-tex", "tex", as_latex),
)
_LEVELS = {"good": "as it should be", "look": "worth a look", "bad": "wrong", "told": "for the record"}

_STATES: dict[State, str] = {
    "as written": "unchanged since it was written, by its hash",
    "changed": "changed after it was written: its hash differs",
    "unhashed": "without a hash: from an earlier version, or not written by holdfast",
}


@dataclass(frozen=True)
class Origin:
    """The provenance of a result's numbers, as texts."""

    name: str
    kind: str
    created: str
    command: str
    facts: tuple[tuple[str, str], ...]
    protocol: str
    packages: str
    changed: bool = False


def render_page(contents: Contents, *, title: str) -> str:
    """Render the page as HTML.

    Texts of results are escaped where they are printed (Jinja2's autoescape, `svg.tag`, `examples.script_json`). The
    policy in the page's head allows only its own style and script, by their hashes, and forbids loading anything.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    files = resources.files("holdfast.report").joinpath("page")
    style, script, source = (
        files.joinpath(name).read_text(encoding="utf-8") for name in ("style.css", "script.js", "report.html.j2")
    )
    template = Environment(autoescape=True, undefined=StrictUndefined, auto_reload=False).from_string(source)
    return template.render(
        contents=contents,
        title=shown(title),
        summary=_summary(contents),
        links=_links(contents),
        formats=_FORMATS,
        link=data_url,
        draw=draw,
        swatch=swatch,
        levels=_LEVELS,
        outcomes=OUTCOMES,
        first=contents.examples.shown[:FIRST],
        examples_note=_examples_note(contents.examples),
        examples_data=Markup(as_json(contents.examples)),
        origins=[origin_of(source) for source in files_of(contents.sources)],
        style=Markup(style),
        script=Markup(script),
        style_hash=policy_hash(style),
        script_hash=policy_hash(script),
        version=__version__,
        made=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    )


def policy_hash(text: str) -> str:
    """Return the hash by which a page's policy allows a style or script in it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _links(contents: Contents) -> list[tuple[str, str]]:
    return [
        *([("summary", "Models")] if contents.cards else []),
        *((section.id, section.title) for section in contents.sections),
        *([("examples", "Adversarial examples")] if contents.examples.shown else []),
        ("provenance", "Protocol and provenance"),
    ]


def _summary(contents: Contents) -> str:
    counts = {
        "result": len(files_of(contents.sources)),
        "model": len(contents.cards),
        "table": len(contents.tables),
        "figure": len(contents.figures),
        "adversarial example": contents.examples.total,
    }
    return ", ".join(f"{count:,} {name}{'s' * (count != 1)}" for name, count in counts.items() if count) + "."


def _examples_note(examples: ShownExamples) -> str:
    note = "Struck out: words that an attack removed. Highlighted: words that it inserted."
    if len(examples.shown) < examples.total:
        note += f" The page holds {len(examples.shown):,} of {examples.total:,}; the result files hold all."
    if examples.shortened:
        note += f" Long unchanged parts of {examples.shortened:,} texts are shortened […]."
    return note


def origin_of(source: ReportSource) -> Origin:
    """Return the provenance of a result."""
    result = source.result
    machine = dict(result["environment"])
    packages = machine.pop("packages", {})
    seed = result["seed"]
    facts = {
        "file": str(source.path),
        "file's SHA-256": sha256(source.path),
        "content": _STATES[source.state],
        "damaged beside it": "; ".join(source.damaged),
        "model": source.model,
        "model's SHA-256": str(result["model_sha256"]),
        "seed": "none: no random number was drawn" if seed is None else str(seed),
        "machine": "; ".join(f"{name} {value}" for name, value in machine.items()),
        **{
            name.replace("_", " "): seconds
            for name, value in _timing(result).items()
            if (seconds := _seconds(name, value))
        },
    }
    return Origin(
        name=shown(source.path.name),
        kind=source.kind,
        created=str(result["created"]),
        command=str(result["command"]),
        facts=tuple((name, shown(value)) for name, value in facts.items() if value),
        protocol=json.dumps(source.protocol, indent=2, ensure_ascii=False),
        packages=json.dumps(packages, indent=2, ensure_ascii=False),
        changed=source.state == "changed",
    )


def _timing(result: Mapping[str, Any]) -> Mapping[str, Any]:
    timing = result.get("timing")
    return timing if isinstance(timing, dict) else {}


def _seconds(name: str, value: Any) -> str:
    number = number_of(value)
    if number is None:
        return ""
    return f"{number:,.2f}" if name.endswith(("seconds", "per_example")) else f"{number:,.6g}"
