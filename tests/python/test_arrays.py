"""Arrays of every framework, the same kind out as in."""

from __future__ import annotations

import ctypes
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from helpers import wakes_beside

import ac4k


def test_numpy() -> None:
    A, B = np.random.default_rng(0).standard_normal((2, 5, 5)).astype(np.float32)
    result = ac4k.gemm(A, B)
    assert type(result) is np.ndarray
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, A @ B, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        ac4k.gemm(A.T, B[::-1, ::-1]), A.T @ B[::-1, ::-1], rtol=1e-5, atol=1e-5
    )
    out = np.empty((5, 5), np.float32)
    assert ac4k.gemm(A, B, out=out) is out


def test_outputs_that_run_backwards() -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 8)).astype(np.float32)
    expected = ac4k.rms_norm(x)
    for turn in (np.s_[::-1], np.s_[:, ::-1], np.s_[::-1, ::-1]):
        out = np.full_like(x, np.nan)[turn]
        assert ac4k.rms_norm(x, out=out) is out
        np.testing.assert_array_equal(out, expected)
    with pytest.raises(ValueError, match="do not overlap"):
        ac4k.rms_norm(x, out=np.lib.stride_tricks.as_strided(x[2, 4], (3, 5, 8), (-32, -32, 4)))


def test_numpy_with_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.linspace(-3, 3, 24).reshape(4, 6).astype(ml_dtypes.bfloat16)
    result = ac4k.fused_add_gelu(x, x[0])
    assert result.dtype == ml_dtypes.bfloat16
    expected = ac4k.fused_add_gelu(
        torch.tensor(x.astype(np.float32)).bfloat16(),
        torch.tensor(x[0].astype(np.float32)).bfloat16(),
    )
    np.testing.assert_array_equal(result.astype(np.float32), expected.float().numpy())


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: ac4k.quantize_fp8(x), "float8_e4m3fn"),
        (lambda x: ac4k.quantize_fp8(x, dtype="float8_e5m2"), "float8_e5m2"),
        (lambda x: ac4k.dequantize_q8_0(ac4k.quantize_q8_0(x), dtype="bfloat16"), "bfloat16"),
    ],
)
def test_numpy_without_ml_dtypes(monkeypatch: pytest.MonkeyPatch, call: Any, name: str) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ImportError, match=f"NumPy has {name} from the package ml_dtypes, which"):
        call(np.ones((2, 32), np.float32))


def test_read_only_and_zero_dimensional_arrays() -> None:
    a = np.array(3.0)
    a.flags.writeable = False
    assert ac4k.element_wise_mul_add(a, a, a) == 12.0
    assert np.shape(ac4k.element_wise_mul_add(a, a, a)) == ()


def test_mixed_frameworks() -> None:
    """The first tensor decides what the result is."""
    a, b = np.ones(4, np.float32), torch.full((4,), 2.0)
    assert type(ac4k.element_wise_mul_add(a, b, b)) is np.ndarray
    assert type(ac4k.element_wise_mul_add(b, a, a)) is torch.Tensor
    assert ac4k.element_wise_mul_add(b, a, a).tolist() == [3.0] * 4
    out = torch.empty(4)
    assert ac4k.element_wise_mul_add(a, a, a, out=out) is out


def test_anything_with_dlpack() -> None:
    class Holder:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    holder = Holder(np.full((3,), 2.0))
    assert ac4k.element_wise_mul_add(holder, holder, holder).tolist() == [6.0] * 3


def test_buffers() -> None:
    assert ac4k.stream_bytes(b"\x01\x02\x04\x08", 2).tolist() == [5, 10]
    assert ac4k.stream_bytes(bytearray(b"\x01\x02"), 1).tolist() == [3]


class Interface:
    """An array that tells its memory and no device, as Numba's, RMM's and PyCUDA's do."""

    def __init__(self, pointer: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (4,),
            "typestr": "<f4",
            "data": (pointer, False),
            "version": 3,
        }


@pytest.mark.parametrize(("answer", "device_id"), [(1, 1), (-1, 0)])
def test_the_driver_is_asked_for_the_device(
    answer: int, device_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ac4k._C, "device_of", lambda pointer: answer if pointer == 4096 else None)
    pointer, shape, device_type, found, _ = ac4k._C.describe(Interface(4096))
    assert (pointer, shape, device_type, found) == (4096, (4,), 2, device_id)


