"""A vocabulary is a function of its corpus, and says so when the corpus does not fit it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from holdfast.data.corpus import spool_corpus
from holdfast.errors import UserError
from holdfast.pretraining.vocabulary import SPECIAL, load_tokenizer, own_tokenizer, train_wordpieces

# Many characters and many ties: what a hash table's order would decide shows here.
SENTENCES = [f"{chr(97 + i % 26)}{chr(97 + i * 7 % 26)}{chr(97 + i * 11 % 26)}x word{i % 9}" for i in range(200)]
CODE = (
    "import sys; from holdfast.pretraining.vocabulary import train_wordpieces as t; s = {!r}; "
    "sys.stdout.write('\\n'.join(t(lambda: iter(s), 150)))"
)


@pytest.mark.slow
def test_another_process_counts_the_same_vocabulary() -> None:
    ours = train_wordpieces(lambda: iter(SENTENCES), 150)
    assert train_wordpieces(lambda: iter(SENTENCES), 150) == ours
    run = subprocess.run([sys.executable, "-c", CODE.format(SENTENCES)], capture_output=True)
    assert run.stdout.decode().split("\n") == ours, run.stderr
    assert len(set(ours)) == 150
    assert tuple(ours[:5]) == SPECIAL
    assert "##x" in ours
    assert "word" in ours, "frequent words are pieces of their own"


def test_the_tokeniser_loads_anywhere_and_reads_as_bert_does(corpus: Path, tmp_path: Path) -> None:
    tokenizer = own_tokenizer(spool_corpus(str(corpus)), 120, max_length=32)
    tokenizer.save_pretrained(tmp_path / "saved")
    loaded = AutoTokenizer.from_pretrained(tmp_path / "saved", local_files_only=True)
    assert loaded.is_fast
    assert loaded.model_max_length == 32
    text = "The dog barks near the harbour."
    assert loaded.tokenize("THE DÓG BARKS") == loaded.tokenize("the dog barks") == ["the", "dog", "barks"]
    ids = loaded(text)["input_ids"]
    assert ids == tokenizer(text)["input_ids"]
    assert (ids[0], ids[-1]) == (loaded.cls_token_id, loaded.sep_token_id)
    assert loaded.unk_token_id not in ids
    assert loaded.decode(ids, skip_special_tokens=True) == text.lower()
    assert loaded("the [MASK] barks")["input_ids"].count(loaded.mask_token_id) == 1
    assert load_tokenizer(str(tmp_path / "saved"), "--tokenizer").get_vocab() == tokenizer.get_vocab()


def test_an_unchanged_corpus_is_counted_once(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import holdfast.pretraining.vocabulary as module

    first = own_tokenizer(spool_corpus(str(corpus)), 120, max_length=32).get_vocab()
    monkeypatch.setattr(module, "train_wordpieces", lambda *_: pytest.fail("counted again"))
    assert own_tokenizer(spool_corpus(str(corpus)), 120, max_length=64).get_vocab() == first


@pytest.mark.parametrize(("size", "said"), [(20, "too small: the corpus has"), (9000, "too large: the corpus yields")])
def test_a_vocabulary_that_does_not_fit_is_told(corpus: Path, size: int, said: str) -> None:
    with pytest.raises(UserError, match=said) as message:
        own_tokenizer(spool_corpus(str(corpus)), size, max_length=32)
    advised = int(str(message.value).partition("give ")[2].removeprefix("at least ").split()[0].replace(",", ""))
    assert len(own_tokenizer(spool_corpus(str(corpus)), advised, max_length=32)) == advised, "the advice works"
