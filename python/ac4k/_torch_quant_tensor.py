"""`QuantTensor` over torch: a wrapper subclass with the logical shape around the bytes.

Its dtype is uint8, so that `module.half()` and the like leave it alone, and it never needs a
gradient. As the weight of `torch.nn.functional.linear`, and so of an `nn.Linear`, it is multiplied
by `ac4k.linear`. What moves, copies or compares bytes is done to them; everything else is refused
by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.serialization import add_safe_globals

from ac4k.packed_linear import linear
from ac4k.quant_tensor import BlockLayout, QuantTensor, describe, sliced

_aten = torch.ops.aten


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
        self: TorchQuantTensor = torch.Tensor._make_wrapper_subclass(
            cls, shape, dtype=torch.uint8, device=raw.device, requires_grad=False
        )
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

    # ---- pickle, torch.save ----

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
            tensor = next(a for a in args if isinstance(a, TorchQuantTensor))
            raise NotImplementedError(
                f"QuantTensor ({describe(tensor)}): {func} is not supported; "
                "torch.nn.functional.linear(x, weight) multiplies by it, "
                "and its method dequantize() gives a plain tensor"
            )
        return handler(func, *args, **(kwargs or {}))


def _linear(input: Any, weight: Any, bias: Any = None) -> Any:  # noqa: A002
    """Of torch.nn.functional: the same names of arguments, cast alike under autocast.

    `ac4k.linear` refuses weights that are not packed: a layer that packed at each call would be
    slow, and one that kept both layouts twice as large.
    """
    if isinstance(input, TorchQuantTensor) or not isinstance(weight, TorchQuantTensor):
        raise NotImplementedError(
            "torch.nn.functional.linear: expected a QuantTensor as 'weight' alone, got "
            f"{input!r} and {weight!r}"
        )
    if torch.is_autocast_enabled(input.device.type):
        dtype = torch.get_autocast_dtype(input.device.type)
        bias = None if bias is None else bias.to(dtype)
        return linear(input.to(dtype), weight, bias)
    return linear(input, weight, bias)


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


def _copied_into(func: Any, target: Any, source: Any, non_blocking: bool = False) -> Any:
    alike = (
        isinstance(target, TorchQuantTensor)
        and isinstance(source, TorchQuantTensor)
        and (target.format, target.block_layout) == (source.format, source.block_layout)
        and target.shape == source.shape
    )
    if not alike:
        raise TypeError(f"QuantTensor: copy_: expected two alike, got {target!r} and {source!r}")
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
    _aten.select.int: _select,
    _aten.unbind.int: _unbind,
}
