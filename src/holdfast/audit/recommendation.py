"""The next step after an audit: the command that hardens the model against what was found, as `harden` accepts it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.audit.audited_texts import DEFAULT_SOURCES
from holdfast.audit.card import column_of
from holdfast.audit.item_names import item_name
from holdfast.baselines.registry import POOLED
from holdfast.edits.edit import ENGLISH
from holdfast.edits.noise import NOISE, needs_english
from holdfast.forms import plain_rows
from holdfast.model_lookup import is_function

METHOD = "anchored"
"""The method of `holdfast harden`."""
EDITS = ("typing", "speech")
"""The noise on which `holdfast harden` trains unless it is told otherwise; speech if the texts are English."""
_CORPUS = "your-texts.txt"
_FOUND_BY = {"noise": "typos", "neighbours": "adversarial-typos", "advsts-typos": "adversarial-typos"}
"""Items with the same changes as another one."""
_BY_DEFAULT = ("typos", "adversarial-typos", "synonyms", "adversarial-synonyms", "advsts")
"""Items whose changes a hardening learns without further options."""
_NORMALISED = ("zero-width", "confusables", "bidi")
"""Items whose changes a tokeniser that reads a text as a person does undoes (docs/normalise.md)."""
_BEFORE_ENCODING = "bidi.reversed"
"""The item whose change no tokeniser undoes: the order of the letters."""


def advice(result: Mapping[str, Any]) -> list[str]:
    """Return lines on the next step after an audit: a command, and what it does not mend.

    Args:
        result: a result of the kind "audit".
    """
    rows = plain_rows(result["results"])
    if all(row["task"] == "audit-vectors" or row["verdict"] == "absent" for row in rows):
        return ["no item could be measured, for the reasons above: nothing is known of the model"]
    weak = [row for row in rows if row["verdict"] in ("bends", "breaks")]
    few = [item_name(row) for row in rows if row["verdict"] == "too few"]
    lines = []
    if few:
        lines.append(f"too few texts for a verdict on {', '.join(few)}: {_more_texts(rows)}")
    if not weak:
        least = "every measured item holds" if not few else "nothing else bends or breaks"
        return [*lines, f"{least}{_next_audit(result['protocol'])}"]
    if is_function(result["model"]):
        lines.append(
            "a function cannot be hardened: harden the model behind it with `holdfast harden MODEL`, and audit it again"
        )
        return lines
    learned, left = _learned(weak)
    moved = [item_name(row) for row in weak if column_of(row) == "move"]
    if learned:
        lines.append(f"to harden it: {shlex.join(harden_command(result, learned))}")
    normalised = [name for name in left if name in _NORMALISED]
    if normalised:
        lines.append(f"against {', '.join(normalised)}: {_normalising(result)}")
    if _BEFORE_ENCODING in left:
        lines.append(
            f"against {_BEFORE_ENCODING}: normalise texts before encoding (holdfast.edits.normalising.normalise)"
        )
    if others := [name for name in dict.fromkeys(left) if name not in (*_NORMALISED, _BEFORE_ENCODING)]:
        lines.append(f"hardening does not mend {', '.join(others)}")
    if moved:
        lines.append(f"hardening does not make these move: {', '.join(moved)}")
    return lines


def _next_audit(protocol: Mapping[str, Any]) -> str:
    """Return what an audit that found nothing is followed by: more time, own texts, or nothing."""
    if protocol.get("left_out"):
        return "; some was left out for time: raise --max-seconds"
    if protocol.get("texts", {}).get("source", DEFAULT_SOURCES[0]) in DEFAULT_SOURCES:
        return "; next, audit the model on your own texts: --texts FILE"
    return ""


def _normalising(result: Mapping[str, Any]) -> str:
    """Return the command that normalises texts before an audited model, if it takes the pooling of the audit."""
    pooling = result["protocol"].get("pooling")
    if pooling is not None and pooling not in POOLED:
        return f"`holdfast baseline normalised` takes no --pooling {pooling}: save the model with it first"
    pooled = [] if pooling is None else ["--pooling", pooling]
    words = ["holdfast", "baseline", "normalised", "--model", str(result["model"]), *pooled, "--output", "normalised"]
    return shlex.join(words)


def harden_command(result: Mapping[str, Any], learned: Iterable[str]) -> list[str]:
    """Return the words of the command that hardens an audited model.

    Args:
        result: the result of its audit, whose pooling, prompts and masked language model the command keeps.
        learned: names of items that bend or break; noise that a hardening does not know by default is added to its
            edits.
    """
    protocol = result["protocol"]
    words = ["holdfast", "harden", str(result["model"]), "--corpus", _CORPUS, "--output", "hardened"]
    if protocol.get("pooling") is not None:
        words += ["--pooling", str(protocol["pooling"])]
    for name, value in protocol.get("prompt_options", {}).items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    added = [name for name in dict.fromkeys(learned) if name in NOISE and name != "typos" and name not in EDITS]
    if added:
        english = protocol.get("language", {}).get("code", ENGLISH) == ENGLISH
        own = [kind for kind in EDITS if english or not needs_english(kind)]
        words += ["--set", f"edits={','.join([*added, *own])}"]
    return words


def _learned(weak: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the weak items on the side "hold" that a hardening learns, by the change, and the others."""
    learned: list[str] = []
    left: list[str] = []
    for row in weak:
        if column_of(row) == "move":
            continue
        item = item_name(row)
        name = item.removeprefix("retrieval.")
        name = _FOUND_BY.get(name, name)
        if name in NOISE or name in _BY_DEFAULT:
            learned.append(name)
        else:
            left.append(name if name in (*_NORMALISED, _BEFORE_ENCODING) else item)
    return learned, left


def _more_texts(rows: Sequence[Mapping[str, Any]]) -> str:
    few = [row for row in rows if row["verdict"] == "too few"]
    options = ["--examples"] if any(row.get("group") == "adversarial" for row in few) else []
    options += ["--texts-per-item"] if any(row.get("group") != "adversarial" for row in few) else []
    return f"audit with more of them ({', '.join(options)}, --texts)"
