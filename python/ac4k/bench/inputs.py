"""Arguments for any op, made from its entry in the op table and a size for each dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._signature import dims_of, dtype_of, is_present, shape_of
from .arrays import DTYPES, Arrays, DType

# What a dimension's name stands for; "..." stands for several.
Sizes = Mapping[str, int | tuple[int, ...]]


@dataclass
class Arguments:
    """One call of an op: `fn(*args, **options, out=out)`."""

    args: list[Any]
    options: dict[str, Any]
    outs: list[Any]
    inputs: list[Any] = field(default_factory=list)  # the tensors among args and options
    mutable: list[Any] = field(default_factory=list)  # those of them the op writes into

    @property
    def out(self) -> Any:
        return self.outs[0] if len(self.outs) == 1 else tuple(self.outs)

    def call(self, fn: Callable[..., Any]) -> Any:
        """Into the outputs made for it."""
        if not self.outs:
            return fn(*self.args, **self.options)
        return fn(*self.args, **self.options, out=self.out)

    @property
    def bytes_read(self) -> int:
        return sum(nbytes(tensor) for tensor in self.inputs)

    @property
    def bytes_written(self) -> int:
        return sum(nbytes(out) for out in self.outs)

    def add(self, param: Mapping[str, Any], value: Any, *, named: bool) -> None:
        if named:
            self.options[param["name"]] = value
        else:
            self.args.append(value)
        if param["kind"] == "tensor":
            self.inputs.append(value)
            if param["mutable"]:
                self.mutable.append(value)

    def replaced(self, replace: Callable[[Any], Any]) -> Arguments:
        """The same call with `replace(tensor)` for each tensor."""
        new = {id(tensor): replace(tensor) for tensor in (*self.inputs, *self.outs)}

        def swap(values: Iterable[Any]) -> list[Any]:
            return [new.get(id(value), value) for value in values]

        options = dict(zip(self.options, swap(self.options.values()), strict=True))
        rest = swap(self.outs), swap(self.inputs), swap(self.mutable)
        return Arguments(swap(self.args), options, *rest)

    def clone(self, arrays: Arrays) -> Arguments:
        """The same values in other memory."""
        return self.replaced(arrays.copy)


def nbytes(array: Any) -> int:
    return int(array.nbytes)


def op_named(name: str) -> dict[str, Any]:
    """The entry of the op table."""
    import ac4k

    table = {op["name"]: op for op in ac4k.op_table()}
    if name not in table:
        raise ValueError(f"no op '{name}'; known: {', '.join(sorted(table))}")
    return table[name]


def dtypes_of(op: Mapping[str, Any]) -> list[DType]:
    """The types the op's first type variable takes; the first tensor's type when it has none."""
    if op["types"]:
        names = next(iter(op["types"].values()))
    else:
        names = [next(p["dtype"] for p in op["params"] if p["kind"] == "tensor")]
    return [DTYPES[name] for name in names if name in DTYPES]


def bound_types(op: Mapping[str, Any], dtype: DType) -> dict[str, str]:
    """The type of each type variable: `dtype` where it can be, the first one elsewhere."""
    return {
        name: dtype.name if dtype.name in types else types[0] for name, types in op["types"].items()
    }


def why_not(
    op: Mapping[str, Any], dtype: DType, arrays: Arrays, options: Mapping[str, Any] | None = None
) -> str | None:
    """Why `make_arguments` cannot: `arrays` lack the type of an input or a result, which may be
    another than `dtype`. None when it can."""
    types = bound_types(op, dtype)
    values = _with_dtype(op, dtype, options)
    tensors = [p for p in op["params"] if p["kind"] == "tensor" and not p["optional"]]
    tensors += [output for output in op["outputs"] if is_present(op, output, values)]
    kinds = (DTYPES[dtype_of(op, tensor, types, values)] for tensor in tensors)
    return next(filter(None, map(arrays.why_not, kinds)), None)


def _with_dtype(
    op: Mapping[str, Any], dtype: DType, options: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The options, and `dtype` by name where a parameter of the op takes it."""
    types = bound_types(op, dtype)
    named = {
        param["name"]: dtype.torch
        for param in op["params"]
        if param["kind"] == "dtype" and types[param["variable"]] == dtype.name
    }
    return named | dict(options or {})


def make_arguments(
    op: Mapping[str, Any],
    sizes: Sizes,
    dtype: DType,
    arrays: Arrays,
    *,
    options: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Arguments:
    """Random tensors of the op's shapes; scalars from `sizes` or `options`, else their default.

    `dtype` is the value of the type variables that can have it; others take their first type.
    `given` holds tensors that cannot be random (indices) and the optional ones to pass; a function
    in it is called with shape and dtype.
    """
    types = bound_types(op, dtype)
    given = dict(given or {})
    result = Arguments([], _with_dtype(op, dtype, options), [])
    values = {**sizes, **given, **result.options}
    named = False  # once a parameter is left out, those behind it go by name
    for param in op["params"]:
        name = param["name"]
        named |= param["keyword_only"]
        if param["kind"] == "tensor":
            if param["optional"] and name not in given:
                named = True
                continue
            shape = shape_of(dims_of(op, param, values), sizes)
            kind = DTYPES[dtype_of(op, param, types, values)]
            made = given.get(name)
            made = made(shape, kind) if callable(made) else made
            if made is None:
                made = arrays.random(shape, kind, seed + len(result.args))
            result.add(param, made, named=named)
        elif name not in result.options and not param["has_default"]:
            result.add(param, sizes.get(name, _plain_value(param)), named=named)
        else:
            named = True
    for output in op["outputs"]:
        if is_present(op, output, values):
            kind = DTYPES[dtype_of(op, output, types, values)]
            result.outs.append(arrays.empty(shape_of(dims_of(op, output, values), sizes), kind))
    return result


def _plain_value(param: Mapping[str, Any]) -> Any:
    plain = {"int": 1, "float": 1.0, "bool": False}
    return param["choices"][0] if param["kind"] == "choice" else plain[param["kind"]]
