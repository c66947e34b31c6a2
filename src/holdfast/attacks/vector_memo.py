"""Vectors of texts that are asked for again and again: the last ones are remembered."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt


class VectorMemo:
    """A function from texts to vectors that remembers the last ones.

    Args:
        encode: function from n texts to n vectors, (n, d) fp32.
        size: number of vectors that are remembered.
    """

    def __init__(self, encode: Callable[[Sequence[str]], npt.NDArray[np.float32]], size: int) -> None:
        self._encode, self._size = encode, size
        self._known: OrderedDict[str, npt.NDArray[np.float32]] = OrderedDict()

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the vectors of n texts, (n, d); those that are known are not computed."""
        if not texts:
            return self._encode(texts)
        found = {text: self._known[text] for text in texts if text in self._known}
        new = [text for text in dict.fromkeys(texts) if text not in found]
        if new:
            # Copies, since views would keep the whole batch in memory.
            found |= {text: vector.copy() for text, vector in zip(new, self._encode(new), strict=True)}
        for text, vector in found.items():
            self._known[text] = vector
            self._known.move_to_end(text)
        while len(self._known) > self._size:
            self._known.popitem(last=False)
        return np.stack([found[text] for text in texts])
