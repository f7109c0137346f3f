"""Writes the files that come from the op table, or with --check says which are out of date.

The op table is in the built library; run it as `make generate`, or `make test` for the check.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NOTICE = "Made from the op table by tools/generate.py; do not edit."
DTYPE_NAMES = {
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "bf16": "bfloat16",
    "u8": "uint8",
    "i8": "int8",
    "i32": "int32",
    "i64": "int64",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
}
C_TYPES = {
    "int": "int64_t",
    "float": "double",
    "bool": "int",
    "choice": "const char*",
    "dtype": "const char*",
}
LAYOUTS = {
    "contiguous": "contiguous",
    "row_strided": "any strides, the last dim contiguous",
    "strided": "any strides",
}
Op = dict[str, Any]
Param = dict[str, Any]


# ---- Python ----------------------------------------------------------------------------------


def python_type(param: Param) -> str:
    if param["kind"] == "tensor":
        return "Array | None" if param["has_default"] else "Array"
    if param["kind"] == "choice":
        return f"Literal[{', '.join(repr(choice) for choice in param['choices'])}]".replace(
            "'", '"'
        )
    return "Any" if param["kind"] == "dtype" else str(param["kind"])


def python_default(param: Param) -> str:
    value = param["default"]
    return f'"{value}"' if isinstance(value, str) else repr(value)


def python_params(op: Op) -> list[str]:
    parts, star = [], False
    for param in op["params"]:
        if param["keyword_only"] and not star:
            parts.append("*")
            star = True
        default = f" = {python_default(param)}" if param["has_default"] else ""
        parts.append(f"{param['name']}: {python_type(param)}{default}")
    if not op["outputs"]:
        return parts
    return [*parts, *([] if star else ["*"]), f"out: {out_type(op)} | None = None"]


def out_type(op: Op) -> str:
    count = len(op["outputs"])
    if count == 0:
        return "None"
    if any("if" in output or "if_not" in output for output in op["outputs"]):
        return "Any"  # one array or several: it depends on the arguments
    return "Array" if count == 1 else f"tuple[{', '.join(['Array'] * count)}]"


def shape_text(op: Op, tensor: dict[str, Any]) -> str:
    if "dims_by" not in tensor:
        return f"[{', '.join(tensor['dims'])}]"
    chooser = next(param for param in op["params"] if param["name"] == tensor["dims_by"])
    pairs = zip(tensor["dims"], chooser["choices"], strict=True)
    return ", ".join(f"[{', '.join(dims)}] ({choice})" for dims, choice in pairs)


def dtype_text(op: Op, dtype: str) -> str:
    names = op["types"].get(dtype, [dtype])
    return ", ".join(DTYPE_NAMES[name] for name in names)


def output_dtype(op: Op, variable: str) -> str:
    chosen = (p["name"] for p in op["params"] if p.get("variable") == variable)
    return next(chosen, "same dtype")


def condition(output: dict[str, Any]) -> str:
    if "if" in output:
        return f", with {output['if']}"
    return f", without {output['if_not']}" if "if_not" in output else ""


def docstring(op: Op) -> str:
    lines = [op["doc"], "", *textwrap.wrap(op["formula"], 92), ""]
    for param in op["params"]:
        if param["kind"] == "tensor":
            written = "; written into" if param["mutable"] else ""
            text = f"{shape_text(op, param)} of {dtype_text(op, param['dtype'])}"
            text += f"; {LAYOUTS[param['layout']]}{written}"
            lines += textwrap.wrap(f"{param['name']}: {text}", 92, subsequent_indent="    ")
        elif param["kind"] == "dtype":
            lines.append(f"{param['name']}: {dtype_text(op, param['variable'])}")
    for output in op["outputs"]:
        dtype = DTYPE_NAMES.get(output["dtype"]) or output_dtype(op, output["dtype"])
        lines += textwrap.wrap(
            f"Returns {shape_text(op, output)}, {dtype}{condition(output)}.",
            92,
            subsequent_indent="    ",
        )
    lines += ["", *op["example"].splitlines()]
    return "\n".join(f"    {line}".rstrip() for line in lines).strip()


def python_function(op: Op) -> str:
    names = ", ".join(param["name"] for param in op["params"])
    params = python_params(op)
    head = f"def {op['name']}({', '.join(params)}) -> {out_type(op)}:"
    if len(head) > 100:
        body = ",\n    ".join(params)
        head = f"def {op['name']}(\n    {body},\n) -> {out_type(op)}:"
    params_tuple = f"({names}{',' if len(op['params']) == 1 else ''})"
    if op["outputs"]:
        body = f'''if _is_tracing():
        traced: {out_type(op)} = _route("{op["name"]}", {params_tuple}, out)
        return traced
    return _C.{op["name"]}({names}, out)'''
    else:
        body = f'''if _is_tracing():
        _route("{op["name"]}", {params_tuple}, None)
    else:
        _C.{op["name"]}({names})'''
    return f'''{head}
    """{docstring(op)}
    """
    {body}
'''


def ops_py(ops: list[Op]) -> str:
    literal = "Literal, " if any(p["kind"] == "choice" for op in ops for p in op["params"]) else ""
    functions = "\n\n".join(python_function(op) for op in ops)
    exported = "\n".join(f'    "{op["name"]}",' for op in ops)
    return f'''"""The ops, as Python functions. {NOTICE}"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, {literal}TypeVar

