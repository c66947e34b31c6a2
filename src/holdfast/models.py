"""Loading of a model as a SentenceTransformer, in fp32 and without output; `holdfast.model_lookup` resolves names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.adapter_folder import adapter_in
from holdfast.adapters import merge_adapters, refuse_unfilled
from holdfast.errors import UserError, did_you_mean
from holdfast.input_limits import settle_limits
from holdfast.layer_average import average_of_two, averages_last_two
from holdfast.loading import LoadFindings, loading, warn_unused_weights
from holdfast.model_folder import CLASSES_FILE, SENTENCE_TRANSFORMER, is_model2vec, model_kind, model_modules
from holdfast.model_lookup import resolve_model
from holdfast.text_prompts import ROLES, PromptOptions, choose_prompts, routes_side

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

    from holdfast.backends.backend_options import Backend

POOLINGS = ("cls", "mean", "max", "lasttoken", "last-two", "prompt")
_READ_AS = "_holdfast_read_as"
"""The attribute of a loaded model with the notices on how it is read."""
_BACKEND = "_holdfast_backend"
"""The attribute of a loaded model with the record of its backend."""


def load_sentence_transformer(
    spec: str,
    *,
    pooling: str | None = None,
    device: str | None = None,
    prompts: PromptOptions | None = None,
    sides_only: bool = False,
    backend: Backend | None = None,
    scores: bool = False,
) -> SentenceTransformer:
    """Load the model that ``spec`` names, in fp32, without writing anything to the terminal.

    An existing SentenceTransformer keeps its own modules. A raw language model gets a pooling layer on top; the default
    is the [CLS] vector, as in the papers, not the mean as in ``SentenceTransformer(folder)``; without [CLS] the mean,
    and the last token of a causal model, the only one that sees the whole text. With ``"prompt"`` its tokeniser also
    puts each sentence into a template (see :mod:`holdfast.prompt`). The weights of an adapter are merged into those of
    its base model.

    Args:
        spec: as for `resolve_model`.
        pooling: ``"cls"``, ``"mean"``, ``"max"``, ``"lasttoken"``, ``"last-two"`` (the mean over the tokens of the last
            two layers' average) or ``"prompt"``; ``None`` means the default for a raw language model and "its own" for
            a SentenceTransformer. For other kinds, such as CrossEncoder or SparseEncoder, a pooling selects only the
            transformer.
        device: device of the model (``"cpu"``, ``"cuda"``, ...); ``None``: the best available one.
        prompts: the choice of a prompt, stored on the model (`choose_prompts`); ``None``: none is made yet, and a model
            with prompts and no default cannot encode texts.
        sides_only: every text will be a query or a document, so that no prompt or route for other texts is needed.
        backend: the form in which the transformer is run (`holdfast.backends`); all but torch run on the CPU, without
            gradients; ``None``: torch.
        scores: the model may be a classifier on a frozen encoder, whose vectors are the scores of its classes.

    Raises:
        UserError: as in `resolve_model` and, with ``prompts``, in `choose_prompts`; an unknown pooling; a pooling other
            than a SentenceTransformer's own; another kind of model without a pooling; weights that are damaged or do
            not fit the configuration; [CLS] pooling of a causal model; prompt pooling of a model whose tokeniser is
            slow or has no mask token.
    """
    if pooling is not None and pooling not in POOLINGS:
        raise UserError(
            f"unknown pooling {pooling!r}{did_you_mean(pooling, POOLINGS)}: use one of {', '.join(POOLINGS)}"
        )
    folder = resolve_model(spec)
    kind = model_kind(folder)
    if not scores and kind == SENTENCE_TRANSFORMER and (folder / CLASSES_FILE).is_file():
        raise UserError(
            f"{spec} is a classifier on a frozen encoder, and its vectors are the scores of its classes: name the "
            "encoder that it was fitted on"
        )
    _refuse_other_kinds(kind, pooling, spec)
    from sentence_transformers.util import get_device_name  # slow imports: only after the name is checked

    from holdfast.prompt import freeze_pooling, with_prompt
    from holdfast.static_encoder import check_table, load_model2vec

    own_modules = (folder / "modules.json").is_file() and kind == SENTENCE_TRANSFORMER
    with loading(folder, spec) as reading:
        if own_modules:
            model = _load_existing(folder)
        elif is_model2vec(folder):
            own_modules, model = True, load_model2vec(folder)
        else:
            model = _load_raw(model_modules(folder, spec)[0].folder, pooling, spec)
    if (adapter := adapter_in(folder)) is not None:
        refuse_unfilled(model, adapter, spec)
        merge_adapters(model)
    _settle_unfilled_weights(model, reading, spec)
    _refuse_missing_vocabulary(model, spec)
    _notify_alternatives(model, reading, spec, pooling=pooling, own_modules=own_modules, sides_only=sides_only)
    if not own_modules and pooling == "prompt":
        model = with_prompt(model, name=spec)
    freeze_pooling(model)
    settle_limits(model, spec)
    check_table(model, spec)
    if pooling is not None and (own := _own_pooling(model)) != pooling:
        raise UserError(
            f"{spec} is a SentenceTransformer whose pooling is {own or 'none'}: leave pooling out, or give a raw "
            f"masked language model to use {pooling}"
        )
    store_notices(model, reading.notices)
    if prompts is not None:
        choose_prompts(model, prompts, spec=spec, sides_only=sides_only)
    if backend is not None and not backend.is_torch:
        from holdfast.backends.graph_encoder import with_backend

        return with_backend(model, backend, folder, spec)
    # Loaded on the CPU first: the check above reads attributes of the parameters, which a move would lose.
    on_device: SentenceTransformer = model.to(device or get_device_name())
    return on_device


def refuse_routes(model: SentenceTransformer, spec: str) -> None:
    """Raise an error if a model to train routes its texts.

    Raises:
        UserError: it does, so that a training would change one of several encoders that belong together.
    """
    from sentence_transformers.base.modules import Router

    for module in model.modules():
        if isinstance(module, Router):
            raise UserError(
                f"{spec} routes texts to several encoders ({', '.join(module.sub_modules)}), and a training would "
                "change one of them: save the one to train as a SentenceTransformer of its own"
            )


def store_notices(model: Any, lines: list[str]) -> None:
    """Store the notices on how a model is read in the model, for `read_as`."""
    setattr(model, _READ_AS, lines)


def store_backend(model: Any, record: dict[str, Any]) -> None:
    """Store the record of the graph that runs a model in place of torch in the model, for `backend_of`."""
    setattr(model, _BACKEND, record)


def backend_of(model: Any) -> dict[str, Any] | None:
    """Return the record of the graph that runs a model; None: torch does."""
    return getattr(model, _BACKEND, None)


def read_as(model: Any) -> dict[str, Any]:
    """Return how a model was read, for a result's protocol.

    ``{read_as: lines, backend: record}``: the notices (`store_notices`) and the record of its backend; without notices,
    or run by torch, the entry is missing.
    """
    notices, backend = getattr(model, _READ_AS, None), backend_of(model)
    return {**({"read_as": list(notices)} if notices else {}), **({"backend": backend} if backend else {})}


def backend_in(protocol: Mapping[str, Any]) -> str:
    """Return the name of the backend in a result's protocol, as `read_as` wrote it: torch where there is none."""
    return str(protocol.get("backend", {"name": "torch"})["name"])


@contextlib.contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Set evaluation mode inside the block; the mode of every module is restored afterwards, also after an error."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextlib.contextmanager
def own_forward(model: torch.nn.Module) -> Iterator[None]:
    """Use a model's own forward inside the block, so that the caller decides the precision, also during a training.

    For a training in bf16, accelerate replaces the model's forward by one that enables bf16 autocast, even inside a
    region where autocast is disabled, and does not remove it.
    """
    training_forward = vars(model).pop("forward", None) if "_original_forward" in vars(model) else None
    try:
        yield
    finally:
        if training_forward is not None:
            model.forward = training_forward


@contextlib.contextmanager
def saved_plainly(tokenizer: Any) -> Iterator[None]:
    """Reset the truncation and padding of a fast tokeniser inside the block, to save it without them.

    Otherwise the saved file would contain the settings of the last encoded texts; users set them again with each call.
    No effect for other tokenisers.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        yield
        return
    cut, padded = backend.truncation, backend.padding
    backend.no_truncation()
    backend.no_padding()
    try:
        yield
    finally:
        if cut is not None:
            backend.enable_truncation(**cut)
        if padded is not None:
            backend.enable_padding(**padded)


def _load_existing(folder: Path) -> SentenceTransformer:
    import torch
    from sentence_transformers import SentenceTransformer

    # The default of transformers 5 is the type in the file; a half-precision file would give other numbers.
    settings = {"dtype": torch.float32, "use_safetensors": True}
    return SentenceTransformer(str(folder), device="cpu", local_files_only=True, model_kwargs=settings).float()


def _load_raw(folder: Path, pooling: str | None, spec: str) -> SentenceTransformer:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    offline = {"local_files_only": True}
    transformer = Transformer(
        str(folder),
        model_kwargs={"dtype": torch.float32, "use_safetensors": True, **offline},
        processor_kwargs=dict(offline),
        config_kwargs=dict(offline),
    )
    if transformer.modality_config.pop("message", None) is not None:  # texts are read as they are, in no chat template
        transformer.input_formatter.supported_modalities.remove("message")
    pooling = _checked_pooling(transformer, pooling, spec)
    width = transformer.get_embedding_dimension()
    # Names of poolings are those of the sentence-transformers module, except "prompt", which is added later.
    mode = "mean" if pooling in ("prompt", "last-two") else pooling
    average = [average_of_two(transformer, -2, name=spec)] if pooling == "last-two" else []
    return SentenceTransformer(modules=[transformer, *average, Pooling(width, pooling_mode=mode)], device="cpu")


def _checked_pooling(transformer: Any, pooling: str | None, spec: str) -> str:
    """Return the pooling of a raw language model: the one requested, or its default."""
    from holdfast.backbone_parts import is_causal

    tokenizer = transformer.tokenizer
    if tokenizer is None or tokenizer.cls_token_id is not None or pooling not in (None, "cls"):
        return pooling or "cls"
    if not is_causal(transformer, transformer):
        return pooling or "mean"
    if pooling == "cls":
        raise UserError(
            f"{spec} is a causal model, whose first token sees no other: use --pooling lasttoken, or mean or max"
        )
    return "lasttoken"


def _own_pooling(model: SentenceTransformer) -> str | None:
    from sentence_transformers.sentence_transformer.modules import Pooling

    from holdfast.prompt import Prompt

    if Prompt.of(model) is not None:
        return "prompt"
    if averages_last_two(model):
        return "last-two"
    for module in model.children():
        if isinstance(module, Pooling):
            mode = module.pooling_mode
            return mode if isinstance(mode, str) else "+".join(mode)
    return None


def _settle_unfilled_weights(model: SentenceTransformer, reading: LoadFindings, spec: str) -> None:
    """Refuse a model with random parameters, in no weights file; set a missing pooler, which is not used, to zero."""
    for module in _transformers(model):
        backbone = module.model
        # transformers marks the parameters filled from a file; a release that marks none and reports none is accepted.
        filled = {name: getattr(value, "_is_hf_initialized", False) for name, value in backbone.named_parameters()}
        if not any(filled.values()) and not reading.missing:
            continue
        missing = [name for name, done in filled.items() if not done and "pooler." not in name]
        if missing:
            raise UserError(
                f"{spec}: the weights do not match config.json: {len(missing)} of the model's {len(filled)} tensors "
                f"are missing (first: {missing[0]})"
            )
        for name, value in backbone.named_parameters():
            # Unused, but saved with the model: random values would make the files of two equal runs different.
            if not filled[name]:
                value.detach().zero_()


def _refuse_missing_vocabulary(model: SentenceTransformer, spec: str) -> None:
    """Refuse a tokeniser without vocabulary: if files are missing, transformers 5 creates one that gives only [UNK]."""
    for module in _transformers(model):
        tokenizer = module.tokenizer
        if tokenizer is None or set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
            raise UserError(
                f"{spec} has no tokeniser vocabulary: put the model's tokenizer.json (or vocab.txt) beside it"
            )


def _transformers(model: SentenceTransformer) -> list[Any]:
    """Return the `Transformer` modules of a model; several if it routes texts."""
    from sentence_transformers.base.modules import Transformer

    return [module for module in model.modules() if isinstance(module, Transformer)]


def _refuse_other_kinds(kind: str, pooling: str | None, spec: str) -> None:
    """Refuse a model saved as another kind, unless a pooling selects its transformer."""
    if kind == SENTENCE_TRANSFORMER or pooling is not None:
        return
    reason = {
        "CrossEncoder": "it scores pairs of texts and has no sentence vectors",
        "SparseEncoder": "its vectors are sparse ones over a vocabulary",
        "MultiVectorEncoder": "it has a vector for each token and none for the sentence",
    }.get(kind, "holdfast measures sentence encoders")
    raise UserError(f"{spec} is a {kind}: {reason}; name a pooling (cls, mean or max) to read its transformer alone")


def _notify_alternatives(
    model: SentenceTransformer,
    reading: LoadFindings,
    spec: str,
    *,
    pooling: str | None,
    own_modules: bool,
    sides_only: bool,
) -> None:
    """Report how a model is read if there are alternatives; refuse it if none of them is clearly right."""
    from sentence_transformers.base.modules import Router

    # In SimCSE's own checkpoints, a layer on top of the sentence vectors: without it those of supervised models differ.
    head = [name for name in reading.left_out if name.startswith("mlp.")]
    if head and pooling is None and not own_modules:
        raise UserError(
            f"{spec} holds a layer that its vectors pass through ({head[0]}, as in SimCSE's checkpoints), which is not "
            "loaded: name a pooling (cls, mean or max) to leave it out"
        )
    warn_unused_weights(reading, spec)
    for module in model.children():
        if isinstance(module, Router):
            routes, routed = ", ".join(module.sub_modules), all(routes_side(module, role) for role in ROLES)
            if module.default_route is not None:
                which = "all but queries and documents" if routed else "all"
                reading.notify(
                    f"routes texts ({routes}): {which} are encoded by its default route, {module.default_route}", spec
                )
            elif not (sides_only and routed):
                raise UserError(f"{spec} routes texts ({routes}) and has no default_route to encode plain texts by")
