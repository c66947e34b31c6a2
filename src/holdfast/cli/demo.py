"""``holdfast demo``."""

from __future__ import annotations

from holdfast.cli.app import AUDIT
from holdfast.cli.console import console, print_json, work_quietly
from holdfast.cli.verbs import Call, verb
from holdfast.demo.demo_settings import DemoSettings


@verb(
    DemoSettings,
    short_help="Harden the encoder that comes with holdfast, before and after.",
    panel=AUDIT,
    examples="""
holdfast demo --output my-demo
holdfast demo --methods
""",
)
def demo(settings: DemoSettings, call: Call) -> None:
    """Audit an encoder, harden it, audit it again, and ask it mistyped questions; offline, a few minutes."""
    with work_quietly():
        if settings.methods:
            from holdfast.cli.methods_summary import summary
            from holdfast.demo.methods_run import run_methods_demo
            from holdfast.demo.methods_settings import MethodsDemoSettings

            chosen = MethodsDemoSettings(settings.start, settings.output, seed=settings.seed)
            result = run_methods_demo(chosen, call.progress)
        else:
            from holdfast.cli.demo_summary import summary
            from holdfast.demo.demo_run import run_demo

            result = run_demo(settings, call.progress)
    if call.as_json:
        print_json(result)
        return
    tables, text = summary(result)
    out = console()
    for table in tables:
        out.print(table)
    print(text)
