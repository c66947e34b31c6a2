"""Safety checks of a model's folder: refuse models that would run code or open files outside of it.

The loaders open the files that a folder's files name: a tokeniser's vocabulary, a transformer's weights, an adapter's
base. Compiled code opens weights and tokenisers, which Python cannot observe; so each file is checked before it is
read, and ``tests/faults/opened_files.py`` checks with strace that nothing else is opened.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.errors import UserError
from holdfast.model_folder import (
    ADAPTER_CONFIG,
    SENTENCE_TRANSFORMER,
    TRANSFORMERS,
    json_entries,
    model_kind,
    model_modules,
    read_json_object,
    weights_files,
)

_READ = (
    *("config.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"),
    *("processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json", "chat_template.json"),
    *("config_sentence_transformers.json", "router_config.json", ADAPTER_CONFIG),
    *("whitespacetokenizer_config.json", "phrasetokenizer_config.json"),
)
"""JSON files that the loaders read and that can name other files, in addition to `_TRANSFORMER_SETTINGS`."""
_TRANSFORMER_SETTINGS = tuple(
    f"sentence_{name}_config.json"
    for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
_OWN_CODE = "use a model of an architecture that transformers has built in"
_REFUSED_KEYS = {
    "transformers_weights": "which names another weights file: rename that file to model.safetensors",
    "gguf_file": "which names another weights file: give the model as safetensors",
    "quantization_config": "quantised weights: give the model in full precision",
    "tokenizer_name_or_path": "which names a tokeniser elsewhere: save the tokeniser beside the model",
}
_RECORDS = ("_name_or_path", "name_or_path", "special_tokens_map_file", "base_model_name_or_path")
"""Keys that record the origin of a file, which the loaders do not open, or, for an adapter's base, after its checks."""
_TEXTS = (
    *("vocab", "word_weights", "stop_words", "id2label", "label2id", "prompts", "chat_template"),
    *("added_tokens_decoder", "extra_special_tokens", "additional_special_tokens"),
)
"""Keys of lists and objects whose texts never name files."""
_FILE_KEY = re.compile(r"(^|_)(files?|path|paths|dir|folder|filename|vocab|merges|rules|template|object)$")
_ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
_LOADER_SETTINGS = {
    "model": ("add_pooling_layer", "attn_implementation", "dtype", "torch_dtype", "trust_remote_code"),
    "config": ("attn_implementation", "is_causal", "output_hidden_states", "trust_remote_code", "use_cache"),
    "tokenizer": (
        *("add_bos_token", "add_eos_token", "do_lower_case", "model_max_length", "padding_side", "truncation_side"),
        *("trust_remote_code", "use_fast"),
    ),
}
"""Loader settings that a SentenceTransformer's folder may contain: they set no file, code or size."""
_METHOD = re.compile(r"forward|get_[a-z]+_features")
_LONGEST_PATH = 4096
_LARGEST_TOKEN_ID = 10_000_000
_TOKEN_KEY = re.compile(r"_tokens?$")
_TOKEN_PROPERTIES = {"__type", "content", "id", "lstrip", "normalized", "rstrip", "single_word", "special"}
_DISTRIBUTED = re.compile(r"shard-\d{5}-model-\d{5}-of-\d{5}\.safetensors")


def check_model_folder(folder: Path, spec: str) -> None:
    """Refuse the folder of the model ``spec`` if it is no model, needs its own code, or depends on files outside.

    Raises:
        UserError: it is not a model; its weights are missing or a pickle; it needs its own code; one of its files names
            a file outside or is a link to one.
    """
    if not folder.is_dir():
        raise UserError(f"{spec} is a file: give the folder that holds the model")
    if not any((folder / name).is_file() for name in ("modules.json", "config.json", ADAPTER_CONFIG)):
        raise UserError(f"{spec} is not a model folder: it has neither modules.json nor config.json")
    check_files(folder, folder, spec)
    modules = model_modules(folder, spec)
    for place in dict.fromkeys(module.folder for module in modules):
        if place != folder:
            check_files(place, folder, spec)
    for module in modules:
        if module.kind in TRANSFORMERS:
            _refuse_other_weights(module.folder, spec)
            if model_kind(folder) == SENTENCE_TRANSFORMER:
                _refuse_scores(module.folder, spec)
    for file in weights_files(folder, spec):
        if file.parent not in {module.folder for module in modules}:
            check_files(file.parent, folder, spec)


