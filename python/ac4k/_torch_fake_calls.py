"""Torch's fake kernels: shapes and dtypes of a call, worked out from its entry in the op table, and
the refusals of the op itself in its words. Sizes may be symbolic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ac4k._signature import (
    Dim,
    dims_of,
    dtype_of,
    is_present,
    parse_dim,
    shape_of,
    value_of,
)

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "u8": torch.uint8,
    "i8": torch.int8,
    "i32": torch.int32,
    "i64": torch.int64,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
}
DTYPE_NAMES = {dtype: str(dtype).removeprefix("torch.") for dtype in DTYPES.values()}


def out_names(declaration: dict[str, Any]) -> list[str]:
    count = len(declaration["outputs"])
    return ["out"] if count == 1 else [f"out{index}" for index in range(count)]


class Shapes:
    """Dims and dtypes bound while a fake call is checked; sizes may be symbolic."""

    def __init__(self, declaration: dict[str, Any], values: dict[str, Any]) -> None:
        self.declaration = declaration
        self.values = values
        self.sizes: dict[str, Any] = {}
        self.set_by: dict[str, str] = {}  # the argument that a size comes from
        self.types: dict[str, str] = {}
        self.device: torch.device | None = None

    def fail(self, name: str, text: str) -> None:
        raise ValueError(f"{self.declaration['name']}: argument '{name}': {text}")

    def check(self, condition: Any, name: str, text: Callable[[], str]) -> None:
        """As `fail`, where sizes may be symbolic: what is not known becomes a guard."""
        op = self.declaration["name"]
        torch._check_value(condition, lambda: f"{op}: argument '{name}': {text()}")

    def bind_size(self, symbol: str, size: Any, name: str) -> None:
        self.sizes[symbol] = size
        self.set_by[symbol] = name

    def bind(self, param: dict[str, Any], tensor: torch.Tensor) -> None:
        name, dtype = param["name"], param["dtype"]
        allowed = self.declaration["types"].get(dtype)
        if allowed is None:
            expected = [dtype]
        elif dtype in self.types:
            expected = [self.types[dtype]]
        else:
            expected = allowed
        found = [each for each in expected if DTYPES[each] == tensor.dtype]
        if not found:
            names = ", ".join(DTYPE_NAMES[DTYPES[each]] for each in expected)
            raise TypeError(
                f"{self.declaration['name']}: argument '{name}': expected dtype {names}, got "
                f"{str(tensor.dtype).removeprefix('torch.')}"
            )
        self.types[dtype] = found[0]
        if self.device is None:
            self.device = tensor.device
        elif tensor.device != self.device:
            self.fail(name, f"expected a tensor on {self.device}, got one on {tensor.device}")
        self._bind_shape(param, list(tensor.shape))

    def _bind_shape(self, param: dict[str, Any], shape: list[Any]) -> None:
        name, dims = param["name"], dims_of(self.declaration, param, self.values)
        fixed = [dim for dim in dims if dim != "..."]
        count = len(shape) - len(fixed)
        if count < 0 or (count > 0 and len(fixed) == len(dims)):
            self.fail(name, self._shape_text(param, shape))
        if len(fixed) < len(dims):
            self._bind_leading(param, shape, shape[:count])
        for each, got in zip(fixed, shape[count:], strict=True):
            dim = parse_dim(each)

            def text(symbol: str | None = dim.symbol) -> str:
                return self._shape_text(param, shape, symbol)

            if dim.symbol not in (None, "rows") and dim.symbol not in self.sizes:
                self.check(got % dim.multiply == 0, name, text)
                self.bind_size(str(dim.symbol), got // dim.multiply * dim.divide, name)
                continue
            self.check(dim.is_whole(self._size(dim)), name, text)
            self.check(got == shape_of([each], self.sizes)[0], name, text)

    def _bind_leading(self, param: dict[str, Any], shape: list[Any], leading: list[Any]) -> None:
        name = param["name"]
        if "..." not in self.sizes:
            self.bind_size("...", leading, name)

        def text() -> str:
            return self._shape_text(param, shape, "...")

        bound = self.sizes["..."]
        if len(leading) != len(bound):
            self.fail(name, text())
        for got, want in zip(leading, bound, strict=True):
            self.check(got == want, name, text)

    def _shape_text(self, param: dict[str, Any], got: list[Any], symbol: str | None = None) -> str:
        """As eager calls say it; `symbol` is of the size that `got` does not agree with."""
        text = f"expected shape [{', '.join(dims_of(self.declaration, param, self.values))}]"
        if "dims_by" in param:
            chosen = value_of(self.declaration, param["dims_by"], self.values)
            text += f" for {param['dims_by']} '{chosen}'"
        if symbol in self.set_by:
            text += f" with {symbol} = {self.sizes[symbol]}, "
            source = f"'{self.set_by[symbol]}'"
            text += f"as {source} has" if symbol == "..." else f"set by {source}"
        return f"{text}, got {got}"

    def _size(self, dim: Dim) -> Any:
        if dim.symbol == "rows":
            return math.prod(self.sizes.get("...", ()))
        return self.sizes.get(str(dim.symbol))

    def output(self, output: dict[str, Any]) -> torch.Tensor:
        op, values = self.declaration, self.values
        dtype = DTYPES[dtype_of(op, output, self.types, values)]
        there = is_present(op, output, values)
        dims = dims_of(op, output, values) if there else ["0"]
        for each in dims:
            if each != "...":
                self._check_whole(each)
        shape = shape_of(dims, self.sizes)
        return torch.empty(shape, dtype=dtype, device=self.device)

    def _check_whole(self, text: str) -> None:
        op, dim = self.declaration["name"], parse_dim(text)
        size = self._size(dim)
        torch._check_value(
            dim.is_whole(size),
            lambda: f"{op}: expected a whole {text}, got {dim.symbol} = {size}",
        )


def _choice(declaration: dict[str, Any], param: dict[str, Any], given: Any) -> Any:
    """One of a param's choices; a dtype may have been given by its short name."""
    if param["kind"] == "dtype" and given in DTYPES:
        given = DTYPE_NAMES[DTYPES[given]]
    if given not in param["choices"]:
        expected = ", ".join(param["choices"])
        raise ValueError(
            f"{declaration['name']}: argument '{param['name']}': expected one of {expected}, "
            f"got '{given}'"
        )
    return given


