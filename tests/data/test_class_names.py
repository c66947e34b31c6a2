"""Classes of models and tasks are matched by their names, and refused where names do not tell."""

from __future__ import annotations

import pytest

from holdfast.data.class_names import ClassNames
from holdfast.data.labels import ClassMatch, has_classes, match_classes, parse_label_map
from holdfast.data.tasks import TASKS
from holdfast.errors import UserError


def match(model: str, task: str, *, trained_on: str | None = None, named: str | None = None) -> ClassMatch:
    """Match names that are joined by commas; ``trained_on`` and ``named`` are names of known tasks."""
    ours = ClassNames.of("m", model.split(","), trained_on)
    return match_classes(ours, ClassNames.of("t", task.split(","), named))


@pytest.mark.parametrize(
    ("model", "task", "numbers"),
    [
        ("a,b", "a,b", (0, 1)),
        ("b,a", "a,b", (1, 0)),
        ("POSITIVE,NEGATIVE", "neg,pos", (1, 0)),
        ("Positive,Negative,Neutral", "neg,pos", (1, 0)),
        ("POS,NEU,NEG", "negative,neutral,positive", (2, 1, 0)),
        ("NEGATIVE,POSITIVE", "0,1", (0, 1)),
        ("pos,neg", "1", (0,)),
        ("0,1", "pos,neg", (1, 0)),
        ("1,0", "0,1", (1, 0)),
        ("contradiction,entailment,neutral", "entailment,neutral,contradiction", (1, 2, 0)),
        ("REFUTES,NOT ENOUGH INFO,SUPPORTS", "entailment,neutral,contradiction", (2, 1, 0)),
        ("not-entailment,Entailment", "entailment,not_entailment", (1, 0)),
        ("duplicate,not_duplicate", "0,1", (1, 0)),
        ("is_paraphrase,Non-Paraphrase", "not_duplicate,duplicate", (1, 0)),
        ("unacceptable,acceptable", "1,0", (1, 0)),
        ("1 star,2 stars,3 stars,4 stars,5 stars", "1.0,2.0,3.0,4.0,5.0", (0, 1, 2, 3, 4)),
        ("5 stars,4 stars", "4,5", (1, 0)),
        ("Sports,Sci-Tech,World,Business", "world,sport,business,Sci/Tech", (2, 0, 3, 1)),
        ("Written Work,educational institution", "EducationalInstitution,WrittenWork", (1, 0)),
        ("number,location,human,description,entity,abbreviation", "ABBR,ENTY,DESC,HUM,LOC,NUM", (5, 4, 3, 2, 1, 0)),
        ("C++,C#", "C#,C++", (1, 0)),
        ("a,A", "A,a", (1, 0)),
    ],
)
def test_names_of_the_same_meaning_are_matched(model: str, task: str, numbers: tuple[int, ...]) -> None:
    found = match(model, task)
    assert (found.numbers, found.by) == (numbers, "name")
    assert found.classes == model.split(",")


@pytest.mark.parametrize(
    ("model", "task", "numbers"),
    [
        ("LABEL_0,LABEL_1", "0,1", (0, 1)),
        ("LABEL_0,LABEL_1,LABEL_2", "1,2", (1, 2)),
        ("0,1", "LABEL_1,LABEL_0", (1, 0)),
    ],
)
def test_numbers_are_matched_where_there_are_no_names(model: str, task: str, numbers: tuple[int, ...]) -> None:
    found = match(model, task)
    assert (found.numbers, found.by) == (numbers, "number")


@pytest.mark.parametrize(
    ("model", "task"),
    [
        ("LABEL_0,LABEL_1", "neg,pos"),
        ("LABEL_0,LABEL_1", "1,2"),
        ("0,1", "1,2"),
        ("0,1", "entailment,not_entailment"),
        ("0,1,2", "entailment,neutral,contradiction"),
        ("entailment,neutral,contradiction", "0,1,2"),
        ("World,Sports,Business,Sci/Tech", "0,1,2,3"),
        ("entailment,neutral,contradiction", "entailment,not_entailment"),
        ("neg,pos", "cat,dog"),
        ("x,x,y", "x,y"),
        ("POS,positive", "0,1"),
    ],
)
def test_names_that_do_not_tell_are_refused_with_both_sides(model: str, task: str) -> None:
    with pytest.raises(UserError) as caught:
        match(model, task)
    line = str(caught.value)
    assert all(name in line for name in (*model.split(","), *task.split(",")))
    assert "--label-map" in line


def test_the_map_that_a_refusal_shows_can_be_given() -> None:
    ours = ClassNames.of("m", ["contradiction", "entailment", "neutral"])
    task = ClassNames.of("rte", ["entailment", "not_entailment"])
    with pytest.raises(UserError) as caught:
        match_classes(ours, task)
    shown = str(caught.value).partition("--label-map ")[2].partition(" if")[0]
    assert shown == "contradiction=not_entailment,entailment=entailment,neutral=not_entailment"
    found = match_classes(ours, task, parse_label_map(shown))
    assert (found.members, found.by, found.groups) == (((1,), (0, 2)), "label map", ((1,), (0, 2)))
    assert found.describe() == "classes matched by label map: entailment, not_entailment=contradiction+neutral"
    odd = ClassNames.of("m", ["yes, it is", "no=not"])
    with pytest.raises(UserError) as caught:
        match_classes(odd, ClassNames.of("t", ["a", "b"]))
    shown = str(caught.value).partition("--label-map ")[2].partition(" if")[0].strip("'")
    assert match_classes(odd, ClassNames.of("t", ["a", "b"]), parse_label_map(shown)).numbers == (0, 1)


