"""The terms of a model in the cards of what is made from it: licence, language, and the model's name on the hub."""

from __future__ import annotations

import re
from typing import Any

import yaml

from holdfast.errors import UserError
from holdfast.files import expanded
from holdfast.model_lookup import resolve_model

_KEPT = ("license", "license_name", "license_link", "language")
_MOST_CHARS = 100_000
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def terms_of(base: str | None) -> dict[str, Any]:
    """Return the entries of a card's front matter that a model passes on; empty if its folder has no card.

    They are the licence and the language of its ``README.md``, and ``base_model``, if it is one of the hub.

    Args:
        base: the model's name, as for `resolve_model`; None: there is none.
    """
    if base is None:
        return {}
    is_of_hub = _HUB_NAME.fullmatch(base) is not None and not expanded(base).exists()
    return {**_front_matter(base), **({"base_model": base} if is_of_hub else {})}


def _front_matter(base: str) -> dict[str, Any]:
    """Return the kept entries of a model's card; a model or a card that cannot be read has none."""
    try:
        text = (resolve_model(base) / "README.md").read_text(encoding="utf-8")[:_MOST_CHARS]
        found = re.match(r"---\s*\n(.*?)\n---\s*(?:\n|$)", text, re.DOTALL)
        front = yaml.safe_load(found.group(1)) if found else {}
    except (UserError, OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}  # a training has ended, and its model is written without them
    return {name: front[name] for name in _KEPT if _is_text(front.get(name))} if isinstance(front, dict) else {}


def _is_text(value: Any) -> bool:
    """Return True for a text, or a list of texts (languages)."""
    texts = value if isinstance(value, list) else [value]
    return bool(texts) and all(isinstance(text, str) for text in texts)
