"""A second device on a machine without one: it finds code that mixes devices, and counts what a GPU would wait for.

Inside :func:`second_device` torch knows the device ``other:0``, by torch's hook for backends written in Python. The
numbers of its tensors live on the CPU, in ``raw``, so that every operation has a kernel and gives the CPU's bits. What
CUDA refuses is refused:

- an operation on tensors of both devices, but for CPU scalars in arithmetic, copies, and indexing by CPU indices;
- ``.numpy()`` of a tensor that was not copied to the CPU first;
- writing into a CPU tensor what was computed on the device.

And what makes the CPU wait for the device is counted, by kind and by line of holdfast (:class:`Waits`): numbers that
Python reads (``item``, ``bool``, ``tolist``), copies out, results whose shape depends on numbers (``nonzero``, indexing
by a boolean mask, ``unique``), and copies in that are not asked to be asynchronous.

What a library would choose for itself (``get_device_name``, Accelerate's variable for its device) is the second device
too, so that whole commands run on it.

What is registered with torch stays for as long as the process lives, and has to be before its first backward pass
(:func:`register`): use it in a process of its own, such as the fixture ``warm`` forks. Outside the context the device
says that it is not available.

Inference mode is ``no_grad`` here. Not covered: other streams, memory, several devices, kernels that round otherwise.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

DEVICE_TYPE = "other"

_MAY_MIX = {"aten::_to_copy", "aten::copy_", "aten::_local_scalar_dense"}
"""Operations that take tensors of both devices on CUDA as well."""

_INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
"""Operations whose indices, the second argument, may be on the CPU, from where they are copied."""

_NO_SCALARS = {"aten::cat", "aten::stack"}
"""Operations that take no CPU scalar among tensors of the device: those that do no arithmetic on it."""

_READS_NUMBERS = {
    "aten::_local_scalar_dense": "item",
    "aten::equal": "equal",
    "aten::nonzero": "nonzero",
    "aten::masked_select": "boolean mask",
    "aten::_unique2": "unique",
    "aten::unique_dim": "unique",
    "aten::unique_consecutive": "unique",
    "aten::bincount": "bincount",
    "aten::repeat_interleave": "repeat_interleave",
}
"""Operations after which the CPU has to know a number of the device: its value, or the shape of the result."""

_IN_LOWER_PRECISION = ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm")
"""What autocast computes in its own number format; of the operations that are, those which these models consist of."""
_AUTOCAST = "AutocastPrivateUse1"


@dataclass
class Waits:
    """How often the CPU waited for the device, by ``(kind, line)``.

    The line is ``package/file.py:N function`` of the innermost frame outside torch.
    """

    counted: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """All of them."""
        return self.counted.total()

    def within(self, package: str) -> int:
        """Those that a package's own lines ask for."""
        return sum(count for (_, line), count in self.counted.items() if line.startswith(f"{package}/"))

    def clear(self) -> None:
        """Begin again."""
        self.counted.clear()

    def add(self, kind: str) -> None:
        """Count one, here."""
        self.counted[kind, _line()] += 1

    def describe(self) -> str:
        """A line for each place."""
        return "\n".join(f"{count} × {kind}: {line}" for (kind, line), count in sorted(self.counted.items()))


@dataclass
class _State:
    """What the device is at the moment. The hooks that torch calls have no other way to learn it."""

    active: bool = False
    own_random_state: bool = False
    random_state: torch.Tensor | None = None
    waits: Waits = field(default_factory=Waits)
    libraries: list[torch.library.Library] = field(default_factory=list)


_STATE = _State()


