"""W4A16: products with packed 4-bit weights, and packing them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..arrays import Arrays, DType
from ..case import Case, Shape
from ..inputs import Sizes
from .gguf import dense_weights

if TYPE_CHECKING:
    from torch import Tensor

_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)
_SHAPES = ((4096, 4096), (14336, 4096), (4096, 14336), (28672, 8192), (8192, 28672))


def _sizes(shape: Shape) -> Sizes:
    tokens, rows, columns = shape
    return {"...": (tokens,), "N": rows, "K": columns}


def _weight(sizes: Sizes, arrays: Arrays) -> Mapping[str, Any]:
    """Any bytes are weights; these have finite scales, none of them denormal."""

    def small_bytes(shape: tuple[int, ...], dtype: DType) -> Any:
        return arrays.random(shape, dtype, 1) & 0x3F | 0x20

    return {"packed": small_bytes}


def _dense_linear(x: Tensor, packed: Tensor, **options: Any) -> Tensor:
    """What the layer costs with 16-bit weights: cuBLAS on a GPU."""
    dense = next(dense_weights(options["N"], x.shape[-1], x.dtype, x.device))
    return x @ dense.T


_GEMM = Case(
    op="w4a16_gemm",
    shapes=tuple((tokens, *shape) for shape in _SHAPES for tokens in _TOKENS),
    cpu_shapes=tuple((tokens, 4096, 4096) for tokens in (1, 4, 16, 512)),
    quick_shapes=((3, 72, 256), (33, 72, 256)),
    dtypes=("bf16", "f16"),
    sizes=_sizes,
    shape_text="TOKENSxNxK",
    variants=({"layout": "g128"}, {"layout": "g32"}),
    torch_fn=_dense_linear,
    torch_is_reference=False,
    torch_name="cuBLAS",
    flops=lambda shape: 2.0 * math.prod(shape),
    given=_weight,
    compile=False,
)


def _pack_sizes(shape: Shape) -> Sizes:
    rows, columns = shape
    return {"N": rows, "K": columns, "G": columns // 128}


def _codes(sizes: Sizes, arrays: Arrays) -> Mapping[str, Any]:
    def codes(shape: tuple[int, ...], dtype: DType) -> Any:
        return arrays.random(shape, dtype, 1) & 15

    return {"q": codes}


_PACKING = tuple(
    Case(
        op=op,
        shapes=((4096, 4096), (4096, 14336)),
        cpu_shapes=((4096, 4096),),
        quick_shapes=((65, 256),),
        dtypes=("bf16", "f16"),
        sizes=_pack_sizes,
        shape_text="NxK",
        variants=({"layout": "g128"},),
        given=given,
        compile=False,
    )
    for op, given in (("w4a16_pack_weight", _codes), ("w4a16_unpack_weight", _weight))
)

CASES = (_GEMM, *_PACKING)
