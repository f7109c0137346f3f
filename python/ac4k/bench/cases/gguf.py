"""GGUF weights: packing them, and products with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import cycle
from typing import TYPE_CHECKING, Any

import ac4k

from ..._formats import FORMATS, WEIGHT_FORMATS
from ..arrays import Arrays, DType, arrays_on, dtype_named
from ..case import Case, Configs, Shape
from ..engine import set_count
from ..inputs import Sizes
from ..settings import Settings
from ..weights import gguf_blocks, packed_gguf

if TYPE_CHECKING:
    from torch import Tensor

_PACK_SHAPES = ((4096, 4096), (4096, 14336))


def _matrix(shape: Shape) -> Sizes:
    rows, columns = shape
    return {"N": rows, "K": columns}


def _linear_sizes(shape: Shape) -> Sizes:
    tokens, rows, columns = shape
    return {"...": (tokens,), "N": rows, "K": columns}


def _weight(
    sizes: Sizes, dtype: DType, choices: Mapping[str, Any], arrays: Arrays
) -> Mapping[str, Any]:
    return {"weight": packed_gguf(choices["fmt"], size_of(sizes, "N"), size_of(sizes, "K"), arrays)}


def size_of(sizes: Sizes, name: str) -> int:
    size = sizes[name]
    assert isinstance(size, int)
    return size


@lru_cache(maxsize=1)
def dense_weights(rows: int, columns: int, dtype: Any, device: Any) -> Iterator[Tensor]:
    """In turn, enough of them that each has left the last cache when it comes again, as ours have;
    at most 64, for sizes at which that matters."""
    size = rows * columns * dtype.itemsize
    count = min(64, set_count(size, Settings(device=device.type).rotation_bytes))
    arrays = arrays_on(device.type)
    return cycle(arrays.random((count, rows, columns), dtype_named(str(dtype)), 4).unbind())


def _dense_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
    """What the layer costs with weights that are not quantised."""
    dense = next(dense_weights(options["N"], x.shape[-1], x.dtype, x.device))
    return x @ dense.T


@lru_cache(maxsize=1)
def _block_weights(fmt: str, rows: int, columns: int, device: Any) -> Iterator[Tensor]:
    """The same as GGUF blocks."""
    values, size = FORMATS[fmt]
    blocks = gguf_blocks(fmt, (rows, columns // values, size), arrays_on(device.type))
    count = min(64, set_count(blocks.nbytes, Settings(device=device.type).rotation_bytes))
    return cycle([blocks.clone() for _ in range(count)])


def _dequantize_linear(x: Tensor, weight: Tensor, bias: Any = None, **options: Any) -> Tensor:
    """What people do who have no kernel for such weights: widen them, then multiply."""
    fmt = options["fmt"]
    blocks = next(_block_weights(fmt, options["N"], x.shape[-1], x.device))
    dense: Tensor = ac4k.dequantize(blocks, fmt, dtype=x.dtype)
    return x @ dense.T


def _configs(shape: Shape, dtype: DType, options: Mapping[str, Any], device: str) -> Configs:
    tokens, rows, columns = shape
    return Configs(ac4k.quant_linear_configs(options["fmt"], tokens, rows, columns, device), 0)


_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 512, 2048)
_SHAPES = ((4096, 4096), (14336, 4096), (4096, 14336), (8192, 28672))

_LINEAR = Case(
    op="quant_linear",
    shapes=tuple((tokens, *shape) for shape in _SHAPES for tokens in _TOKENS),
    cpu_shapes=tuple((tokens, 4096, 4096) for tokens in (1, 4, 16, 512)),
    quick_shapes=((3, 65, 256), (33, 65, 256)),
    dtypes=("bf16",),
    sizes=_linear_sizes,
    shape_text="TOKENSxNxK",
    variants=tuple({"fmt": fmt} for fmt in WEIGHT_FORMATS),
    torch_fn=_dense_linear,
    torch_is_reference=False,
    torch_name="dense",
    cpu_torch_name="dense",
    torch_peers={"dequantise": _dequantize_linear},
    independent=("...", "N"),
    flops=lambda shape: 2.0 * math.prod(shape),
    weights=_weight,
    compile=False,
    tokens_at=0,
    configs=_configs,
)

_PACKING = tuple(
    Case(
        op=op,
        shapes=_PACK_SHAPES,
        cpu_shapes=_PACK_SHAPES[:1],
        quick_shapes=((65, 256),),
        dtypes=("u8",),
        sizes=_matrix,
        shape_text="NxK",
        variants=tuple({"fmt": fmt} for fmt in WEIGHT_FORMATS),
        independent=("N",),
        compile=False,
    )
    for op in ("pack_weight", "unpack_weight")
)


def _product_sizes(shape: Shape) -> Sizes:
    rows, tokens, columns = shape
    return {"M": rows, "N": tokens, "K": columns}


def _blocks(fmt: str) -> Callable[[Sizes, Arrays], Mapping[str, Any]]:
    def given(sizes: Sizes, arrays: Arrays) -> Mapping[str, Any]:
        return {
            "weight_q": lambda shape, dtype: gguf_blocks(fmt, shape, arrays),
            "activation_q": lambda shape, dtype: gguf_blocks("q8_1", shape, arrays, seed=2),
        }

    return given


def _dequantize_product(fmt: Any) -> Callable[..., Any]:
    def dequantize_and_multiply(weight_q: Tensor, activation_q: Tensor, *sizes: int) -> Tensor:
        weights: Tensor = ac4k.dequantize(weight_q, fmt)
        activations: Tensor = ac4k.dequantize(activation_q, "q8_1")
        return weights @ activations.T

    return dequantize_and_multiply


_BLOCK_PRODUCTS = tuple(
    Case(
        op=f"gemm_{fmt}_q8_1",
        shapes=tuple((4096, tokens, 14336) for tokens in _TOKENS),
        cpu_shapes=tuple((4096, tokens, 4096) for tokens in (1, 8, 64)),
        quick_shapes=((33, 5, 96),),
        dtypes=("u8",),
        sizes=_product_sizes,
        shape_text="MxNxK",
        independent=("M", "N"),
        flops=lambda shape: 2.0 * math.prod(shape),
        given=_blocks(fmt),
        compile=False,
        torch_peers={"dequantise": _dequantize_product(fmt)},
        tokens_at=1,
        fmt=fmt,
    )
    for fmt in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0")
)

CASES = (_LINEAR, *_BLOCK_PRODUCTS, *_PACKING)
