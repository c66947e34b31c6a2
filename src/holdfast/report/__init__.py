"""One self-contained HTML page of results, and its figures as PNG and SVG files.

``sources`` reads result files. ``contents`` chooses what to show, with ``tables``, ``figures``, ``training`` and
``examples``, which make plain values (``parts``). ``svg`` and ``plots`` draw the same figures for the page and for
files. ``page`` holds the template, its style and its script; ``html`` fills the template.

The page is made with Jinja2, which PyTorch installs anyway: it escapes everything that is not marked as markup. Only
`svg` makes markup, through one function that escapes all of its arguments. Code that builds the page from strings in
Python would have to escape them in every place.
"""

from holdfast.report.report_files import Written, write_report

__all__ = ["Written", "write_report"]
