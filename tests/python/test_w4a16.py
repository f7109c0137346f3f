"""W4A16: quantise, pack, multiply; on every CPU level and on the device under test."""

from __future__ import annotations

import copy
import io

import ml_dtypes
import numpy as np
import pytest
import torch
from helpers import wide

import ac4k
from ac4k.reference import references_of

DTYPES = (torch.float16, torch.bfloat16)
SHORT = {torch.float16: "f16", torch.bfloat16: "bf16"}
# What is left is the rounding of results and, for bf16 products, of weights.
NMSE = {torch.float16: 1e-6, torch.bfloat16: 1e-5}
GROUPS = (32, 64, 128, 256)


def random_weight(
    rows: int,
    columns: int,
    group: int,
    dtype: torch.dtype = torch.bfloat16,
    zeros: str = "none",
    seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    generator = torch.Generator().manual_seed(seed)
    q = torch.randint(0, 16, (rows, columns), generator=generator, dtype=torch.uint8)
    shape = (rows, columns // group)
    scales = (torch.rand(shape, generator=generator) * 0.1 + 0.02).to(dtype)
    zero = None
    if zeros == "integer":
        zero = torch.randint(0, 17, shape, generator=generator).to(dtype)
    elif zeros == "floating":
        zero = (torch.rand(shape, generator=generator) * 15).to(dtype)
    return q, scales, zero


def dense(q: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None) -> torch.Tensor:
    group = q.shape[1] // scales.shape[1]
    zero = torch.full_like(scales, 8) if zeros is None else zeros
    spread = [part.double().repeat_interleave(group, 1) for part in (scales, zero)]
    return spread[0] * (q.double() - spread[1])


def nmse(result: torch.Tensor, expected: torch.Tensor) -> float:
    error = result.double().cpu() - expected
    return float((error**2).sum() / (expected**2).sum())


# ---- quantise ----


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("group", [32, 64, 128, 384])
def test_quantised_weights_are_half_a_step_off(group: int, symmetric: bool) -> None:
    w = torch.randn(9, 768).to(torch.bfloat16)
    w[3] = 0
    q, scales, zeros = ac4k.w4a16_quantize(w, group, symmetric)
    assert q.dtype == torch.uint8
    assert int(q.max()) <= 15
    assert scales.shape == (9, 768 // group)
    assert scales.dtype == torch.bfloat16
    assert (zeros is None) == symmetric
    error = (dense(q, scales, zeros) - w.double()).abs()
    # Half a step; scales are rounded by 2^-9, which the 7.5 or 15 steps from zero feel. A rounded
    # zero point shifts a range by half a step more.
    limit = (0.5 if symmetric else 1.0) + 15 * 2.0**-9
    assert (error <= limit * scales.double().repeat_interleave(group, 1)).all()
    assert not dense(q, scales, zeros)[3].any()


def test_quantize_numpy_equals_torch() -> None:
    w = np.random.default_rng(0).standard_normal((5, 256)).astype(np.float16)
    for symmetric in (True, False):
        ours = ac4k.w4a16_quantize(w, 64, symmetric)
        theirs = ac4k.w4a16_quantize(torch.from_numpy(w), 64, symmetric)
        for a, b in zip(ours, theirs, strict=True):
            assert (a is None and b is None) or np.array_equal(a, b.numpy())
    q, scales, _ = ac4k.w4a16_quantize(w.astype(np.float32), dtype="bfloat16")
    assert scales.dtype.name == "bfloat16"
    assert q.shape == (5, 256)


def test_quantize_refusals() -> None:
    w = torch.randn(4, 256)
    for group in (0, 48, 100, -1, True, 2.5, 512):
        with pytest.raises(ValueError, match="w4a16_quantize: argument 'group_size': expected"):
            ac4k.w4a16_quantize(w, group)
    with pytest.raises(ValueError, match="'w': expected two dims"):
        ac4k.w4a16_quantize(w[0])
    with pytest.raises(TypeError, match="'w': expected floating-point"):
        ac4k.w4a16_quantize(w.int())
    with pytest.raises(TypeError, match="'w': expected a tensor"):
        ac4k.w4a16_quantize([[1.0]])
    with pytest.raises(ValueError, match="'w': expected finite"):
        ac4k.w4a16_quantize(torch.full((1, 128), torch.inf))
    with pytest.raises(ValueError, match="whose scales are float16"):
        ac4k.w4a16_quantize(w * 1e7)
    for dtype in ("float32", "bf16", torch.float32, np.float32, np.dtype("float64"), 3):
        with pytest.raises(TypeError, match="'dtype': expected float16 or bfloat16, got"):
            ac4k.w4a16_quantize(w, dtype=dtype)


def test_quantize_takes_numbers_and_dtypes_of_any_kind() -> None:
    w = torch.randn(4, 256)
    expected = ac4k.w4a16_quantize(w, 64, dtype="bfloat16")
    for dtype in (torch.bfloat16, ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)):
        got = ac4k.w4a16_quantize(w, np.int64(64), dtype=dtype)
        assert torch.equal(got[0], expected[0])
        assert torch.equal(got[1], expected[1])


def test_quantised_parameters_need_no_gradient() -> None:
    for symmetric in (True, False):
        _, scales, zeros = ac4k.w4a16_quantize(torch.nn.Linear(256, 8).weight, 128, symmetric)
        assert not scales.requires_grad
        assert zeros is None or not zeros.requires_grad


# ---- pack ----


@pytest.mark.parametrize("zeros", ["none", "integer", "floating"])
@pytest.mark.parametrize("group", [32, 64, 128, 256, 640])
def test_round_trip_and_layout(group: int, zeros: str) -> None:
    """Exactly what was given, and byte by byte what the documented index formulas give."""
    for dtype in DTYPES:
        for rows, groups in ((67, 3), (64, 2), (1, 1)):
            given = random_weight(rows, group * groups, group, dtype, zeros)
            packed = ac4k.w4a16_pack(*given)
            assert tuple(packed.shape) == (rows, group * groups)
            for a, b in zip(ac4k.w4a16_unpack(packed), given, strict=True):
                assert (a is None and b is None) or torch.equal(a, b)
            layout = f"g{group if group < 128 else 128}{'' if zeros == 'none' else 'z'}"
            (expected,) = references_of(
                "w4a16_pack_weight",
                *map(wide, given),
                layout=layout,
                dtypes={"scales": SHORT[dtype]},
            )
            assert np.array_equal(packed.raw.numpy(), expected.result)
            assert torch.equal(
                ac4k.w4a16_dequantize(packed, "float64"), dense(*given).float().double()
            )


def test_one_group_of_any_size() -> None:
    """A scale for a whole row: K need not be a multiple of anything."""
    for columns in (8, 100, 200, 4160):
        given = random_weight(5, columns, columns, torch.float16)
        packed = ac4k.w4a16_pack(*given)
        assert torch.equal(ac4k.w4a16_unpack(packed)[0], given[0])
        x = torch.randn(3, columns).half()
        assert nmse(ac4k.w4a16_linear(x, packed), x.double() @ dense(*given).T) < 1e-6


def test_signed_codes_and_zeros_of_any_dtype() -> None:
    q, scales, zeros = random_weight(6, 256, 64, torch.float16, "integer")
    signed = ac4k.w4a16_pack((q.int() - 8).to(torch.int8), scales, zeros.int() - 8)
    assert torch.equal(signed.raw, ac4k.w4a16_pack(q, scales, zeros).raw)
    plain = ac4k.w4a16_pack((q.int() - 8).to(torch.int8), scales)
    assert torch.equal(plain.raw, ac4k.w4a16_pack(q, scales).raw)
    by_numpy = ac4k.w4a16_pack(q.numpy(), scales.numpy(), zeros.numpy().astype(np.uint8))
    assert np.array_equal(by_numpy.raw, ac4k.w4a16_pack(q, scales, zeros).raw.numpy())


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_are_rounded_to_the_dtype_of_scales(dtype: torch.dtype) -> None:
    """What signed codes make of them, 8 more, too."""
    q, scales, _ = random_weight(6, 256, 64, dtype)
    zeros = torch.rand(6, 4)
    assert torch.equal(ac4k.w4a16_unpack(ac4k.w4a16_pack(q, scales, zeros))[2], zeros.to(dtype))
    signed = ac4k.w4a16_pack((q.int() - 8).to(torch.int8), scales, zeros)
    assert torch.equal(ac4k.w4a16_unpack(signed)[2], (zeros.double() + 8).to(dtype))


def test_finite_zeros_stay_finite() -> None:
    q, scales, zeros = random_weight(4, 256, 128, torch.float16, "integer")
    zeros = zeros.float()
    zeros[1, 1] = 70000
    for array in (zeros, zeros.numpy(), zeros.int()):
        with pytest.raises(
            ValueError, match="'zeros': expected numbers that float16 can hold, got 7"
        ):
            ac4k.w4a16_pack(q, scales, array)
    zeros[1, 1] = torch.inf
    assert ac4k.w4a16_unpack(ac4k.w4a16_pack(q, scales, zeros))[2][1, 1] == torch.inf


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_order_comes_back(kind: str) -> None:
    q, scales, zeros = random_weight(5, 256, 64, torch.float16, "integer")
    order = torch.randperm(256)
    given = (q, scales, zeros, order)
    if kind == "numpy":
        given = tuple(part.numpy() for part in given)
    packed = ac4k.w4a16_pack(*given[:3], order=given[3])
    found = ac4k.w4a16_order(packed)
    assert isinstance(found, type(given[3]))
    assert found.tolist() == order.tolist()
    again = ac4k.w4a16_pack(*ac4k.w4a16_unpack(packed), order=found)
    assert again.format == packed.format
    assert (again.raw == packed.raw).all()
    found[:] = 0  # the caller's own
    assert (again.raw == packed.raw).all()
    assert ac4k.w4a16_order(ac4k.w4a16_pack(*given[:3])) is None
    with pytest.raises(TypeError, match="w4a16_order: argument 'packed': expected a QuantTensor"):
        ac4k.w4a16_order(q)


def test_dequantize_takes_dtypes_of_any_kind() -> None:
    packed = ac4k.w4a16_pack(*random_weight(5, 256, 64))
    by_numpy = ac4k.w4a16_pack(
        *(part.numpy() for part in random_weight(5, 256, 64, torch.half)[:2])
    )
    for dtype in ("float16", torch.float16, np.float16, np.dtype("float16")):
        assert ac4k.w4a16_dequantize(packed, dtype).dtype == torch.float16
        assert by_numpy.dequantize(dtype).dtype == np.float16
    for dtype in ("bf16", "int8", torch.int8, None, float):
        for weight in (packed, by_numpy):
            with pytest.raises(TypeError, match="w4a16_dequantize: argument 'dtype': expected"):
                ac4k.w4a16_dequantize(weight, dtype)


def test_pack_refusals() -> None:
    q, scales, zeros = random_weight(4, 256, 128, torch.float16, "integer")
    with pytest.raises(TypeError, match="w4a16_pack: argument 'q': expected uint8 or int8"):
        ac4k.w4a16_pack(q.int(), scales)
    with pytest.raises(ValueError, match="'q': expected codes of 0 to 15, got 0 to 16"):
        ac4k.w4a16_pack(torch.where(q == q.max(), 16, q).to(torch.uint8), scales)
    with pytest.raises(ValueError, match="'q': expected codes of -8 to 7"):
        ac4k.w4a16_pack(q.to(torch.int8), scales)
    with pytest.raises(TypeError, match="'scales': expected a tensor or array, got NoneType"):
        ac4k.w4a16_pack(q, None)
    with pytest.raises(TypeError, match="'scales': expected float16 or bfloat16, got float32"):
        ac4k.w4a16_pack(q, scales.float())
    with pytest.raises(ValueError, match=r"'scales': expected shape \(4, groups\)"):
        ac4k.w4a16_pack(q, scales[:3])
    with pytest.raises(ValueError, match="'scales': expected a number of groups that divides K"):
        ac4k.w4a16_pack(q, scales.repeat(1, 2)[:, :3])
    with pytest.raises(ValueError, match="'scales': expected groups of 32, 64"):
        ac4k.w4a16_pack(q, scales.repeat(1, 8))
    with pytest.raises(ValueError, match=r"'zeros': expected shape \(4, 2\)"):
        ac4k.w4a16_pack(q, scales, zeros[:2])
    for dtype in (np.complex64, "U1", "M8[s]", object):
        with pytest.raises(TypeError, match="'zeros': expected real numbers, got"):
            ac4k.w4a16_pack(q.numpy(), scales.numpy(), np.zeros((4, 2), dtype))
    with pytest.raises(TypeError, match="'zeros': expected real numbers, got complex64"):
        ac4k.w4a16_pack(q, scales, zeros.to(torch.complex64))
    with pytest.raises(ValueError, match="'order': expected each of 0 to 255 once"):
        ac4k.w4a16_pack(q, scales, order=torch.zeros(256, dtype=torch.int32))
    with pytest.raises(ValueError, match="'zeros': expected a tensor for the layout g128z"):
        ac4k.w4a16_pack_weight(q, scales, layout="g128z")
    with pytest.raises(ValueError, match="argument 'zeros': expected None for the layout g128"):
        ac4k.w4a16_pack_weight(q, scales, zeros, layout="g128")
    with pytest.raises(ValueError, match="argument 'scales': expected groups of 32"):
        ac4k.w4a16_pack_weight(q, scales, layout="g32")
    with pytest.raises(TypeError, match="w4a16_unpack: argument 'packed': expected a QuantTensor"):
        ac4k.w4a16_unpack(q)
    gguf = ac4k.pack(np.zeros((2, 2, 18), np.uint8), "q4_0")
    with pytest.raises(ValueError, match="'packed': expected weights of"):
        ac4k.w4a16_unpack(gguf)
    with pytest.raises(ValueError, match="w4a16_unpack is for these"):
        ac4k.unpack(ac4k.w4a16_pack(q, scales))
    raw = ac4k.w4a16_pack(q, scales).raw
    for name in ("w4_g0_f16", "w4_g128_f32", "w4_g128", "w4_g99999999999_f16"):
        with pytest.raises(ValueError, match="argument 'fmt'"):
            ac4k.QuantTensor(raw, name, (4, 256), "packed")
    with pytest.raises(ValueError, match="expected packed for w4_g128_f16"):
        ac4k.QuantTensor(raw, "w4_g128_f16", (4, 256))
    with pytest.raises(ValueError, match="multiple of the group size 192"):
        ac4k.QuantTensor(raw, "w4_g192_f16", (4, 256), "packed")
    with pytest.raises(ValueError, match="bytes for each matrix"):
        ac4k.QuantTensor(raw[:, :1].contiguous(), "w4_g128_f16", (4, 256), "packed")


# ---- what torch does with packed weights ----


class Layer(torch.nn.Module):
    def __init__(self, weight: ac4k.QuantTensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ac4k.w4a16_linear(x, self.weight)


@pytest.mark.parametrize("ordered", [False, True])
def test_modules_state_dicts_and_devices(device: str, ordered: bool) -> None:
    given = random_weight(70, 256, 64, torch.bfloat16, "integer")
    order = torch.randperm(256) if ordered else None
    weight = ac4k.w4a16_pack(*given, order=order)
    layer = Layer(weight).to(device)
    assert layer.weight.device.type == device
    x = torch.randn(5, 256).to(torch.bfloat16)
    w = dense(*given)
    expected = (x if order is None else x[:, order]).double() @ w.T
    got = layer(x.to(device))
    assert nmse(got, expected) < NMSE[torch.bfloat16]
    straight = layer.weight.dequantize("float64").cpu()
    assert nmse(straight, w if order is None else torch.zeros_like(w).index_copy(1, order, w)) == 0
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    other = copy.deepcopy(layer)
    other.weight.raw.zero_()
    other.load_state_dict(torch.load(buffer))
    assert torch.equal(other(x.to(device)), got)
    compiled = torch.compile(other, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x.to(device)), got)
    assert torch.equal(ac4k.linear(x.to(device), layer.weight), got)
    assert torch.equal(torch.nn.functional.linear(x.to(device), layer.weight), got)


# ---- multiply ----


@pytest.mark.parametrize("ordered", [False, True])
def test_numpy_and_torch_meet(ordered: bool) -> None:
    given = random_weight(9, 256, 64, torch.float16, "integer")
    order = torch.randperm(256) if ordered else None
    packed = ac4k.w4a16_pack(*given, order=order)
    by_numpy = ac4k.QuantTensor(packed.raw.numpy(), packed.format, packed.shape, "packed")
    x = torch.randn(3, 256).half()
    expected = ac4k.w4a16_linear(x, packed)
    mixed = ac4k.w4a16_linear(x, by_numpy)
    assert isinstance(mixed, torch.Tensor)
    assert torch.equal(mixed, expected)
    for weight in (packed, by_numpy):
        got = ac4k.w4a16_linear(x.numpy(), weight)
        assert isinstance(got, np.ndarray)
        assert np.array_equal(got, expected.numpy())


@pytest.mark.parametrize("zeros", ["none", "integer", "floating"])
@pytest.mark.parametrize("group", GROUPS)
def test_accuracy_on_every_level(level: str, group: int, zeros: str) -> None:
    """Odd N, K of an odd number of groups, tokens that take every path."""
    columns = group * (11 if group < 128 else 3)
    for dtype in DTYPES:
        given = random_weight(67, columns, group, dtype, zeros)
        packed, w = ac4k.w4a16_pack(*given), dense(*given)
        for tokens in (1, 2, 7, 9, 50):
            x = torch.randn(tokens, columns).to(dtype)
            out = torch.full((tokens, 67), torch.nan, dtype=dtype)
            ac4k.w4a16_linear(x, packed, out=out)
            assert nmse(out, x.double() @ w.T) < NMSE[dtype], (dtype, tokens)


@pytest.mark.parametrize("group", [32, 128])
@pytest.mark.parametrize("dtype", DTYPES)
def test_accuracy_on_the_device(device: str, group: int, dtype: torch.dtype) -> None:
    """Sizes on each side of the borders between kernels."""
    for rows, columns in ((77, group * 9), (200, 1024)):
        for zeros in ("none", "integer"):
            given = random_weight(rows, columns, group, dtype, zeros)
            packed, w = ac4k.w4a16_pack(*given).to(device), dense(*given)
            for tokens in (1, 8, 9, 16, 17, 65, 300):
                x = torch.randn(tokens, columns).to(dtype)
                bias = torch.randn(rows).to(dtype)
                expected = x.double() @ w.T + bias.double()
                got = ac4k.w4a16_linear(x.to(device), packed, bias.to(device))
                assert nmse(got, expected) < NMSE[dtype], (rows, columns, zeros, tokens)
                again = ac4k.w4a16_linear(x.to(device), packed, bias.to(device))
                assert torch.equal(got, again)


@pytest.mark.parametrize("dtype", DTYPES)
def test_not_worse_than_16_bit_weights(level: str, dtype: torch.dtype) -> None:
    """Against float64: at most 1.1 times the error of a 16-bit product with weights of 16 bits."""
    given = random_weight(128, 2048, 128, dtype, "integer")
    packed, w = ac4k.w4a16_pack(*given), dense(*given)
    for tokens in (1, 40):
        x = torch.randn(tokens, 2048).to(dtype)
        expected = x.double() @ w.T
        plain = (x.float() @ w.to(dtype).float().T).to(dtype)
        assert nmse(ac4k.w4a16_linear(x, packed), expected) <= 1.21 * nmse(plain, expected)


FUNCTIONS = {
    "none": lambda y: y,
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda y: torch.nn.functional.gelu(y, approximate="tanh"),
}


def check_epilogue(device: str, tokens: int, dtype: torch.dtype) -> None:
    """alpha, bias, each activation, and a residual that is the output too."""
    given = random_weight(72, 256, 128, dtype)
    packed, w = ac4k.w4a16_pack(*given).to(device), dense(*given)
    x, bias = torch.randn(tokens, 256).to(dtype), torch.randn(72).to(dtype)
    residual = torch.randn(tokens, 72).to(dtype)
    arguments = (x.to(device), packed, bias.to(device), 0.25)
    for name, function in FUNCTIONS.items():
        y = function(0.25 * (x.double() @ w.T) + bias.double())
        assert nmse(ac4k.w4a16_linear(*arguments, activation=name), y) < NMSE[dtype]
        out = residual.clone().to(device)
        ac4k.w4a16_linear(*arguments, activation=name, residual=out, out=out)
        assert nmse(out, y + residual.double()) < NMSE[dtype]


@pytest.mark.parametrize("tokens", [1, 5, 40])
@pytest.mark.parametrize("dtype", DTYPES)
def test_epilogue(level: str, tokens: int, dtype: torch.dtype) -> None:
    check_epilogue("cpu", tokens, dtype)


@pytest.mark.parametrize("tokens", [1, 9, 17, 130, 300])
@pytest.mark.parametrize("dtype", DTYPES)
def test_epilogue_on_the_device(device: str, tokens: int, dtype: torch.dtype) -> None:
    try:
        check_epilogue(device, tokens, dtype)
    except NotImplementedError as error:
        pytest.skip(str(error))


def test_capture(device: str) -> None:
    if device != "cuda":
        pytest.skip("graphs are CUDA's")
    packed = ac4k.w4a16_pack(*random_weight(128, 256, 32)).to(device)
    x = torch.randn(4, 256, device=device).to(torch.bfloat16)
    expected = ac4k.w4a16_linear(x, packed)
    out = torch.empty_like(expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ac4k.w4a16_linear(x, packed, out=out)
    out.zero_()
    graph.replay()
    assert torch.equal(out, expected)


def test_configs_agree_and_threads_do_not_matter() -> None:
    given = random_weight(300, 512, 128)
    packed, w = ac4k.w4a16_pack(*given), dense(*given)
    for tokens in (1, 70):
        x = torch.randn(tokens, 512).to(torch.bfloat16)
        for config in range(4):
            got = ac4k.w4a16_linear(x, packed, config=config)
            assert nmse(got, x.double() @ w.T) < NMSE[torch.bfloat16]
            ac4k.set_num_threads(1)
            try:
                assert torch.equal(ac4k.w4a16_linear(x, packed, config=config), got)
            finally:
                ac4k.set_num_threads(0)


@pytest.mark.parametrize("tokens", [1, 20])
@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values(level: str, tokens: int, dtype: torch.dtype) -> None:
    """NaN and infinities are where float64 has them; other tokens do not notice."""
    given = random_weight(66, 256, 32, dtype, "floating")
    packed, w = ac4k.w4a16_pack(*given), dense(*given)
    x = torch.randn(tokens, 256).to(dtype)
    clean = ac4k.w4a16_linear(x, packed)
    for special in (torch.nan, torch.inf, -torch.inf):
        x[0, 100] = special
        got, expected = ac4k.w4a16_linear(x, packed), x[:1].double() @ w.T
        assert torch.equal(got[:1].isnan(), expected.isnan())
        assert torch.equal(got[:1] == torch.inf, expected == torch.inf)
        assert torch.allclose(got[1:].float(), clean[1:].float(), rtol=2e-2, atol=1e-2)
    assert not ac4k.w4a16_linear(torch.zeros(tokens, 256, dtype=dtype), packed).any()


def test_shapes_views_and_empty(device: str) -> None:
    given = random_weight(70, 256, 64)
    packed = ac4k.w4a16_pack(*given).to(device)
    wider = torch.randn(3, 5, 300, device=device).to(torch.bfloat16)
    x = wider[..., 7:263]
    got = ac4k.w4a16_linear(x, packed)
    assert got.shape == (3, 5, 70)
    assert nmse(got, x.double().cpu() @ dense(*given).T) < NMSE[torch.bfloat16]
    assert ac4k.w4a16_linear(x[0, 0], packed).shape == (70,)
    assert ac4k.w4a16_linear(x[:0], packed).shape == (0, 5, 70)
    empty = ac4k.w4a16_pack(given[0][:, :0], given[1][:, :0]).to(device)
    bias = torch.randn(70, device=device).to(torch.bfloat16)
    assert torch.equal(ac4k.w4a16_linear(x[:, 0, :0], empty, bias), bias.expand(3, 70))


def test_linear_refusals() -> None:
    given = random_weight(6, 256, 64)
    packed = ac4k.w4a16_pack(*given)
    x = torch.randn(2, 256).to(torch.bfloat16)
    with pytest.raises(TypeError, match="w4a16_linear: argument 'packed': expected a QuantTensor"):
        ac4k.w4a16_linear(x, given[0])
    with pytest.raises(ValueError, match="'packed': expected weights of"):
        ac4k.w4a16_linear(x, ac4k.pack(np.zeros((2, 2, 18), np.uint8), "q4_0"))
    with pytest.raises(TypeError, match="'x': expected bfloat16, as the scales of 'packed'"):
        ac4k.w4a16_linear(x.half(), packed)
    with pytest.raises(ValueError, match=r"'x': expected \[\.\.\., 256\]"):
        ac4k.w4a16_linear(x[:, :128], packed)
    with pytest.raises((TypeError, ValueError), match="w4a16_gemm: argument 'bias'"):
        ac4k.w4a16_linear(x, packed, torch.randn(6))
    with pytest.raises(ValueError, match="w4a16_gemm: argument 'residual'"):
        ac4k.w4a16_linear(x, packed, residual=x)
    with pytest.raises(ValueError, match="activation"):
        ac4k.w4a16_linear(x, packed, activation="relu")
    for config in (-1, 4, 1 << 40):
        with pytest.raises(ValueError, match="w4a16_gemm: argument 'config'"):
            ac4k.w4a16_linear(x, packed, config=config)
    with pytest.raises(ValueError, match="K to be a multiple of 64, as groups"):
        ac4k.w4a16_gemm(x[:, :200].contiguous(), packed.raw, N=6, layout="g64")
