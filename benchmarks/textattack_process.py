"""TextAttack itself, in a process of its own, which asks this one for its linguistic resources.

TextAttack does not install beside transformers 5, so its Python is that of another environment. Its search, goal
function, budget, constraints and counting of queries are its own, put together as in its recipes; what it reads from
the world is ours: candidates, part-of-speech tags, the cosine of sentence vectors, stop words. Each of these it asks
for in a line of JSON on its output, and reads the answer, a line too, on its input.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from holdfast.attacks.examples import Example
from holdfast.attacks.recipes import RECIPES, Recipe
from holdfast.attacks.resources import Resources
from holdfast.edits.words import STOP_WORDS, Words, is_content_word, others

COMPARED = ("pwws", "textfooler", "textbugger", "bae-r", "bertattack")
"""The recipes that TextAttack has too; it has no Geometry Attack."""

_SCRIPT = r"""
import json, sys, time
wire, sys.stdout = sys.stdout, sys.stderr
import torch, transformers
from textattack import Attack
from textattack.constraints.grammaticality import PartOfSpeech
from textattack.constraints.overlap import MaxWordsPerturbed
from textattack.constraints.pre_transformation import RepeatModification, StopwordModification
from textattack.constraints.semantics.sentence_encoders import SentenceEncoder
from textattack.goal_functions import UntargetedClassification
from textattack.models.wrappers import HuggingFaceModelWrapper
from textattack.search_methods import GreedyWordSwapWIR
from textattack.shared import AttackedText
from textattack.transformations import WordSwap


def ask(kind, *arguments):
    print(json.dumps([kind, *arguments]), file=wire, flush=True)
    return json.loads(sys.stdin.readline())


class Wrapper(HuggingFaceModelWrapper):
    # Its own pads every text to the model's maximum, which costs much and changes nothing.
    def __call__(self, texts):
        features = self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        with torch.no_grad():
            return self.model(**features).logits


class Swap(WordSwap):
    def _get_transformations(self, current_text, indices_to_modify):
        texts = []
        for index in indices_to_modify:
            word = current_text.words[index]
            found = ask("candidates", given["number"], given["text"], current_text.text, int(index), word)
            texts += [current_text.replace_word_at_index(index, each) for each in found if each != word]
        return texts


class Tags(PartOfSpeech):
    def _get_pos(self, before_ctx, word, after_ctx):
        words = before_ctx + [word] + after_ctx
        return ask("tags", words)[words.index(word)]


class Similarity(SentenceEncoder):
    # The vectors are the texts' numbers, and the similarity of two numbers is asked for.
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.sim_metric = self.cosines

    def encode(self, sentences):
        self.sentences = sentences
        return torch.arange(len(sentences), dtype=torch.float64)[:, None]

    def cosines(self, first, second):
        pairs = zip(first[:, 0].long().tolist(), second[:, 0].long().tolist())
        return torch.tensor(ask("cosines", [[self.sentences[a], self.sentences[b]] for a, b in pairs]))


given = ask("recipe")
recipe, threshold = given["recipe"], given["threshold"]
constraints = [RepeatModification(), StopwordModification(stopwords=set(given["stop_words"]))]
if recipe in ("textfooler", "bae-r"):
    constraints.append(Tags(allow_verb_noun_swap=True))
if recipe == "bertattack":
    constraints.append(MaxWordsPerturbed(max_percent=0.4))
if recipe == "textfooler":
    constraints.append(Similarity(threshold, compare_against_original=False, window_size=15,
                                  skip_text_shorter_than_window=True))
if recipe == "bae-r":
    constraints.append(Similarity(threshold, window_size=15, skip_text_shorter_than_window=True))
if recipe in ("textbugger", "bertattack"):
    constraints.append(Similarity(threshold))
order = {"pwws": "weighted-saliency", "bertattack": "unk"}.get(recipe, "delete")
model = transformers.AutoModelForSequenceClassification.from_pretrained(given["model"])
tokenizer = transformers.AutoTokenizer.from_pretrained(given["model"], model_max_length=given["max_tokens"])
torch.set_num_threads(given["threads"])
attack = Attack(UntargetedClassification(Wrapper(model, tokenizer)), constraints, Swap(),
                GreedyWordSwapWIR(wir_method=order))
while (example := ask("example")) is not None:
    given.update(example)
    began = time.perf_counter()
    result = attack.attack(given["text"], given["label"])
    ask("result", type(result).__name__, result.num_queries, result.perturbed_text(), time.perf_counter() - began,
        AttackedText(given["text"]).words)