def bind_call(declaration: dict[str, Any], args: Sequence[Any], keywords: dict[str, Any]) -> Shapes:
    params = declaration["params"]
    values = dict(zip((param["name"] for param in params), args, strict=False)) | keywords
    for param in params:
        if "choices" in param and param["name"] in values:
            values[param["name"]] = _choice(declaration, param, values[param["name"]])
    shapes = Shapes(declaration, values)
    for param in params:
        if param["kind"] == "int" and param["name"] in values:
            shapes.bind_size(param["name"], values[param["name"]], param["name"])
    for param in params:
        value = values.get(param["name"])
        if param["kind"] == "tensor" and value is not None:
            shapes.bind(param, value)
    return shapes


def fake_functional(declaration: dict[str, Any]) -> Callable[..., Any]:
    def fake(*args: Any, **keywords: Any) -> Any:
        shapes = bind_call(declaration, args, keywords)
        results = tuple(shapes.output(output) for output in declaration["outputs"])
        return results[0] if len(results) == 1 else results or None

    return fake


def fake_out(declaration: dict[str, Any]) -> Callable[..., None]:
    names = out_names(declaration)

    def fake(*args: Any, **keywords: Any) -> None:
        outs = [keywords.pop(name, None) for name in names]
        shapes = bind_call(declaration, args, keywords)
        for out, output in zip(outs, declaration["outputs"], strict=True):
            there = is_present(declaration, output, shapes.values)
            if there != (out is not None):
                shapes.fail("out", f"expected {'a tensor' if there else 'None'}, got {out}")
            if out is None:
                continue
            expected = shapes.output(output)
            if (out.dtype, out.dim(), out.device) != (
                expected.dtype,
                expected.dim(),
                expected.device,
            ):
                wanted = f"{expected.dtype} {list(expected.shape)} on {expected.device}"
                shapes.fail(
                    "out", f"expected {wanted}, got {out.dtype} {list(out.shape)} on {out.device}"
                )
            for got, want in zip(out.shape, expected.shape, strict=True):
                torch._check(got == want, lambda: f"{declaration['name']}: 'out' has another shape")

    return fake