class Other(torch.Tensor):
    """A tensor that says that it is on the second device; ``raw`` holds its numbers, on the CPU."""

    raw: torch.Tensor
    # Else results that are on the CPU would be made into this class.
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, raw: torch.Tensor, requires_grad: bool = False) -> Other:
        made = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            raw.size(),
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=torch.device(DEVICE_TYPE, 0),
            requires_grad=requires_grad,
        )
        made.raw = raw
        return made  # type: ignore[no-any-return]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    # With these two, Module.to and its like exchange the tensors themselves, as they do for subclasses of torch's own.
    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["raw"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, torch.Tensor], *_: Any) -> Other:
        return Other(inner["raw"])

    def __deepcopy__(self, memo: dict[int, Any]) -> Other:
        if id(self) not in memo:
            made = Other(self.raw.detach().clone(), self.requires_grad)
            if getattr(self, "_is_param", False):
                made._is_param = True
            memo[id(self)] = made
        return memo[id(self)]  # type: ignore[no-any-return]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """As a file holds it: the numbers, which are read to the CPU unless another place is asked for."""
        _STATE.waits.add("copy out")
        return self.raw.__reduce_ex__(protocol)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Other({self.raw!r})"


@contextlib.contextmanager
def second_device(*, own_random_state: bool = False) -> Iterator[Waits]:
    """Have the second device for the time of the context, and count what it is waited for.

    Args:
        own_random_state: draw the device's random numbers from a state of its own, seeded with the CPU's, as GPUs do.
            Without it they are drawn from the CPU's, so that a run on the device has the same as one on the CPU.
    """
    register()
    _STATE.active, _STATE.own_random_state, _STATE.waits = True, own_random_state, Waits()
    _STATE.random_state = torch.get_rng_state()
    try:
        with contextlib.ExitStack() as stack:
            for patch in _choices():
                stack.enter_context(patch)
            stack.enter_context(_Dispatch())
            stack.enter_context(_Functions())
            yield _STATE.waits
    finally:
        _STATE.active = False


def on_device(value: Any) -> Any:
    """What a batch holds, moved to the device and not counted."""
    counted = Counter(_STATE.waits.counted)
    moved = tree_map(lambda leaf: leaf.to(DEVICE_TYPE) if isinstance(leaf, torch.Tensor) else leaf, value)
    _STATE.waits.counted = counted
    return moved


