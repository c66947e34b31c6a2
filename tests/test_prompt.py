"""Prompt pooling against a hand-made PromptBERT: string templates, one sentence at a time, [MASK] picked by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, WordWeights

from architectures import ENCODERS, MORE_ENCODERS
from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer
from holdfast.objectives import RobustEmbed, SimCSE
from holdfast.prompt import Prompt, Wording, template_length, with_prompt

TEXTS = {
    "bert": ('This sentence of "{}" means [MASK].', 'This sentence : "{}" means [MASK].'),
    "roberta": ("This sentence : ' {} ' means <mask>.", "The sentence : ' {} ' means <mask>."),
}
SENTENCES = [
    "the old man sleeps on the big red bed in the house.",
    "a dog runs.",
    "does the woman sing under the house?",
    "a cat 'eats' in the park.",
    "child plays.",
    'the big "dog" sleeps.',
    "a man runs in the park!",
    "the child sings.",
]
WORDS = (
    "the a man woman child dog cat runs sleeps eats plays sing ##s does on under in park house bed red big old".split()
)


def make_bert(folder: Path) -> Path:
    """A random BERT with a WordPiece tokeniser that knows the template's words."""
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *"this sentence of means mask unk".split()]
    tokens += list("[].:\"'!?")
    tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}, model_max_length=64)
    torch.manual_seed(0)
    BertForMaskedLM(BertConfig(vocab_size=len(tokens), **_SIZES)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_roberta(folder: Path) -> Path:
    """A random RoBERTa with a byte-level BPE, trained here."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import AddedToken, RobertaConfig, RobertaForMaskedLM, RobertaTokenizer

    bpe = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    texts = [template.format(sentence) for template in TEXTS["roberta"] for sentence in SENTENCES] * 20
    bpe.train_from_iterator(texts, vocab_size=500, min_frequency=1, special_tokens=special, show_progress=False)
    learned = json.loads(bpe._tokenizer.to_str())["model"]
    tokenizer = RobertaTokenizer(
        vocab=learned["vocab"],
        merges=[tuple(merge) for merge in learned["merges"]],
        mask_token=AddedToken("<mask>", lstrip=True, special=True),  # as roberta-base's
        model_max_length=62,
    )
    torch.manual_seed(0)
    RobertaForMaskedLM(RobertaConfig(vocab_size=len(tokenizer), pad_token_id=1, **_SIZES)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


_SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
_SIZES |= {"max_position_embeddings": 64, "initializer_range": 0.5}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("raw")
    return {"bert": make_bert(base / "bert"), "roberta": make_roberta(base / "roberta")}


@pytest.fixture(params=["bert", "roberta"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def raw(kind: str, folders: dict[str, Path]) -> Path:
    return folders[kind]


@pytest.fixture
def model(raw: Path) -> SentenceTransformer:
    """A prompt model in fp64, in training mode with its dropout set to 0."""
    return exact(load_sentence_transformer(str(raw), pooling="prompt", device="cpu"))


def exact(model: SentenceTransformer) -> SentenceTransformer:
    model = model.double().train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


class Slow:
    """PromptBERT by hand, around the Hugging Face model inside ``model`` and the tokeniser that it came with."""

    def __init__(self, model: SentenceTransformer, raw: Path, kind: str) -> None:
        from transformers import AutoTokenizer

        self.transformer: Any = model.transformers_model
        self.tokenizer = AutoTokenizer.from_pretrained(raw)
        self.texts = TEXTS[kind]
        self.first = 0 if kind == "bert" else 2  # RoBERTa counts positions from the padding's, which is 1

    def ids(self, view: int, sentence: str) -> list[int]:
        ids: list[int] = self.tokenizer(self.texts[view].format(sentence))["input_ids"]
        return ids

    def at_mask(self, ids: list[int], positions: list[int]) -> torch.Tensor:
        states = self.transformer(input_ids=torch.tensor([ids]), position_ids=torch.tensor([positions]))
        vector: torch.Tensor = states.last_hidden_state[0, ids.index(self.tokenizer.mask_token_id)]
        return vector

    def vector(self, view: int, sentence: str) -> torch.Tensor:
        ids = self.ids(view, sentence)
        return self.at_mask(ids, list(range(self.first, self.first + len(ids))))

    def bias(self, view: int, sentence: str) -> torch.Tensor:
        inner = self.tokenizer((" " if self.first else "") + sentence, add_special_tokens=False)["input_ids"]
        ids = self.ids(view, sentence)
        start = next(i for i in range(len(ids)) if ids[i : i + len(inner)] == inner)
        positions = list(range(self.first, self.first + len(ids)))
        end = start + len(inner)
        return self.at_mask(ids[:start] + ids[end:], positions[:start] + positions[end:])


def vectors_of(model: SentenceTransformer, sentences: list[str]) -> torch.Tensor:
    vectors: torch.Tensor = model(dict(model.preprocess(sentences)))["sentence_embedding"]
    return vectors


# --- the native model ------------------------------------------------------------------------------------------------


def test_the_vectors_are_those_of_the_hand_made_prompt(model: SentenceTransformer, raw: Path, kind: str) -> None:
    slow = Slow(model, raw, kind)
    expected = torch.stack([slow.vector(0, sentence) for sentence in SENTENCES])
    torch.testing.assert_close(vectors_of(model, SENTENCES), expected, rtol=0, atol=1e-10)
    assert expected.std(dim=0).max() > 0.05, "vectors that are all alike would prove nothing"
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}


RELOAD = """
import sys
sys.modules["holdfast"] = None
import json, numpy
from sentence_transformers import SentenceTransformer
for folder, texts in json.loads(sys.argv[1]).items():
    numpy.save(folder + ".npy", SentenceTransformer(folder).encode(texts))
"""


@pytest.mark.slow
def test_a_plain_process_gives_the_same_vectors(folders: dict[str, Path], tmp_path: Path) -> None:
    texts, ours = {}, {}
    for kind, raw in folders.items():
        model = load_sentence_transformer(str(raw), pooling="prompt", device="cpu")
        mask, folder = model.tokenizer.mask_token, str(tmp_path / kind)
        texts[folder] = [*SENTENCES, "a dog", f"a {mask} dog", f"{mask}", "", "the old man " * 40]
        ours[folder] = model.encode(texts[folder])
        model.save_pretrained(folder, create_model_card=False)
        modules = json.loads((tmp_path / kind / "modules.json").read_text())
        assert [module["type"].split(".")[0] for module in modules] == ["sentence_transformers"] * 3
    command = [sys.executable, "-c", RELOAD, json.dumps(texts)]
    finished = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    for folder, vectors in ours.items():
        assert np.abs(np.load(folder + ".npy") - vectors).max() < 1e-5


def test_a_saved_prompt_model_is_recognised_and_stays_one(raw: Path, tmp_path: Path) -> None:
    model = load_sentence_transformer(str(raw), pooling="prompt", device="cpu")
    model.save_pretrained(str(tmp_path / "saved"), create_model_card=False)
    for pooling in (None, "prompt"):
        again = load_sentence_transformer(str(tmp_path / "saved"), pooling=pooling, device="cpu")
        assert Prompt.of(again) == Prompt.of(model) is not None
        assert not any(parameter.requires_grad for parameter in again[1].parameters())
        np.testing.assert_array_equal(again.encode(SENTENCES), model.encode(SENTENCES))
        assert again.max_seq_length == model.max_seq_length
    with pytest.raises(UserError, match="whose pooling is prompt: leave pooling out"):
        load_sentence_transformer(str(tmp_path / "saved"), pooling="mean", device="cpu")


def test_the_template_survives_truncation_and_is_not_part_of_the_sentences_limit(
    model: SentenceTransformer, raw: Path
) -> None:
    tokenizer = model.tokenizer
    added = template_length(model)
    assert added == 10
    whole = tokenizer.convert_ids_to_tokens(model.preprocess([SENTENCES[0]])["input_ids"][0])
    model.max_seq_length = added + 4
    cut = tokenizer.convert_ids_to_tokens(model.preprocess([SENTENCES[0]])["input_ids"][0])
    assert len(cut) == added + 4
    assert cut == whole[: 5 + 4] + whole[-5:]
    assert template_length(load_sentence_transformer(str(raw), device="cpu")) == 0


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        *[("a dog", "dog ."), ("a dog. ", "dog ."), ("a dog \n", "dog ."), ("a dog?", "dog ?"), ("a dog!", "dog !")],
        *[('a "dog"', 'dog "'), ("a 'dog'", "dog '"), ("a dog :", ": ."), ("a. dog", "dog ."), ("", '"')],
    ],
)
def test_a_final_mark_is_added_where_it_is_missing(folders: dict[str, Path], text: str, ending: str) -> None:
    tokenizer = load_sentence_transformer(str(folders["bert"]), pooling="prompt", device="cpu").tokenizer
    tokens = " ".join(tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]))
    assert tokens.startswith('[CLS] this sentence of "')
    assert tokens.endswith(f'{ending} " means [MASK] . [SEP]')
    assert tokens.removesuffix(' " means [MASK] . [SEP]').count(".") == (ending + text[:2]).count(".")


def test_the_mask_token_in_a_text_does_not_move_the_pooling(model: SentenceTransformer) -> None:
    mask = model.tokenizer.mask_token
    ids = model.preprocess([f"a {mask} dog.", mask, f"{mask}{mask}", f"a {mask[0]}{mask}{mask[1:]} dog."])["input_ids"]
    assert (ids == model.tokenizer.mask_token_id).sum(dim=1).tolist() == [1, 1, 1, 1]


def test_a_vocabulary_that_holds_the_mask_as_a_word(tmp_path: Path) -> None:
    """As XLM-R's: SentencePiece finds <mask> in a text as a piece, special token or not."""
    from transformers import XLMRobertaConfig, XLMRobertaForMaskedLM, XLMRobertaTokenizer

    pieces = "▁This ▁The ▁sentence ▁: ▁' ▁means ▁a ▁cat . ' ▁ a b c < >".split(" ")
    special = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    vocabulary = [*special, *((piece, -2.0) for piece in pieces), ("<mask>", 0.0)]
    XLMRobertaTokenizer(vocab=vocabulary, model_max_length=62).save_pretrained(tmp_path)
    config = XLMRobertaConfig(vocab_size=len(vocabulary), pad_token_id=1, **_SIZES)
    XLMRobertaForMaskedLM(config).save_pretrained(tmp_path)
    tokenizer = load_sentence_transformer(str(tmp_path), pooling="prompt", device="cpu").tokenizer
    shown = tokenizer.convert_ids_to_tokens(tokenizer("a <mask> cat.")["input_ids"])
    assert " ".join(shown) == "<s> ▁This ▁sentence ▁: ▁' ▁a ▁cat . ▁' ▁means <mask> ▁ . </s>"


def test_offsets_and_words_are_of_the_text(model: SentenceTransformer, raw: Path) -> None:
    from transformers import AutoTokenizer

    text = "a man runs in the park."
    ours = model.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
    plain = AutoTokenizer.from_pretrained(raw)(text, return_offsets_mapping=True, add_special_tokens=False)
    own = [not special for special in ours["special_tokens_mask"]]
    spans = [(a, b) for a, b in (span for span, mine in zip(ours["offset_mapping"], own, strict=True) if mine) if a < b]
    assert [text[a:b] for a, b in spans] == [text[a:b] for a, b in map(tuple, plain["offset_mapping"])]
    words = [word for word, mine in zip(ours.word_ids(), own, strict=True) if mine]
    assert words == sorted(words)
    assert None not in words


def test_rows_are_padded_on_the_right_whatever_the_tokeniser_did(folders: dict[str, Path]) -> None:
    model = load_sentence_transformer(str(folders["bert"]), device="cpu")
    model.tokenizer.padding_side = "left"
    features = with_prompt(model).preprocess(SENTENCES)
    assert features["attention_mask"][:, 0].all()
    assert not features["attention_mask"].all()


def test_two_texts_still_have_one_mask(model: SentenceTransformer) -> None:
    ids = model.tokenizer(["a dog."], ["a cat."])["input_ids"][0]
    assert ids.count(model.tokenizer.mask_token_id) == 1
    separators = {"[SEP]": 2, "</s>": 2}[model.tokenizer.sep_token]
    assert ids.count(model.tokenizer.sep_token_id) == separators


def test_other_models_with_the_same_modules_are_no_prompt_models(folders: dict[str, Path]) -> None:
    model = load_sentence_transformer(str(folders["bert"]), pooling="mean", device="cpu")
    assert Prompt.of(model) is None
    vocabulary = list(model.tokenizer.get_vocab())
    idf = WordWeights(vocabulary, {"dog": 2.0, "cat": 1.0}, unknown_word_weight=1)
    assert Prompt.of(SentenceTransformer(modules=[model[0], idf, Pooling(16, "mean")], device="cpu")) is None
    one = WordWeights(vocabulary, {"[MASK]": 1.0}, unknown_word_weight=0)
    untemplated = SentenceTransformer(modules=[model[0], one, Pooling(16, "mean")], device="cpu")
    assert Prompt.of(untemplated) is None
    assert Encoder(untemplated).prompt is None
    assert untemplated[1].emb_layer.weight.requires_grad
    prompted = load_sentence_transformer(str(folders["bert"]), pooling="prompt", device="cpu")
    for weights in (idf, WordWeights(vocabulary, {"[MASK]": 1.0}, unknown_word_weight=0.5)):
        blurred = SentenceTransformer(modules=[prompted[0], weights, Pooling(16, "mean")], device="cpu")
        assert Prompt.of(blurred) is None


# --- training --------------------------------------------------------------------------------------------------------


def test_each_view_has_its_own_template(model: SentenceTransformer, raw: Path, kind: str) -> None:
    slow = Slow(model, raw, kind)
    for groups in (1, 4):
        encoder = Encoder(model, template_bias=False, length_groups=groups)
        views = encoder.encode(encoder.tokenise(SENTENCES), views=3).chunk(3)
        for view, vectors in zip((0, 1, 0), views, strict=True):
            expected = torch.stack([slow.vector(view, sentence) for sentence in SENTENCES])
            torch.testing.assert_close(vectors, expected, rtol=0, atol=1e-10)
        assert (views[0] - views[1]).abs().max() > 0.05


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("groups", [1, 4])
def test_the_templates_bias_is_taken_off_with_gradient(
    model: SentenceTransformer, raw: Path, kind: str, groups: int, short: bool
) -> None:
    slow = Slow(model, raw, kind)
    encoder = Encoder(model, length_groups=groups, first_token_only=short)
    assert encoder._first_token_only is short
    weights = torch.randn(2 * len(SENTENCES), 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gradients = []
    expected = [slow.vector(view, text) - slow.bias(view, text) for view in (0, 1) for text in SENTENCES]
    for vectors in (encoder.encode(encoder.tokenise(SENTENCES), views=2), torch.stack(expected)):
        torch.testing.assert_close(vectors, torch.stack(expected), rtol=0, atol=1e-9)
        model.zero_grad()
        (vectors * weights).sum().backward(retain_graph=True)
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[1].items():
        torch.testing.assert_close(gradients[0][name], gradient, rtol=1e-7, atol=1e-9)
    with_bias, without = (
        Encoder(model, template_bias=bias).encode(encoder.tokenise(SENTENCES)) for bias in (True, False)
    )
    assert (with_bias - without).abs().max() > 0.05


def test_evaluation_has_no_bias_and_one_template(model: SentenceTransformer) -> None:
    encoder = Encoder(model)
    before = model.encode(SENTENCES)
    encoder.encode(encoder.tokenise(SENTENCES), views=2)
    np.testing.assert_array_equal(model.encode(SENTENCES), before)
    plain = Encoder(model, template_bias=False).encode(encoder.tokenise(SENTENCES))
    np.testing.assert_allclose(before, plain.detach(), atol=1e-6)


def test_perturbations_leave_the_bias_alone(model: SentenceTransformer) -> None:
    generator = torch.Generator().manual_seed(0)
    features = Encoder(model).tokenise(SENTENCES)
    shape = (2 * len(SENTENCES), features["input_ids"].shape[1], 16)
    delta = torch.randn(shape, generator=generator, dtype=torch.float64)
    mask = (torch.rand(shape, generator=generator) > 0.2).double()
    moved = {}
    for bias in (True, False):
        encoder = Encoder(model, template_bias=bias, length_groups=2)
        with encoder.recording() as recording:
            clean = encoder.encode(features, views=2)
        assert recording.embeddings.shape == shape
        with encoder.perturbed(delta=torch.zeros(shape, dtype=torch.float64)):
            assert (encoder.encode(features, views=2) - clean).abs().max() == 0
        with encoder.perturbed(embeddings=recording.embeddings):
            assert (encoder.encode(features, views=2) - clean).abs().max() < 1e-10
        with encoder.perturbed(embeddings=recording.embeddings, delta=delta, weakening=[mask, mask]):
            moved[bias] = encoder.encode(features, views=2) - clean
        assert (encoder.encode(features, views=2) - clean).abs().max() == 0
    assert moved[True].abs().max() > 0.05
    torch.testing.assert_close(moved[True], moved[False], rtol=0, atol=1e-10)


def test_delta_reaches_the_template_too(model: SentenceTransformer) -> None:
    encoder = Encoder(model)
    features = encoder.tokenise(SENTENCES)
    delta = torch.zeros(*features["input_ids"].shape, 16, dtype=torch.float64, requires_grad=True)
    with encoder.attack_mode(), encoder.perturbed(delta=delta):
        (encoder.encode(features) * torch.arange(16.0)).sum().backward()
    assert delta.grad is not None
    per_token = delta.grad.abs().amax(dim=-1)
    assert (per_token[features["attention_mask"].bool()] > 0).all()
    assert (per_token[~features["attention_mask"].bool()] == 0).all()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_attack_mode_has_the_bias_too_and_restores_everything(raw: Path) -> None:
    model = load_sentence_transformer(str(raw), pooling="prompt", device="cpu").train()
    encoder = Encoder(model)
    features = encoder.tokenise(SENTENCES)
    modes = [module.training for module in model.modules()]
    flags = [parameter.requires_grad for parameter in model.parameters()]
    state = torch.get_rng_state()
    with encoder.attack_mode():
        inside = encoder.encode(features)
        assert not inside.requires_grad
        assert (encoder.encode(features) - inside).abs().max() == 0, "dropout is on"
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == flags
    assert torch.equal(torch.get_rng_state(), state)
    assert (inside - model.eval()(dict(features))["sentence_embedding"]).abs().max() > 0.05
    torch.testing.assert_close(encoder.encode(features), inside)


def test_wider_padding_and_other_orders_change_nothing(model: SentenceTransformer) -> None:
    encoder = Encoder(model)
    features = encoder.tokenise(SENTENCES)
    expected = encoder.encode(features, views=2)
    pad = model.tokenizer.pad_token_id
    wide = {
        key: torch.nn.functional.pad(value, (0, 5), value=pad if key == "input_ids" else 0)
        if isinstance(value, torch.Tensor)
        else value
        for key, value in features.items()
    }
    torch.testing.assert_close(encoder.encode(wide, views=2), expected, rtol=0, atol=1e-10)
    order = torch.tensor([3, 1, 7, 0, 2, 6, 4, 5])
    mixed = {key: value[order] if isinstance(value, torch.Tensor) else value for key, value in features.items()}
    permuted = torch.cat([part[order] for part in expected.chunk(2)])
    torch.testing.assert_close(encoder.encode(mixed, views=2), permuted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("backbone", [*ENCODERS, *MORE_ENCODERS])  # decoders have no mask token
def test_on_every_backbone(backbone: str, make_encoder_model: Callable[..., Any], tmp_path: Path) -> None:
    sentences = ["the old man sleeps on the big red bed in the house", "a dog runs", "child plays", "a cat eats"]
    # In words that the tokeniser knows: its [UNK] has the id that MPNet takes for padding's.
    wording = Wording(("the old man", "a big dog"), "in the {mask} house")
    model = with_prompt(make_encoder_model(backbone), wording=wording).eval()
    features = dict(model.preprocess(sentences))
    assert (features["input_ids"] == model.tokenizer.mask_token_id).sum(dim=1).tolist() == [1] * 4
    states = model.transformers_model(input_ids=features["input_ids"], attention_mask=features["attention_mask"])
    expected = states.last_hidden_state[features["input_ids"] == model.tokenizer.mask_token_id]
    torch.testing.assert_close(vectors_of(model, sentences), expected, rtol=0, atol=1e-6)
    results = [
        Encoder(model, length_groups=groups, first_token_only=short).encode(features)
        for groups, short in ((1, False), (2, True))
    ]
    torch.testing.assert_close(*results, rtol=0, atol=2e-5)
    # Around no sentence, the template's vector is its bias.
    assert Encoder(model).encode(dict(model.preprocess(["", ""])), views=2).abs().max() < 2e-5
    assert (results[0] - expected).abs().max() > 1e-3
    model.save_pretrained(str(tmp_path), create_model_card=False)
    again = SentenceTransformer(str(tmp_path), device="cpu")
    np.testing.assert_allclose(again.encode(sentences), expected.detach(), atol=1e-5)


def test_simcse_contrasts_the_two_templates(model: SentenceTransformer, raw: Path, kind: str) -> None:
    slow = Slow(model, raw, kind)
    objective = SimCSE(model, temperature=0.1).double()
    loss = objective([Encoder(model).tokenise(SENTENCES)])["contrastive"]
    z, plus = (
        objective.head(torch.stack([slow.vector(view, s) - slow.bias(view, s) for s in SENTENCES])) for view in (0, 1)
    )
    logits = torch.nn.functional.cosine_similarity(z[:, None], plus[None], dim=-1) / 0.1
    expected = torch.nn.functional.cross_entropy(logits, torch.arange(len(SENTENCES)))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-8)
    loss.backward()
    assert model[1].emb_layer.weight.grad is None
    assert all(p.grad is not None for name, p in model.named_parameters() if p.requires_grad and "pooler" not in name)


def test_robustembed_climbs_on_it(raw: Path) -> None:
    model = load_sentence_transformer(str(raw), pooling="prompt", device="cpu").train()
    objective = RobustEmbed(model, fgsm_size=0.02, pgd_size=1e-3)
    before = model[1].emb_layer.weight.clone()
    optimizer = torch.optim.AdamW([p for p in objective.parameters() if p.requires_grad], lr=1e-3)
    for _ in range(2):
        terms = objective([Encoder(model).tokenise(SENTENCES)])
        sum(terms.values()).backward()
        optimizer.step()
        assert objective.diagnostics["attack_loss_rise"] > 0
    assert torch.equal(model[1].emb_layer.weight, before)
    released = RobustEmbed(model, as_released=True)
    with pytest.raises(UserError, match="cannot be given embeddings instead"):
        released([Encoder(model).tokenise(SENTENCES)])


def test_under_bf16_the_vectors_stay_in_fp32(raw: Path) -> None:
    model = load_sentence_transformer(str(raw), pooling="prompt", device="cpu")
    encoder = Encoder(model)
    features = encoder.tokenise(SENTENCES)
    expected = encoder.encode(features, views=2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        vectors = encoder.encode(features, views=2)
    assert vectors.dtype == torch.float32
    assert torch.nn.functional.cosine_similarity(vectors, expected).min() > 0.98


def test_the_pooling_is_frozen_wherever_the_model_comes_from(raw: Path, tmp_path: Path) -> None:
    model = load_sentence_transformer(str(raw), pooling="prompt", device="cpu")
    assert not model[1].emb_layer.weight.requires_grad
    model.save_pretrained(str(tmp_path), create_model_card=False)
    plain = SentenceTransformer(str(tmp_path), device="cpu")
    assert plain[1].emb_layer.weight.requires_grad  # sentence-transformers does not know
    SimCSE(plain)
    assert not plain[1].emb_layer.weight.requires_grad


@pytest.mark.slow
def test_a_run_with_it_and_a_run_from_what_it_left(folders: dict[str, Path], tmp_path: Path) -> None:
    from holdfast.training.train_config import TrainConfig
    from holdfast.training.training_run import train

    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(f"{a} {b} sleeps in the {c}" for a in ("a", "the") for b in WORDS[2:7] for c in WORDS))
    settings: dict[str, Any] = {"corpus": str(corpus), "max_steps": 2, "batch_size": 8, "learning_rate": 1e-2}
    settings |= {"method": "simcse", "selection": "last", "report_sts": False}
    train(TrainConfig(model=str(folders["bert"]), pooling="prompt", output=tmp_path / "one", **settings))
    train(TrainConfig(model=str(tmp_path / "one"), output=tmp_path / "two", **settings))
    models = [SentenceTransformer(str(tmp_path / name), device="cpu") for name in ("one", "two")]
    assert [Prompt.of(model) is not None for model in models] == [True, True]
    first, second = (model.encode(SENTENCES) for model in models)
    assert np.abs(first - second).max() > 1e-3
    for model in models:
        assert model[1].emb_layer.weight.sum().item() == 1
        assert model.max_seq_length == 64
    assert "| pooling | `prompt` |" in (tmp_path / "one" / "README.md").read_text(encoding="utf-8")


# --- refusing --------------------------------------------------------------------------------------------------------


def test_rows_without_the_template_are_refused(model: SentenceTransformer) -> None:
    encoder = Encoder(model)
    features = dict(encoder.tokenise(SENTENCES))
    shifted = features | {"input_ids": features["input_ids"].roll(1, dims=1)}
    with pytest.raises(ValueError, match="tokenise them with its own tokeniser"):
        encoder.encode(shifted)
    with pytest.raises(ValueError, match="do not begin with the model's prompt"):
        encoder.encode({key: value[:, :6] for key, value in features.items() if isinstance(value, torch.Tensor)})


def test_a_tokeniser_without_a_mask_token_or_a_slow_one_is_refused(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import BertTokenizer

    folder = make_bert(tmp_path / "maskless")
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"mask_token": None}))
    with pytest.raises(UserError, match="maskless: prompt pooling needs a mask token"):
        load_sentence_transformer(str(folder), pooling="prompt", device="cpu")
    monkeypatch.setattr(BertTokenizer, "is_fast", False)
    with pytest.raises(UserError, match="bert: prompt pooling needs a fast tokeniser"):
        load_sentence_transformer(str(folders["bert"]), pooling="prompt", device="cpu")


def test_wordings_that_do_not_fit_are_refused(folders: dict[str, Path]) -> None:
    def prompted(wording: Wording) -> SentenceTransformer:
        return with_prompt(load_sentence_transformer(str(folders["bert"]), device="cpu"), wording=wording, name="x")

    with pytest.raises(UserError, match=r"different numbers of tokens \(3, 5 before the sentence\)"):
        prompted(Wording(('this "', 'this sentence of "'), '" means {mask}.'))
    for closing in ('" means.', "{mask} means {mask}"):
        with pytest.raises(UserError, match=r"must have one \{mask\}"):
            prompted(Wording(('this "',), closing))
    model = prompted(Wording(('this "', 'the "'), '" {mask}'))
    with pytest.raises(UserError, match="x has a prompt already"):
        with_prompt(model, name="x")
    prompt = Prompt.of(model)
    assert prompt is not None
    assert not model[1].emb_layer.weight.requires_grad
    assert template_length(model) == len(prompt.openings[0]) + len(prompt.closing) == 6
    encoder = Encoder(model.eval(), template_bias=False)
    assert (encoder.encode(encoder.tokenise(SENTENCES), views=2).chunk(2)[1]).shape == (8, 16)
