"""The GGUF block formats: how many values a block holds, and in how many bytes.

`include/ac4k/blocks.h` has the list, with C structs. What repeats it is compared with it: this file
and the signatures of ops by tests/python/test_gguf_formats.py, C++ tables by the compiler.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class BlockFormat(NamedTuple):
    """Size of a block: `block_values` values (along K) are kept in `block_bytes` bytes."""

    block_values: int
    block_bytes: int


FORMATS: Final[dict[str, BlockFormat]] = {
    "q4_0": BlockFormat(32, 18),
    "q4_1": BlockFormat(32, 20),
    "q5_0": BlockFormat(32, 22),
    "q5_1": BlockFormat(32, 24),
    "q8_0": BlockFormat(32, 34),
    "q8_1": BlockFormat(32, 36),
    "q2_k": BlockFormat(256, 84),
    "q3_k": BlockFormat(256, 110),
    "q4_k": BlockFormat(256, 144),
    "q5_k": BlockFormat(256, 176),
    "q6_k": BlockFormat(256, 210),
    "iq4_nl": BlockFormat(32, 18),
    "iq4_xs": BlockFormat(256, 136),
    "mxfp4": BlockFormat(32, 17),
    "nvfp4": BlockFormat(64, 36),
}

# Those that weights have; the other is for activations.
WEIGHT_FORMATS: Final = tuple(name for name in FORMATS if name != "q8_1")

# What GGUF files may hold besides: read, moved and written as they are, never computed with.
STORED_FORMATS: Final[dict[str, BlockFormat]] = {
    "q8_k": BlockFormat(256, 292),
    "iq2_xxs": BlockFormat(256, 66),
    "iq2_xs": BlockFormat(256, 74),
    "iq3_xxs": BlockFormat(256, 98),
    "iq1_s": BlockFormat(256, 50),
    "iq3_s": BlockFormat(256, 110),
    "iq2_s": BlockFormat(256, 82),
    "iq1_m": BlockFormat(256, 56),
    "tq1_0": BlockFormat(256, 54),
    "tq2_0": BlockFormat(256, 66),
    "q1_0": BlockFormat(128, 18),
    "q2_0": BlockFormat(64, 18),
}
