"""SimCSE's archive of SentEval's folder, on a stand-in: which tasks it gives, and what is refused."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import pytest

from holdfast.classifiers.splits import is_available
from holdfast.data import hub
from holdfast.data.registry import load_labelled, load_pairs
from holdfast.data.split_checks import check_split
from holdfast.data.tasks import task_named
from holdfast.errors import UserError

SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
Files = dict[str, list[str]]


def whole() -> Files:
    """Files with as many rows as the sets that the papers use."""
    lines = [SICK, *(f"{n}\tfirst {n}\tsecond {n}\t{1 + n % 5}\tNEUTRAL" for n in range(4927))]
    return {
        "SICK/SICK_test_annotated.txt": lines,
        "SUBJ/subj.objective": ["a fact"] * 5000,
        "SUBJ/subj.subjective": ["a view"] * 5000,
        "MPQA/mpqa.pos": ["good"] * 3312,
        "MPQA/mpqa.neg": ["bad"] * 7294,
    }


def packed(path: Path, files: Files) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, lines in files.items():
            content = "".join(f"{line}\n" for line in lines).encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Files], list[str]]:
    """``publish(files)``: a hub that has the archive; returns the names of the files that were downloaded."""
    for name in ("HOLDFAST_DATA", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hub, "_reachable", lambda endpoint: True)
    downloads: list[str] = []

    def publish(files: Files) -> list[str]:
        archive = packed(tmp_path / "snapshots" / f"revision-{len(files)}" / "senteval.tar", files)

        def download(name: str, file: str, *, repo_type: str) -> str:
            downloads.append(f"{repo_type}:{name}/{file}")
            return str(archive)

        monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
        monkeypatch.setattr(huggingface_hub, "file_exists", lambda *_, **__: True)
        monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_, **__: None)
        return downloads

    return publish


def test_the_tasks_without_a_data_set_of_their_own_come_from_the_archive(
    publish: Callable[[Files], list[str]], tmp_path: Path
) -> None:
    downloads = publish(whole())
    pairs = load_pairs("sickr", "test")
    assert (len(pairs.scores), pairs.sentences1[3], pairs.sentences2[3], pairs.scores[3]) == (
        4927,
        "first 3",
        "second 3",
        4,
    )
    assert pairs.source == "hf:princeton-nlp/datasets-for-simcse/senteval.tar"
    assert set(downloads) == {"dataset:princeton-nlp/datasets-for-simcse/senteval.tar"}
    subjective, mpqa = load_labelled("subj", "all"), load_labelled("mpqa", "all")
    assert (sum(subjective.labels), sum(mpqa.labels)) == (5000, 3312)
    assert load_pairs("sickr", "test", text="senteval").sentences1 == pairs.sentences1
    (folder,) = (tmp_path / "cache" / "senteval").iterdir()
    assert folder.name == "revision-5", "nothing of the unpacking is left over"


def test_another_number_of_rows_is_refused(publish: Callable[[Files], list[str]]) -> None:
    publish({**whole(), "SICK/SICK_test_annotated.txt": [SICK, "1\ta\tb\t3\tNEUTRAL"]})
    with pytest.raises(UserError, match=r"senteval\.tar has 1 rows of sickr test, not 4,927: give --data"):
        load_pairs("sickr", "test")
    with pytest.raises(UserError, match=r"has no sickr/trial .*: give --data instead"):
        load_pairs("sickr", "trial")


def test_damaged_archives_are_refused(
    publish: Callable[[Files], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish({"../outside.txt": ["text"]})
    with pytest.raises(UserError, match=r"senteval\.tar is damaged"):
        load_pairs("sickr", "test")
    assert not (tmp_path / "cache" / "outside.txt").exists()
    publish({"elsewhere/text.txt": ["text"], "b": []})
    with pytest.raises(UserError, match="has not the layout of SentEval's folder"):
        load_pairs("sickr", "test")


def test_links_of_an_archive_are_not_made(publish: Callable[[Files], list[str]], tmp_path: Path) -> None:
    publish(whole())
    (tmp_path / "outside").mkdir()
    with tarfile.open(next(tmp_path.glob("snapshots/*/senteval.tar")), "a") as archive:
        link = tarfile.TarInfo("MPQA/link")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "outside")
        archive.addfile(link)
        through = tarfile.TarInfo("MPQA/link/text.txt")
        through.size = 4
        archive.addfile(through, io.BytesIO(b"text"))
    assert len(load_labelled("mpqa", "all").labels) == 10606
    assert not any((tmp_path / "outside").iterdir())
    assert not any(path.is_symlink() for path in (tmp_path / "cache").rglob("*"))


def test_a_task_of_which_the_data_folder_has_nothing_comes_from_the_hub(
    publish: Callable[[Files], list[str]], tmp_path: Path
) -> None:
    downloads = publish(whole())
    data = tmp_path / "data"
    (data / "sickr").mkdir(parents=True)
    (data / "sickr" / "trial.tsv").write_text("sentence1\tsentence2\tscore\na\tb\t3\n")
    with pytest.raises(UserError, match=r"sickr test: .*test\.tsv\.gz does not exist"):
        load_pairs("sickr", "test", data=data)  # the folder has the task, so the split is missing
    assert not is_available(task_named("sickr"), "test", data)
    assert downloads == []
    assert len(load_labelled("subj", "all", data=data).labels) == 10000
    assert is_available(task_named("subj"), "all", data)


def test_the_check_downloads_nothing(
    publish: Callable[[Files], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads = publish(whole())
    check_split("subj", "all")
    monkeypatch.setattr(huggingface_hub, "file_exists", lambda *_, **__: False)
    with pytest.raises(UserError, match=r"the hub has no hf:princeton-nlp/datasets-for-simcse/senteval\.tar"):
        check_split("subj", "all")
    with pytest.raises(UserError, match=r"senteval\.tar is on the hub, and .* cannot be reached: connect, give --data"):
        check_split("subj", "all", hub_answers=False)
    (tmp_path / "data").mkdir()
    with pytest.raises(UserError, match=r"subj all: .*all\.tsv\.gz does not exist.*; and .* cannot be reached"):
        check_split("subj", "all", data=tmp_path / "data", hub_answers=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="HF_HUB_OFFLINE forbids the network"):
        check_split("mpqa", "all")
    assert downloads == []
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_, **__: "/cached/senteval.tar")
    check_split("mpqa", "all")


def test_the_check_of_data_sets_asks_for_their_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_DATA", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)

    class Builder:
        class info:
            splits = {"train": None, "validation": None}  # noqa: RUF012

    asked: list[str] = []

    def builder(name: str, config: str | None, **_: object) -> Builder:
        asked.append(name)
        return Builder()

    monkeypatch.setattr("datasets.load_dataset_builder", builder)
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: pytest.fail("a check downloads no rows"))
    check_split("sst2", "dev", hub_answers=True)
    with pytest.raises(UserError, match=r"has no split 'test', only train, validation"):
        check_split("sst2", "test", hub_answers=True)
    with pytest.raises(UserError, match="cannot be reached"):
        check_split("sst2", "dev", hub_answers=False)
    assert asked == ["SetFit/sst2"] * 2
    with pytest.raises(UserError, match="cannot be reached: connect, or give a local file"):
        hub.check(hub.HubSource("a/b"), streamed=True, reachable=False)
