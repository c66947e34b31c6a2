"""One encoder for two uses: an attacked encoder that also measures the similarity of texts encodes each text once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from holdfast.attacks.encoder_targets import EncoderTarget
from holdfast.attacks.resources import Resources
from holdfast.attacks.targets import Target
from holdfast.attacks.text_similarity import encoder_identity, split_spec
from holdfast.models import backend_of
from holdfast.text_prompts import prompt_of
from holdfast.user_functions import VectorFunction

_MEMO = 1 << 14  # vectors: 24 MiB of 384 numbers each


class SharedVectors:
    """A function from texts to vectors that remembers the last ones.

    Args:
        encode: function from n texts to n vectors, (n, d) fp32.
    """

    def __init__(self, encode: Callable[[Sequence[str]], npt.NDArray[np.float32]]) -> None:
        self._encode = encode
        self._known: OrderedDict[str, npt.NDArray[np.float32]] = OrderedDict()

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the vectors of n texts, (n, d); those that are known are not computed."""
        if not texts:
            return self._encode(texts)
        found = {text: self._known[text] for text in texts if text in self._known}
        new = [text for text in dict.fromkeys(texts) if text not in found]
        if new:
            found |= {text: vector.copy() for text, vector in zip(new, self._encode(new), strict=True)}
        for text, vector in found.items():
            self._known[text] = vector
            self._known.move_to_end(text)
        while len(self._known) > _MEMO:
            self._known.popitem(last=False)
        return np.stack([found[text] for text in texts])


def share_vectors(target: Target, resources: Resources, model_sha256: str) -> bool:
    """Let the attacked encoder measure the similarity, if the similarity encoder is the same model; return whether.

    The vectors are equal, so that nothing changes but the time. Not with a prompt before the texts, another form of
    the vectors or another backend.
    """
    if not isinstance(target, EncoderTarget) or isinstance(target.model, VectorFunction):
        return False
    plain = target.form is None and target.role is None and backend_of(target.model) is None
    if not plain or prompt_of(target.model) or "similarity" not in resources.sources():
        return False
    if encoder_identity(split_spec(resources.names.similarity)[0]) != model_sha256:
        return False
    shared = SharedVectors(lambda texts: target.encoded(texts, None))
    target.shared = resources.similarity.encode = shared
    return True
