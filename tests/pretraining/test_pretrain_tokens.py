"""A corpus is cut into tokens once, without what is held out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.data.corpus import spool_corpus
from holdfast.errors import UserError
from holdfast.pretraining.tokens import TokenisedCorpus, tokenise_corpus
from holdfast.pretraining.vocabulary import own_tokenizer


def test_tokens_are_those_of_the_tokeniser(tokenised: tuple[Any, TokenisedCorpus], corpus: Path) -> None:
    tokenizer, made = tokenised
    lines = corpus.read_text().splitlines()
    expected = tokenizer(lines, truncation=True, max_length=32)["input_ids"]
    assert [made.sentence(row).tolist() for row in range(len(made))] == expected
    assert made.ids.dtype == np.uint16
    assert made.lengths.tolist() == [len(row) for row in expected]
    assert made.unknown == 0
    whole = [len(row) for row in tokenizer(lines)["input_ids"]]
    assert made.cut == sum(length > 32 for length in whole)
    short = tokenise_corpus(spool_corpus(str(corpus)), tokenizer, max_length=10)
    assert short.cut == sum(length > 10 for length in whole) > 0
    assert short.lengths.max() == 10


def test_they_are_read_again_and_not_cut_again(tokenised: tuple[Any, TokenisedCorpus], corpus: Path) -> None:
    tokenizer, made = tokenised

    def again() -> tuple[list[int], TokenisedCorpus]:
        calls: list[int] = []
        return calls, tokenise_corpus(spool_corpus(str(corpus)), tokenizer, max_length=32, progress=calls.append)

    calls, kept = again()
    assert calls == []
    assert isinstance(kept.ids, np.memmap)
    assert (kept.ids == made.ids).all()
    (file,) = (path for path in (corpus.parent / "cache" / "tokens").glob("*.ids"))
    file.write_bytes(file.read_bytes()[:-2] + b"\xff\xff")
    calls, kept = again()
    assert calls == [400], "what was damaged is made anew"


def test_what_is_held_out_is_removed_and_counted(tokenised: tuple[Any, TokenisedCorpus], corpus: Path) -> None:
    tokenizer, made = tokenised
    lines = corpus.read_text().splitlines()
    held = corpus.with_name("held.txt")
    held.write_text(f"{lines[3].upper()}\n{lines[5]}\nNever seen near the harbour.\n")
    held_out = tokenise_corpus(spool_corpus(str(held)), tokenizer, max_length=32)
    kept = tokenise_corpus(spool_corpus(str(corpus)), tokenizer, max_length=32, without=held_out)
    same = [line for line in lines if line in (lines[3], lines[5])]
    assert kept.removed == len(same) >= 2
    assert len(kept) == 400 - len(same)
    forbidden = {held_out.sentence(row).tobytes() for row in range(3)}
    assert not forbidden & {kept.sentence(row).tobytes() for row in range(len(kept))}
    assert len(made) == 400, "the cache of the whole corpus is another one"
    with pytest.raises(UserError, match=r"every sentence of .* is in the held-out part"):
        tokenise_corpus(spool_corpus(str(held)), tokenizer, max_length=32, without=held_out)


def test_another_tokeniser_cuts_anew(tokenised: tuple[Any, TokenisedCorpus], corpus: Path) -> None:
    _, made = tokenised
    spooled = spool_corpus(str(corpus))
    other = own_tokenizer(spooled, 100, max_length=32)
    cut = tokenise_corpus(spooled, other, max_length=32)
    assert cut.sentence(0).tolist() == other(spooled.dataset[0]["sentence"])["input_ids"]
    assert len(cut.ids) > len(made.ids)
