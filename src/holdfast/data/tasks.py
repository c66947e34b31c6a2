"""The labelled tasks and resources that are known by name: where each split lies, what it holds, whose terms apply.

Locally a split is ``<file>.tsv[.gz|.zst]`` under the data folder. Row counts are the published ones; a hub data set
that differs from them is not the task and is refused for the similarity tasks, whose scores would not be comparable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.data.hub import HubSource
from holdfast.errors import UserError, did_you_mean

PAIR = ("sentence1", "sentence2")
SINGLE = ("sentence",)
NLI = ("entailment", "neutral", "contradiction")
BINARY = ("0", "1")


@dataclass(frozen=True)
class Split:
    """One split of a task.

    Args:
        name: ``test``, ``dev``, ``train``, ``all``, ...
        files: paths under the data folder without ``.tsv.gz``; several are read one after the other.
        rows: how many rows it holds.
        hub: the same split on the hub, or ``None`` where the hub has no faithful copy that loads without a script.
        hub_columns: the hub's names for the text columns and the label, where they differ from the task's.
        senteval: whether there is a second file, ``<file>_senteval``, with the text as SentEval tokenises it.
    """

    name: str
    files: tuple[str, ...]
    rows: int | None = None
    hub: HubSource | None = None
    hub_columns: tuple[str, ...] | None = None
    senteval: bool = False


@dataclass(frozen=True)
class Task:
    """A labelled task, or a resource that is only listed (``label`` is then ``None``).

    Args:
        name: the id used everywhere.
        kind: ``sts`` (scored pairs), ``transfer``, ``classification``, ``pairs``, ``nli``, ``attack``, ``paraphrase``
            or ``lexicon``.
        columns: the text columns, one or two.
        label: the column of the score or label.
        classes: the labels in the order of their numbers; ``None`` means those that occur, sorted.
        splits: what there is.
        licence: whose terms apply, as far as the source says.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    label: str | None
    classes: tuple[str, ...] | None
    splits: tuple[Split, ...]
    licence: str

    def split(self, name: str) -> Split:
        """The split called ``name``; a `UserError` that lists the splits when there is none."""
        for split in self.splits:
            if split.name == name:
                return split
        names = [split.name for split in self.splits]
        raise UserError(f"{self.name} has no split {name!r}{did_you_mean(name, names)}: it has {', '.join(names)}")


def task_named(name: str) -> Task:
    """The task called ``name``; a `UserError` that offers the nearest name when there is none."""
    tasks = {task.name: task for task in TASKS}
    if name not in tasks:
        raise UserError(f"unknown task {name!r}{did_you_mean(name, tasks)}: `holdfast data list` shows all of them")
    return tasks[name]


def _sts(year: str, rows: int, train: int | None = None) -> Task:
    hub = f"mteb/sts{year}-sts"
    splits = [Split("test", (f"sts{year}/test",), rows, HubSource(hub, split="test"), senteval=True)]
    if train is not None:
        splits.append(Split("train", (f"sts{year}/train",), train, HubSource(hub)))
    return Task(f"sts{year}", "sts", PAIR, "score", None, tuple(splits), "SemEval STS, terms per source")


def _stsb() -> Task:
    hub = "mteb/stsbenchmark-sts"
    splits = tuple(
        Split(name, (f"stsb/{name}",), rows, HubSource(hub, split=there), senteval=True)
        for name, there, rows in (("dev", "validation", 1500), ("test", "test", 1379), ("train", "train", 5749))
    )
    return Task("stsb", "sts", PAIR, "score", None, splits, "STS Benchmark, terms per source")


def _sick() -> Iterator[Task]:
    licence = "CC BY-NC-SA 3.0 (Marelli et al. 2014)"
    # The splits come from files only: MTEB's copy has all pairs in one, and no other is known to be complete.
    rows = {"test": 4927, "train": 4500, "trial": 500}
    splits = tuple(Split(name, (f"sickr/{name}",), count) for name, count in rows.items())
    yield Task("sickr", "sts", PAIR, "score", None, splits, licence)
    files = ("sickr/train", "sickr/trial", "sickr/test")
    whole = Split("all", files, 9927, HubSource("mteb/sickr-sts", split="test"))
    yield Task("sickr-full", "sts", PAIR, "score", None, (whole,), licence)


