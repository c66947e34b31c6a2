"""Make fixtures/corpus-poisoning.json from a checkout of princeton-nlp/corpus-poisoning.

It needs the present transformers, and datasets: the release's ``main`` runs as it is, on the recipe's tiny BERT.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import recipe
import torch
from release import checkout, save, stand_in

SOURCE = {
    "repository": "princeton-nlp/corpus-poisoning",
    "commit": "f3726e4",
    "code": ["src/attack_poison.py:44-63 hotflip_attack", "src/attack_poison.py:255-380 the steps of main"],
    "patched": ["device: cpu in place of cuda", "the numbers of a step are recorded before they are printed"],
}
TOKENS, CANDIDATES, STEPS = 6, 12, 16
ARGUMENTS = [
    *("--max_seq_length", str(recipe.LENGTH), "--num_adv_passage_tokens", str(TOKENS)),
    *("--num_cand", str(CANDIDATES), "--num_iter", str(STEPS), "--dont_init_gold"),
]
_PRINTED = "print(current_score, max(candidate_scores).cpu().item())"
_RECORDED = (
    "RECORD(adv_passage_ids, token_to_flip, grad, candidates, candidate_scores, current_score, "
    "candidate_acc_rates, current_acc_rate, subset)"
)


def tiny() -> tuple[Any, Any]:
    """Return the recipe's BERT of two layers in fp64 and its tokeniser."""
    from transformers import BertConfig, BertModel, BertTokenizer

    model = BertModel(BertConfig(num_hidden_layers=2, **recipe.CONFIG), add_pooling_layer=False).double()
    recipe.fill(model)
    vocabulary = {token: number for number, token in enumerate(recipe.VOCABULARY)}
    return model, BertTokenizer(vocab=vocabulary, model_max_length=recipe.LENGTH)


def mean_of_tokens(model: Any, features: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the mean of the last layer over the tokens, as Contriever does."""
    mask = features["attention_mask"].double().unsqueeze(-1)
    found: torch.Tensor = (model(**features).last_hidden_state * mask).sum(dim=1) / mask.sum(dim=1)
    return found


class Loader:
    """In the place of BEIR's loader: the recipe's sentences as queries, their positives as documents."""

    def __init__(self, _path: str) -> None: ...

    def load(self, split: str) -> tuple[Any, Any, Any]:
        numbers = [str(number) for number in range(recipe.ROWS)]
        corpus = {n: {"title": "", "text": text} for n, text in zip(numbers, recipe.POSITIVES, strict=True)}
        return corpus, dict(zip(numbers, recipe.SENTENCES, strict=True)), {number: {number: 1} for number in numbers}


def main() -> None:
    folder = checkout(SOURCE["repository"])
    model, tokenizer = tiny()
    stand_in("beir", "beir.datasets", util=SimpleNamespace(download_and_unzip=lambda *_: "data"))
    stand_in("beir.datasets.data_loader", GenericDataLoader=Loader)
    stand_in("utils", load_models=lambda _: (model, model, tokenizer, mean_of_tokens))
    path = folder / "src" / "attack_poison.py"
    code = path.read_text(encoding="utf-8")
    for old, new in (
        ("device = 'cuda'", "device = 'cpu'"),
        ("device='cuda'):", "device='cpu'):"),
        (_PRINTED, _RECORDED),
        ("train_dataset = datasets", 'subset = datasets["subset_train"]["sent0"]\n    train_dataset = datasets'),
    ):
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    steps: list[dict[str, Any]] = []
    queries: list[int] = []

    def record(
        ids: Any, place: int, grad: Any, tokens: Any, scores: Any, score: float, wins: Any, won: int, fitted: Any
    ) -> None:
        steps.append(
            {
                "ids": ids[0].tolist(),
                "place": place,
                "gradient": recipe.probe("gradient", grad),
                "tokens": tokens.tolist(),
                "scores": scores.tolist(),
                "similarity": score,
                "more wins": bool((wins > won).any()),
            }
        )
        queries[:] = sorted(recipe.SENTENCES.index(text) for text in fitted)

    module = ModuleType("attack_poison")
    module.__dict__["RECORD"] = record
    sys.argv = [str(path), *ARGUMENTS]
    exec(compile(code, str(Path(path).name), "exec"), module.__dict__)
    module.__dict__["main"]()
    save("corpus-poisoning", SOURCE, {"queries": queries, "steps": steps})


if __name__ == "__main__":
    main()
