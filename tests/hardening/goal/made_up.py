"""Made-up texts."""

from __future__ import annotations

import random

WORDS = "man woman child dog cat runs sleeps eats plays sings park house bed red big old".split()


def made_up_texts(count: int, words: int, seed: int) -> list[str]:
    """Different texts of so many words."""
    draw, texts = random.Random(seed), {}
    while len(texts) < count:
        texts[" ".join(draw.choice(WORDS) for _ in range(words))] = None
    return list(texts)
