"""ac4k.gguf: what is written is read back, by us and by the `gguf` package; damage is named."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ac4k
from ac4k import gguf
from ac4k._formats import FORMATS, STORED_FORMATS
from ac4k._gguf_types import PLAIN_TYPES, TENSOR_TYPES
from ac4k.quant_tensor import raw_shape

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
import gguf_cases
from gguf_cases import CASES, CORPUS

METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "general.name": "größe 🎈",
    "llama.block_count": 2,
    "llama.rope.freq_base": 10000.0,
    "negative": -5,
    "large": 2**40,
    "larger": -(2**40),
    "flag": True,
    "tokens": ["<s>", "", "é"],
    "scores": [0.5, -1.0, 2],
    "types": [1, 2, 3],
    "empty": [],
    "typed": np.float64(0.1),
    "bytes": np.arange(4, dtype=np.uint8),
}


def random_tensor(fmt: str, shape: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(len(fmt))
    if fmt in PLAIN_TYPES:
        dtype = PLAIN_TYPES[fmt].numpy_dtype("")
        size = int(np.prod(shape)) * dtype.itemsize
        return rng.integers(0, 256, size, dtype=np.uint8).view(dtype).reshape(shape)
    data = rng.integers(0, 256, raw_shape(fmt, shape), dtype=np.uint8)
    return ac4k.QuantTensor(data, fmt, shape)


def bytes_of(tensor: Any) -> bytes:
    data = tensor.raw if isinstance(tensor, ac4k.QuantTensor) else tensor
    if isinstance(data, torch.Tensor):
        data = data.reshape(-1).view(torch.uint8).numpy()
    return bytes(np.ascontiguousarray(data).view(np.uint8))


def every_type() -> dict[str, Any]:
    return {f"some.{fmt}.weight": random_tensor(fmt, (3, 512)) for fmt in TENSOR_TYPES}


# ---- Round trips ----------------------------------------------------------------------------


def test_everything_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "all.gguf"
    tensors = every_type()
    gguf.write(path, tensors, METADATA)
    with gguf.open(path) as opened:
        assert (opened.version, opened.alignment) == (3, 32)
        assert list(opened.tensors) == list(tensors)
        assert "some.f32.weight" in opened.tensors
        for name, tensor in tensors.items():
            found = opened.tensors[name]
            assert type(found) is type(tensor)
            assert tuple(found.shape) == (3, 512)
            assert bytes_of(found) == bytes_of(tensor)
            if isinstance(found, ac4k.QuantTensor):
                assert found.format == tensor.format
            else:
                assert found.dtype == tensor.dtype
        expected = {**METADATA, "typed": 0.1, "bytes": [0, 1, 2, 3]}
        assert dict(opened.metadata) == expected
        assert list(opened.metadata) == list(METADATA)
        types = dict(opened.metadata_types)
    assert types["llama.block_count"] == "uint32"
    assert (types["large"], types["larger"]) == ("uint64", "int64")
    assert (types["scores"], types["tokens"], types["bytes"]) == (
        "[float32]",
        "[string]",
        "[uint8]",
    )


def test_types_survive_a_second_writing(tmp_path: Path) -> None:
    content, _ = CASES["ok_tensors"]
    first, second = tmp_path / "first.gguf", tmp_path / "second.gguf"
    first.write_bytes(content)
    with gguf.open(first) as opened:
        types = opened.metadata_types
        gguf.write(second, opened.tensors, opened.metadata, metadata_types=types)
        with gguf.open(second) as again:
            assert again.metadata == opened.metadata
            assert again.metadata_types == opened.metadata_types
            assert [info[:3] for info in again.infos.values()] == [
                info[:3] for info in opened.infos.values()
            ]
    assert types["nested"] == ["[string]", "[int16]", []]
    assert types["u8"] == "uint8"


def test_the_gguf_package_reads_what_is_written(tmp_path: Path) -> None:
    peer = pytest.importorskip("gguf")
    path = tmp_path / "ours.gguf"
    known = {kind.name.lower() for kind in peer.GGMLQuantizationType} - {"q8_1"}  # 40 bytes there
    tensors = {k: v for k, v in every_type().items() if k.split(".")[1] in known}
    gguf.write(path, tensors, METADATA)
    reader = peer.GGUFReader(path)
    for key, value in METADATA.items():
        contents = reader.fields[key].contents()
        if isinstance(value, np.ndarray):
            value = value.tolist()
        assert contents == value, key
    assert len(reader.tensors) == len(tensors)
    for found in reader.tensors:
        assert found.tensor_type.name.lower() == found.name.split(".")[1]
        assert found.shape.tolist() == [512, 3]
        assert bytes(found.data) == bytes_of(tensors[found.name])


@pytest.mark.parametrize("alignment", [32, 64, 4096])
def test_what_the_gguf_package_writes_is_read(tmp_path: Path, alignment: int) -> None:
    peer = pytest.importorskip("gguf")
    path = tmp_path / "theirs.gguf"
    writer = peer.GGUFWriter(path, "llama")
    writer.add_custom_alignment(alignment)
    writer.add_uint8("u8", 200)
    writer.add_int64("i64", -7)
    writer.add_float64("f64", 0.1)
    writer.add_bool("flag", False)
    writer.add_array("tokens", ["a", "bc"])
    writer.add_array("numbers", [3, -4])
    values = np.random.default_rng(0).normal(size=(6, 256)).astype(np.float32)
    writer.add_tensor("plain", values)
    packed = {}
    for kind in ("Q4_0", "Q8_0", "Q4_1"):
        kind_type = peer.GGMLQuantizationType[kind]
        packed[kind] = peer.quants.quantize(values, kind_type)
        writer.add_tensor(kind, packed[kind], raw_dtype=kind_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with gguf.open(path) as opened:
        assert opened.alignment == alignment
        assert opened.metadata["tokens"] == ["a", "bc"]
        assert opened.metadata["numbers"] == [3, -4]
        assert (opened.metadata["i64"], opened.metadata["f64"]) == (-7, 0.1)
        assert opened.metadata["flag"] is False
        assert opened.metadata_types["u8"] == "uint8"
        assert np.array_equal(opened.tensors["plain"], values)
        for kind, data in packed.items():
            weight = opened.tensors[kind]
            assert (weight.format, weight.shape) == (kind.lower(), (6, 256))
            assert bytes_of(weight) == data.tobytes()


def test_sizes_are_those_of_the_gguf_package() -> None:
    peer = pytest.importorskip("gguf")
    for kind, sizes in peer.constants.GGML_QUANT_SIZES.items():
        name = kind.name.lower()
        assert TENSOR_TYPES[name] == kind.value
        if name in PLAIN_TYPES:
            assert sizes == (1, PLAIN_TYPES[name].num_bytes)
        elif name != "q8_1":  # there with two float32, in no file
            assert sizes == tuple({**FORMATS, **STORED_FORMATS}[name])


@pytest.mark.parametrize("fmt", TENSOR_TYPES)
def test_reader_and_writer_have_the_same_types(tmp_path: Path, fmt: str) -> None:
    size = gguf.TensorSpec("w", fmt, (2, 256)).nbytes
    path = tmp_path / "one.gguf"
    path.write_bytes(gguf_cases.one([256, 2], TENSOR_TYPES[fmt], 0, size))
    info = gguf.open(path).infos["w"]
    assert (info.format, info.nbytes) == (fmt, size)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2**64 - 1)
FLOATS = st.floats(width=32, allow_nan=False)
LISTS = st.lists(TEXT) | st.lists(st.booleans()) | st.lists(FLOATS) | st.lists(st.lists(TEXT))
KEYS = TEXT.filter(lambda key: key != "general.alignment")  # which has to be a power of two
VALUES = TEXT | st.booleans() | INTEGERS | FLOATS | LISTS
SHAPES = st.lists(st.integers(0, 5), max_size=3)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(KEYS, VALUES),
    st.dictionaries(TEXT, st.tuples(st.sampled_from([*TENSOR_TYPES]), SHAPES)),
)
def test_any_metadata_and_tensors_are_read_back(
    metadata: dict[str, Any], wanted: dict[str, tuple[str, list[int]]]
) -> None:
    tensors = {name: random_tensor(fmt, (*shape, 256)) for name, (fmt, shape) in wanted.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.gguf"
        gguf.write(path, tensors, metadata)
        with gguf.open(path) as opened:
            assert opened.metadata == metadata
            assert list(opened.metadata) == list(metadata)
            assert list(opened.tensors) == list(tensors)
            for name, tensor in tensors.items():
                assert opened.infos[name].format == wanted[name][0]
                assert tuple(opened.tensors[name].shape) == tuple(tensor.shape)
                assert bytes_of(opened.tensors[name]) == bytes_of(tensor)


# ---- Views ----------------------------------------------------------------------------------


def test_tensors_are_views_that_outlive_the_file(tmp_path: Path) -> None:
    path = tmp_path / "views.gguf"
    gguf.write(path, {"q": random_tensor("q4_0", (4, 64)), "f": np.arange(5, dtype=np.float32)})
    before = path.read_bytes()
    with gguf.open(path) as opened:
        quantized, plain = opened.tensors["q"], opened.tensors["f"]
        assert np.shares_memory(plain, opened.tensors["f"])
        assert plain.ctypes.data % 32 == 0
    path.unlink()
    gc.collect()
    assert plain.tolist() == [0, 1, 2, 3, 4]
    assert bytes_of(quantized) == bytes_of(random_tensor("q4_0", (4, 64)))
    plain[:] = 7  # this process's memory only
    path.write_bytes(before)
    assert gguf.open(path).tensors["f"].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="was closed"):
        opened.tensors["q"]


def test_metadata_that_is_overwritten_is_an_error(tmp_path: Path) -> None:
    """The buffer of the C module is that of the whole file, and writable."""
    path = tmp_path / "overwritten.gguf"
    gguf.write(path, {}, {"texts": ["first", "second", "third"]})
    opened = ac4k._C.gguf_open(os.fsencode(path))
    assert opened.metadata()["texts"] == ["first", "second", "third"]
    length = path.read_bytes().index(b"second") - 8
    memoryview(opened)[length : length + 8] = b"\xff" * 8
    with pytest.raises(RuntimeError, match="overwritten"):
        opened.metadata()


def test_torch_tensors_are_views_too(tmp_path: Path) -> None:
    path = tmp_path / "torch.gguf"
    tensors = {**every_type(), "none": np.zeros((0, 4), np.float32), "one": np.float32(3)}
    gguf.write(path, tensors)
    with gguf.open(path, device="cpu") as opened:
        found = dict(opened.tensors)
        assert found["some.f32.weight"].data_ptr() == opened.tensors["some.f32.weight"].data_ptr()
    for name, tensor in tensors.items():
        assert isinstance(found[name], torch.Tensor)
        assert tuple(found[name].shape) == tuple(tensor.shape)
        assert bytes_of(found[name]) == bytes_of(tensor)
    assert found["some.bf16.weight"].dtype == torch.bfloat16
    assert isinstance(found["some.q4_k.weight"], ac4k.QuantTensor)
    again = tmp_path / "again.gguf"
    gguf.write(again, found)  # from torch
    assert again.read_bytes() == path.read_bytes()


def test_neither_torch_nor_numpy_is_needed_to_look(tmp_path: Path) -> None:
    path = tmp_path / "look.gguf"
    path.write_bytes(CASES["ok_tensors"][0])
    program = f"""
