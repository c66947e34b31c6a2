"""Each recipe against what its paper says: slow references of searches, and its own rules."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import numpy as np
import pytest
from small_attacks import CONTENT, cosine, kind, neighbours, split

from holdfast.adversary.masked_lm import MaskedLM
from holdfast.attacks import BAE, PWWS, RECIPES, BERTAttack, Evasion, Geometry, Recipe, TextBugger, TextFooler, Typos
from holdfast.attacks.attack_state import take_best
from holdfast.attacks.classifier import Classifier
from holdfast.attacks.engine import Engine
from holdfast.attacks.examples import Example
from holdfast.attacks.requests import Predict
from holdfast.attacks.targets import CallableTarget, ClassifierTarget
from holdfast.edits.words import Words

# --- slow references ---------------------------------------------------------------------------------------------


def probabilities(classifier: Classifier, text: str) -> Any:
    logits = classifier.logits([(text,)])[0].astype(np.float64)
    return np.exp(logits) / np.exp(logits).sum()


def put(text: str, place: int, word: str) -> str:
    parts = re.split(r"([A-Za-z0-9]+)", text)
    parts[2 * place + 1] = word
    return "".join(parts)


def capital(old: str, new: str) -> str:
    return new.capitalize() if old[0].isupper() else new


def first(values: Any, noise: float) -> int:
    """The stated rule for ties: the first of those that are as good as the best but for noise."""
    best = max(values)
    return next(i for i, value in enumerate(values) if value >= best - noise - 1e-5 * abs(best))


def order(values: dict[int, float], noise: float) -> list[int]:
    left, found = dict(sorted(values.items())), []
    while left:
        found.append(list(left)[first(list(left.values()), noise)])
        del left[found[-1]]
    return found


def noise(p: float) -> float:
    return 1e-4 * p * (1 - p)


def pwws_by_the_paper(classifier: Classifier, text: str, label: int) -> tuple[str, bool]:
    """Ren et al., Algorithm 1, one text at a time: substitutes and their order from the original text."""
    words = split(text)
    places = [i for i, word in enumerate(words) if word.lower() in CONTENT]
    p0 = probabilities(classifier, text)[label]
    saliency = [p0 - probabilities(classifier, put(text, i, "[UNK]"))[label] for i in places]
    best: dict[int, tuple[float, str]] = {}
    for i in places:
        options = [capital(words[i], other) for other in reversed(neighbours(words[i]))]
        drops = [p0 - probabilities(classifier, put(text, i, option))[label] for option in options]
        j = first([1 - p0 + drop for drop in drops], noise(p0))
        best[i] = (max(drops), options[j])
    weights = np.exp(saliency) / np.exp(saliency).sum()
    scores = {i: weight * best[i][0] for i, weight in zip(places, weights, strict=True)}
    current = text
    for i in order(scores, noise(p0) / len(places)):
        candidate = put(current, i, best[i][1])
        p = probabilities(classifier, candidate)
        if p.argmax() != label:
            return candidate, True
        now = probabilities(classifier, current)[label]
        if p[label] < now - max(noise(now), noise(p[label])):
            current = candidate
    return current, False


def test_pwws_equals_its_algorithm(
    target: ClassifierTarget, classifier: Classifier, resources: Any, examples: list[Example]
) -> None:
    for attempt in Engine(target, resources).run(PWWS(reconsider=False), examples):
        text, reached = pwws_by_the_paper(classifier, attempt.original, int(attempt.label or 0))
        assert (attempt.adversarial, attempt.outcome == "succeeded") == (text, reached)


def textfooler_by_the_paper(classifier: Classifier, text: str, label: int) -> tuple[str, bool]:
    """Jin et al., Algorithm 1, one text at a time."""
    words = split(text)
    p0 = probabilities(classifier, text)
    importance = {}
    for i, word in enumerate(words):
        if word.lower() in CONTENT:
            left = re.sub(r" +", " ", put(text, i, "")).strip()
            p = probabilities(classifier, left)
            importance[i] = p0[label] - p[label]
            if p.argmax() != label:
                importance[i] += p[p.argmax()] - p0[p.argmax()]
    current = text
    for i in order(importance, noise(p0[label])):
        options = [capital(words[i], other) for other in neighbours(words[i]) if kind(other) == kind(words[i])]
        texts = [put(current, i, option) for option in options]
        if len(words) >= 15:
            texts = [t for t in texts if cosine(current, t) >= 0.3]
        if not texts:
            continue
        now = [probabilities(classifier, t) for t in texts]
        flipped = [j for j in range(len(texts)) if now[j].argmax() != label]
        field = flipped or list(range(len(texts)))
        j = field[first([1 - now[j][label] for j in field], max(noise(now[j][label]) for j in field))]
        if flipped:
            return texts[j], True
        before = probabilities(classifier, current)[label]
        if now[j][label] < before - max(noise(before), noise(now[j][label])):
            current = texts[j]
    return current, False


def test_textfooler_equals_its_algorithm(
    target: ClassifierTarget, classifier: Classifier, resources: Any, examples: list[Example]
) -> None:
    for attempt in Engine(target, resources).run(TextFooler(), examples):
        text, reached = textfooler_by_the_paper(classifier, attempt.original, int(attempt.label or 0))
        assert (attempt.adversarial, attempt.outcome == "succeeded") == (text, reached)


def test_of_several_flips_the_most_similar_is_taken(resources: Any) -> None:
    def anything_but_dog(texts: list[str]) -> Any:
        dog = np.array(["dog" in text for text in texts], dtype=float)
        return np.stack([0.05 + 0.9 * dog, 0.95 - 0.9 * dog], axis=1)

    favourite = [word for word in neighbours("dog")[:5] if kind(word) == kind("dog")][-1]

    class Preferring:
        source = "prefers one"

        def cosines(self, pairs: Any) -> list[float]:
            return [0.9 if favourite in b.split() else 0.8 for _, b in pairs]

        def threshold(self, published: float) -> float:
            return 0.5

    resources.similarity = Preferring()
    text = "the dog " + "in the " * 8 + "house"
    for recipe in (TextFooler(), TextBugger()):
        target = CallableTarget(anything_but_dog, name="dog")
        (attempt,) = Engine(target, resources).run(recipe, [Example(0, (text,), 0, 0)])
        assert [change[2] for change in attempt.changed] == [favourite]


def test_a_candidate_that_reaches_the_goal_goes_before_a_nearer_one(resources: Any) -> None:
    """Of three classes the right one may be less likely without another being more likely than it."""
    reaching, nearer = neighbours("dog")[3], neighbours("dog")[1]

    def says(texts: list[str]) -> Any:
        table = {reaching: (0.45, 0.54, 0.01), nearer: (0.40, 0.30, 0.30)}
        found = (next((p for word, p in table.items() if word in text.split()), (0.9, 0.05, 0.05)) for text in texts)
        return np.array(list(found))

    (attempt,) = Engine(CallableTarget(says, name="f"), resources).run(PWWS(), [Example(0, ("the dog",), 0, 0)])
    assert (attempt.outcome, [change[2] for change in attempt.changed]) == ("succeeded", [reaching])


def test_a_text_that_drifts_too_far_is_no_candidate(
    target: ClassifierTarget, resources: Any, examples: list[Example]
) -> None:
    resources.small.minimum = 1.1
    for recipe in (TextBugger(), BERTAttack()):  # these compare every text
        assert not any(a.changed for a in Engine(target, resources).run(recipe, examples))
    resources.small.asked.clear()
    short = [e for e in examples if len(split(e.text)) < 15]
    for recipe in (TextFooler(), BAE()):  # these do not compare texts shorter than their window
        assert any(a.changed for a in Engine(target, resources).run(recipe, short))
    assert resources.small.asked == {}


@pytest.mark.parametrize("recipe", [TextFooler(), TextBugger(), BAE(), BERTAttack()], ids=lambda r: r.NAME)
def test_texts_are_compared_with_the_original_or_with_the_text_before(recipe: Recipe, resources: Any) -> None:
    """TextFooler compares with the text before the exchange, the others with the original, as TextAttack has them."""
    asked: list[str] = []

    class Recording:
        source = "recording"

        def cosines(self, pairs: Any) -> list[float]:
            asked.extend(before for before, _ in pairs)
            return [0.9 for _ in pairs]

        def threshold(self, published: float) -> float:
            return 0.5

    def counts(texts: list[str]) -> Any:
        kept = np.array([sum(word in text.lower().split() for word in ("dog", "cat")) for text in texts]) / 2
        return np.stack([0.2 + 0.7 * kept, 0.8 - 0.7 * kept], axis=1)

    resources.similarity = Recording()
    text = "the dog cat" + " in the" * 7
    (attempt,) = Engine(CallableTarget(counts, name="f"), resources).run(recipe, [Example(0, (text,), 0, 0)])
    assert len(attempt.changed) == 2
    after_the_first = [before for before in asked if "dog cat" not in before]
    assert bool(after_the_first) == (recipe.NAME == "textfooler")


def test_thresholds_are_those_of_the_similarity_encoder(target: ClassifierTarget, resources: Any) -> None:
    asked: list[float] = []

    class Recording:
        source = "recording"

        def cosines(self, pairs: Any) -> list[float]:
            return [0.0 for _ in pairs]

        def threshold(self, published: float) -> float:
            asked.append(published)
            return 2.0

    resources.similarity = Recording()
    text = " ".join(["the old man sleeps"] * 5)
    label = int(target.classifier.logits([(text,)]).argmax())
    for recipe in (TextFooler(), TextBugger(), BAE(), BERTAttack()):
        asked.clear()
        list(Engine(target, resources).run(recipe, [Example(0, (text,), 0, label)]))
        assert set(asked) == {recipe.minimum_similarity}


def test_bae_takes_what_the_masked_lm_fills_in(
    target: ClassifierTarget, resources: Any, small_lm: MaskedLM, examples: list[Example]
) -> None:
    for attempt in Engine(target, resources).run(BAE(candidates=3), examples):
        words = Words.of(attempt.original)
        for place, _, new in attempt.changed:
            (fillers,) = small_lm.propose([words], [place])
            assert new.lower() in fillers[:3]
            words = words.exchanged(place, new)


def test_bertattack_reads_the_whole_text_once(
    target: ClassifierTarget, resources: Any, small_lm: MaskedLM, examples: list[Example]
) -> None:
    for attempt in Engine(target, resources).run(BERTAttack(candidates=4), examples):
        (readings,) = small_lm.read([Words.of(attempt.original)], 4)
        for place, _, new in attempt.changed:
            assert new.lower() in readings[place]


class PredictionsByLength(Recipe):
    """Ask the masked LM for as many predictions as the text has words, and take the last one of each."""

    NAME: ClassVar[str] = "by-length"
    NEEDS: ClassVar[tuple[str, ...]] = ("masked_lm",)

    def search(self, state: Any) -> Any:
        predictions = yield Predict(state.original, len(state.original.words))
        for place in state.within_budget(state.places):
            if (yield from take_best(state, place, predictions[place][-1:])):
                return


def test_texts_attacked_together_may_ask_for_different_numbers_of_predictions(
    target: ClassifierTarget, resources: Any, small_lm: MaskedLM, examples: list[Example]
) -> None:
    assert len({len(Words.of(example.text).words) for example in examples}) > 1
    changes = 0
    for attempt in Engine(target, resources).run(PredictionsByLength(), examples):
        words = Words.of(attempt.original)
        (readings,) = small_lm.read([words], len(words.words))
        assert [new.lower() for _, _, new in attempt.changed] == [readings[place][-1] for place, *_ in attempt.changed]
        changes += len(attempt.changed)
    assert changes


def test_geometry_moves_uphill_and_stops_where_there_is_no_hill(
    target: ClassifierTarget, resources: Any, examples: list[Example]
) -> None:
    found = [a for a in Engine(target, resources).run(Geometry(source="neighbours"), examples) if a.changed]
    assert found
    # Uphill of the cross-entropy, as a rule: a step is a projection on its gradient.
    assert np.mean([a.after["value"] < a.before["value"] for a in found]) > 0.8


@pytest.mark.parametrize(("complete", "source"), [(True, "masked-lm"), (False, "neighbours")])
def test_geometry_takes_short_lists_as_they_are(
    complete: bool, source: str, target: ClassifierTarget, resources: Any, examples: list[Example]
) -> None:
    resources.synonyms.complete = complete
    other = "neighbours" if complete else "masked-lm"
    found = {
        name: list(Engine(target, resources).run(Geometry(candidates=2, source=name), examples))  # type: ignore[arg-type]
        for name in ("auto", source, other)
    }
    assert found["auto"] == found[source]
    assert found["auto"] != found[other]


def test_typos_are_limited_to_a_fifth_of_the_words(
    target: ClassifierTarget, resources: Any, examples: list[Example]
) -> None:
    for attempt in Engine(target, resources).run(Typos(), examples):
        if attempt.words < 5:
            assert attempt.reason == "it is too short: the recipe may change no word of it"


@pytest.mark.parametrize("kind", ["zero-width", "confusables", "bidi", "bidi.reversed", "spaced-letters", "leetspeak"])
def test_evasion_takes_the_kind_that_misleads_the_model(kind: str, resources: Any) -> None:
    """A model that only one kind of spelling misleads; it has never seen the drawn spellings."""
    from holdfast.edits.confusables import latin_readings
    from holdfast.edits.display_order import BIDI_CONTROLS
    from holdfast.edits.evasion import ZERO_WIDTH

    def is_of_kind(text: str) -> bool:
        bidi = any(c in BIDI_CONTROLS for c in text)
        return {
            "zero-width": any(c in ZERO_WIDTH for c in text),
            "confusables": any(c in latin_readings() for c in text),
            "bidi": bidi and "dog" in "".join(c for c in text if c not in BIDI_CONTROLS),
            "bidi.reversed": bidi and "god" in text,
            "spaced-letters": "d o g" in text or "d.o.g" in text,
            "leetspeak": any(c.isdigit() for c in text),
        }[kind]

    def says(texts: list[str]) -> Any:
        wrong = np.array([is_of_kind(text) for text in texts], dtype=float)
        return np.stack([0.9 - 0.8 * wrong, 0.1 + 0.8 * wrong], axis=1)

    text = "the dog in the house on the old bed"
    (attempt,) = Engine(CallableTarget(says, name="f"), resources).run(Evasion(tries=4), [Example(0, (text,), 0, 0)])
    assert attempt.outcome == "succeeded"
    assert len(attempt.changed) == 1
    assert is_of_kind(attempt.adversarial)


def test_evasion_proposes_every_kind_as_often_as_it_is_told(resources: Any) -> None:
    asked: list[str] = []

    def says(texts: list[str]) -> Any:
        asked.extend(texts)
        return np.tile([0.9, 0.1], (len(texts), 1))

    for tries in (1, 3):
        asked.clear()
        recipe = Evasion(max_share=1.0, tries=tries)
        list(Engine(CallableTarget(says, name="f"), resources).run(recipe, [Example(0, ("the dog",), 0, 0)]))
        spellings = set(asked) - {"the dog", "the"}
        assert len(spellings) in ({7} if tries == 1 else range(12, 22)), spellings


def test_a_text_whose_copies_fill_the_memory_is_skipped(
    target: ClassifierTarget, resources: Any, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = list(Engine(target, resources).run(Typos(), examples))
    attacked = {attempt.number for attempt in attempts if attempt.outcome != "skipped"}
    assert attacked, "all are skipped"
    monkeypatch.setattr("holdfast.attacks.engine.MOST_RANKED", 0)
    reasons = {attempt.number: attempt.reason for attempt in Engine(target, resources).run(Typos(), examples)}
    assert {reasons[number] for number in attacked} == {
        "it is too long: a copy of it for each of its words fills the memory"
    }


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_keeps_a_budget(
    name: str, target: ClassifierTarget, resources: Any, examples: list[Example]
) -> None:
    """Both kinds; a budget that is not used up changes nothing."""

    def changed(**budget: Any) -> dict[int, tuple[Any, ...]]:
        found = Engine(target, resources).run(RECIPES[name](**budget), examples)
        return {attempt.number: attempt.changed for attempt in found}

    free = changed(max_share=1.0, max_words=None)
    assert max(map(len, free.values())) > 2
    one, half = changed(max_share=1.0, max_words=1), changed(max_share=0.5, max_words=None)
    words = {example.number: len(split(example.text)) for example in examples}
    for number, changes in free.items():
        assert len(one[number]) == min(1, len(changes))
        assert len(half[number]) <= words[number] // 2
        if len(changes) <= 1:
            assert one[number] == changes


@pytest.mark.parametrize(
    "recipe", [TextBugger(), BAE(), BERTAttack(), Typos(max_share=0.5)], ids=lambda recipe: recipe.NAME
)
def test_the_word_that_matters_most_is_changed_first(recipe: Recipe, resources: Any) -> None:
    """The second word alone decides; the first, which stands before it, only helps."""

    def says(texts: list[str]) -> Any:
        weights = {"woman": 0.1, "child": 0.6}
        right = [0.2 + sum(w for word, w in weights.items() if word in text.lower().split()) for text in texts]
        return np.stack([right, 1.0 - np.array(right)], axis=1)

    text = "the woman in the child"
    (attempt,) = Engine(CallableTarget(says, name="f"), resources).run(recipe, [Example(0, (text,), 0, 0)])
    assert attempt.outcome == "succeeded"
    assert [change[1] for change in attempt.changed] == ["child"]


@pytest.mark.parametrize("recipe", [TextFooler(), BAE()], ids=lambda recipe: recipe.NAME)
def test_fifteen_words_around_the_exchange_are_compared(recipe: Recipe, resources: Any) -> None:
    asked: list[tuple[str, str]] = []

    class Recording:
        source = "recording"

        def cosines(self, pairs: Any) -> list[float]:
            asked.extend(pairs)
            return [0.9 for _ in pairs]

        def threshold(self, published: float) -> float:
            return 0.5

    def dog(texts: list[str]) -> Any:
        kept = np.array(["dog" in text.split() for text in texts], dtype=float)
        return np.stack([0.1 + 0.8 * kept, 0.9 - 0.8 * kept], axis=1)

    resources.similarity = Recording()
    for count, place, begin in ((31, 10, 3), (31, 2, 0), (31, 29, 16), (15, 5, 0)):
        words = [str(number) for number in range(count)]
        words[place] = "dog"
        asked.clear()
        (attempt,) = Engine(CallableTarget(dog, name="dog"), resources).run(
            recipe, [Example(0, (" ".join(words),), 0, 0)]
        )
        assert attempt.outcome == "succeeded"
        window = words[begin : begin + 15]
        assert {before for before, _ in asked} == {" ".join(window)}
        exchanged = {after.split()[place - begin] for _, after in asked}
        assert attempt.changed[0][2] in exchanged
        assert {after for _, after in asked} == {
            " ".join([*window[: place - begin], word, *window[place - begin + 1 :]]) for word in exchanged
        }


def test_the_tagger_sees_four_words_on_each_side_of_the_text_as_it_is(resources: Any) -> None:
    seen: list[tuple[str, ...]] = []
    tags = resources.tagger.tags

    class Recording:
        def tags(self, words: Any) -> list[str]:
            seen.append(tuple(words))
            found: list[str] = tags(words)
            return found

    def counts(texts: list[str]) -> Any:
        kept = np.array([sum(word in text.lower().split() for word in ("dog", "house")) for text in texts]) / 2
        return np.stack([0.2 + 0.7 * kept, 0.8 - 0.7 * kept], axis=1)

    resources.tagger = Recording()
    text = "0 1 2 3 dog 5 house 7 8 9 10 11"
    (attempt,) = Engine(CallableTarget(counts, name="f"), resources).run(TextFooler(), [Example(0, (text,), 0, 0)])
    (_, _, new), (place, _, _) = attempt.changed
    assert place == 6
    assert ("0", "1", "2", "3", "dog", "5", "house", "7", "8") in seen
    assert ("2", "3", new, "5", "house", "7", "8", "9", "10") in seen
    assert {len(words) for words in seen} == {9}


def test_pwws_asks_for_synonyms_of_the_words_own_kind_where_it_is_told_to(
    target: ClassifierTarget, resources: Any
) -> None:
    asked: list[tuple[str, str | None, bool]] = []

    class Recording:
        def synonyms(self, word: str, *, tag: str | None = None, inflected: bool = False) -> list[str]:
            asked.append((word, tag, inflected))
            return []

    resources.wordnet = Recording()
    text = "the old dog sleeps"
    label = int(target.classifier.logits([(text,)]).argmax())
    message = {
        PWWS(): [("old", None, False), ("dog", None, False), ("sleeps", None, False)],
        PWWS(same_tag=True, inflected=True): [("old", "ADJ", True), ("dog", "NOUN", True), ("sleeps", "VERB", True)],
    }
    for recipe, expected in message.items():
        asked.clear()
        list(Engine(target, resources).run(recipe, [Example(0, (text,), 0, label)]))
        assert asked == expected
