"""W4A16: products with packed 4-bit weights, and packing them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import cycle
from typing import TYPE_CHECKING, Any

from ..arrays import Arrays, DType
from ..case import Case, Configs, Shape
from ..engine import set_count
from ..inputs import Sizes
from ..settings import Settings
from ..weights import packed_w4, w4_group
from .gguf import dense_weights, size_of

if TYPE_CHECKING:
    from torch import Tensor

_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)
_SHAPES = ((4096, 4096), (14336, 4096), (4096, 14336), (28672, 8192), (8192, 28672))


def _sizes(shape: Shape) -> Sizes:
    tokens, rows, columns = shape
    return {"...": (tokens,), "N": rows, "K": columns}


def _weight(
    sizes: Sizes, dtype: DType, choices: Mapping[str, Any], arrays: Arrays
) -> Mapping[str, Any]:
    rows, columns = size_of(sizes, "N"), size_of(sizes, "K")
    return {"packed": packed_w4(choices["layout"], dtype, rows, columns, arrays)}


def _dense_linear(x: Tensor, packed: Tensor, **options: Any) -> Tensor:
    """What the layer costs with 16-bit weights: cuBLAS on a GPU."""
    dense = next(dense_weights(options["N"], x.shape[-1], x.dtype, x.device))
    return x @ dense.T


@lru_cache(maxsize=1)
def _tinygemm_weights(
    rows: int, columns: int, group: int, dtype: Any, device: Any
) -> Iterator[tuple[Tensor, Tensor]]:
    """Weights, scales and zero points as PyTorch's own 4-bit product takes them; in turn, past the
    last cache as ours."""
    import torch

    scales = torch.ones(columns // group, rows, 2, dtype=dtype, device=device)
    if device.type == "cuda":
        pairs = torch.randint(0, 256, (rows, columns // 2), dtype=torch.uint8, device=device)
        packed = torch.ops.aten._convert_weight_to_int4pack(pairs, 8)
    else:
        codes = torch.randint(0, 16, (rows, columns), dtype=torch.int32)
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 2)
    size = packed.nbytes + scales.nbytes
    count = min(64, set_count(size, Settings(device=device.type).rotation_bytes))
    return cycle([(packed.clone(), scales.clone()) for _ in range(count)])


def _tinygemm(x: Tensor, packed: Tensor, **options: Any) -> Tensor:
    """PyTorch's own product with 4-bit weights; on a GPU it has bfloat16 only."""
    import torch

    group = w4_group(options["layout"])
    weight, scales = next(_tinygemm_weights(options["N"], x.shape[-1], group, x.dtype, x.device))
    cpu = x.device.type == "cpu"
    aten = torch.ops.aten
    product = aten._weight_int4pack_mm_for_cpu if cpu else aten._weight_int4pack_mm
    result: Tensor = product(x, weight, group, scales)
    return result


def _configs(shape: Shape, dtype: DType, options: Mapping[str, Any], device: str) -> Configs:
    import ac4k

    quant: Any = "group_zeros" if options["layout"].endswith("z") else "group"
    runner = ac4k.W4A16Runner(dtype.torch, quant, device)
    tokens, rows, columns = shape
    best = runner.best_config(tokens, rows, columns, w4_group(options["layout"]))
    return Configs(runner.configs(tokens, rows, columns), best)


_GEMM = Case(
    op="w4a16_gemm",
    shapes=tuple((tokens, *shape) for shape in _SHAPES for tokens in _TOKENS),
    cpu_shapes=tuple((tokens, 4096, 4096) for tokens in (1, 4, 16, 512)),
    quick_shapes=((3, 80, 256), (33, 80, 256)),
    dtypes=("bf16", "f16"),
    sizes=_sizes,
    shape_text="TOKENSxNxK",
    variants=({"layout": "g128"}, {"layout": "g32"}),
    torch_fn=_dense_linear,
    torch_is_reference=False,
    torch_name="cuBLAS",
    cpu_torch_name="dense",
    torch_peers={"tinygemm": _tinygemm},
    independent=("...", "N"),
    flops=lambda shape: 2.0 * math.prod(shape),
    weights=_weight,
    compile=False,
    tokens_at=0,
    configs=_configs,
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
        independent=("N",),
        given=given,
        weights=weights,
        compile=False,
    )
    for op, given, weights in (
        ("w4a16_pack_weight", _codes, None),
        ("w4a16_unpack_weight", None, _weight),
    )
)

CASES = (_GEMM, *_PACKING)