import sys, ac4k
with ac4k.gguf.open({str(path)!r}) as file:
    print(len(file.metadata), len(file.infos), {{"torch", "numpy"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "20 6 set()", done.stderr


# ---- Damage ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_named(tmp_path: Path, name: str) -> None:
    content, error = CASES[name]
    path = tmp_path / "case.gguf"
    path.write_bytes(content)
    if error is None:
        with gguf.open(path) as opened:
            for value in opened.tensors.values():
                bytes_of(value)
            assert set(opened.metadata) == set(opened.metadata_types)
    else:
        with pytest.raises((ValueError, NotImplementedError), match=f"gguf: {path}: {error}"):
            gguf.open(path)


def test_the_corpus_is_current() -> None:
    for name, (content, _) in CASES.items():
        kept = CORPUS / f"{name}.gguf"
        assert not kept.exists() or kept.read_bytes() == content, "run tests/fuzz/gguf_cases.py"
        assert kept.exists() or len(content) >= 8192
    assert sum(path.stat().st_size for path in CORPUS.iterdir()) < 200_000


def test_random_damage_is_an_error_or_a_file(tmp_path: Path) -> None:
    rng = random.Random(0)
    path = tmp_path / "damaged.gguf"
    seeds = [content for content, _ in CASES.values() if len(content) < 8192]
    seen = {True: 0, False: 0}
    texts = set()
    for _ in range(3000):
        content = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, 4)):
            where = rng.randrange(len(content) + 1)
            what = rng.randrange(4)
            if what == 0:
                content[where : where + 1] = rng.randbytes(1)
            elif what == 1:
                content[where : where + 8] = rng.choice((0, 1, 2**31, 2**63, 2**64 - 1)).to_bytes(
                    8, "little"
                )
            elif what == 2:
                del content[where : where + rng.randint(1, 64)]
            else:
                content[where:where] = rng.choice(seeds)[: rng.randint(1, 64)]
        path.write_bytes(content)
        try:
            with gguf.open(path) as opened:
                _ = opened.metadata, opened.metadata_types
                for value in opened.tensors.values():
                    bytes_of(value)
            seen[True] += 1
        except (ValueError, NotImplementedError) as error:
            texts.add(str(error).removeprefix(f"gguf: {path}: "))
            seen[False] += 1
    assert min(seen.values()) > 50, seen
    assert len(texts) > 50
    assert not any(text.startswith("gguf") for text in texts)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        gguf.open(tmp_path / "missing.gguf")
    with pytest.raises(ValueError, match="regular file"):
        gguf.open(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="regular file"):
        gguf.open(tmp_path / "pipe")  # and does not wait for a writer
    strange = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.gguf")
    Path(strange).write_bytes(b"GGML")
    with pytest.raises(ValueError, match=r"/\?.gguf: magic"):
        gguf.open(strange)


@pytest.mark.parametrize("dims", [[9151314442816847876, 0], [0, 2**61]])
def test_dims_that_no_array_has_are_refused(tmp_path: Path, dims: list[int]) -> None:
    path = tmp_path / "empty.gguf"
    path.write_bytes(gguf_cases.one(dims, TENSOR_TYPES["f32"]))
    with pytest.raises(ValueError, match=r"gguf: .*tensor 'w': dims: expected fewer than 2\^63"):
        gguf.open(path)
    path.write_bytes(gguf_cases.one([0, 2**60], TENSOR_TYPES["f32"]))
    assert gguf.open(path).tensors["w"].shape == (2**60, 0)


def test_a_sparse_file_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "sparse.gguf"
    content = gguf_cases.file(
        tensors=[gguf_cases.tensor(b"w", [2**40], gguf_cases.T_I8, 0)], data=bytes(1)
    )
    path.write_bytes(content)
    try:
        os.truncate(path, len(content) - 1 + 2**40)
    except OSError:
        pytest.skip("the file system has no sparse files of this size")
    weight = gguf.open(path).tensors["w"]
    assert weight.shape == (2**40,)
    assert weight[-1] == 0