def _transfer() -> Iterator[Task]:
    tomatoes = HubSource("cornell-movie-review-data/rotten_tomatoes", split="train+validation+test")
    text = ("text", "label")
    mr = (Split("all", ("mr/all",), 10662, tomatoes, text), Split("all_sentconv", ("mr/all_sentconv",), 10662))
    yield Task("mr", "transfer", SINGLE, "label", BINARY, mr, "research use (Pang & Lee 2005)")
    cr = (Split("all", ("cr/all",), 3775, HubSource("SetFit/SentEval-CR", split="train+test"), text),)
    yield Task("cr", "transfer", SINGLE, "label", BINARY, cr, "research use (Hu & Liu 2004)")
    # SUBJ and MPQA come from files only: no hub copy is known to be the same set with the same classes.
    subj = (Split("all", ("subj/all",), 10000), Split("all_sentconv", ("subj/all_sentconv",), 10000))
    yield Task("subj", "transfer", SINGLE, "label", BINARY, subj, "research use (Pang & Lee 2004)")
    mpqa = (Split("all", ("mpqa/all",), 10606),)
    yield Task("mpqa", "transfer", SINGLE, "label", BINARY, mpqa, "research use (Wiebe et al. 2005)")
    sst2 = (
        Split("dev", ("sst2/dev",), 872, HubSource("SetFit/sst2", split="validation"), text),
        Split("test", ("sst2/test",), 1821, HubSource("SetFit/sst2", split="test"), text),
        Split("train", ("sst2/train",), 67349, HubSource("stanfordnlp/sst2")),
        Split("train_sentences", ("sst2/train_sentences",), 6920, HubSource("SetFit/sst2"), text),
    )
    yield Task("sst2", "transfer", SINGLE, "label", BINARY, sst2, "research use (Socher et al. 2013)")
    coarse = ("text", "label_coarse_original")
    trec = (
        Split("test", ("trec/test",), 500, HubSource("SetFit/TREC-QC", split="test"), coarse),
        Split("train", ("trec/train",), 5452, HubSource("SetFit/TREC-QC"), coarse),
    )
    kinds = ("ABBR", "ENTY", "DESC", "HUM", "LOC", "NUM")
    yield Task("trec", "transfer", SINGLE, "label", kinds, trec, "research use (Li & Roth 2002)")
    mrpc = (
        Split("test", ("mrpc/test",), 1725, HubSource("nyu-mll/glue", "mrpc", "test"), senteval=True),
        Split("train", ("mrpc/train",), 4076, HubSource("nyu-mll/glue", "mrpc", "train+validation"), senteval=True),
    )
    yield Task("mrpc", "transfer", PAIR, "label", BINARY, mrpc, "Microsoft Research data licence, research use")


def _classification() -> Iterator[Task]:
    text = ("text", "label")
    news = (
        Split("test", ("ag_news/test",), 7600, HubSource("fancyzhu/ag_news", split="test"), text),
        Split("train", ("ag_news/train",), 120000, HubSource("fancyzhu/ag_news"), text),
        Split("train_sample", ("ag_news/train_sample",), 17284),
    )
    licence = "AG corpus, non-commercial research use"
    yield Task("ag_news", "classification", SINGLE, "label", ("0", "1", "2", "3"), news, licence)
    imdb = (
        Split("test", ("imdb/test",), 25000, HubSource("stanfordnlp/imdb", split="test"), text),
        Split("train", ("imdb/train",), 25000, HubSource("stanfordnlp/imdb"), text),
        Split("test_sample", ("imdb/test_sample",), 5000),
        Split("train_sample", ("imdb/train_sample",), 5000),
    )
    yield Task("imdb", "classification", SINGLE, "label", BINARY, imdb, "research use (Maas et al. 2011)")
    dbpedia = (
        Split("test_sample", ("dbpedia/test_sample",), 5000),
        Split("val_sample", ("dbpedia/val_sample",), 5000),
    )
    # The numbers in the files follow nobody's order but the sampler's; the names are unambiguous.
    yield Task("dbpedia", "classification", SINGLE, "class", None, dbpedia, "CC BY-SA 3.0 (DBpedia)")
    stars = ("1.0", "2.0", "3.0", "4.0", "5.0")
    yelp = (Split("reviews_stars", ("yelp/reviews_stars",), 5000),)
    yield Task("yelp", "classification", SINGLE, "stars", stars, yelp, "Yelp Open Dataset terms, academic use")


