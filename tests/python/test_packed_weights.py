"""pack and unpack: GGUF blocks to the layout that `linear` reads, and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ac4k
from ac4k import _gguf_linear_reference as reference
from ac4k._formats import FORMATS
from ac4k.quant_tensor import packed_bytes

gguf = pytest.importorskip("gguf")

WEIGHT_FORMATS = [fmt for fmt in FORMATS if fmt != "q8_1"]


def random_blocks(fmt: str, rows: int, blocks: int, seed: int = 0) -> np.ndarray:
    size = FORMATS[fmt].block_bytes
    return np.random.default_rng(seed).integers(0, 256, (rows, blocks, size), np.uint8)


@pytest.mark.parametrize("fmt", WEIGHT_FORMATS)
@pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (64, 2), (67, 3), (130, 5), (0, 2), (3, 0)])
def test_round_trip_is_exact(fmt: str, rows: int, blocks: int) -> None:
    q = random_blocks(fmt, rows, blocks)
    packed = ac4k.pack(q, fmt)
    shape = (rows, blocks * FORMATS[fmt].block_values)
    assert tuple(packed.shape) == shape
    assert packed.block_layout == "packed"
    assert packed.nbytes == packed_bytes(fmt, *shape)
    assert np.array_equal(ac4k.unpack(packed).raw, q)


@pytest.mark.parametrize("fmt", WEIGHT_FORMATS)
def test_layout_is_the_documented_one(fmt: str) -> None:
    """Against index formulas, for padded rows and columns too."""
    values = FORMATS[fmt].block_values
    for rows, blocks in ((67, 3), (64, 4)):
        q = random_blocks(fmt, rows, blocks, seed=rows)
        packed = ac4k.pack(q, fmt).raw
        expected = reference.pack_weight(q, rows, blocks * values, fmt=fmt)
        assert np.array_equal(packed, expected)
        back = reference.unpack_weight(packed, rows, blocks * values, fmt=fmt)
        assert np.array_equal(back, q)


@pytest.mark.parametrize("fmt", WEIGHT_FORMATS)
def test_whole_tiles_take_no_more_bytes(fmt: str) -> None:
    blocks = max(64 // FORMATS[fmt].block_values, 1)
    q = random_blocks(fmt, 64, blocks)
    assert ac4k.pack(q, fmt).nbytes == q.nbytes


@pytest.mark.parametrize("fmt", WEIGHT_FORMATS)
def test_reference_values_are_those_of_gguf(fmt: str) -> None:
    """The oracle of the products is itself held to a package nobody here wrote."""
    q = random_blocks(fmt, 5, 3) & 0x3F  # finite scales
    expected = gguf.dequantize(q.reshape(5, -1), gguf.GGMLQuantizationType[fmt.upper()])
    np.testing.assert_allclose(reference.dequantize(q, fmt), expected, rtol=3e-7, atol=1e-4)


def test_torch_tensors_and_threads(device: str) -> None:
    q = torch.from_numpy(random_blocks("q6_k", 200, 9)).to(device)
    packed = ac4k.pack(q, "q6_k")
    assert packed.device.type == device
    assert torch.equal(ac4k.unpack(packed).raw, q)
    ac4k.set_num_threads(1)
    try:
        assert torch.equal(ac4k.pack(q, "q6_k").raw, packed.raw)
    finally:
        ac4k.set_num_threads(0)


def test_packing_twice_changes_nothing() -> None:
    packed = ac4k.pack(random_blocks("q4_0", 3, 2), "q4_0")
    assert ac4k.pack(packed) is packed
    unpacked = ac4k.unpack(packed)
    assert ac4k.unpack(unpacked) is unpacked
    assert np.array_equal(ac4k.pack(unpacked).raw, packed.raw)


def test_refusals() -> None:
    q = random_blocks("q4_0", 3, 2)
    with pytest.raises(TypeError, match="pack: argument 'fmt'"):
        ac4k.pack(q)
    with pytest.raises(ValueError, match="pack: argument 'w_q': expected \\[N, K"):
        ac4k.pack(q[0], "q4_0")
    with pytest.raises(ValueError, match="argument 'fmt': expected q4_0"):
        ac4k.pack(ac4k.QuantTensor(q, "q4_0", (3, 64)), "q4_1")
    with pytest.raises(ValueError, match="expected shape"):
        ac4k.pack(q, "q4_1")
    with pytest.raises(TypeError, match="unpack: argument 'w'"):
        ac4k.unpack(q)
    with pytest.raises(ValueError, match="pack_weight: argument"):
        ac4k.pack_weight(q, 3, 63, fmt="q4_0")
    with pytest.raises(ValueError, match="unpack_weight: argument"):
        ac4k.unpack_weight(np.zeros((1, 1, 2304), np.uint8), 3, 63, fmt="q4_0")
    with pytest.raises(ValueError, match="fmt"):
        ac4k.pack_weight(q, 3, 64, fmt="q8_1")
