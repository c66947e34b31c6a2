"""Labelled tasks: the folder of TSV files, SentEval's folder, the errors, and the real files where they are at hand."""

import gzip
import os
import re
from pathlib import Path

import pytest

from holdfast.data import senteval as senteval_files
from holdfast.data.inventory import MISSING, check_data, list_data
from holdfast.data.registry import is_local, load_labelled, load_pairs
from holdfast.data.tasks import TASKS, hub_sources, sources, task_named
from holdfast.errors import UserError
from holdfast.files import sha256, write_json

HEADER = "sentence1\tsentence2\tscore\tsubset\n"


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "real_data" not in request.fixturenames:
        monkeypatch.delenv("HOLDFAST_DATA", raising=False)


@pytest.fixture
def real_data() -> Path:
    value = os.environ.get("HOLDFAST_DATA")
    if not value:
        pytest.skip("set HOLDFAST_DATA to the folder of <dataset>/<split>.tsv.gz to check the real files")
    return Path(value)


def table(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_pairs_from_tables(tmp_path: Path) -> None:
    path = table(tmp_path, "sts12/test.tsv.gz", HEADER + 'a "\u0085b\tc\t2.500\tMSRpar\nd\te\t5\tMSRvid\n')
    pairs = load_pairs("sts12", "test", data=tmp_path)
    assert pairs.sentences1 == ['a "\u0085b', "d"]
    assert (pairs.sentences2, pairs.scores, pairs.subsets) == (["c", "e"], [2.5, 5.0], ["MSRpar", "MSRvid"])
    assert pairs.source == str(path)
    plain = tmp_path / "plain"
    table(plain, "sts12/test.tsv", HEADER + 'a "\u0085b\tc\t2.5\tx\nd\te\t5.0\ty\n')
    assert load_pairs("sts12", "test", data=plain).sha256 == pairs.sha256
    table(tmp_path, "sts12/test_senteval.tsv.gz", HEADER + "f\tg\t1\tMSRpar\n")
    assert load_pairs("sts12", "test", data=tmp_path, text="senteval").sentences1 == ["f"]


def test_the_hash_is_of_the_labels_too(tmp_path: Path) -> None:
    found = set()
    for label in (0, 1):
        table(tmp_path, "sst2/dev.tsv", f"sentence\tlabel\na\t{label}\nb\t1\n")
        table(tmp_path, "stsb/dev.tsv", f"sentence1\tsentence2\tscore\na\tb\t{label}\n")
        found |= {load_labelled("sst2", "dev", data=tmp_path).sha256, load_pairs("stsb", "dev", data=tmp_path).sha256}
    assert len(found) == 4


def test_where_data_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(tmp_path, "stsb/dev.tsv", "sentence1\tsentence2\tscore\na\tb\t1\n")
    assert not is_local("stsb", "dev")
    assert not is_local("stsb", "dev", tmp_path / "nowhere")
    assert is_local("stsb", "dev", tmp_path)
    assert not is_local("stsb", "test", tmp_path)
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path))
    assert is_local("stsb", "dev")
    assert load_pairs("stsb", "dev").subsets == [""]


def test_all_of_sick(tmp_path: Path) -> None:
    for part in ("train", "trial", "test"):
        assert not is_local("sickr-full", "all", tmp_path)
        table(tmp_path, f"sickr/{part}.tsv", f"sentence1\tsentence2\tscore\n{part}\tb\t1\n")
    assert load_pairs("sickr-full", "all", data=tmp_path).sentences1 == ["train", "trial", "test"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "test.tsv:1: the file is empty"),
        (HEADER, "holds no rows"),
        (HEADER + "a\tb\tgood\tx\n", "test.tsv:2: the score 'good' is not a number"),
        (HEADER + "a\tb\tnan\tx\n", "test.tsv:2: the score 'nan' is not a number"),
        (HEADER + "a\tb\t1\tx\na\tb\t1\n", "test.tsv:3: the row has 3 fields, the header has 4"),
        (HEADER + "a\tb\t1\tx\n\na\tb\t1\tx\n", "test.tsv:3: the row is empty"),
        ("sentence1\tsentence2\tscroe\na\tb\t1\n", "test.tsv:1: no column 'score' (did you mean 'scroe'?)"),
    ],
)
def test_malformed_tables(tmp_path: Path, text: str, expected: str) -> None:
    table(tmp_path, "sts13/test.tsv", text)
    with pytest.raises(UserError) as caught:
        load_pairs("sts13", "test", data=tmp_path)
    assert expected in str(caught.value)


