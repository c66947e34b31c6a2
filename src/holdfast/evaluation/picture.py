"""The picture of clean and adversarial texts, as in ADCL's Figure 3."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import UserError
from holdfast.evaluation.projection import Plane
from holdfast.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".svg")

# Okabe and Ito's palette for any colour vision, without its yellow, which is too pale on white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_LINE = "#555555"
_DOTS = (0, (1.5, 1.5))
_SHAPES = {"clean": "o", "adversarial": "^"}
_MANY = 50  # with more pairs than this, points are smaller and lines thinner


def check_picture(path: Path) -> None:
    """Refuse, before the work starts, a picture that cannot be written.

    Raises:
        UserError: matplotlib is not installed, or the file's name ends in neither ``.png`` nor ``.svg``.
    """
    import importlib.util

    if path.suffix.lower() not in FORMATS:
        raise UserError(f"--plot {path}: a picture's name ends in {' or '.join(FORMATS)}")
    if path.is_dir():
        raise UserError(f"{path} is a folder; --plot takes a file")
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError("--plot needs matplotlib: pip install 'holdfast[report]'")


def draw_plane(path: Path, plane: Plane, metrics: Mapping[str, float], *, model: str) -> None:
    """Write the picture: a circle for a clean text, a triangle for its adversarial text, and a line between them.

    If the texts are of two to seven classes, each class has a colour; else clean texts have one colour and adversarial
    texts another. The same plane gives the same file.

    Args:
        path: ``.png`` or ``.svg``.
        plane: the points.
        metrics: ``d_pos``, ``d_neg`` and ``delta`` of all pairs, for the line under the title.
        model: the model's name, for the title.

    Raises:
        UserError: as for `check_picture`, or the file cannot be written.
    """
    check_picture(path)
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    # pyplot is not used: it keeps figures and needs a display. Text stays text in an SVG, and its ids are fixed.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "holdfast"}):
        layout = ConstrainedLayoutEngine(h_pad=0.12)
        figure = Figure(figsize=(8.0, 7.4), layout=layout, facecolor="white")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        _points(axes, plane)
        _words(axes, plane, metrics, model)
        kind = path.suffix.lower().removeprefix(".")
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
        with atomic_path(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=160, metadata=metadata)


def _points(axes: Axes, plane: Plane) -> None:
    """Draw lines, then points above them; triangles are smaller and on top, so both points of a pair are visible."""
    many = len(plane.pairs) > _MANY
    sizes = {"clean": 20.0, "adversarial": 8.0} if many else {"clean": 50.0, "adversarial": 22.0}
    for group, (rows, colours) in _groups(plane).items():
        line = _LINE if len(set(colours.values())) > 1 else colours["clean"]
        for row in rows:
            (x1, y1), (x2, y2) = plane.clean[row], plane.adversarial[row]
            width = 0.6 if many else 1.0
            axes.plot([x1, x2], [y1, y2], color=line, linewidth=width, linestyle=_DOTS, alpha=0.6, zorder=1)
        for kind, at in (("clean", plane.clean), ("adversarial", plane.adversarial)):
            axes.scatter(
                at[rows, 0],
                at[rows, 1],
                s=sizes[kind],
                marker=_SHAPES[kind],
                facecolor="white" if kind == "clean" else colours[kind],
                edgecolor=colours[kind],
                linewidth=0.8 if many else 1.3,
                label=f"{kind}{group}",
                zorder=2 if kind == "clean" else 3,
            )


def _groups(plane: Plane) -> dict[str, tuple[list[int], dict[str, str]]]:
    """Return, by the suffix of the legend's "clean" and "adversarial", a group's rows and the colour of each kind."""
    labels = plane.pairs.labels
    classes = sorted({label for label in labels if type(label) is int})
    if not all(type(label) is int for label in labels) or not 2 <= len(classes) <= len(_COLOURS):
        return {"": (list(range(len(labels))), {"clean": _COLOURS[0], "adversarial": _COLOURS[1]})}
    return {
        f", class {label}": (
            [row for row, own in enumerate(labels) if own == label],
            dict.fromkeys(_SHAPES, _COLOURS[number]),
        )
        for number, label in enumerate(classes)
    }


def _words(axes: Axes, plane: Plane, metrics: Mapping[str, float], model: str) -> None:
    shown = model if len(model) <= 60 else f"…{model[-59:]}"
    numbers = "$d_{{pos}}$ {d_pos:.3g}   $d_{{neg}}$ {d_neg:.3g}   $\\delta$ {delta:.3g}".format(**metrics)
    # A dollar sign in a name would start a formula.
    axes.set_title(
        f"Texts before and after {plane.pairs.name}, as {shown} sees them".replace("$", r"\$"), fontsize=11, pad=24
    )
    axes.text(
        0.5,
        1.015,
        f"{len(plane.pairs):,} pairs, t-SNE, perplexity {plane.perplexity:.3g}     {numbers}",
        transform=axes.transAxes,
        ha="center",
        fontsize=9,
        color="#333333",
    )
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xticks=[], yticks=[], aspect="equal")
    for spine in axes.spines.values():
        spine.set_color("#999999")
    axes.figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9
    )
