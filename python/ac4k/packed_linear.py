"""Products with block-quantised weights: `pack` them once, then `linear`; `unpack` undoes it."""

from __future__ import annotations

import json
import math
import operator
import reprlib
from typing import Any

from ac4k import _native, ops
from ac4k._w4_format import w4_format
from ac4k.quant_tensor import (
    PACKED_COLUMNS,
    PACKED_ROWS,
    QuantTensor,
    block_format,
    raw_shape,
    sliced,
)

_DEVICES = {"cpu": 1, "cuda": 2}  # DLPack's numbers
_LONGEST_ID = 10  # digits of a number below 2^31


def pack(w_q: Any, fmt: str | None = None) -> QuantTensor:
    """GGUF blocks in the order that `linear` reads, on CPU and GPU and for any number of tokens.

    w_q: a `QuantTensor` [N, K] as a GGUF file holds it, or its bytes, uint8 [N, K / block values,
        block bytes], together with their format ("q4_0", "q4_k" and so on).

    The bytes stay the same but for their order; N and K are padded to whole tiles of 64.

    >>> import numpy as np
    >>> ac4k.pack(np.zeros((128, 2, 18), np.uint8), "q4_0")
    QuantTensor(q4_0, shape=(128, 64), packed)
    """
    if not isinstance(w_q, QuantTensor):
        if fmt is None:
            raise TypeError("pack: argument 'fmt': expected the format of the bytes, got None")
        blocks = tuple(getattr(w_q, "shape", ()))
        if len(blocks) != 3:
            raise ValueError(
                "pack: argument 'w_q': expected [N, K / block values, block bytes], "
                f"got {blocks or type(w_q).__name__}"
            )
        w_q = QuantTensor(w_q, fmt, (blocks[0], blocks[1] * block_format(fmt).block_values))
    weight: QuantTensor = w_q
    if fmt not in (None, weight.format):
        raise ValueError(
            f"pack: argument 'fmt': expected {weight.format}, as 'w_q' is, got {fmt!r}"
        )
    if weight.block_layout == "packed":
        return weight
    rows, columns = matrix_shape("pack", "w_q", weight)
    packed = on_cpu(ops.pack_weight, weight.raw, rows, columns, fmt=weight.format)
    return QuantTensor(packed, weight.format, (rows, columns), "packed")


