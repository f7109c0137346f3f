"""`QuantTensor`: block-quantised weights together with what their bytes mean.

Without torch this is a small object around a NumPy array. Around a torch tensor it is a
`torch.Tensor` too (ac4k/_torch_quant_tensor.py), which parameters, state dicts, `.to(device)`,
`torch.save` and `torch.compile` take like any other.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import ac4k
from ac4k._formats import FORMATS, STORED_FORMATS, BlockFormat
from ac4k._w4_format import w4_format

BlockLayout = Literal["gguf", "packed"]

# Rows of a tile of the packed layout, and columns of its blocks for formats of short blocks.
PACKED_ROWS = 64
PACKED_COLUMNS = 64


def block_format(fmt: str) -> BlockFormat:
    """Sizes of a format's blocks, computed with here or only stored in files."""
    known = FORMATS.get(fmt) or STORED_FORMATS.get(fmt)
    if known is not None:
        return known
    w4 = w4_format(fmt)
    if w4 is not None:
        return w4.block
    raise ValueError(
        f"QuantTensor: argument 'fmt': expected one of {', '.join(FORMATS)}, w4_g128_bf16 and the "
        f"like (or one that is only stored: {', '.join(STORED_FORMATS)}), got {fmt!r}"
    )


def raw_shape(fmt: str, shape: Sequence[int]) -> tuple[int, ...]:
    """[..., K / block values, block bytes]: the bytes of a [..., K] tensor in a GGUF file.

    >>> raw_shape("q4_0", (5, 64))
    (5, 2, 18)
    """
    block = block_format(fmt)
    columns = shape[-1] if shape else 1
    if columns % block.block_values != 0:
        raise ValueError(
            f"QuantTensor: argument 'shape': expected a last dim that is a multiple of "
            f"{block.block_values} for {fmt}, got {tuple(shape)}"
        )
    return (*shape[:-1], columns // block.block_values, block.block_bytes)


def packed_bytes(fmt: str, rows: int, columns: int) -> int:
    """Bytes of a [rows, columns] matrix in the packed layout, padding to whole tiles included.

    >>> packed_bytes("q4_0", 65, 96) == 2 * 64 * 2 * 2 * 18
    True
    """
    block = block_format(fmt)
    tile_columns = max(block.block_values, PACKED_COLUMNS)
    padded_rows = math.ceil(rows / PACKED_ROWS) * PACKED_ROWS
    padded_columns = math.ceil(columns / tile_columns) * tile_columns
    size = padded_rows * (padded_columns // block.block_values) * block.block_bytes
    w4 = w4_format(fmt)
    return size + 4 * columns if w4 is not None and w4.ordered else size


class QuantTensor:
    """Weights [..., N, K] in a block format: the `format`, the `shape`, and their bytes, `raw`.

    data: uint8, contiguous; NumPy or torch, never copied. In the layout "gguf" [..., N, K / block
        values, block bytes], or the last two dims as one; in the layout "packed" (what `pack`
        makes) [...] and then any dims that hold the bytes of an [N, K] matrix.
    fmt: "q4_0", "q4_k", "mxfp4" and so on, or what `w4a16_pack` makes; read back as `format`.
    shape: the logical one, what it would be in float32.

    `data` and `layout` are read back as `raw` and `block_layout`: torch tensors have attributes of
    the shorter names. Leading dims can be indexed and sliced: `experts[3]`, `weight[:128]`.

    >>> import numpy as np
    >>> weight = QuantTensor(np.zeros((5, 2, 18), np.uint8), "q4_0", (5, 64))
    >>> weight
    QuantTensor(q4_0, shape=(5, 64))
    >>> weight[1:3].raw.shape
    (2, 2, 18)
    """

    format: str
    shape: tuple[int, ...]
    block_layout: BlockLayout
    raw: Any

    def __new__(
        cls, data: Any, fmt: str, shape: Sequence[int], layout: BlockLayout = "gguf"
    ) -> QuantTensor:
        shape = _sizes(shape)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(data, torch.Tensor):
            from ac4k._torch_quant_tensor import TorchQuantTensor

            return TorchQuantTensor.wrap(_checked(data, fmt, shape, layout), fmt, shape, layout)
        self = super().__new__(cls)
        self.raw = _checked(data, fmt, shape, layout)
        self.format = fmt
        self.block_layout = layout
        self.shape = shape
        return self

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of `raw`."""
        return int(self.raw.nbytes)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, index: Any) -> QuantTensor:
        steps = index if isinstance(index, tuple) else (index,)
        result = self
        dim = 0
        for step in steps:
            result = sliced(result, dim, step)
            dim += isinstance(step, slice)
        return result

    def __iter__(self) -> Iterator[QuantTensor]:
        return (self[i] for i in range(len(self)))

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"QuantTensor ({describe(self)}): a NumPy array of it is not supported; its bytes are "
            "`.raw`, and its method dequantize() gives a plain array"
        )

    def dequantize(self, dtype: Any = "float32") -> Any:
        """The numbers these weights stand for: an array of the kind of `raw`, of this shape.

        >>> import numpy as np
        >>> blocks = ac4k.quantize(np.eye(2, 32, dtype=np.float32), "q8_0")
        >>> weight = QuantTensor(blocks, "q8_0", (2, 32))
        >>> bool(np.allclose(weight.dequantize(), np.eye(2, 32), atol=1e-3))
        True
        """
        if w4_format(self.format) is not None:
            return ac4k.w4a16_dequantize(self, dtype)
        if self.format not in FORMATS:
            raise NotImplementedError(
                f"QuantTensor ({describe(self)}): dequantize: expected one of {', '.join(FORMATS)}"
            )
        fmt: Any = self.format
        return ac4k.dequantize(ac4k.unpack(self).raw, fmt, dtype=dtype)

    def to(self, *args: Any, **kwargs: Any) -> QuantTensor:
        """The same over torch, as `torch.Tensor.to` moves it: `weight.to("cuda")`."""
        import torch

        return QuantTensor(
            torch.from_numpy(self.raw).to(*args, **kwargs),
            self.format,
            self.shape,
            self.block_layout,
        )

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return QuantTensor, (self.raw, self.format, tuple(self.shape), self.block_layout)

    def __repr__(self) -> str:
        return f"QuantTensor({describe(self)})"


def describe(tensor: QuantTensor) -> str:
    packed = ", packed" if tensor.block_layout == "packed" else ""
    return f"{tensor.format}, shape={tuple(tensor.shape)}{packed}"


def sliced(tensor: QuantTensor, dim: int, index: Any) -> QuantTensor:
    """One dim indexed or sliced; blocks, and tiles of the packed layout, are never cut."""
    whole = 1 if tensor.block_layout == "gguf" else 2
    dims = len(tensor.shape)
    if dim >= dims - whole:
        raise IndexError(
            f"QuantTensor ({describe(tensor)}): expected an index into its first {dims - whole} "
            f"dims, got one into dim {dim}"
        )
    if isinstance(index, slice):
        size = len(range(*index.indices(tensor.shape[dim])))
        shape = (*tensor.shape[:dim], size, *tensor.shape[dim + 1 :])
    else:
        index = _position(tensor, index)
        shape = (*tensor.shape[:dim], *tensor.shape[dim + 1 :])
    raw = tensor.raw[(slice(None),) * dim + (index,)]
    if not _is_contiguous(raw):
        raw = raw.contiguous() if hasattr(raw, "contiguous") else raw.copy()
    return QuantTensor(raw, tensor.format, shape, tensor.block_layout)


def _position(tensor: QuantTensor, index: Any) -> int:
    try:
        if not isinstance(index, bool):
            return operator.index(index)
    except TypeError:
        pass
    raise TypeError(
        f"QuantTensor ({describe(tensor)}): expected an int or a slice as index, "
        f"got {type(index).__name__}"
    )


def _sizes(shape: Any) -> tuple[int, ...]:
    try:
        return tuple(operator.index(size) for size in shape)
    except TypeError as error:
        raise TypeError(
            f"QuantTensor: argument 'shape': expected integers, got {shape!r}"
        ) from error


def _is_contiguous(data: Any) -> bool:
    return bool(data.is_contiguous() if hasattr(data, "is_contiguous") else data.flags.c_contiguous)


def _checked(data: Any, fmt: str, shape: tuple[int, ...], layout: str) -> Any:
    """`data` with the dims that `raw` has, or an error that says what is wrong with it."""

    def fail(expected: str, got: object, kind: type[Exception] = ValueError) -> Exception:
        return kind(f"QuantTensor: argument 'data': expected {expected}, got {got}")

    if layout not in get_args(BlockLayout):
        raise ValueError(f"QuantTensor: argument 'layout': expected gguf or packed, got {layout!r}")
    if any(size < 0 for size in shape):
        raise ValueError(f"QuantTensor: argument 'shape': expected sizes >= 0, got {shape}")
    w4 = w4_format(fmt)
    if w4 is None:
        blocks = raw_shape(fmt, shape)
    elif layout != "packed":
        raise ValueError(f"QuantTensor: argument 'layout': expected packed for {fmt}, got {layout}")
    elif (problem := w4.problem_with(shape[-1] if shape else 1)) is not None:
        raise ValueError(f"QuantTensor: argument 'shape': expected {problem}")
    dtype = str(getattr(data, "dtype", type(data).__name__)).removeprefix("torch.")
    if dtype != "uint8":
        raise fail("a uint8 tensor or array", dtype, TypeError)
    if not _is_contiguous(data):
        raise fail("contiguous bytes", "a strided view")
    given = tuple(data.shape)
    if layout == "gguf":
        if given == blocks:
            return data
        if given == (*blocks[:-2], blocks[-2] * blocks[-1]):
            return data.reshape(blocks)
        raise fail(f"shape {blocks}", given)
    if len(shape) < 2:
        raise ValueError(
            f"QuantTensor: argument 'shape': expected [..., N, K] for packed data, got {shape}"
        )
    leading, size = shape[:-2], packed_bytes(fmt, *shape[-2:])
    if given[: len(leading)] != leading or math.prod(given[len(leading) :]) != size:
        raise fail(f"{size} bytes for each matrix of {shape} in {fmt}", f"shape {given}")
    return data
