"""The registered tasks and resources: location, content and licence of each split.

Locally a split is ``<file>.tsv[.gz|.zst]`` under the data folder. Row counts are the published ones; for similarity
tasks a hub data set with another count is refused, because its scores would not be comparable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.data import own_tasks
from holdfast.data.hub import HubSource
from holdfast.errors import UserError, did_you_mean

PAIR = ("sentence1", "sentence2")
SINGLE = ("sentence",)
STS_SCALE = (0.0, 5.0)
NLI = ("entailment", "neutral", "contradiction")
BINARY = ("0", "1")
POLARITY = ("negative", "positive")
SAME = ("not_equivalent", "equivalent")
NEWS = ("World", "Sports", "Business", "Sci/Tech")
PREMISE = ("premise", "hypothesis", "label")
GLUE = "nyu-mll/glue"
DBPEDIA = (
    *("Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder", "MeanOfTransportation", "Building"),
    *("NaturalPlace", "Village", "Animal", "Plant", "Album", "Film", "WrittenWork"),
)


@dataclass(frozen=True)
class Split:
    """One split of a task.

    Args:
        name: ``test``, ``dev``, ``train``, ``all``, ...
        files: paths under the data folder without ``.tsv.gz``; several are read in this order.
        rows: number of rows.
        hub: the same split on the hub, or ``None`` if the hub has no faithful copy that loads without a script.
        hub_columns: the hub's names of the text columns and the label, if they differ from the task's.
        senteval: True if there is a second file, ``<file>_senteval``, with the text as SentEval tokenises it.
        parts: in place of files, the ``(task, split)`` pairs that are joined to this split.
        label: the label column in the files, if it is not the task's.
        relabel: ``(value in the files, class)`` if the two differ; rows whose class is ``None`` are left out.
        own: a user's own file, in place of all of these.
    """

    name: str
    files: tuple[str, ...]
    rows: int | None = None
    hub: HubSource | None = None
    hub_columns: tuple[str, ...] | None = None
    senteval: bool = False
    parts: tuple[tuple[str, str], ...] = ()
    label: str | None = None
    relabel: tuple[tuple[str, str | None], ...] = ()
    own: Path | None = None


@dataclass(frozen=True)
class Task:
    """A labelled task, or a resource that is only listed (``label`` is then ``None``).

    Args:
        name: the id.
        kind: ``sts`` (scored pairs), ``regression`` (scored texts), ``transfer``, ``classification``, ``pairs``,
            ``nli``, ``attack``, ``paraphrase`` or ``lexicon``.
        columns: the text columns, one or two.
        label: the column of the score or label.
        classes: the labels in the order of their numbers; ``None`` means those that occur, sorted.
        splits: the splits.
        licence: the licence or terms, as given by the source.
        measured: the splits on which a classifier is measured; ``()`` means those whose names begin with ``test``.
        grouped: True if pairs share first texts (a premise with several hypotheses), so that a held-out part must take
            all pairs of a first text.
        meanings: the meanings of classes whose names are numbers, in the same order.
        scale: the lowest and the highest score; None: any number.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    label: str | None
    classes: tuple[str, ...] | None
    splits: tuple[Split, ...]
    licence: str
    measured: tuple[str, ...] = ()
    grouped: bool = False
    meanings: tuple[str, ...] = ()
    scale: tuple[float, float] | None = None

    @property
    def is_own(self) -> bool:
        """True if the task consists of a user's own files."""
        return any(split.own is not None for split in self.splits)

    def split(self, name: str) -> Split:
        """Return the split ``name``; raise a `UserError` that lists the splits if there is none."""
        for split in self.splits:
            if split.name == name:
                return split
        names = [split.name for split in self.splits]
        raise UserError(f"{self.name} has no split {name!r}{did_you_mean(name, names)}: it has {', '.join(names)}")


def task_named(name: str) -> Task:
    """Return the task ``name``, or the task of a user's own file or folder (see :mod:`holdfast.data.own_tasks`).

    Raises:
        UserError: there is no such task (the nearest name is suggested), or the file cannot be a task.
    """
    tasks = {task.name: task for task in TASKS}
    if name in tasks:
        return tasks[name]
    files = own_tasks.files_of(name)
    if files is None:
        raise UserError(
            f"unknown task {name!r}{did_you_mean(name, tasks)}: `holdfast data list` shows all of them; "
            "a FILE.tsv or FILE.jsonl of your own, or a folder with train, dev and test, is one too"
        )
    return _own_task(name, files)


def sources(split: Split) -> frozenset[str]:
    """Return the files of a split; two splits with a file in common share rows."""
    if split.own is not None:
        return frozenset({str(split.own)})
    parts = (sources(task_named(task).split(name)) for task, name in split.parts)
    return frozenset(split.files).union(*parts)


