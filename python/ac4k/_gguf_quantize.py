"""A GGUF file's large floating-point tensors in a block format, row by row."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Final

import ac4k
from ac4k import gguf
from ac4k._formats import FORMATS
from ac4k.quant_tensor import raw_shape

_SOURCES: Final = ("f32", "f16", "bf16")
_CHUNK_VALUES = 1 << 23  # quantised in one call

# What loaders look at: "mostly this format", and the version of the blocks' layouts.
_FILE_TYPES: Final[dict[str, int]] = {
    "q4_0": 2,
    "q4_1": 3,
    "q8_0": 7,
    "q5_0": 8,
    "q5_1": 9,
    "q2_k": 10,
    "q3_k": 11,
    "q4_k": 14,
    "q5_k": 16,
    "q6_k": 18,
    "iq4_nl": 25,
    "iq4_xs": 30,
    "mxfp4": 38,
    "nvfp4": 39,
}
_QUANTIZATION_VERSION = 2

# What models add, multiply by number or convolve with, and what is small and loses too much: those
# that llama.cpp keeps, which has no such operations on blocks.
_KEPT: Final = (
    "*norm.weight",
    "*ffn_gate_inp.weight",
    "*altup*",
    "*laurel*",
    "*per_layer_model_proj*",
    "position_embd.weight",
    "*.position_embd.*",
    "token_types.weight",
    "*ssm_conv1d*",
    "*shortconv.conv.weight",
    "*time_mix_first.weight",
    "*time_mix_[wva][012].weight",
    "*time_mix_g[12].weight",
    "*time_mix_decay_w[12].weight",
    "*time_mix_lerp_fused.weight",
    "*attn_rel_b.weight",
)


def is_quantizable(info: gguf.TensorInfo, fmt: str) -> bool:
    """Whether a tensor is a matrix (or several) of weights whose rows are whole blocks.

    A matrix of one row is a vector with a dim too many.
    """
    return (
        info.format in _SOURCES
        and math.prod(info.shape[:-1]) > 1
        and info.nbytes > 0
        and info.name.endswith("weight")
        and not any(fnmatchcase(info.name, pattern) for pattern in _KEPT)
        and info.shape[-1] % FORMATS[fmt].block_values == 0
    )


def quantize_file(
    source: gguf.File,
    target: str | os.PathLike[str],
    fmt: str,
    *,
    is_kept: Callable[[str], bool] = lambda name: False,
    step: Callable[[str], None] = lambda name: None,
) -> list[str]:
    """Writes `source` to `target` with its weights in `fmt`; gives the names of those changed."""
    infos = source.infos.values()
    chosen = [i.name for i in infos if is_quantizable(i, fmt) and not is_kept(i.name)]
    changed = set(chosen)
    specs = [
        gguf.TensorSpec(i.name, fmt if i.name in changed else i.format, i.shape) for i in infos
    ]
    facts = {
        "general.file_type": _FILE_TYPES[fmt],
        "general.quantization_version": _QUANTIZATION_VERSION,
    }
    metadata = {**source.metadata, **facts}
    types = {**source.metadata_types, **dict.fromkeys(facts, "uint32")}
    with gguf.Writer(target, specs, metadata, metadata_types=types) as writer:
        for info in infos:
            step(info.name)
            data = source.raw(info.name)
            writer.write_bytes(_quantized(info, data, fmt) if info.name in changed else data)
    return chosen


def _quantized(info: gguf.TensorInfo, data: Any, fmt: Any) -> Any:
    """The tensor's bytes in `fmt`; only a part of it is in float32 at any time."""
    import numpy

    columns = info.shape[-1]
    rows = data.view("<f4" if info.format == "f32" else "<u2").reshape(-1, columns)
    result = numpy.empty(raw_shape(fmt, rows.shape), numpy.uint8)
    step = max(_CHUNK_VALUES // columns, 1)
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        if info.format == "f16":
            part = part.view("<f2")
        elif info.format == "bf16":  # the upper half of a float32
            part = (part.astype("<u4") << 16).view("<f4")
        ac4k.quantize(part, fmt, out=result[start : start + step])
    return result
