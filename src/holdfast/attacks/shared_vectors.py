"""One encoder for two uses: an attacked encoder that also measures the similarity of texts encodes each text once."""

from __future__ import annotations

from holdfast.attacks.encoder_targets import EncoderTarget
from holdfast.attacks.resources import Resources
from holdfast.attacks.targets import Target
from holdfast.attacks.text_similarity import encoder_identity, split_spec
from holdfast.attacks.vector_memo import VectorMemo
from holdfast.models import backend_of
from holdfast.text_prompts import prompt_of
from holdfast.user_functions import VectorFunction

_MEMO = 1 << 14  # vectors: 24 MiB of 384 numbers each


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
    shared = VectorMemo(lambda texts: target.encoded(texts, None), _MEMO)
    target.shared = resources.similarity.encode = shared
    return True