def _pairs() -> Iterator[Task]:
    premise = ("premise", "hypothesis", "label")
    snli = (
        Split("dev", ("snli/dev",), 10000, HubSource("stanfordnlp/snli", split="validation"), premise),
        Split("test", ("snli/test",), 10000, HubSource("stanfordnlp/snli", split="test"), premise),
        Split("train", ("snli/train",), None, HubSource("stanfordnlp/snli"), premise),
        Split("test_hard", ("snli/test_hard",), 3261),
    )
    yield Task("snli", "nli", PAIR, "label", NLI, snli, "CC BY-SA 4.0 (SNLI)")
    glue = "nyu-mll/glue"
    mnli = (
        Split("dev_matched", ("mnli/dev_matched",), 9815, HubSource(glue, "mnli", "validation_matched"), premise),
        Split(
            "dev_mismatched", ("mnli/dev_mismatched",), 9832, HubSource(glue, "mnli", "validation_mismatched"), premise
        ),
        Split("train", ("mnli/train",), 392702, HubSource(glue, "mnli"), premise),
    )
    yield Task("mnli", "nli", PAIR, "label", NLI, mnli, "OANC, CC BY-SA 3.0 and others (MNLI)")
    anli = tuple(
        Split(
            f"{part}_r{r}",
            (f"anli/{part}_r{r}",),
            1200 if r == 3 else 1000,
            HubSource("facebook/anli", None, f"{part}_r{r}"),
            premise,
        )
        for part in ("dev", "test")
        for r in (1, 2, 3)
    )
    yield Task("anli", "nli", PAIR, "label", NLI, anli, "CC BY-NC 4.0 (ANLI)")
    question = ("question", "sentence", "label")
    two = ("entailment", "not_entailment")
    qnli = (Split("dev", ("qnli/dev",), 5463, HubSource(glue, "qnli", "validation"), question),)
    yield Task("qnli", "pairs", PAIR, "label", two, qnli, "CC BY-SA 4.0 (SQuAD, GLUE)")
    rte = (
        Split("dev", ("rte/dev",), 277, HubSource(glue, "rte", "validation")),
        Split("train", ("rte/train",), 2490, HubSource(glue, "rte")),
    )
    yield Task("rte", "pairs", PAIR, "label", two, rte, "research use (GLUE)")
    quora = ("question1", "question2", "label")
    qqp = (
        Split("dev_10k", ("qqp/dev_10k",), 9917),
        Split("test_10k", ("qqp/test_10k",), 9928),
        Split("dev", ("qqp/dev",), 40430, HubSource(glue, "qqp", "validation"), quora),
    )
    yield Task("qqp", "pairs", PAIR, "label", BINARY, qqp, "Quora terms, non-commercial research use")


def _textfooler() -> Iterator[Task]:
    licence = "MIT (jind11/TextFooler); the underlying set's terms apply"
    single = {"ag": ("0", "1", "2", "3"), "imdb": BINARY, "mr": BINARY, "yelp": BINARY}
    for name, classes in single.items():
        splits = (Split("all", (f"textfooler/{name}",), 1000),)
        yield Task(f"textfooler/{name}", "attack", SINGLE, "label", classes, splits, licence)
    for name in ("snli", "mnli", "mnli_matched", "mnli_mismatched"):
        splits = (Split("all", (f"textfooler/{name}",), 1000),)
        yield Task(f"textfooler/{name}", "attack", PAIR, "label", NLI, splits, licence)


def _resources() -> Iterator[Task]:
    wikisplit = (Split("eval", ("wikisplit/eval",), 15000),)
    yield Task("wikisplit", "paraphrase", PAIR, None, None, wikisplit, "CC BY-SA 4.0 (wiki-split)")
    lists = {
        "counterfit_vocabulary": 76427,
        "counterfitted_neighbors": 49975,
        "ppdb_antonyms": 638,
        "ppdb_synonyms": 53809,
        "wordnet_antonyms": 12574,
    }
    synonyms = tuple(Split(name, (f"synonyms/{name}",), rows) for name, rows in lists.items())
    licence = "Apache-2.0 (counter-fitting), MIT (neighbours), CC BY 3.0 (PPDB)"
    yield Task("synonyms", "lexicon", (), None, None, synonyms, licence)
    parts = {"exceptions": 5952, "synsets": 117659}
    wordnet = tuple(Split(name, (f"wordnet/{name}",), rows) for name, rows in parts.items())
    yield Task("wordnet", "lexicon", (), None, None, wordnet, "WordNet 3.0 licence")


TASKS: tuple[Task, ...] = (
    _sts("12", 3108, train=2234),
    _sts("13", 1500),
    _sts("14", 3750),
    _sts("15", 3000),
    _sts("16", 1186),
    _stsb(),
    *_sick(),
    *_transfer(),
    *_classification(),
    *_pairs(),
    *_textfooler(),
    *_resources(),
)
