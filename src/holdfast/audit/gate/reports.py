"""The outcome of a gate for other programs: lines, JUnit XML, and annotations of GitHub Actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from holdfast.audit.gate.checks import Check
from holdfast.files import write_text
from holdfast.terminal import visible


def failed_line(check: Check) -> str:
    """Return the line of a failed condition."""
    return visible(f"failed: {check.condition}: {check.message}")


def summary_line(checks: Sequence[Check]) -> str:
    """Return a line with the numbers of conditions."""
    failed = sum(check.failed is True for check in checks)
    skipped = sum(check.failed is None for check in checks)
    line = f"{len(checks):,} condition{'s' * (len(checks) != 1)}: {failed:,} failed"
    return line + (f", {skipped:,} not comparable" if skipped else "")


def github_annotations(checks: Sequence[Check], title: str = "holdfast check") -> Iterator[str]:
    """Yield a workflow command of GitHub Actions for each failed condition.

    See "Workflow commands for GitHub Actions" in GitHub's documentation; special characters are percent-encoded.
    """
    for check in checks:
        if check.failed:
            properties = _encoded(f"{title}: {check.item}").replace(":", "%3A").replace(",", "%2C")
            yield f"::error title={properties}::{_encoded(f'{check.condition}: {check.message}')}"


def _encoded(text: str) -> str:
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def write_junit(path: Path, checks: Sequence[Check], *, suite: str) -> None:
    """Write the outcomes as JUnit XML: a test case per condition, failed or skipped.

    Raises:
        UserError: the file cannot be written.
    """
    counts = {
        "tests": str(len(checks)),
        "failures": str(sum(check.failed is True for check in checks)),
        "errors": "0",
        "skipped": str(sum(check.failed is None for check in checks)),
    }
    root = ElementTree.Element("testsuites", counts)
    cases = ElementTree.SubElement(root, "testsuite", {"name": visible(suite), **counts})
    for check in checks:
        name = {"classname": visible(check.item), "name": visible(check.condition)}
        case = ElementTree.SubElement(cases, "testcase", name)
        if check.failed is None:
            ElementTree.SubElement(case, "skipped", {"message": visible(check.message)})
        elif check.failed:
            failure = ElementTree.SubElement(case, "failure", {"message": visible(check.message), "type": "condition"})
            failure.text = failed_line(check)
    ElementTree.indent(root)
    xml = ElementTree.tostring(root, encoding="unicode")
    write_text(path, f'<?xml version="1.0" encoding="UTF-8"?>\n{xml}\n')
