"""`QuantTensor` over torch: a wrapper subclass with the logical shape around the bytes.

Its dtype is uint8, so that `module.half()` and the like leave it alone, and it never needs a
gradient. As the weight of `torch.nn.functional.linear`, and so of an `nn.Linear`, it is multiplied
by `ac4k.linear`. What moves, copies, shares or compares bytes is done to them; everything else is
refused by name.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._compile import _disable_dynamo
from torch.serialization import add_safe_globals
from torch.utils._pytree import tree_leaves

from ac4k.packed_linear import linear
from ac4k.quant_tensor import BlockLayout, QuantTensor, describe, sliced

_aten = torch.ops.aten


def _unsupported(tensor: TorchQuantTensor, what: object) -> NotImplementedError:
    return NotImplementedError(
        f"QuantTensor ({describe(tensor)}): {what} is not supported; its bytes are `.raw`, "
        "torch.nn.functional.linear(x, weight) multiplies by it, and its method dequantize() "
        "gives a plain tensor"
    )


def _needs_memory(name: str) -> Callable[..., Any]:
    """In place of a method that reads elements of the logical shape, which are nowhere."""

    def refuse(self: TorchQuantTensor, *args: Any, **kwargs: Any) -> Any:
        raise _unsupported(self, name)

    return refuse


class _Absent:
    """An attribute that torch.Tensor has and a subclass has not."""

    def __get__(self, instance: object, owner: type) -> Any:
        raise AttributeError


class TorchQuantTensor(torch.Tensor, QuantTensor):  # type: ignore[misc]
    """Made by `QuantTensor(...)` from a torch tensor; not meant to be named."""

    @staticmethod
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return QuantTensor(*args, **kwargs)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass  # torch's takes no arguments

    @classmethod
    def wrap(
        cls, raw: torch.Tensor, fmt: str, shape: Sequence[int], layout: BlockLayout
    ) -> TorchQuantTensor:
        """Around bytes that are known to fit."""
        if torch.compiler.is_dynamo_compiling():
            return _wrapped_outside_graphs(cls, raw, fmt, shape, layout)
        # Nothing lies behind the logical shape: torch's storage is empty, and whoever asks for its
        # address in C++ gets an error instead of a null pointer.
        self: TorchQuantTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            shape,
            dtype=torch.uint8,
            device=raw.device,
            requires_grad=False,
            storage_size=0,
        )
        torch._C._set_throw_on_mutable_data_ptr(self)
        self.raw = raw
        self.format = fmt
        self.block_layout = layout
        return self

    def like(self, raw: torch.Tensor) -> TorchQuantTensor:
        """The same weights in other bytes."""
        return self.wrap(raw, self.format, self.shape, self.block_layout)

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return self.raw.nbytes  # type: ignore[no-any-return]

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"QuantTensor({describe(self)}, device='{self.device}')"

    dequantize = QuantTensor.dequantize  # not torch's of this name

    # ---- memory: that of `raw` ----

    def share_memory_(self) -> TorchQuantTensor:
        self.raw.share_memory_()
        return self

    def is_shared(self) -> bool:
        return bool(self.raw.is_shared())

    @property
    def data(self) -> Any:
        return self.detach()

    @data.setter
    def data(self, source: Any) -> None:
        _check_alike("data", self, source)
        torch.Tensor.data.__set__(self, source)  # type: ignore[attr-defined]  # the device
        self.raw = source.raw

    __dlpack__ = _needs_memory("__dlpack__")
    __dlpack_c_exchange_api__ = _Absent()
    apply_ = _needs_memory("apply_")
    data_ptr = _needs_memory("data_ptr")
    numpy = _needs_memory("numpy")
    storage = _needs_memory("storage")
    tolist = _needs_memory("tolist")

    # ---- torch.compile and friends take it apart and put it together ----

    def __tensor_flatten__(self) -> tuple[list[str], tuple[str, BlockLayout]]:
        return ["raw"], (self.format, self.block_layout)

    @classmethod
    def __tensor_unflatten__(
        cls,
        inner: dict[str, torch.Tensor],
        context: tuple[str, BlockLayout],
        outer_size: Sequence[int],
        outer_stride: Sequence[int],
    ) -> TorchQuantTensor:
        return cls.wrap(inner["raw"], context[0], outer_size, context[1])

    def _stable_hash_for_caching(self) -> str:
        """What compiled code depends on; torch's cache of it warns where a class does not say."""
        raw = self.raw
        layout = raw.dtype, raw.device, tuple(raw.shape), raw.stride(), raw.storage_offset()
        return str((self.format, self.block_layout, tuple(self.shape), *layout))

    # ---- copy, pickle, torch.save ----

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        # torch's own asks for data_ptr().
        copied = memo[id(self)] = self.detach()
        copied.__dict__ = copy.deepcopy(self.__dict__, memo)
        return copied

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        is_parameter = isinstance(self, torch.nn.Parameter)
        return _rebuild, (
            self.raw,
            self.format,
            tuple(self.shape),
            self.block_layout,
            is_parameter,
        )

    # ---- operations ----

    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.linear:
            return _linear(*args, **kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        handler = _OPERATIONS.get(func)
        if handler is None:
            leaves = tree_leaves((args, kwargs))
            raise _unsupported(next(x for x in leaves if isinstance(x, TorchQuantTensor)), func)
        return handler(func, *args, **(kwargs or {}))


@_disable_dynamo  # which imports Dynamo when it is called, not before
def _wrapped_outside_graphs(cls: type[TorchQuantTensor], *args: Any) -> TorchQuantTensor:
    """A graph breaks before the tensor is made: halfway there is one that has no bytes."""
    return cls.wrap(*args)


def _linear(input: Any, weight: Any, bias: Any = None) -> Any:  # noqa: A002
    """Of torch.nn.functional: the same names of arguments, cast alike under autocast, and inputs
    of any strides, which `ac4k.linear` leaves to its caller.

    `ac4k.linear` refuses weights that are not packed: a layer that packed at each call would be
    slow, and one that kept both layouts twice as large.
    """
    if isinstance(input, TorchQuantTensor) or not isinstance(weight, TorchQuantTensor):
        raise NotImplementedError(
            "torch.nn.functional.linear: expected a QuantTensor as 'weight' alone, got "
            f"{input!r} and {weight!r}"
        )
    kind = input.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        bias = None if bias is None else bias.to(dtype)
        input = input.to(dtype)  # noqa: A001
    if input.ndim > 0 and input.stride(-1) != 1:
        input = input.contiguous()  # noqa: A001
    return linear(input, weight, None if bias is None else bias.contiguous())


def _rebuild(
    raw: torch.Tensor, fmt: str, shape: Sequence[int], layout: BlockLayout, is_parameter: bool
) -> Any:
    tensor: Any = QuantTensor(raw, fmt, shape, layout)
    return torch.nn.Parameter(tensor, requires_grad=False) if is_parameter else tensor


# torch.load with weights_only=True, its default, makes nothing that is not on this list.
add_safe_globals([_rebuild])


def _on_bytes(func: Any, tensor: TorchQuantTensor, *args: Any, **kwargs: Any) -> TorchQuantTensor:
    kwargs.pop("memory_format", None)
    return tensor.like(func(tensor.raw, *args, **kwargs))


def _converted(func: Any, tensor: TorchQuantTensor, **kwargs: Any) -> TorchQuantTensor:
    dtype = kwargs.pop("dtype", None)
    if dtype not in (None, torch.uint8):
        raise TypeError(
            f"QuantTensor ({describe(tensor)}): expected a device, got dtype {dtype}; "
            "its method dequantize(dtype) converts"
        )
    kwargs.pop("layout", None)
    return _on_bytes(func, tensor, **kwargs)


def _check_alike(what: str, target: Any, source: Any) -> None:
    alike = (
        isinstance(target, TorchQuantTensor)
        and isinstance(source, TorchQuantTensor)
        and (target.format, target.block_layout) == (source.format, source.block_layout)
        and target.shape == source.shape
    )
    if not alike:
        raise TypeError(f"QuantTensor: {what}: expected two alike, got {target!r} and {source!r}")


def _copied_into(func: Any, target: Any, source: Any, non_blocking: bool = False) -> Any:
    _check_alike("copy_", target, source)
    target.raw.copy_(source.raw, non_blocking)
    return target


def _equal(func: Any, a: Any, b: Any) -> bool:
    if not (isinstance(a, TorchQuantTensor) and isinstance(b, TorchQuantTensor)):
        return False
    same = (a.format, a.block_layout, a.shape) == (b.format, b.block_layout, b.shape)
    return same and torch.equal(a.raw, b.raw)


def _slice(
    func: Any,
    tensor: TorchQuantTensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> QuantTensor:
    return sliced(tensor, dim % tensor.ndim, slice(start, end, step))


def _select(func: Any, tensor: TorchQuantTensor, dim: int, index: int) -> QuantTensor:
    return sliced(tensor, dim % tensor.ndim, index)


def _split(
    func: Any, tensor: TorchQuantTensor, size: int | Sequence[int], dim: int = 0
) -> list[QuantTensor]:
    """Of torch.split and torch.chunk; torch itself checks and counts the sizes."""
    dim %= tensor.ndim
    sizes = [len(rows) for rows in func(torch.empty(tensor.shape[dim], device="meta"), size)]
    starts = itertools.accumulate(sizes, initial=0)
    return [
        sliced(tensor, dim, slice(start, start + count))
        for start, count in zip(starts, sizes, strict=False)
    ]


def _unbind(func: Any, tensor: TorchQuantTensor, dim: int = 0) -> list[QuantTensor]:
    return [sliced(tensor, dim % tensor.ndim, i) for i in range(tensor.shape[dim])]


_OPERATIONS: dict[Any, Callable[..., Any]] = {
    _aten.detach.default: _on_bytes,
    _aten.alias.default: _on_bytes,
    _aten.clone.default: _on_bytes,
    _aten._pin_memory.default: _on_bytes,
    _aten.is_pinned.default: lambda func, tensor, *args: func(tensor.raw, *args),
    _aten._to_copy.default: _converted,
    _aten.empty_like.default: _converted,
    _aten.copy_.default: _copied_into,
    _aten.equal.default: _equal,
    _aten.slice.Tensor: _slice,
    _aten.split.Tensor: _split,
    _aten.split_with_sizes.default: _split,
    _aten.select.int: _select,
    _aten.unbind.int: _unbind,
}