def test_numbers_of_known_tasks_have_meanings() -> None:
    assert match("POSITIVE,NEGATIVE", "0,1", named="sst2").numbers == (1, 0)
    assert match("Business,Sci/Tech,Sports,World", "0,1,2,3", named="ag_news").numbers == (3, 2, 0, 1)
    assert match("equivalent,not_equivalent", "0,1", named="mrpc").numbers == (1, 0)
    assert match("0,1", "neg,pos", trained_on="imdb").numbers == (0, 1)
    assert match("0,1", "0,1", trained_on="mrpc", named="qqp").numbers == (0, 1)
    assert match("LABEL_0,LABEL_1", "0,1", named="sst2").by == "number"
    with pytest.raises(UserError, match=r"0 \(subjective\), 1 \(objective\).*0 \(negative\), 1 \(positive\)"):
        match("0,1", "0,1", trained_on="subj", named="mr")
    for task in TASKS:
        assert len(task.meanings) in (0, len(task.classes or ()))


def test_too_few_classes_are_told_with_the_command_that_makes_more() -> None:
    with pytest.raises(UserError, match=r"m knows 2 classes \(a, b\) and t has 3 \(a, b, c\): fine-tune it with"):
        match("a,b", "a,b,c")


def test_columns_of_a_function_are_the_classes_in_order_or_by_number() -> None:
    def columns(count: int, task: str) -> ClassMatch:
        return match_classes(ClassNames.of_columns("f", count), ClassNames.of("t", task.split(",")))

    assert (columns(2, "neg,pos").by, columns(2, "neg,pos").describe()) == (
        "order",
        "classes matched by order: neg=0, pos=1",
    )
    assert (columns(3, "2,0").numbers, columns(3, "2,0").by) == ((2, 0), "number")
    for count, task in ((3, "neg,pos"), (2, "pos"), (2, "1,2"), (2, "-1,1")):
        with pytest.raises(UserError, match=f"f returns {count} numbers per text, and t has {task.replace(',', ', ')}"):
            columns(count, task)


def test_a_match_is_told_and_recorded() -> None:
    found = match("POSITIVE,mixed,NEGATIVE", "neg,pos")
    assert found.describe() == "classes matched by name: neg=NEGATIVE, pos=POSITIVE (in no class of the task: mixed)"
    assert found.record() == {
        "by": "name",
        "matched": {"neg": ["NEGATIVE"], "pos": ["POSITIVE"]},
        "numbers": {"neg": 2, "pos": 0},
        "spare": ["mixed"],
    }
    merged = match_classes(
        ClassNames.of("m", ["a", "b", "c", "d"]), ClassNames.of("t", ["x", "y"]), {"d": "x", "a": "y", "b": "x"}
    )
    assert merged.groups == ((1, 3), (0,), (2,))
    assert (merged.classes, merged.numbers, merged.merges) == (["x", "y", "c"], (0, 1), True)
    assert merged.record()["matched"] == {"x": ["b", "d"], "y": ["a"]}
    many = ",".join(f"c{i}" for i in range(50))
    assert match(many, many).describe().endswith("c19 … and 30 more")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("neg", "--label-map takes MODEL=TASK"),
        ("a=", "--label-map takes MODEL=TASK"),
        ("a=b=c", "--label-map takes MODEL=TASK"),
        ("", "--label-map takes MODEL=TASK"),
        ("{", "--label-map takes MODEL=TASK"),
        ("{}", "--label-map takes MODEL=TASK"),
        ('{"a": 1}', "--label-map takes MODEL=TASK"),
        ("NEGATIVE=neg,NEGATIVE=pos", "names the model's class 'NEGATIVE' twice"),
        ("NEGATIVE=neg,negative=pos", "'NEGATIVE' and 'negative' are the same class of m"),
        ("NEGATIV=neg,POSITIVE=pos", "'NEGATIV' (did you mean 'NEGATIVE'?) is no class of the model m"),
        ("NEGATIVE=neg,POSITIVE=po", "'po' (did you mean 'pos'?) is no class of the task t, which has neg, pos"),
        ("NEGATIVE=neg", "maps no class of m (NEGATIVE, POSITIVE) to pos"),
    ],
)
def test_maps_that_do_not_fit_are_one_line(given: str, line: str) -> None:
    ours = ClassNames.of("m", ["NEGATIVE", "POSITIVE"])
    with pytest.raises(UserError) as caught:
        match_classes(ours, ClassNames.of("t", ["neg", "pos"]), parse_label_map(given))
    assert line in str(caught.value)


def test_a_map_decides_alone_and_names_meanings_too() -> None:
    assert parse_label_map(" LABEL_0 = neg , LABEL_1=pos") == {"LABEL_0": "neg", "LABEL_1": "pos"}
    assert parse_label_map('{"a,b": "neg", "c": "pos"}') == {"a,b": "neg", "c": "pos"}
    ours = ClassNames.of("m", ["NEGATIVE", "POSITIVE"])
    task = ClassNames.of("sst2", ["0", "1"], "sst2")
    assert match_classes(ours, task, {"NEGATIVE": "1", "POSITIVE": "0"}).numbers == (1, 0)
    assert match_classes(ours, task, {"negative": "positive", "positive": "negative"}).numbers == (1, 0)
    assert has_classes(ours, {"Negative": "0"})
    assert not has_classes(ours, {"NEGATIVE": "0", "LABEL_1": "1"})
