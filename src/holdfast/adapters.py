"""Low-rank adapters (LoRA, through peft): settings, addition to a model, their weights, and merging.

A model with adapters trains only these; its other weights are frozen. ``add_adapter`` of sentence-transformers puts
them into the transformer, and ``save_pretrained`` then writes only them. A merged model is a plain one again.

Hu et al. LoRA: Low-Rank Adaptation of Large Language Models. ICLR 2022.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from holdfast.adapter_folder import ADAPTER_CONFIG, ADAPTER_WEIGHTS, BASE, adapter_in
from holdfast.errors import NotInstalled, UserError, did_you_mean, one_of
from holdfast.files import read_object, write_json
from holdfast.option_parsing import fitted

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor, nn

Saved = Literal["merged", "adapter"]

_OTHER_NAMES = {
    **dict.fromkeys(("rank", "lora_r", "dim"), "r"),
    **dict.fromkeys(("lora_alpha", "scale"), "alpha"),
    **dict.fromkeys(("target_modules", "modules", "target"), "targets"),
    **dict.fromkeys(("lora_dropout", "drop"), "dropout"),
    **dict.fromkeys(("export", "merge", "output"), "save"),
}
_LARGEST_RANK = 4096
_BASE_ATTRIBUTE = "_holdfast_adapter_base"
"""The attribute of a model with adapters that names their base model."""
_NAME = "default"
"""The name that peft gives to the only adapter of a model."""
_IN_FILE = "base_model.model."
"""The prefix that peft puts before the names of a model's weights in a file of adapters."""