def check_files(place: Path, root: Path, spec: str) -> None:
    """Refuse files of the folder ``place`` that are links to outside of the model in ``root`` or name files outside.

    Subfolders are not checked.

    Raises:
        UserError: there is such a file, or one that is not a plain file.
    """
    _refuse_outward_links(place, root, spec)
    for name in (*_READ, *_TRANSFORMER_SETTINGS):
        path = place / name
        if path.is_file():
            values = read_json_object(path)
            where = f"{spec}: refused, {path.relative_to(root)}"
            _refuse_code(values, path.relative_to(root), spec)
            _refuse_outward_paths(values, place, root, where)
            if name in _TRANSFORMER_SETTINGS:
                _refuse_loader_settings(values, where)
            if name == "tokenizer_config.json":
                _refuse_boundless_vocabulary(values, where)
                _refuse_vocabulary_elsewhere(values, where)
            if name == "special_tokens_map.json" and (odd := [key for key in values if not _TOKEN_KEY.search(key)]):
                raise UserError(f"{where} has {odd[0]!r}, which is no special token")
            if name in ("tokenizer_config.json", "special_tokens_map.json"):
                _refuse_odd_tokens(name, values, where)
    tokenizer = place / "tokenizer.json"
    if tokenizer.is_file():
        values, where = read_json_object(tokenizer), f"{spec}: refused, {tokenizer.relative_to(root)}"
        _refuse_odd_tokens(tokenizer.name, values, where)
        _refuse_vocabulary_elsewhere(values.get("model"), where)


# --- links ---------------------------------------------------------------------------------------------------------


def _refuse_outward_links(place: Path, root: Path, spec: str) -> None:
    """Refuse links that leave the model's folder, except those of a hub snapshot into the cache's blobs."""
    allowed = [os.path.realpath(root)]
    snapshot = Path(allowed[0])
    if snapshot.parent.name == "snapshots" and snapshot.parents[1].name.startswith("models--"):
        allowed.append(os.path.realpath(snapshot.parents[1] / "blobs"))
    if not place.is_dir():
        return
    if not _is_below(os.path.realpath(place), allowed[:1]):
        raise UserError(f"{spec}: refused, {place.relative_to(root)} is a link to outside of the model's folder")
    templates = place / "additional_chat_templates"
    for file in [*place.iterdir(), *(templates.iterdir() if templates.is_dir() else ())]:
        if file.is_symlink() and not _is_below(os.path.realpath(file), allowed) and not _is_unread(file):
            raise UserError(f"{spec}: refused, {file.relative_to(root)} is a link to outside of the model's folder")
        if file.exists() and not file.is_file() and not file.is_dir():
            raise UserError(f"{spec}: refused, {file.relative_to(root)} is not a plain file")


def _is_below(path: str, folders: list[str]) -> bool:
    return any(os.path.commonpath([path, folder]) == folder for folder in folders)


def _is_unread(file: Path) -> bool:
    """Return True for a link to a folder that no loader reads, or a broken link."""
    try:
        return stat.S_ISDIR(file.stat().st_mode) and file.name != "additional_chat_templates"
    except OSError:
        return True


# --- content of the files --------------------------------------------------------------------------------------------


def _refuse_code(values: dict[str, Any], path: Path, spec: str) -> None:
    for key, value in json_entries(values, _TEXTS):
        if key == "auto_map" and value is not None:
            raise UserError(
                f"{spec}: refused, the model needs its own code to run (auto_map in {path}, 'trust_remote_code'): "
                f"{_OWN_CODE}"
            )
        if key.endswith("attn_implementation") and isinstance(value, str) and value not in _ATTENTION:
            raise UserError(
                f"{spec}: refused, {path} asks for the attention {value!r}, which is not one of "
                f"{', '.join(_ATTENTION)} and may be code from elsewhere"
            )


def _refuse_outward_paths(values: dict[str, Any], place: Path, root: Path, where: str) -> None:
    for key, value in json_entries(values, _TEXTS):
        if isinstance(value, float) and value != value:  # NaN, for which every comparison is false
            raise UserError(f"{where} has NaN as its {key}")
        if key in _REFUSED_KEYS and value not in (None, "", {}):
            raise UserError(f"{where} has {key}, {_REFUSED_KEYS[key]}")
        if isinstance(value, str) and key not in _RECORDS and _names_outside(key, value, place, root):
            raise UserError(f"{where} names a file outside of the model's folder as its {key}: {value}")