def numbers(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's numbers, wherever it is, not counted: for a test to compare them."""
    return (tensor.raw if isinstance(tensor, Other) else tensor).detach().clone()


# --- what torch calls ----------------------------------------------------------------------------------------------


class _Module(backend_registration._DummyBackendModule):
    """The module ``torch.other``: what torch asks for mixed precision and for random numbers."""

    def is_available(self) -> bool:
        return _STATE.active

    def device_count(self) -> int:
        return int(_STATE.active)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        if not _STATE.own_random_state:
            return torch.get_rng_state()
        assert _STATE.random_state is not None
        return _STATE.random_state.clone()

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        if _STATE.own_random_state:
            _STATE.random_state = state.clone()
        else:
            torch.set_rng_state(state)

    def manual_seed_all(self, seed: int) -> None:
        _STATE.random_state = torch.Generator().manual_seed(seed).get_state()


class _Hook(backend_registration._DummyPrivateUse1Hook):
    def is_available(self) -> bool:
        return _STATE.active


def register() -> None:
    """Tell torch of the device; before the first backward pass of the process, which counts the devices there are."""
    if hasattr(torch, DEVICE_TYPE):
        return
    gc.freeze()  # trainers collect garbage often, and what was imported is never any
    backend_registration._setup_privateuseone_for_python_backend(DEVICE_TYPE, _Module(), _Hook())
    library = torch.library.Library("aten", "IMPL")
    for name in _IN_LOWER_PRECISION:
        operation = getattr(torch.ops.aten, name).default
        library.impl(name, partial(_lowered, operation), _AUTOCAST)
    others = torch.library.Library("_", "IMPL")
    others.fallback(torch.library.fallthrough_kernel, _AUTOCAST)
    _STATE.libraries += [library, others]  # they hold for as long as there is a reference to them


def _lowered(operation: Any, *args: Any, **kwargs: Any) -> Any:
    """An operation with its fp32 arguments in autocast's number format."""
    kind = torch.get_autocast_dtype(DEVICE_TYPE)

    def lower(leaf: Any) -> Any:
        is_wide = isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float32
        return leaf.to(kind) if is_wide else leaf

    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
    with torch._C._ExcludeDispatchKeyGuard(keys):
        return operation(*tree_map(lower, args), **tree_map(lower, kwargs))


def _choices() -> Iterator[Any]:
    """What makes libraries and commands choose the device."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("holdfast", "sentence_transformers") and "get_device_name" in vars(module):
            yield mock.patch.object(module, "get_device_name", return_value=f"{DEVICE_TYPE}:0")
    yield mock.patch("transformers.training_args.is_torch_bf16_gpu_available", return_value=True)
    # In inference mode operations come whole that are composed of others, and their parts never.
    yield mock.patch("torch._C._InferenceMode", _no_grad)
    yield mock.patch.dict(os.environ, {"ACCELERATE_TORCH_DEVICE": f"{DEVICE_TYPE}:0"})


def _no_grad(mode: bool = True) -> Any:
    return torch.no_grad() if mode else contextlib.nullcontext()


# --- what every operation goes through -----------------------------------------------------------------------------


class _Dispatch(TorchDispatchMode):
    """Sees every operation, those that make a tensor of the device out of none among them."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operation on the numbers of its arguments, once it is clear that CUDA would do it."""
    name = func._schema.name
    flat, form = tree_flatten((args, kwargs))
    given = [leaf for leaf in flat if isinstance(leaf, torch.Tensor)]
    there = any(isinstance(tensor, Other) for tensor in given)
    if there:
        _refuse_mixed(name, args, given)
        _count(name, args, kwargs)
    asked = kwargs.get("device")
    if asked is not None:
        there, came_from = torch.device(asked).type == DEVICE_TYPE, there
        if name == "aten::_to_copy" and there is not came_from and not kwargs.get("non_blocking"):
            _STATE.waits.add("copy in" if there else "copy out")
    raw = [leaf.raw if isinstance(leaf, Other) else leaf for leaf in flat]
    raw_args, raw_kwargs = tree_unflatten(raw, form)
    if asked is not None and there:
        raw_kwargs["device"] = torch.device("cpu")
    with _random_numbers(func, there):
        out = func(*raw_args, **raw_kwargs)
    known = {id(tensor.raw if isinstance(tensor, Other) else tensor): tensor for tensor in given}

    def wrapped(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) in known:  # in place: what was given comes back
            return known[id(leaf)]
        return Other(leaf) if there and not isinstance(leaf, Other) else leaf

    return tree_map(wrapped, out)


def _refuse_mixed(name: str, args: Any, given: list[torch.Tensor]) -> None:
    """Raise where CUDA would, for an operation that has a tensor of the device among its arguments."""
    if name in _MAY_MIX:
        return
    if name in _INDEXING:
        indexed, indices = args[0], [index for index in args[1] if isinstance(index, torch.Tensor)]
        if not isinstance(indexed, Other):
            raise RuntimeError(f"two devices in {name}: a tensor on cpu is indexed from {DEVICE_TYPE}:0")
        for index in indices:
            if not isinstance(index, Other):
                _STATE.waits.add("copy in")
        given = [tensor for tensor in given if not any(tensor is index for index in indices)]
    most = 0 if name in _NO_SCALARS else 1
    here = [tuple(t.shape) for t in given if not isinstance(t, Other) and (t.dim() > 0 or not most)]
    written = name.endswith("_") and isinstance(args[0], torch.Tensor) and not isinstance(args[0], Other)
    if here or written:
        shapes = here or [tuple(args[0].shape)]
        raise RuntimeError(f"two devices in {name}: {shapes} on cpu, the others on {DEVICE_TYPE}:0")


def _count(name: str, args: Any, kwargs: dict[str, Any]) -> None:
    """Count an operation that the CPU waits for."""
    if name in _READS_NUMBERS:
        if name != "aten::repeat_interleave" or kwargs.get("output_size") is None:
            _STATE.waits.add(_READS_NUMBERS[name])
    elif name in _INDEXING:
        masks = [index for index in args[1] if isinstance(index, torch.Tensor) and index.dtype == torch.bool]
        filled = name != "aten::index" and args[2].numel() == 1  # one number, which needs no places: masked_fill
        if masks and not filled:
            _STATE.waits.add("boolean mask")
    elif name == "aten::copy_" and isinstance(args[0], Other) is not isinstance(args[1], Other):
        asynchronous = args[2] if len(args) > 2 else kwargs.get("non_blocking")
        if not asynchronous:
            _STATE.waits.add("copy in" if isinstance(args[0], Other) else "copy out")


@contextlib.contextmanager
def _random_numbers(func: Any, there: bool) -> Iterator[None]:
    """Draw from the device's own random state, where it has one and the operation is the device's."""
    if not (there and _STATE.own_random_state and torch.Tag.nondeterministic_seeded in func.tags):
        yield
        return
    before = torch.get_rng_state()
    assert _STATE.random_state is not None
    torch.set_rng_state(_STATE.random_state)
    try:
        yield
    finally:
        _STATE.random_state = torch.get_rng_state()
        torch.set_rng_state(before)


class _Functions(TorchFunctionMode):
    """Sees what does not reach the dispatcher: tensors made of Python's values, and Python's values of tensors."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        special = _SPECIAL.get(func)
        return func(*args, **kwargs) if special is None else special(func, *args, **kwargs)


def _make(func: Any, data: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
    """``torch.tensor``: made on the CPU, then copied."""
    if device is None or torch.device(device).type != DEVICE_TYPE:
        return func(data, *args, **({} if device is None else {"device": device}), **kwargs)
    wanted = kwargs.pop("requires_grad", False)
    moved = func(data, *args, **kwargs).to(device)
    return moved.requires_grad_() if wanted else moved


def _tolist(func: Any, tensor: torch.Tensor) -> Any:
    if not isinstance(tensor, Other):
        return func(tensor)
    _STATE.waits.add("tolist")
    return tensor.raw.tolist()


def _refuse_numpy(func: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    if isinstance(tensor, Other):
        raise TypeError(f"can't convert {DEVICE_TYPE}:0 device type tensor to numpy: use .cpu() first")
    return func(tensor, *args, **kwargs)


def _by_tensors(func: Any, tensor: torch.Tensor, index: Any, *value: Any) -> Any:
    """Indexing by a list, which is made into a tensor on the CPU and copied."""

    def made(part: Any) -> Any:
        return torch.tensor(part) if isinstance(part, (list, range)) else part

    if isinstance(tensor, Other):
        index = tuple(made(part) for part in index) if isinstance(index, tuple) else made(index)
    return func(tensor, index, *value)


def _set_data(func: Any, tensor: torch.Tensor, value: torch.Tensor) -> None:
    """``tensor.data = value``: torch exchanges what it knows of the tensor; the numbers must follow."""
    if isinstance(tensor, Other) is not isinstance(value, Other):
        raise TypeError("incompatible tensor type: .data of a tensor cannot be set to one on another device")
    func(tensor, value)
    if isinstance(tensor, Other):
        tensor.raw = value.raw  # type: ignore[attr-defined]


def _storage_pointer(func: Any, tensor: torch.Tensor) -> Any:
    return func(tensor.raw if isinstance(tensor, Other) else tensor)


def _pinned(func: Any, tensor: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    """A copy in memory that a device reads by itself: here any is."""
    return tensor.clone()


_SPECIAL: dict[Any, Callable[..., Any]] = {
    torch.tensor: _make,
    torch.as_tensor: _make,
    torch.Tensor.tolist: _tolist,
    torch.Tensor.numpy: _refuse_numpy,
    torch.Tensor.__array__: _refuse_numpy,
    torch.Tensor.__getitem__: _by_tensors,
    torch.Tensor.__setitem__: _by_tensors,
    torch.Tensor.data.__set__: _set_data,  # type: ignore[attr-defined]
    torch.Tensor.data_ptr: _storage_pointer,
    torch.Tensor.untyped_storage: _storage_pointer,
    torch.Tensor.pin_memory: _pinned,
}


def _line() -> str:
    """The innermost line outside torch that runs now."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        for root in ("/site-packages/", "/src/"):
            if root in path and not path.partition(root)[2].startswith("torch/"):
                return f"{path.partition(root)[2]}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back
    return "elsewhere"
