"""Prompts: the text that a model expects before every text, and the two sides of a search, queries and documents.

A SentenceTransformer names its prompts (``model.prompts``) and may name a default. `choose_prompts` stores the user's
choice (`PromptOptions`, `RolePromptOptions`) on the loaded model, beside these, which are exported as they were;
`prompt_of` returns the text that goes before a text, and `preprocess_texts` tokenises as ``model.encode`` does. Prompts
of prompt *pooling*, which are part of a tokeniser, are in `holdfast.prompt`.

This module imports nothing heavy, since settings classes are made from its options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from holdfast.errors import UserError, did_you_mean
from holdfast.settings import Spelling

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from holdfast.user_functions import SentenceEncoder

Role = Literal["query", "document"]
"""The side of a text in a search."""

ROLES: tuple[Role, ...] = ("query", "document")

_NAMES: dict[Role, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""The names that sentence-transformers looks for in ``encode_query`` and ``encode_document``, in this order."""

_STORED, _SPEC = "_holdfast_prompts", "_holdfast_prompts_of"
"""Attributes of a model: the choice, and the name of the model in messages."""

_SHOWN = 100  # characters of each prompt in a message


@dataclass(frozen=True, kw_only=True)
class PromptOptions:
    """The options that choose the prompt of a model, shared by the settings of several verbs.

    Attributes:
        prompt: Put this text before every text; None: the model's default prompt.
        prompt_name: Put the model's prompt of this name before every text.
        no_prompt: Put no prompt before the texts, even if the model has a default.
    """

    EXCLUSIVE: ClassVar[tuple[tuple[str, ...], ...]] = (("prompt", "prompt_name", "no_prompt"),)

    prompt: Annotated[str | None, Spelling(metavar="TEXT")] = None
    prompt_name: Annotated[str | None, Spelling(metavar="NAME")] = None
    no_prompt: bool = False

    @property
    def prompt_settings(self) -> dict[str, str | bool]:
        """The options on prompts that were given, by name."""
        names = [each.name for each in fields(self) if each.name.endswith(("prompt", "prompt_name"))]
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None and value is not False}


@dataclass(frozen=True, kw_only=True)
class RolePromptOptions(PromptOptions):
    """The options on prompts of verbs that tell queries from documents.

    Attributes:
        query_prompt: Put this text before every query; None: --prompt, else the model's prompt named query.
        query_prompt_name: Put the model's prompt of this name before every query.
        document_prompt: Put this text before every document; None: --prompt, else the model's prompt named document,
            passage or corpus.
        document_prompt_name: Put the model's prompt of this name before every document.
    """

    EXCLUSIVE: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("query_prompt", "query_prompt_name"),
        ("document_prompt", "document_prompt_name"),
    )

    query_prompt: Annotated[str | None, Spelling(metavar="TEXT")] = None
    query_prompt_name: Annotated[str | None, Spelling(metavar="NAME")] = None
    document_prompt: Annotated[str | None, Spelling(metavar="TEXT")] = None
    document_prompt_name: Annotated[str | None, Spelling(metavar="NAME")] = None

    def without_sides(self) -> dict[str, Any]:
        """Return the fields of `PromptOptions` with the choice for texts without a side, which may be the query's."""
        given = self.prompt_settings
        plain = {each.name: given[each.name] for each in fields(PromptOptions) if each.name in given}
        of_query = {name.removeprefix("query_"): given[name] for name in given if name.startswith("query_")}
        return plain or of_query

    def as_options(self) -> dict[str, Any]:
        """Return the fields of this class, for other settings with the same options."""
        return {each.name: getattr(self, each.name) for each in fields(RolePromptOptions)}


@dataclass(frozen=True)
class ChosenPrompts:
    """The prompts that a user chose, as texts; "" is no prompt, and None no choice.

    Attributes:
        plain: prompt of a text without a side.
        query: prompt of a query.
        document: prompt of a document.
        named_sides: the user chose a prompt for one of the sides alone.
    """

    plain: str | None = None
    query: str | None = None
    document: str | None = None
    named_sides: bool = False

    def of_side(self, side: str | None) -> str | None:
        """Return the chosen prompt of a query, of a document, or (None) of a text without a side; None: no choice."""
        return {"query": self.query, "document": self.document}.get(side or "", self.plain)

    def given(self) -> dict[str, str]:
        """Return the chosen prompts by name: one ``prompt``, or those of both sides where they differ from it."""
        sides = {"prompt": self.plain, "query_prompt": self.query, "document_prompt": self.document}
        named = {name: text for name, text in sides.items() if name == "prompt" or text != self.plain}
        return {name: text for name, text in named.items() if text is not None}


