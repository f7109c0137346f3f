"""linear: activations times packed block-quantised weights, on every CPU level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import ac4k
from ac4k import _gguf_linear_reference as reference
from ac4k._formats import FORMATS, WEIGHT_FORMATS


@pytest.fixture(autouse=True)
def same_activations_each_time() -> None:
    """Weights of one sign and activations whose sum is near 0 leave little to compare with: one run
    in some dozens would be out of tolerance."""
    torch.manual_seed(0)


# Activations are not quantised: what is left is the rounding of results (2^-12 and 2^-9 of them)
# and, for bf16, that of weights.
NMSE = {torch.float32: 1e-8, torch.float16: 1e-6, torch.bfloat16: 1e-5}
# Where the float16 scales of a block are, and about how large its values are without them.
_HALVES = {
    "q4_0": ((0,), 8),
    "q4_1": ((0, 2), 8),
    "q5_0": ((0,), 16),
    "q5_1": ((0, 2), 16),
    "q8_0": ((0,), 128),
    "q2_k": ((80, 82), 30),
    "q3_k": ((108,), 64),
    "q4_k": ((0, 2), 500),
    "q5_k": ((0, 2), 1000),
    "q6_k": ((208,), 2000),
    "iq4_nl": ((0,), 128),
    "iq4_xs": ((0,), 2000),
}


def random_weight(fmt: str, rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Random codes with scales that make values of about 1."""
    rng = np.random.default_rng(seed)
    values, size = FORMATS[fmt]
    q = rng.integers(0, 256, (rows, columns // values, size), np.uint8)
    places, magnitude = _HALVES.get(fmt, ((), 1))
    for at in places:
        scale = rng.uniform(0.3, 1.0, (*q.shape[:2], 1)) / magnitude
        q[..., at : at + 2] = scale.astype(np.float16).view(np.uint8)
    if fmt == "mxfp4":
        q[..., 0] = rng.integers(120, 127, q.shape[:2])
    if fmt == "nvfp4":
        q[..., :4] = rng.integers(0, 256, (*q.shape[:2], 4))
    return q


def packed_and_dense(
    fmt: str, rows: int, columns: int, device: str = "cpu", seed: int = 0
) -> tuple[ac4k.QuantTensor, np.ndarray]:
    q = random_weight(fmt, rows, columns, seed)
    return ac4k.pack(torch.from_numpy(q), fmt).to(device), reference.dequantize(q, fmt)


def nmse(result: torch.Tensor, expected: np.ndarray) -> float:
    error = result.double().cpu().numpy() - expected
    return float((error**2).sum() / (expected**2).sum())


@pytest.mark.parametrize("fmt", WEIGHT_FORMATS)
def test_accuracy_on_every_level(level: str, fmt: str) -> None:
    """Odd N, K of an odd number of blocks, tokens that take every path."""
    columns = 32 * 11 if FORMATS[fmt].block_values == 32 else 256 * 3
    w, dense = packed_and_dense(fmt, 67, columns)
    for dtype, limit in NMSE.items():
        for tokens in (1, 2, 7, 9, 50):
            x = torch.randn(tokens, columns).to(dtype)
            bias = torch.randn(67).to(dtype) if tokens % 2 else None
            expected = x.double().numpy() @ dense.T
            if bias is not None:
                expected = expected + bias.double().numpy()
            assert nmse(ac4k.linear(x, w, bias), expected) < limit, (dtype, tokens)


@pytest.mark.parametrize("fmt", ["q4_0", "q6_k"])
def test_large_and_independent_of_threads(fmt: str) -> None:
    """More rows than a thread takes at a time, more tokens than it keeps sums of."""
    w, dense = packed_and_dense(fmt, 600, 512)
    for tokens in (1, 7, 64, 530):
        x = torch.randn(tokens, 512).to(torch.bfloat16)
        result = ac4k.linear(x, w)
        assert nmse(result, x.double().numpy() @ dense.T) < 1e-5
        for threads in (1, 3):
            ac4k.set_num_threads(threads)
            try:
                assert torch.equal(ac4k.linear(x, w), result)
            finally:
                ac4k.set_num_threads(0)


def test_leading_dims_views_and_out(device: str) -> None:
    w, dense = packed_and_dense("q4_k", 70, 256, device)
    wide = torch.randn(3, 5, 300, device=device)
    x = wide[..., 7:263]
    expected = x.double().cpu().numpy() @ dense.T
    result = ac4k.linear(x, w)
    assert result.shape == (3, 5, 70)
    assert nmse(result, expected) < 1e-8
    swapped = x.transpose(0, 1)
    assert torch.equal(ac4k.linear(swapped, w), ac4k.linear(swapped.contiguous(), w))
    out = torch.full((3, 5, 70), torch.nan, device=device)
    assert ac4k.linear(x, w, out=out) is out
    assert torch.equal(out, result)
    assert ac4k.linear(x[0, 0], w).shape == (70,)
    assert ac4k.linear(x[:0], w).shape == (0, 5, 70)
    empty = ac4k.pack(torch.empty(3, 0, 18, dtype=torch.uint8, device=device), "q4_0")
    bias = torch.randn(3, device=device)
    assert torch.equal(ac4k.linear(x[:, 0, :0], empty, bias), bias.expand(3, 3))


def test_numpy() -> None:
    q = random_weight("q8_0", 5, 64)
    x = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    result = ac4k.linear(x, ac4k.pack(q, "q8_0"))
    np.testing.assert_allclose(result, x @ reference.dequantize(q, "q8_0").T, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("tokens", [1, 5, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_special_values(level: str, tokens: int, dtype: torch.dtype) -> None:
    """A token with NaN or an infinity has them where float32 has; other tokens do not notice."""
    w, dense = packed_and_dense("q5_1", 66, 256)
    x = torch.randn(tokens, 256).to(dtype)
    clean = ac4k.linear(x, w)
    for special in (torch.nan, torch.inf, -torch.inf):
        x[0, 100] = special
        result = ac4k.linear(x, w)
        with np.errstate(invalid="ignore"):
            expected = torch.from_numpy(x[:1].double().numpy() @ dense.T)
        assert torch.equal(result[:1].isnan(), expected.isnan())
        assert torch.equal(result[:1] == torch.inf, expected == torch.inf)
        assert torch.allclose(result[1:].float(), clean[1:].float(), rtol=2e-2, atol=1e-2)


def test_zeros_tiny_and_huge_activations(level: str) -> None:
    w, dense = packed_and_dense("q4_0", 64, 512)
    for tokens in (1, 12):
        assert not ac4k.linear(torch.zeros(tokens, 512), w).any()
        for scale in (1e-36, 1e-25, 1e30):
            x = torch.randn(tokens, 512) * scale
            assert nmse(ac4k.linear(x, w), x.double().numpy() @ dense.T) < 1e-8


@pytest.mark.parametrize("fmt", ["q8_0", "q4_k"])
@pytest.mark.parametrize("tokens", [1, 7, 24])
def test_outliers_take_no_digits_from_others(level: str, fmt: str, tokens: int) -> None:
    """Not even where all that they meet are zeros; so of numbers below others' last digits."""
    columns = 1024 if fmt == "q4_k" else 1088
    weight = torch.randn(67, columns)
    weight[:, [5, 300, 1023]] = 0
    q = ac4k.quantize(weight, fmt)
    w, dense = ac4k.pack(q, fmt), reference.dequantize(q.numpy(), fmt)
    for outlier in (40, 3e3, 1e9, 1e30):
        x = torch.randn(tokens, columns)
        x[0, 5] = x[-1, 300] = x[-1, 1023] = outlier
        x[0, 512:768] *= 1e-34
        result, expected = ac4k.linear(x, w), x.double().numpy() @ dense.T
        for token in (0, tokens // 2, tokens - 1):
            assert nmse(result[token], expected[token]) < 5e-7


@pytest.mark.parametrize("tokens", [1, 6])
@pytest.mark.parametrize(
    "outliers", [range(5, 6), range(5, 14), range(5, 149, 16), range(240, 256), range(0, 512, 32)]
)
def test_outliers_anywhere(level: str, outliers: range, tokens: int) -> None:
    """However they lie to each other, and of several sizes."""
    weight = torch.randn(67, 512)
    weight[:, list(outliers)] = 0
    q = ac4k.quantize(weight, "q8_0")
    w, dense = ac4k.pack(q, "q8_0"), reference.dequantize(q.numpy(), "q8_0")
    for largest in (40, 3e3, 1e4, 1e7):
        x = torch.randn(tokens, 512)
        x[0, list(outliers)] = torch.logspace(1, np.log10(largest), len(outliers))
        expected = x.double().numpy() @ dense.T
        assert nmse(ac4k.linear(x, w)[0], expected[0]) < 1e-6


@pytest.mark.parametrize("other", [1, 16, 17, 255])
def test_an_outlier_beside_a_single_number(level: str, other: int) -> None:
    weight = torch.randn(64, 512)
    weight[:, 0] = 0
    q = ac4k.quantize(weight, "q8_0")
    w, dense = ac4k.pack(q, "q8_0"), reference.dequantize(q.numpy(), "q8_0")
    x = torch.zeros(2, 512)
    x[:, 0], x[:, other] = torch.tensor([1e3, 1e5]), 1
    assert nmse(ac4k.linear(x, w), x.double().numpy() @ dense.T) < 1e-6


@pytest.mark.parametrize("code", [0, 1, 2, 3, 200])
def test_exponents_of_mxfp4(level: str, code: int) -> None:
    """Scales that are denormal numbers, which matrix instructions do not know, or huge."""
    q = random_weight("mxfp4", 67, 256)
    q[..., 0] = code
    w, dense = ac4k.pack(torch.from_numpy(q), "mxfp4"), reference.dequantize(q, "mxfp4")
    for tokens in (1, 12) if code > 3 else (1,):
        x = torch.randn(tokens, 256) * 2.0 ** (127 - code if code > 3 else 110)
        assert nmse(ac4k.linear(x, w), x.double().numpy() @ dense.T) < 1e-8


def test_small_scales_of_nvfp4_where_denormals_are_flushed(level: str) -> None:
    """Denormal numbers of e4m3 are none of float32."""
    q = random_weight("nvfp4", 64, 256)
    q[..., :4] = np.random.default_rng(1).integers(1, 8, (*q.shape[:2], 4))
    w, dense = ac4k.pack(torch.from_numpy(q), "nvfp4"), reference.dequantize(q, "nvfp4")
    x = torch.randn(1, 256)
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU does not flush")
    try:
        result = ac4k.linear(x, w)
    finally:
        torch.set_flush_denormal(False)
    assert nmse(result, x.double().numpy() @ dense.T) < 1e-8


def test_compile_and_module(device: str) -> None:
    """The op traces through a layer that holds packed weights."""
    w, _ = packed_and_dense("q4_0", 32, 64, device)
    x = torch.randn(3, 64, device=device)
    compiled = torch.compile(lambda x: ac4k.linear(x, w) + 1, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), ac4k.linear(x, w) + 1)


def test_refusals() -> None:
    q = torch.from_numpy(random_weight("q4_0", 3, 64))
    w = ac4k.pack(q, "q4_0")
    x = torch.randn(2, 64)
    with pytest.raises(TypeError, match="linear: argument 'w': expected a QuantTensor"):
        ac4k.linear(x, q)
    with pytest.raises(ValueError, match="linear: argument 'w': expected packed"):
        ac4k.linear(x, ac4k.unpack(w))
    with pytest.raises(ValueError, match=r"linear: argument 'x': expected \[\.\.\., 64\]"):
        ac4k.linear(torch.randn(2, 96), w)
    with pytest.raises((TypeError, ValueError), match="quant_linear: argument 'bias'"):
        ac4k.linear(x, w, torch.randn(4))
    with pytest.raises(TypeError, match="quant_linear: argument 'x'"):
        ac4k.linear(x.double(), w)
    with pytest.raises(ValueError, match="multiple of 32 for q4_0, got 33"):
        ac4k.quant_linear(torch.randn(1, 33), w.raw, N=3, fmt="q4_0")
    packed = w.raw.reshape(1, 1, -1)
    for config, expected in ((-1, "0 or a number of"), (1, "0 on the CPU"), (1 << 40, "0 on the")):
        with pytest.raises(
            ValueError, match=f"quant_linear: argument 'config': expected {expected}.*got {config}"
        ):
            ac4k.quant_linear(x, packed, N=3, fmt="q4_0", config=config)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("q8_1", 1, 64, 64), "'fmt': expected one of q4_0, .*, nvfp4, got q8_1"),
        (("q4_0", -1, 64, 64), "'tokens': expected a size of 0 to .* got -1"),
        (("q4_0", 1, 1 << 31, 64), "'N': expected a size"),
        (("q4_k", 1, 64, 64), "'K': expected a multiple of 256 for q4_k, got 64"),
        (("q4_0", 1, 64, 64, "tpu"), "'device': expected cpu, cuda or cuda:1, got 'tpu'"),
    ],
)
def test_configs_of_what_is_not_there(arguments: tuple[Any, ...], text: str) -> None:
    with pytest.raises(ValueError, match=f"quant_linear_configs: argument {text}"):
        ac4k.quant_linear_configs(*arguments)
