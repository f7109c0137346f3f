"""The table of block formats against the C header and against the `gguf` package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ac4k._formats import FORMATS

HEADER = Path(__file__).resolve().parents[2] / "include/ac4k/blocks.h"


@pytest.mark.skipif(not HEADER.exists(), reason="needs the source tree")
def test_table_is_that_of_the_header() -> None:
    rows = re.findall(r"^  X\((\w+), (\d+), (\d+)\)", HEADER.read_text(), re.MULTILINE)
    assert {name: (int(values), int(size)) for name, values, size in rows} == FORMATS
    assert list(FORMATS) == [row[0] for row in rows]


def test_sizes_are_those_of_gguf_files() -> None:
    gguf = pytest.importorskip("gguf")
    for name, sizes in FORMATS.items():
        if name == "q8_1":
            continue  # the package has the sizes of a q8_1 with two float32, which no file holds
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name.upper()]] == sizes
