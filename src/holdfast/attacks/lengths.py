"""Long texts, before they are attacked: what the model reads of them, and what an attack on them costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.adversary.words import Words
from holdfast.attacks.examples import Example
from holdfast.attacks.targets import Target
from holdfast.attacks.trial import changeable

_LONG = 200
"""Words: of longer texts something is said. A film review has as many."""


def about_long_texts(examples: Sequence[Example], target: Target) -> Iterator[str]:
    """Return what a person should know of the long texts before they are attacked, a line each.

    Args:
        examples: what is attacked.
        target: the model.
    """
    split = ((example, Words.of(example.text)) for example in examples if len(example.text) > _LONG)
    long = [(example, words) for example, words in split if len(words.words) > _LONG]
    unread, shortened, most = 0, 0, 0
    for example, words in long:
        seen = target.seen(example)
        beyond = sum(end > seen for _, end in words.spans)
        unread, shortened = unread + beyond, shortened + (beyond > 0)
        most = max(most, len(changeable(words, seen)))
    if unread:
        texts = "1 text is" if shortened == 1 else f"{shortened:,} texts are"
        yield f"{texts} longer than the model reads: {unread:,} words are never read and are not attacked"
    if most > _LONG:
        yield (
            f"{len(long):,} of {len(examples):,} texts have more than {_LONG} words, with up to {most:,} that may be "
            "changed, each of which takes several queries: shorter texts, or --set max_words=N (words changed), "
            "take less; `holdfast audit` cuts texts after 64 words"
        )
