"""Small random transformers of many architectures, with tokenisers of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch

WORDS = [
    *("the", "a", "man", "woman", "child", "dog", "cat"),
    *("runs", "sleeps", "eats", "plays", "sings", "on", "under", "in"),
    *("park", "house", "bed", "red", "big", "old"),
]

ENCODERS = ("bert", "roberta", "distilbert", "mpnet", "electra", "deberta-v2", "modernbert")
MORE_ENCODERS = ("xlm-roberta", "albert", "nomic_bert")
DECODERS = ("qwen3", "llama", "mistral", "gemma3", "gemma3-bidirectional")
"""Decoders; the last is one whose attention is bidirectional, as in EmbeddingGemma."""

BACKBONES = (*ENCODERS, *MORE_ENCODERS, *DECODERS)

_MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_DECODER_MARKS = ("<pad>", "<bos>", "<eos>")


def config_of(kind: str, vocabulary: int, *, layers: int = 3, width: int = 16, positions: int = 64) -> Any:
    """The configuration of a small transformer."""
    import transformers as t

    common: dict[str, Any] = {"vocab_size": vocabulary, "hidden_size": width, "num_hidden_layers": layers}
    common |= {"num_attention_heads": 2, "intermediate_size": 2 * width, "max_position_embeddings": positions}
    # The usual 0.02 leaves a small model so close to constant that tests of it would prove little.
    common |= {"initializer_range": 0.5, "pad_token_id": 0}
    if kind in (*DECODERS, "nomic_bert", "modernbert", "deberta-v2"):  # which have no table of positions
        common["max_position_embeddings"] = 512
    if kind in (*DECODERS, "granite"):
        common |= {"num_key_value_heads": 1, "head_dim": width // 2, "bos_token_id": 1, "eos_token_id": 2}
        if kind.startswith("gemma3"):
            local = ["sliding_attention" if layer % 2 == 0 else "full_attention" for layer in range(layers)]
            bidirectional = {"use_bidirectional_attention": kind == "gemma3-bidirectional"}
            return t.Gemma3TextConfig(
                sliding_window=8, layer_types=local, query_pre_attn_scalar=width // 2, **bidirectional, **common
            )
        if kind == "granite":  # which scales its embeddings outside any module
            del common["head_dim"]
            return t.GraniteConfig(embedding_multiplier=2.0, **common)
        return {"qwen3": t.Qwen3Config, "llama": t.LlamaConfig, "mistral": t.MistralConfig}[kind](**common)
    if kind == "clip_text_model":
        return t.CLIPTextConfig(eos_token_id=3, bos_token_id=2, **common)
    if kind == "distilbert":
        names = {"vocab_size": vocabulary, "max_position_embeddings": positions, "initializer_range": 0.5}
        return t.DistilBertConfig(dim=width, n_layers=layers, n_heads=2, hidden_dim=2 * width, **names)
    if kind in ("electra", "albert"):  # embeddings narrower than the layers, hence projected
        narrow = {"embedding_size": width // 2}
        return t.ElectraConfig(**narrow, **common) if kind == "electra" else t.AlbertConfig(**narrow, **common)
    if kind == "deberta-v2":
        relative = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
        return t.DebertaV2Config(conv_kernel_size=3, conv_act="gelu", **relative, **common)
    if kind == "modernbert":
        tokens = {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
        dropout = {"embedding_dropout": 0.1, "mlp_dropout": 0.1, "attention_dropout": 0.1}
        return t.ModernBertConfig(local_attention=8, global_attn_every_n_layers=2, **tokens, **dropout, **common)
    kinds = {"bert": t.BertConfig, "roberta": t.RobertaConfig, "mpnet": t.MPNetConfig}
    kinds |= {"xlm-roberta": t.XLMRobertaConfig, "nomic_bert": t.NomicBertConfig}
    return kinds[kind](**common)


def word_tokenizer(max_tokens: int = 48) -> Any:
    """A tokeniser of 21 whole words with BERT's special tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel({token: i for i, token in enumerate([*_MARKS, *WORDS])}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{name.lower().strip('[]')}_token": name for name in _MARKS}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=max_tokens, **names)


def decoder_tokenizer(padding: Literal["left", "right"], *, begins: bool, max_tokens: int = 48) -> Any:
    """A byte-level tokeniser that ends each text with <eos>, and may begin it with <bos>; it has no [CLS] or [MASK]."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=list(_DECODER_MARKS), initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator([" ".join(WORDS)] * 3, trainer)
    backend.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>" if begins else "$A <eos>", special_tokens=[("<bos>", 1), ("<eos>", 2)]
    )
    names = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>", "padding_side": padding}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=max_tokens,
        model_input_names=["input_ids", "attention_mask"],
        **names,
    )


def save_transformer(
    folder: Path,
    kind: str,
    *,
    layers: int = 3,
    seed: int = 0,
    padding: Literal["left", "right"] = "left",
    dropout: float | None = None,
) -> Path:
    """Write a random transformer and its tokeniser to a folder; ``dropout`` is that of a decoder's attention."""
    from transformers import AutoModel

    begins = not kind.startswith("qwen")
    decodes = kind in (*DECODERS, "granite")
    tokenizer = decoder_tokenizer(padding, begins=begins) if decodes else word_tokenizer()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    config = config_of(kind, len(tokenizer), layers=layers)
    if dropout is not None:
        config.attention_dropout = dropout
    AutoModel.from_config(config).save_pretrained(folder)
    return folder
