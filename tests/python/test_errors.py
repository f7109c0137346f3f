"""Bad input: an exception that names op, argument, expected and got, and nothing written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import ac4k


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype)


CASES: list[tuple[Any, type[Exception], str]] = [
    # dtype
    (
        lambda: ac4k.gemm(tensor(2, 3, dtype=torch.int32), tensor(3, 2)),
        TypeError,
        "gemm: argument 'A': expected dtype float32, float64, float16, bfloat16, got int32",
    ),
    (
        lambda: ac4k.gemm(tensor(2, 3), tensor(3, 2, dtype=torch.float64)),
        TypeError,
        "gemm: argument 'B': expected dtype float32, as 'A' has, got float64",
    ),
    (
        lambda: ac4k.gemm(tensor(2, 3, dtype=torch.complex64), tensor(3, 2)),
        TypeError,
        "got complex64",
    ),
    (
        lambda: ac4k.gemm(np.ones((2, 3), ">f4"), np.ones((3, 2), "f4")),
        TypeError,
        "native numeric dtype",
    ),
    (lambda: ac4k.gemm(np.array([["a"]]), np.ones((1, 1))), TypeError, "argument 'A'"),
    # shape
    (
        lambda: ac4k.gemm(tensor(2, 3), tensor(4, 2)),
        ValueError,
        "gemm: argument 'B': expected shape [K, N] with K = 3, set by 'A', got [4, 2]",
    ),
    (
        lambda: ac4k.gemm(tensor(2, 3, 4), tensor(4, 2)),
        ValueError,
        "gemm: argument 'A': expected shape [M, K], got [2, 3, 4]",
    ),
    (
        lambda: ac4k.fused_add_gelu(tensor(2, 3), tensor(4)),
        ValueError,
        "fused_add_gelu: argument 'bias': expected shape [N] with N = 3, set by 'x', got [4]",
    ),
    (
        lambda: ac4k.fused_add_gelu(tensor(), tensor(1)),
        ValueError,
        "expected shape [..., N], got []",
    ),
    (
        lambda: ac4k.element_wise_mul_add(tensor(2, 3), tensor(2, 4), tensor(2, 3)),
        ValueError,
        "'b': expected shape [...] with ... = [2, 3], as 'a' has, got [2, 4]",
    ),
    (
        lambda: ac4k.element_wise_mul_add(*[tensor(*[1] * 9)] * 3),
        ValueError,
        "at most 8 dimensions, got 9",
    ),
    # devices
    (
        lambda: ac4k.gemm(tensor(2, 3), tensor(3, 2).to("meta")),
        (ValueError, RuntimeError),
        "gemm: argument 'B'",
    ),
    # strides and overlap
    (
        lambda: ac4k.stream_bytes(torch.zeros(10, dtype=torch.uint8)[::2], 2),
        ValueError,
        "argument 'src': expected a contiguous tensor, got shape [5] with strides [2]",
    ),
    (
        lambda: ac4k.gemm(tensor(2, 2), tensor(2, 2), out=tensor(2, 4)[:, ::2]),
        ValueError,
        "gemm: argument 'out': expected a contiguous tensor",
    ),
    (
        lambda: ac4k.gemm(tensor(2, 2), tensor(2, 2), out=tensor(1, 2).expand(2, 2)),
        ValueError,
        "'out': expected a contiguous",
    ),
    # scalars, names, counts
    (
        lambda: ac4k.fused_add_gelu(tensor(2), tensor(2), approximate="exact"),
        ValueError,
        "fused_add_gelu: argument 'approximate': expected one of none, tanh, got 'exact'",
    ),
    (
        lambda: ac4k.fused_add_gelu(tensor(2), tensor(2), approximate="tanh\0zz"),
        ValueError,
        "fused_add_gelu: argument 'approximate': expected no zero bytes, got 'tanh\\x00zz'",
    ),
    (
        lambda: torch.ops.ac4k.fused_add_gelu(tensor(2), tensor(2), approximate="tanh\0zz"),
        RuntimeError,
        "fused_add_gelu: argument 'approximate': expected no zero bytes",
    ),
    (
        lambda: ac4k.fused_add_gelu(tensor(2), tensor(2), approximate=3),
        TypeError,
        "fused_add_gelu: argument 'approximate': expected a str, got int",
    ),
    (
        lambda: ac4k.stream_bytes(torch.zeros(4, dtype=torch.uint8), -1),
        ValueError,
        "stream_bytes: argument 'W': expected at least 0, got -1",
    ),
    (
        lambda: ac4k.stream_bytes(torch.zeros(4, dtype=torch.uint8), 2.5),
        TypeError,
        "'W': expected an int, got float",
    ),
    (
        lambda: ac4k.stream_bytes(torch.zeros(4, dtype=torch.uint8), 2**70),
        ValueError,
        "an int of 64 bits",
    ),
    (
        lambda: ac4k.gemm(None, tensor(2, 2)),
        TypeError,
        "gemm: argument 'A': expected a tensor, got None",
    ),
    (
        lambda: ac4k.gemm([[1.0]], tensor(1, 1)),
        TypeError,
        "gemm: argument 'A': expected a tensor (torch, NumPy",
    ),
    (lambda: ac4k._C.gemm(tensor(2, 2)), TypeError, "gemm: argument 'B': missing"),
    (
        lambda: ac4k._C.gemm(*[tensor(2, 2)] * 4),
        TypeError,
        "gemm: expected at most 3 arguments, got 4",
    ),
    (
        lambda: ac4k._C.gemm(tensor(2, 2), tensor(2, 2), beta=1),
        TypeError,
        "gemm: unexpected argument 'beta'",
    ),
    (
        lambda: ac4k._C.gemm(tensor(2, 2), tensor(2, 2), A=1),
        TypeError,
        "gemm: argument 'A' given twice",
    ),
    # outputs
    (
        lambda: ac4k.gemm(tensor(2, 3), tensor(3, 2), out=tensor(2, 3)),
        ValueError,
        "gemm: argument 'out': expected shape [2, 2], got [2, 3]",
    ),
    (
        lambda: ac4k.gemm(tensor(2, 3), tensor(3, 2), out=tensor(2, 2, dtype=torch.float64)),
        TypeError,
        "gemm: argument 'out': expected dtype float32, got float64",
    ),
    # sizes
    (
        lambda: ac4k.element_wise_mul_add(*[torch.ones(1).expand(2**61)] * 3),
        ValueError,
        "2^63 bytes",
    ),
    (
        lambda: ac4k.gemm(torch.ones(1, 1).expand(2**40, 1), torch.ones(1, 1).expand(1, 2**40)),
        ValueError,
        "gemm: the output would have shape [1099511627776, 1099511627776], which passes 2^63 bytes",
    ),
    (
        lambda: ac4k.element_wise_mul_add(*[torch.ones(1).expand(2**45)] * 3),
        (MemoryError, RuntimeError),
        "allocate",
    ),
    (
        lambda: ac4k.element_wise_mul_add(*[np.broadcast_to(np.ones(1), 2**45)] * 3),
        MemoryError,
        "allocate",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), CASES, ids=range(len(CASES)))
def test_bad_input(call: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)


def test_overlap_is_refused_and_nothing_is_written() -> None:
    memory = torch.arange(12, dtype=torch.float32)
    before = memory.clone()
    A, B, out = memory[0:4].view(2, 2), memory[4:8].view(2, 2), memory[2:6].view(2, 2)
    with pytest.raises(ValueError, match="argument 'out': expected memory apart from 'A'"):
        ac4k.gemm(A, B, out=out)
    with pytest.raises(ValueError, match="apart from 'a'"):
        ac4k.element_wise_mul_add(memory[0:4], memory[6:10], memory[8:12], out=memory[1:5])
    assert torch.equal(memory, before)


def test_read_only_outputs_and_misaligned_inputs() -> None:
    out = np.zeros((2, 2), np.float32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="expected a writable array"):
        ac4k.gemm(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32), out=out)
    raw = np.zeros(17, np.uint8)[1:].view(np.float32)
    with pytest.raises(ValueError, match="aligned to 4 bytes"):
        ac4k.element_wise_mul_add(raw, raw, raw)


def test_2_to_the_31_elements_are_right() -> None:
    count = 2**31 + 5
    out = ac4k.stream_bytes(np.array([1, 2, 3], np.uint8), count)
    assert out[-3:].tolist() == [(i % 3) + 1 for i in range(count - 3, count)]
    assert out[2**31 - 1 : 2**31 + 1].tolist() == [(i % 3) + 1 for i in (2**31 - 1, 2**31)]


class OddError(Exception):
    """Not to be made from a text."""

    def __init__(self, text: str, more: int) -> None:
        super().__init__(text, more)


@pytest.mark.parametrize(
    "raised", [OddError("odd", 1), KeyboardInterrupt("stop"), SystemExit(3), OSError(5, "disk")]
)
def test_exceptions_of_an_argument_pass_as_they_are(raised: BaseException) -> None:
    class Argument:
        def __dlpack__(self, **options: Any) -> Any:
            raise raised

        def __dlpack_device__(self) -> Any:
            raise raised

        def __float__(self) -> float:
            raise raised

    x = tensor(2, 2)
    for call in (
        lambda: ac4k.gemm(Argument(), x),
        lambda: ac4k.gemm(x, x, out=Argument()),
        lambda: ac4k.rms_norm(x, x[0], eps=Argument()),
    ):
        with pytest.raises(type(raised)) as caught:
            call()
        assert caught.value is raised


def test_settings_refuse_nonsense() -> None:
    with pytest.raises(ValueError, match="expected"):
        ac4k.set_cpu_isa("sse9")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_threads"):
        ac4k.set_num_threads(-1)
    with pytest.raises(ValueError, match="expected"):
        ac4k.set_jit("sometimes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ac4k_set: expected one of"):
        ac4k._C.set("colour", "blue")