def test_host_memory_is_of_no_device() -> None:
    assert ac4k._C.device_of(np.ones(4).ctypes.data) == -1


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    x = jax.numpy.linspace(-2, 2, 15).reshape(3, 5)
    result = ac4k.fused_add_gelu(x, x[0])
    assert isinstance(result, jax.Array)
    assert result.devices() == x.devices()
    np.testing.assert_allclose(
        result, jax.nn.gelu(x + x[0], approximate=False), rtol=1e-5, atol=1e-6
    )
    half = x.astype(jax.numpy.bfloat16)
    assert ac4k.element_wise_mul_add(half, half, half).dtype == jax.numpy.bfloat16
    with pytest.raises(ValueError, match="writable"):
        ac4k.element_wise_mul_add(x, x, x, out=x)


def test_a_stream_that_is_not_told_is_an_error() -> None:
    """Work on another stream than the caller's would race with it."""
    fill_type = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
    stream_type = ctypes.PYFUNCTYPE(
        ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
    )
    shape = (ctypes.c_int64 * 1)(4)

    @fill_type
    def fill(_: Any, tensor: int) -> int:
        """data, device, ndim and dtype, shape, strides, byte offset: float32 on CUDA device 0."""
        dtype = 2 | 32 << 8 | 1 << 16
        values = [16, 2, 1 | dtype << 32, ctypes.addressof(shape), 0, 0]
        ctypes.memmove(tensor, (ctypes.c_int64 * 6)(*values), 48)
        return 0

    @stream_type
    def refuse(*_: Any) -> int:
        return -1

    address = [ctypes.cast(each, ctypes.c_void_p).value or 0 for each in (fill, refuse)]
    api = (ctypes.c_int64 * 7)(1 | 3 << 32, 0, 0, 0, 0, *address)
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    new_capsule.restype = ctypes.py_object

    class Array:
        __dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(api), b"dlpack_exchange_api", None)

    x = Array()
    for call in (lambda: ac4k._C.describe(x), lambda: ac4k.element_wise_mul_add(x, x, x, out=x)):
        with pytest.raises(RuntimeError, match="does not tell its current stream"):
            call()


@pytest.mark.parametrize(
    ("platform", "version", "named"), [("tpu", "", "tpu"), ("gpu", "PJRT, ROCM 60300", "rocm")]
)
def test_jax_arrays_on_other_platforms_are_refused(platform: str, version: str, named: str) -> None:
    client = SimpleNamespace(platform_version=version)

    class FakeJax:
        dtype = np.dtype(np.float32)

        def block_until_ready(self) -> None: ...

        def devices(self) -> list[Any]:
            return [SimpleNamespace(platform=platform, client=client)]

    FakeJax.__module__ = "jax"
    with pytest.raises(NotImplementedError, match=f"'x': expected .* cpu or cuda, got .* {named}"):
        ac4k.relu2(FakeJax())


def test_cupy(device: str) -> None:
    if device != "cuda":
        pytest.skip("needs a GPU")
    cupy = pytest.importorskip("cupy")
    x = cupy.linspace(-2, 2, 15, dtype=cupy.float32).reshape(3, 5)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        result = ac4k.element_wise_mul_add(x, x.T.copy().T, x)
        stream.synchronize()
    assert isinstance(result, cupy.ndarray)
    np.testing.assert_allclose(result.get(), x.get() ** 2 + x.get(), rtol=1e-6)


def few_tokens() -> None:
    half = torch.ones(8191, dtype=torch.float16)
    ac4k.gemm(half.expand(2, -1), half.expand(8191, -1))


@pytest.mark.parametrize("call", [few_tokens, lambda: ac4k.stream_bytes(b"\x01\x02\x03", 2**28)])
def test_other_threads_run_beside_a_call_that_is_large_behind_its_first_tensor(call: Any) -> None:
    ac4k.set_cpu_isa("generic")  # 50 ms
    counts = [wakes_beside(call) for _ in range(5)]
    ac4k.set_cpu_isa("auto")
    assert max(counts) > 5


def test_many_threads(device: str) -> None:
    """The GIL is let go while large CPU ops run; results must not mix."""
    inputs = [torch.full((300, 400), float(i), device=device) for i in range(8)]
    results: list[Any] = [None] * 8

    def work(index: int) -> None:
        for _ in range(20):
            results[index] = ac4k.element_wise_mul_add(inputs[index], inputs[index], inputs[index])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(8):
        assert torch.equal(results[i], torch.full((300, 400), float(i * i + i), device=device))