def test_wrong_names(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown task 'stsbb' .did you mean 'stsb'"):
        load_pairs("stsbb", "test", data=tmp_path)
    with pytest.raises(UserError, match=r"stsb has no split 'tests' .did you mean 'test'.*dev, test, train"):
        load_pairs("stsb", "tests", data=tmp_path)
    with pytest.raises(UserError, match="it is raw or senteval"):
        load_pairs("stsb", "test", data=tmp_path, text="rwa")
    with pytest.raises(UserError, match="mr is a transfer task"):
        load_pairs("mr", "all", data=tmp_path)
    with pytest.raises(UserError, match="wordnet is a lexicon task"):
        load_labelled("wordnet", "synsets", data=tmp_path)
    with pytest.raises(UserError) as caught:
        load_pairs("sts12", "test", data=tmp_path)
    for part in (str(tmp_path / "sts12" / "test.tsv.gz"), "--data", "HOLDFAST_DATA"):
        assert part in str(caught.value)
    with pytest.raises(UserError, match="is not a folder"):
        load_pairs("sts12", "test", data=tmp_path / "no")


def test_labelled_from_tables(tmp_path: Path) -> None:
    table(tmp_path, "trec/test.tsv", "sentence\tlabel\tfine_label\nq\tNUM\tNUM:x\nr\tABBR\tABBR:x\n")
    trec = load_labelled("trec", "test", data=tmp_path)
    assert (trec.sentences1, trec.sentences2, trec.labels) == (["q", "r"], None, [5, 0])
    table(tmp_path, "snli/test.tsv", "sentence1\tsentence2\tlabel\na\tb\t-\na\tb\tneutral\n")
    snli = load_labelled("snli", "test", data=tmp_path)
    assert (snli.sentences2, snli.labels) == (["b"], [1])
    path = table(tmp_path, "sst2/dev.tsv", "sentence\tlabel\na\t1\nb\t2\n")
    with pytest.raises(UserError) as caught:
        load_labelled("sst2", "dev", data=tmp_path)
    assert f"{path}:3: the label '2' is not one of 0, 1" in str(caught.value)


def test_stars_become_classes_and_three_are_left_out(tmp_path: Path) -> None:
    rows = "".join(f"text {stars}\t{stars}.0\tx\n" for stars in (5, 3, 1, 2, 4))
    path = table(tmp_path, "yelp/reviews_stars.tsv", f"sentence\tstars\tcategory\n{rows}")
    polarity = load_labelled("yelp_polarity", "reviews", data=tmp_path)
    assert polarity.sentences1 == ["text 5", "text 1", "text 2", "text 4"]
    assert (polarity.labels, polarity.classes) == ([1, 0, 0, 1], ["0", "1"])
    path.write_text("sentence\tstars\na\t1.0\nb\t4.5\n")
    with pytest.raises(UserError, match=r"reviews_stars\.tsv:3: the label '4\.5' is not one of 1\.0, 2\.0"):
        load_labelled("yelp_polarity", "reviews", data=tmp_path)


def test_classes_that_are_numbers_are_not_numbered(tmp_path: Path) -> None:
    rows = "".join(f"text {stars}\t{stars}\n" for stars in (1, 5, 3, 2, 4))
    path = table(tmp_path, "yelp/reviews_stars.tsv", f"sentence\tstars\n{rows}")
    found = load_labelled("yelp", "reviews_stars", data=tmp_path)
    assert [found.classes[label] for label in found.labels] == ["1.0", "5.0", "3.0", "2.0", "4.0"]
    for wrong in ("0", "4.5", "9" * 5000):
        path.write_text(f"sentence\tstars\na\t{wrong}\n")
        with pytest.raises(UserError, match=r"reviews_stars\.tsv:2: the label '[0-9.]{1,40}' is not one of 1\.0, 2\.0"):
            load_labelled("yelp", "reviews_stars", data=tmp_path)


def test_classes_that_are_names_can_be_numbered(tmp_path: Path) -> None:
    table(tmp_path, "snli/test.tsv", "sentence1\tsentence2\tlabel\na\tb\t2\na\tb\tneutral\n")
    assert load_labelled("snli", "test", data=tmp_path).labels == [2, 1]
    table(tmp_path, "snli/test.tsv", "sentence1\tsentence2\tlabel\na\tb\t3\n")
    with pytest.raises(UserError, match="the label '3' is not one of"):
        load_labelled("snli", "test", data=tmp_path)


def test_a_column_that_is_there_twice_is_told(tmp_path: Path) -> None:
    table(tmp_path, "sst2/dev.tsv", "sentence\tlabel\tsentence\ta\ta\nx\t1\ty\t\t\n")
    with pytest.raises(UserError, match=r"dev\.tsv:1: 2 columns are called 'sentence'"):
        load_labelled("sst2", "dev", data=tmp_path)
    table(tmp_path, "sst2/dev.tsv", "sentence\tlabel\ta\ta\nx\t1\ty\t\n")  # nobody asks for these
    assert load_labelled("sst2", "dev", data=tmp_path).sentences1 == ["x"]


def test_a_mix_is_its_parts_one_after_the_other(tmp_path: Path) -> None:
    head = "sentence1\tsentence2\tlabel\n"
    table(tmp_path, "mnli/dev_matched.tsv", f"{head}a\tb\tneutral\nc\td\tentailment\n")
    assert not is_local("anli_mix", "dev_mix", tmp_path)
    table(tmp_path, "snli/dev.tsv", f"{head}e\tf\tcontradiction\ng\th\t-\n")
    assert is_local("anli_mix", "dev_mix", tmp_path)
    mix = load_labelled("anli_mix", "dev_mix", data=tmp_path)
    assert (mix.sentences1, mix.sentences2, mix.labels) == (["a", "c", "e"], ["b", "d", "f"], [1, 0, 2])
    assert mix.source == f"{tmp_path / 'mnli/dev_matched.tsv'},{tmp_path / 'snli/dev.tsv'}"
    parts = [load_labelled(*part, data=tmp_path).sha256 for part in (("mnli", "dev_matched"), ("snli", "dev"))]
    assert mix.sha256 not in parts
    with pytest.raises(UserError, match=r"mnli/train\.tsv\.gz does not exist"):
        load_labelled("anli_mix", "train", data=tmp_path)
    rows = {row.name: row for row in list_data(tmp_path)}
    assert "dev_mix" in rows["anli_mix"].splits
    assert "train" not in rows["anli_mix"].splits


def test_rounds_of_anli(tmp_path: Path) -> None:
    for r in (1, 2, 3):
        table(tmp_path, f"anli/dev_r{r}.tsv", f"sentence1\tsentence2\tlabel\np{r}\th\tneutral\n")
    assert load_labelled("anli", "dev_all", data=tmp_path).sentences1 == ["p1", "p2", "p3"]
    assert load_labelled("anli_r2", "dev", data=tmp_path).sentences1 == ["p2"]
    (row,) = (row for row in list_data(tmp_path) if row.name == "anli")
    assert row.splits == ("dev_r1", "dev_r2", "dev_r3", "dev_all")
    assert row.rows == 3200, "rows that two splits have in common are counted once"


def test_what_splits_have_in_common() -> None:
    anli, mix = task_named("anli"), task_named("anli_mix")
    assert sources(anli.split("dev_r2")) < sources(mix.split("dev_all"))
    assert sources(mix.split("train")) == {
        *("mnli/train", "snli/train", "fever_nli/train"),
        *("anli/train_r1", "anli/train_r2", "anli/train_r3"),
    }


def test_where_on_the_hub() -> None:
    mix = task_named("anli_mix")
    assert [str(source) for source in hub_sources(mix.split("train"))] == [
        *("hf:nyu-mll/glue:mnli:train", "hf:stanfordnlp/snli:train"),
        *("hf:facebook/anli:train_r1+train_r2+train_r3", "hf:pietrolesci/nli_fever:train"),
    ]
    assert hub_sources(task_named("snli").split("test_hard")) == ()


def test_a_split_is_the_hubs_split_of_that_name() -> None:
    """A dev split that were the hub's test split would have tests select; numbers of rows tell of STS alone."""
    theirs = {"train": {"train"}, "dev": {"validation", "dev"}, "test": {"test"}}
    for task in TASKS:
        named = [(split.name, split.hub) for split in task.splits if split.hub is not None and not split.parts]
        for name, hub in named:
            if hub.archive is not None:  # SentEval's folder has a file for each split
                continue
            kind = name.partition("_")[0]
            if kind not in theirs:
                assert name == "all", (task.name, name)
                continue
            pieces = {re.sub("_(matched|mismatched|r[123])$", "", piece) for piece in hub.split.split("+")}
            also = {"validation"} if (task.name, name) == ("mrpc", "train") else set()  # MRPC itself has no dev split
            assert pieces - also <= theirs[kind], (task.name, name, hub)
            assert all(mark in hub.split for mark in re.findall("(?:mis)?matched|r[123]", name)), (task.name, name, hub)


@pytest.mark.parametrize(
    ("task", "number", "name"),
    [("wnli", 1, "entailment"), ("rte", 1, "not_entailment"), ("qnli", 0, "entailment"), ("anli", 2, "contradiction"),
     ("dbpedia", 0, "Company"), ("dbpedia", 8, "Village"), ("dbpedia", 13, "WrittenWork")],
)  # fmt: skip
def test_the_hubs_numbers_of_the_classes(task: str, number: int, name: str) -> None:
    """As the data sets' cards have them."""
    classes = task_named(task).classes
    assert classes is not None
    assert classes[number] == name


def test_the_hidden_test_sets_of_glue_are_not_listed() -> None:
    """Of MRPC alone the labels are public."""
    hidden = [
        (task.name, split.name)
        for task in TASKS
        for split in task.splits
        for source in hub_sources(split)
        if source.name == "nyu-mll/glue" and source.split.startswith("test")
    ]
    assert hidden == [("mrpc", "test")]
    assert all(source.split != "test" for s in task_named("fever_nli").splits for source in hub_sources(s))


@pytest.fixture
def senteval(tmp_path: Path) -> Path:
    root = tmp_path / "SentEval" / "data" / "downstream"
    for subset in ("FNWN", "headlines", "OnWN", "SMT"):
        table(root, f"STS/STS13-en-test/STS.input.{subset}.txt", f"{subset} a\tb\nnever\tscored\n")
        table(root, f"STS/STS13-en-test/STS.gs.{subset}.txt", "2.5\n\n")
    table(root, "STS/STSBenchmark/sts-dev.csv", 'main\tf\t2012\t1\t3.0\t"s1\ts2\tlicence\tx\n')
    for part in ("train", "trial", "test_annotated"):
        table(root, f"SICK/SICK_{part}.txt", f"pair_ID\tA\tB\tscore\tjudgment\n1\t{part}\tb\t4.5\tNEUTRAL\n")
    table(root, "MR/rt-polarity.pos", "good\nfine\n")
    table(root, "MR/rt-polarity.neg", "bad\n")
    table(root, "SST/binary/sentiment-dev", "nice\t1\n")
    table(root, "TREC/TREC_10.label", "NUM:dist How far ?\n")
    table(root, "MRPC/msr_paraphrase_test.txt", "Quality\tid1\tid2\ts1\ts2\n1\t7\t8\tx\ty\n")
    return root


@pytest.mark.parametrize("up", [0, 1, 2, 3])
def test_sentevals_own_folder(senteval: Path, up: int) -> None:
    folder = [senteval, *senteval.parents][up]
    sts = load_pairs("sts13", "test", data=folder)
    assert sts.subsets == ["FNWN", "headlines", "OnWN"]
    assert sts.sentences1[0] == "FNWN a"
    assert load_pairs("stsb", "dev", data=folder).sentences1 == ['"s1']
    assert load_pairs("sickr", "test", data=folder).sentences1 == ["test_annotated"]
    assert load_pairs("sickr-full", "all", data=folder).scores == [4.5] * 3
    assert load_labelled("mr", "all", data=folder).labels == [1, 1, 0]
    assert load_labelled("sst2", "dev", data=folder).labels == [1]
    assert load_labelled("trec", "test", data=folder).sentences1 == ["How far ?"]
    assert load_labelled("mrpc", "test", data=folder).sentences2 == ["y"]
    assert is_local("sts13", "test", folder)
    assert not is_local("sts12", "test", folder)
    with pytest.raises(UserError, match="nor are SentEval's files"):
        load_pairs("sts12", "test", data=folder)


def test_broken_senteval_files(senteval: Path) -> None:
    gold = table(senteval, "STS/STS13-en-test/STS.gs.FNWN.txt", "2.5\n")
    with pytest.raises(UserError, match="belong together line by line"):
        load_pairs("sts13", "test", data=senteval)
    gold.write_text("2.5\n1\n")
    path = table(senteval, "STS/STS13-en-test/STS.input.FNWN.txt", "a\tb\nalone\n")
    with pytest.raises(UserError) as caught:
        load_pairs("sts13", "test", data=senteval)
    assert f"{path}:2: 1 tab-separated fields where 2 are needed" in str(caught.value)
    path = table(senteval, "TREC/TREC_10.label", "no class\n")
    with pytest.raises(UserError, match=r"TREC_10\.label:1: expected 'CLASS:detail question'"):
        load_labelled("trec", "test", data=senteval)


def test_task_names_are_unique_and_splits_findable() -> None:
    assert len({task.name for task in TASKS}) == len(TASKS)
    for task in TASKS:
        assert task.licence
        assert task_named(task.name) is task
        assert len({split.name for split in task.splits}) == len(task.splits)


def test_list(tmp_path: Path) -> None:
    rows = {row.name: row for row in list_data()}
    assert rows["sts13"].where == "hf:mteb/sts13-sts"
    assert rows["sts13"].rows == 1500
    assert rows["mpqa"].where == "hf:princeton-nlp/datasets-for-simcse"
    assert rows["textfooler/mr"].where == MISSING
    assert rows["wiki"].where == "hf:princeton-nlp/datasets-for-simcse"
    table(tmp_path, "sts12/test.tsv", HEADER + "a\tb\t1\tx\n")
    table(tmp_path, "unlabelled/wiki_dev.tsv", "sentence\na\n")
    rows = {row.name: row for row in list_data(tmp_path)}
    assert (rows["sts12"].splits, rows["sts12"].where) == (("test",), str(tmp_path / "sts12"))
    assert rows["sts13"].where == "hf:mteb/sts13-sts"
    assert rows["textfooler/mr"].where == MISSING
    assert rows["wiki-dev"].where.startswith(str(tmp_path))


def test_check(tmp_path: Path, senteval: Path) -> None:
    with pytest.raises(UserError, match="no data folder to check"):
        check_data()
    folder = tmp_path / "data"
    folder.mkdir()
    with pytest.raises(UserError, match="none of the known data sets"):
        check_data(folder)
    table(folder, "sts12/test.tsv", HEADER + "a\tb\t1\tx\n")
    broken = table(folder, "sts13/test.tsv", HEADER + "a\n")
    paths = [table(folder, f"stsb/{name}.tsv", HEADER) for name in ("dev", "test")]
    entries = [{"file": f"stsb/{path.name}", "rows": 0, "sha256": sha256(path)} for path in paths]
    entries.append({"file": "stsb/train.tsv", "rows": 0, "sha256": "0"})
    write_json(folder / "manifest.json", {"files": entries})
    paths[1].write_text(HEADER + "a\tb\t1\tx\n")
    rows = {row.file: row for row in check_data(folder)}
    assert {name: row.status for name, row in rows.items()} == {
        "sts12/test.tsv": "changed",
        "sts13/test.tsv": "changed",
        "stsb/dev.tsv": "ok",
        "stsb/test.tsv": "changed",
        "stsb/train.tsv": "missing",
    }
    assert "1 rows, 3,108 are expected" in rows["sts12/test.tsv"].note
    assert f"{broken}:2: " in rows["sts13/test.tsv"].note
    assert "manifest" in rows["stsb/test.tsv"].note
    assert rows["stsb/dev.tsv"].sha256 == sha256(paths[0])
    assert {row.status for row in check_data(senteval)} == {"ok"}
    (folder / "manifest.json").write_text("[]")
    with pytest.raises(UserError, match="is not a manifest"):
        list_data(folder)


# The real files.

STS = [(task.name, split.name, split.rows) for task in TASKS if task.kind == "sts" for split in task.splits]
# No consensus label (dropped on loading), or two rows that the only public copy lacks.
FEWER = {("snli", "dev"): 9842, ("snli", "test"): 9824, ("anli_mix", "dev_mix"): 9815 + 9842} | {
    pair: 1198 + more
    for task in ("anli", "anli_mix")
    for pair, more in {(task, "dev_r3"): 0, (task, "dev_all"): 2000, ("anli_r3", "dev"): 0}.items()
}


@pytest.mark.parametrize(("task", "split", "rows"), STS)
def test_real_pairs(real_data: Path, task: str, split: str, rows: int) -> None:
    pairs = load_pairs(task, split)
    assert len(pairs.scores) == len(pairs.sentences1) == len(pairs.sentences2) == len(pairs.subsets) == rows
    low, high = (1, 5) if task.startswith("sickr") else (0, 5)
    assert low <= min(pairs.scores) < max(pairs.scores) <= high
    assert all(pairs.sentences1)
    assert all(pairs.sentences2)
    if task_named(task).split(split).senteval:
        tokenised = load_pairs(task, split, text="senteval")
        assert tokenised.scores == pairs.scores
        assert tokenised.sentences1 != pairs.sentences1


@pytest.mark.parametrize("year", [f"sts{year}" for year in range(12, 17)])
def test_real_subsets_are_those_that_senteval_reads(real_data: Path, year: str) -> None:
    """Two of 2012's SentEval calls "surprise.": they were the surprise of that year's task."""
    read = {subset.removeprefix("surprise.") for subset in senteval_files._SUBSETS[year.upper()]}
    assert set(load_pairs(year, "test").subsets) == read


@pytest.mark.parametrize("task", [task for task in TASKS if task.label and task.kind != "sts"], ids=lambda t: t.name)
def test_real_labelled(real_data: Path, task: object) -> None:
    from holdfast.data.tasks import Task

    assert isinstance(task, Task)
    for split in task.splits:
        if is_local(task.name, split.name):
            found = load_labelled(task.name, split.name)
            assert len(found.labels) == FEWER.get((task.name, split.name), split.rows)
            assert set(found.labels) == set(range(len(found.classes)))


@pytest.mark.slow
def test_real_folder_checks_out(real_data: Path) -> None:
    assert {row.status for row in check_data()} == {"ok"}


def test_real_wiki(real_data: Path, tmp_path: Path) -> None:
    from holdfast.data.corpus import spool_corpus

    spooled = spool_corpus("unlabelled/wiki_train_00.tsv.gz", folder=tmp_path, at_least=64)
    assert (spooled.sentences, spooled.skipped_blank) == (100_000, 0)
