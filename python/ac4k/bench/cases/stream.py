"""The streaming kernel that is the roofline of memory-bound ops, beside the library's own copy.

It must be at least as fast as any other plain copy, or rooflines would flatter us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..case import Case, Shape
from ..inputs import Sizes

if TYPE_CHECKING:
    from torch import Tensor

_MIB = 1 << 20


def _sizes(shape: Shape) -> Sizes:
    read, write = shape
    return {"R": read, "W": write}


def _copy(src: Tensor, W: int) -> Tensor | None:
    return src.clone() if src.numel() == W else None


CASES = (
    Case(
        op="stream_bytes",
        shapes=(
            *((total * _MIB // 2,) * 2 for total in (1, 4, 16, 32, 64, 128, 256, 1024)),
            (96 * _MIB, 32 * _MIB),
            (128 * _MIB, 16 * _MIB),
            (32 * _MIB, 128 * _MIB),
        ),
        cpu_shapes=((_MIB, _MIB), (96 * _MIB, 32 * _MIB), (32 * _MIB, 32 * _MIB)),
        quick_shapes=((65536, 65536), (196608, 65536)),
        dtypes=("u8",),
        sizes=_sizes,
        shape_text="BYTES_READxBYTES_WRITTEN",
        torch_fn=_copy,
        torch_name="copy",
        compile=False,
    ),
)
