"""A finished run is a plain SentenceTransformer: the same vectors where holdfast cannot be imported."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from holdfast.card_terms import terms_of
from holdfast.model_lookup import model_identity
from holdfast.models import load_sentence_transformer
from holdfast.runs.best_weights import KeepBest
from holdfast.training.train_config import TrainConfig
from holdfast.training.training_run import train

RELOAD = """
import sys
sys.modules["holdfast"] = None
import json, numpy
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1])
assert model.max_seq_length == 64, model.max_seq_length
numpy.save(sys.argv[2], model.encode(json.loads(sys.argv[3])))
"""


def config(tiny: Path, corpus: Path, output: Path, labelled: Path | None = None) -> TrainConfig:
    return TrainConfig(
        method="simcse",
        model=str(tiny),
        corpus=str(corpus),
        output=output,
        data=labelled,
        selection="stsb-dev" if labelled else "last",
        max_steps=4,
        batch_size=8,
        eval_steps=2,
        learning_rate=1e-2,
        report_sts=False,
    )


@pytest.mark.slow
def test_loads_without_holdfast_and_gives_the_same_vectors(
    tiny: Path, corpus: Path, labelled: Path, tmp_path: Path, sentences: list[str]
) -> None:
    output = tmp_path / "run"
    result = train(config(tiny, corpus, output, labelled))
    ours = load_sentence_transformer(str(output)).encode(sentences)
    start = load_sentence_transformer(str(tiny)).encode(sentences)
    assert np.abs(ours - start).max() > 1e-3, "nothing was trained"
    file = tmp_path / "vectors.npy"
    command = [sys.executable, "-c", RELOAD, str(output), str(file), json.dumps(sentences)]
    finished = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert np.abs(np.load(file) - ours).max() < 1e-5
    modules = json.loads((output / "modules.json").read_text())
    assert all(module["type"].startswith("sentence_transformers.") for module in modules)
    assert result["model_sha256"] == model_identity(output)["model_sha256"]
    assert "1,131 of the 1,500 pairs of STS-B dev" in (output / "README.md").read_text(encoding="utf-8")
    left = {path.name for path in output.iterdir()}
    assert not {name for name in left if name.startswith(("checkpoint", "best", ".", "eval"))}


def test_the_card_tells_method_corpus_protocol_and_how_to_load(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    train(config(tiny, corpus, output))
    card = (output / "README.md").read_text(encoding="utf-8")
    for words in ("SimCSE", "eq. 4", str(corpus), "60 sentences", 'SentenceTransformer("path/to', "last step was kept"):
        assert words in card, words
    assert "Not measured" in card
    assert "1,131 of the 1,500 pairs" not in card, "nothing was chosen on STS-B dev"


def test_the_card_passes_the_licence_of_the_base_model_on(
    tiny: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def front(base: Path, name: str) -> dict[str, Any]:
        train(config(base, corpus, tmp_path / name))
        text = (tmp_path / name / "README.md").read_text(encoding="utf-8")
        found: dict[str, Any] = yaml.safe_load(text.split("---")[1])
        return found

    base = tmp_path / "base"
    shutil.copytree(tiny, base)
    card = "---\nlicense: cc-by-nc-4.0\nlanguage: [de, en]\ntags: [theirs]\nlicense_link: {a: b}\n---\n# A model\n"
    (base / "README.md").write_text(card, encoding="utf-8")
    found = front(base, "licensed")
    assert (found["license"], found["language"]) == ("cc-by-nc-4.0", ["de", "en"])
    assert "theirs" not in found["tags"]
    assert not {"license_link", "base_model"} & set(found), "no text, and no name of the hub"
    for damaged in ("---\nlicense: [\n---\n", "no front matter", "---\n- a list\n---\n"):
        (base / "README.md").write_text(damaged, encoding="utf-8")
        assert terms_of(str(base)) == {}
    (base / "README.md").write_text(card, encoding="utf-8")
    monkeypatch.setattr("holdfast.card_terms.resolve_model", lambda name: base)
    assert terms_of("acme/encoder") == {
        "license": "cc-by-nc-4.0",
        "language": ["de", "en"],
        "base_model": "acme/encoder",
    }


def test_a_failure_before_the_first_checkpoint_leaves_nothing(
    tiny: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.errors import UserError
    from holdfast.training import training_run

    def full(*_: object) -> None:
        raise UserError("no space left on the disk")

    monkeypatch.setattr(training_run, "export", full)
    with pytest.raises(UserError, match="no space left"):
        train(config(tiny, corpus, tmp_path / "run"))
    assert not (tmp_path / "run" / "modules.json").exists()


def test_the_best_step_on_dev_is_exported_and_not_the_last(
    tiny: Path, corpus: Path, labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scores fall from one evaluation to the next: the weights of the first are what is left."""
    seen: dict[int, dict[str, Any]] = {}
    on_evaluate = KeepBest.on_evaluate

    def falling(self: KeepBest, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        seen[state.global_step] = {name: value.clone() for name, value in kwargs["model"].state_dict().items()}
        on_evaluate(self, args, state, control, **{**kwargs, "metrics": {self.metric: -float(state.global_step)}})

    monkeypatch.setattr(KeepBest, "on_evaluate", falling)
    result = train(config(tiny, corpus, tmp_path / "run", labelled))
    assert (result["selected"]["step"], result["selected"]["steps"]) == (2, 4)
    exported = load_sentence_transformer(str(tmp_path / "run"), device="cpu").state_dict()
    assert exported.keys() == seen[2].keys()
    assert all(torch.equal(value, seen[2][name]) for name, value in exported.items())
    assert not all(torch.equal(value, seen[4][name]) for name, value in exported.items())
