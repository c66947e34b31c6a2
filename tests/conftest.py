"""Small random models, built in seconds without a network."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

# Models this small gain nothing from a second thread, and threads that wait for one another lose much on a busy box.
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch looks, and for the processes that tests start
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the same of tokenisers, whose batches are as small

import torch

from architectures import BACKBONES, DECODERS, WORDS, save_transformer
from warm import WarmPython

gc.disable()  # until the first test: what is imported stays, and the collector would visit it again and again


@pytest.fixture(scope="module", autouse=True)
def _freeze_imported_objects() -> None:
    """Keep the garbage collector from visiting all imported objects: each training of transformers runs it."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _leave_out_what_takes_long() -> Iterator[None]:
    """In what is imported before a module's tests: no collection of garbage before each training, which accelerate
    makes, 0.2 s of each; and audits that take the first steps of their poisoning passages, not all 40."""
    with pytest.MonkeyPatch.context() as patch:
        if memory := sys.modules.get("accelerate.utils.memory"):
            patch.setattr(memory, "gc", SimpleNamespace(collect=lambda: 0))
        if item := sys.modules.get("holdfast.audit.poisoning_item"):
            patch.setitem(item.CONSTANTS, "steps", 4)
        yield


@pytest.fixture(scope="session")
def warm() -> Iterator[WarmPython]:
    """What starts processes that need not import torch first."""
    python = WarmPython()
    yield python
    python.close()


@pytest.fixture
def trained_in_bf16() -> Iterator[Callable[[torch.nn.Module], None]]:
    """Makes of a model what a trainer in bf16 makes of it."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    def prepare(model: torch.nn.Module) -> None:
        Accelerator(mixed_precision="bf16", cpu=True).prepare_model(model)

    AcceleratorState._reset_state(True)
    yield prepare
    AcceleratorState._reset_state(True)


@pytest.fixture(scope="session")
def make_masked_lm() -> Callable[..., Path]:
    """``make_masked_lm(folder, seed=0, layers=2)``: a random BERT with its MLM head and a tokeniser of 21 words."""
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    def make(folder: Path, *, seed: int = 0, layers: int = 2, max_positions: int = 64) -> Path:
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
        tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}, model_max_length=max_positions)
        assert tokenizer("the dog")["input_ids"] == [2, tokens.index("the"), tokens.index("dog"), 3]
        torch.manual_seed(seed)
        config = BertConfig(
            vocab_size=len(tokens),
            hidden_size=16,
            num_hidden_layers=layers,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=max_positions,
            # The usual 0.02 leaves a two-layer model so close to constant that tests of it would prove little.
            initializer_range=0.5,
        )
        model = BertForMaskedLM(config)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return make


@pytest.fixture
def masked_lm(tmp_path: Path, make_masked_lm: Callable[..., Path]) -> Path:
    return make_masked_lm(tmp_path / "masked-lm")


PROMPTS = {"query": "the old ", "passage": "under "}


@pytest.fixture
def prompted(tmp_path: Path, make_masked_lm: Callable[..., Path]) -> Callable[..., Path]:
    """``prompted(default=None, include=True, prompts=PROMPTS)``: the folder of a SentenceTransformer with prompts."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    def make(default: str | None = None, *, include: bool = True, prompts: dict[str, str] = PROMPTS) -> Path:
        folder = tmp_path / f"prompted-{default}-{include}-{len(prompts)}"
        if not folder.exists():
            base = make_masked_lm(tmp_path / "prompted-lm")
            modules = [Transformer(str(base)), Pooling(16, "mean", include_prompt=include)]
            model = SentenceTransformer(modules=modules, prompts=prompts, default_prompt_name=default, device="cpu")
            model.save(str(folder))
        return folder

    return make


@pytest.fixture(params=BACKBONES)
def backbone(request: pytest.FixtureRequest) -> str:
    """Each kind of backbone in turn."""
    kind: str = request.param
    return kind


@pytest.fixture(params=DECODERS)
def decoder(request: pytest.FixtureRequest) -> str:
    """Each kind of decoder in turn."""
    kind: str = request.param
    return kind


@pytest.fixture(scope="session")
def make_encoder_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """``make_encoder_model(kind="bert", pooling="cls", layers=3, seed=0)``: a random SentenceTransformer on the CPU.

    Decoders pool the last token; ``padding`` is the side on which they are padded.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    def make(
        kind: str = "bert",
        *,
        pooling: str | None = None,
        layers: int = 3,
        seed: int = 0,
        padding: Literal["left", "right"] = "left",
    ) -> SentenceTransformer:
        folder = save_transformer(tmp_path_factory.mktemp(kind), kind, layers=layers, seed=seed, padding=padding)
        transformer = Transformer(str(folder))
        if kind not in DECODERS:  # their eager attention gives NaN at padding in fp64
            transformer.model.set_attn_implementation("eager")
        pooling = pooling or ("lasttoken" if kind in DECODERS else "cls")
        model = SentenceTransformer(modules=[transformer, Pooling(16, pooling)], device="cpu")
        return model.eval()

    return make


SENTENCES = [
    "the old man sleeps on the big red bed in the house",
    "a dog runs",
    "the woman sings under the house",
    "a cat eats in the park",
    "child plays",
    "the big dog sleeps in the red house on a bed under the park",
    "a man runs in the park",
    "the child sings",
]


@pytest.fixture
def sentences() -> list[str]:
    """Eight sentences of different lengths."""
    return list(SENTENCES)
