"""The masked LM's proposals against its full output, and its embeddings as a filter."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from architectures import ENCODERS
from holdfast.adversary.masked_lm import EmbeddingSimilarity, Fillers, MaskedLM, head_at
from holdfast.edits.synonyms import ListedNeighbours
from holdfast.edits.words import Words, is_content_word
from holdfast.errors import UserError

TINY: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
CONTENT = "man woman child dog cat runs sleeps eats plays sings park house bed red big old".split()


@pytest.fixture
def model(masked_lm: Path) -> MaskedLM:
    return MaskedLM(str(masked_lm))


def full_order(model: MaskedLM, text: str) -> list[str]:
    """Content words by their probability at the one mask of a text, from the logits of all positions."""
    encoded = model.tokenizer(text, return_tensors="pt")
    position = encoded["input_ids"][0].tolist().index(model.tokenizer.mask_token_id)
    with torch.no_grad():
        logits = model.model(**encoded).logits[0, position]
    scores = dict(zip(model.tokenizer.convert_ids_to_tokens(range(len(logits))), logits.tolist(), strict=True))
    return sorted(CONTENT, key=lambda word: -scores[word])


def test_proposals_are_the_most_probable_content_words(model: MaskedLM) -> None:
    texts = ["The old man sleeps.", "a dog", "the woman, who sings, runs in the big red park"]
    found = model.propose([Words.of(text) for text in texts], [2, 1, 8])
    masked = ["The old [MASK] sleeps.", "a [MASK]", "the woman, who sings, runs in the big [MASK] park"]
    assert Words.of(texts[2]).exchanged(8, "[MASK]").text == masked[2]
    for words, text in zip(found, masked, strict=True):
        assert words == full_order(model, text)
    assert found[0] != found[1]


def test_many_texts_in_batches_are_as_each_alone(model: MaskedLM) -> None:
    texts = [Words.of(f"{a} {b} the old {a} on a {b}") for a in CONTENT for b in CONTENT]
    places = [i % 8 for i in range(len(texts))]
    together = model.propose(texts, places)
    for i in range(0, len(texts), 37):
        assert model.propose([texts[i]], [places[i]]) == [together[i]]


def test_a_tokeniser_that_pads_or_cuts_on_the_left_reads_the_same(masked_lm: Path, tmp_path: Path) -> None:
    texts = [Words.of("the old man sleeps on the bed"), Words.of("a dog"), Words.of("a dog " * 200)]
    expected = MaskedLM(str(masked_lm))
    other = tmp_path / "left"
    shutil.copytree(masked_lm, other)
    path = other / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**config, "padding_side": "left", "truncation_side": "left"}), encoding="utf-8")
    left = MaskedLM(str(other))
    assert left.propose(texts, [2, 1, 3]) == expected.propose(texts, [2, 1, 3])
    assert left.read(texts, 3) == expected.read(texts, 3)
    assert all(any(words) for words in left.read(texts, 3))


def test_the_right_mask_is_read(model: MaskedLM) -> None:
    text = Words.of("the [MASK] dog eats the cat")
    assert text.words[1] == "MASK"
    encoded = model.tokenizer("the [MASK] dog eats the [MASK]", return_tensors="pt")
    with torch.no_grad():
        logits = model.model(**encoded).logits[0, 6]
    order = sorted(CONTENT, key=lambda word: -logits[model.tokenizer.convert_tokens_to_ids(word)])
    assert model.propose([text], [5]) == [order]


def test_nothing_is_proposed_beyond_the_window(tmp_path: Path, make_masked_lm: Any) -> None:
    model = MaskedLM(str(make_masked_lm(tmp_path / "short", max_positions=8)))
    text = Words.of("dog " * 20)
    inside, outside = model.propose([text, text], [5, 6])
    assert sorted(inside) == sorted(CONTENT)
    assert outside == []


def test_nothing_is_random_or_left_behind(model: MaskedLM) -> None:
    state = torch.get_rng_state()
    text = [Words.of("the old dog sleeps")]
    assert model.propose(text, [2]) == model.propose(text, [2])
    assert torch.equal(torch.get_rng_state(), state)
    assert not model.model.training
    assert not model.model.base_model._forward_hooks
    assert not any(p.requires_grad for p in model.model.parameters())


@pytest.mark.parametrize("backbone", ENCODERS)
def test_the_head_sees_one_position_whatever_the_model(make_encoder_model: Any, backbone: str) -> None:
    from transformers import AutoModelForMaskedLM

    model = AutoModelForMaskedLM.from_config(make_encoder_model(backbone).transformers_model.config).eval()
    ids = torch.randint(5, 26, (3, 7))
    positions = torch.tensor([1, 6, 3])
    with torch.no_grad():
        full = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        with head_at(model, positions[:, None]):
            one = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        again = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    assert one.shape == (3, 1, 26)
    torch.testing.assert_close(one[:, 0], full[range(3), positions], rtol=1e-4, atol=1e-5)
    assert torch.equal(again, full)


class TestSubWords:
    """Vocabularies with pieces that are no words."""

    @pytest.fixture
    def wordpiece(self, tmp_path: Path) -> MaskedLM:
        from transformers import BertConfig, BertForMaskedLM, BertTokenizer

        tokens = "[PAD] [UNK] [CLS] [SEP] [MASK] the dog cat house ##dog ##s dogs 1990 3rd x ! happy ##house".split()
        folder = tmp_path / "wordpiece"
        vocabulary = {token: i for i, token in enumerate(tokens)}
        BertTokenizer(vocab=vocabulary, model_max_length=32).save_pretrained(folder)
        BertForMaskedLM(BertConfig(vocab_size=len(tokens), **TINY)).save_pretrained(folder)
        return MaskedLM(str(folder))

    def test_wordpieces_that_continue_a_word_are_not_proposed(self, wordpiece: MaskedLM) -> None:
        (found,) = wordpiece.propose([Words.of("the dog!")], [1])
        assert sorted(found) == ["cat", "dog", "dogs", "happy", "house"]

    def test_a_word_that_the_window_cuts_has_no_candidates(self, wordpiece: MaskedLM) -> None:
        text = [Words.of("the dog cat cats")]
        for window, read in ((32, [True] * 4), (7, [True] * 4), (6, [True, True, True, False])):
            wordpiece._window = window  # [CLS] the dog cat cat ##s [SEP] are seven
            (found,) = wordpiece.read(text, 300)
            assert [bool(words) for words in found] == read

    def test_a_word_of_several_pieces_has_their_mean(self, wordpiece: MaskedLM) -> None:
        table = wordpiece.model.get_input_embeddings().weight.detach().numpy()
        assert wordpiece.pieces(["cats", "doghouse"]) == [[7, 10], [6, 17]]
        cats, doghouse = table[[7, 10]].mean(axis=0), table[[6, 17]].mean(axis=0)
        cosine = cats @ doghouse / np.linalg.norm(cats) / np.linalg.norm(doghouse)
        for threshold, near in ((cosine - 1e-4, ["doghouse"]), (cosine + 1e-4, [])):
            similarity = EmbeddingSimilarity(wordpiece, threshold=float(threshold))
            assert similarity.similar("cats", ["doghouse"]) == near

    def test_byte_pieces(self, tmp_path: Path) -> None:
        """A byte-level vocabulary marks the beginning of a word, and spells letters beyond ASCII in several signs."""
        from tokenizers import ByteLevelBPETokenizer
        from tokenizers.processors import TemplateProcessing
        from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

        backend = ByteLevelBPETokenizer()
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        corpus = ["a dog and a café and an undog", "some dog some café some Dog undo"] * 50
        backend.train_from_iterator(corpus, vocab_size=320, min_frequency=2, special_tokens=special)
        names = dict(zip(["bos_token", "pad_token", "eos_token", "unk_token", "mask_token"], special, strict=True))
        folder = tmp_path / "bytes"
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend._tokenizer, model_max_length=30, **names)
        tokenizer.save_pretrained(folder)
        RobertaForMaskedLM(RobertaConfig(vocab_size=len(tokenizer), **TINY)).save_pretrained(folder)
        found = sorted(MaskedLM(str(folder)).propose([Words.of("A dog, some dog")], [1])[0])
        begin = {token: tokenizer.decode([i]) for token, i in tokenizer.get_vocab().items() if token.startswith("Ġ")}
        assert found == sorted(word[1:] for word in begin.values() if is_content_word(word[1:]))
        assert {"dog", "Dog", "café", "undo", "undog"} <= set(found)
        # Here a word's first piece begins at the blank before it, where another tokeniser has trimmed it.
        ends = [("<s>", 0), ("</s>", 2)]
        backend._tokenizer.post_processor = TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
        PreTrainedTokenizerFast(tokenizer_object=backend._tokenizer, model_max_length=30, **names).save_pretrained(
            folder
        )
        untrimmed = MaskedLM(str(folder))
        assert untrimmed.tokenizer("a dog", return_offsets_mapping=True)["offset_mapping"][2][0] == 1
        (readings,) = untrimmed.read([Words.of("a dog some dog")], 300)
        assert all(set(of_word) >= {"dog", "Dog", "undo"} for of_word in readings), readings


def test_the_filter_by_embeddings(model: MaskedLM) -> None:
    table = model.model.get_input_embeddings().weight.detach().numpy()
    unit = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-9)

    def row(word: str) -> int:
        return int(model.tokenizer.convert_tokens_to_ids(word))

    similarity = EmbeddingSimilarity(model, threshold=0.1)
    for word in CONTENT:
        expected = [other for other in CONTENT if unit[row(word)] @ unit[row(other)] >= 0.1]
        assert similarity.similar(word, CONTENT) == expected
    assert similarity.similar("dog", []) == []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert similarity.similar("dog", CONTENT) == similarity.similar("dog", CONTENT)
    assert "input embeddings" in similarity.source
    assert "0.1" in similarity.source


def test_candidates_are_near_other_words_in_the_case_of_the_original(model: MaskedLM) -> None:
    near = ListedNeighbours({"dog": ["cat", "man", "dog", "child", "wolf"]}, source="mine")
    text = Words.of("the Dog sleeps")
    order = [word for word in full_order(model, "the [MASK] sleeps") if word in ("cat", "man", "child")]
    assert Fillers(model, near, limit=25).candidates([text], [1]) == [[word.capitalize() for word in order]]
    assert Fillers(model, near, limit=2).candidates([text], [1]) == [[word.capitalize() for word in order[:2]]]
    assert Fillers(model, near, limit=2).candidates([text], [2]) == [[]]
    assert Fillers(model, near, limit=2).source == f"masked LM {model.source}; mine"
    with pytest.raises(ValueError, match="at least one candidate"):
        Fillers(model, near, limit=0)


class TestRefused:
    def test_a_model_without_a_head(self, tmp_path: Path, masked_lm: Path) -> None:
        from transformers import AutoModel, AutoTokenizer

        folder = tmp_path / "bare"
        AutoModel.from_pretrained(masked_lm).save_pretrained(folder)
        AutoTokenizer.from_pretrained(masked_lm).save_pretrained(folder)
        with pytest.raises(UserError, match=r"no masked-LM head .*masked_lm="):
            MaskedLM(str(folder))

    def test_a_tokeniser_without_a_mask(self, tmp_path: Path, masked_lm: Path) -> None:
        import json

        settings = json.loads((masked_lm / "tokenizer_config.json").read_text())
        settings["mask_token"] = None
        (masked_lm / "tokenizer_config.json").write_text(json.dumps(settings))
        with pytest.raises(UserError, match="no mask token"):
            MaskedLM(str(masked_lm))

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="no such model folder"):
            MaskedLM(str(tmp_path / "nowhere" / "model"))


def test_vectors_are_remembered_up_to_a_limit(model: MaskedLM, monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = EmbeddingSimilarity(model, threshold=0.1)
    expected = [unlimited.similar(word, CONTENT) for word in CONTENT]
    monkeypatch.setattr("holdfast.adversary.masked_lm._REMEMBERED", 5)
    limited = EmbeddingSimilarity(model, threshold=0.1)
    for word, near in zip(CONTENT, expected, strict=True):
        assert limited.similar(word, CONTENT[:3]) == [other for other in near if other in CONTENT[:3]]
        assert len(limited._vectors) <= 5 + 4


def test_a_hundred_words_are_proposed(tmp_path: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    letters = "abcdefghijklmnopqrst"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"x{a}{b}" for a in letters for b in letters[:8])]
    BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}, model_max_length=32).save_pretrained(tmp_path)
    BertForMaskedLM(BertConfig(vocab_size=len(tokens), **TINY)).save_pretrained(tmp_path)
    (found,) = MaskedLM(str(tmp_path)).propose([Words.of("xaa xab")], [1])
    assert len(found) == 100


def test_a_word_of_several_pieces_is_read_as_their_likeliest_combinations(tmp_path: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    tokens = "[PAD] [UNK] [CLS] [SEP] [MASK] the dog cat house ##dog ##s dogs happy ##house".split()
    BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}, model_max_length=32).save_pretrained(tmp_path)
    torch.manual_seed(0)
    BertForMaskedLM(BertConfig(vocab_size=len(tokens), **{**TINY, "initializer_range": 0.5})).save_pretrained(tmp_path)
    model = MaskedLM(str(tmp_path))
    encoded = model.tokenizer("the cats", return_tensors="pt")
    assert encoded["input_ids"][0].tolist()[1:4] == [5, 7, 10]
    with torch.no_grad():
        first, second = model.model(**encoded).logits[0, 2:4].log_softmax(dim=-1).tolist()
    count = len(tokens)
    pairs = sorted(((a, b) for a in range(count) for b in range(count)), key=lambda p: -first[p[0]] - second[p[1]])
    words = [model.tokenizer.decode(list(pair)).strip() for pair in pairs[:60]]
    expected = [word for word in dict.fromkeys(words) if is_content_word(word)]
    assert len(expected) > 3
    assert model.read([Words.of("the cats")], 60)[0][1] == expected