from ac4k._native import C as _C

__all__ = [
{exported}
]

# A torch tensor, a NumPy, CuPy or JAX array, or anything with DLPack; results are of the same kind.
Array = TypeVar("Array")


def _is_tracing() -> bool:
    """Whether torch.compile is looking; torch's own function takes its place once it is there."""
    return False


def _route(name: str, params: tuple[Any, ...], out: Any) -> Any:
    raise NotImplementedError  # replaced together with _is_tracing


def _use_torch_tracing_check(
    is_tracing: Callable[[], bool], route: Callable[[str, tuple[Any, ...], Any], Any]
) -> None:
    globals().update(_is_tracing=is_tracing, _route=route)


{functions}'''


def c_pyi(ops: list[Op]) -> str:
    functions = []
    for op in ops:
        params = [part for part in python_params(op) if part != "*"]
        # All of them may be positional here: no default before one that has none.
        required = max((i for i, part in enumerate(params) if " = " not in part), default=-1)
        params[:required] = [part.partition(" = ")[0] for part in params[:required]]
        head = f"def {op['name']}({', '.join(params)}) -> {out_type(op)}: ..."
        if len(head) > 100:
            body = ",\n    ".join(params)
            head = f"def {op['name']}(\n    {body},\n) -> {out_type(op)}: ..."
        functions.append(head)
    text = "\n".join(functions)
    names = [name for name in ("Any", "Literal") if re.search(rf"\b{name}\b", text)]
    literal = "".join(f"{name}, " for name in names)
    return f'''"""The compiled eager door. {NOTICE}"""

from typing import {literal}TypeVar

Array = TypeVar("Array")

__version__: str

{text}

def op_table_json() -> str: ...
def info_json() -> str: ...
def set(name: str, value: str, /) -> None: ...
def get(name: str, /) -> str: ...
def jit_compile(
    source: str, entry: str, options: str | None, arch: str | None, /
) -> object: ...
def jit_build(module: str | None, arch: str | None, /) -> str: ...
def jit_list() -> str: ...
def jit_clear(module: str | None, arch: str | None) -> int: ...
def kernel_find(module: str, entry: str, arch: str | None, /) -> object: ...
def kernel_json(kernel: object, /) -> str: ...
def kernel_launch(
    kernel: object,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    cluster: tuple[int, int, int],
    shared_bytes: int,
    dependent: bool,
    device: int,
    stream: int,
    params: tuple[bytes, ...],
    /,
) -> None: ...
def synchronize(device: int, /) -> None: ...
def device_of(pointer: int, /) -> int: ...
def describe(array: object, /) -> tuple[int, tuple[int, ...], int, int, int]: ...
def gguf_open(path: bytes, /) -> GGUFFile: ...
def quant_linear_configs(
    fmt: str, device_type: int, device_id: int, tokens: int, N: int, K: int, /
) -> str: ...
def w4a16_runner(
    is_bf16: bool, quant: int, device_type: int, device_id: int, /
) -> object: ...
def w4a16_configs(runner: object, M: int, N: int, K: int, /) -> list[str]: ...
def w4a16_best_config(
    runner: object, M: int, N: int, K: int, group_size: int, /
) -> int: ...
def w4a16_workspace_size(runner: object, M: int, N: int, K: int, /) -> int: ...
def w4a16_tune(
    runner: object,
    product: tuple[int, int, int, int, int, int, int, int],
    stream: int,
    seconds: float,
    /,
) -> tuple[int, list[float]]: ...
def calibrate_torch_guard() -> bool: ...
def set_torch_guard(enabled: bool, /) -> None: ...