def chosen_prompts(model: SentenceEncoder) -> ChosenPrompts:
    """Return the user's choice that `choose_prompts` stored on a model; without one, nothing is chosen."""
    chosen: ChosenPrompts = getattr(model, _STORED, ChosenPrompts())
    return chosen


def choose_prompts(
    model: SentenceTransformer,
    options: PromptOptions,
    *,
    spec: str = "the model",
    sides_only: bool = False,
    required: bool = True,
) -> None:
    """Resolve the user's choice for a loaded model, and store it on the model.

    The model's own ``prompts`` and ``default_prompt_name`` are not changed. A prompt for one side alone is also that of
    texts without a side if it is the query's and there is no ``--prompt``.

    Args:
        model: any SentenceTransformer.
        options: the user's options.
        spec: the model's name, for messages.
        sides_only: every text will be a query or a document: prompts of these names are a choice, too.
        required: refuse a model with prompts and no default of which none was chosen.

    Raises:
        UserError: two options exclude each other, the model has no prompt of a name, or it has prompts, no default, and
            none was chosen.
    """
    given = options.prompt_settings
    for group in (*PromptOptions.EXCLUSIVE, *RolePromptOptions.EXCLUSIVE):
        if len(both := [name for name in group if name in given]) > 1:
            raise UserError(f"{_flag(both[0])} and {_flag(both[1])} exclude each other: give one of them")
    plain = "" if options.no_prompt else _resolved(model, given, "prompt", spec)
    query, document = (_resolved(model, given, f"{role}_prompt", spec) for role in ROLES)
    named_sides = query is not None or document is not None
    chosen = ChosenPrompts(
        query if plain is None else plain,
        plain if query is None else query,
        plain if document is None else document,
        named_sides,
    )
    setattr(model, _STORED, chosen)
    setattr(model, _SPEC, spec)
    if not required or (sides_only and (tells_sides(model) or not _texts_of(model))):
        return
    prompt_of(model)


def refuse_prompts(options: PromptOptions, spec: str) -> None:
    """Refuse options on prompts for a function: it gets the texts as they are.

    Raises:
        UserError: there is such an option.
    """
    for name in options.prompt_settings:
        raise UserError(
            f"{_flag(name)} is for a model, and {spec} is a function: let the function put its prompt first"
        )


def prompt_of(model: SentenceTransformer, role: Role | None = None) -> str | None:
    """Return the text before every text of a model, or of one side, by the stored choice; None if there is none.

    Without a choice for a side it is the one that ``model.encode_query`` or ``model.encode_document`` uses; but the
    empty "document" that sentence-transformers gives every model does not hide a "passage" or "corpus".

    Raises:
        UserError: the model has prompts, no default, and none was chosen.
    """
    chosen = chosen_prompts(model)
    own = chosen.plain if role is None else getattr(chosen, role)
    if own is not None:
        return own or None
    if role is not None:
        # An empty prompt that stands before one with a text, such as "document" before "passage", is none.
        found = [model.prompts[name] for name in _NAMES[role] if model.prompts.get(name) is not None]
        if found:
            return next(filter(None, found), None)
    if model.default_prompt_name is not None:
        return model.prompts.get(model.default_prompt_name) or None
    if prompts := _texts_of(model):
        listed = ", ".join(f"{name} {_short(text)!r}" for name, text in prompts.items())
        raise UserError(
            f"{getattr(model, _SPEC, 'the model')} has prompts and no default: {listed}; choose one with --prompt-name "
            "NAME, --prompt TEXT or --no-prompt"
        )
    return None


def tells_sides(model: SentenceTransformer) -> bool:
    """Return True if queries and documents are encoded differently: by prompts of the sides, or by a Router's routes.

    An empty prompt, which sentence-transformers gives every model for both sides, is none.
    """
    chosen = chosen_prompts(model)
    if chosen.named_sides or any(has_route(model, role) for role in ROLES):
        return True
    if chosen.plain is not None:
        return False
    return any(model.prompts.get(name) for names in _NAMES.values() for name in names)


