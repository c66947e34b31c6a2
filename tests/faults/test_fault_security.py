"""What comes from others runs no code, opens no pickle and leaves no folder that it was given."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast.attacks import counterfitted
from holdfast.cli import main
from holdfast.data.inventory import check_data
from holdfast.errors import UserError
from holdfast.model_lookup import resolve_model
from holdfast.models import load_sentence_transformer
from holdfast.settings import read_settings
from holdfast.training.train_config import TrainConfig

EVIL = b"cos\nsystem\n(S'touch opened'\ntR."  # a pickle that runs a command while it is read

NEVER = {
    r"torch\.load\(": "reads pickles",
    r"\bpickle\b(?! is| can|s\b| c|,)": "runs code",
    r"yaml\.(load|full_load|unsafe_load)\(": "makes objects",
    r"extractall\(|unpack_archive\(": "writes where the archive says",
    r"allow_pickle=True|trust_remote_code=True|weights_only=False|shell=True": "runs code",
    r"(?<![\w.])(eval|exec)\(": "runs code",
    r"os\.system\(|os\.popen\(": "runs code",
}


@pytest.mark.parametrize("pattern", NEVER)
def test_nothing_in_the_library_loads_what_could_run(pattern: str) -> None:
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in Path(holdfast.__file__).parent.rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(pattern, line) and not _is_words(line)
    ]
    assert found == []


def _is_words(line: str) -> bool:
    """Whether a line is a comment, or of a text that speaks of such things."""
    return line.strip().startswith("#") or "`" in line or '"' in line or not re.search(r"[(=]|import", line)


VERBS = {
    "evaluate": [],
    "attack": ["--task", "sst2", "--recipes", "typos"],
    "finetune": ["--task", "sst2", "--output", "out"],
    "audit": ["--texts", "texts.txt"],
    "train": ["--corpus", "texts.txt", "--output", "out"],
    "space": [],
}


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the verbs take besides a model, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "data"))
    (tmp_path / "data" / "sst2").mkdir(parents=True)
    for split in ("train", "dev", "test"):
        rows = "".join(f"the dog runs {split} {n}\t{n % 2}\n" for n in range(20))
        (tmp_path / "data" / "sst2" / f"{split}.tsv").write_text("sentence\tlabel\n" + rows)
    (tmp_path / "texts.txt").write_text("the dog runs\na cat sleeps\n" * 20)


def refusal(verb: str, model: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the line that a verb refuses a model with."""
    words = ["simcse", "--model", str(model)] if verb == "train" else [str(model)]
    assert main([verb, *words, *VERBS[verb]]) == 2
    assert not Path("out").exists()
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.usefixtures("task")
@pytest.mark.parametrize("decoy", [None, "decoy.safetensors"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_pickle_is_refused_by_every_verb(
    verb: str, decoy: str | None, masked_lm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where other weights lie beside it, which are not those that would be loaded."""
    weights = masked_lm / "model.safetensors"
    weights.rename(masked_lm / decoy) if decoy else weights.unlink()
    (masked_lm / "pytorch_model.bin").write_bytes(EVIL)
    line = refusal(verb, masked_lm, capsys)
    assert "refused, its weights are a pickle (pytorch_model.bin) and a pickle can run code" in line
    assert not (tmp_path / "opened").exists()


@pytest.mark.usefixtures("task")
@pytest.mark.parametrize("verb", ["evaluate", "audit", "train", "space"])
def test_a_cross_encoder_is_refused_by_every_verb_that_takes_sentence_vectors(
    verb: str, masked_lm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.Transformer"}]
    (masked_lm / "modules.json").write_text(json.dumps(modules))
    (masked_lm / "config_sentence_transformers.json").write_text('{"model_type": "CrossEncoder"}')
    assert f"{masked_lm} is a CrossEncoder: " in refusal(verb, masked_lm, capsys)


def test_a_pickle_beside_good_weights_is_never_opened(
    masked_lm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own: what watches it cannot be taken off again."""
    monkeypatch.chdir(tmp_path)
    for name in ("pytorch_model.bin", "optimizer.pt", "training_args.bin", "rng_state.pth"):
        (masked_lm / name).write_bytes(EVIL)
    child = os.fork()
    if child == 0:
        opened: list[str] = []

        def watch(event: str, arguments: tuple[object, ...]) -> None:
            if event == "pickle.find_class":
                opened.append("a pickle")
            if event == "open" and str(arguments[0]).endswith((".bin", ".pt", ".pth")):
                opened.append(str(arguments[0]))

        sys.addaudithook(watch)
        load_sentence_transformer(str(masked_lm), device="cpu")
        sys.stderr.write("".join(opened))
        os._exit(1 if opened else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not (tmp_path / "opened").exists()


@pytest.mark.parametrize("path", ["../elsewhere", "/elsewhere", "a/../../b", "a\0b", ["a"], None])
def test_a_module_never_lies_outside_its_model(path: object, masked_lm: Path) -> None:
    modules = [{"idx": 0, "name": "0", "path": path, "type": "sentence_transformers.models.Transformer"}]
    (masked_lm / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UserError, match=r"leaves the model's folder|not a sentence-transformers module list"):
        resolve_model(str(masked_lm))


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret", "a\0b", 5])
def test_a_manifest_names_no_file_outside_its_folder(name: object, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / "manifest.json").write_text(json.dumps({"files": [{"file": name, "rows": 1}]}))
    with pytest.raises(UserError, match="is not a manifest"):
        check_data(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("corpus: !!python/object/apply:os.system ['touch opened']", "not valid YAML"),
        ("corpus: !!python/name:os.system", "not valid YAML"),
        ("options: &a\n  b: *a", "unfold without end"),
    ],
)
def test_yaml_makes_values_and_nothing_else(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        read_settings(TrainConfig, {"method": "simcse"}, tmp_path / "run.yaml")
    assert not (tmp_path / "opened").exists()


def test_yaml_that_unfolds_to_gigabytes_is_refused_at_once(tmp_path: Path) -> None:
    lines = ["options:", "  a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (tmp_path / "run.yaml").write_text("\n".join(lines))
    began = time.process_time()
    with pytest.raises(UserError, match="unfold without end"):
        read_settings(TrainConfig, {"method": "simcse"}, tmp_path / "run.yaml")
    assert time.process_time() - began < 2
    (tmp_path / "run.yaml").write_text("# " + "x" * (1 << 20))
    with pytest.raises(UserError, match="is larger than 256 KiB"):
        read_settings(TrainConfig, {"method": "simcse"}, tmp_path / "run.yaml")


def test_a_download_that_is_not_the_known_one_is_refused_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything of it is unpacked: the name of its member would lead out of the folder."""
    archive = tmp_path / "other.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("../../opened", "x")
    monkeypatch.setattr(counterfitted, "COUNTERFITTED_URL", archive.as_uri())
    read: list[Callable[..., object]] = []
    monkeypatch.setattr(counterfitted, "_convert", read.append)
    with pytest.raises(UserError, match="is not the known file"):
        counterfitted.counterfitted(tmp_path / "cache")
    assert read == []
    assert list((tmp_path / "cache").iterdir()) == []
    assert not (tmp_path / "opened").exists()


def test_what_a_text_holds_does_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from test_fault_damage import example, result

    from holdfast.results import write_result

    text = "a \x1b[31mdog\x1b]0;title\x07 \x9b2J"
    write_result(tmp_path / "r.json", result(examples=[example(original=text, adversarial=text, changed=[])]))
    assert main(["show", str(tmp_path / "r.json")]) == 0
    message = capsys.readouterr().out
    assert "dog" in message
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", message)
