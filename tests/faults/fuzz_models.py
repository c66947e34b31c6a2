"""The kinds of model folders that `fuzz.py` damages, and the hostile entries that it writes into them.

Each kind is one file of a whole folder; what reads it copies the other files beside it and loads the model. Around the
folder lie the files of another model, `OUTSIDE`, which hostile entries name and which nothing may open.
"""

from __future__ import annotations

import functools
import json
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import small_world
from fuzz_kinds import Kind

OUTSIDE = "outside"
"""The name of the folders that lie outside of every model."""

_PATH_KEYS = (
    *("vocab_file", "merges_file", "tokenizer_file", "special_tokens_map_file", "added_tokens_file", "spm_file"),
    *("vocab", "merges", "tokenizer_object", "name_or_path", "_name_or_path", "chat_template", "entity_vocab_file"),
    *("transformers_weights", "gguf_file", "tokenizer_name_or_path", "base_model_name_or_path", "backbone", "path"),
    *("source_spm", "rewriting_rules", "emoji_file", "normalizer_file", "subfolder", "variant", "cache_dir"),
)
_SIZE_KEYS = (
    *("num_hidden_layers", "hidden_size", "vocab_size", "intermediate_size", "max_position_embeddings", "num_labels"),
    *("type_vocab_size", "num_attention_heads", "model_max_length", "max_seq_length", "in_features", "out_features"),
)
_CHOICES: dict[str, tuple[Any, ...]] = {
    "auto_map": ({"AutoModel": "mine.Mine"}, {"AutoTokenizer": ["mine.Slow", "mine.Fast"]}),
    "tokenizer_class": (
        "BertTokenizer",
        "T5Tokenizer",
        "LukeTokenizer",
        "XLMTokenizer",
        "PhobertTokenizer",
        "GPT2Tokenizer",
    ),
    "model_type": ("roberta", "distilbert", "t5", "marian", "albert", "gpt2", "clip", "modernbert", "luke"),
    "quantization_config": ({"quant_method": "gptq", "bits": 4},),
    "attn_implementation": ("someone/kernels", "eager"),
    "type": (
        "sentence_transformers.models.Dense",
        "sentence_transformers.models.Router",
        "mine.Mine",
        "torch.nn.Linear",
    ),
    "processor_class": ("CLIPProcessor", "T5Processor"),
    "fast_tokenizer_files": (["../outside/tokenizer.4.0.json"],),
    "model_args": ({"gguf_file": "../outside/model.safetensors"}, {"variant": "x"}, {"weights_only": False}),
    "config_args": ({"num_hidden_layers": 10**7}, {"_configuration_file": "../outside/config.json"}),
}


def model_kinds() -> list[Kind]:
    """Make small models of every layout; a kind for each file that says how they are loaded."""
    home = _home()
    _make_models(home)
    return [
        *(_kind(home / "raw", name) for name in ("config.json", "tokenizer_config.json", "tokenizer.json")),
        _kind(home / "raw", "special_tokens_map.json"),
        _kind(home / "raw", "model.safetensors"),
        _kind(home / "slow", "tokenizer_config.json"),
        _kind(home / "slow", "special_tokens_map.json"),
        _kind(home / "sharded", "model.safetensors.index.json"),
        *(_kind(home / "st", name) for name in ("modules.json", "sentence_bert_config.json", "2_Dense/config.json")),
        *(_kind(home / "st", name) for name in ("config_sentence_transformers.json", "1_Pooling/config.json")),
        _kind(home / "router", "router_config.json"),
        _kind(home / "bow", "config.json"),
        _kind(home / "classifier", "config.json", _load_classifier),
        _kind(home / "raw", "config.json", _load_masked_lm, called="masked-lm"),
    ]


def hostile(data: bytes, draw: random.Random) -> bytes | None:
    """Return a file of JSON with an entry that names a file outside, or asks for code or for sizes without end."""
    try:
        value = json.loads(data)
    except ValueError:
        return None
    places = [found for found in _objects(value) if found]
    if not places:
        return None
    place = draw.choice(places)
    for _ in range(draw.choice((1, 1, 2))):
        kind = draw.randrange(4)
        if kind == 0:
            place[draw.choice(_PATH_KEYS)] = draw.choice(_paths())
        elif kind == 1:
            place[draw.choice(list(place))] = draw.choice(_paths())
        elif kind == 2:
            known = [key for key in _SIZE_KEYS if key in place] or list(_SIZE_KEYS)
            place[draw.choice(known)] = draw.choice((-1, 0, 1, 65, 10**5, 10**7, 10**9, 10**15))
        else:
            key = draw.choice(list(_CHOICES))
            place[key] = draw.choice(_CHOICES[key])
    return json.dumps(value).encode()


