"""RankCSE (Liu, Liu, Wang, Wang, Wu, Xian, Zhao, Chen and Yan, ACL 2023)."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from holdfast.adversary.divergence import divergence_between
from holdfast.adversary.equal_texts import Duplicates
from holdfast.backbone import Features
from holdfast.distributed import gather_keys
from holdfast.encoder import unwrap
from holdfast.errors import UserError
from holdfast.models import evaluating, load_sentence_transformer
from holdfast.objectives.contrastive import at_least_fp32, cosine_matrix, full_precision, own_or_equal
from holdfast.objectives.contrastive_objective import ContrastiveObjective
from holdfast.objectives.dimensions import Cut
from holdfast.objectives.heads import AnyHeadKind
from holdfast.objectives.option_checks import check_not_negative, check_positive, check_words
from holdfast.objectives.own_idea import attributes_replaced
from holdfast.objectives.ranking import list_mle, list_net, mean_correlation, released_consistency, without
from holdfast.objectives.teacher_reading import features_for, reads_equal_tokens

Distillation = Literal["listmle", "listnet"]


class RankCSE(ContrastiveObjective):
    r"""SimCSE whose similarities are also to rank the other sentences as a teacher does, and equally in both views.

    With :math:`S_{ij} = \mathrm{sim}(z_i, z_j^+)`, :math:`S'_{ij} = \mathrm{sim}(z_i^+, z_j)` and the teachers'
    cosines :math:`T_{ij}` of sentence i with sentence j

    .. math::
        L = L_{\mathrm{InfoNCE}} + \beta\, \frac1N \sum_i \mathrm{JS}\big(\mathrm{softmax}(S_i/\tau) \,\|\,
            \mathrm{softmax}(S'_i/\tau)\big) + \gamma\, \frac1N \sum_i \mathrm{rank}(S_i, T_i)

    where rank is the negative log-likelihood of the teacher's order π (ListMLE)

    .. math::
        -\sum_j \log \frac{e^{S_{i\pi(j)}/\tau_2}}{\sum_{k \ge j} e^{S_{i\pi(k)}/\tau_2}}

    or the cross-entropy of softmax(T/τ₃) and softmax(S/τ₂) (ListNet). Several processes rank the sentences of the
    joined batch.

    Args:
        teacher: folder or name of a sentence encoder whose rankings are learned; by default the encoder as it was
            loaded, which must then rank well already: start from a model that was trained by SimCSE.
        second_teacher: folder or name of a second one; T is then the weighted mean of both.
        teacher_weight: α in [0, 1], weight of the first of two teachers.
        distillation: "listmle" or "listnet".
        consistency: β, weight of the divergence between the rankings of both views; 0: none.
        ranking: γ, weight of the teacher's ranking; 0: none, and no teacher is needed.
        rank_temperature: τ₂.
        teacher_temperature: τ₃, of ListNet; ListMLE learns the order alone.
        rank_positives: the lists also hold the sentence's own key, which is the teacher's first.
        head: "tanh", "none" or "bn", as in SimCSE.
        duplicates: "mask": keys of equal texts are no negatives, and in no list; "keep": they are in both.
        as_released: reproduce the other differences of the community's code; see ``PRESETS["as_released"]``.

    Sources of the defaults, and differences from the release: ``docs/methods/rankcse.md``.

    Inputs:
        A column of sentences, (B,); an optional second column holds their positives. Returns ``{"contrastive"}``, and
        those of ``{"consistency", "ranking"}`` whose weight is not 0.
    """

    TITLE: ClassVar = "RankCSE"
    IDEA: ClassVar = "SimCSE whose similarities rank a batch as a teacher does, equally in both views (ListMLE, JS)"
    OWN_IDEA: ClassVar = "the terms of rankings"
    HEADS: ClassVar = AnyHeadKind
    CITATION: ClassVar = (
        "Liu, Liu, Wang, Wang, Wu, Xian, Zhao, Chen and Yan. RankCSE: Unsupervised Sentence Representations Learning "
        "via Learning to Rank. ACL 2023."
    )
    PRESETS: ClassVar = {
        "paper": {"rank_positives": True, "duplicates": "keep"},
        "as_released": {
            "rank_positives": True,
            "teacher_temperature": 0.05,
            "duplicates": "keep",
            "as_released": True,
        },
    }
    COST: ClassVar = 1.18
    IDEA_SHARE: ClassVar = 0.998
    FILE_OPTIONS: ClassVar = ("teacher", "second_teacher")
    TRAINING: ClassVar = {"learning_rate": 3e-5, "batch_size": 128, "epochs": 1.0}

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 0.05,
        teacher: str | None = None,
        second_teacher: str | None = None,
        teacher_weight: float = 1 / 3,
        distillation: Distillation = "listmle",
        consistency: float = 1.0,
        ranking: float = 1.0,
        rank_temperature: float = 0.05,
        teacher_temperature: float = 0.025,
        rank_positives: bool = False,
        head: AnyHeadKind = "tanh",
        duplicates: Duplicates = "mask",
        as_released: bool = False,
    ) -> None:
        super().__init__(model, temperature=temperature, head=head, duplicates=duplicates)
        check_words(distillation=(distillation, Distillation))
        check_not_negative(consistency=consistency, ranking=ranking)
        check_positive(rank_temperature=rank_temperature, teacher_temperature=teacher_temperature)
        if not 0.0 <= teacher_weight <= 1.0:
            raise ValueError(f"teacher_weight must lie between 0 and 1, got {teacher_weight}")
        if second_teacher is not None and teacher is None:
            raise ValueError("second_teacher needs a first one: name it by teacher=")
        self.consistency, self.ranking, self.distillation = consistency, ranking, distillation
        self.rank_temperature, self.teacher_temperature = rank_temperature, teacher_temperature
        self.rank_positives, self.as_released, self.teacher = rank_positives, as_released, teacher
        names = [name for name in (teacher, second_teacher) if name is not None]
        self.teacher_weights = [teacher_weight, 1 - teacher_weight] if len(names) == 2 else [1.0]
        self.teachers = nn.ModuleList(self._teachers(names) if ranking else [])
        own = self.encoder.model
        self._same_tokens = [not names or reads_equal_tokens(own, each) for each in self.teachers]
        self._from_labels = False

    def _teachers(self, names: list[str]) -> list[nn.Module]:
        if not names:
            self.notices.append("no teacher is named: the rankings to learn are those of the model as it was loaded")
            found: list[nn.Module] = [copy.deepcopy(unwrap(self.model))]
        else:
            if self.encoder.prompt is not None:
                raise UserError("a teacher cannot separate a prompt from its sentence: choose another --pooling")
            found = [load_sentence_transformer(name, device=str(self.encoder.model.device)) for name in names]
        return [each.requires_grad_(False).eval() for each in found]

    def needs_dropout(self, columns: int) -> bool:
        """Return True unless the data has positives."""
        return columns == 1

    def use_labels(self) -> None:
        """Take the vectors of the model as it was loaded from the batches: no teacher is needed."""
        if self.teacher is not None:
            raise ValueError("the vectors are those of the model as it was loaded, and teacher= names another")
        if not self.ranking:
            raise ValueError("ranking=0 learns no order, and needs no vectors of a teacher")
        self.teachers, self._from_labels = nn.ModuleList(), True

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Run a pass of both views, and one of each teacher; return the terms with a positive weight, scalars.

        After `use_labels` the ``labels`` (B, d) are the teacher's vectors.
        """
        sentences, positives = self.columns(sentence_features)
        h = self.pair_vectors(sentences, positives)
        equal = self.equal_texts(sentences, positives)
        scores = self.teacher_scores(sentences, positives, labels) if self.ranking else None

        def terms(cut: Cut) -> dict[str, Tensor]:
            z, z_positive = self.head(cut(h), views=2).chunk(2)
            return self.compute_loss(z, z_positive, scores, equal)

        return self.at_each_dimension(terms)

    def compute_loss(
        self, z: Tensor, z_positive: Tensor, scores: Tensor | None, equal: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the terms with a positive weight.

        Args:
            z: projected vectors of the sentences, (B, d).
            z_positive: those of their positives, (B, d).
            scores: T, (B, N), as returned by `teacher_scores`; None: no ranking.
            equal: (B, N), as returned by `equal_texts`.
        """
        terms = {"contrastive": self.in_batch_loss(z, z_positive, equal)}
        keys, offset = gather_keys(z_positive)
        own = offset + torch.arange(len(z), device=z.device)
        others = None if equal is None else equal.scatter(1, own[:, None], value=False)
        with full_precision(z):
            cosines = cosine_matrix(z, keys)
            if self.consistency:
                back = cosine_matrix(z_positive, gather_keys(z)[0])
                first, second = (without(each / self.temperature, others) for each in (cosines, back))
                if self.as_released:
                    terms["consistency"] = released_consistency(first, second)
                else:
                    terms["consistency"] = self.consistency * divergence_between(first, second, "js").mean()
            if self.ranking:
                assert scores is not None
                terms["ranking"] = self.ranking * self.rank_losses(cosines, scores, self._unlisted(others, own, scores))
        return terms

    def rank_losses(self, cosines: Tensor, scores: Tensor, unlisted: Tensor | None) -> Tensor:
        """Return the mean loss of the rankings, a scalar, of cosines S and T, (B, N); ``unlisted`` are left out."""
        scores = scores.to(cosines)
        self.diagnostics["teacher_correlation"] = mean_correlation(cosines.detach(), scores, unlisted)
        if self.distillation == "listnet":
            return list_net(cosines / self.rank_temperature, scores / self.teacher_temperature, unlisted).mean()
        floor = 1e-7 if self.as_released else 0.0
        return list_mle(cosines / self.rank_temperature, scores, unlisted, floor=floor).mean()

    def _unlisted(self, others: Tensor | None, own: Tensor, scores: Tensor) -> Tensor | None:
        """Return the keys that are in no list, (B, N): those of equal texts, and the own one unless it is ranked."""
        if self.rank_positives:
            return others
        return own_or_equal(scores, others, own)

    @torch.no_grad()
    def teacher_scores(
        self, sentences: Features, positives: Features | None = None, labels: Tensor | None = None
    ) -> Tensor:
        """Return T, (B, N): the teachers' mean cosine of each sentence with the positives of the joined batch."""
        if self._from_labels:
            if labels is None or positives is not None:
                raise UserError("--vectors holds one vector for each sentence: give a corpus of one column")
            with full_precision(labels):
                return cosine_matrix(at_least_fp32(labels), gather_keys(at_least_fp32(labels))[0])
        total: Tensor | None = None
        for number, weight in enumerate(self.teacher_weights):
            vectors = self._read(number, sentences)
            keys, _ = gather_keys(vectors if positives is None else self._read(number, positives))
            with full_precision(vectors):
                cosines = weight * cosine_matrix(vectors, keys)
            total = cosines if total is None else total + cosines
        assert total is not None
        return total

    def _read(self, number: int, sentences: Features) -> Tensor:
        """Return a teacher's vectors of sentences, (B, d of the teacher)."""
        teacher = self.teachers[number]
        given = features_for(teacher, self.encoder.model, sentences, same_tokens=self._same_tokens[number])
        with evaluating(teacher):
            return at_least_fp32(self.encoder_of(teacher).encode(given))

    def own_state(self) -> dict[str, Tensor]:
        """Return the state of the objective for checkpoints, without the teachers, which do not change."""
        return {name: value for name, value in super().own_state().items() if not name.startswith("teachers.")}

    def without_idea(self) -> AbstractContextManager[None]:
        """Return a context in which the loss is SimCSE's."""
        return attributes_replaced(self, consistency=0.0, ranking=0.0)
