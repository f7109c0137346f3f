"""Arguments for any op, made from its entry in the op table and a size for each dimension."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .arrays import DTYPES, Arrays, DType

# What a dimension's name stands for; "..." stands for several.
Sizes = Mapping[str, int | tuple[int, ...]]
_DIM = re.compile(r"(\w+)\s*(?:([*/])\s*(\d+))?")


@dataclass
class Arguments:
    """One call of an op: `fn(*args, out=out, **options)`."""

    args: list[Any]
    options: dict[str, Any]
    outs: list[Any]
    tensors: list[int] = field(default_factory=list)  # the positions of tensors in args

    @property
    def out(self) -> Any:
        return self.outs[0] if len(self.outs) == 1 else tuple(self.outs)

    @property
    def inputs(self) -> list[Any]:
        return [self.args[i] for i in self.tensors]

    @property
    def bytes_read(self) -> int:
        return sum(nbytes(tensor) for tensor in self.inputs)

    @property
    def bytes_written(self) -> int:
        return sum(nbytes(out) for out in self.outs)

    def clone(self, arrays: Arrays) -> Arguments:
        """The same values in other memory."""
        args = [arrays.copy(a) if i in self.tensors else a for i, a in enumerate(self.args)]
        return Arguments(args, self.options, [arrays.copy(o) for o in self.outs], self.tensors)


def nbytes(array: Any) -> int:
    return int(array.nbytes)


def op_named(name: str) -> dict[str, Any]:
    """The entry of the op table."""
    import ac4k

    table = {op["name"]: op for op in ac4k.op_table()}
    if name not in table:
        raise ValueError(f"no op '{name}'; known: {', '.join(sorted(table))}")
    return table[name]


def dim_size(text: str, sizes: Sizes) -> int:
    """The value of 'N', '128', 'K/32' or '2' given the sizes of the names."""
    match = _DIM.fullmatch(text)
    if match is None:
        raise ValueError(f"cannot read dimension '{text}'")
    name, operator, number = match.groups()
    value = int(name) if name.isdigit() else sizes.get(name)
    if not isinstance(value, int):
        raise ValueError(f"no size given for dimension '{name}'")
    if operator is None:
        return value
    return value * int(number) if operator == "*" else value // int(number)


def shape_of(dims: list[str], sizes: Sizes) -> tuple[int, ...]:
    shape: list[int] = []
    for dim in dims:
        if dim == "...":
            leading = sizes["..."]
            shape += [leading] if isinstance(leading, int) else leading
        else:
            shape.append(dim_size(dim, sizes))
    return tuple(shape)


def dim_names(op: Mapping[str, Any]) -> list[str]:
    """The names that need a size, in the order in which the signature mentions them."""
    names: list[str] = []
    tensors = [p for p in op["params"] if p["kind"] == "tensor"] + list(op["outputs"])
    for dim in (dim for tensor in tensors for dim in tensor["dims"]):
        match = _DIM.fullmatch(dim)
        name = match.group(1) if match else dim
        if not name.isdigit() and name not in names:
            names.append(name)
    return names


def dtypes_of(op: Mapping[str, Any]) -> list[DType]:
    """The types the op's first type variable takes; the first tensor's type when it has none."""
    if op["types"]:
        names = next(iter(op["types"].values()))
    else:
        names = [next(p["dtype"] for p in op["params"] if p["kind"] == "tensor")]
    return [DTYPES[name] for name in names if name in DTYPES]


def make_arguments(
    op: Mapping[str, Any],
    sizes: Sizes,
    dtype: DType,
    arrays: Arrays,
    *,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Arguments:
    """Random tensors of the op's shapes; scalars from `sizes` or `options`, else their default.

    `dtype` is the value of the first type variable; others take their first type.
    """
    variables = {name: DTYPES[types[0]] for name, types in op["types"].items()}
    if variables:
        variables[next(iter(variables))] = dtype
    result = Arguments([], dict(options or {}), [])
    for param in op["params"]:
        name = param["name"]
        if param["kind"] == "tensor":
            if param["optional"]:
                continue
            shape = shape_of(param["dims"], sizes)
            kind = variables.get(param["dtype"]) or DTYPES[param["dtype"]]
            result.tensors.append(len(result.args))
            result.args.append(arrays.random(shape, kind, seed + len(result.args)))
        elif name not in result.options and not param["has_default"]:
            value = sizes.get(name, _plain_value(param))
            if param["keyword_only"]:
                result.options[name] = value
            else:
                result.args.append(value)
    for output in op["outputs"]:
        kind = variables.get(output["dtype"]) or DTYPES[output["dtype"]]
        result.outs.append(arrays.empty(shape_of(output["dims"], sizes), kind))
    return result


def _plain_value(param: Mapping[str, Any]) -> Any:
    plain = {"int": 1, "float": 1.0, "bool": False}
    return param["choices"][0] if param["kind"] == "choice" else plain[param["kind"]]
