"""The student of a distillation: an existing encoder, a new BERT, or some of the teacher's layers.

Its last module maps to the teacher's vector space: where the dimensions differ, a linear layer is appended, so that the
student can search an index of the teacher.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize
from torch import nn

from holdfast.backbone import Backbone
from holdfast.errors import UserError, did_you_mean
from holdfast.files import expanded
from holdfast.input_limits import first_position, input_limit, position_table, settle_limits
from holdfast.layer_average import averages_last_two
from holdfast.model_lookup import resolve_model
from holdfast.models import load_sentence_transformer
from holdfast.number_ranges import in_range
from holdfast.option_parsing import option_value
from holdfast.text_prompts import PromptOptions, choose_prompts

_POOLING = "mean"
_NO_PROMPTS = {"query": "", "document": ""}  # as sentence-transformers gives a model without prompts
_HEAD_SIZE = 64  # numbers per attention head, as in BERT
_LAYER_KINDS = (
    *("bert", "roberta", "xlm-roberta", "electra", "distilbert", "mpnet", "nomic_bert"),
    *("qwen3", "llama", "mistral", "gemma3_text"),
)
"""Model types of which layers can be left out: their layers are alike, or of kinds that the configuration lists."""


@dataclass(frozen=True)
class NewStudent:
    """The shape of a new BERT with a vocabulary of its own.

    Attributes:
        layers: number of layers.
        hidden: hidden size.
        vocabulary: WordPieces, counted on the corpus.
        heads: attention heads; 0: one per 64 numbers.
        intermediate: size of the feed-forward layers; 0: four times the hidden size.
    """

    layers: int = 4
    hidden: int = 256
    vocabulary: int = 12_000
    heads: int = 0
    intermediate: int = 0

    def __str__(self) -> str:
        return ",".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))


@dataclass(frozen=True)
class TeacherLayers:
    """Some of the teacher's layers, evenly spaced, with its embeddings and tokeniser.

    Attributes:
        layers: number of layers.
    """

    layers: int


Student = str | NewStudent | TeacherLayers


def parse_student(spec: str) -> Student:
    """Return what ``--student`` names: a model's name, the shape of a new one, or a number of the teacher's layers.

    Raises:
        UserError: an unknown key, a value that is not a number in range, or a hidden size that the heads do not divide.
    """
    if "=" not in spec or expanded(spec).exists():
        return spec
    known = [field.name for field in fields(NewStudent)]
    sizes: dict[str, int] = {}
    for part in spec.split(","):
        name, _, text = part.strip().partition("=")
        if name not in known:
            raise UserError(f"--student {spec}: unknown size {name!r}{did_you_mean(name, known)}: {', '.join(known)}")
        if name in sizes:
            raise UserError(f"--student {spec}: {name} is given twice")
        sizes[name] = option_value(f"--student: {name}", text, int)
        in_range(name, sizes[name], f"--student: {name}")
    if set(sizes) == {"layers"}:
        return TeacherLayers(sizes["layers"])
    shape = NewStudent(**sizes)
    heads = shape.heads or max(1, shape.hidden // _HEAD_SIZE)
    if shape.hidden % heads:
        raise UserError(f"--student {spec}: hidden {shape.hidden} cannot be divided over {heads} heads: name heads=N")
    return NewStudent(shape.layers, shape.hidden, shape.vocabulary, heads, shape.intermediate or 4 * shape.hidden)


def build_student(
    student: Student,
    teacher: SentenceTransformer,
    tokenizer_of: Callable[[int], Any],
    max_positions: int,
    prompt: str | None = None,
) -> tuple[SentenceTransformer, Dense | None]:
    """Return the student before its training, and its projection to the teacher's dimension; the caller sets the seed.

    The projection is None where the dimensions are equal. The student puts no prompt before a text unless it is given
    one: a prompt of the teacher is part of what it learns.

    Args:
        student: as returned by `parse_student`.
        teacher: the teacher.
        tokenizer_of: returns a new tokeniser with a number of pieces, for a new student.
        max_positions: tokens that it reads at least; a shorter table of positions is extended.
        prompt: text that the student reads before every text, its default prompt.

    Raises:
        UserError: the model cannot be loaded, it has not so many layers, or its positions cannot be extended.
    """
    if isinstance(student, NewStudent):
        model = _new_model(student, tokenizer_of(student.vocabulary), max_positions)
    elif isinstance(student, TeacherLayers):
        model = _teacher_layers(teacher, student.layers)
    else:
        model = _existing(student)
    model.similarity_fn_name = teacher.similarity_fn_name  # it searches an index of the teacher
    model.prompts, model.default_prompt_name = dict(_NO_PROMPTS), None
    if prompt:
        model.prompts, model.default_prompt_name = dict.fromkeys(_NO_PROMPTS, prompt), next(iter(_NO_PROMPTS))
    choose_prompts(model, PromptOptions(), required=False)  # layers of the teacher have its choice
    name = student if isinstance(student, str) else "the student"
    extend_positions(model, max_positions, name)
    projection = project(model, teacher)
    return model.to(teacher.device), projection


def project(student: SentenceTransformer, teacher: SentenceTransformer) -> Dense | None:
    """Append a linear layer to the student if its dimension is not the teacher's, and a norm if the teacher has one."""
    modules = list(student.named_children())
    if isinstance(modules[-1][1], Normalize):
        delattr(student, modules[-1][0])
    found, wanted = student.get_embedding_dimension(), teacher.get_embedding_dimension()
    assert found is not None
    assert wanted is not None
    projection = None if found == wanted else Dense(found, wanted, activation_function=nn.Identity())
    if projection is not None:
        student.append(projection)
    if normalises(teacher):
        student.append(Normalize())
    return projection


