"""Items of labelled inference sets: which pairs count, and P(entailed pair nearer) by hand."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited import by_task, run

from holdfast.audit import labelled_items
from holdfast.audit.item_rows import NotMeasured
from holdfast.audit.labelled_items import INFERENCE_SETS, overlap, placements, read_pairs
from holdfast.errors import UserError


def write_set(data: Path, file: str, rows: list[tuple[str, str, str]], label: str = "label") -> None:
    path = data / f"{file}.tsv.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8", newline="\n") as stream:
        stream.write(f"sentence1\tsentence2\t{label}\n" + "".join("\t".join(row) + "\n" for row in rows))


def test_the_probability_is_the_area_under_the_curve_with_ties_as_half() -> None:
    entailed, contradicted = np.array([0.9, 0.5, 0.7]), np.array([0.6, 0.7, 0.1])
    assert placements(entailed, contradicted).tolist() == pytest.approx([2 / 3, 1.5 / 3, 1.0])
    rng = np.random.default_rng(0)
    entailed, contradicted = rng.normal(0.5, 1, 200).round(1), rng.normal(0, 1, 300).round(1)
    slow = np.mean([(e > c) + 0.5 * (e == c) for e in entailed for c in contradicted])
    assert placements(entailed, contradicted).mean() == pytest.approx(slow)


def test_only_labelled_pairs_that_share_most_words_count(tmp_path: Path) -> None:
    assert overlap("A dog runs.", "a cat runs") == pytest.approx(2 / 4)
    rows = [
        ("a dog runs", "A dog runs fast", "entailment"),
        ("a dog runs", "a dog does not run", "neutral"),
        ("a dog runs", "a dog sleeps", "CONTRADICTION"),
        ("a dog runs", "nothing else is here", "contradiction"),
        ("a dog runs", "a dog", "-"),
    ]
    write_set(tmp_path, "snli/dev", rows)
    pairs = read_pairs(INFERENCE_SETS[1], tmp_path)
    assert [(pair.row, pair.entailed) for pair in pairs] == [(0, True), (2, False)]
    with pytest.raises(NotMeasured, match=r"mnli: .*mnli/dev_matched\.tsv"):
        read_pairs(INFERENCE_SETS[2], tmp_path)
    write_set(tmp_path, "mnli/dev_matched", rows, label="gold")
    assert read_pairs(INFERENCE_SETS[2], tmp_path) == [], "a file without this column has no labels"
    (tmp_path / "mnli" / "dev_matched.tsv.gz").unlink()
    (tmp_path / "mnli" / "dev_matched.tsv").write_text("first\tsecond\tlabel\n")
    with pytest.raises(UserError, match="sentence1"):
        read_pairs(INFERENCE_SETS[2], tmp_path)


def test_a_set_at_hand_is_an_item(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With cosines that are known: the entailed second sentence has a word more, the contradicted one another word."""
    Path("counting.py").write_text(
        "import numpy as np\n"
        "def embed(texts):\n"
        "    # An angle of the number of words in common with the premise: 'no' turns the vector further\n"
        "    rows = [[1.0, 0.01 * len(t) + ('no' in t.split()), ('so' in t.split()) * 0.5] for t in texts]\n"
        "    return np.array(rows)\n"
    )
    monkeypatch.syspath_prepend(str(here))
    words = ["red", "big", "old", "new", "bad", "hot", "dry", "wet"]
    entailed = [(f"the {w} dog runs home", f"so the {w} dog runs home", "entailment") for w in words]
    contradicted = [(f"the {w} cat runs home", f"no the {w} cat runs home", "contradiction") for w in words]
    write_set(here / "data", "breaking_nli/test", entailed + contradicted)
    result = run("call:counting:embed", examples=1)
    row = by_task(result)["audit-breaking-nli-test"]
    assert row["n"] == len(row["items"]["text"]) == 8
    assert row["entailed"] == 8 == len(row["entailed_nearer"])
    assert np.mean(row["entailed_nearer"]) == np.mean(row["items"]["nearer"])
    assert row["side"] == "move"
    assert row["metrics"]["p_entailed_nearer"] == 1.0
    assert row["verdict"] == "holds"
    assert row["metrics"]["cosine_entailed"] > row["metrics"]["cosine_contradicted"]
    assert by_task(result)["audit-snli"]["verdict"] == "absent"


def test_few_pairs_are_not_measured(tmp_path: Path) -> None:
    from types import SimpleNamespace

    write_set(tmp_path, "snli/dev", [("a dog runs", "A dog runs fast", "entailment")] * 9)
    context: Any = SimpleNamespace(settings=SimpleNamespace(data=tmp_path, seed=1, texts_per_item=5))
    with pytest.raises(NotMeasured, match="snli has 0 pairs"):
        labelled_items.inference_items(context, INFERENCE_SETS[1])


def test_the_sets_of_the_data_folder_are_read() -> None:
    import os

    data = os.environ.get("HOLDFAST_DATA")
    if data is None or not (Path(data) / "breaking_nli").is_dir():
        pytest.skip("needs breaking_nli, snli, mnli and sickr in HOLDFAST_DATA")
    for inference in INFERENCE_SETS:
        pairs = read_pairs(inference, Path(data))
        assert min(sum(p.entailed for p in pairs), sum(not p.entailed for p in pairs)) >= 20, inference.name