def hub_sources(split: Split) -> tuple[HubSource, ...]:
    """Return the sources of a split on the hub; ``()`` if it, or a part of it, has no faithful copy there."""
    if not split.parts:
        return () if split.hub is None else (split.hub,)
    parts = [hub_sources(task_named(task).split(name)) for task, name in split.parts]
    return tuple(source for part in parts for source in part) if all(parts) else ()


def _own_task(name: str, files: dict[str, Path]) -> Task:
    """Build a user's own task: the first file gives the columns; the other files are checked when they are read."""
    columns, label = own_tasks.columns_of(next(iter(files.values())))
    pairs = len(columns) == 2
    kinds = ("regression", "sts") if label == "score" else ("classification", "pairs")
    splits = tuple(Split(split, (), own=path) for split, path in files.items())
    return Task(name, kinds[pairs], columns, label, None, splits, "the user's own", grouped=pairs)


def _sts(year: str, rows: int, train: int | None = None) -> Task:
    hub = f"mteb/sts{year}-sts"
    splits = [Split("test", (f"sts{year}/test",), rows, HubSource(hub, split="test"), senteval=True)]
    if train is not None:
        splits.append(Split("train", (f"sts{year}/train",), train, HubSource(hub)))
    return Task(
        f"sts{year}", "sts", PAIR, "score", None, tuple(splits), "SemEval STS, terms per source", scale=STS_SCALE
    )


def _stsb() -> Task:
    hub = "mteb/stsbenchmark-sts"
    splits = tuple(
        Split(name, (f"stsb/{name}",), rows, HubSource(hub, split=there), senteval=True)
        for name, there, rows in (("dev", "validation", 1500), ("test", "test", 1379), ("train", "train", 5749))
    )
    return Task("stsb", "sts", PAIR, "score", None, splits, "STS Benchmark, terms per source", scale=STS_SCALE)


def _sick() -> Iterator[Task]:
    licence = "CC BY-NC-SA 3.0 (Marelli et al. 2014)"
    # The splits come from files only: MTEB's copy has all pairs in one, and no other is known to be complete.
    rows = {"test": 4927, "train": 4500, "trial": 500}
    splits = tuple(Split(name, (f"sickr/{name}",), count) for name, count in rows.items())
    yield Task("sickr", "sts", PAIR, "score", None, splits, licence, scale=(1.0, 5.0))
    files = ("sickr/train", "sickr/trial", "sickr/test")
    whole = Split("all", files, 9927, HubSource("mteb/sickr-sts", split="test"))
    yield Task("sickr-full", "sts", PAIR, "score", None, (whole,), licence, scale=(1.0, 5.0))


def _transfer() -> Iterator[Task]:
    tomatoes = HubSource("cornell-movie-review-data/rotten_tomatoes", split="train+validation+test")
    text = ("text", "label")
    mr = (Split("all", ("mr/all",), 10662, tomatoes, text), Split("all_sentconv", ("mr/all_sentconv",), 10662))
    yield Task("mr", "transfer", SINGLE, "label", BINARY, mr, "research use (Pang & Lee 2005)", meanings=POLARITY)
    cr = (Split("all", ("cr/all",), 3775, HubSource("SetFit/SentEval-CR", split="train+test"), text),)
    yield Task("cr", "transfer", SINGLE, "label", BINARY, cr, "research use (Hu & Liu 2004)", meanings=POLARITY)
    # SUBJ and MPQA come from files only: no hub copy is known to be the same set with the same classes.
    subj = (Split("all", ("subj/all",), 10000), Split("all_sentconv", ("subj/all_sentconv",), 10000))
    about = ("subjective", "objective")
    yield Task("subj", "transfer", SINGLE, "label", BINARY, subj, "research use (Pang & Lee 2004)", meanings=about)
    mpqa = (Split("all", ("mpqa/all",), 10606),)
    yield Task("mpqa", "transfer", SINGLE, "label", BINARY, mpqa, "research use (Wiebe et al. 2005)", meanings=POLARITY)
    sst2 = (
        Split("dev", ("sst2/dev",), 872, HubSource("SetFit/sst2", split="validation"), text),
        Split("test", ("sst2/test",), 1821, HubSource("SetFit/sst2", split="test"), text),
        Split("train", ("sst2/train",), 67349, HubSource("stanfordnlp/sst2")),
        Split("train_sentences", ("sst2/train_sentences",), 6920, HubSource("SetFit/sst2"), text),
    )
    yield Task(
        "sst2", "transfer", SINGLE, "label", BINARY, sst2, "research use (Socher et al. 2013)", meanings=POLARITY
    )
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
    licence = "Microsoft Research data licence, research use"
    yield Task("mrpc", "transfer", PAIR, "label", BINARY, mrpc, licence, meanings=SAME)


