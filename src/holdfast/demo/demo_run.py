"""The demo, offline: the card of an encoder, its hardening, the card again, and mistyped questions before and after.

What is measured is shown whether it is good or bad, and each row says whether it improved, and if not, why not. The
hardening is an ordinary run in the demo's folder, and a demo that was stopped can be resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from holdfast.audit.card import column_of
from holdfast.audit.item_names import item_name
from holdfast.data.python_prose import load_python_prose
from holdfast.demo.before_and_after import (
    KEPT,
    NEW_ENTRIES,
    ORIGINAL,
    TRAINED,
    card_row,
    meaning_row,
    retrieval_row,
)
from holdfast.demo.demo_clock import DemoClock
from holdfast.demo.demo_folder import REPORT_FILE, RESULT_FILE, lines_of, prepare, refuse_finished
from holdfast.demo.demo_settings import CORPUS_FILE, HARDENED, QUESTIONS_FILE, TEXTS_FILE, DemoSettings
from holdfast.demo.demo_texts import audited_texts, load_changed_meanings, load_town, training_corpus
from holdfast.demo.retrieval_probe import CLEAN, Found, RetrievalProbe
from holdfast.encoding import encode_sentences, normalised
from holdfast.errors import UserError
from holdfast.files import exclusive
from holdfast.model_lookup import model_identity, resolve_model
from holdfast.models import load_sentence_transformer
from holdfast.results import new_result, read_result, write_result
from holdfast.runs.run_folder import alone

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from sentence_transformers import SentenceTransformer

Nearer = npt.NDArray[np.bool_]
_TRAIN_RESULT = "results.json"


@exclusive(lambda settings: alone(settings.output))
def run_demo(settings: DemoSettings, console: Console | None = None) -> dict[str, Any]:
    """Run the demo and return its result, also written to ``OUTPUT/demo.json`` with a report in ``OUTPUT/report.html``.

    Returns:
        A result of kind "demo". ``retrieval`` has rows ``{queries, n, before, after, difference, low, high, remark}``
        in recall@1, %; ``card`` rows of both sides of the report card, ``{side, item, metric, n, before, after,
        remark}``; ``examples`` the texts that broke and hold now; ``audits`` the verdicts of both audits; ``timing``
        the seconds of each stage.

    Raises:
        UserError: the model is not available or is no encoder, the folder holds something else or a finished demo, or
            this Python has too little prose.
    """
    from rich.console import Console

    console = console or Console(quiet=True)
    clock = DemoClock(console)
    refuse_finished(settings.output)
    base = _encoder_folder(settings.start)
    prose = list(settings.prose) if settings.prose is not None else load_python_prose()
    corpus = training_corpus(prose, settings.seed)
    town = load_town()
    files = {CORPUS_FILE: corpus, QUESTIONS_FILE: town.training, TEXTS_FILE: audited_texts()}
    lines = {name: lines_of(texts) for name, texts in files.items()}
    prepare(settings.output, settings.record, model_identity(base)["model_sha256"], lines)
    probe = RetrievalProbe.make(town, settings.seed)
    with clock.stage("retrieval_before", f"asking {settings.start} {len(probe.gold)} questions, clean and mistyped"):
        original = load_sentence_transformer(settings.start)
        index = probe.index(original)
        found, nearer = [probe.find(original, index)], [other_wording_nearer(original)]
    console.print(_recalls(probe, found[0]), highlight=False, markup=False)
    message = f"hardening: {settings.steps} steps of {settings.batch_size} of {len(corpus):,} texts, and the card"
    with clock.stage("harden", message):
        hardened = harden_encoder(settings, console)
    with clock.stage("retrieval_after", "asking the hardened encoder"):
        model = load_sentence_transformer(str(settings.file(HARDENED)))
        found.append(probe.find(model, index))  # in the index of the original
        nearer.append(other_wording_nearer(model))
    result = _result(settings, base, len(corpus), probe, (found[0], found[1]), (nearer[0], nearer[1]), hardened)
    result["timing"] = clock.record() | hardened["timing"]
    write_result(settings.file(RESULT_FILE), result)
    with clock.stage("report", "writing the report"):
        write_demo_report(settings)
    return result


def harden_encoder(settings: DemoSettings, console: Console) -> dict[str, Any]:
    """Harden the encoder in the folder of the demo, or take the finished hardening of a stopped demo."""
    from holdfast.hardening import HardenSettings, harden

    chosen = HardenSettings(
        model=settings.start,
        corpus=str(settings.file(CORPUS_FILE)),
        queries=str(settings.file(QUESTIONS_FILE)),
        output=settings.file(HARDENED),
        noise="typing",  # the noise that is measured here, and one that needs no further library
        synonyms="none",
        data=settings.output,  # not the user's data sets, so that the measurements do not depend on them
        max_steps=settings.steps,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        seed=settings.seed,
        texts=str(settings.file(TEXTS_FILE)),
        examples=settings.audited,
    )
    return harden(chosen, resume=True, console=console, command=_command(settings))


def other_wording_nearer(model: SentenceTransformer) -> Nearer:
    """Return, for each text with a changed meaning, whether another wording is nearer than the other meaning: (n,)."""
    texts = load_changed_meanings()
    columns = [encode_sentences(model, [getattr(each, name) for each in texts]) for name in ("text", "same", "other")]
    clean, same, other = map(normalised, columns)
    nearer: Nearer = (clean * same).sum(axis=1) > (clean * other).sum(axis=1)
    return nearer


def write_demo_report(settings: DemoSettings) -> None:
    """Write the report. It is written last, so its presence shows that the demo is finished."""
    from holdfast.report import write_report

    results = [settings.file(RESULT_FILE), settings.file(HARDENED) / _TRAIN_RESULT]
    write_report([str(path) for path in results], settings.file(REPORT_FILE), title="The holdfast demo")


def _encoder_folder(spec: str) -> Path:
    folder = resolve_model(spec)
    if not (folder / "modules.json").is_file():
        raise UserError(
            f"{spec} is a masked language model, not an encoder in use: name an encoder with --model, or see how the "
            f"methods make one of it: holdfast demo --methods --model {spec}"
        )
    return folder


def _command(settings: DemoSettings) -> list[str]:
    return ["holdfast", "demo", "--model", settings.start, "--output", str(settings.output)]


def _recalls(probe: RetrievalProbe, found: Found) -> str:
    values = [f"{name} {100 * probe.recall(found, name).mean():.1f} %" for name in probe.asked]
    return f"passages at the first place: {', '.join(values)}"


# --- the result --------------------------------------------------------------------------------------------------


def _result(
    settings: DemoSettings,
    base: Path,
    sentences: int,
    probe: RetrievalProbe,
    found: tuple[Found, Found],
    nearer: tuple[Nearer, Nearer],
    hardened: Mapping[str, Any],
) -> dict[str, Any]:
    """Build one result of all measurements of the demo; the hardening and its audits have their own files."""
    retrieval = [
        retrieval_row(
            name,
            (probe.recall(found[0], name), probe.recall(found[1], name)),
            clean=name == CLEAN,
            copies=len(copies),
            seed=settings.seed,
        )
        for name, copies in probe.asked.items()
    ]
    audits = [read_result(settings.file(HARDENED) / name) for name in hardened["protocol"]["audits"]]
    card = _card(hardened, audits[0], nearer, settings.seed)
    kept = kept_weights(settings, hardened)
    if kept == ORIGINAL:
        for row in (*retrieval, *card):
            row["remark"] = KEPT
    examples, counts = probe.examples(*found)
    result = new_result(
        "demo",
        command=_command(settings),
        model=settings.start,
        path=base,
        protocol={
            "steps": settings.steps,
            "batch_size": settings.batch_size,
            "corpus": {"source": "the demo's own texts and prose of this Python installation", "sentences": sentences},
            "texts": "written by holdfast's authors; not a benchmark",
            "index": "the passages' vectors of the original encoder, before and after",
        },
        seed=settings.seed,
        results=[_numbers("demo-retrieval", row["queries"], row) for row in retrieval]
        + [_numbers("demo-card", row["item"], row) for row in card],
    )
    result |= {"output": str(settings.output), "report": str(settings.file(REPORT_FILE))}
    result |= {"hardened": str(settings.file(HARDENED)), "kept": kept}
    result |= {"retrieval": retrieval, "card": card, "examples": examples, "copies": counts}
    result["audits"] = {
        name: [row["verdict"] for row in audit["results"]]
        for name, audit in zip(("before", "after"), audits, strict=True)
    }
    return result


def _card(
    hardened: Mapping[str, Any], audit: Mapping[str, Any], nearer: tuple[Nearer, Nearer], seed: int
) -> list[dict[str, Any]]:
    """Return the rows of both sides: the items of the audit, and the texts with a changed meaning."""
    sides = {(row["task"], row["split"]): column_of(row) for row in audit["results"]}
    rows = [
        card_row(row, sides[row["task"], row["split"]], item_name(row))
        for row in hardened["results"]
        if (row["task"], row["split"]) in sides and row["task"] != "audit-vectors"
    ]
    kinds = np.array([each.kind for each in load_changed_meanings()])
    for kind in ("meaning", *dict.fromkeys(kinds.tolist())):
        own = np.ones(len(kinds), bool) if kind == "meaning" else kinds == kind
        rows.append(meaning_row(f"written {kind}", (nearer[0][own], nearer[1][own]), seed=seed))
    return rows


def _numbers(task: str, split: str, row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("before", "after", "difference", "low", "high")
    return {"task": task, "split": split, "n": row["n"], "metrics": {name: row[name] for name in names if name in row}}


def kept_weights(settings: DemoSettings, hardened: Mapping[str, Any]) -> str:
    """Return what was kept: trained weights, or the original ones with new entries of the vocabulary or without."""
    selected = hardened.get("selected") or read_result(settings.file(HARDENED) / _TRAIN_RESULT).get("selected")
    if not isinstance(selected, Mapping) or selected.get("step") != 0:
        return TRAINED
    return NEW_ENTRIES if "recovered" in selected else ORIGINAL
