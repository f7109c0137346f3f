"""Some rows of a large call, which are a call of their own: what is compared with float64 where a
reference of all of it would take longer than what is to be measured.

An op treats rows (the dims "...") and the rows of weights it multiplies by apart from each other,
so the result of some of them is part of the result of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .._signature import dims_of, is_present, parse_dim
from .inputs import Arguments

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ELEMENTS = 1 << 21  # of the tensors that a dimension is cut from
_LEAST = 4  # the first, the last and two more


@dataclass(frozen=True)
class Sample:
    arguments: Arguments
    results: list[Any]
    text: str  # "256 of 4096 N, 146 of 512 rows"


@dataclass(frozen=True)
class _Tensor:
    array: Any
    dims: list[str]
    is_input: bool

    def axis(self, name: str) -> int | None:
        """Where the dimension is; None where it is not."""
        for place, text in enumerate(self.dims):
            if text == name or (text != "..." and parse_dim(text).symbol == name):
                behind_leading = "..." in self.dims[:place]
                return place + (self.leading() - 1 if behind_leading else 0)
        return None

    def leading(self) -> int:
        """How many dims "..." stands for."""
        return int(self.array.ndim) - len(self.dims) + 1

    def divisor(self, name: str) -> int:
        """How many indices of the dimension share one of this tensor: 64 rows of a packed tile."""
        dims = [parse_dim(text) for text in self.dims if text != "..."]
        return next((dim.divide for dim in dims if dim.symbol == name), 1)

    def size(self, name: str) -> int:
        axis = self.axis(name)
        assert axis is not None
        axes = self.leading() if name == "..." else 1
        return math.prod(self.array.shape[axis : axis + axes])


@dataclass(frozen=True)
class _Choice:
    """Indices of a dimension; `tiles` of those that come `granule` at a time."""

    indices: NDArray[Any]
    tiles: NDArray[Any]
    size: int


def sample(
    op: Mapping[str, Any], arguments: Arguments, results: list[Any], independent: Iterable[str]
) -> Sample | None:
    """Those of `independent` that are large, at their first, their last and random indices. None
    where the op cannot be cut, or is small enough to be compared whole."""
    if arguments.mutable:
        return None
    tensors = list(_tensors_of(op, arguments, results))
    choices: dict[str, _Choice] = {}
    for name in independent:
        if _can_be_cut(name, tensors) and (choice := _choice(name, tensors)) is not None:
            choices[name] = choice
    if not choices:
        return None
    cut = {id(tensor.array): _cut(tensor, choices) for tensor in tensors}
    words = {"...": "rows"}
    text = ", ".join(f"{len(c.indices)} of {c.size} {words.get(n, n)}" for n, c in choices.items())
    return Sample(_reduced(op, arguments, cut, choices), [cut[id(r)] for r in results], text)


def _tensors_of(
    op: Mapping[str, Any], arguments: Arguments, results: list[Any]
) -> Iterator[_Tensor]:
    names = [param["name"] for param in op["params"]]
    values = {**dict(zip(names, arguments.args, strict=False)), **arguments.options}
    for param in op["params"]:
        if param["kind"] == "tensor" and values.get(param["name"]) is not None:
            yield _Tensor(values[param["name"]], dims_of(op, param, values), is_input=True)
    outputs = [output for output in op["outputs"] if is_present(op, output, values)]
    for output, result in zip(outputs, results, strict=True):
        yield _Tensor(result, dims_of(op, output, values), is_input=False)


def _can_be_cut(name: str, tensors: list[_Tensor]) -> bool:
    """A result without the dimension is made of all of it (a scale of the whole tensor), and so is
    one of "rows", which are counted through all leading dims."""
    if any(tensor.axis(name) is None for tensor in tensors if not tensor.is_input):
        return False
    texts = [text for tensor in tensors for text in tensor.dims if text != "..."]
    dims = [parse_dim(text) for text in texts]
    if name == "...":
        return all(dim.symbol != "rows" for dim in dims)
    of_it = [dim for dim in dims if dim.symbol == name]
    return all(dim.multiply == 1 for dim in of_it) and len({d.divide for d in of_it} - {1}) <= 1


def _choice(name: str, tensors: list[_Tensor]) -> _Choice | None:
    import numpy as np

    having = [tensor for tensor in tensors if tensor.axis(name) is not None]
    granule = max(tensor.divisor(name) for tensor in having)
    size = next((t.size(name) for t in having if t.divisor(name) == 1), 0)
    count = -(-size // granule)
    elements = sum(math.prod(tensor.array.shape) for tensor in having if tensor.is_input)
    wanted = max(_LEAST, _ELEMENTS * count // max(elements, 1))
    if wanted >= count:
        return None
    drawn = np.random.default_rng(size).choice(count - 2, wanted - 2, replace=False) + 1
    tiles = np.sort(np.concatenate([[0], drawn, [count - 1]]))
    indices = (tiles[:, None] * granule + np.arange(granule)).reshape(-1)
    return _Choice(indices[indices < size], tiles, size)


def _cut(tensor: _Tensor, choices: Mapping[str, _Choice]) -> Any:
    for name, choice in choices.items():
        axis = tensor.axis(name)
        if axis is None:
            continue
        array = tensor.array
        if name == "...":
            behind = array.shape[axis + tensor.leading() :]
            array = array.reshape(*array.shape[:axis], -1, *behind)
        indices = choice.tiles if tensor.divisor(name) > 1 else choice.indices
        tensor = replace(tensor, array=_take(array, axis, indices))
    return tensor.array


def _take(array: Any, axis: int, indices: NDArray[Any]) -> Any:
    if not hasattr(array, "index_select"):
        return array.take(indices, axis)
    import torch

    # Of one byte: torch selects from few types.
    bytes_ = array.view(torch.uint8) if array.itemsize == 1 else array
    taken = bytes_.index_select(axis, torch.from_numpy(indices).to(array.device))
    return taken.view(array.dtype)


def _reduced(
    op: Mapping[str, Any],
    arguments: Arguments,
    cut: Mapping[int, Any],
    choices: Mapping[str, _Choice],
) -> Arguments:
    sizes = {name: len(choice.indices) for name, choice in choices.items()}

    def new(name: str, value: Any) -> Any:
        return cut.get(id(value), sizes.get(name, value))

    names = [param["name"] for param in op["params"]]
    return Arguments(
        args=[new(name, value) for name, value in zip(names, arguments.args, strict=False)],
        options={name: new(name, value) for name, value in arguments.options.items()},
        outs=[cut[id(out)] for out in arguments.outs],
        inputs=[cut[id(tensor)] for tensor in arguments.inputs],
    )
