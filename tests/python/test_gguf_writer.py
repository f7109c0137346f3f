"""ac4k.gguf writes what a file can hold, whole or not at all, and names what it cannot hold."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from test_gguf_file import bytes_of, random_tensor

import ac4k
from ac4k import gguf


@pytest.mark.parametrize(
    ("tensors", "metadata", "error", "text"),
    [
        ({"w": np.zeros(3, np.uint8)}, {}, TypeError, "tensor 'w': .*float32.*got uint8"),
        ({"w": [1, 2]}, {}, TypeError, "tensor 'w': .*got list"),
        ({"w": np.zeros((1,) * 5, np.int8)}, {}, ValueError, "tensor 'w': .*at most 4 dims"),
        ({"x" * 65536: np.zeros(1, np.int8)}, {}, ValueError, "tensor name: .*at most 65535"),
        ({"\ud800": np.zeros(1, np.int8)}, {}, ValueError, r"tensor name: .*got '\\ud800'"),
        ({}, {"key": None}, TypeError, "metadata 'key': .*got NoneType"),
        ({}, {"key": [1, "a"]}, TypeError, "metadata 'key': .*got int, str"),
        ({}, {"key": 2**64}, ValueError, "metadata 'key': .*64 bits"),
        ({}, {"key": [-1, 2**63]}, ValueError, "metadata 'key': .*64 bits"),
        ({}, {"key": 1e300}, ValueError, "metadata 'key': "),
        ({}, {"key": np.float16(1)}, ValueError, "metadata 'key': .*got 'float16'"),
        ({}, {"key": torch.ones((), dtype=torch.bfloat16)}, ValueError, "'key': .*got 'bfloat16'"),
        ({}, {"\ud800": 1}, ValueError, r"metadata key: .*got '\\ud800'"),
        ({}, {"key": [[[[[1]]]]]}, ValueError, "metadata 'key': .*4 levels"),
        ({}, {"general.alignment": 24}, ValueError, "'general.alignment': .*power of two.*24"),
        ({}, {"general.alignment": "x"}, ValueError, "'general.alignment': .*'x'"),
        ({}, {3: 1}, TypeError, "metadata key: expected str, got int"),
        ({}, {"k": "\ud800"}, ValueError, r"'k': expected text without surrogates, got '\\ud800'$"),
        ({}, {"k": ["a", "a" * 99 + "\ud800"]}, ValueError, r"'k': .* got 'a{20}\\ud800'$"),
    ],
)
def test_what_cannot_be_written_is_named(
    tmp_path: Path, tensors: Any, metadata: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=f"gguf: .*{text}"):
        gguf.write(tmp_path / "out.gguf", tensors, metadata)
    assert list(tmp_path.iterdir()) == []


def test_packed_weights_are_written_as_blocks(tmp_path: Path) -> None:
    weight = random_tensor("q4_0", (70, 96))
    gguf.write(tmp_path / "out.gguf", {"w": ac4k.pack(weight)})
    assert bytes_of(gguf.open(tmp_path / "out.gguf").tensors["w"]) == bytes_of(weight)


def test_types_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "typed.gguf"
    types = {"a": "uint8", "b": "[float64]", "d": ["[int8]", "[string]"]}
    metadata = {"a": 3, "b": [1, 2], "d": [[1], ["x"]]}
    gguf.write(path, {}, metadata, metadata_types=types)
    with gguf.open(path) as opened:
        assert opened.metadata == metadata
        assert opened.metadata_types == types
    for value, wrong, text in (
        (300, "uint8", "expected a number that uint8 can hold, got 300$"),
        (-1, "uint64", "expected a number that uint64 can hold, got -1$"),
        (1e300, "float32", r"expected a number that float32 can hold, got 1e\+300$"),
        (10**400, "float64", "expected a number that float64 can hold, got 1000"),
        (1, 4, "expected a type of uint8.*got 4"),
        ([1], "[text]", "expected a type of uint8.*got 'text'"),
        ([1], "[uint8", r"such as '\[uint32\]' for a list, got '\[uint8'"),
        ([[1]], [4], r"such as '\[uint32\]' for a list, got 4"),
        ([[1]], ["[int8]", "[int8]"], "expected 2 elements.*got 1"),
        ("ab", "[string]", r"expected a list for the type \[string\], got str"),
        (3, "[uint8]", "expected a list .*got int"),
        ("no", "bool", "expected bool, got 'no'"),
        ([True, 0], "[bool]", "expected bool, got 0"),
    ):
        with pytest.raises((TypeError, ValueError), match=f"gguf: metadata 'k': .*{text}"):
            gguf.write(path, {}, {"k": value}, metadata_types={"k": wrong})


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ("x", "int8", "int8, got 'x'"),
        ("x", "uint32", "uint32, got 'x'"),
        (3.7, "uint32", "uint32, got 3.7"),
        ([1, None], "[uint64]", "uint64, got None"),
        ("3", "float32", "float32, got '3'"),
        ([0.5, b"1"], "[float64]", "float64, got b'1'"),
        (torch.tensor(3.5), "uint8", "uint8, got tensor"),
        (torch.ones(2), "float32", "float32, got tensor"),
        (np.ones(2), "int32", "int32, got array"),
    ],
)
def test_values_of_another_type_are_named(tmp_path: Path, value: Any, kind: str, text: str) -> None:
    with pytest.raises(TypeError, match=f"gguf: metadata 'k': expected {re.escape(text)}"):
        gguf.write(tmp_path / "out.gguf", {}, {"k": value}, metadata_types={"k": kind})


def test_numbers_of_any_kind_are_written(tmp_path: Path) -> None:
    path = tmp_path / "numbers.gguf"
    metadata = {"a": np.float32(3), "b": 7, "c": torch.tensor(5), "d": True}
    types = {"a": "float64", "b": "float32", "c": "uint8", "d": "uint32"}
    gguf.write(path, {}, metadata, metadata_types=types)
    assert gguf.open(path).metadata == {"a": 3.0, "b": 7.0, "c": 5, "d": 1}


def test_metadata_may_be_of_torch(tmp_path: Path) -> None:
    path = tmp_path / "torch.gguf"
    flags = [torch.tensor(True), np.True_, False]
    metadata = {"one": torch.tensor(2.5), "some": torch.arange(3), "flags": flags}
    gguf.write(path, {}, metadata, metadata_types={"flags": "[bool]"})
    with gguf.open(path) as opened:
        assert opened.metadata == {"one": 2.5, "some": [0, 1, 2], "flags": [True, True, False]}
        assert opened.metadata_types["some"] == "[int64]"


@pytest.mark.parametrize(
    ("fmt", "shape", "text"),
    [
        ("f32", (-2,), "expected sizes >= 0"),
        ("f32", (1.5,), "expected integers"),
        ("f32", 3, "expected integers"),
        ("f32", (0, 2**62), r"expected fewer than 2\^63 bytes"),
        ("q4_0", (2, 33), "expected a last dim that is a multiple of 32"),
    ],
)
def test_shapes_that_cannot_be_are_named(tmp_path: Path, fmt: str, shape: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"gguf: tensor 'a': shape: {text}.*, got"):
        gguf.Writer(tmp_path / "out.gguf", [gguf.TensorSpec("a", fmt, shape)])
    assert list(tmp_path.iterdir()) == []


def test_tensors_that_pass_every_file_together_are_named(tmp_path: Path) -> None:
    specs = [gguf.TensorSpec(f"t{i}", "i8", (1 << 62,)) for i in range(6)]
    with pytest.raises(ValueError, match=rf"gguf: tensor 't1': expected fewer .* got {1 << 63}$"):
        gguf.Writer(tmp_path / "out.gguf", specs)
    assert list(tmp_path.iterdir()) == []


def test_bytes_of_any_kind_are_written(tmp_path: Path) -> None:
    path = tmp_path / "out.gguf"
    spec = gguf.TensorSpec("a", "i8", [np.int64(4)])  # type: ignore[arg-type]
    empty = gguf.TensorSpec("e", "i8", (0, 3))
    for data in (b"1234", bytearray(b"1234"), np.frombuffer(b"1234", np.int32)):
        with gguf.Writer(path, [spec, empty]) as writer:
            writer.write_bytes(data)
            writer.write_bytes(np.zeros((0, 3), np.uint8))
        assert gguf.open(path).raw("a").tobytes() == b"1234"
    for wrong in ([1, 2, 3, 4], "1234", np.zeros(8, np.uint8)[::2], torch.zeros(4)):
        with (
            pytest.raises(TypeError, match=r"tensor 'a': expected its contiguous bytes, got"),
            gguf.Writer(path, [spec, empty]) as writer,
        ):
            writer.write_bytes(wrong)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.gguf"
    gguf.write(path, {"a": np.zeros(3, np.float32)})
    before = path.read_bytes()
    specs = [gguf.TensorSpec("a", "f32", (3,)), gguf.TensorSpec("b", "f16", (2,))]

    def fail() -> None:
        with gguf.Writer(path, specs) as writer:
            writer.write(np.ones(3, np.float32))
            assert path.read_bytes() == before
            raise KeyError("stop")

    with pytest.raises(KeyError):
        fail()
    with (
        pytest.raises(ValueError, match="tensor 'b': expected its data"),
        gguf.Writer(path, specs) as writer,
    ):
        writer.write(np.ones(3, np.float32))
    for wrong in (np.ones(3, np.float64), np.ones(4, np.float32)):
        with (
            pytest.raises(ValueError, match=r"tensor 'a': expected f32 \[3\], got"),
            gguf.Writer(path, specs) as writer,
        ):
            writer.write(wrong)
    with pytest.raises(ValueError, match=r"tensor 'a': .*twice"):
        gguf.Writer(path, [specs[0], specs[0]])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    # A link stays one, and a file in use may be written over.
    link = tmp_path / "link.gguf"
    link.symlink_to(path)
    with gguf.open(link) as opened:
        gguf.write(link, opened.tensors, {"new": True})
    assert link.is_symlink()
    assert gguf.open(path).metadata == {"new": True}


def test_only_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "folder").mkdir()
    names = {"pipe", "link", "folder"}
    for name in names:
        with pytest.raises(ValueError, match=f"gguf: .*/{name}: expected a regular file"):
            gguf.write(tmp_path / name, {"a": np.zeros(3, np.float32)})
    assert {path.name for path in tmp_path.iterdir()} == names
    assert (tmp_path / "pipe").is_fifo()


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "out.gguf"
    for mode in (0o600, 0o666):
        gguf.write(path, {})
        path.chmod(mode)
        gguf.write(path, {"a": np.zeros(3, np.float32)})
        assert path.stat().st_mode & 0o777 == mode


def test_a_mode_that_nobody_may_set_is_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.gguf"
    gguf.write(path, {})
    path.chmod(0o600)

    def refuse(file: int, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refuse)
    gguf.write(path, {}, {"new": True})
    assert gguf.open(path).metadata == {"new": True}
    assert path.stat().st_mode & 0o777 == 0o600  # never more than it was


def test_nothing_is_left_of_a_file_that_cannot_be_placed(tmp_path: Path) -> None:
    writer = gguf.Writer(tmp_path / "out.gguf", [])
    (tmp_path / "out.gguf").mkdir()
    with pytest.raises(IsADirectoryError), writer:
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["out.gguf"]


def test_errors_name_the_file_and_not_the_temporary_one(tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "out.gguf", str(tmp_path / "none" / "out.gguf").encode()):
        with pytest.raises(FileNotFoundError, match=r"none/out\.gguf'$"):
            gguf.write(path, {})


def test_names_may_be_as_long_as_names_are(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 250 + ".gguf")
    gguf.write(path, {})
    assert gguf.open(path).metadata == {}


def test_a_writer_may_be_closed_twice(tmp_path: Path) -> None:
    path = tmp_path / "out.gguf"
    with gguf.Writer(path, [gguf.TensorSpec("a", "i8", (2,))]) as writer:
        writer.write(np.arange(2, dtype=np.int8))
        writer.close()
        assert gguf.open(path).tensors["a"].tolist() == [0, 1]
    with gguf.Writer(path, []) as writer:
        writer.discard()
    assert list(gguf.open(path).infos) == ["a"]


def test_bfloat16_without_ml_dtypes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bf16.gguf"
    gguf.write(path, {"w": np.ones(2, ml_dtypes.bfloat16)})
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ImportError, match=r"tensor 'w': .*ml_dtypes.*device='cpu'"):
        gguf.open(path).tensors["w"]
    assert gguf.open(path, device="cpu").tensors["w"].tolist() == [1, 1]
