"""GPTQ and AWQ tensors, and the safetensors files they come in."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ac4k
from ac4k._safetensors import Checkpoint, SafetensorsFile

# The column of eight that GPTQ's and AWQ's nibbles hold.
GPTQ = (0, 1, 2, 3, 4, 5, 6, 7)
AWQ_REVERSED = (0, 4, 1, 5, 2, 6, 3, 7)  # the nibble of each column, as AWQ's own unpacking says


def words(codes: np.ndarray, nibble_of: tuple[int, ...], axis: int) -> np.ndarray:
    """Eight codes along an axis to an int32."""
    codes = np.moveaxis(codes.astype(np.uint32), axis, -1)
    eights = codes.reshape(*codes.shape[:-1], -1, 8)
    shifts = 4 * np.array(nibble_of, np.uint32)
    joined = np.bitwise_or.reduce(eights << shifts, axis=-1)
    return np.ascontiguousarray(np.moveaxis(joined, -1, axis)).view(np.int32)


class Layer:
    """Random weights of a layer, and what they stand for."""

    def __init__(self, rows: int, columns: int, group: int, *, act_order: bool = False) -> None:
        rng = np.random.default_rng(rows + columns + group)
        groups = columns // group
        self.q = rng.integers(0, 16, (columns, rows), np.uint8)
        self.zeros = rng.integers(1, 16, (groups, rows), np.uint8)
        self.scales = (rng.random((groups, rows)) * 0.1 + 0.01).astype(np.float16)
        self.g_idx = np.repeat(np.arange(groups, dtype=np.int32), group)
        if act_order:
            self.g_idx = rng.permutation(self.g_idx)

    def dense(self) -> np.ndarray:
        scale = self.scales[self.g_idx].astype(np.float64)
        return (scale * (self.q.astype(np.float64) - self.zeros[self.g_idx])).T

    def gptq(self, version: str = "v1") -> dict[str, np.ndarray]:
        zeros = (self.zeros.astype(int) - (version == "v1")) & 15
        return {
            "qweight": words(self.q, GPTQ, 0),
            "qzeros": words(zeros, GPTQ, 1),
            "scales": self.scales,
            "g_idx": self.g_idx,
        }

    def awq(self) -> dict[str, np.ndarray]:
        return {
            "qweight": words(self.q, AWQ_REVERSED, 1),
            "qzeros": words(self.zeros, AWQ_REVERSED, 1),
            "scales": self.scales,
        }


def values(weight: Any) -> np.ndarray:
    return np.asarray(ac4k.w4a16_dequantize(weight, "float64"))


@pytest.mark.parametrize("act_order", [False, True])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_gptq(version: str, act_order: bool) -> None:
    layer = Layer(72, 512, 128, act_order=act_order)
    weight = ac4k.w4a16_from_gptq(**layer.gptq(version), version=version)
    assert weight.format.endswith("_ordered") == act_order
    np.testing.assert_allclose(values(weight), layer.dense(), rtol=1e-6)
    x = np.random.default_rng(1).standard_normal((3, 512)).astype(np.float16)
    got = ac4k.w4a16_linear(x, weight).astype(np.float64)
    expected = x.astype(np.float64) @ layer.dense().T
    assert ((got - expected) ** 2).sum() < 1e-6 * (expected**2).sum()
    out = np.empty((3, 72), np.float16)
    ac4k.w4a16_linear(x, weight, out=out)
    assert np.array_equal(out, got)


def test_gptq_without_g_idx_zero_points_that_wrap_and_symmetric() -> None:
    layer = Layer(64, 128, 32)
    layer.zeros[0, 3] = 0  # stored as 15 in version 1
    tensors = layer.gptq()
    del tensors["g_idx"]
    np.testing.assert_allclose(
        values(ac4k.w4a16_from_gptq(**tensors)), layer.dense(), rtol=1e-6, atol=1e-7
    )
    layer.zeros[:] = 8
    symmetric = ac4k.w4a16_from_gptq(**layer.gptq())
    assert symmetric.format == "w4_g32_f16"
    np.testing.assert_allclose(values(symmetric), layer.dense(), rtol=1e-6, atol=1e-7)


def test_awq(device: str) -> None:
    layer = Layer(136, 256, 64)
    weight = ac4k.w4a16_from_awq(**layer.awq())
    assert weight.format == "w4_g64z_f16"
    np.testing.assert_allclose(values(weight), layer.dense(), rtol=1e-6, atol=1e-7)
    tensors = {name: torch.from_numpy(part).to(device) for name, part in layer.awq().items()}
    tensors["scales"] = tensors["scales"].to(torch.bfloat16)
    from_torch = ac4k.w4a16_from_awq(**tensors)
    assert from_torch.format == "w4_g64z_bf16"
    assert from_torch.raw.device.type == device
    again = ac4k.w4a16_from_awq(**layer.awq(), dtype="bfloat16")
    assert np.array_equal(from_torch.raw.cpu().numpy(), again.raw)


def test_refusals() -> None:
    good = Layer(64, 256, 128).gptq()

    def refused(match: str, kind: type[Exception] = ValueError, **changes: Any) -> None:
        with pytest.raises(kind, match=f"w4a16_from_gptq: argument {match}"):
            ac4k.w4a16_from_gptq(**{**good, **changes})

    refused("'qweight': expected int32", TypeError, qweight=good["qweight"].astype(np.int64))
    refused("'qweight': expected 2 dims", qweight=good["qweight"][0])
    refused("'qweight': expected a tensor", TypeError, qweight=None)
    refused("'scales': expected", scales=good["scales"][:, :32])
    refused("'scales': expected", scales=good["scales"].repeat(3, 0)[:5])
    refused("'scales': expected float", TypeError, scales=good["scales"].astype(np.int8))
    float64 = good["scales"].astype(np.float64)
    refused("'scales': expected float16 or bfloat16 or float32, got f", TypeError, scales=float64)
    refused("'qweight': expected int32", TypeError, qweight=good["qweight"].astype(">i4"))
    refused("'scales': expected a tensor", TypeError, scales=None)
    # Eight bits: twice the zero points.
    refused("'qzeros': expected 4-bit", qzeros=good["qzeros"].repeat(2, 1))
    refused("'g_idx': expected shape", g_idx=good["g_idx"][:100])
    refused("'g_idx': expected 128 columns of each", g_idx=np.zeros(256, np.int32))
    refused("'version'", version="v3")
    with pytest.raises(TypeError, match="_gptq: argument 'dtype': expected float16 or bfloat16"):
        ac4k.w4a16_from_gptq(**good, dtype="float32")


def test_scales_stay_finite_in_any_named_dtype() -> None:
    tensors = {name: torch.from_numpy(part) for name, part in Layer(64, 256, 64).awq().items()}
    expected = ac4k.w4a16_from_awq(**tensors, dtype="bfloat16")
    assert torch.equal(ac4k.w4a16_from_awq(**tensors, dtype=torch.bfloat16).raw, expected.raw)
    for scale, dtype in ((1e6, torch.bfloat16), (1e6, torch.float32), (3.4e38, torch.float32)):
        tensors["scales"] = torch.full((4, 64), scale, dtype=dtype)
        name = "float16" if scale == 1e6 else "bfloat16"
        with pytest.raises(ValueError, match=f"_awq: argument 'scales': expected .* {name} can ho"):
            ac4k.w4a16_from_awq(**tensors, dtype=name)
    good = Layer(64, 256, 128).gptq()
    good["scales"] = np.full((2, 64), 1e6, np.float32)
    with pytest.raises(ValueError, match=r"_gptq: argument 'scales': expected .* float16 can hold"):
        ac4k.w4a16_from_gptq(**good)


def test_bfloat16_with_and_without_a_numpy_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ml_dtypes is no dependency: torch has a bfloat16 of its own."""
    arrays = Layer(64, 256, 128, act_order=True).gptq()
    tensors = {name: torch.from_numpy(part) for name, part in arrays.items()}
    expected = ac4k.w4a16_from_gptq(**arrays, dtype="bfloat16").raw
    writer = pytest.importorskip("safetensors.torch")
    path = tmp_path / "model.safetensors"
    rounded = tensors | {"scales": tensors["scales"].bfloat16()}
    writer.save_file({f"a.{name}": part for name, part in rounded.items()}, path)
    assert np.array_equal(ac4k.w4a16_load(path, "a").raw, expected)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    for given, dtype in ((tensors, "bfloat16"), (rounded, None)):
        assert np.array_equal(ac4k.w4a16_from_gptq(**given, dtype=dtype).raw.numpy(), expected)
    with pytest.raises(ImportError, match=r"dtype 'bfloat16': .*ml_dtypes, which is not"):
        ac4k.w4a16_from_gptq(**arrays, dtype="bfloat16")
    with pytest.raises(ImportError, match=r"model\.safetensors: tensor 'a\.scales': .*ml_dtypes"):
        ac4k.w4a16_load(path, "a")