"""


@dataclass(frozen=True)
class Row:
    """TextAttack's result for a text.

    Attributes:
        outcome: "succeeded", "failed" or "skipped", as of `holdfast.attacks.examples.Attempt`.
        queries: texts that it queried.
        text: the text after the attack.
        seconds: what it took.
        words: the words into which it splits the original; it keeps hyphenated words whole.
    """

    outcome: str
    queries: int
    text: str
    seconds: float
    words: tuple[str, ...]


@dataclass
class TextAttack:
    """TextAttack's version of one of our recipes.

    Args:
        python: the Python of an environment with TextAttack.
        model: the folder of the classifier.
        recipe: our recipe: its candidates and its threshold.
        resources: the linguistic resources.
        max_tokens: tokens to which it truncates texts.
        seed: as of the engine: TextBugger's random bugs are ours.
        bertattack_rereads: BERT-Attack's candidates are predictions for the current text, as TextAttack has them;
            otherwise for the original, as the paper and we have them.
    """

    python: Path
    model: str
    recipe: Recipe
    resources: Resources
    max_tokens: int
    threads: int = 1
    seed: int = 42
    bertattack_rereads: bool = True
    misplaced: int = 0
    _unchangeable: frozenset[str] = STOP_WORDS
    _random: dict[int, random.Random] = field(default_factory=dict)

    def run(self, examples: Sequence[Example]) -> list[Row]:
        """Attack the examples; return a row for each.

        Raises:
            RuntimeError: the examples are pairs, or TextAttack failed; the end of what it said.
        """
        if any(len(example.texts) == 2 for example in examples):
            raise RuntimeError("TextAttack is compared on single texts")
        words = {word for example in examples for word in Words.of(example.text).words}
        self._unchangeable = STOP_WORDS | {word for word in words if not is_content_word(word)}
        with tempfile.TemporaryDirectory() as folder, (Path(folder) / "errors").open("w+") as errors:
            # TextAttack reads NLTK's stop words when it is imported, and the attack is given ours.
            stop_words = Path(folder) / "corpora" / "stopwords" / "english"
            stop_words.parent.mkdir(parents=True)
            stop_words.write_text("\n".join(sorted(STOP_WORDS)), encoding="utf-8")
            with subprocess.Popen(
                [str(self.python), "-c", _SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # Of this process' modules it needs none, and it would find another transformers.
                env={**{k: v for k, v in os.environ.items() if k != "PYTHONPATH"}, "NLTK_DATA": folder},
            ) as process:
                rows = list(self._serve(process, examples))
            if process.returncode:
                errors.seek(0)
                raise RuntimeError(f"TextAttack failed:\n{errors.read()[-3000:]}")
        return rows

    def _serve(self, process: subprocess.Popen[str], examples: Sequence[Example]) -> Iterator[Row]:
        assert process.stdin is not None
        assert process.stdout is not None
        waiting = iter(examples)
        for line in process.stdout:
            kind, *arguments = json.loads(line)
            answer: Any = True
            if kind == "example":
                example = next(waiting, None)
                answer = example and {"number": example.number, "text": example.text, "label": example.label}
            elif kind == "result":
                name, queries, text, seconds, words = arguments
                outcome = {"SuccessfulAttackResult": "succeeded", "FailedAttackResult": "failed"}.get(name, "skipped")
                yield Row(outcome, queries, text, seconds, tuple(words))
                print(f"{self.recipe.NAME}: {seconds:.1f} s", file=sys.stderr, flush=True)
            else:
                answer = getattr(self, f"_{kind}")(*arguments)
            process.stdin.write(json.dumps(answer) + "\n")
            process.stdin.flush()

    def _recipe(self) -> dict[str, Any]:
        published = getattr(self.recipe, "minimum_similarity", None)
        return {
            "recipe": self.recipe.NAME,
            "threshold": None if published is None else self.resources.similarity.threshold(published),
            "stop_words": sorted(self._unchangeable),
            "model": str(Path(self.model).resolve()),
            "max_tokens": self.max_tokens,
            "threads": self.threads,
        }

    def _tags(self, words: list[str]) -> list[str]:
        return list(self.resources.tagger.tags(tuple(words)))

    def _cosines(self, pairs: list[list[str]]) -> list[float]:
        return self.resources.similarity.cosines([(first, second) for first, second in pairs])

    def _candidates(self, number: int, original: str, text: str, index: int, word: str) -> list[str]:
        """The candidates for a word, before any constraint."""
        if not is_content_word(word):  # a part of a word that TextAttack has split
            return []
        recipe: Any = self.recipe
        if recipe.NAME == "pwws":
            return self.resources.wordnet.synonyms(word)
        if recipe.NAME == "textfooler":
            return self.resources.synonyms.nearest(word, recipe.candidates, recipe.minimum_cosine)
        if recipe.NAME == "textbugger":
            fresh = random.Random(f"{self.seed}/{recipe.NAME}/{number}")
            rng = self._random.setdefault(number, fresh)
            state: Any = SimpleNamespace(rng=rng, resources=self.resources)
            bugs: list[str] = recipe.bugs(state, word)
            return bugs
        read = Words.of(text if recipe.NAME == "bae-r" or self.bertattack_rereads else original)
        if index >= len(read.words) or (read.words[index] != word):
            self.misplaced += 1  # words of the two splits do not correspond
            return []
        if recipe.NAME == "bae-r":
            return others(word, self.resources.masked_lm.propose([read], [index])[0][: recipe.candidates])
        return others(word, self.resources.masked_lm.read([read], recipe.candidates)[0][index])


def recipes(name: str) -> list[Recipe]:
    """Return the recipe of that name, or all that are compared for "all"."""
    return [RECIPES[each]() for each in (COMPARED if name == "all" else (name,))]
