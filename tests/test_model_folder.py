"""The files that are loaded are known: which weights, of which modules, and what kind of model a folder says it is."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Router
from sentence_transformers.sentence_transformer.modules import BoW, StaticEmbedding
from tokenizers import Tokenizer, models

from holdfast.errors import UserError
from holdfast.model_folder import inside, model_kind, model_modules, weights_files
from holdfast.model_lookup import altered_files, model_identity, resolve_model
from holdfast.models import load_sentence_transformer


@pytest.fixture
def saved(masked_lm: Path, tmp_path: Path) -> Path:
    """A SentenceTransformer with mean pooling and a dense layer, which has weights of its own."""
    model = load_sentence_transformer(str(masked_lm), pooling="mean", device="cpu")
    model.append(Dense(16, 8))
    model.save(str(tmp_path / "saved"))
    return tmp_path / "saved"


@pytest.fixture
def sharded(masked_lm: Path) -> Path:
    """A model whose weights lie in two files."""
    weights = load_file(masked_lm / "model.safetensors")
    (masked_lm / "model.safetensors").unlink()
    names = sorted(weights)
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, held in parts.items():
        save_file({name: weights[name] for name in held}, masked_lm / file, {"format": "pt"})
    weight_map = {name: file for file, held in parts.items() for name in held}
    (masked_lm / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return masked_lm


def names(folder: Path) -> list[str]:
    return [file.relative_to(folder).as_posix() for file in weights_files(folder)]


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decoy", ["decoy.safetensors", "adapter_model.safetensors", "pytorch_model.safetensors"])
@pytest.mark.parametrize("pickle", ["pytorch_model.bin", "pytorch_model-00001-of-00001.bin", "model.ckpt"])
def test_weights_that_are_not_loaded_do_not_excuse_a_pickle(masked_lm: Path, decoy: str, pickle: str) -> None:
    (masked_lm / "model.safetensors").rename(masked_lm / decoy)
    torch.save({}, masked_lm / pickle)
    with pytest.raises(UserError, match=rf"refused, its weights are a pickle \({pickle}\)"):
        resolve_model(str(masked_lm))


def test_weights_of_one_module_do_not_excuse_a_pickle_of_another(saved: Path) -> None:
    dense = saved / "2_Dense"
    (dense / "model.safetensors").rename(dense / "decoy.safetensors")
    torch.save({}, dense / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"refused, its weights are a pickle \(pytorch_model\.bin\)"):
        resolve_model(str(saved))
    (dense / "pytorch_model.bin").unlink()
    with pytest.raises(UserError, match=r"has no weights: there is no 2_Dense/model\.safetensors"):
        resolve_model(str(saved))


def test_the_files_that_are_loaded(saved: Path, sharded: Path) -> None:
    save_file({"a": torch.zeros(2)}, saved / "decoy.safetensors")
    assert names(saved) == ["2_Dense/model.safetensors", "model.safetensors"]
    assert names(sharded) == ["model-1.safetensors", "model-2.safetensors"]
    save_file({"a": torch.zeros(2)}, sharded / "model.safetensors")
    assert names(sharded) == ["model.safetensors"], "transformers does not look for an index where there is this file"


def test_shards_are_loaded_and_known_by_all_of_them(sharded: Path) -> None:
    before = model_identity(sharded)
    first, second = (sha256(sharded / f"model-{n}.safetensors") for n in (1, 2))
    lines = f"{first}  model-1.safetensors\n{second}  model-2.safetensors\n"
    assert before["model_sha256"] == hashlib.sha256(lines.encode()).hexdigest()
    assert load_sentence_transformer(str(sharded), device="cpu").encode("the dog").shape == (16,)
    save_file({"a": torch.zeros(2)}, sharded / "model-3.safetensors")
    assert model_identity(sharded) == before


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("../outside.safetensors", "lies outside the model's folder"),
        ("/outside.safetensors", "lies outside the model's folder"),
        ("a/../../outside.safetensors", "lies outside the model's folder"),
        (5, "lies outside the model's folder"),
        (None, "lies outside the model's folder"),
        ("model-9.safetensors", "which is not there"),
        ("pytorch_model.bin", "no safetensors file"),
    ],
)
def test_an_index_names_weights_of_its_own_folder(sharded: Path, entry: object, message: str) -> None:
    shutil.copy(sharded / "model-1.safetensors", sharded.parent / "outside.safetensors")
    torch.save({}, sharded / "pytorch_model.bin")
    index = sharded / "model.safetensors.index.json"
    value = json.loads(index.read_text())
    value["weight_map"][next(iter(value["weight_map"]))] = entry
    index.write_text(json.dumps(value))
    with pytest.raises(UserError, match=message):
        resolve_model(str(sharded))


@pytest.mark.parametrize(
    "text",
    [
        '{"metadata": {}, "weight_map": {}}',
        '{"metadata": {}, "weight_map": 5}',
        '{"weight_map": {"a": "b"}}',
        "[]",
        "{",
    ],
)
def test_an_index_that_is_none(sharded: Path, text: str) -> None:
    (sharded / "model.safetensors.index.json").write_text(text)
    with pytest.raises(UserError, match=r"model\.safetensors\.index\.json"):
        resolve_model(str(sharded))


# --- identity --------------------------------------------------------------------------------------------------------


def test_identity_of_one_weights_file(masked_lm: Path) -> None:
    identity = model_identity(masked_lm)
    assert identity["model_sha256"] == identity["model_files"]["model.safetensors"]
    assert identity["model_sha256"] == sha256(masked_lm / "model.safetensors")
    assert {"config.json", "tokenizer.json"} <= identity["model_files"].keys()


def test_identity_leaves_out_what_is_not_loaded(saved: Path, masked_lm: Path) -> None:
    before = model_identity(saved)
    shutil.copytree(masked_lm, saved / "checkpoint-5")
    save_file({"a": torch.zeros(2)}, saved / "decoy.safetensors")
    assert model_identity(saved) == before
    assert "decoy.safetensors" not in before["model_files"]


def test_identity_leaves_out_what_a_run_writes_beside_the_model(saved: Path) -> None:
    """Records and results hold times: with them a run that was continued would have another identity."""
    before = model_identity(saved)
    for name in ("run.json", "results.json", "harden.json", "audit-before.json", "trainer_state.json", "notes.txt"):
        (saved / name).write_text("{}")
    assert model_identity(saved) == before
    for name in ("vocab.txt", "generation_config.json", "spiece.model", "source.spm", "classifier.json"):
        (saved / name).write_text("{}")
        assert name in model_identity(saved)["model_files"]


def test_altered_files_are_those_that_are_not_as_they_were_written(saved: Path) -> None:
    written = model_identity(saved)["model_files"]
    assert altered_files(saved, written) == []
    (saved / "config_sentence_transformers.json").write_text("{}")
    (saved / "modules.json").unlink()
    (saved / "run.json").write_text("{}")
    assert sorted(altered_files(saved, written)) == ["config_sentence_transformers.json", "modules.json"]


def test_identity_of_several_modules_changes_with_any(saved: Path) -> None:
    own, dense = sha256(saved / "model.safetensors"), saved / "2_Dense" / "model.safetensors"
    lines = f"{sha256(dense)}  2_Dense/model.safetensors\n{own}  model.safetensors\n"
    assert model_identity(saved)["model_sha256"] == hashlib.sha256(lines.encode()).hexdigest()


# --- modules without weights, and with routes ------------------------------------------------------------------------


def words() -> Tokenizer:
    return Tokenizer(models.WordLevel({"[UNK]": 0, "the": 1, "dog": 2}, unk_token="[UNK]"))


def router(folder: Path, **options: object) -> Path:
    query, document = ([StaticEmbedding(words(), embedding_dim=4)] for _ in range(2))
    SentenceTransformer(modules=[Router.for_query_document(query, document, **options)], device="cpu").save(str(folder))
    return folder


def test_a_bag_of_words_has_no_weights_and_is_whole(tmp_path: Path) -> None:
    for name, vocabulary in {"one": ["the", "dog", "/", ".."], "two": ["a", "cat"]}.items():
        SentenceTransformer(modules=[BoW(vocabulary)], device="cpu").save(str(tmp_path / name))
    assert weights_files(tmp_path / "one") == []
    assert load_sentence_transformer(str(tmp_path / "one"), device="cpu").encode("the dog").tolist() == [1, 1, 0, 0]
    one, two = (model_identity(tmp_path / name)["model_sha256"] for name in ("one", "two"))
    assert one != two


def test_a_router_is_loaded_with_the_weights_of_its_routes(tmp_path: Path) -> None:
    folder = router(tmp_path / "routes")
    assert names(folder) == [f"{route}_0_StaticEmbedding/model.safetensors" for route in ("document", "query")]
    files = model_identity(folder)["model_files"]
    assert {"query_0_StaticEmbedding/model.safetensors", "query_0_StaticEmbedding/tokenizer.json"} <= files.keys()
    with pytest.warns(
        UserWarning,
        match=r"routes texts \(query, document\): all but queries and documents are encoded by its default route, doc",
    ):
        model = load_sentence_transformer(str(folder), device="cpu")
    plain = SentenceTransformer(str(folder), device="cpu")
    assert model.encode("the dog").tolist() == plain.encode_document("the dog").tolist()
    assert model.encode("the dog").tolist() != plain.encode_query("the dog").tolist()


def test_a_router_without_a_default_route(tmp_path: Path) -> None:
    folder = router(tmp_path / "routes", default_route=None, allow_empty_key=False)
    with pytest.raises(UserError, match=r"routes texts \(query, document\) and has no default_route"):
        load_sentence_transformer(str(folder), device="cpu")


def test_a_pickle_in_a_route_is_refused(tmp_path: Path) -> None:
    folder = router(tmp_path / "routes")
    (folder / "query_0_StaticEmbedding" / "model.safetensors").unlink()
    torch.save({}, folder / "query_0_StaticEmbedding" / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"its weights are a pickle \(pytorch_model\.bin\)"):
        resolve_model(str(folder))


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"../outside": "sentence_transformers.models.StaticEmbedding"}, "leaves the model's folder"),
        ({"a": "mine.Mine"}, "code from outside"),
        ({"a": "sentence_transformers.base.model.pickle"}, "a module that holdfast does not load"),
        ({}, "not the routes"),
        ([], "not the routes"),
        ({".": "sentence_transformers.models.Router"}, "not the routes"),
    ],
)
def test_routes_that_lead_elsewhere(tmp_path: Path, types: object, message: str) -> None:
    folder = router(tmp_path / "routes")
    (folder / "router_config.json").write_text(json.dumps({"types": types, "structure": {}, "parameters": {}}))
    with pytest.raises(UserError, match=message):
        resolve_model(str(folder))


@pytest.mark.parametrize("structure", [{}, {"query": ["query_0_StaticEmbedding"], "document": []}, {"query": 3}, None])
def test_a_route_without_modules_is_refused(tmp_path: Path, structure: object) -> None:
    folder = router(tmp_path / "routes")
    config = json.loads((folder / "router_config.json").read_text())
    (folder / "router_config.json").write_text(json.dumps({**config, "structure": structure}))
    with pytest.raises(UserError, match="a route of the router has no module"):
        resolve_model(str(folder))


def test_modules_that_are_no_modules_of_an_encoder(saved: Path) -> None:
    modules = json.loads((saved / "modules.json").read_text())
    for name, message in {
        "sentence_transformers.base.model.pickle": "a module that holdfast does not load",
        "sentence_transformers.util.http_get": "a module that holdfast does not load",
        "my_models.Dense": "code from outside",
    }.items():
        (saved / "modules.json").write_text(json.dumps([*modules[:2], modules[2] | {"type": name}]))
        with pytest.raises(UserError, match=message):
            resolve_model(str(saved))


# --- kinds -----------------------------------------------------------------------------------------------------------


def test_what_a_folder_says_it_is(saved: Path, masked_lm: Path, tmp_path: Path) -> None:
    assert model_kind(saved) == model_kind(masked_lm) == "SentenceTransformer"
    (saved / "config_sentence_transformers.json").write_text('{"model_type": "CrossEncoder"}')
    assert model_kind(saved) == "CrossEncoder"
    assert [module.kind for module in model_modules(saved)] == ["Transformer"], "the others are not read"
    (saved / "config_sentence_transformers.json").unlink()
    sparse = {"path": "", "type": "sentence_transformers.sparse_encoder.models.MLMTransformer"}
    (saved / "modules.json").write_text(json.dumps([sparse]))
    assert model_kind(saved) == "SparseEncoder"
    config = json.loads((masked_lm / "config.json").read_text())
    (masked_lm / "config.json").write_text(json.dumps(config | {"sentence_transformers": {"activation_fn": "x"}}))
    assert model_kind(masked_lm) == "CrossEncoder"


@pytest.mark.parametrize(
    ("path", "stays"),
    [
        *((path, True) for path in ("a/b", "", ".", "a.b/..c")),
        *((path, False) for path in ("..", "a/../b", "/a", "C:\\a", "a\\..\\b", "a\0", "x" * 300, 5, None)),
    ],
)
def test_paths_that_stay_inside(path: object, stays: bool) -> None:
    assert inside(path) == stays