# ---- files ----


def test_files_that_safetensors_wrote(tmp_path: Path) -> None:
    writer = pytest.importorskip("safetensors.torch")
    layer, other = Layer(64, 256, 128, act_order=True), Layer(64, 256, 64)
    tensors = {f"a.gptq.{n}": torch.from_numpy(t) for n, t in layer.gptq().items()}
    tensors |= {f"a.awq.{n}": torch.from_numpy(t) for n, t in other.awq().items()}
    tensors["norm"] = torch.randn(5).to(torch.bfloat16)
    path = tmp_path / "model.safetensors"
    writer.save_file(tensors, path, metadata={"format": "pt"})
    file = SafetensorsFile(path)
    assert set(file) == set(tensors)
    assert len(file) == len(tensors)
    assert file.metadata == {"format": "pt"}
    assert np.array_equal(file["norm"].astype(np.float32), tensors["norm"].float().numpy())
    np.testing.assert_allclose(values(ac4k.w4a16_load(path, "a.gptq")), layer.dense(), rtol=1e-6)
    awq = ac4k.w4a16_load(path, "a.awq", dtype="bfloat16")
    assert awq.format == "w4_g64z_bf16"
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": dict.fromkeys(tensors, path.name)}))
    assert np.array_equal(ac4k.w4a16_load(index, "a.awq", dtype="bfloat16").raw, awq.raw)
    with pytest.raises(ValueError, match=r"'prefix': expected a quantised layer .*a\.awq, a\.gptq"):
        ac4k.w4a16_load(path, "a.other")
    for name in ("../model.safetensors", "..", ""):
        index.write_text(json.dumps({"weight_map": {"x": name}}))
        with pytest.raises(ValueError, match="files beside it"):
            Checkpoint(index)
    index.write_text(json.dumps({"weight_map": {"missing": path.name}}))
    with pytest.raises(ValueError, match="expected tensor 'missing'"):
        Checkpoint(index)["missing"]