def unpack(w: QuantTensor) -> QuantTensor:
    """What was given to `pack`, bit by bit; `.raw` are the GGUF blocks.

    w: [N, K], or [..., N, K]: several that were packed one by one, and stacked.

    >>> import numpy as np
    >>> blocks = np.arange(72, dtype=np.uint8).reshape(2, 2, 18)
    >>> bool((ac4k.unpack(ac4k.pack(blocks, "q4_0")).raw == blocks).all())
    True
    """
    if not isinstance(w, QuantTensor):
        raise TypeError(f"unpack: argument 'w': expected a QuantTensor, got {type(w).__name__}")
    if w.block_layout == "gguf":
        return w
    if w4_format(w.format) is not None:
        raise ValueError(
            "unpack: argument 'w': expected GGUF weights (ac4k.w4a16_unpack is for these), "
            f"got {w!r}"
        )
    *leading, rows, columns = w.shape
    tiles = -(-rows // PACKED_ROWS)
    # Several are taken for one, of whole tiles; the rows that pad each are cut off afterwards.
    unpacked_rows = tiles * PACKED_ROWS if leading else rows
    packed = w.raw.reshape(math.prod(leading) * tiles, *packed_block_shape(w.format, columns))
    blocks = on_cpu(
        ops.unpack_weight, packed, math.prod(leading) * unpacked_rows, columns, fmt=w.format
    )
    shape = (*leading, unpacked_rows, columns)
    unpacked = QuantTensor(blocks.reshape(raw_shape(w.format, shape)), w.format, shape)
    return sliced(unpacked, len(leading), slice(rows)) if leading else unpacked


def linear(x: Any, w: QuantTensor, bias: Any = None, out: Any = None) -> Any:
    """x W^T + bias with block-quantised weights, for any number of tokens.

    x: [..., K] of float32, float16 or bfloat16; NumPy or torch. Its last dim is contiguous: an
        nn.Linear copies other inputs, `linear` refuses them.
    w: [N, K], made by `pack` or by `w4a16_pack` (16-bit x only). Weights as a GGUF file holds them
        are refused: packing them takes longer than the product.
    bias: [N] of x's dtype. out: [..., N] to write into.

    Activations are not quantised: results are as exact as 16-bit mathematics with float32 sums.

    >>> import numpy as np
    >>> w = ac4k.pack(np.full((3, 2, 18), 0x11, np.uint8), "q4_0")
    >>> ac4k.linear(np.zeros((4, 64), np.float32), w).shape
    (4, 3)
    """
    if not isinstance(w, QuantTensor):
        raise TypeError(f"linear: argument 'w': expected a QuantTensor, got {type(w).__name__}")
    if w4_format(w.format) is not None:
        from ac4k.w4a16 import w4a16_linear

        return w4a16_linear(x, w, bias, out=out)
    rows, columns = matrix_shape("linear", "w", w)
    if w.block_layout != "packed":
        raise ValueError(
            f"linear: argument 'w': expected packed weights, as ac4k.pack makes them, got {w!r}"
        )
    shape = tuple(getattr(x, "shape", ()))
    if not shape or shape[-1] != columns:
        raise ValueError(
            f"linear: argument 'x': expected [..., {columns}], as 'w' has {columns} columns, "
            f"got {shape or type(x).__name__}"
        )
    options = {} if out is None else {"out": out}
    weight = w.raw.reshape(-(-rows // PACKED_ROWS), *packed_block_shape(w.format, columns))
    fmt: Any = w.format
    return ops.quant_linear(x, weight, bias, N=rows, fmt=fmt, **options)


def quant_linear_configs(fmt: str, tokens: int, N: int, K: int, device: Any = "cpu") -> list[str]:
    """Names of the kernels that `quant_linear` can be told to use by its argument `config`.

    fmt: of the weights [N, K], "q4_0" and so on. device: "cpu", "cuda" or "cuda:1".

    The place of a name is the config's number; the first, "auto", leaves the choice to the library.

    >>> ac4k.quant_linear_configs("q4_0", 1, 4096, 4096)
    ['auto']
    """
    op = "quant_linear_configs"
    place = device_numbers(op, device)
    sizes = sizes_of_64_bits(op, tokens=tokens, N=N, K=K)
    names: list[str] = json.loads(_native.C.quant_linear_configs(fmt, *place, *sizes))
    return names


def sizes_of_64_bits(op: str, **sizes: Any) -> list[int]:
    """Sizes for the extension module, which knows no argument's name when it cannot read one."""
    found = []
    for argument, size in sizes.items():
        try:
            number = operator.index(size)
        except TypeError as error:
            raise TypeError(
                f"{op}: argument '{argument}': expected an int, got {type(size).__name__}"
            ) from error
        if not -(1 << 63) <= number < 1 << 63:
            raise ValueError(
                f"{op}: argument '{argument}': expected an int of 64 bits, got {number}"
            )
        found.append(number)
    return found


def device_numbers(op: str, device: Any) -> tuple[int, int]:
    """DLPack's number of a kind of device, and which of them: the first unless it says."""
    kind, _, number = str(device).partition(":")
    number = number or "0"
    is_number = number.isascii() and number.isdecimal()
    if kind not in _DEVICES or not is_number:
        raise ValueError(f"{op}: argument 'device': expected cpu, cuda or cuda:1, got {device!r}")
    if len(number) > _LONGEST_ID or int(number) >= 1 << 31:
        raise ValueError(
            f"{op}: argument 'device': expected a number below 2^31, got {reprlib.repr(device)}"
        )
    return _DEVICES[kind], int(number)


def packed_block_shape(fmt: str, columns: int) -> tuple[int, int]:
    """Packed blocks of a row of tiles, and their bytes.

    >>> packed_block_shape("q4_0", 96)
    (2, 2304)
    """
    values, size = block_format(fmt)
    packed_columns = max(values, PACKED_COLUMNS)
    return -(-columns // packed_columns), PACKED_ROWS * (packed_columns // values) * size


def on_cpu(op: Any, data: Any, *args: Any, **options: Any) -> Any:
    """Reordering is done once for a model, by the CPU; the result goes where the data came from."""
    if getattr(getattr(data, "device", None), "type", "cpu") == "cuda":
        return op(data.cpu(), *args, **options).to(data.device)
    return op(data, *args, **options)


def matrix_shape(op: str, argument: str, w: QuantTensor) -> tuple[int, int]:
    if len(w.shape) != 2:
        raise ValueError(f"{op}: argument '{argument}': expected [N, K], got {tuple(w.shape)}")
    return int(w.shape[0]), int(w.shape[1])
