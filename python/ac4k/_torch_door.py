"""`torch.ops.ac4k.*`: schemas and fake kernels from the op table, kernels from `ac4k._torch`.

Eager calls do not come here; what torch's dispatcher has to see does: torch.compile, fake tensors,
subclasses, dispatch modes, functorch, tracing. Imported when torch is (see _torch_watch).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.library import Library

from ac4k import ops
from ac4k._native import C
from ac4k.settings import op_table

_DTYPES = {
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
_SCHEMA_TYPES = {"int": "int", "float": "float", "bool": "bool", "choice": "str"}
_DIM = re.compile(r"(?P<name>[A-Za-z]\w*)?(?P<operator>[*/])?(?P<number>\d+)?$")

# name -> (functional overload, out overload, [(parameter, keyword-only, default)])
_OPS: dict[str, tuple[Any, Any, list[tuple[str, bool, Any]]]] = {}


def route(name: str, params: Sequence[Any], out: Any) -> Any:
    """Calls op `name` through the dispatcher; `params` in the order of the signature."""
    functional, into, declared = _OPS[name]
    positional = []
    keywords = {}
    for value, (parameter, keyword_only, default) in zip(params, declared, strict=True):
        given = default if value is None else value
        if keyword_only:
            keywords[parameter] = given
        else:
            positional.append(given)
    if out is None:
        return functional(*positional, **keywords)
    if isinstance(out, tuple):
        for index, tensor in enumerate(out):
            keywords[f"out{index}"] = tensor
        into(*positional, **keywords)
    else:
        into(*positional, **keywords, out=out)
    return out


def _schema_param(param: dict[str, Any]) -> str:
    if param["kind"] == "tensor":
        if param["has_default"]:
            return f"Tensor? {param['name']}=None"
        return f"Tensor {param['name']}"
    text = f"{_SCHEMA_TYPES[param['kind']]} {param['name']}"
    if not param["has_default"]:
        return text
    default = param["default"]
    return f"{text}={default!r}" if param["kind"] != "choice" else f"{text}='{default}'"


def _out_names(declaration: dict[str, Any]) -> list[str]:
    count = len(declaration["outputs"])
    return ["out"] if count == 1 else [f"out{index}" for index in range(count)]


def _schemas(declaration: dict[str, Any]) -> tuple[str, str]:
    """The functional schema and the `.out` one."""
    parts, star = [], False
    for param in declaration["params"]:
        if param["keyword_only"] and not star:
            parts.append("*")
            star = True
        parts.append(_schema_param(param))
    count = len(declaration["outputs"])
    result = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
    outs = [f"Tensor(a{i}!) {name}" for i, name in enumerate(_out_names(declaration))]
    into = [*parts, *([] if star else ["*"]), *outs]
    name = declaration["name"]
    return f"{name}({', '.join(parts)}) -> {result}", f"{name}.out({', '.join(into)}) -> ()"


class _Shapes:
    """Dims and dtypes bound while a fake call is checked; sizes may be symbolic."""

    def __init__(self, declaration: dict[str, Any]) -> None:
        self.declaration = declaration
        self.dims: dict[str, Any] = {}
        self.types: dict[str, torch.dtype] = {}
        self.leading: list[Any] | None = None
        self.device: torch.device | None = None

    def fail(self, name: str, text: str) -> None:
        raise ValueError(f"{self.declaration['name']}: argument '{name}': {text}")

    def bind(self, param: dict[str, Any], tensor: torch.Tensor) -> None:
        name, dtype = param["name"], param["dtype"]
        allowed = self.declaration["types"].get(dtype)
        if allowed is None:
            expected = [_DTYPES[dtype]]
        elif dtype in self.types:
            expected = [self.types[dtype]]
        else:
            expected = [_DTYPES[each] for each in allowed]
        if tensor.dtype not in expected:
            names = ", ".join(str(each).removeprefix("torch.") for each in expected)
            raise TypeError(
                f"{self.declaration['name']}: argument '{name}': expected dtype {names}, got "
                f"{str(tensor.dtype).removeprefix('torch.')}"
            )
        self.types[dtype] = tensor.dtype
        if self.device is None:
            self.device = tensor.device
        elif tensor.device != self.device:
            self.fail(name, f"expected a tensor on {self.device}, got one on {tensor.device}")
        self._bind_shape(name, list(param["dims"]), list(tensor.shape))

    def _bind_shape(self, name: str, dims: list[str], shape: list[Any]) -> None:
        text = f"expected shape [{', '.join(dims)}], got {shape}"
        if dims and dims[0] == "...":
            dims = dims[1:]
            count = len(shape) - len(dims)
            if count < 0:
                self.fail(name, text)
            leading, shape = shape[:count], shape[count:]
            if self.leading is None:
                self.leading = leading
            elif len(leading) != len(self.leading):
                self.fail(name, text)
            for got, want in zip(leading, self.leading, strict=True):
                torch._check(got == want, lambda: f"{self.declaration['name']}: '{name}': {text}")
        if len(dims) != len(shape):
            self.fail(name, text)
        for dim, got in zip(dims, shape, strict=True):
            self._bind_dim(name, dim, got, text)

    def _bind_dim(self, name: str, dim: str, got: Any, text: str) -> None:
        symbol, multiply, divide = _parse_dim(dim)
        if symbol is not None and symbol not in self.dims:
            self.dims[symbol] = got // multiply * divide
            return
        want = self.size(dim)
        torch._check(got == want, lambda: f"{self.declaration['name']}: '{name}': {text}")

    def size(self, dim: str) -> Any:
        symbol, multiply, divide = _parse_dim(dim)
        return multiply if symbol is None else self.dims[symbol] // divide * multiply

    def output(self, output: dict[str, Any]) -> torch.Tensor:
        shape: list[Any] = []
        for dim in output["dims"]:
            shape.extend(self.leading or [] if dim == "..." else [self.size(dim)])
        dtype = self.types.get(output["dtype"]) or _DTYPES[output["dtype"]]
        return torch.empty(shape, dtype=dtype, device=self.device)


def _parse_dim(dim: str) -> tuple[str | None, int, int]:
    """(symbol, multiply, divide)"""
    match = _DIM.match(dim)
    assert match is not None, dim
    number = int(match["number"] or 1)
    if match["name"] is None:
        return None, number, 1
    return (match["name"], 1, number) if match["operator"] == "/" else (match["name"], number, 1)


def _bind_call(
    declaration: dict[str, Any], args: Sequence[Any], keywords: dict[str, Any]
) -> _Shapes:
    shapes = _Shapes(declaration)
    params = declaration["params"]
    values = dict(zip((param["name"] for param in params), args, strict=False)) | keywords
    for param in params:
        if param["kind"] == "int" and param["name"] in values:
            shapes.dims[param["name"]] = values[param["name"]]
    for param in params:
        value = values.get(param["name"])
        if param["kind"] == "tensor" and value is not None:
            shapes.bind(param, value)
    return shapes


def _fake_functional(declaration: dict[str, Any]) -> Callable[..., Any]:
    def fake(*args: Any, **keywords: Any) -> Any:
        shapes = _bind_call(declaration, args, keywords)
        results = tuple(shapes.output(output) for output in declaration["outputs"])
        return results[0] if len(results) == 1 else results

    return fake


def _fake_out(declaration: dict[str, Any]) -> Callable[..., None]:
    names = _out_names(declaration)

    def fake(*args: Any, **keywords: Any) -> None:
        outs = [keywords.pop(name) for name in names]
        shapes = _bind_call(declaration, args, keywords)
        for out, output in zip(outs, declaration["outputs"], strict=True):
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


def _python_kernels(declaration: dict[str, Any]) -> tuple[Callable[..., Any], Callable[..., None]]:
    """Kernels for a build without torch: the eager door, called from inside the dispatcher."""
    function = getattr(C, declaration["name"])
    names = _out_names(declaration)

    def functional(*args: Any, **keywords: Any) -> Any:
        C.set_torch_guard(False)
        try:
            return function(*args, **keywords)
        finally:
            C.set_torch_guard(True)

    def into(*args: Any, **keywords: Any) -> None:
        outs = tuple(keywords.pop(name) for name in names)
        functional(*args, **keywords, out=outs[0] if len(outs) == 1 else outs)

    return functional, into


def _register() -> None:
    try:
        from ac4k import _torch  # noqa: F401

        compiled = True
    except ImportError:
        compiled = False
    tags = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)
    for declaration in op_table():
        name = declaration["name"]
        for schema in _schemas(declaration):
            _LIBRARY.define(schema, tags=tags)
        torch.library.register_fake(f"ac4k::{name}", _fake_functional(declaration), lib=_LIBRARY)
        torch.library.register_fake(f"ac4k::{name}.out", _fake_out(declaration), lib=_LIBRARY)
        if not compiled:
            functional, into = _python_kernels(declaration)
            for key in ("CPU", "CUDA"):
                _LIBRARY.impl(name, functional, key)
                _LIBRARY.impl(f"{name}.out", into, key)
        packet = getattr(torch.ops.ac4k, name)
        params = [
            (param["name"], param["keyword_only"], param.get("default"))
            for param in declaration["params"]
        ]
        _OPS[name] = (packet.default, packet.out, params)


def _calibrate_guard() -> None:
    """Shows the extension what inference mode does to torch's thread-local keys, on a thread where
    nothing else is switched on."""

    def calibrate() -> None:
        with torch.inference_mode():
            C.calibrate_torch_guard()

    thread = threading.Thread(target=calibrate)
    thread.start()
    thread.join()


_LIBRARY = Library("ac4k", "DEF")
_register()
_calibrate_guard()
ops._use_torch_tracing_check(torch.compiler.is_dynamo_compiling, route)