class GGUFFile:
    def header(self) -> tuple[int, int, int, int]: ...
    def metadata(self) -> dict[str, Any]: ...
    def kinds(self) -> dict[str, Any]: ...
    def tensors(self) -> list[tuple[str, str, tuple[int, ...], int, int]]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
'''


# ---- C and C++ -------------------------------------------------------------------------------


def c_params(op: Op) -> list[str]:
    parts = []
    for param in op["params"]:
        kind = "const DLTensor*" if param["kind"] == "tensor" else C_TYPES[param["kind"]]
        parts.append(f"{kind} {param['name']}")
    parts += [f"const DLTensor* {name}" for name in out_names(op)]
    return [*parts, "void* stream"]


def out_names(op: Op) -> list[str]:
    count = len(op["outputs"])
    return ["out"] if count == 1 else [f"out{i}" for i in range(count)]


def c_arg(param: Param) -> str:
    name = param["name"]
    kind = "choice" if param["kind"] == "dtype" else param["kind"]
    return f"ac4k_{kind}_arg({name})"


def c_function(op: Op) -> str:
    args = ", ".join(c_arg(param) for param in op["params"])
    outs = ", ".join(out_names(op))
    outputs = f"  const DLTensor* const outputs[] = {{{outs}}};\n" if outs else ""
    given = "outputs" if outs else "NULL"
    counts = len(op["params"]), len(op["outputs"])
    return f"""/* {op["doc"]} {op["signature"]} */
static inline ac4k_status ac4k_{op["name"]}({", ".join(c_params(op))}) {{
  const ac4k_arg args[] = {{{args}}};
{outputs}  return ac4k_call(ac4k_find_op("{op["name"]}"), args, {counts[0]}, {given}, {counts[1]},
                   stream);
}}
"""


def ops_h(ops: list[Op]) -> str:
    functions = "\n".join(c_function(op) for op in ops)
    return f"""/* One function per op. {NOTICE}
 * A NULL for an optional tensor, a choice or a dtype means its default, and a NULL for an output
 * that it is not there. */
#ifndef AC4K_OPS_H_
#define AC4K_OPS_H_

#include "ac4k.h"

static inline ac4k_arg ac4k_tensor_arg(const DLTensor* tensor) {{
  ac4k_arg arg;
  arg.kind = tensor ? AC4K_ARG_TENSOR : AC4K_ARG_NONE;
  arg.value.tensor = tensor;
  return arg;
}}
static inline ac4k_arg ac4k_int_arg(int64_t integer) {{
  ac4k_arg arg;
  arg.kind = AC4K_ARG_INT;
  arg.value.integer = integer;
  return arg;
}}
static inline ac4k_arg ac4k_float_arg(double real) {{
  ac4k_arg arg;
  arg.kind = AC4K_ARG_FLOAT;
  arg.value.real = real;
  return arg;
}}
static inline ac4k_arg ac4k_bool_arg(int boolean) {{
  ac4k_arg arg;
  arg.kind = AC4K_ARG_BOOL;
  arg.value.integer = boolean;
  return arg;
}}
static inline ac4k_arg ac4k_choice_arg(const char* string) {{
  ac4k_arg arg;
  arg.kind = string ? AC4K_ARG_STRING : AC4K_ARG_NONE;
  arg.value.string = string;
  return arg;
}}

{functions}
#endif /* AC4K_OPS_H_ */
"""


def cpp_function(op: Op) -> str:
    parts, args = [], []
    tensors = [param for param in op["params"] if param["kind"] == "tensor"]
    outs = out_names(op)
    for param in tensors:
        optional = param["has_default"]
        parts.append(
            f"const {'std::optional<TensorView>&' if optional else 'TensorView&'} {param['name']}"
        )
    scalars = [param for param in op["params"] if param["kind"] != "tensor"]
    required = [param for param in scalars if not param["has_default"]]
    parts += [f"{C_TYPES[param['kind']]} {param['name']}" for param in required]
    optional_outs = {
        name
        for name, output in zip(outs, op["outputs"], strict=True)
        if "if" in output or "if_not" in output
    }
    for name in outs:
        optional = name in optional_outs
        parts.append(f"const {'std::optional<TensorView>&' if optional else 'TensorView&'} {name}")
    for param in scalars:
        if param["has_default"]:
            default = python_default(param).replace("True", "true").replace("False", "false")
            parts.append(f"{C_TYPES[param['kind']]} {param['name']} = {default}")
    parts.append("void* stream = nullptr")
    for param in op["params"]:
        if param["kind"] != "tensor":
            args.append(param["name"])
        elif param["has_default"]:
            args.append(f"{param['name']} ? {param['name']}->get() : nullptr")
        else:
            args.append(f"{param['name']}.get()")
    for name in outs:
        args.append(
            f"{name} ? {name}->get() : nullptr" if name in optional_outs else f"{name}.get()"
        )
    args.append("stream")
    return f"""// {op["doc"]} {op["signature"]}
inline void {op["name"]}({", ".join(parts)}) {{
  check(ac4k_{op["name"]}({", ".join(args)}));
}}
"""


def ops_hpp(ops: list[Op]) -> str:
    functions = "\n".join(cpp_function(op) for op in ops)
    return f"""// One function per op; a failure throws ac4k::Error. {NOTICE}
#pragma once

#include <optional>

#include "ops.h"
#include "tensor.hpp"

namespace ac4k {{

{functions}
}}  // namespace ac4k
"""


def ops_md(ops: list[Op]) -> str:
    parts = [f"# Ops\n\n<!-- {NOTICE} -->\n"]
    for op in ops:
        dtypes = "; ".join(f"{name}: {dtype_text(op, name)}" for name in op["types"])
        places = "CPU, CUDA" if op["cuda"] else "CPU"
        example = "\n".join(op["example"].splitlines())
        parts.append(
            f"## {op['name']}\n\n{op['doc']}\n\n```\n{op['signature']}\n```\n\n{op['formula']}\n\n"
            f"- Dtypes: {dtypes or 'as in the signature'}\n- Runs on: {places}\n"
            f"- Tolerance: {op['tolerance']:g} × eps of the arithmetic × magnitude, on top of the "
            f"rounding to the dtype (`ac4k.reference`)\n\n```python\n{example}\n```\n"
        )
    return "\n".join(parts)


# ---- Driver ----------------------------------------------------------------------------------


def clang_format(text: str, name: str) -> str:
    import subprocess

    command = [str(Path(sys.executable).parent / "clang-format"), f"--assume-filename={name}"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def ruff_format(text: str, name: str) -> str:
    import subprocess

    command = [str(Path(sys.executable).parent / "ruff"), "format", "-", f"--stdin-filename={name}"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def main() -> int:
    import ac4k

    ops = ac4k.op_table()
    files = {
        "python/ac4k/ops.py": ruff_format(ops_py(ops), "ops.py"),
        "python/ac4k/_C.pyi": ruff_format(c_pyi(ops), "_C.pyi"),
        "include/ac4k/ops.h": clang_format(ops_h(ops), "ops.h"),
        "include/ac4k/ops.hpp": clang_format(ops_hpp(ops), "ops.hpp"),
        "docs/ops.md": ops_md(ops),
    }
    stale = [name for name, text in files.items() if not _holds(ROOT / name, text)]
    if "--check" in sys.argv:
        for name in stale:
            print(f"{name} is out of date: run `make generate`")
        return 1 if stale else 0
    for name in stale:
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(files[name])
        print(f"wrote {name}")
    return 0


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