def side_of(model: SentenceEncoder, role: Role, *, named: bool = False) -> Role | None:
    """Return the role if the model tells sides apart, else None: then all its texts are encoded alike.

    With ``named``, the role counts only if the user chose a prompt for one of the sides, for tasks such as the
    similarity of two texts, in which neither is a query unless the user says so.
    """
    if getattr(model, "prompts", None) is None:  # a function
        return None
    if named:
        return role if chosen_prompts(model).named_sides else None
    return role if tells_sides(model) else None  # type: ignore[arg-type]


def preprocess_texts(model: SentenceTransformer, texts: Sequence[str], role: Role | None = None) -> dict[str, Any]:
    """Tokenise texts as ``model.encode`` does, or ``encode_query`` and ``encode_document``, with the chosen prompt."""
    return model.preprocess(list(texts), prompt=prompt_of(model, role), **task_of(model, role))


def prompts_with_default(model: SentenceTransformer) -> tuple[dict[str, str], str | None]:
    """Return prompts and a default name with which ``model.encode`` alone puts the chosen prompt before a text.

    They are the model's own where its default is the chosen one; else the default is another of its prompts, or one
    named "chosen" is added.
    """
    prompts, default = (
        {name: text for name, text in model.prompts.items() if text is not None},
        model.default_prompt_name,
    )
    text = prompt_of(model) or ""
    if text == prompts.get(default or "", "") and (default is not None or not any(prompts.values())):
        return prompts, default
    name = next((name for name, own in prompts.items() if own == text), "chosen")
    return {**prompts, name: text}, name


def refuse_chat_template(model: SentenceTransformer, what: str) -> None:
    """Refuse a model that puts each text into the chat template of its tokeniser, as its modality "message" does.

    Raises:
        UserError: it does; ``what`` needs the text without the template.
    """
    if any("message" in (getattr(module, "modality_config", None) or {}) for module in model.children()):
        raise UserError(
            f"{what} cannot separate a text from the chat template around it: in the model's sentence_bert_config.json "
            'remove "message" from modality_config, if its texts are to be read without the template'
        )


def task_of(model: SentenceTransformer, role: Role | None) -> dict[str, Role]:
    """Return the keyword with which a model tells its routes the side of a text; empty without a side."""
    return {} if role is None or (_routers(model) and not has_route(model, role)) else {"task": role}


def prompt_protocol(model: Any, *, sides: bool = True) -> dict[str, str | None]:
    """Return the prompts in use, for a result's protocol; empty for a function or a model without any.

    ``prompt`` is that of texts without a side; ``query_prompt`` and ``document_prompt`` are there if the model tells
    sides apart, unless the caller has no ``sides``.
    """
    if getattr(model, "prompts", None) is None:
        return {}
    chosen = chosen_prompts(model)
    if chosen == ChosenPrompts() and not _texts_of(model):
        return {}
    try:
        plain = {"prompt": prompt_of(model)}
    except UserError:  # of a model whose texts are queries and documents only
        plain = {}
    roles = ROLES if sides and tells_sides(model) else ()
    return {**plain, **{f"{role}_prompt": prompt_of(model, role) for role in roles}}


def _resolved(model: SentenceTransformer, given: dict[str, str | bool], option: str, spec: str) -> str | None:
    """Return the text of ``--OPTION TEXT`` or ``--OPTION-name NAME``; None if neither was given."""
    if option in given:
        return str(given[option])
    name = given.get(f"{option}_name")
    if name is None:
        return None
    if name not in model.prompts or model.prompts[str(name)] is None:
        prompts = _texts_of(model)
        has = f"its prompts are {', '.join(prompts)}" if prompts else "it has none"
        hint = did_you_mean(str(name), tuple(prompts))
        raise UserError(f"{_flag(f'{option}_name')}: {spec} has no prompt named {name!r}{hint}: {has}")
    return model.prompts[str(name)]


def _texts_of(model: SentenceTransformer) -> dict[str, str]:
    """Return the prompts of a model that are not empty, by name."""
    return {name: text for name, text in model.prompts.items() if text}


def _routers(model: SentenceTransformer) -> list[Any]:
    from sentence_transformers.base.modules import Router

    return [module for module in model.children() if isinstance(module, Router)]


def has_route(model: SentenceTransformer, role: Role) -> bool:
    """Return True if a Router of the model has a route for one side."""
    return any(routes_side(router, role) for router in _routers(model))


def routes_side(router: Any, role: Role) -> bool:
    """Return True if a ``Router`` has a route for one side."""
    return role in router.sub_modules or any(task == role for task, _ in router.route_mappings)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
