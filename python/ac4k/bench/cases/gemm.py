"""Matrix products."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..case import Case, Shape
from ..inputs import Sizes

if TYPE_CHECKING:
    from torch import Tensor


def _sizes(shape: Shape) -> Sizes:
    m, n, k = shape
    return {"M": m, "N": n, "K": k}


def _flops(shape: Shape) -> float:
    return 2.0 * math.prod(shape)


def _matmul(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


CASES = (
    Case(
        op="gemm",
        shapes=((1, 4096, 4096), (128, 4096, 4096), (4096, 4096, 4096)),
        cpu_shapes=((1, 4096, 4096), (128, 4096, 4096)),
        quick_shapes=((33, 65, 129),),
        dtypes=("f32", "bf16", "f16", "f64"),
        sizes=_sizes,
        shape_text="MxNxK",
        torch_fn=_matmul,
        torch_name="cuBLAS",
        magnitude=lambda a, b: a.abs() @ b.abs() * max(1.0, a.shape[1] / 2),
        independent=("M", "N"),
        flops=_flops,
        compile=False,
    ),
)
