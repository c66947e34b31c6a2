"""The files of a model's folder: its modules, the weights that are loaded, and the kind of model.

A folder is a SentenceTransformer (``modules.json`` lists its modules, some of which have their own folders) or a
transformer with its tokeniser. The libraries load ``model.safetensors`` of each module that has weights; for a
transformer without it, the shards named in ``model.safetensors.index.json``. Those of an adapter are
``adapter_model.safetensors``, beside its base model (`holdfast.adapter_folder`). Other weights in the folder are never
read, so they are neither accepted instead nor part of the model's identity.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from holdfast.errors import UserError, first_line

SENTENCE_TRANSFORMER = "SentenceTransformer"
WEIGHTS, WEIGHTS_INDEX = "model.safetensors", "model.safetensors.index.json"
CLASSES_FILE = "classifier.json"
"""The file that marks the vectors of a SentenceTransformer as logits: ``{"classes": […], "task": …}``."""
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

TRANSFORMERS = ("Transformer", "CLIPModel", "MLMTransformer")
"""Modules around a transformer, which the transformers library loads."""
STATIC = "StaticEmbedding"
"""The module of a table of static vectors."""
ROUTERS = ("Router", "Asym")
"""Modules that contain others, each in its own folder."""
_WEIGHTED = ("Dense", "CNN", "LSTM", "LayerNorm", "WeightedLayerPooling", "WordEmbeddings", STATIC)
_WEIGHTLESS = ("Pooling", "Normalize", "Dropout", "BoW", "WordWeights")
_KINDS = (*TRANSFORMERS[:2], *ROUTERS, *_WEIGHTED, *_WEIGHTLESS)
_OTHER_FAMILIES = {"sparse_encoder": "SparseEncoder", "cross_encoder": "CrossEncoder"} | {
    "multi_vector_encoder": "MultiVectorEncoder"
}
"""Packages of sentence-transformers, and the kind of model of their modules."""
_NATIVE = "sentence_transformers."
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_DEEPEST_ROUTE = 3


@dataclass(frozen=True)
class Module:
    """A module of a model: the name of its class, such as ``"Transformer"`` or ``"Dense"``, and its folder."""

    kind: str
    folder: Path


def model_kind(folder: Path) -> str:
    """Return the class of sentence-transformers that saved the model, by default ``"SentenceTransformer"``."""
    settings = folder / "config_sentence_transformers.json"
    if settings.is_file() and (named := read_json_object(settings).get("model_type")) is not None:
        return str(named)
    if (folder / "modules.json").is_file():
        packages = [str(module["type"]).removeprefix(_NATIVE).split(".")[0] for module in _read_modules(folder)]
        return next((_OTHER_FAMILIES[name] for name in packages if name in _OTHER_FAMILIES), SENTENCE_TRANSFORMER)
    config = folder / "config.json"
    saved_by = read_json_object(config).get("sentence_transformers") if config.is_file() else None
    return "CrossEncoder" if isinstance(saved_by, dict) and "activation_fn" in saved_by else SENTENCE_TRANSFORMER


def model_modules(folder: Path, spec: str = "") -> list[Module]:
    """Return the modules of the model in ``folder``, including those of its routes; ``spec`` names it in messages.

    For a model that is not a SentenceTransformer only the first module is returned: the others are not read.

    Raises:
        UserError: the module list cannot be read, its paths leave the folder, or it asks for foreign code.
    """
    if not (folder / "modules.json").is_file():
        return [Module(STATIC if is_model2vec(folder) else "Transformer", folder)]
    spec, kind = spec or str(folder), model_kind(folder)
    found: list[Module] = []
    for entry in _read_modules(folder):
        name = _class_name(str(entry["type"]), "modules.json", spec)
        if kind != SENTENCE_TRANSFORMER:
            if name not in TRANSFORMERS:
                raise UserError(f"{spec} is a {kind} that begins with {name}: holdfast measures sentence encoders")
            return [Module(name, folder / str(entry["path"]))]
        if name not in _KINDS:
            raise UserError(f"{spec}: modules.json asks for {entry['type']}, a module that holdfast does not load")
        found += _with_routes(Module(name, folder / str(entry["path"])), spec, _DEEPEST_ROUTE)
    return found


def is_model2vec(folder: Path) -> bool:
    """Return True for a folder in model2vec's own layout: a table of static vectors and a tokeniser, without modules.

    Newer versions of model2vec also write ``modules.json``: such a folder is a SentenceTransformer.
    """
    config = folder / "config.json"
    if (folder / "modules.json").is_file() or not config.is_file():
        return False
    return read_json_object(config).get("model_type") == "model2vec"


def weights_files(folder: Path, spec: str = "") -> list[Path]:
    """Return the weights files that are loaded, each once, sorted by path.

    Raises:
        UserError: as in `model_modules`; or a module's weights are missing or a pickle; or an index names a file that
            is missing or outside the folder.
    """
    return sorted({file for module in model_modules(folder, spec) for file in _module_weights(module, folder, spec)})


def config_file(module: Module) -> Path:
    """Return the path of a module's settings; the file may not exist."""
    router = module.folder / "router_config.json"
    return router if module.kind in ROUTERS and router.is_file() else module.folder / "config.json"


