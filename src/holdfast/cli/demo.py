"""``holdfast demo``."""

from __future__ import annotations

from holdfast.cli.app import AUDIT
from holdfast.cli.console import console, print_json, work_quietly
from holdfast.cli.verbs import Call, verb
from holdfast.demo.demo_settings import DemoSettings


@verb(
    DemoSettings,
    short_help="Run every stage on the text of this Python's documentation.",
    panel=AUDIT,
    examples="holdfast demo --output my-demo",
)
def demo(settings: DemoSettings, call: Call) -> None:
    """Train on this Python's own prose, compare, attack, audit, and write the report; offline, a few minutes."""
    from holdfast.cli.demo_summary import summary
    from holdfast.demo.demo_run import run_demo

    with work_quietly():
        result = run_demo(settings, call.progress)
    if call.as_json:
        print_json(result)
        return
    tables, text = summary(result)
    out = console()
    for table in tables:
        out.print(table)
    print(text)
