"""Names of W4A16 weights as `QuantTensor.format` has them, and what they say.

"w4_g128_bf16": 4-bit codes in groups of 128 columns with bfloat16 scales; "w4_g64z_f16": with zero
points; "..._ordered": columns are stored in another order than x has them, and K int32 behind the
packed bytes say which column of x each is.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from ac4k._formats import BlockFormat

Layout = Literal["g32", "g64", "g128", "g32z", "g64z", "g128z"]

_NAME = re.compile(r"w4_g([1-9][0-9]{0,9})(z?)_(f16|bf16)(_ordered)?")


class W4Format(NamedTuple):
    group_size: int
    zeros: bool
    dtype: str  # of scales and activations, "f16" or "bf16"
    ordered: bool = False

    @property
    def name(self) -> str:
        ordered = "_ordered" if self.ordered else ""
        return f"w4_g{self.group_size}{'z' if self.zeros else ''}_{self.dtype}{ordered}"

    @property
    def packed_group(self) -> int:
        """Columns that share a scale in the packed layout: larger groups repeat theirs."""
        return self.group_size if self.group_size in (32, 64) else 128

    @property
    def layout(self) -> Layout:
        layout: Layout = f"g{self.packed_group}{'z' if self.zeros else ''}"  # type: ignore[assignment]
        return layout

    @property
    def block(self) -> BlockFormat:
        """Values and bytes of a packed group."""
        return BlockFormat(self.packed_group, self.packed_group // 2 + (4 if self.zeros else 2))

    def problem_with(self, columns: int) -> str | None:
        """What keeps K columns from having such groups, as "expected ..." goes on."""
        group = self.group_size
        if columns % group != 0:
            return f"K to be a multiple of the group size {group}, got {columns}"
        if group not in (32, 64, columns) and group % 128 != 0:
            return f"groups of 32, 64, a multiple of 128 or all K columns, got {group}"
        return None


def w4_format(name: str) -> W4Format | None:
    """What a name says; None when it is not one of these.

    >>> w4_format("w4_g256z_bf16").layout
    'g128z'
    """
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        return None
    group, zeros, dtype, ordered = match.groups()
    return W4Format(int(group), bool(zeros), dtype, bool(ordered))
