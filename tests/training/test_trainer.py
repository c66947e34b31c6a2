"""What the trainer adapter adds to the stock trainer, and what it must not let through."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset
from methods import OPTIONS
from sentence_transformers import SentenceTransformerTrainingArguments
from transformers import TrainerCallback, set_seed

from holdfast.errors import Notice, UserError
from holdfast.models import load_sentence_transformer
from holdfast.objectives import METHODS, Combined, SimCSE, VAdvCSE
from holdfast.objectives.own_idea import idea_share
from holdfast.runs.best_weights import KeepBest
from holdfast.training.idea_measurement import IdeaMeasurement
from holdfast.training.sampling import EpochOrder, epoch_batches
from holdfast.training.trainer import HoldfastTrainer

METRIC = "eval_stsb_dev_spearman"


def arguments(folder: Path, **changes: Any) -> SentenceTransformerTrainingArguments:
    defaults: dict[str, Any] = {"max_steps": 2, "per_device_train_batch_size": 4, "save_strategy": "no"}
    return SentenceTransformerTrainingArguments(
        str(folder), use_cpu=True, report_to="none", disable_tqdm=True, **{**defaults, **changes}
    )


def trainer_for(model: Any, objective: Any, sentences: list[str], folder: Path, **changes: Any) -> HoldfastTrainer:
    data = Dataset.from_dict({"sentence": sentences})
    return HoldfastTrainer(model=model, args=arguments(folder, **changes), train_dataset=data, loss=objective)


def test_order_is_a_permutation_known_from_seed_and_epoch() -> None:
    order = EpochOrder(50, seed=3)
    first = list(order)
    assert sorted(first) == list(range(50))
    assert list(order) == first, "asking twice must not move it on"
    order.epoch = 1
    assert list(order) != first
    fresh = EpochOrder(50, seed=3)
    fresh.epoch = 1
    assert list(fresh) == list(order), "epoch 2 must not depend on having drawn epoch 1"
    assert list(EpochOrder(50, seed=4)) != first
    assert [len(batch) for batch in epoch_batches(50, 8, seed=0)] == [8] * 6


def test_epochs_are_ordered_differently(make_encoder_model: Any, sentences: list[str], tmp_path: Path) -> None:
    model = make_encoder_model("bert")
    seen: list[torch.Tensor] = []

    class Watch(SimCSE):
        def forward(self, sentence_features: Any, labels: Any = None) -> Any:
            columns = list(sentence_features)
            seen.append(columns[0]["input_ids"].sum(dim=1))
            return super().forward(columns, labels)

    trainer_for(model, Watch(model), sentences, tmp_path, max_steps=4, per_device_train_batch_size=4).train()
    assert len(seen) == 4
    first, second = torch.cat(seen[:2]), torch.cat(seen[2:])
    assert sorted(first.tolist()) == sorted(second.tolist())
    assert first.tolist() != second.tolist()


def test_clipping_covers_the_objective(make_encoder_model: Any, sentences: list[str], tmp_path: Path) -> None:
    model = make_encoder_model("bert").train()
    objective = SimCSE(model, temperature=0.01)
    norms = []

    class Norms(TrainerCallback):
        def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
            own = [p.grad for p in objective.own_parameters()]
            norms.append(
                (torch.nn.utils.get_total_norm([p.grad for p in objective.parameters() if p.grad is not None]), own)
            )

    trainer = trainer_for(model, objective, sentences, tmp_path, max_grad_norm=1e-3)
    trainer.add_callback(Norms())
    trainer.train()
    for total, own in norms:
        assert total == pytest.approx(1e-3, rel=1e-3), "model and objective together have the norm that was asked for"
        assert torch.nn.utils.get_total_norm(own) > 1e-5


def test_a_term_that_is_not_finite_stops_before_the_weights(
    make_encoder_model: Any, sentences: list[str], tmp_path: Path
) -> None:
    model = make_encoder_model("bert")

    class Broken(SimCSE):
        calls = 0

        def compute_loss(self, z: Any, z_positive: Any, equal: Any = None) -> Any:
            self.calls += 1
            return super().compute_loss(z, z_positive, equal) * (float("nan") if self.calls == 3 else 1.0)

    trainer = trainer_for(model, Broken(model), sentences, tmp_path, max_steps=5, save_strategy="steps", save_steps=1)
    with pytest.raises(UserError) as message:
        trainer.train()
    assert "the 'contrastive' term of the loss became nan at step 3" in str(message.value)
    assert str(tmp_path / "checkpoint-2") in str(message.value)
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())


def test_a_full_disk_leaves_no_half_checkpoint(
    make_encoder_model: Any, sentences: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_encoder_model("bert")
    trainer = trainer_for(model, SimCSE(model), sentences, tmp_path, max_steps=3, save_strategy="steps", save_steps=1)
    save = trainer._save_optimizer_and_scheduler

    def full(folder: str) -> None:
        if folder.endswith("checkpoint-2"):
            raise OSError(28, "No space left on device")
        save(folder)

    monkeypatch.setattr(trainer, "_save_optimizer_and_scheduler", full)
    with pytest.raises(UserError) as message:
        trainer.train()
    assert "no space left on the disk while writing" in str(message.value)
    assert f"last good checkpoint: {tmp_path / 'checkpoint-1'}" in str(message.value)
    assert not (tmp_path / "checkpoint-2").exists()


def test_other_losses_are_refused(make_encoder_model: Any, sentences: list[str], tmp_path: Path) -> None:
    model = make_encoder_model("bert")
    with pytest.raises(TypeError, match="loss must be an Objective"):
        trainer_for(model, torch.nn.Identity(), sentences, tmp_path)


class TestKeepBest:
    """The best evaluation's weights, ties to the earlier one, across a restart."""

    def test_what_is_not_yet_trained_as_it_should_be_does_not_count(
        self, make_encoder_model: Any, tmp_path: Path
    ) -> None:
        model, best = make_encoder_model("bert"), KeepBest(tmp_path, METRIC, after=2.0)
        for step, score in ((1, 90.0), (2, 80.0), (3, 40.0)):
            self.evaluate(best, model, step, score, tmp_path)
        assert (best.step, best.score) == (3, 40.0)

    def evaluate(self, best: KeepBest, model: Any, step: int, score: float, folder: Path) -> None:
        state = type("State", (), {"global_step": step})()
        best.on_evaluate(arguments(folder), state, None, metrics={METRIC: score}, model=model)

    def test_best_is_kept_and_restored(self, make_encoder_model: Any, tmp_path: Path) -> None:
        model = make_encoder_model("bert")
        parameter = next(model.parameters())
        best = KeepBest(tmp_path, METRIC)
        for step, score in ((1, 50.0), (2, 60.0), (3, 60.0), (4, 55.0)):
            with torch.no_grad():
                parameter.fill_(step)
            self.evaluate(best, model, step, score, tmp_path)
        assert (best.step, best.score) == (2, 60.0)
        again = KeepBest(tmp_path, METRIC)
        assert (again.step, again.score) == (2, 60.0)
        self.evaluate(again, model, 5, 59.0, tmp_path)
        again.restore(model)
        assert (parameter == 2).all()