@dataclass(frozen=True)
class Lora:
    """The settings of adapters: a weight W becomes W + (alpha/r)·B·A, with A of r rows, and B zero at first.

    Attributes:
        r: rank of the adapters.
        alpha: their scale; None: 2·r.
        dropout: dropout of their input in training.
        targets: last names of the linear maps that get one, such as "query"; empty: all in the transformer's layers.
        save: how the finished model is written: "merged" into the weights, or as "adapter" alone.
    """

    r: int = 16
    alpha: float | None = None
    dropout: float = 0.0
    targets: tuple[str, ...] = ()
    save: Saved = "merged"

    @classmethod
    def parse(cls, text: str) -> Lora:
        """Return the settings of a text such as ``r=16,alpha=32,targets=query+value,save=adapter``.

        Raises:
            UserError: an unknown name, for which the nearest one is given, or a value that does not fit.
        """
        known, values = [each.name for each in fields(cls)], {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = (word.strip() for word in part.partition("="))
            if name not in known:
                near = _OTHER_NAMES.get(name.replace("-", "_"))
                hint = f" (did you mean {near!r}?)" if near else did_you_mean(name, known)
                raise UserError(f"--lora has no {name!r}{hint}: it takes {', '.join(known)}, as in r=16,alpha=32")
            if not equals or not value:
                raise UserError(f"--lora {name}: it takes a value, as in r=16,alpha=32")
            values[name] = _value(name, value)
        lora = cls(**values)
        lora._check()
        return lora

    def _check(self) -> None:
        one_of("--lora save", self.save, get_args(Saved))
        if not 1 <= self.r <= _LARGEST_RANK:
            raise UserError(f"--lora r must be from 1 to {_LARGEST_RANK}, got {self.r}")
        if self.alpha is not None and not 0 < self.alpha <= 1e6:
            raise UserError(f"--lora alpha must be more than 0 and at most 1000000, got {self.alpha:g}")
        if not 0 <= self.dropout < 1:
            raise UserError(f"--lora dropout must be from 0 to less than 1, got {self.dropout:g}")

    @property
    def scale(self) -> float:
        """alpha, resolved."""
        return 2.0 * self.r if self.alpha is None else self.alpha

    def record(self) -> dict[str, Any]:
        """Return the settings for a run's record."""
        return {**asdict(self), "alpha": self.scale, "targets": list(self.targets)}


def _value(name: str, value: str) -> Any:
    if name == "targets":
        return tuple(filter(None, (target.strip() for target in value.split("+"))))
    if name == "save":
        return value
    try:
        number = float(value)
    except ValueError as error:
        raise UserError(f"--lora {name} takes a number, not {value!r}") from error
    return fitted(f"--lora {name}", int(number), int) if name == "r" and number.is_integer() else _of_rank(name, number)


def _of_rank(name: str, number: float) -> float:
    if name == "r":
        raise UserError(f"--lora r takes a whole number, not {number:g}")
    return number


def require_peft(what: str) -> None:
    """Refuse ``what`` if peft is not installed.

    Raises:
        NotInstalled: it is not.
    """
    if importlib.util.find_spec("peft") is None:
        raise NotInstalled(f"{what} needs peft: pip install 'holdfast[adapters]'")


def has_adapters(model: SentenceTransformer) -> bool:
    """Return True if the model's transformer has adapters that are not merged."""
    transformer = getattr(model, "transformers_model", None)  # a classifier has none
    return bool(getattr(transformer, "_hf_peft_config_loaded", False))


def is_adapter_weight(name: str) -> bool:
    """Return True for the name of a weight of a LoRA adapter."""
    return ".lora_" in name


def add_lora(model: SentenceTransformer, lora: Lora, base: str) -> None:
    """Put adapters into a model's transformer and freeze all its other weights; its vectors do not change yet.

    Args:
        model: the model, changed in place.
        lora: the settings.
        base: name or folder of the base model, for the saved adapters.

    Raises:
        NotInstalled: peft is not installed.
        UserError: a target is not a linear map in the transformer's layers, or the layers are not found.
    """
    require_peft("--lora")
    from peft import LoraConfig

    pattern = _targets(model, lora.targets)
    alpha: Any = lora.scale  # peft's own type is int, and it takes any number
    model.add_adapter(
        LoraConfig(r=lora.r, lora_alpha=alpha, lora_dropout=lora.dropout, target_modules=pattern, bias="none")
    )
    # Not in peft's configuration yet: with a base, peft looks at its files, or on the hub, whenever adapters are saved,
    # and saves the embeddings too if entries were added to the vocabulary.
    _config(model).base_model_name_or_path = None
    setattr(model, _BASE_ATTRIBUTE, base)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(is_adapter_weight(name))


def save_with_base(model: SentenceTransformer, folder: Path) -> None:
    """Save a model as ``save_pretrained`` does; saved adapters name the base model."""
    model.save_pretrained(str(folder), create_model_card=False)
    base, place = getattr(model, _BASE_ATTRIBUTE, None), adapter_in(folder)
    if has_adapters(model) and base is not None and place is not None:
        config = read_object(place / ADAPTER_CONFIG)
        write_json(place / ADAPTER_CONFIG, {**config, BASE: base})


def adapter_weights(model: SentenceTransformer) -> dict[str, Tensor]:
    """Return the weights of the adapters by their names in the model."""
    return {name: value for name, value in model.state_dict().items() if is_adapter_weight(name)}


def load_adapter_weights(model: SentenceTransformer, folder: Path) -> None:
    """Put the adapters in a folder that ``save_pretrained`` wrote into a model with adapters of the same shape.

    Raises:
        UserError: they are other adapters.
    """
    from safetensors.torch import load_file

    transformer: Any = model.transformers_model
    saved = load_file(folder / ADAPTER_WEIGHTS)
    own = {name: value for name, value in transformer.state_dict().items() if is_adapter_weight(name)}
    in_file = {f"{_IN_FILE}{name.replace(f'.{_NAME}.', '.')}": name for name in own}
    if saved.keys() != in_file.keys() or any(saved[key].shape != own[name].shape for key, name in in_file.items()):
        raise UserError(f"{folder / ADAPTER_WEIGHTS} holds other adapters than those of this run")
    transformer.load_state_dict({name: saved[key] for key, name in in_file.items()}, strict=False)


def refuse_unfilled(model: SentenceTransformer, adapter: Path, spec: str) -> None:
    """Refuse a loaded model whose adapters are not those in the folder ``adapter``: some would be random, or unused.

    Raises:
        UserError: the numbers of tensors differ, or the adapter has weights that replace those of its base, which
            cannot be merged.
    """
    from safetensors import safe_open

    config = read_object(adapter / ADAPTER_CONFIG)
    if other := next((name for name in ("modules_to_save", "trainable_token_indices") if config.get(name)), None):
        raise _other_weights(spec, other)
    with safe_open(str(adapter / ADAPTER_WEIGHTS), framework="pt") as file:
        found = sum(is_adapter_weight(name) for name in file.keys())  # noqa: SIM118
    _refuse_unfilled(found, len(adapter_weights(model)), spec)


def _other_weights(spec: str, name: str) -> UserError:
    return UserError(
        f"{spec} is an adapter with other weights of its own ({name}): merge it into its base model first, with peft's "
        "merge_and_unload"
    )


def _refuse_unfilled(found: int, wanted: int, spec: str) -> None:
    if found != wanted:
        raise UserError(
            f"{spec}: the weights of the adapter do not match {ADAPTER_CONFIG}: they are {found} tensors, and it asks "
            f"for {wanted}"
        )


def merge_adapters(model: SentenceTransformer) -> None:
    """Add the adapters of a model to its weights, and remove them; no effect on a model without adapters.

    Its weights can be trained afterwards.
    """
    if has_adapters(model):
        _merge(model.transformers_model)


def merge_into_body(model: Any, adapter: Path, spec: str) -> None:
    """Add the adapters in a folder to the weights of a transformers model with a head, below the head.

    Args:
        model: a masked language model or a classifier, changed in place.
        adapter: folder of adapters for its body, as they are saved for an encoder, or for the whole model.
        spec: name of the adapter, for messages.

    Raises:
        UserError: the adapter has other weights too, such as a head, or does not fit the model.
    """
    from safetensors.torch import load_file

    names = list(load_file(adapter / ADAPTER_WEIGHTS))
    if other := sorted(name for name in names if not is_adapter_weight(name)):
        raise _other_weights(spec, other[0])
    of_whole = any(name.startswith(f"{_IN_FILE}{model.base_model_prefix}.") for name in names)
    body = model if of_whole else model.base_model
    body.load_adapter(str(adapter))
    _refuse_unfilled(len(names), sum(map(is_adapter_weight, body.state_dict())), spec)
    _merge(body)


def _merge(transformer: Any) -> None:
    from peft.tuners.tuners_utils import BaseTunerLayer

    for name, module in list(transformer.named_modules()):
        if isinstance(module, BaseTunerLayer):
            module.merge(safe_merge=True)
            parent, _, own = name.rpartition(".")
            setattr(transformer.get_submodule(parent), own, module.get_base_layer())
    transformer._hf_peft_config_loaded = False
    del transformer.peft_config
    # The names in the adapters' file, by which transformers would rename the merged weights whenever it saves them.
    renamings = getattr(transformer, "_weight_conversions", None) or []
    if any(_IN_FILE in pattern for each in renamings for pattern in getattr(each, "source_patterns", ())):
        del transformer._weight_conversions
    transformer.requires_grad_(True)


def _config(model: SentenceTransformer) -> Any:
    transformer: Any = model.transformers_model
    return transformer.peft_config[_NAME]


def _targets(model: SentenceTransformer, wanted: tuple[str, ...]) -> str:
    """Return a pattern of the names of the linear maps that get an adapter: those in the transformer's layers.

    A pooler or a head on top is none of them: it may have no effect on the vectors.
    """
    from torch.nn import Linear

    from holdfast.backbone import Backbone

    backbone = Backbone.of(model)
    prefix = _name_in(backbone.model, backbone.layers)
    linear = [name for name, module in backbone.layers.named_modules() if isinstance(module, Linear)]
    known = list(dict.fromkeys(name.rpartition(".")[2] for name in linear))
    for target in wanted:
        if target not in known:
            raise UserError(
                f"--lora targets={target}: the layers have no linear map of this name"
                f"{did_you_mean(target, known)}; theirs are {', '.join(known)}"
            )
    return rf"{re.escape(prefix)}\.\d+\.(?:.+\.)?(?:{'|'.join(map(re.escape, wanted or known))})"


def _name_in(model: nn.Module, part: nn.Module) -> str:
    names: list[str] = [name for name, module in model.named_modules() if module is part]
    return names[0]
