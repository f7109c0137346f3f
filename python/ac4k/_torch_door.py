"""`torch.ops.ac4k.*`: schemas and fake kernels from the op table, kernels from `ac4k._torch`.

Eager calls do not come here; what torch's dispatcher has to see does: torch.compile, fake tensors,
subclasses, dispatch modes, functorch, tracing. Imported when torch is (see _torch_watch).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.library import Library

from ac4k import _torch_quant_tensor as _torch_quant_tensor  # torch.load must know it
from ac4k import ops
from ac4k._native import C
from ac4k._signature import is_present
from ac4k._torch_fake_calls import DTYPE_NAMES, bind_call, fake_functional, fake_out, out_names
from ac4k.settings import op_table

_SCHEMA_TYPES = {"int": "int", "float": "float", "bool": "bool", "choice": "str", "dtype": "str"}

# name -> (functional overload, out overload, declaration)
_OPS: dict[str, tuple[Any, Any, dict[str, Any]]] = {}


def route(name: str, params: Sequence[Any], out: Any) -> Any:
    """Calls op `name` through the dispatcher; `params` in the order of the signature."""
    functional, into, declaration = _OPS[name]
    positional = []
    keywords = {}
    values = {}
    for value, param in zip(params, declaration["params"], strict=True):
        given = param.get("default") if value is None else value
        if param["kind"] == "dtype" and not isinstance(given, str):
            given = DTYPE_NAMES.get(given, str(given))
        values[param["name"]] = given
        if param["keyword_only"]:
            keywords[param["name"]] = given
        else:
            positional.append(given)
    present = [is_present(declaration, output, values) for output in declaration["outputs"]]
    if out is None:
        return _only(present, functional(*positional, **keywords))
    outs = out if isinstance(out, tuple) else (out,)
    if len(outs) != sum(present):
        raise TypeError(f"{name}: argument 'out': expected {sum(present)} tensors, got {len(outs)}")
    names = [name for name, there in zip(out_names(declaration), present, strict=True) if there]
    into(*positional, **keywords, **dict(zip(names, outs, strict=True)))
    return out


def _only(present: list[bool], result: Any) -> Any:
    """The outputs that are there: torch's schema has all of them."""
    if all(present):
        return result
    results = tuple(each for each, there in zip(result, present, strict=True) if there)
    return results[0] if len(results) == 1 else results


def _schema_param(param: dict[str, Any]) -> str:
    if param["kind"] == "tensor":
        if param["mutable"]:
            return f"Tensor({param['name']}!) {param['name']}"
        if param["has_default"]:
            return f"Tensor? {param['name']}=None"
        return f"Tensor {param['name']}"
    text = f"{_SCHEMA_TYPES[param['kind']]} {param['name']}"
    if not param["has_default"]:
        return text
    default = param["default"]
    return f"{text}='{default}'" if isinstance(default, str) else f"{text}={default!r}"


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
    into = [*parts, *([] if star else ["*"])]
    names = out_names(declaration)
    for i, (name, output) in enumerate(zip(names, declaration["outputs"], strict=True)):
        optional = "if" in output or "if_not" in output
        into.append(f"Tensor(a{i}!)? {name}=None" if optional else f"Tensor(a{i}!) {name}")
    name = declaration["name"]
    return f"{name}({', '.join(parts)}) -> {result}", f"{name}.out({', '.join(into)}) -> ()"


def _python_kernels(declaration: dict[str, Any]) -> tuple[Callable[..., Any], Callable[..., None]]:
    """Kernels for a build without torch: the eager door, called from inside the dispatcher."""
    function = getattr(C, declaration["name"])
    names = out_names(declaration)

    def call(*args: Any, **keywords: Any) -> Any:
        C.set_torch_guard(False)
        try:
            return function(*args, **keywords)
        finally:
            C.set_torch_guard(True)

    def functional(*args: Any, **keywords: Any) -> Any:
        result = call(*args, **keywords)
        shapes = bind_call(declaration, args, keywords)
        present = [is_present(declaration, each, shapes.values) for each in declaration["outputs"]]
        if all(present):
            return result
        results = iter(result if sum(present) > 1 else (result,))
        outputs = zip(declaration["outputs"], present, strict=True)
        return tuple(next(results) if there else shapes.output(each) for each, there in outputs)

    def into(*args: Any, **keywords: Any) -> None:
        outs = tuple(out for name in names if (out := keywords.pop(name, None)) is not None)
        call(*args, **keywords, out=outs[0] if len(outs) == 1 else outs)

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
        functional_schema, out_schema = _schemas(declaration)
        has_out = bool(declaration["outputs"])
        kernels = (None, None) if compiled else _python_kernels(declaration)
        fakes = fake_functional(declaration), fake_out(declaration)
        for overload, schema, kernel, fake in (
            (name, functional_schema, kernels[0], fakes[0]),
            *([(f"{name}.out", out_schema, kernels[1], fakes[1])] if has_out else []),
        ):
            _LIBRARY.define(schema, tags=tags)
            torch.library.register_fake(f"ac4k::{overload}", fake, lib=_LIBRARY)
            if kernel is not None:
                for key in ("CPU", "CUDA"):
                    _LIBRARY.impl(overload, kernel, key)
        packet = getattr(torch.ops.ac4k, name)
        _OPS[name] = (packet.default, packet.out if has_out else None, declaration)


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
