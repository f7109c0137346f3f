"""`ac4k gguf`: what it shows, what it finds, what it quantises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ac4k
from ac4k import _gguf_quantize, gguf
from ac4k._formats import FORMATS
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


@pytest.mark.parametrize("action", ["show", "verify", "quantize"])
def test_names_are_neither_markup_nor_commands(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    action: str,
) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    path = tmp_path / "m.gguf"
    gguf.write(path, {"blk[/0]\x1b]0;title\x07.weight": np.zeros((2, 32), np.float32)})
    more = [str(tmp_path / "out.gguf"), "--format", "q4_0"] if action == "quantize" else []
    assert main(["gguf", action, str(path), *more]) == 0
    output = capsys.readouterr()
    shown = output.out if action == "show" else output.err
    assert r"blk[/0]\x1b]0;title\x07.weight" in shown
    assert "\x07" not in shown


@pytest.mark.parametrize("action", ["show", "verify", "quantize"])
def test_errors_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    more = [str(tmp_path / "out.gguf"), "--format", "q4_0"] if action == "quantize" else []
    for name, part in (("bad_overlap", "tensor 'b': offset"), ("missing", "No such file")):
        assert main(["gguf", action, str(CORPUS / f"{name}.gguf"), *more]) == 1
        error = capsys.readouterr().err
        assert part in error
        assert error.startswith("ac4k gguf: ")
        assert not error.startswith("ac4k gguf: gguf: ")
        assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
    for wrong in ([], ["fly"], ["show"], ["quantize", "a", "b"], ["show", "a", "--format", "q4_0"]):
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


# ---- quantize -------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", [name for name in FORMATS if name != "q8_1"])
def test_quantize(tmp_path: Path, capsys: pytest.CaptureFixture[str], fmt: str) -> None:
    source, target = tmp_path / "in.gguf", tmp_path / "out.gguf"
    tensors = model(source)
    command = ["gguf", "quantize", str(source), str(target), "--format", fmt, "--json"]
    assert main([*command, "--keep", "output.*"]) == 0
    facts = json.loads(capsys.readouterr().out)
    changed = {"token_embd.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down_exps.weight"}
    assert (facts["quantized"], facts["kept"]) == (3, len(tensors) - 3)
    with gguf.open(target) as written:
        assert list(written.infos) == list(tensors)
        for name, tensor in tensors.items():
            found = written.tensors[name]
            if name in changed:
                assert (found.format, found.shape) == (fmt, tensor.shape)
                expected = ac4k.quantize(tensor.reshape(-1, tensor.shape[-1]), fmt)
                assert found.raw.tobytes() == expected.tobytes()
            else:
                assert found.dtype == tensor.dtype
                assert found.tobytes() == tensor.tobytes()
        assert written.metadata["tokens"] == ["a\x1b[31m", "b"]
        assert written.metadata_types["u8"] == "uint8"
        assert written.metadata["general.quantization_version"] == 2
        file_type = written.metadata["general.file_type"]
    assert main(["gguf", "verify", str(target)]) == 0
    peer = pytest.importorskip("gguf")
    assert fmt in peer.LlamaFileType(file_type).name.lower()
    assert len(peer.GGUFReader(target).tensors) == len(tensors)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("blk.0.attn_q_norm.weight", (8, 64)),
        ("blk.0.time_mix_w1.weight", (64, 64)),
        ("blk.0.time_mix_lerp_x.weight", (1, 1, 64)),
        ("blk.0.time_mix_lerp_fused.weight", (5, 1, 1, 64)),
        ("blk.0.shortconv.conv.weight", (64, 32)),
        ("enc.blk.0.attn_rel_b.weight", (32, 64)),
        ("position_embd.weight", (512, 64)),
        ("v.position_embd.weight", (512, 64)),
        ("token_types.weight", (2, 64)),
        ("per_layer_model_proj.weight", (64, 64)),
    ],
)
def test_what_models_add_or_multiply_by_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, shape: tuple[int, ...]
) -> None:
    path = tmp_path / "m.gguf"
    gguf.write(path, {name: np.ones(shape, np.float32), "w.weight": np.ones((2, 64), np.float32)})
    assert main(["gguf", "quantize", str(path), str(path), "--format", "q4_0"]) == 0
    assert "1 tensors in q4_0, 1 as they were" in capsys.readouterr().out
    assert gguf.open(path).infos[name].format == "f32"


def test_patterns_that_keep_nothing_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model(tmp_path / "m.gguf")
    command = ["gguf", "quantize", str(tmp_path / "m.gguf"), str(tmp_path / "out.gguf")]
    assert main([*command, "--format", "q8_0", "--keep", "output.*", "--keep", "ouput.*"]) == 0
    expected = "ac4k gguf: --keep 'ouput.*': no tensor has such a name\n"
    assert capsys.readouterr().err == expected


def test_quantize_in_parts_and_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_gguf_quantize, "_CHUNK_VALUES", 1000)
    path = tmp_path / "m.gguf"
    tensors = model(path)
    assert main(["gguf", "quantize", str(path), str(path), "--format", "q8_0"]) == 0
    assert "4 tensors in q8_0" in capsys.readouterr().out
    with gguf.open(path) as written:
        found = written.tensors["blk.0.ffn_up.weight"].raw
    assert found.tobytes() == ac4k.quantize(tensors["blk.0.ffn_up.weight"], "q8_0").tobytes()
    # What is quantised already stays as it is.
    assert main(["gguf", "quantize", str(path), str(path), "--format", "q4_0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["quantized"] == 0
    assert list(tmp_path.iterdir()) == [path]
