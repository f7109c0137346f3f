"""Shapes and dtypes of an op's tensors, worked out from its entry in the op table.

Sizes may be numbers or torch's symbolic ones; `values` holds the arguments of a call by name, those
left out having their default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

Op = Mapping[str, Any]
Values = Mapping[str, Any]

_DIM = re.compile(
    r"(?:(?P<number>\d+)|ceil\((?P<up>\w+)/(?P<by>\d+)\)|(?P<name>\w+)(?:/(?P<exact>\d+))?)"
    r"(?:\*(?P<times>\d+))?"
)


class Dim(NamedTuple):
    """`symbol / divide * multiply`, the division exact or rounded up; a number without a symbol."""

    symbol: str | None
    divide: int
    round_up: bool
    multiply: int

    def extent(self, value: Any) -> Any:
        if self.symbol is None:
            return self.multiply
        quotient = -(-value // self.divide) if self.round_up else value // self.divide
        return quotient * self.multiply

    def is_whole(self, value: Any) -> Any:
        """Whether `extent` leaves nothing over where the division has to be exact."""
        return self.round_up or self.divide == 1 or value % self.divide == 0


@cache
def parse_dim(text: str) -> Dim:
    match = _DIM.fullmatch(text)
    if match is None:
        raise ValueError(f"cannot read dimension '{text}'")
    times = int(match["times"] or 1)
    if match["number"] is not None:
        return Dim(None, 1, False, int(match["number"]))
    if match["up"] is not None:
        return Dim(match["up"], int(match["by"]), True, times)
    return Dim(match["name"], int(match["exact"] or 1), False, times)


def parameter(op: Op, name: str) -> dict[str, Any]:
    return next(param for param in op["params"] if param["name"] == name)


def value_of(op: Op, name: str, values: Values) -> Any:
    value = values.get(name)
    return parameter(op, name).get("default") if value is None else value


def dims_of(op: Op, tensor: Mapping[str, Any], values: Values) -> list[str]:
    """The dims that hold for these arguments."""
    dims: list[Any] = tensor["dims"]
    if "dims_by" not in tensor:
        return dims
    choices: list[str] = parameter(op, tensor["dims_by"])["choices"]
    chosen: list[str] = dims[choices.index(value_of(op, tensor["dims_by"], values))]
    return chosen


def is_present(op: Op, output: Mapping[str, Any], values: Values) -> bool:
    """Whether a call with these arguments has the output."""
    name = output.get("if", output.get("if_not"))
    if name is None:
        return True
    value = value_of(op, name, values)
    return (value is not None and value is not False) == ("if" in output)


def dtype_of(op: Op, tensor: Mapping[str, Any], types: Mapping[str, str], values: Values) -> str:
    """The short name of its dtype, given those of the type variables that tensors have bound."""
    dtype: str = tensor["dtype"]
    if dtype not in op["types"]:
        return dtype
    for param in op["params"]:
        if param["kind"] == "dtype" and param["variable"] == dtype:
            chosen = param["choices"].index(str(value_of(op, param["name"], values)))
            short: str = op["types"][dtype][chosen]
            return short
    return types[dtype]


def all_dims(tensor: Mapping[str, Any]) -> Iterable[str]:
    """The dims of every alternative."""
    for dims in tensor["dims"] if "dims_by" in tensor else [tensor["dims"]]:
        yield from dims


def dim_names(op: Op) -> list[str]:
    """The names that need a size, in the order in which the signature mentions them."""
    names: list[str] = []
    tensors = [p for p in op["params"] if p["kind"] == "tensor"] + list(op["outputs"])
    for text in (dim for tensor in tensors for dim in all_dims(tensor)):
        name = text if text == "..." else parse_dim(text).symbol
        if name is not None and name not in names and name != "rows":
            names.append(name)
    return names


def shape_of(dims: Iterable[str], sizes: Mapping[str, Any]) -> tuple[Any, ...]:
    """The shape for the sizes of names, of which "..." has several."""
    leading = sizes.get("...", ())
    leading = (leading,) if isinstance(leading, int) else tuple(leading)
    shape: list[Any] = []
    for text in dims:
        if text == "...":
            shape += leading
            continue
        dim = parse_dim(text)
        if dim.symbol == "rows":
            shape.append(dim.extent(math.prod(leading)))
        elif dim.symbol is None:
            shape.append(dim.multiply)
        elif dim.symbol not in sizes:
            raise ValueError(f"no size given for dimension '{dim.symbol}'")
        else:
            shape.append(dim.extent(sizes[dim.symbol]))
    return tuple(shape)
