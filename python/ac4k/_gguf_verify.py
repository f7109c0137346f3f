"""Looks for scales and numbers in GGUF tensors that are infinite or not numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ac4k._gguf_types import PLAIN_TYPES

# All of `mask`'s bits at `offset` in a block, `width` bytes wide: an exponent that is no number.
Field = tuple[int, int, int]
_F16, _BF16, _F32, _F64 = 0x7C00, 0x7F80, 0x7F800000, 0x7FF0000000000000


def _halves(*offsets: int) -> tuple[tuple[Field, ...], ...]:
    return tuple(((offset, 2, _F16),) for offset in offsets)


# The scales of a block, each as the fields that must all be set for it to be bad. Plain types are
# blocks of one number; integers and nvfp4, whose scales are always finite, have none.
SCALES: Final[dict[str, tuple[tuple[Field, ...], ...]]] = {
    "f16": _halves(0),
    "bf16": (((0, 2, _BF16),),),
    "f32": (((0, 4, _F32),),),
    "f64": (((0, 8, _F64),),),
    **dict.fromkeys(("i8", "i16", "i32", "i64", "nvfp4"), ()),
    **{name: _halves(0) for name in ("q4_0", "q5_0", "q8_0", "iq4_nl", "iq4_xs", "q1_0", "q2_0")},
    **{name: _halves(0) for name in ("iq1_s", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s")},
    **{name: _halves(0, 2) for name in ("q4_1", "q5_1", "q8_1", "q4_k", "q5_k")},
    "q2_k": _halves(80, 82),
    "q3_k": _halves(108),
    "q6_k": _halves(208),
    "q8_k": (((0, 4, _F32),),),
    "iq1_m": (((52, 2, 0xC000), (54, 2, 0x7000)),),  # a half in the top bits of four words
    "tq1_0": _halves(52),
    "tq2_0": _halves(64),
    "mxfp4": (((0, 1, 0xFF),),),
}
_CHUNK_BYTES = 1 << 24  # of a tensor looked at in one go


class BadBlocks(NamedTuple):
    """How many blocks (or numbers) of a tensor are bad, and which is the first."""

    num_bad: int
    first: int


def find_bad_blocks(fmt: str, block_bytes: int, data: Any) -> BadBlocks:
    """`data`: the tensor's bytes, uint8 [n]."""
    count, first = 0, -1
    for start, bad in _bad_blocks(fmt, block_bytes, data):
        found = bad.nonzero()[0]
        if len(found) and first < 0:
            first = start + int(found[0])
        count += len(found)
    return BadBlocks(count, first)


def block_bytes_of(fmt: str) -> int:
    from ac4k.quant_tensor import block_format

    plain = PLAIN_TYPES.get(fmt)
    return plain.num_bytes if plain else block_format(fmt).block_bytes


def _bad_blocks(fmt: str, block_bytes: int, data: Any) -> Iterator[tuple[int, Any]]:
    """(number of the first block, whether each is bad), for chunks of blocks."""
    import numpy

    num_blocks = len(data) // block_bytes
    step = max(_CHUNK_BYTES // block_bytes, 1)
    for start in range(0, num_blocks, step):
        size = min(step, num_blocks - start)
        bad = numpy.zeros(size, bool)
        for scale in SCALES[fmt]:
            this = numpy.ones(size, bool)
            for offset, width, mask in scale:
                field = numpy.ndarray(
                    (size,), f"<u{width}", data, start * block_bytes + offset, (block_bytes,)
                )
                this &= (field & mask) == mask
            bad |= this
        yield start, bad