def test_headers_are_read_once_and_files_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mixture of experts has tens of thousands of layers, and its index of tensors as many."""
    writer = pytest.importorskip("safetensors.numpy")
    read: list[str] = []
    parse, read_index = SafetensorsFile._parse, Checkpoint._read_index

    def count_header(self: SafetensorsFile, text: bytes) -> Any:
        read.append(self.path.name)
        return parse(self, text)

    def count_index(self: Checkpoint) -> Any:
        read.append("index")
        return read_index(self)

    monkeypatch.setattr(SafetensorsFile, "_parse", count_header)
    monkeypatch.setattr(Checkpoint, "_read_index", count_index)
    layers = {name: Layer(64, 256, 64 * (i + 1)) for i, name in enumerate("ab")}
    where = {}
    for name, layer in layers.items():
        tensors = {f"{name}.{part}": tensor for part, tensor in layer.awq().items()}
        writer.save_file(tensors, tmp_path / f"{name}.safetensors")
        where |= dict.fromkeys(tensors, f"{name}.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    for name in "abab":
        loaded = ac4k.w4a16_load(tmp_path, name)
        np.testing.assert_allclose(values(loaded), layers[name].dense(), rtol=1e-6, atol=1e-7)
    assert read == ["index", "a.safetensors", "b.safetensors"]
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    # A file that changed is read again.
    layers["b"].zeros[:] = 3
    tensors = {f"b.{part}": tensor for part, tensor in layers["b"].awq().items()}
    writer.save_file({**tensors, "more": np.zeros(3)}, tmp_path / "b.safetensors")
    again = ac4k.w4a16_load(tmp_path, "b")
    np.testing.assert_allclose(values(again), layers["b"].dense(), rtol=1e-6, atol=1e-7)
    assert read[3:] == ["b.safetensors"]


def test_tensors_beside_those_of_dtypes_that_numpy_lacks(tmp_path: Path) -> None:
    writer = pytest.importorskip("safetensors.torch")
    names = ("float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz", "float4_e2m1fn_x2")
    tensors = {n: torch.zeros(3, 4, dtype=torch.uint8).view(getattr(torch, n)) for n in names}
    tensors |= {"complex64": torch.zeros(5, dtype=torch.complex64), "plain": torch.arange(7)}
    path = tmp_path / "model.safetensors"
    writer.save_file(tensors, path)
    file = SafetensorsFile(path)
    assert file["plain"].tolist() == list(range(7))
    for name in (*names, "complex64"):
        with pytest.raises(ValueError, match=f"{name}.*: expected a tensor that NumPy has"):
            file[name]


CONFIGS = {
    "quantize_config.json": lambda text: {"bits": 4, "checkpoint_format": text},
    "config.json": lambda text: {"quantization_config": {"checkpoint_format": text}},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_folders_and_their_configurations(tmp_path: Path, name: str) -> None:
    writer = pytest.importorskip("safetensors.numpy")
    layer, awq = Layer(64, 256, 128), Layer(64, 256, 64)
    tensors = {f"a.{part}": tensor for part, tensor in layer.gptq("v2").items()}
    tensors |= {f"b.{part}": tensor for part, tensor in awq.awq().items()}
    with pytest.raises(ValueError, match="w4a16_load: argument 'path': expected a file, or a fold"):
        ac4k.w4a16_load(tmp_path, "a")
    writer.save_file(tensors, tmp_path / "model.safetensors")
    v1 = ac4k.w4a16_from_gptq(**layer.gptq("v2"), version="v1")
    v2 = ac4k.w4a16_from_gptq(**layer.gptq("v2"), version="v2")

    def load(prefix: str = "a", **options: Any) -> np.ndarray:
        return ac4k.w4a16_load(tmp_path, prefix, **options).raw

    assert np.array_equal(load(), v1.raw)
    config = tmp_path / name
    for text, expected in (("gptq", v1), ("gptq_v2", v2), ("other", v1), (["gptq_v2"], v1)):
        config.write_text(json.dumps(CONFIGS[name](text)))
        assert np.array_equal(load(), expected.raw)
        assert np.array_equal(load(version="v2"), v2.raw)
    for packing, expected in (
        ({"packing_format": "auto_round:auto_gptq"}, v1),
        ({"packing_format": "auto_round:gptqmodel"}, v2),
        ({"packing_format": "auto_round:exllamav2"}, v2),
        ({"backend": "auto_round:gptq:exllamav2"}, v1),
        ({}, v1),
    ):
        said = {"quant_method": "auto-round", "bits": 4, **packing}
        config.write_text(json.dumps(said if "quantize" in name else {"quantization_config": said}))
        assert np.array_equal(load(), expected.raw)
    config.write_text(json.dumps({"quantization_config": None}))
    assert np.array_equal(load(), v1.raw)
    for damaged in (b"{", b"[]", b"\xff", b"[" * 100_000, b'{"quantization_config": 3}'):
        config.write_bytes(damaged)
        if name == "config.json" or b"3" not in damaged:
            with pytest.raises(ValueError, match=f"'version': expected v1 or v2, or a .*{name}"):
                load()
        assert np.array_equal(load(version="v1"), v1.raw)
    # AWQ has but one version; one that nobody knows is a mistake there, too.
    assert np.array_equal(load("b"), ac4k.w4a16_from_awq(**awq.awq()).raw)
    for prefix in ("a", "b"):
        with pytest.raises(
            ValueError, match="w4a16_load: argument 'version': expected v1 or v2, g"
        ):
            load(prefix, version="v9")
    index = {"weight_map": dict.fromkeys(tensors, "model-1.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "model.safetensors").rename(tmp_path / "model-1.safetensors")
    assert np.array_equal(load(version="v2"), v2.raw)


def entry(shape: Any = (2,), offsets: Any = (0, 8), dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HOSTILE = {
    "not JSON": b"{",
    "not an object": b"[1]",
    "not text": b'{"a\xff": 1}',
    "deep": b"[" * 100_000,
    "twice": b'{"a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}, "a": 3}',
    "entry": {"a": 3},
    "entry without offsets": {"a": {"dtype": "F32", "shape": [2]}},
    "dtype": {"a": entry(dtype="F12")},
    "dtype list": {"a": entry(dtype=["F32"])},
    "negative size": {"a": entry(shape=[-2])},
    "bool size": {"a": entry(shape=[True, 2])},
    "float size": {"a": entry(shape=[2.0])},
    "huge size": {"a": entry(shape=[2**62, 4])},
    "many dims": {"a": entry(shape=[1] * 40)},
    "shape text": {"a": entry(shape="2")},
    "wrong bytes": {"a": entry(shape=[3])},
    "half a byte": {"a": entry(shape=[15], dtype="F4")},
    "past the end": {"a": entry(shape=[2], offsets=[9, 17])},
    "backwards": {"a": entry(offsets=[8, 0])},
    "three offsets": {"a": entry(offsets=[0, 8, 8])},
    "overlap": {"a": entry(), "b": entry([1], [4, 8])},
    "metadata": {"__metadata__": {"a": 1}},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers(tmp_path: Path, name: str) -> None:
    header = HOSTILE[name]
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = tmp_path / "bad.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(16))
    with pytest.raises(ValueError, match=r"safetensors file .*bad\.safetensors: .*expected"):
        SafetensorsFile(path)


def test_hostile_lengths(tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    for data in (b"", b"1234567", (1 << 63).to_bytes(8, "little"), (3).to_bytes(8, "little")):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="expected"):
            SafetensorsFile(path)
    with pytest.raises(FileNotFoundError):
        SafetensorsFile(tmp_path / "none.safetensors")
    fine = json.dumps({"a": entry(), "empty": entry([0], [8, 8])}).encode()
    path.write_bytes(len(fine).to_bytes(8, "little") + fine + np.float32([1, 2]).tobytes())
    assert SafetensorsFile(path)["a"].tolist() == [1.0, 2.0]
