"""Nothing outside of a hostile model's folder is opened, by Python or by compiled code, and nothing of it is run."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import fuzz
import fuzz_models
import opened_files
import pytest

LOAD = """
import sys, warnings
warnings.simplefilter("ignore")
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer
for folder in sys.argv[1:]:
    try:
        load_sentence_transformer(folder, device="cpu")
        print("loaded")
    except UserError as error:
        print(error)
"""

HOSTILE: dict[str, tuple[str, Any]] = {
    "an index": ("model.safetensors.index.json", {"metadata": {}, "weight_map": {"a": "../outside/model.safetensors"}}),
    "a vocabulary": ("tokenizer_config.json", {"vocab_file": "../outside/vocab.txt"}),
    "a vocabulary by another key": ("tokenizer_config.json", {"vocab": "../outside/vocab.txt"}),
    "a tokeniser in the legacy map": ("special_tokens_map.json", {"tokenizer_file": "../outside/tokenizer.json"}),
    "a versioned tokeniser": ("tokenizer_config.json", {"fast_tokenizer_files": ["../outside/tokenizer.4.0.json"]}),
    "a vocabulary in the tokeniser itself": (
        "tokenizer.json",
        {"model": {"type": "WordPiece", "vocab": "../outside/vocab.txt"}},
    ),
    "a GGUF file": ("tokenizer_config.json", {"gguf_file": "../outside/model.safetensors"}),
    "other weights": ("config.json", {"transformers_weights": "../outside/model.safetensors"}),
    "an adapter": ("adapter_config.json", {"base_model_name_or_path": "../outside", "peft_type": "LORA"}),
}

needs_strace = pytest.mark.skipif(opened_files.why_not() is not None, reason=opened_files.why_not() or "")


@pytest.fixture
def models(masked_lm: Path, tmp_path: Path) -> dict[str, Path]:
    """A hostile folder of each kind, beside a good model that is outside of all of them."""
    outside = Path(shutil.copytree(masked_lm, tmp_path / "outside"))
    vocabulary = json.loads((masked_lm / "tokenizer.json").read_text())["model"]["vocab"]
    (outside / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)))
    shutil.copy(outside / "tokenizer.json", outside / "tokenizer.4.0.json")
    found = {}
    for number, (what, (name, entries)) in enumerate(HOSTILE.items()):
        folder = found[what] = Path(shutil.copytree(masked_lm, tmp_path / f"model-{number}"))
        path = folder / name
        before = json.loads(path.read_text()) if path.is_file() else {}
        path.write_text(json.dumps(before | entries))
        if "index" in name:
            (folder / "model.safetensors").unlink()
        if what in ("a vocabulary", "a vocabulary by another key", "a GGUF file"):
            (folder / "tokenizer.json").unlink()
        if what == "a tokeniser in the legacy map":  # which is read where this is not there
            before = json.loads((folder / "tokenizer_config.json").read_text())
            before.pop("added_tokens_decoder", None)
            (folder / "tokenizer_config.json").write_text(json.dumps(before))
        absolute = folder.with_name(f"absolute-{number}")
        shutil.copytree(folder, absolute)
        text = (absolute / name).read_text()
        (absolute / name).write_text(text.replace("../outside", str(outside)))
        found[f"{what}, by an absolute path"] = absolute
    linked = found["a link"] = Path(shutil.copytree(masked_lm, tmp_path / "linked"))
    (linked / "model.safetensors").unlink()
    (linked / "model.safetensors").symlink_to(outside / "model.safetensors")
    return found


@needs_strace
def test_no_file_outside_of_a_hostile_folder_is_opened(models: dict[str, Path], tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", LOAD, *map(str, models.values())]
    done = opened_files.run_traced(command, log, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr
    answers = dict(zip(models, done.stdout.splitlines(), strict=True))
    assert [what for what, answer in answers.items() if answer == "loaded"] == []
    assert opened_files.opened_in(tmp_path / "outside", log, tmp_path) == []
    assert opened_files.opened_in(models["a vocabulary"], log, tmp_path), "what is opened is seen"


@needs_strace
def test_what_compiled_code_opens_is_seen(masked_lm: Path, tmp_path: Path) -> None:
    """Without that the test above would show nothing."""
    log = tmp_path / "log"
    code = "import sys, safetensors, tokenizers\n" + (
        "tokenizers.Tokenizer.from_file(sys.argv[1])\nsafetensors.safe_open(sys.argv[2], 'np')"
    )
    files = [masked_lm / "tokenizer.json", masked_lm / "model.safetensors"]
    opened_files.run_traced([sys.executable, "-c", code, *map(str, files)], log)
    assert opened_files.opened_in(masked_lm, log, Path.cwd()) == files


def test_damaged_and_hostile_folders_are_loaded_or_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    kinds = fuzz_models.model_kinds()
    tally = fuzz.fuzz(kinds, 5 * len(kinds), seed=4, scratch=tmp_path)
    assert tally.wrong == {}
    assert tally.refused > len(kinds)
