"""`ac4k gguf`: what it shows and what it finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ac4k
from ac4k import gguf
from ac4k._gguf_types import PLAIN_TYPES, TENSOR_TYPES
from ac4k._gguf_verify import SCALES, block_bytes_of, find_bad_blocks
from ac4k.cli import main
from ac4k.quant_tensor import block_format

CORPUS = Path(__file__).parents[1] / "fuzz" / "corpus" / "gguf"
RNG = np.random.default_rng(0)


def model(path: Path, **extra: Any) -> dict[str, Any]:
    tensors = {
        "token_embd.weight": RNG.normal(size=(7, 256)).astype(np.float16),
        "blk.0.attn_norm.weight": np.ones(256, np.float32),
        "blk.0.ffn_up.weight": RNG.normal(size=(33, 256)).astype(np.float32),
        "blk.0.ffn_down_exps.weight": RNG.normal(size=(2, 3, 512)).astype(ml_dtypes.bfloat16),
        "blk.0.ffn_gate_inp.weight": RNG.normal(size=(4, 256)).astype(np.float32),
        "blk.0.odd.weight": RNG.normal(size=(4, 100)).astype(np.float32),
        "blk.0.empty.weight": np.zeros((0, 256), np.float32),
        "output.weight": RNG.normal(size=(5, 256)).astype(np.float32),
        "output.bias": RNG.normal(size=(1, 256)).astype(np.float32),
        **extra,
    }
    metadata = {"general.architecture": "llama", "tokens": ["a\x1b[31m", "b"], "u8": np.uint8(3)}
    gguf.write(path, tensors, metadata)
    return tensors


# ---- show -----------------------------------------------------------------------------------


def test_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model(tmp_path / "m.gguf")
    assert main(["gguf", "show", str(tmp_path / "m.gguf")]) == 0
    text = capsys.readouterr().out
    for part in ("version", "general.architecture", "llama", "2 × string", "blk.0.ffn_up.weight"):
        assert part in text
    assert "33 × 256" in text
    assert "\x1b" not in text  # terminals obey nothing a file says


def test_show_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.gguf"
    gguf.write(path, {"w": np.zeros((2, 3), np.int8)}, {"inf": float("inf"), "list": [1, 2]})
    assert main(["gguf", "show", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["metadata"] == {"inf": None, "list": [1, 2]}
    assert facts["metadata_types"] == {"inf": "float32", "list": "[uint32]"}
    assert facts["tensors"][0]["shape"] == [2, 3]
    assert (facts["version"], facts["bytes"]) == (3, path.stat().st_size)


def test_every_good_seed_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for path in CORPUS.glob("ok_*.gguf"):
        assert main(["gguf", "show", str(path)]) == 0
        assert main(["gguf", "show", str(path), "--json"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("action", ["show", "verify"])
def test_errors_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    for name, part in (("bad_overlap", "tensor 'b': offset"), ("missing", "No such file")):
        assert main(["gguf", action, str(CORPUS / f"{name}.gguf")]) == 1
        error = capsys.readouterr().err
        assert part in error
        assert error.startswith("ac4k gguf: ")
        assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
    for wrong in ([], ["fly"], ["show"], ["show", "a", "--format", "q4_0"]):
        with pytest.raises(SystemExit) as leaving:
            main(["gguf", *wrong])
        assert leaving.value.code == 2


# ---- verify ---------------------------------------------------------------------------------


def test_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.gguf"
    model(path)
    assert main(["gguf", "verify", str(path)]) == 0
    assert "9 tensors" in capsys.readouterr().out
    broken = np.zeros((40, 18), np.uint8)
    broken[[17, 30], :2] = (0x00, 0xFC)  # minus infinity
    values = np.zeros((5, 5), np.float32)
    values[3, 2] = np.nan
    weight = ac4k.QuantTensor(broken.reshape(20, 2, 18), "q4_0", (20, 64))
    model(path, broken=weight, values=values)
    assert main(["gguf", "verify", str(path)]) == 1
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 2
    assert "'broken' (q4_0): 2 blocks" in error[0]
    assert "number 17" in error[0]
    assert "'values' (f32): 1 values" in error[1]
    assert main(["gguf", "verify", str(path), "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["bad"][1] == {"name": "values", "format": "f32", "bad": 1, "first": 17}


def test_every_type_has_its_scales_listed() -> None:
    assert set(SCALES) == set(TENSOR_TYPES)


# Where the scales stand in blocks that the gguf package does not dequantise.
LEADING = {"q1_0": ("<f2", 1), "q2_0": ("<f2", 1), "q8_1": ("<f2", 2), "q8_k": ("<f4", 1)}


@pytest.mark.parametrize("fmt", sorted(SCALES))
def test_bad_blocks_are_those_that_dequantise_to_no_number(fmt: str) -> None:
    """In random bytes about one half in 32 is not finite."""
    data = RNG.integers(0, 256, (5000, block_bytes_of(fmt)), dtype=np.uint8)
    if fmt in PLAIN_TYPES:
        with np.errstate(invalid="ignore"):
            values = data.view(PLAIN_TYPES[fmt].numpy_dtype("")).astype(np.float64)
    elif fmt in LEADING:
        dtype, count = LEADING[fmt]
        values = data[:, : count * np.dtype(dtype).itemsize].copy().view(dtype)
    elif fmt == "mxfp4":  # an exponent of all ones
        values = np.where(data[:, :1] == 255, np.nan, 0.0)
    else:
        peer = pytest.importorskip("gguf")
        with np.errstate(all="ignore"):
            values = peer.quants.dequantize(data, peer.GGMLQuantizationType[fmt.upper()])
        assert values.shape == (len(data), block_format(fmt).block_values)
    expected = (~np.isfinite(values)).any(axis=1).nonzero()[0]
    found = find_bad_blocks(fmt, block_bytes_of(fmt), data.reshape(-1))
    assert found.num_bad == len(expected)
    assert found.first == (expected[0] if len(expected) else -1)
    assert len(expected) > 0 or SCALES[fmt] == ()
