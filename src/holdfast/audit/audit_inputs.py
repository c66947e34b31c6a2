"""The inputs of an audit: its checked settings, texts, resources, and the encoder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.audit.audit_context import Linguistics
from holdfast.audit.audit_settings import AuditSettings
from holdfast.audit.audited_texts import POOL, Texts, choose_texts
from holdfast.audit.item_selection import ItemSelection
from holdfast.backends.backend_options import refuse_precision
from holdfast.edits.misspellings import read_misspellings
from holdfast.edits.text_language import check_language
from holdfast.endpoint import load_vector_function, refuse_call_options, refuse_model_options
from holdfast.evaluation.retrieval import TASK as RETRIEVAL
from holdfast.evaluation.retrieval import load_retrieval
from holdfast.evaluation.retrieval_table import version_name
from holdfast.forms import parse_forms
from holdfast.model_lookup import is_function, model_identity, resolve_model
from holdfast.models import backend_in, load_sentence_transformer
from holdfast.number_ranges import check_numbers

if TYPE_CHECKING:
    from holdfast.user_functions import SentenceEncoder


def load_encoder(settings: AuditSettings, folder: Path | None) -> tuple[SentenceEncoder, dict[str, Any]]:
    """Load the encoder; return it and its hashes."""
    if folder is None:
        return load_vector_function(settings)
    model = load_sentence_transformer(
        settings.model,
        pooling=settings.pooling,
        device=settings.device,
        prompts=settings,
        backend=settings.chosen_backend,
    )
    return model, model_identity(folder)


def prepare_inputs(settings: AuditSettings) -> tuple[Path | None, Linguistics, Texts]:
    """Return the model's folder (None for a function), the resources and the texts of an audit.

    Raises:
        UserError: invalid settings, a missing named resource, or texts that cannot be read: all errors that can be
            found without the model, so before `holdfast harden` trains one.
    """
    _check(settings)
    folder = None if is_function(settings.model) else resolve_model(settings.model)
    return folder, Linguistics(settings, folder), texts_of(settings)


def texts_of(settings: AuditSettings) -> Texts:
    """Load the texts of an audit."""
    return choose_texts(
        settings.texts,
        data=settings.data,
        count=max(POOL, settings.examples or 0, settings.texts_per_item or 0),
        max_words=settings.max_words,
        seed=settings.seed,
    )


def matches(result: Mapping[str, Any], settings: AuditSettings) -> bool:
    """Return True if an audit result matches these settings; of the resources, only a named masked LM is compared."""
    protocol = result["protocol"]
    return (
        result["model_sha256"] == model_identity(resolve_model(settings.model))["model_sha256"]
        and result["seed"] == settings.seed
        and protocol.get("prompt_options", {}) == settings.prompt_settings
        and backend_in(protocol) == str(settings.chosen_backend)
        and all(protocol[name] == getattr(settings, name) for name in _MATCHED)
        and protocol.get("items") == selection_of(settings).record()
        and protocol.get("misspellings") == _misspellings_record(settings)
        and protocol.get("forms", []) == [str(form) for form in parse_forms(settings.forms)]
        and (settings.language is None or settings.language.lower() == protocol["language"]["code"])
        and settings.masked_lm in (None, protocol["resources"]["masked_lm"])
        and protocol["texts"]["sha256"] == texts_of(settings).sha256
    )


def _misspellings_record(settings: AuditSettings) -> dict[str, Any] | None:
    return read_misspellings(settings.misspellings).record() if settings.misspellings is not None else None


_MATCHED = ("examples", "texts_per_item", "max_seconds", "max_words", "pooling")


def _check(settings: AuditSettings) -> None:
    check_numbers(settings)
    parse_forms(settings.forms)
    if settings.language is not None:
        check_language(settings.language)
    if settings.retrieval is not None and settings.items is None:
        load_retrieval(RETRIEVAL, data=settings.retrieval)
    selection_of(settings)
    refuse_call_options(settings)
    if is_function(settings.model):
        refuse_model_options(settings)
    refuse_precision(settings.chosen_backend, settings.precision)


def selection_of(settings: AuditSettings) -> ItemSelection:
    """Return the items that are measured.

    Raises:
        UserError: there is no such item, or the collection of ``retrieval`` is damaged.
    """
    return ItemSelection.parse(settings.items, [] if settings.items is None else _versions(settings))


def possible_items(settings: AuditSettings) -> list[str]:
    """Return the names of all items that may be measured, also in the forms of the vectors.

    Raises:
        UserError: as `selection_of`, or a form is unknown.
    """
    names = selection_of(settings).possible(_versions(settings))
    return [*names, *(f"{name}.{form}" for name in names for form in parse_forms(settings.forms))]


def _versions(settings: AuditSettings) -> list[str]:
    """Return the names of the versions of the queries of ``retrieval``, if there is one."""
    if settings.retrieval is None:
        return []
    return [version_name(own.name) for own in load_retrieval(RETRIEVAL, data=settings.retrieval).queries]
