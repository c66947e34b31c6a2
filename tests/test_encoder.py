"""The encoder on every backbone: perturbations enter once, and nothing leaks out of a context."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from holdfast.backbone import Backbone, is_bert_shaped
from holdfast.encoder import Encoder, freeze_unused, unwrap
from holdfast.errors import UserError


@pytest.fixture
def model(backbone: str, make_encoder_model: Any) -> Any:
    return make_encoder_model(backbone)


def features_of(model: Any, sentences: list[str]) -> dict[str, Any]:
    return dict(model.preprocess(sentences))


def plain_vectors(model: Any, features: dict[str, Any]) -> torch.Tensor:
    return model(dict(features))["sentence_embedding"]


def max_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    return (a - b).abs().max().item()


class LayerInput:
    """What really enters the n-th layer of each pass, read by hooks of the test's own."""

    def __init__(self, model: Any, number: int = 0) -> None:
        self.seen: list[torch.Tensor] = []
        self._number, self._passed = number, 0
        backbone = Backbone.of(model)
        backbone.embedding.register_forward_pre_hook(self._begin)
        for layer in backbone.layers:
            layer.register_forward_pre_hook(self._keep, with_kwargs=True)

    def _begin(self, *_: Any) -> None:
        self._passed = 0

    def _keep(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._passed == self._number:
            self.seen.append((args[0] if args else kwargs["hidden_states"]).detach())
        self._passed += 1


def test_groups_and_short_last_layer_change_nothing(model: Any, sentences: list[str]) -> None:
    features = features_of(model, sentences)
    expected = plain_vectors(model, features)
    for groups in (1, 2, 4):
        for short in (False, True):
            encoder = Encoder(model, length_groups=groups, first_token_only=short)
            assert max_difference(encoder.encode(features), expected) < 2e-5
    assert expected.std(dim=0).max() > 0.05, "vectors that are all alike would prove nothing"


def test_short_last_layer_is_taken_and_its_gradients_agree(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert").double()
    features = features_of(model, sentences)
    grads = {}
    for short in (False, True):
        encoder = Encoder(model, length_groups=1, first_token_only=short)
        assert encoder._first_token_only is short
        model.zero_grad()
        encoder.encode(features).square().sum().backward()
        grads[short] = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    assert grads[True].keys() == grads[False].keys()
    for name, grad in grads[False].items():
        torch.testing.assert_close(grads[True][name], grad, rtol=1e-9, atol=1e-12)
    assert not Encoder(make_encoder_model("bert", pooling="mean"))._first_token_only


@pytest.mark.parametrize(
    ("kind", "shortened"),
    [
        ("bert", True),
        ("electra", True),
        ("camembert", True),
        ("splinter", True),
        ("roberta-prelayernorm", False),
        ("xlm-roberta-xl", False),
        ("mobilebert", False),
        ("xmod", False),
        ("esm", False),
    ],
)
def test_a_last_layer_that_is_not_berts_is_not_shortened(
    kind: str, shortened: bool, make_encoder_model: Any, sentences: list[str]
) -> None:
    """Norms before the maps, bottlenecks and adapters are more than BERT's layer has: all of it is computed."""
    from transformers import CONFIG_MAPPING, AutoModel

    size = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    size |= {"vocab_size": 30, "max_position_embeddings": 64, "pad_token_id": 0, "initializer_range": 0.5}
    if kind == "mobilebert":
        size |= {"intra_bottleneck_size": 8, "embedding_size": 16}
    if kind == "xmod":
        size |= {"languages": ["en_XX"], "default_language": "en_XX"}
    torch.manual_seed(0)
    model = make_encoder_model("bert")
    model[0].model = AutoModel.from_config(CONFIG_MAPPING[kind](**size), attn_implementation="eager").eval()
    assert is_bert_shaped(Backbone.of(model).layers[-1]) is shortened
    features = features_of(model, sentences)
    expected = plain_vectors(model, features)
    found = Encoder(model, first_token_only=True).encode(features)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-5)
    assert expected.std(dim=0).max() > 0.05, "vectors that are all alike would prove nothing"


def test_views_are_in_order_and_differ_only_by_dropout(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert")
    features = features_of(model, sentences)
    first, second = Encoder(model).encode(features, views=2).chunk(2)
    assert max_difference(first, second) < 1e-5
    model.train()
    first, second = Encoder(model).encode(features, views=2).chunk(2)
    assert max_difference(first, second) > 1e-3


def test_zero_delta_and_all_ones_masks_change_nothing(model: Any, sentences: list[str]) -> None:
    features = features_of(model, sentences)
    rows, length = features["attention_mask"].shape
    encoder = Encoder(model)
    expected = encoder.encode(features)
    with encoder.perturbed(delta=torch.zeros(rows, length, 16)):
        assert max_difference(encoder.encode(features), expected) == 0
    with encoder.perturbed(weakening=[torch.ones(rows, length, 16), torch.ones(rows, length, 1), torch.ones(1, 1, 16)]):
        assert max_difference(encoder.encode(features), expected) == 0


def test_delta_enters_the_first_layer_exactly_once(model: Any, sentences: list[str]) -> None:
    features = features_of(model, sentences)
    rows, length = features["attention_mask"].shape
    delta = torch.randn(rows, length, 16)
    probe = LayerInput(model)
    encoder = Encoder(model, length_groups=1)
    clean = encoder.encode(features)
    with encoder.perturbed(delta=delta):
        moved = encoder.encode(features)
    again = encoder.encode(features)
    assert len(probe.seen) == 3
    real = features["attention_mask"].bool()
    torch.testing.assert_close((probe.seen[1] - probe.seen[0])[real], delta[real], rtol=1e-5, atol=1e-5)
    assert max_difference(moved, clean) > 1e-2
    assert max_difference(again, clean) == 0, "the perturbation leaked out of its context"


def test_delta_of_each_row_follows_it_into_its_length_group(model: Any, sentences: list[str]) -> None:
    features = features_of(model, sentences)
    rows, length = features["attention_mask"].shape
    delta = torch.randn(rows, length, 16) * features["attention_mask"].unsqueeze(-1)
    results = []
    for groups in (1, 4):
        encoder = Encoder(model, length_groups=groups)
        with encoder.perturbed(delta=delta):
            results.append(encoder.encode(features))
    assert max_difference(*results) < 2e-5


def test_weakening_multiplies_after_the_embedding_and_the_first_layers(model: Any, sentences: list[str]) -> None:
    features = features_of(model, sentences)
    rows, length = features["attention_mask"].shape
    probe = LayerInput(model)
    second = LayerInput(model, 1).seen
    encoder = Encoder(model, length_groups=1)
    encoder.encode(features)
    masks = [torch.full((rows, length, 1), 0.5), torch.zeros(1, 1, 16)]
    with encoder.perturbed(weakening=masks):
        encoder.encode(features)
    torch.testing.assert_close(probe.seen[1], probe.seen[0] * 0.5)
    assert second[0].abs().max() > 0
    if "deberta" not in model.transformers_model.config.model_type:  # there a convolution adds to the first layer
        assert second[1].abs().max() == 0


def test_recording_holds_what_enters_the_first_layer_with_its_dropout(model: Any, sentences: list[str]) -> None:
    model.train()
    features = features_of(model, sentences)
    probe = LayerInput(model)
    encoder = Encoder(model, length_groups=1)
    with encoder.recording() as recording:
        encoder.encode(features, views=2)
    real = torch.cat([features["attention_mask"]] * 2).bool()
    torch.testing.assert_close(recording.embeddings.detach()[real], probe.seen[0][real])
    assert recording.embeddings.requires_grad
    model.eval()
    grouped = Encoder(model, length_groups=4)
    with grouped.recording() as parts:
        grouped.encode(features)
    with encoder.recording() as whole:
        encoder.encode(features)
    mask = features["attention_mask"].bool()
    torch.testing.assert_close(parts.embeddings[mask], whole.embeddings[mask])


def test_recorded_embeddings_can_be_put_back(model: Any, sentences: list[str]) -> None:
    features = features_of(model, sentences)
    encoder = Encoder(model)
    with encoder.recording() as recording:
        expected = encoder.encode(features)
    with encoder.perturbed(embeddings=recording.embeddings):
        assert max_difference(encoder.encode(features), expected) < 2e-5
    with encoder.perturbed(embeddings=recording.embeddings.flip(0)):
        assert max_difference(encoder.encode(features), expected) > 1e-2


def test_attack_mode_restores_everything_also_after_an_error(model: Any, sentences: list[str]) -> None:
    model.train()
    backbone = Backbone.of(model)
    backbone.layers[0].eval()  # a module in another mode than the rest must stay so
    frozen = next(backbone.layers[0].parameters())
    frozen.requires_grad_(False)
    modes = [module.training for module in model.modules()]
    flags = [parameter.requires_grad for parameter in model.parameters()]
    features = features_of(model, sentences)
    encoder = Encoder(model)
    state = torch.get_rng_state()

    def attack() -> None:
        with encoder.attack_mode():
            assert not any(module.training for module in model.modules())
            assert not any(parameter.requires_grad for parameter in model.parameters())
            assert max_difference(encoder.encode(features), encoder.encode(features)) == 0, "dropout is on"
            torch.rand(7)
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        attack()
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == flags
    assert torch.equal(torch.get_rng_state(), state)


def test_perturbed_removes_its_hooks_after_an_error(model: Any, sentences: list[str]) -> None:
    features = features_of(model, sentences)
    encoder = Encoder(model)
    expected = encoder.encode(features)

    def fail() -> None:
        with encoder.perturbed(delta=torch.ones(1, 1, 16), weakening=[torch.zeros(1, 1, 16)]):
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert max_difference(encoder.encode(features), expected) == 0


def test_gradient_reaches_delta_and_stays_out_of_padding(model: Any, sentences: list[str]) -> None:
    features = features_of(model, sentences)
    rows, length = features["attention_mask"].shape
    delta = torch.zeros(rows, length, 16, requires_grad=True)
    encoder = Encoder(model)
    with encoder.attack_mode(), encoder.perturbed(delta=delta):
        vectors = encoder.encode(features)
        (vectors * torch.arange(16.0)).sum().backward()  # not the sum of squares: a LayerNorm makes that constant
    assert delta.grad is not None
    per_token = delta.grad.abs().amax(dim=-1)
    mask = features["attention_mask"].bool()
    assert (per_token[mask] > 0).all()
    assert (per_token[~mask] == 0).all()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_unused_parameters_are_found(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert")
    names = freeze_unused(Encoder(model), features_of(model, sentences[:2]))
    assert names
    assert all("pooler" in name for name in names)
    assert freeze_unused(Encoder(model), features_of(model, sentences[:2])) == []


def test_model_without_a_transformer_is_refused() -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import BoW

    with pytest.raises(UserError, match=r"supported backbones: bert, roberta"):
        Encoder(SentenceTransformer(modules=[BoW(vocab=["a", "b"])], device="cpu"))


def test_unwrap_sees_through_wrappers_and_refuses_others(make_encoder_model: Any) -> None:
    model = make_encoder_model("bert")

    class Wrapper(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

    assert unwrap(Wrapper(Wrapper(model))) is model
    with pytest.raises(TypeError, match="expected a SentenceTransformer"):
        unwrap(nn.Linear(2, 2))


def test_a_pair_is_the_mask_it_sums_to_and_one_at_padding(model: Any, sentences: list[str]) -> None:
    encoder = Encoder(model)
    features = encoder.tokenise(sentences)
    rows, length = features["attention_mask"].shape
    token, feature = torch.rand(rows, length, 1), torch.rand(rows, 1, 16)
    real = features["attention_mask"].bool().unsqueeze(-1)
    full = torch.where(real, token + feature, 1.0)
    with encoder.perturbed(weakening=[full, full, full]):
        expected = encoder.encode(features)
    with encoder.perturbed(weakening=[(token, feature)] * 3):
        torch.testing.assert_close(encoder.encode(features), expected)
    with encoder.perturbed(weakening=[(token, feature[:1])]):
        shared = encoder.encode(features)
    with encoder.perturbed(weakening=[torch.where(real, token + feature[:1], 1.0)]):
        torch.testing.assert_close(encoder.encode(features), shared)
    assert not torch.allclose(shared, encoder.encode(features), atol=1e-3)


def test_too_many_weakening_masks_are_refused(make_encoder_model: Any) -> None:
    encoder = Encoder(make_encoder_model("bert", layers=2))
    with (
        pytest.raises(ValueError, match="do not fit 2 layers"),
        encoder.perturbed(weakening=[torch.ones(1, 1, 16)] * 3),
    ):
        pass


def test_a_name_is_loaded_and_pooled_at_cls(masked_lm: Any, sentences: list[str]) -> None:
    encoder = Encoder(str(masked_lm))
    bert = encoder.model.transformers_model
    assert bert is not None
    encoder.model.eval()
    tokens = encoder.tokenise(sentences)
    vectors = encoder.encode(tokens)
    expected = bert(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]).last_hidden_state[:, 0]
    assert max_difference(vectors, expected) < 2e-5