def _classification() -> Iterator[Task]:
    text = ("text", "label")
    news = (
        Split("test", ("ag_news/test",), 7600, HubSource("fancyzhx/ag_news", split="test"), text),
        Split("train", ("ag_news/train",), 120000, HubSource("fancyzhx/ag_news"), text),
        Split("train_sample", ("ag_news/train_sample",), 17284),
    )
    licence = "AG corpus, non-commercial research use"
    yield Task("ag_news", "classification", SINGLE, "label", ("0", "1", "2", "3"), news, licence, meanings=NEWS)
    imdb = (
        Split("test", ("imdb/test",), 25000, HubSource("stanfordnlp/imdb", split="test"), text),
        Split("train", ("imdb/train",), 25000, HubSource("stanfordnlp/imdb"), text),
        Split("test_sample", ("imdb/test_sample",), 5000),
        Split("train_sample", ("imdb/train_sample",), 5000),
    )
    yield Task(
        "imdb", "classification", SINGLE, "label", BINARY, imdb, "research use (Maas et al. 2011)", meanings=POLARITY
    )
    content = ("content", "label")
    dbpedia = (
        Split("test", ("dbpedia/test",), 70000, HubSource("fancyzhx/dbpedia_14", split="test"), content),
        Split("train", ("dbpedia/train",), 560000, HubSource("fancyzhx/dbpedia_14"), content),
        Split("test_sample", ("dbpedia/test_sample",), 5000),
        Split("val_sample", ("dbpedia/val_sample",), 5000),
    )
    # The numbers in the sample files have an order of their own; the names are unambiguous.
    yield Task("dbpedia", "classification", SINGLE, "class", DBPEDIA, dbpedia, "CC BY-SA 3.0 (DBpedia)")
    stars = ("1.0", "2.0", "3.0", "4.0", "5.0")
    terms = "Yelp Open Dataset terms, academic use"
    yelp = (Split("reviews_stars", ("yelp/reviews_stars",), 5000),)
    yield Task("yelp", "classification", SINGLE, "stars", stars, yelp, terms)
    # Zhang et al. 2015: one and two stars are negative, four and five positive, three are left out.
    polarity = tuple(zip(stars, ("0", "0", None, "1", "1"), strict=True))
    yelp_polarity = (
        Split("test", ("yelp_polarity/test",), 38000, HubSource("fancyzhx/yelp_polarity", split="test"), text),
        Split("train", ("yelp_polarity/train",), 560000, HubSource("fancyzhx/yelp_polarity"), text),
        Split("reviews", ("yelp/reviews_stars",), 4455, label="stars", relabel=polarity),
    )
    yield Task("yelp_polarity", "classification", SINGLE, "label", BINARY, yelp_polarity, terms, meanings=POLARITY)


def _nli() -> Iterator[Task]:
    snli = (
        Split("dev", ("snli/dev",), 10000, HubSource("stanfordnlp/snli", split="validation"), PREMISE),
        Split("test", ("snli/test",), 10000, HubSource("stanfordnlp/snli", split="test"), PREMISE),
        Split("train", ("snli/train",), None, HubSource("stanfordnlp/snli"), PREMISE),
        Split("test_hard", ("snli/test_hard",), 3261),
    )
    yield Task("snli", "nli", PAIR, "label", NLI, snli, "CC BY-SA 4.0 (SNLI)", grouped=True)
    # The labels of MNLI's test sets are hidden: the mismatched dev set is used to measure, the matched one to select.
    mnli = (
        Split("dev_matched", ("mnli/dev_matched",), 9815, HubSource(GLUE, "mnli", "validation_matched"), PREMISE),
        Split(
            "dev_mismatched", ("mnli/dev_mismatched",), 9832, HubSource(GLUE, "mnli", "validation_mismatched"), PREMISE
        ),
        Split("train", ("mnli/train",), 392702, HubSource(GLUE, "mnli"), PREMISE),
    )
    measured = ("dev_matched", "dev_mismatched")
    licence = "OANC, CC BY-SA 3.0 and others (MNLI)"
    yield Task("mnli", "nli", PAIR, "label", NLI, mnli, licence, measured=measured, grouped=True)
    # On the hub the claims are the "premise" and the evidence is the "hypothesis". ANLI's authors (Nie et al. 2020),
    # who made the data, use the evidence as the premise. The test set has no labels.
    claim = ("hypothesis", "premise", "label")
    fever = (
        Split("dev", ("fever_nli/dev",), 19998, HubSource("pietrolesci/nli_fever", split="dev"), claim),
        Split("train", ("fever_nli/train",), 208346, HubSource("pietrolesci/nli_fever"), claim),
    )
    yield Task("fever_nli", "nli", PAIR, "label", NLI, fever, "CC BY-SA 3.0 (FEVER, Wikipedia)", grouped=True)


