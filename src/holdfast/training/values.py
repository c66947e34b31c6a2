"""From what a person wrote to the type that an option takes, or the line that says what it takes."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from holdfast.errors import UserError, one_of


def fitted(where: str, value: Any, hint: Any) -> Any:
    """``value`` as the type ``hint`` says.

    Args:
        where: the name of the option, and the place where it stands: what the line begins with.
        value: a value as YAML reads it or as the command line parsed it.
        hint: bool, int, float, str, Path, None, a Literal of words, a tuple of names, a mapping, or a union of these.

    Raises:
        UserError: it does not fit; the line says what would.
    """
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for kind in kinds:
        if get_origin(kind) is Literal:
            return one_of(where, str(value), get_args(kind))
        fits, converted = _as_kind(value, kind)
        if fits:
            return converted
    wanted = " or ".join(_DESCRIPTIONS[get_origin(kind) or kind] for kind in kinds)
    raise UserError(f"{where} takes {wanted}, not {value!r}")


_DESCRIPTIONS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    tuple: "a list of names",
    Mapping: "a mapping of options",
    type(None): "null",
}
# typing's Mapping[str, Any] has the class of collections.abc as its origin; both are the same object here.


def _as_kind(value: Any, kind: Any) -> tuple[bool, Any]:
    if kind is Path:
        return isinstance(value, (str, Path)), Path(value).expanduser() if isinstance(value, (str, Path)) else None
    if kind is float:
        if isinstance(value, str):  # YAML 1.1 reads 3e-5, without a point, as text
            with contextlib.suppress(ValueError):
                return True, float(value)
            return False, value
        return type(value) in (int, float), float(value) if type(value) in (int, float) else None
    if get_origin(kind) is tuple:
        names = value.split(",") if isinstance(value, str) else value
        fits = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
        return fits, tuple(name.strip() for name in names if name.strip()) if fits else None
    if get_origin(kind) is Mapping:
        return isinstance(value, dict), value
    return type(value) is kind, value
