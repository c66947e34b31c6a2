"""One self-contained HTML page of results, and its figures as PNG and SVG files.

``sources`` reads result files, ``contents`` decides what there is to show, from ``tables``, ``figures``, ``training``
and ``examples``, which make plain values (``parts``). ``svg`` and ``plots`` draw the same figures for the page and for
files; ``page`` holds the template, its style and its script, ``html`` fills it.

The page is made with Jinja2, which PyTorch installs anyway: what it prints is escaped unless it is marked as markup,
and only `svg` makes markup, through one function that escapes everything it is given. A page written as strings in
Python would have to remember to escape in every place.
"""

from holdfast.report.run import Written, write_report

__all__ = ["Written", "write_report"]