@functools.cache
def _home() -> Path:
    """Return the folder that the good models lie in; those of a process are left to the system to remove."""
    return Path(tempfile.mkdtemp(prefix="holdfast-fuzz-models-"))


def _paths() -> list[str]:
    files = ("model.safetensors", "tokenizer.json", "vocab.txt", "config.json", "")
    return [f"{start}/{name}".rstrip("/") for start in (f"../{OUTSIDE}", str(_home() / OUTSIDE)) for name in files]


def _objects(value: Any) -> list[dict[str, Any]]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*([value] if isinstance(value, dict) else []), *(found for part in parts for found in _objects(part))]


def _kind(model: Path, name: str, load: Callable[[str], Any] | None = None, called: str | None = None) -> Kind:
    name_of_kind = f"model-{called or model.name}"

    def read(folder: Path) -> None:
        place = folder / name_of_kind
        shutil.copytree(model, place, dirs_exist_ok=True, ignore=lambda at, names: _present(model, place, at, names))
        if not (folder / OUTSIDE).is_dir():
            shutil.copytree(model.parent / "bait", folder / OUTSIDE)
        try:
            (load or _load_encoder)(str(place))
        finally:
            shutil.rmtree(place)

    file = model / name
    return Kind(f"{name_of_kind}/{name}", file.read_bytes() if file.is_file() else b"{}", read, hostile)


def _present(model: Path, place: Path, at: str, names: list[str]) -> set[str]:
    """Return the names of the damaged file, which lies there already."""
    return {name for name in names if (place / Path(at).relative_to(model) / name).is_file()}


def _load_encoder(spec: str) -> None:
    from holdfast.model_lookup import model_identity, resolve_model
    from holdfast.models import load_sentence_transformer

    model_identity(resolve_model(spec))
    load_sentence_transformer(spec, device="cpu")


def _load_classifier(spec: str) -> None:
    from holdfast.attacks.classifier import load_classifier

    load_classifier(spec, device="cpu")


def _load_masked_lm(spec: str) -> None:
    from holdfast.adversary.masked_lm import MaskedLM

    MaskedLM(spec)


# --- good models -----------------------------------------------------------------------------------------------------


def _make_models(home: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Router
    from sentence_transformers.sentence_transformer.modules import BoW, StaticEmbedding
    from tokenizers import Tokenizer
    from transformers import AutoModelForMaskedLM

    from holdfast.loading import quiet
    from holdfast.models import load_sentence_transformer

    if (home / OUTSIDE).is_dir():
        return
    world = small_world.make_world(home)
    raw = world.model.rename(home / "raw")
    (raw / "special_tokens_map.json").write_text('{"cls_token": "[CLS]", "mask_token": {"content": "[MASK]"}}')
    vocabulary = Tokenizer.from_file(str(raw / "tokenizer.json")).get_vocab()
    (raw / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)) + "\n")
    slow = Path(shutil.copytree(raw, home / "slow"))
    (slow / "tokenizer.json").unlink()
    with quiet():
        AutoModelForMaskedLM.from_pretrained(raw).save_pretrained(home / "sharded", max_shard_size="10KB")
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(raw / name, home / "sharded" / name)
        dense = load_sentence_transformer(str(raw), pooling="mean", device="cpu")
        dense.append(Dense(16, 8))
        dense.save(str(home / "st"))
        words = Tokenizer.from_file(str(raw / "tokenizer.json"))
        routes = Router.for_query_document(
            [StaticEmbedding(words, embedding_dim=8)], [StaticEmbedding(words, embedding_dim=8)]
        )
        SentenceTransformer(modules=[routes], device="cpu").save(str(home / "router"))
        SentenceTransformer(modules=[BoW(list(vocabulary))], device="cpu").save(str(home / "bow"))
    shutil.copytree(raw, home / "bait")
    shutil.copy(raw / "tokenizer.json", home / "bait" / "tokenizer.4.0.json")
    shutil.copytree(home / "bait", home / OUTSIDE)
