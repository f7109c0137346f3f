"""GGUF weights: packing them, and products with them."""

from __future__ import annotations

from ..._formats import FORMATS
from ..case import Case, Shape
from ..inputs import Sizes

WEIGHT_FORMATS = tuple(fmt for fmt in FORMATS if fmt != "q8_1")
_PACK_SHAPES = ((4096, 4096), (4096, 14336))


def _matrix(shape: Shape) -> Sizes:
    rows, columns = shape
    return {"N": rows, "K": columns}


CASES = tuple(
    Case(
        op=op,
        shapes=_PACK_SHAPES,
        cpu_shapes=_PACK_SHAPES[:1],
        quick_shapes=((65, 256),),
        dtypes=("u8",),
        sizes=_matrix,
        shape_text="NxK",
        variants=tuple({"fmt": fmt} for fmt in WEIGHT_FORMATS),
        compile=False,
    )
    for op in ("pack_weight", "unpack_weight")
)