def type_without_masks(folder: Path) -> str | None:
    """Return the type of a model that transformers has no masked-LM head for, such as a decoder; None: it has one."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    config = folder / "config.json"
    kind = read_json_object(config).get("model_type") if config.is_file() else None
    return kind if isinstance(kind, str) and kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES else None


def inside(path: object) -> bool:
    """Return True for a relative path, in POSIX and in Windows syntax, that stays below its starting folder."""
    if not isinstance(path, str) or "\0" in path or len(path) > 255:
        return False
    windows = PureWindowsPath(path)
    return not windows.anchor and ".." not in windows.parts and not PurePosixPath(path).is_absolute()


def read_json(path: Path) -> Any:
    """Return the content of a JSON file of a model.

    Raises:
        UserError: it cannot be read or is not JSON; the message names the line.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not JSON: {error.msg}") from error
    except (OSError, ValueError, RecursionError) as error:  # not UTF-8, an extremely long number, deeply nested lists
        raise UserError(f"cannot read {path}: {first_line(error)}") from error


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a model.

    Raises:
        UserError: it cannot be read, is not JSON, or is not an object.
    """
    value = read_json(path)
    if not isinstance(value, dict):
        raise UserError(f"{path}: not a JSON object")
    return value


def json_entries(values: Any, skipped: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield each key and value of nested JSON, not below ``skipped`` keys; a list's items have its key and ``[]``."""
    left: list[tuple[str, Any]] = [("", values)]
    while left:
        key, value = left.pop()
        if key:
            yield key, value
        if key in skipped:
            continue
        if isinstance(value, dict):
            left += value.items()
        elif isinstance(value, list):
            left += [(f"{key}[]", part) for part in value]


def _with_routes(module: Module, spec: str, deepest: int) -> list[Module]:
    """Return a module and, for a router, the modules of its routes."""
    if module.kind not in ROUTERS:
        return [module]
    path = config_file(module)
    values = read_json_object(path)
    types, routes = values.get("types"), values.get("structure")
    if not isinstance(types, dict) or not types or not deepest:
        raise UserError(f"{path}: not the routes of a sentence-transformers router")
    found = [module]
    for name, kind in types.items():
        if not inside(name):
            raise UserError(f"{path}: refused, a module's path leaves the model's folder: {name}")
        known = _class_name(str(kind), path.name, spec)
        if known not in _KINDS:
            raise UserError(f"{spec}: {path.name} asks for {kind}, a module that holdfast does not load")
        found += _with_routes(Module(known, module.folder / name), spec, deepest - 1)
    given = list(routes.values()) if isinstance(routes, dict) else []
    if not given or not all(isinstance(names, list) and names for names in given):
        raise UserError(f"{path}: a route of the router has no module")
    return found


def _class_name(type_name: str, where: str, spec: str) -> str:
    if not type_name.startswith(_NATIVE):
        raise UserError(
            f"{spec}: refused, {where} asks for {type_name}, which is code from outside "
            f"sentence-transformers ('trust_remote_code')"
        )
    return type_name.rpartition(".")[2]


def _module_weights(module: Module, root: Path, spec: str) -> list[Path]:
    if module.kind in (*_WEIGHTLESS, *ROUTERS):
        return []
    is_adapter = module.kind in TRANSFORMERS and (module.folder / ADAPTER_CONFIG).is_file()
    single, index = module.folder / (ADAPTER_WEIGHTS if is_adapter else WEIGHTS), module.folder / WEIGHTS_INDEX
    if single.is_file():
        return [single]
    if module.kind in TRANSFORMERS and index.is_file() and not is_adapter:
        return _shards(index)
    spec = spec or str(root)
    pickles = sorted(file.name for pattern in _PICKLES for file in module.folder.glob(pattern))
    if pickles:
        raise UserError(
            f"{spec}: refused, its weights are a pickle ({pickles[0]}) and a pickle can run code: convert it where "
            f"you trust it, with model.save_pretrained(folder, safe_serialization=True)"
        )
    raise UserError(f"{spec} has no weights: there is no {single.relative_to(root)} in its folder")


def _shards(index: Path) -> list[Path]:
    entries = read_json_object(index)
    weight_map = entries.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map or not isinstance(entries.get("metadata"), dict):
        raise UserError(f"{index}: not an index of weights: it has a metadata and a weight_map that is not empty")
    names = list({str(name): name for name in weight_map.values()}.values())
    for name in names:
        if not inside(name):
            raise UserError(f"{index}: refused, a weights file lies outside the model's folder: {name}")
        if not str(name).endswith(".safetensors"):
            raise UserError(f"{index}: refused, it names a file that is no safetensors file: {name}")
        if not (index.parent / name).is_file():
            raise UserError(f"{index}: it names {name}, which is not there")
    return [index.parent / name for name in names]


def _read_modules(folder: Path) -> list[dict[str, Any]]:
    path = folder / "modules.json"
    modules = read_json(path)
    if not isinstance(modules, list) or not all(isinstance(m, dict) and {"type", "path"} <= m.keys() for m in modules):
        raise UserError(f"{path}: not a sentence-transformers module list")
    if not modules:
        raise UserError(f"{path}: the model has no modules")
    for module in modules:
        if not isinstance(module["path"], str) or "\0" in module["path"] or len(module["path"]) > 255:
            raise UserError(f"{path}: not a sentence-transformers module list")
        if not inside(module["path"]):
            raise UserError(f"{path}: refused, a module's path leaves the model's folder: {module['path']}")
    return modules