def _names_outside(key: str, value: str, place: Path, root: Path) -> bool:
    """Return True for a path to an existing file outside of the model; old tokenisers record missing ones."""
    if not value.strip("/.\\~") or len(value) > _LONGEST_PATH or "\0" in value:
        return False
    has_root = value.startswith(("/", "~", "\\")) or value[1:2] == ":"
    if not has_root and ".." not in re.split(r"[/\\]", value) and not _FILE_KEY.search(key):
        return False
    try:
        candidates = [Path(value), place / value, Path(value).expanduser()]
        return any(
            os.path.lexists(path) and not _is_below(os.path.realpath(path), [os.path.realpath(root)])
            for path in candidates
        )
    except (OSError, ValueError, RuntimeError):  # no such user, or invalid characters
        return False


def _refuse_loader_settings(values: dict[str, Any], where: str) -> None:
    """Refuse settings of a SentenceTransformer's transformer other than those for reading texts."""
    for part, old in (("model", "model"), ("config", "config"), ("processor", "tokenizer")):
        for name in (f"{part}_kwargs", f"{old}_args"):
            given = values.get(name) or {}
            known = _LOADER_SETTINGS[old]
            if not isinstance(given, dict) or not given.keys() <= set(known):
                other = sorted(given.keys() - set(known))[0] if isinstance(given, dict) else given
                raise UserError(f"{where} gives the loaders {other!r} in {name}: it may hold {', '.join(known)}")
    modalities = values.get("modality_config")
    for settings in modalities.values() if isinstance(modalities, dict) else ():
        method = settings.get("method", "forward") if isinstance(settings, dict) else "forward"
        if not isinstance(method, str) or not _METHOD.fullmatch(method):
            raise UserError(f"{where} asks for the method {method!r} of the model: it may ask for forward")


def _refuse_scores(folder: Path, spec: str) -> None:
    """Refuse a transformer whose output is not the states of its last layer."""
    for name in _TRANSFORMER_SETTINGS:
        if (folder / name).is_file():
            task = read_json_object(folder / name).get("transformer_task", "feature-extraction")
            if task != "feature-extraction":
                raise UserError(
                    f"{spec} has no sentence vectors: {name} says that its transformer is for {task}, not for "
                    "feature-extraction"
                )


def _refuse_boundless_vocabulary(values: dict[str, Any], where: str) -> None:
    added = values.get("added_tokens_decoder")
    for number in added if isinstance(added, dict) else ():
        if len(number) > 9 or not number.isdecimal() or int(number) > _LARGEST_TOKEN_ID:
            raise UserError(f"{where} adds a token with the number {number[:40]!r}: at most {_LARGEST_TOKEN_ID:,}")


def _refuse_vocabulary_elsewhere(values: Any, where: str) -> None:
    """Refuse a vocabulary that is a string, not a list of words: tokenisers would open it as a file."""
    for key in ("vocab", "merges"):
        if isinstance(values, dict) and isinstance(values.get(key), str):
            raise UserError(f"{where} names a file outside of the model's folder as its {key}: {values[key]}")


def _refuse_odd_tokens(name: str, values: dict[str, Any], where: str) -> None:
    """Refuse token properties that the tokenizers library does not know: it prints their names unescaped."""
    for token in _tokens(name, values):
        if isinstance(token, dict) and (odd := token.keys() - _TOKEN_PROPERTIES):
            raise UserError(f"{where} has a token with the property {min(odd)!r}")


def _tokens(name: str, values: dict[str, Any]) -> Iterator[Any]:
    """Yield the entries of a tokeniser's file from which transformers makes tokens."""
    if name == "tokenizer.json":
        yield from _parts(values.get("added_tokens"))
        return
    if name == "tokenizer_config.json":
        yield from _parts(values.get("added_tokens_decoder"))
    else:
        for key, value in values.items():
            yield from _parts(value) if isinstance(value, list) or key == "extra_special_tokens" else [value]
    yield from (value for _, value in json_entries(values, _TEXTS) if isinstance(value, dict) and "__type" in value)


def _parts(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


# --- weights ---------------------------------------------------------------------------------------------------------


def _refuse_other_weights(folder: Path, spec: str) -> None:
    """Refuse files that transformers would load instead of the weights, or in addition to them."""
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if _DISTRIBUTED.fullmatch(file.name):
            raise UserError(
                f"{spec}: refused, it holds a distributed checkpoint ({file.name}), which would be loaded in place of "
                "model.safetensors: save the model as one"
            )
