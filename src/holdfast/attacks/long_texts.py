"""Messages about long texts before an attack: words beyond the model's input limit, and the cost of the attack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.attacks.attack_state import changeable
from holdfast.attacks.constraints import ContentWords
from holdfast.attacks.examples import Example
from holdfast.attacks.targets import Target
from holdfast.edits.words import Words

_LONG = 200
"""Words; texts with more words are reported. A film review has about as many."""


def about_long_texts(examples: Sequence[Example], target: Target) -> Iterator[str]:
    """Yield messages about the long texts, to be shown before the attack."""
    split = ((example, Words.of(example.text)) for example in examples if len(example.text) > _LONG)
    long = [(example, words) for example, words in split if len(words.words) > _LONG]
    unread, shortened, most = 0, 0, 0
    for example, words in long:
        seen = target.seen(example)
        beyond = sum(end > seen for _, end in words.spans)
        unread, shortened = unread + beyond, shortened + (beyond > 0)
        most = max(most, len(changeable(words, seen, (ContentWords(),))))
    if unread:
        texts = "1 text is" if shortened == 1 else f"{shortened:,} texts are"
        yield f"{texts} longer than the model reads: {unread:,} words are never read and are not attacked"
    if most > _LONG:
        yield (
            f"{len(long):,} of {len(examples):,} texts have more than {_LONG} words, with up to {most:,} that may be "
            "changed, each of which takes several queries: shorter texts, or --set max_words=N (words changed), "
            "take less; `holdfast audit` keeps to a time budget (--max-seconds)"
        )