def _anli() -> Iterator[Task]:
    """Yield ANLI (Nie et al. 2020), each of its rounds, and the mix on which its authors train."""
    licence = "CC BY-NC 4.0 (ANLI)"
    rows = {
        "train": {1: 16946, 2: 45460, 3: 100459},
        "dev": {1: 1000, 2: 1000, 3: 1200},
        "test": {1: 1000, 2: 1000, 3: 1200},
    }

    def split(name: str, part: str, *rounds: int) -> Split:
        names = [f"{part}_r{r}" for r in rounds]
        hub = HubSource("facebook/anli", None, "+".join(names))
        return Split(name, tuple(f"anli/{n}" for n in names), sum(rows[part][r] for r in rounds), hub, PREMISE)

    measured = tuple(split(f"{part}_r{r}", part, r) for part in ("dev", "test") for r in (1, 2, 3))
    dev_all = split("dev_all", "dev", 1, 2, 3)
    names = tuple(part.name for part in measured)
    whole = (*measured, dev_all, split("train", "train", 1, 2, 3))
    yield Task("anli", "nli", PAIR, "label", NLI, whole, licence, measured=names, grouped=True)
    for r in (1, 2, 3):
        splits = tuple(split(part, part, r) for part in ("dev", "test", "train"))
        yield Task(f"anli_r{r}", "nli", PAIR, "label", NLI, splits, licence, grouped=True)
    mixed = (("mnli", "train"), ("snli", "train"), ("anli", "train"), ("fever_nli", "train"))
    mix = (
        *measured,
        dev_all,
        Split("train", (), None, parts=mixed),
        # For a trial without the training sets.
        Split("dev_mix", (), 19815, parts=(("mnli", "dev_matched"), ("snli", "dev"))),
    )
    licence = "CC BY-NC 4.0 (ANLI) and the terms of MNLI, SNLI and FEVER"
    yield Task("anli_mix", "nli", PAIR, "label", NLI, mix, licence, measured=names, grouped=True)


def _pairs() -> Iterator[Task]:
    """Yield GLUE's tasks on pairs, without the test sets, whose labels on the hub are hidden (-1)."""
    question = ("question", "sentence", "label")
    two = ("entailment", "not_entailment")
    qnli = (
        Split("dev", ("qnli/dev",), 5463, HubSource(GLUE, "qnli", "validation"), question),
        Split("train", ("qnli/train",), 104743, HubSource(GLUE, "qnli"), question),
    )
    yield Task("qnli", "pairs", PAIR, "label", two, qnli, "CC BY-SA 4.0 (SQuAD, GLUE)", grouped=True)
    rte = (
        Split("dev", ("rte/dev",), 277, HubSource(GLUE, "rte", "validation")),
        Split("train", ("rte/train",), 2490, HubSource(GLUE, "rte")),
    )
    yield Task("rte", "pairs", PAIR, "label", two, rte, "research use (GLUE)", grouped=True)
    wnli = (
        Split("dev", ("wnli/dev",), 71, HubSource(GLUE, "wnli", "validation")),
        Split("train", ("wnli/train",), 635, HubSource(GLUE, "wnli")),
    )
    # The reverse order of QNLI and RTE.
    yield Task("wnli", "pairs", PAIR, "label", two[::-1], wnli, "research use (GLUE)", grouped=True)
    quora = ("question1", "question2", "label")
    qqp = (
        Split("dev_10k", ("qqp/dev_10k",), 9917),
        Split("test_10k", ("qqp/test_10k",), 9928),
        Split("dev", ("qqp/dev",), 40430, HubSource(GLUE, "qqp", "validation"), quora),
        Split("train", ("qqp/train",), 363846, HubSource(GLUE, "qqp"), quora),
    )
    question_meanings = ("not_duplicate", "duplicate")
    yield Task(
        "qqp",
        "pairs",
        PAIR,
        "label",
        BINARY,
        qqp,
        "Quora terms, non-commercial research use",
        meanings=question_meanings,
    )


def _textfooler() -> Iterator[Task]:
    licence = "MIT (jind11/TextFooler); the underlying set's terms apply"
    single = {"ag": NEWS, "imdb": POLARITY, "mr": POLARITY, "yelp": POLARITY}
    for name, meanings in single.items():
        splits = (Split("all", (f"textfooler/{name}",), 1000),)
        classes = tuple(map(str, range(len(meanings))))
        yield Task(f"textfooler/{name}", "attack", SINGLE, "label", classes, splits, licence, meanings=meanings)
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
    *_nli(),
    *_anli(),
    *_pairs(),
    *_textfooler(),
    *_resources(),
)
