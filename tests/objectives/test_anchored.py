"""Anchored hardening against a slow rendering of its loss, special cases, and its invariants."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from gradient_checks import gradients, wider

from holdfast.adversary.balls import sentence_norm
from holdfast.adversary.gradient_encoder import recovered_texts, with_texts
from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.input_limits import set_limit
from holdfast.models import load_sentence_transformer
from holdfast.objectives.anchored import Anchored, relations_divergence

TWO_FORMS: dict[str, Any] = {"forms": "both", "relations": 0.0, "edits": "key,swap,drop,space,case", "tries": 4}
"""The loss of `slow`: each sentence clean and changed, and no relations."""


def build(model: Any, **changes: Any) -> Anchored:
    """An encoder that has left its original, and draws that are fixed."""
    torch.manual_seed(0)
    objective = Anchored(model, **{**TWO_FORMS, "adversarial": 0.5, **changes}).double()
    objective.followed_by_trainer = True
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in objective.model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    normal = torch.randn(64, 16, generator=generator, dtype=torch.float64) * 1e-3
    replaced: Any = objective
    replaced.initial_noise = lambda x: normal[: x.shape[1]].expand_as(x)
    return objective


def rows(features: Any) -> list[torch.Tensor]:
    return [row[mask.bool()] for row, mask in zip(features["input_ids"], features["attention_mask"], strict=True)]


def changed(objective: Anchored, batch: dict[str, Any]) -> dict[str, Any]:
    return objective.changed(objective.encoder, batch, anchors_of(objective, batch))[0]


def anchors_of(objective: Anchored, batch: dict[str, Any]) -> torch.Tensor:
    with torch.no_grad():
        return Encoder(objective.original).encode(batch)


def slow(
    objective: Anchored, sentences: list[torch.Tensor], changed: list[torch.Tensor], normal: torch.Tensor
) -> dict[str, Any]:
    """Each sentence alone, by the transformer itself; δ by plain projected ascent in the power-mean L2 ball."""

    def run(model: Any, ids: torch.Tensor, delta: torch.Tensor | None = None) -> torch.Tensor:
        bert = model.transformers_model
        if delta is None:
            vector: torch.Tensor = bert(input_ids=ids[None]).last_hidden_state[0, 0]
            return vector
        handle = bert.embeddings.register_forward_hook(lambda _module, _args, output: output + delta)
        vector = bert(input_ids=ids[None]).last_hidden_state[0, 0]
        handle.remove()
        return vector

    def apart(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return 1 - (a @ b) / (a.norm() * b.norm())

    radius, terms = objective.ascent.radius, {"anchor": 0.0, "noise": 0.0, "adversarial": 0.0}
    for text, other in zip(sentences, changed, strict=True):
        anchor = run(objective.original, text).detach()
        length = len(text)
        size = (length * 16) ** 0.5  # the ball is ‖δ‖₂/√n ≤ ε
        delta = normal[:length].clone()
        delta *= min(1.0, radius * size / delta.norm())
        for _ in range(objective.ascent.pgd_steps):
            leaf = delta.detach().requires_grad_()
            (slope,) = torch.autograd.grad(apart(run(objective.model, text, leaf), anchor), leaf)
            delta = delta + radius / 2 * size * slope / slope.norm()
            delta = delta * min(1.0, radius * size / delta.norm())
        terms["anchor"] = terms["anchor"] + apart(run(objective.model, text), anchor) / len(sentences)
        terms["noise"] = terms["noise"] + apart(run(objective.model, other), anchor) / len(sentences)
        attacked = apart(run(objective.model, text, delta), anchor)
        terms["adversarial"] = terms["adversarial"] + 0.5 * attacked / len(sentences)
    return terms


def test_terms_and_gradients_match_the_slow_reference(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = build(exact_model)
    normal = objective.initial_noise(torch.zeros(1, 64, 16, dtype=torch.float64))[0]
    texts, slipped = rows(batch), rows(changed(objective, batch))
    assert sum(not torch.equal(one, other) for one, other in zip(texts, slipped, strict=True)) > 4
    terms = objective([dict(batch)])
    assert list(terms) == ["anchor", "noise", "adversarial"]
    reference = slow(objective, texts, slipped, normal)
    for name, term in terms.items():
        assert term.item() == pytest.approx(reference[name].item(), rel=1e-8), name
        assert term.item() > 1e-4
    ours = gradients(sum(terms.values()), objective)
    theirs = gradients(sum(reference.values()), objective)
    assert ours.keys() == theirs.keys()
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-6, atol=1e-10)
    assert max(gradient.abs().max() for gradient in theirs.values()) > 1e-3
    assert not any(name.startswith("original.") for name in theirs), "the original has no gradient"


def test_an_untrained_encoder_is_where_it_was(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = Anchored(exact_model, adversarial=1.0, share=1.0).double()
    terms = objective([dict(batch)])
    assert terms["anchor"].item() == pytest.approx(0.0, abs=1e-12)
    assert terms["noise"].item() > 1e-3
    assert terms["adversarial"].item() > 0


@pytest.mark.parametrize(
    ("weights", "names"),
    [
        ({"adversarial": 0.0}, ["anchor", "noise"]),
        ({"clean": 0.0}, ["noise", "adversarial"]),
        ({"noise": 0.0}, ["anchor", "adversarial"]),
        ({"clean": 0.0, "noise": 0.0}, ["adversarial"]),
        ({"clean": 0.0, "adversarial": 0.0}, ["noise"]),
    ],
)
def test_what_has_no_weight_is_not_computed(
    exact_model: Any, batch: dict[str, Any], weights: dict[str, float], names: list[str]
) -> None:
    whole = build(exact_model)
    objective = build(exact_model, **weights)
    objective.model.load_state_dict(whole.model.state_dict())
    objective.original.load_state_dict(whole.original.state_dict())
    terms = objective([dict(batch)])
    assert list(terms) == names
    reference = whole([dict(batch)])
    for name in names:
        assert terms[name].item() == pytest.approx(reference[name].item(), rel=1e-9)


def test_weights_multiply(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = build(exact_model)
    once = objective([dict(batch)])
    objective.clean, objective.noise, objective.adversarial = 3.0, 0.5, 1.5
    again = objective([dict(batch)])
    ratios = {name: again[name].item() / once[name].item() for name in once}
    assert ratios == pytest.approx({"anchor": 3.0, "noise": 0.5, "adversarial": 3.0})


class TestSlips:
    def texts(self, objective: Anchored, batch: dict[str, Any]) -> list[str]:
        features = changed(objective, batch)
        found: list[str] = objective.model.tokenizer.batch_decode(features["input_ids"], skip_special_tokens=True)
        return found

    @pytest.mark.parametrize("changes", [{}, {"edits": "typing,whitespace"}], ids=["words", "noise"])
    def test_they_depend_on_seed_step_and_sentence_alone(
        self, exact_model: Any, batch: dict[str, Any], changes: dict[str, Any]
    ) -> None:
        objective = build(exact_model, tries=1, **changes)
        first = self.texts(objective, batch)
        assert self.texts(objective, batch) == first
        rolled = {key: value.roll(3, 0) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
        assert self.texts(objective, rolled) == first[-3:] + first[:-3]
        objective.follow()
        second = self.texts(objective, batch)
        assert second != first
        other = build(exact_model, tries=1, **changes)
        other.load_own_state(objective.own_state())
        assert self.texts(other, batch) == second, "a resumed run goes on as before"
        other.draws[0] += 1
        assert self.texts(other, batch) != second

    def test_rows_that_cannot_be_recovered_stay(self, exact_model: Any, batch: dict[str, Any]) -> None:
        objective = build(exact_model)
        ids = batch["input_ids"].clone()
        ids[0, 1] = exact_model.tokenizer.unk_token_id
        features = changed(objective, {**batch, "input_ids": ids})
        width = int(batch["attention_mask"][0].sum())
        assert torch.equal(features["input_ids"][0, :width], ids[0, :width])
        assert 0 < objective.diagnostics["unchanged"].item() < 1

    def test_of_several_tries_the_farthest_is_taken(self, exact_model: Any, batch: dict[str, Any]) -> None:
        objective = build(exact_model, tries=4)
        anchors = anchors_of(objective, batch)

        def apart(features: dict[str, Any]) -> torch.Tensor:
            with torch.no_grad():
                return 1 - torch.cosine_similarity(objective.encoder.encode(features), anchors)

        texts = recovered_texts(exact_model, batch)
        seed, step = objective.draws.tolist()
        versions = [objective._draw(texts, f"{seed} {step}", number) for number in range(objective.tries)]
        single = [apart(with_texts(exact_model, batch, version)) for version in versions]
        found = apart(changed(objective, batch))
        torch.testing.assert_close(found, torch.stack(single).max(dim=0).values, rtol=1e-9, atol=1e-12)
        assert (found > single[0] + 1e-6).any()
        rolled = {key: value.roll(3, 0) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
        first = self.texts(objective, batch)
        assert self.texts(objective, rolled) == first[-3:] + first[:-3]

    def test_several_sources_of_synonyms(self, exact_model: Any, tmp_path: Path) -> None:
        lists = tmp_path / "near.tsv"
        lists.write_text("word\tneighbors\ncat\tdog\n", encoding="utf-8")
        wordnet = tmp_path / "wordnet"
        wordnet.mkdir()
        (wordnet / "synsets.tsv").write_text("pos\tlemmas\nn\tcat|dog|kitty\nn\tman|fellow\n", encoding="utf-8")
        (wordnet / "exceptions.tsv").write_text("pos\tinflected\tlemmas\n", encoding="utf-8")
        random_edits = Anchored(exact_model, edits="synonym", synonyms=f"{lists},{wordnet}").random_edits
        assert random_edits.synonyms is not None
        assert random_edits.synonyms.nearest("Sings", 8) == []
        assert random_edits.synonyms.nearest("Cat", 8) == ["Dog", "Kitty"]
        assert random_edits.synonyms.nearest("man", 8) == ["fellow"]
        assert "near.tsv" in random_edits.synonyms.source
        assert "WordNet" in random_edits.synonyms.source
        assert not random_edits.synonyms.complete

    def test_synonyms_join_the_edits(self, exact_model: Any, tmp_path: Path) -> None:
        path = tmp_path / "near.tsv"
        path.write_text("word\tneighbors\ncat\tdog\n", encoding="utf-8")
        objective = Anchored(exact_model, edits="case", synonyms=str(path))
        assert objective.random_edits.edits == ("case", "synonym")
        with pytest.raises(ValueError, match="needs a source of synonyms"):
            Anchored(exact_model, edits="synonym")
        with pytest.raises(ValueError, match="names no file"):
            Anchored(exact_model, synonyms=" , ")

    def test_a_stock_trainer_moves_on_too(self, exact_model: Any, batch: dict[str, Any]) -> None:
        objective = Anchored(exact_model).double()
        objective([dict(batch)])
        assert objective.draws[1] == 0, "no step was made before the first batch"
        objective([dict(batch)])
        assert objective.draws[1] == 1


@pytest.mark.parametrize("norm", ["1", "2", "inf"])
def test_the_attack_climbs_inside_its_ball_and_leaves_no_trace(
    exact_model: Any, batch: dict[str, Any], norm: str
) -> None:
    objective = build(exact_model, norm=norm, steps=4)
    encoder = objective.encoder
    with torch.no_grad():
        anchors = Encoder(objective.original).encode(batch)
        x = encoder.embed(batch)
    state = torch.get_rng_state()
    delta = objective.attack(encoder, batch, x, anchors)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in objective.parameters())
    assert all(parameter.requires_grad for parameter in exact_model.parameters())
    mask = batch["attention_mask"].double()
    sizes = sentence_norm(delta, mask, objective.ascent.norm)
    assert (sizes <= objective.ascent.radius * (1 + 1e-9)).all()
    assert (sizes > 0.9 * objective.ascent.radius).all(), "at its edge"
    assert delta[mask == 0].abs().max() == 0
    assert objective.diagnostics["attack_loss_rise"].item() > 0


def test_wider_padding_changes_nothing(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = build(exact_model)
    torch.testing.assert_close(objective([dict(batch)]), objective([wider(batch)]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dropout", [False, True])
def test_dropout_is_off_unless_asked_for(make_encoder_model: Any, sentences: list[str], dropout: bool) -> None:
    model = make_encoder_model("bert").train()
    objective = Anchored(model, dropout=dropout)
    objective.followed_by_trainer = True
    modes = [module.training for module in objective.modules()]
    features = dict(model.preprocess(sentences))
    found = [objective([dict(features)])["anchor"].item() for _ in range(2)]
    assert (found[0] == found[1]) is not dropout
    assert [module.training for module in objective.modules()] == modes


def test_training_brings_changed_sentences_back(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = Anchored(exact_model, share=1.0, edits="swap", forms="both").double()
    objective.followed_by_trainer = True
    before = copy.deepcopy(objective.original.state_dict())
    optimiser = torch.optim.AdamW(objective.model.parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        terms = objective([dict(batch)])
        optimiser.zero_grad()
        sum(terms.values()).backward()
        optimiser.step()
        losses.append(terms["noise"].item())
    assert losses[-1] < 0.5 * losses[0]
    assert all(torch.equal(value, before[name]) for name, value in objective.original.state_dict().items())
    assert objective.own_parameters() == []


def test_every_backbone_trains_in_full_precision_of_the_loss(
    make_encoder_model: Any, backbone: str, sentences: list[str]
) -> None:
    model = make_encoder_model(backbone).train()
    objective = Anchored(model, adversarial=1.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        terms = objective([dict(model.preprocess(sentences))])
    loss = sum(terms.values())
    loss.backward()
    assert all(term.dtype == torch.float32 for term in terms.values())
    assert torch.isfinite(loss)
    assert max(p.grad.abs().max() for p in model.parameters() if p.grad is not None) > 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"clean": -1.0}, "clean must not be negative"),
        ({"noise": 0.0, "clean": 0.0}, "one of clean, noise and adversarial"),
        ({"steps": 0}, "steps must be 1 or more"),
        ({"tries": 0}, "tries must be 1 or more"),
        ({"edits": "swop"}, "unknown edit 'swop'"),
        ({"norm": "7"}, "norm must be one of 1, 2, inf"),
    ],
)
def test_wrong_use_is_refused(exact_model: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Anchored(exact_model, **options)


def test_a_prompt_is_refused_where_texts_are_changed(masked_lm: Path, sentences: list[str]) -> None:
    """Its rows hold the template too: no text recovered from them would give the same ids, and none be changed."""
    model = load_sentence_transformer(str(masked_lm), pooling="prompt", device="cpu")
    with pytest.raises(UserError, match="cannot separate a prompt from its sentence"):
        Anchored(model)
    terms = Anchored(model, noise=0.0, adversarial=1.0)([dict(model.preprocess(sentences))])
    assert terms["adversarial"].item() > 1e-6, "δ needs no texts"


def test_two_columns_are_refused(exact_model: Any, batch: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="takes one column"):
        Anchored(exact_model)([dict(batch), dict(batch)])


def test_the_attack_starts_near_the_middle_of_its_ball(exact_model: Any) -> None:
    torch.manual_seed(0)
    noise = Anchored(exact_model, adversarial=1.0, radius=0.02).initial_noise(torch.zeros(300, 8, 16))
    assert noise.std().item() == pytest.approx(0.002, rel=0.02)


@pytest.mark.parametrize("dropout", [False, True])
def test_the_attack_has_the_dropout_of_the_training(
    make_encoder_model: Any, sentences: list[str], dropout: bool
) -> None:
    model = make_encoder_model("bert").train()
    objective = Anchored(model, adversarial=1.0, dropout=dropout)
    encoder, features = objective.encoder, dict(model.preprocess(sentences))
    with torch.no_grad():
        anchors, x = Encoder(objective.original).encode(features), encoder.embed(features)
    start = objective.initial_noise(x)
    objective.initial_noise = lambda _: start  # type: ignore[method-assign]
    deltas = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        deltas.append(objective.attack(encoder, features, x, anchors))
    assert torch.equal(*deltas) is not dropout


def test_the_clean_term_alone_trains_only_towards_a_teacher(exact_model: Any, sentences: list[str]) -> None:
    objective = Anchored(exact_model, noise=0.0)
    features = dict(exact_model.preprocess(sentences))
    with pytest.raises(UserError, match="one of noise and adversarial must be more than 0"):
        objective([features])
    objective.use_labels()
    assert objective([features], torch.randn(len(sentences), 16))["anchor"].item() > 0.01


class TestOneForm:
    """Each sentence is read once, clean or changed; the terms are sums over the rows of a form, divided by all rows."""

    def parts(self, objective: Anchored, batch: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        anchors = anchors_of(objective, batch)
        features, is_changed = objective.changed(objective.encoder, batch, anchors)
        with torch.no_grad():
            vectors = objective.encoder.encode(features)
        return vectors, anchors, is_changed

    def test_terms_are_those_of_the_rows_of_a_form(self, exact_model: Any, batch: dict[str, Any]) -> None:
        objective = build(exact_model, forms="one", relations=0.3, adversarial=0.0, edits="swap", tries=1)
        vectors, anchors, is_changed = self.parts(objective, batch)
        assert 0 < int(is_changed.sum()) < len(is_changed)
        apart = 1 - torch.cosine_similarity(vectors, anchors)
        terms = objective([dict(batch)])
        assert list(terms) == ["anchor", "noise", "relations"]
        assert terms["anchor"].item() == pytest.approx(float(apart[~is_changed].sum()) / len(apart), rel=1e-9)
        assert terms["noise"].item() == pytest.approx(float(apart[is_changed].sum()) / len(apart), rel=1e-9)
        unit = torch.nn.functional.normalize(anchors, dim=1)
        expected = 0.3 * float(relations_divergence(vectors, anchors, unit, objective.temperature))
        assert terms["relations"].item() == pytest.approx(expected, rel=1e-9)

    def test_the_forms_are_drawn_anew_and_belong_to_the_sentence(self, exact_model: Any, batch: dict[str, Any]) -> None:
        objective = build(exact_model, forms="one", edits="swap", tries=1)
        first = self.parts(objective, batch)[2]
        rolled = {key: value.roll(3, 0) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
        assert torch.equal(self.parts(objective, rolled)[2], first.roll(3, 0))
        draws = []
        for _ in range(20):
            objective.follow()
            draws.append(self.parts(objective, batch)[2])
        share = torch.stack(draws).double().mean().item()
        assert 0.3 < share < 0.7
        assert (torch.stack(draws).any(dim=0)).all()

    def test_without_noise_all_are_clean(self, exact_model: Any, batch: dict[str, Any]) -> None:
        objective = build(exact_model, forms="one", noise=0.0, adversarial=0.0)
        labels = anchors_of(objective, batch)
        objective.use_labels()  # as in a distillation
        with torch.no_grad():
            apart = 1 - torch.cosine_similarity(objective.encoder.encode(batch), labels)
        terms = objective([dict(batch)], labels)
        assert list(terms) == ["anchor"]
        assert terms["anchor"].item() == pytest.approx(float(apart.mean()), rel=1e-9)

    def test_the_adversarial_term_is_that_of_both_forms(self, exact_model: Any, batch: dict[str, Any]) -> None:
        one, both = build(exact_model, forms="one"), build(exact_model)
        both.model.load_state_dict(one.model.state_dict())
        both.original.load_state_dict(one.original.state_dict())
        found, expected = one([dict(batch)])["adversarial"], both([dict(batch)])["adversarial"]
        assert found.item() == pytest.approx(expected.item(), rel=1e-9)


class TestRelations:
    def test_they_match_a_loop_over_rows_and_texts(self) -> None:
        generator = torch.Generator().manual_seed(2)
        vectors, anchors, bank = (torch.randn(rows, 6, generator=generator, dtype=torch.float64) for rows in (4, 4, 9))
        bank = torch.nn.functional.normalize(bank, dim=1)
        total = 0.0
        for vector, anchor in zip(vectors, anchors, strict=True):
            wanted = [math.exp(float(anchor @ text / anchor.norm()) / 0.1) for text in bank]
            found = [math.exp(float(vector @ text / vector.norm()) / 0.1) for text in bank]
            for one, other in zip(wanted, found, strict=True):
                p, q = one / sum(wanted), other / sum(found)
                total += p * math.log(p / q) / len(vectors)
        assert relations_divergence(vectors, anchors, bank, 0.1).item() == pytest.approx(total, rel=1e-9)

    def test_equal_vectors_have_none_and_lengths_do_not_matter(self) -> None:
        anchors = torch.randn(5, 8, dtype=torch.float64)
        bank = torch.nn.functional.normalize(torch.randn(7, 8, dtype=torch.float64), dim=1)
        assert relations_divergence(3.0 * anchors, anchors, bank, 0.03).item() == pytest.approx(0.0, abs=1e-12)

    def test_a_text_is_left_out_of_its_own_relations(self) -> None:
        anchors = torch.nn.functional.normalize(torch.randn(3, 8, dtype=torch.float64), dim=1)
        others = torch.nn.functional.normalize(torch.randn(6, 8, dtype=torch.float64), dim=1)
        vectors = torch.randn(3, 8, dtype=torch.float64)
        rows = [relations_divergence(vectors[i : i + 1], anchors[i : i + 1], others, 0.05).item() for i in range(3)]
        with_itself = [
            relations_divergence(
                vectors[i : i + 1], anchors[i : i + 1], torch.cat([others, anchors[i : i + 1]]), 0.05
            ).item()
            for i in range(3)
        ]
        assert with_itself == pytest.approx(rows, rel=1e-9)

    def test_a_bank_of_the_text_alone_gives_nothing_and_a_finite_gradient(self) -> None:
        anchors = torch.nn.functional.normalize(torch.randn(1, 8), dim=1)
        vectors = torch.randn(1, 8, requires_grad=True)
        relations_divergence(vectors, anchors, anchors, 0.05).backward()
        assert vectors.grad is not None
        assert torch.equal(vectors.grad, torch.zeros(1, 8))

    def test_the_bank_holds_the_texts_given_and_no_checkpoint(
        self, make_encoder_model: Any, sentences: list[str]
    ) -> None:
        model = make_encoder_model("bert")
        objective = Anchored(model, bank=6)
        assert objective.WANTED_TEXTS == 6
        assert Anchored(model, relations=0.0).WANTED_TEXTS == 0
        objective.see_texts(sentences[:6], None)
        assert objective.bank is not None
        expected = torch.nn.functional.normalize(model.encode(sentences[:6], convert_to_tensor=True), dim=1)
        torch.testing.assert_close(objective.bank, expected.cpu(), rtol=1e-4, atol=1e-5)
        objective.see_texts(sentences[:6], None, precision="bf16")
        apart = (objective.bank - expected.cpu()).abs().max()
        assert 1e-4 < apart < 2e-2, "the precision of the training is that of the bank"
        assert not any("bank" in name for name in objective.own_state())
        given = torch.randn(6, expected.shape[1])
        objective.see_texts(sentences[:6], given)
        torch.testing.assert_close(objective.bank, torch.nn.functional.normalize(given, dim=1))

    def test_the_bank_is_cut_as_the_batches_are(self, exact_model: Any, sentences: list[str]) -> None:
        long = " ".join(sentences[:3])
        objective = Anchored(exact_model, bank=3)
        set_limit(exact_model, 6)  # as a training does, after the objective was made
        objective.see_texts([long, *sentences[4:6]], None)
        assert objective.bank is not None
        (anchor,) = torch.nn.functional.normalize(exact_model.encode([long], convert_to_tensor=True), dim=1).cpu()
        cosines = objective.bank.float().cpu() @ anchor.float()
        assert cosines[0] > 0.999, "the text is left out of its own relations by this"
        assert exact_model.max_seq_length == 6

    def test_the_batch_is_the_bank_where_no_texts_were_given(self, exact_model: Any, batch: dict[str, Any]) -> None:
        objective = build(exact_model, relations=1.0, adversarial=0.0)
        without = objective([dict(batch)])["relations"].item()
        objective.see_texts([], anchors_of(objective, batch))
        assert objective([dict(batch)])["relations"].item() == pytest.approx(without, rel=1e-9)
        assert without > 1e-6