def test_diagnostics_are_logged_beside_the_terms(make_encoder_model: Any, sentences: list[str], tmp_path: Path) -> None:
    from holdfast.objectives import RobustEmbed

    model = make_encoder_model("bert")
    trainer = trainer_for(model, RobustEmbed(model), sentences, tmp_path, logging_steps=1)
    trainer.train()
    logged = [record for record in trainer.state.log_history if "robust" in record]
    assert len(logged) == 2
    for record in logged:
        assert record["loss"] == pytest.approx(record["robust"] + record["adversarial"], abs=2e-4)
        assert 0 < record["delta_norm"] <= 5e-3
        assert "attack_loss_rise" in record
    json.dumps(trainer.state.log_history)


def test_accumulated_batches_move_what_follows_once(
    make_encoder_model: Any, sentences: list[str], tmp_path: Path
) -> None:
    model = make_encoder_model("bert")
    parts = {"keys": "momentum", "negatives": "batch+queue+adversaries", "queue_size": 40, "momentum": 0.5}
    objective = Combined(model, **parts, momentum_warm_up=False)
    assert objective.queue is not None
    assert objective.negatives is not None
    assert objective.follower is not None
    followed: list[torch.Tensor] = [objective.follower.followed_head.dense.weight.clone()]  # type: ignore[union-attr]
    queued, turned = [], [objective.negatives.vectors.clone()]

    class Watch(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            followed.append(objective.follower.followed_head.dense.weight.clone())  # type: ignore[union-attr]
            queued.append(int(objective.queue.filled))  # type: ignore[union-attr]
            turned.append(objective.negatives.vectors.clone())  # type: ignore[union-attr]
            expected = (followed[-2] + objective.head.dense.weight.detach()) / 2  # type: ignore[operator, union-attr]
            torch.testing.assert_close(followed[-1], expected)

    changes = {"max_steps": 3, "gradient_accumulation_steps": 2, "learning_rate": 0.1}
    trainer = trainer_for(model, objective, sentences, tmp_path, **changes)
    trainer.add_callback(Watch())
    trainer.train()
    assert queued == [8, 16, 24], "both batches of a step enter, after it"
    assert len(followed) == 4
    assert all(not torch.equal(a, b) for a, b in itertools.pairwise(turned))


def test_each_process_draws_random_numbers_of_its_own() -> None:
    """All are seeded alike to build the same head; with the same dropout their batches would have the same masks."""
    drawn = []
    for index in range(3):
        torch.manual_seed(5)
        args = SimpleNamespace(process_index=index, seed=5)
        HoldfastTrainer.begin_training(SimpleNamespace(args=args))  # type: ignore[arg-type]
        drawn.append(torch.rand(4))
    torch.manual_seed(5)
    assert torch.equal(drawn[0], torch.rand(4)), "the first goes on as a single process would"
    assert len({tuple(numbers.tolist()) for numbers in drawn}) == 3


@pytest.mark.parametrize(
    ("step", "logging_steps", "steps", "due"),
    [
        *((25, 25, 400, True), (50, 25, 400, False), (75, 25, 400, True), (24, 25, 400, False)),
        *((5, 5, 50, True), (10, 5, 50, False), (55, 5, 60, True), (4, 4, 49, False), (1, 1, 60, True)),
    ],
)
def test_the_idea_is_measured_in_a_logged_step_of_every_50(
    make_encoder_model: Any, step: int, logging_steps: int, steps: int, due: bool
) -> None:
    measurement = IdeaMeasurement(VAdvCSE(make_encoder_model("bert")))
    assert measurement.is_due(step, logging_steps, steps) == due
    assert not IdeaMeasurement(SimCSE(make_encoder_model("bert"))).is_due(step, logging_steps, steps)


@pytest.mark.parametrize("method", ["v-advcse", "adcl", "adcse", "l2p-csr", "combined"])
def test_a_training_that_is_measured_is_equal_to_the_bit(
    method: str, make_masked_lm: Any, sentences: list[str], tmp_path: Path
) -> None:
    folder = make_masked_lm(tmp_path / "tiny")
    kept, logged = [], []
    for least in (1, 10**9):
        set_seed(3)
        model = load_sentence_transformer(str(folder), device="cpu")
        objective = METHODS[method](model, **OPTIONS.get(method, {}))
        trainer = trainer_for(
            model, objective, sentences * 2, tmp_path, max_steps=3, logging_steps=1, gradient_accumulation_steps=2
        )
        trainer.idea.least_steps = least
        trainer.train()
        kept.append({**objective.state_dict(), "random": torch.get_rng_state()})
        logged.append([record for record in trainer.state.log_history if "loss" in record])
    assert kept[0].keys() == kept[1].keys()
    assert all(torch.equal(kept[0][name], value) for name, value in kept[1].items())
    measured, plain = logged
    shares = [record.pop("idea_gradient_share") for record in measured]
    assert len(shares) == 3
    assert 0 < max(shares) < 10
    for record, other in zip(measured, plain, strict=True):
        record.pop("attack_seconds", None)
        other.pop("attack_seconds", None)
        assert record == other


def test_the_share_of_a_step_is_that_of_its_batch(
    make_encoder_model: Any, sentences: list[str], tmp_path: Path
) -> None:
    """Also of one that is accumulated, and whose gradient is divided by the number of batches."""
    model = make_encoder_model("bert")
    objective, expected = VAdvCSE(model), []

    class Watched(IdeaMeasurement):
        is_busy = False

        def _keep(self, module: Any, inputs: Any) -> None:
            if self.is_busy:  # a pass of this hook
                return
            self.is_busy = True
            expected.append(idea_share(objective, *inputs).item())
            self.is_busy = False
            super()._keep(module, inputs)

    trainer = trainer_for(
        model, objective, sentences * 2, tmp_path, max_steps=2, logging_steps=1, gradient_accumulation_steps=2
    )
    trainer.idea = Watched(objective, 1)
    trainer.train()
    shares = [record["idea_gradient_share"] for record in trainer.state.log_history if "loss" in record]
    assert shares == pytest.approx(expected, rel=1e-4)


def test_without_memory_for_a_second_gradient_the_training_goes_on(
    make_encoder_model: Any, sentences: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr("holdfast.training.idea_measurement.encoder_gradient", full)
    model = make_encoder_model("bert")
    trainer = trainer_for(model, VAdvCSE(model), sentences, tmp_path, max_steps=3, logging_steps=1)
    trainer.idea.least_steps = 1
    with pytest.warns(Notice, match="no memory for a second gradient") as notices:
        trainer.train()
    assert trainer.state.global_step == 3
    assert len([each for each in notices if issubclass(each.category, Notice)]) == 1
    assert not any("idea_gradient_share" in record for record in trainer.state.log_history)
