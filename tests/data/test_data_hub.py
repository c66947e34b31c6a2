"""The hub side, without the hub: `datasets` reads a local folder through the same calls, and refusals are quick."""

import json
import time
from pathlib import Path

import pytest

from holdfast.data import hub, registry, tasks
from holdfast.data.corpus import read_corpus
from holdfast.data.hub import HubSource, parse_hub
from holdfast.data.registry import load_labelled, load_pairs
from holdfast.data.sources import resolve
from holdfast.data.tasks import Split, Task
from holdfast.errors import UserError


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOLDFAST_DATA", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "hub-cache")


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_reachable", lambda endpoint: True)


def repository(folder: Path, **splits: list[dict[str, object]]) -> str:
    folder.mkdir()
    for split, rows in splits.items():
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("hf:a/b", HubSource("a/b")),
        ("a/b:test", HubSource("a/b", split="test")),
        ("hf:a/b:train+validation", HubSource("a/b", split="train+validation")),
        ("hf:a/b:en", HubSource("a/b", "en")),
        ("hf:a/b:en:validation", HubSource("a/b", "en", "validation")),
    ],
)
def test_names(spec: str, expected: HubSource) -> None:
    assert parse_hub(spec) == expected
    assert resolve(spec) == [expected]


@pytest.mark.parametrize("spec", ["hf:", "hf:a/b:", "hf:a/b:c:d:e"])
def test_malformed_names(spec: str) -> None:
    with pytest.raises(UserError, match="write hf:owner/name"):
        parse_hub(spec)


def test_a_misspelt_file_is_not_taken_for_a_hub_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "corpus").write_text("one\n")
    for name in ("mine/corpsu", "elsewhere/corpus.txt.gz", "elsewhere/corpus.csv"):
        with pytest.raises(UserError, match="does not exist"):
            resolve(name)
    assert resolve("elsewhere/corpus") == [HubSource("elsewhere/corpus")]


def test_registered_corpus_without_a_folder_is_the_hubs() -> None:
    (source,) = resolve("wiki")
    assert isinstance(source, HubSource)
    assert source.data_files == "wiki1m_for_simcse.txt"


def test_offline_is_said_in_one_line_and_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    start = time.monotonic()
    with pytest.raises(UserError, match=r"hf:a/b:train is on the hub, and http://127\.0\.0\.1:9 cannot be reached"):
        list(read_corpus("hf:a/b"))
    with pytest.raises(UserError, match="cannot be reached"):
        load_pairs("sts12", "test")
    assert time.monotonic() - start < 5
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="HF_HUB_OFFLINE forbids the network"):
        list(read_corpus("hf:a/b"))


def test_offline_by_choice_asks_only_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_cached(*args: object, **options: object) -> None:
        raise ConnectionError("Couldn't reach it\nsecond line")

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(hub, "_reachable", lambda endpoint: pytest.fail("touched the network"))
    monkeypatch.setattr("datasets.load_dataset", not_cached)
    with pytest.raises(UserError, match=r"could not be loaded \(Couldn't reach it\)"):
        load_pairs("sts12", "test")


def test_stream(reachable: None, tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"n": i, "text": f" sentence {i}"} for i in range(5)]
    name = repository(tmp_path / "set", train=rows, test=rows[:1])
    assert list(read_corpus(f"hf:{name}")) == [f"sentence {i}" for i in range(5)]
    assert list(read_corpus(f"hf:{name}:test")) == ["sentence 0"]
    with pytest.raises(UserError, match=r"no column 'txt' .did you mean 'text'.*columns are: n, text"):
        list(read_corpus(f"hf:{name}", column="txt"))
    with pytest.raises(UserError, match="row 1: the column 'n' holds int, not text"):
        list(read_corpus(f"hf:{name}", column="n"))
    with pytest.raises(UserError, match="could not be loaded"):
        list(read_corpus(f"hf:{name}:validation"))


def test_a_stream_that_breaks_off(reachable: None, tmp_path: Path) -> None:
    name = repository(tmp_path / "set", train=[{"text": "one"}])
    (tmp_path / "set" / "train.jsonl").write_text('{"text": "one"}\n{"text": broken\n')
    with pytest.raises(UserError, match="could not be loaded"):
        list(read_corpus(f"hf:{name}"))


def fake_task(monkeypatch: pytest.MonkeyPatch, kind: str, classes: tuple[str, ...] | None, split: Split) -> None:
    label = "score" if kind == "sts" else "label"
    task = Task("fake", kind, ("sentence1", "sentence2"), label, classes, (split,), "none")
    monkeypatch.setattr(registry, "task_named", lambda name: task)


def test_pairs(reachable: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row: dict[str, object] = {"score": 2.5, "sentence1": "a ", "sentence2": "b", "subset": "x"}
    name = repository(tmp_path / "set", test=[row, row])
    fake_task(monkeypatch, "sts", None, Split("test", ("fake/test",), 2, HubSource(name, split="test")))
    pairs = load_pairs("fake", "test")
    assert (pairs.sentences1, pairs.sentences2, pairs.scores) == (["a", "a"], ["b", "b"], [2.5, 2.5])
    assert pairs.source == f"hf:{name}:test"
    with pytest.raises(UserError, match="not on the hub in a form"):
        load_pairs("fake", "test", text="senteval")
    fake_task(monkeypatch, "sts", None, Split("test", ("fake/test",), 3, HubSource(name, split="test")))
    with pytest.raises(UserError, match="has 2 rows, but fake test has 3"):
        load_pairs("fake", "test")


def test_labelled(reachable: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[dict[str, object]] = [{"premise": "p", "hypothesis": f"h{i}", "label": i} for i in (2, 0, -1)]
    name = repository(tmp_path / "set", test=rows)
    source = HubSource(name, split="test")
    fake_task(
        monkeypatch, "nli", tasks.NLI, Split("test", ("fake/test",), 3, source, ("premise", "hypothesis", "label"))
    )
    found = load_labelled("fake", "test")
    assert (found.sentences2, found.labels, found.classes) == (["h2", "h0"], [2, 0], list(tasks.NLI))


def test_hidden_labels_are_no_classes(reachable: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[dict[str, object]] = [{"sentence1": "p", "sentence2": f"h{i}", "label": -1} for i in range(2)]
    source = HubSource(repository(tmp_path / "set", test=rows), split="test")
    fake_task(monkeypatch, "nli", tasks.NLI, Split("test", ("fake/test",), 2, source))
    with pytest.raises(UserError, match="holds no rows with a label"):
        load_labelled("fake", "test")
    fake_task(monkeypatch, "pairs", ("0", "1"), Split("test", ("fake/test",), 2, source))
    with pytest.raises(UserError, match="row 1: the label '-1' is not one of 0, 1"):
        load_labelled("fake", "test")


def test_columns_the_other_way_round(reachable: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub's FEVER calls the claim the premise; ANLI's authors take the evidence for it."""
    row: dict[str, object] = {"premise": "the claim", "hypothesis": "the evidence", "label": 2}
    name = repository(tmp_path / "set", train=[row])
    known = tasks.task_named("fever_nli").split("train")
    split = Split("train", ("fake/train",), None, HubSource(name), known.hub_columns)
    fake_task(monkeypatch, "nli", tasks.NLI, split)
    found = load_labelled("fake", "train")
    assert (found.sentences1, found.sentences2, found.labels) == (["the evidence"], ["the claim"], [2])


def test_not_on_the_hub() -> None:
    with pytest.raises(UserError, match=r"textfooler/mr all is not on the hub .* give --data or set HOLDFAST_DATA"):
        load_labelled("textfooler/mr", "all")