def without_projection(student: SentenceTransformer, projection: Dense) -> SentenceTransformer:
    """Return the student without its projection: the other modules are shared, and its dimension is its own."""
    modules = [module for module in student.children() if module is not projection]
    plain = SentenceTransformer(modules=modules, device=str(student.device))
    plain.prompts, plain.default_prompt_name = dict(student.prompts), student.default_prompt_name
    plain.similarity_fn_name = student.similarity_fn_name
    return plain


def normalises(model: SentenceTransformer) -> bool:
    """Return True if the model's last module gives its vectors the length 1."""
    return isinstance(list(model.children())[-1], Normalize)


def extend_positions(model: SentenceTransformer, positions: int, name: str) -> None:
    """Let a model read at least so many tokens, by more rows in its table of positions.

    The new rows repeat the table from its second position on; the first is that of [CLS]. The vectors of texts that the
    model could already read stay as they were. Rotary and relative positions have no table: there only the limit of the
    tokeniser is raised, up to the number of positions in the model's configuration.

    Raises:
        UserError: the model has no such table, and a lower number of positions.
    """
    limit, transformer = input_limit(model), model.transformers_model
    if limit is None or limit >= positions:
        return
    table = None if transformer is None else position_table(transformer)
    configured = getattr(getattr(transformer, "config", None), "max_position_embeddings", None)
    if table is None and (not isinstance(configured, int) or configured < positions):
        raise UserError(f"--max-positions {positions}: {name} takes {limit} tokens, and has no table to extend")
    if table is not None and table.num_embeddings - first_position(table) < positions:
        _replace_backbone(model, table, positions)
    model.tokenizer.model_max_length = positions
    model.max_seq_length = positions
    settle_limits(model, name)


def _replace_backbone(model: SentenceTransformer, table: nn.Embedding, positions: int) -> None:
    """Build the transformer again with a longer table: its other parts may hold buffers of that length."""
    transformer: Any = model.transformers_model
    begin = first_position(table)
    rows = table.weight.detach()
    source = torch.arange(begin + 1, len(rows)) if len(rows) > begin + 1 else torch.tensor([begin])
    missing = begin + positions - len(rows)
    longer = torch.cat([rows, rows[source.repeat(-(-missing // len(source)))[:missing]]])
    name = next(name for name, value in transformer.named_parameters() if value is table.weight)
    config = copy.deepcopy(transformer.config)
    config.max_position_embeddings = len(longer)
    new = type(transformer)(config)
    new.load_state_dict({**transformer.state_dict(), name: longer}, strict=False)
    module: Any = next(iter(model.children()))
    module.model = new.to(transformer.device)


def _existing(spec: str) -> SentenceTransformer:
    """Load an encoder, or a masked language model with mean pooling."""
    is_encoder = (resolve_model(spec) / "modules.json").exists()
    model = load_sentence_transformer(spec, pooling=None if is_encoder else _POOLING, device="cpu")
    model.truncate_dim = None
    return model


def _new_model(shape: NewStudent, tokenizer: Any, max_positions: int) -> SentenceTransformer:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.intermediate,
        max_position_embeddings=max_positions,
        pad_token_id=tokenizer.pad_token_id,
    )
    with tempfile.TemporaryDirectory() as folder:
        BertModel(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return load_sentence_transformer(folder, pooling=_POOLING, device="cpu")


def _teacher_layers(teacher: SentenceTransformer, count: int) -> SentenceTransformer:
    if averages_last_two(teacher):
        raise UserError(
            f"--student layers={count}: the teacher's vectors are means of its last two layers, which its first layers "
            "lack: give hidden=N for a new student, or name an encoder"
        )
    student: SentenceTransformer = copy.deepcopy(teacher).cpu()
    backbone = Backbone.of(student)
    config: Any = backbone.model.config
    total = len(backbone.layers)
    if config.model_type not in _LAYER_KINDS:
        raise UserError(
            f"--student layers={count}: layers of {config.model_type} models cannot be left out: name an encoder, or "
            "give hidden=N for a new one"
        )
    if count > total:
        raise UserError(f"--student layers={count}: the teacher has {total} layers; for a new model give also hidden=N")
    numbers = [round(place * (total - 1) / max(1, count - 1)) for place in range(count)]
    kept = [backbone.layers[number] for number in numbers]
    del backbone.layers[count:]
    for place, layer in enumerate(kept):
        backbone.layers[place] = layer
    config.num_hidden_layers = count
    if getattr(config, "layer_types", None):  # which attention each layer has
        config.layer_types = [config.layer_types[number] for number in numbers]
    return student
