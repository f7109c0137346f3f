"""The table of block formats against the C header and against the `gguf` package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ac4k
from ac4k._formats import FORMATS
from ac4k._signature import shape_of
from ac4k.packed_linear import packed_block_shape

HEADER = Path(__file__).resolve().parents[2] / "include/ac4k/blocks.h"


@pytest.mark.skipif(not HEADER.exists(), reason="needs the source tree")
def test_table_is_that_of_the_header() -> None:
    rows = re.findall(r"^  X\((\w+), (\d+), (\d+)\)", HEADER.read_text(), re.MULTILINE)
    assert {name: (int(values), int(size)) for name, values, size in rows} == FORMATS
    assert list(FORMATS) == [row[0] for row in rows]


@pytest.mark.parametrize(
    ("op", "tensor"),
    [("pack_weight", "q"), ("unpack_weight", "packed"), ("quant_linear", "weight")],
)
def test_shapes_of_ops_are_those_of_the_table(op: str, tensor: str) -> None:
    """Signatures spell the sizes of each format out."""
    declared = next(each for each in ac4k.op_table() if each["name"] == op)
    params = {param["name"]: param for param in declared["params"]}
    formats = params["fmt"]["choices"]
    assert formats == [name for name in FORMATS if name != "q8_1"]
    for name, dims in zip(formats, params[tensor]["dims"], strict=True):
        values, size = FORMATS[name]
        shape = shape_of(dims, {"N": 130, "K": 768})
        if tensor == "q":
            assert shape == (130, 768 // values, size)
        else:
            assert shape == (3, *packed_block_shape(name, 768))


def test_sizes_are_those_of_gguf_files() -> None:
    gguf = pytest.importorskip("gguf")
    for name, sizes in FORMATS.items():
        if name == "q8_1":
            continue  # the package has the sizes of a q8_1 with two float32, which no file holds
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name.upper()]] == sizes
