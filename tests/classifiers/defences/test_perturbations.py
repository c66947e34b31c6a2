"""PGD, RobustEmbed's perturbation, FreeLB and SMART against slow references in fp64, and what they leave behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from defence_checks import NOW, gradients, reference, same, trained_on
from torch import Tensor
from torch.nn import functional as F

from holdfast.classifiers.defences import DEFENCES, Moment, TaskBatch, Training, make_defence
from holdfast.classifiers.defences.defence import Passes
from holdfast.classifiers.losses import divergence

WrittenOut = Callable[..., Tensor]
PERTURBING = ("pgd", "freelb", "smart", "robustembed")


def begun(name: str, model: Any, **options: Any) -> Any:
    defence = make_defence(name, options)
    if name != "adv":
        defence.begin(Training(model, None, [], 32, 3.0))
    return defence


def slope(model: Any, batch: TaskBatch, delta: np.ndarray[Any, Any], written_out: WrittenOut) -> np.ndarray[Any, Any]:
    """The gradient of the cross-entropy at δ, in NumPy."""
    leaf = torch.tensor(delta, requires_grad=True)
    (gradient,) = torch.autograd.grad(F.cross_entropy(written_out(model, batch, leaf), batch.labels), leaf)
    return gradient.numpy()


def masks(batch: TaskBatch) -> np.ndarray[Any, Any]:
    return batch.features["attention_mask"].numpy()[:, :, None].astype(float)


def in_l2_ball(delta: np.ndarray[Any, Any], radius: float) -> np.ndarray[Any, Any]:
    lengths = np.sqrt((delta**2).sum(axis=(1, 2), keepdims=True))
    return delta * np.minimum(1.0, radius / lengths)


# --- the passes ----------------------------------------------------------------------------------------------------


def test_delta_enters_the_first_layer_once_and_never_at_padding(
    classifier: Any, batch: TaskBatch, written_out: WrittenOut
) -> None:
    delta = torch.randn(4, 6, 16, dtype=torch.float64)
    passes = Passes(classifier, batch)
    torch.testing.assert_close(passes.logits(delta), written_out(classifier, batch, delta), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(passes.logits(), written_out(classifier, batch, 0 * delta), rtol=1e-9, atol=1e-9)
    assert (passes.logits(delta) - passes.logits()).abs().max() > 0.1
    padding = 1 - batch.features["attention_mask"][:, :, None]
    assert torch.equal(passes.logits(100.0 * delta * padding), passes.logits())


def test_every_backbone_is_perturbed_where_it_is_embedded(
    backbone: str, make_encoder_model: Callable[..., Any], batch: TaskBatch
) -> None:
    from transformers import AutoModelForSequenceClassification

    encoder = make_encoder_model(backbone)
    model = AutoModelForSequenceClassification.from_config(encoder.transformers_model.config)
    model.eval()
    features = {name: value for name, value in batch.features.items() if name != "token_type_ids"}
    passes = Passes(model, TaskBatch(features, batch.labels % 2, batch.rows))
    delta = torch.randn(passes.no_delta.shape) * 0.5
    with torch.no_grad():
        assert torch.allclose(passes.logits(passes.no_delta), passes.logits(), atol=1e-6)
        assert (passes.logits(delta) - passes.logits()).abs().max() > 1e-3
        padding = 1 - features["attention_mask"][:, :, None]
        assert torch.equal(passes.logits(delta * padding), passes.logits())
        # Of the first layer's input, and of that alone: what comes in is moved by δ, padding apart.
        seen = []
        handle = passes.backbone.layers[0].register_forward_pre_hook(lambda _m, args: seen.append(args[0].clone()))
        passes.logits()
        passes.logits(delta)
        handle.remove()
    second = len(seen) // 2  # ALBERT's only layer is passed several times
    torch.testing.assert_close(seen[second] - seen[0], delta * (1 - padding), rtol=1e-4, atol=1e-5)


def test_all_training_passes_of_a_batch_have_the_same_dropout(make_classifier: Any, batch: TaskBatch) -> None:
    model = make_classifier(dropout=0.3)
    torch.manual_seed(5)
    wanted = model(**batch.features).logits
    after = torch.rand(1)
    torch.manual_seed(5)
    passes = Passes(model, batch)
    assert torch.equal(passes.logits(), wanted)
    with passes.attack():
        assert not torch.equal(passes.logits(), wanted)
        torch.rand(7)
    assert torch.equal(passes.logits(passes.no_delta), wanted)
    assert torch.equal(torch.rand(1), after), "the random state is not that after one pass"


# --- what holds for all of them --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PERTURBING)
def test_nothing_is_left_behind(name: str, make_classifier: Any, batch: TaskBatch) -> None:
    model = make_classifier(dropout=0.2, dtype=torch.float32)
    model.bert.encoder.layer[0].eval()
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)
    modes = [module.training for module in model.modules()]
    flags = [parameter.requires_grad for parameter in model.parameters()]
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]
    torch.manual_seed(3)
    model(**batch.features)
    wanted = torch.rand(1)
    torch.manual_seed(3)
    defence = begun(name, model)
    losses = defence.losses(model, batch, NOW)
    first = next(losses)
    assert all(parameter.grad is None for parameter in model.parameters()), "the attack left gradients"
    assert first.requires_grad
    first.backward()
    for loss in losses:
        loss.backward()
    assert torch.equal(torch.rand(1), wanted), "the random state is not that after an undefended step"
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == flags
    assert hooks == [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("pgd", {"radius": 0.0}),
        ("pgd", {"radius": 0.0, "norm": "inf", "share": 0.5}),
        ("pgd", {"share": 0.0}),
        ("pgd", {"steps": 0, "init_std": 0.0}),
        ("freelb", {"radius": 0.0}),
        ("freelb", {"steps": 1, "start": 0.0}),
        ("smart", {"radius": 0.0}),
        ("smart", {"smoothness": 0.0, "proximity": 0.0}),
        ("robustembed", {"radius": 0.0}),
        ("robustembed", {"share": 0.0}),
    ],
    ids=str,
)
def test_without_a_perturbation_it_is_the_undefended_step(
    name: str, options: dict[str, Any], make_classifier: Any, batch: TaskBatch
) -> None:
    model = make_classifier(dropout=0.2)
    torch.manual_seed(1)
    wanted = trained_on(make_defence("none", {}), model, batch)
    torch.manual_seed(1)
    defence = begun(name, model, **options)
    if name == "smart" and defence.proximity:
        defence.proximity = 0.0  # a teacher without dropout differs from a model with it
    same(trained_on(defence, model, batch), wanted)


@pytest.mark.parametrize("name", PERTURBING)
def test_the_attack_stays_in_its_ball_and_the_loss_rises(name: str, make_classifier: Any, batch: TaskBatch) -> None:
    model = make_classifier(dtype=torch.float32)
    options = {"smart": {"init_std": 1e-4}, "robustembed": {"fgsm_size": 0.02}}.get(name, {"radius": 0.7})
    defence = begun(name, model, **options)
    passes = Passes(model, batch)
    if name == "freelb":
        deltas: list[Tensor] = []
        original = passes.backbone.__class__.perturbed

        def spy(self: Any, delta: Tensor, mask: Tensor) -> Any:
            deltas.append(delta.detach().clone())
            return original(self, delta, mask)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(passes.backbone.__class__, "perturbed", spy)
            trained_on(defence, model, batch)
        assert len(deltas) == 3
        assert not torch.equal(deltas[0], deltas[-1])
        delta = deltas[-1]
        assert defence.diagnostics["attack_loss_rise"] > 0.01
    else:
        delta = defence.attack(passes)
    assert delta.dtype == torch.float32
    assert not delta.requires_grad
    assert not delta[batch.features["attention_mask"] == 0].any()
    assert delta[:, 0].abs().max() > 0, "[CLS] is left out"
    if name in ("pgd", "freelb"):
        lengths = delta.flatten(1).norm(dim=1)
        assert (lengths <= 0.7 * 1.0001).all()
        assert (lengths > 0.3).all()
    else:
        radius = 1e-3 if name == "smart" else 0.1
        assert delta.abs().max() <= radius * 1.0001
        assert delta.abs().max() > radius / 2
    model.eval()
    with torch.no_grad():
        if name == "smart":
            start = defence.adversary.noise(passes.no_delta, passes.mask) * passes.mask.unsqueeze(-1)
            before, after = (float(divergence(passes.logits(d), passes.logits())) for d in (start, delta))
            assert after > 3 * before > 0
        else:
            assert passes.loss(delta) > passes.loss() + 0.02


@pytest.mark.parametrize("name", ["pgd", "robustembed"])
def test_under_bf16_the_loss_rises_as_in_fp32(name: str, make_classifier: Any, batch: TaskBatch) -> None:
    model = make_classifier(dtype=torch.float32)
    options = {"pgd": {"radius": 0.3}, "robustembed": {"fgsm_size": 5e-3}}[name]
    passes = Passes(model, batch)
    rises = []
    for enabled in (False, True):
        torch.manual_seed(0)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            delta = begun(name, model, **options).attack(passes)
        assert delta.dtype == torch.float32
        with torch.no_grad():
            rises.append(float(passes.loss(delta) - passes.loss()))
    assert rises[0] > 0.02
    assert rises[1] == pytest.approx(rises[0], rel=0.15)


# --- each against a reference ------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_pgd_is_madrys(share: float, classifier: Any, batch: TaskBatch, written_out: WrittenOut) -> None:
    defence = begun("pgd", classifier, steps=3, radius=0.6, step_size=0.25, init_std=0.01, share=share)
    torch.manual_seed(2)
    delta = in_l2_ball(torch.randn(4, 6, 16, dtype=torch.float64).numpy() * 0.01 * masks(batch), 0.6)
    for _ in range(3):
        g = slope(classifier, batch, delta, written_out) * masks(batch)
        g /= np.sqrt((g**2).sum(axis=(1, 2), keepdims=True))
        delta = in_l2_ball(delta + 0.25 * g, 0.6)
    classifier.zero_grad()
    losses = [
        F.cross_entropy(written_out(classifier, batch, torch.tensor(d)), batch.labels) for d in (0 * delta, delta)
    ]
    assert losses[1] > losses[0] + 0.05
    wanted = reference(classifier, (1 - share) * losses[0] + share * losses[1])
    torch.manual_seed(2)
    same(trained_on(defence, classifier, batch), wanted)
    torch.manual_seed(2)
    np.testing.assert_allclose(defence.attack(Passes(classifier, batch)).numpy(), delta, atol=1e-9)


def test_pgd_in_the_cube_goes_along_the_sign(classifier: Any, batch: TaskBatch, written_out: WrittenOut) -> None:
    defence = begun("pgd", classifier, steps=2, radius=0.05, step_size=0.03, norm="inf", init_std=0.0)
    delta = np.zeros((4, 6, 16))
    for _ in range(2):
        delta = np.clip(delta + 0.03 * np.sign(slope(classifier, batch, delta, written_out)), -0.05, 0.05)
    found = defence.attack(Passes(classifier, batch)).numpy()
    np.testing.assert_allclose(found, delta * masks(batch), atol=1e-9)
    assert (np.abs(found) == 0.05).any()


def test_the_step_of_pgd_crosses_the_ball_by_default() -> None:
    assert make_defence("pgd", {"radius": 2.0, "steps": 5}).adversary.step_size == pytest.approx(1.0)


@pytest.mark.parametrize("trajectory", ["mixed", "separate"])
def test_robustembed_mixes_pgd_and_fgsm(
    trajectory: str, classifier: Any, batch: TaskBatch, written_out: WrittenOut
) -> None:
    options = {"pgd_size": 0.02, "fgsm_size": 0.01, "pgd_steps": 2, "fgsm_steps": 3, "mix": 0.25, "share": 0.5}
    defence = begun("robustembed", classifier, trajectory=trajectory, **options)
    assert defence.ascent.radius == pytest.approx(0.03)  # T·β
    torch.manual_seed(4)
    start = np.clip(torch.randn(4, 6, 16, dtype=torch.float64).numpy() * 0.003 * masks(batch), -0.03, 0.03)

    def pgd(delta: Any) -> Any:
        g = slope(classifier, batch, delta, written_out) * masks(batch)
        return np.clip(delta + 0.02 * g / np.abs(g).max(axis=(1, 2), keepdims=True), -0.03, 0.03)

    def fgsm(delta: Any) -> Any:
        g = slope(classifier, batch, delta, written_out) * masks(batch)
        return np.clip(delta + 0.01 * np.sign(g), -0.03, 0.03)

    if trajectory == "mixed":
        delta = start
        for step in range(3):
            delta = 0.25 * pgd(delta) + 0.75 * fgsm(delta) if step < 2 else fgsm(delta)
    else:
        delta = 0.25 * pgd(pgd(start)) + 0.75 * fgsm(fgsm(fgsm(start)))
    classifier.zero_grad()
    clean = F.cross_entropy(written_out(classifier, batch, torch.zeros(4, 6, 16)), batch.labels)
    adversarial = F.cross_entropy(written_out(classifier, batch, torch.tensor(delta)), batch.labels)
    wanted = reference(classifier, 0.5 * clean + 0.5 * adversarial)
    torch.manual_seed(4)
    same(trained_on(defence, classifier, batch), wanted)


def test_robustembeds_constants_are_the_papers() -> None:
    ascent = make_defence("robustembed", {}).ascent
    assert (ascent.pgd_steps, ascent.fgsm_steps, ascent.pgd_size, ascent.fgsm_size) == (5, 5, 1e-5, 1e-3)
    assert (ascent.mix, ascent.radius, ascent.norm, ascent.trajectory) == (0.5, 5e-3, "inf", "mixed")
    alone = make_defence("robustembed", {"fgsm_steps": "0", "mix": "1"})
    assert alone.ascent.radius == pytest.approx(5e-5), "as far as the PGD part can go"
    assert alone.init_std == pytest.approx(5e-6)


@pytest.mark.parametrize("norm", ["2", "inf"])
def test_freelb_is_algorithm_1(norm: str, classifier: Any, batch: TaskBatch, written_out: WrittenOut) -> None:
    radius, step = (0.6, 0.25) if norm == "2" else (0.05, 0.02)
    defence = begun("freelb", classifier, steps=3, radius=radius, step_size=step, norm=norm)
    torch.manual_seed(6)
    delta = (torch.rand(4, 6, 16, dtype=torch.float64).numpy() * 2 - 1) * radius * masks(batch)
    if norm == "2":
        delta /= np.sqrt(masks(batch).sum(axis=(1, 2), keepdims=True) * 16)
    losses, points = [], []
    for _ in range(3):
        points.append(delta)
        losses.append(F.cross_entropy(written_out(classifier, batch, torch.tensor(delta)), batch.labels))
        g = slope(classifier, batch, delta, written_out) * masks(batch)
        if norm == "2":
            delta = in_l2_ball(delta + step * g / np.sqrt((g**2).sum(axis=(1, 2), keepdims=True)), radius)
        else:
            delta = np.clip(delta + step * g / np.abs(g).max(axis=(1, 2), keepdims=True), -radius, radius)
    classifier.zero_grad()
    wanted = reference(classifier, sum(losses) / 3)  # type: ignore[arg-type]
    torch.manual_seed(6)
    same(trained_on(defence, classifier, batch), wanted)
    assert defence.diagnostics["attack_loss_rise"] == pytest.approx((losses[2] - losses[0]).item(), rel=1e-6)


def test_freelbs_gradient_is_the_mean_of_its_steps_under_one_dropout(make_classifier: Any, batch: TaskBatch) -> None:
    model = make_classifier(dropout=0.3)
    defence = begun("freelb", model, steps=4)
    torch.manual_seed(9)
    parts, seen = [], {}
    for loss in defence.losses(model, batch, NOW):
        loss.backward()
        parts.append(gradients(model))  # taken away: what the next step adds is seen alone
    torch.manual_seed(9)
    _, seen = trained_on(defence, model, batch)
    assert len(parts) == 4
    for name, value in seen.items():
        torch.testing.assert_close(value, sum(part[name] for part in parts), rtol=1e-9, atol=1e-12)
    # Each is a quarter of the gradient of a loss at a point, with the masks of the first pass.
    torch.manual_seed(9)
    passes = Passes(model, batch)
    with passes.attack():
        start = defence.initial_noise(passes)
    passes.loss(start).backward()
    first = gradients(model)
    for name, value in first.items():
        torch.testing.assert_close(parts[0][name], value / 4, rtol=1e-9, atol=1e-12)


def test_freelb_starts_inside_its_ball(classifier: Any, batch: TaskBatch) -> None:
    passes = Passes(classifier, batch)
    usual = begun("freelb", classifier, radius=0.5).initial_noise(passes)
    lengths = usual.flatten(1).norm(dim=1)
    torch.testing.assert_close(lengths, torch.full_like(lengths, 0.5 / 3**0.5), rtol=0.2, atol=0.0)  # of U(−s, s)/√n
    wide = begun("freelb", classifier, radius=0.5, start=10.0).initial_noise(passes)
    torch.testing.assert_close(wide.flatten(1).norm(dim=1), torch.full_like(lengths, 0.5))
    for noise in (usual, wide):
        assert not noise[batch.features["attention_mask"] == 0].any()


def test_freelb_takes_one_pass_a_step(classifier: Any, batch: TaskBatch) -> None:
    calls = []
    handle = classifier.register_forward_hook(lambda *_: calls.append(1))
    trained_on(begun("freelb", classifier, steps=4), classifier, batch)
    handle.remove()
    assert len(calls) == 4


def teacher_of(model: Any) -> Any:
    import copy

    teacher = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in teacher.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, dtype=parameter.dtype))
    return teacher.eval()


@pytest.mark.parametrize(("smoothness", "proximity"), [(2.0, 0.5), (2.0, 0.0), (0.0, 0.5)])
def test_smart_is_smooth_and_slow(
    smoothness: float, proximity: float, classifier: Any, batch: TaskBatch, written_out: WrittenOut
) -> None:
    options = {"steps": 2, "radius": 0.1, "step_size": 0.06, "init_std": 0.01}
    defence = begun("smart", classifier, smoothness=smoothness, proximity=proximity, **options)
    torch.manual_seed(7)
    teacher = teacher_of(classifier)
    if proximity:
        defence.load_state(dict(teacher.named_parameters()))
    torch.manual_seed(8)
    delta = np.clip(torch.randn(4, 6, 16, dtype=torch.float64).numpy() * 0.01 * masks(batch), -0.1, 0.1)

    def kls(mine: Tensor, theirs: Tensor) -> Tensor:
        p, q = mine.softmax(dim=1), theirs.softmax(dim=1)
        return ((p * (p / q).log()).sum(dim=1) + (q * (q / p).log()).sum(dim=1)).mean()

    clean = written_out(classifier, batch, torch.zeros(4, 6, 16))
    for _ in range(2):
        leaf = torch.tensor(delta, requires_grad=True)
        away = kls(written_out(classifier, batch, leaf), clean.detach())
        (g,) = torch.autograd.grad(away, leaf)
        delta = np.clip(delta + 0.06 * np.sign(g.numpy()), -0.1, 0.1)
    terms = [
        F.cross_entropy(clean, batch.labels),
        kls(written_out(classifier, batch, torch.tensor(delta)), clean),
        kls(clean, written_out(teacher, batch, torch.zeros(4, 6, 16)).detach()),
    ]
    assert min(term.item() for term in terms) > 1e-3
    wanted = reference(classifier, terms[0] + smoothness * terms[1] + proximity * terms[2])
    torch.manual_seed(8)
    same(trained_on(defence, classifier, batch), wanted)
    weights = {"smoothness": smoothness, "proximity": proximity}
    assert set(defence.diagnostics) == {name for name, weight in weights.items() if weight}


def test_smart_on_scores_takes_squared_differences(
    make_classifier: Any, batch: TaskBatch, written_out: WrittenOut
) -> None:
    model = make_classifier(classes=1)
    scores = TaskBatch(batch.features, torch.tensor([0.0, 1.0, 0.5, 2.0], dtype=torch.float64), batch.rows)
    defence = begun("smart", model, radius=0.1, step_size=0.1, init_std=0.02, proximity=0.0)
    torch.manual_seed(1)
    delta = defence.attack(Passes(model, scores))
    clean, moved = (written_out(model, batch, d)[:, 0] for d in (torch.zeros(4, 6, 16), delta))
    wanted = reference(model, ((clean - scores.labels) ** 2).mean() + ((moved - clean) ** 2).mean())
    torch.manual_seed(1)
    same(trained_on(defence, model, scores), wanted)


def test_smarts_teacher_starts_at_the_start_and_follows(classifier: Any) -> None:
    defence = begun("smart", classifier, momentum=0.9, warm_momentum=0.5)
    names = dict(classifier.named_parameters())
    assert defence.teacher.keys() == names.keys()
    name = "classifier.weight"
    start = names[name].detach().clone()
    torch.testing.assert_close(defence.teacher[name], start)
    with torch.no_grad():
        names[name].add_(1.0)
    torch.testing.assert_close(defence.teacher[name], start, msg="the teacher is the model itself")
    defence.follow(classifier, Moment(1, 10, 0.1))  # in the first tenth
    torch.testing.assert_close(defence.teacher[name], start + 0.5)
    defence.follow(classifier, Moment(2, 10, 0.2))
    torch.testing.assert_close(defence.teacher[name], start + 0.55)
    assert begun("smart", classifier, proximity=0.0).state() == {}


def test_smarts_teacher_is_asked_without_dropout_and_without_gradient(make_classifier: Any, batch: TaskBatch) -> None:
    model = make_classifier(dropout=0.4)
    defence = begun("smart", model)
    passes = Passes(model, batch)
    first, second = defence.teacher_logits(passes), defence.teacher_logits(passes)
    assert torch.equal(first, second)
    assert not first.requires_grad
    model.eval()
    torch.testing.assert_close(first, model(**batch.features).logits)


def test_every_defence_says_what_it_is_and_what_its_options_mean() -> None:
    from holdfast.option_parsing import documented_arguments
    from holdfast.training.method_options import option_defaults

    for name, kind in DEFENCES.items():
        assert kind.IDEA, name
        assert kind.CITATION or name == "none"
        assert set(option_defaults(kind)) <= set(documented_arguments(kind)), name


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("pgd", {"raduis": "1"}, "did you mean 'radius'"),
        ("pgd", {"radius": "big"}, "a number"),
        ("pgd", {"radius": "-1"}, "radius must be a number from 0 up"),
        ("pgd", {"radius": "nan"}, "takes a number, not"),
        ("pgd", {"steps": "-1"}, "steps must be at least 0"),
        ("pgd", {"share": "1.5"}, "share must lie in"),
        ("pgd", {"norm": "3"}, "one of 2, inf"),
        ("freelb", {"steps": "0"}, "steps must be at least 1"),
        ("freelb", {"start": "-1"}, "start must be"),
        ("smart", {"momentum": "2"}, "momentum must lie in"),
        ("smart", {"smoothness": "-1"}, "smoothness must be"),
        ("robustembed", {"mix": "2"}, "mix must lie in"),
        ("robustembed", {"fgsm_steps": "0", "pgd_steps": "0"}, "nothing would be attacked"),
        ("robustembed", {"fgsm_steps": "0", "mix": "0"}, "nothing would be attacked"),
        ("robustembed", {"pgd_steps": "0", "mix": "1"}, "nothing would be attacked"),
        ("robustembed", {"pgd_steps": "-1"}, "pgd_steps must be"),
        ("adv", {"max_share": "0"}, "max_share must lie in"),
        ("adv", {"iterations": "0"}, "iterations must be at least 1"),
        ("adv", {"clean_epochs": "-1"}, "clean_epochs must be at least 0"),
        ("none", {"steps": "1"}, "none has no option 'steps'; options: none"),
        ("pdg", {}, "did you mean 'pgd'"),
    ],
)
def test_options_that_make_no_sense_are_told_in_one_line(name: str, options: dict[str, str], said: str) -> None:
    from holdfast.errors import UserError

    with pytest.raises(UserError) as message:
        make_defence(name, options)
    assert said in str(message.value)
