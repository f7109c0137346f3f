"""The quantise and dequantise ops, bit by bit against the float32 rule of ac4k/_quantize_rule.py;
test_quantize_conversions.py holds that rule, and every conversion, to ml_dtypes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from helpers import FLOATS, TORCH, wide
from hypothesis import given, settings
from hypothesis import strategies as st

import ac4k
from ac4k import _quantize_rule as rule
from ac4k.reference import references_of

GRANULARITIES = ("per_tensor", "per_token", "per_channel", "group128", "block128")
FP8 = {
    "float8_e4m3fn": (torch.float8_e4m3fn, ml_dtypes.float8_e4m3fn, 448.0),
    "float8_e5m2": (torch.float8_e5m2, ml_dtypes.float8_e5m2, 57344.0),
}
# Every way to quantise: the op and its options.
WAYS: list[tuple[str, dict[str, Any]]] = [
    *(
        ("quantize_fp8", {"granularity": granularity, "dtype": dtype})
        for granularity, dtype in itertools.product(GRANULARITIES, FP8)
    ),
    ("quantize_fp8", {"granularity": "group128", "pow2_scale": True}),
    ("quantize_fp8", {"granularity": "per_tensor", "pow2_scale": True}),
    *(
        ("quantize_int8", {"granularity": granularity, "symmetric": symmetric})
        for granularity, symmetric in itertools.product(GRANULARITIES, (True, False))
    ),
    ("quantize_nvfp4", {}),
    ("quantize_nvfp4", {"layout": "tiled"}),
    ("quantize_mxfp4", {}),
    ("quantize_mxfp8", {"dtype": "float8_e4m3fn"}),
    ("quantize_mxfp8", {"dtype": "float8_e5m2"}),
]
BLOCK = {"quantize_nvfp4": 16, "quantize_mxfp4": 32, "quantize_mxfp8": 32}


def way_name(way: object) -> str | None:
    if isinstance(way, dict):
        return "-".join(str(value) for value in way.values()) or "plain"
    return None


def random(shape: tuple[int, ...], dtype: str, device: str, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    # Rows of very different size, so that a wrong scale is a wrong result.
    x *= torch.exp2(torch.randint(-9, 9, (*shape[:-1], 1), generator=generator).double())
    return x.to(TORCH[dtype]).to(device)


def bits(tensor: torch.Tensor) -> Any:
    """Bytes of FP8, numbers of everything else; NaN is one of many in FP8."""
    tensor = tensor.detach().cpu()
    if tensor.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        numbers = tensor.double().numpy()
        codes = tensor.view(torch.uint8).numpy()
        return np.where(np.isnan(numbers), 0x7F, codes)
    if tensor.dtype in TORCH.values():
        return tensor.float().numpy().view(np.uint32)
    return tensor.numpy()


def fp8_bits(numbers: Any, dtype: Any) -> Any:
    with np.errstate(invalid="ignore"):
        codes = numbers.astype(dtype).view(np.uint8)
    return np.where(np.isnan(numbers), 0x7F, codes)


def assert_exact(name: str, results: Any, *args: Any, **options: Any) -> None:
    """Equal to the rule bit by bit."""
    results = results if isinstance(results, tuple) else (results,)
    expected = references_of(
        name, *(wide(a) for a in args), **{key: wide(value) for key, value in options.items()}
    )
    assert len(results) == len(expected)
    for result, reference in zip(results, expected, strict=True):
        assert tuple(result.shape) == reference.result.shape
        want = reference.result
        for torch_type, numpy_type, _ in FP8.values():
            if result.dtype == torch_type:
                want = fp8_bits(want, numpy_type)
        if result.dtype in TORCH.values():
            rounded = torch.from_numpy(want.astype(np.float32)).to(result.dtype)
            nan = torch.isnan(rounded).numpy()
            assert np.array_equal(torch.isnan(result.cpu()).numpy(), nan)
            assert np.array_equal(bits(result)[~nan], bits(rounded)[~nan])
        else:
            assert np.array_equal(bits(result), want)


def same_bits(a: Any, b: Any) -> bool:
    a, b = (value if isinstance(value, tuple) else (value,) for value in (a, b))
    return len(a) == len(b) and all(
        np.array_equal(bits(x), bits(y)) for x, y in zip(a, b, strict=True)
    )


SHAPES = [
    (1, 32),
    (3, 96),
    (5, 7, 160),
    (128, 128),
    (130, 288),
    (2, 3, 2, 64),
    (257, 4096),
    (1, 4096),
    (64, 5120),
    (4, 40_000),
    (1100, 64),
    (2, 544),
    (16, 1056),
    (17, 96),
    (47, 352),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "options"), WAYS, ids=way_name)
def test_quantize(device: str, dtype: str, name: str, options: dict[str, Any]) -> None:
    shapes = SHAPES
    if name not in BLOCK:
        shapes = [*SHAPES, (1,), (3, 5), (7,), (2, 129), (129, 255), (200, 1), (3, 4097)]
    for shape in shapes:
        x = random(shape, dtype, device, 1)
        results = getattr(ac4k, name)(x, **options)
        assert_exact(name, results, x, **options)
        assert same_bits(results, getattr(ac4k, name)(x, **options))


def given_scale(shape: tuple[int, ...], granularity: str, device: str) -> torch.Tensor:
    scale_shape = rule.Regions(shape, granularity).scale_shape
    generator = torch.Generator().manual_seed(3)
    return (torch.rand(scale_shape, generator=generator) + 0.01).to(device)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("shape", [(5, 7, 160), (129, 255), (33, 1024), (7,)])
def test_given_scales(device: str, dtype: str, granularity: str, shape: tuple[int, ...]) -> None:
    x = random(shape, dtype, device, 2)
    scale = given_scale(shape, granularity, device)
    for fp8 in FP8:
        results = ac4k.quantize_fp8(x, granularity, fp8, scale)
        assert torch.equal(results[1], scale)
        assert_exact("quantize_fp8", results, x, granularity, fp8, scale)
    results = ac4k.quantize_int8(x, granularity, True, scale)
    assert_exact("quantize_int8", results, x, granularity, True, scale)


def test_given_global_scale(device: str) -> None:
    x = random((9, 96), "bf16", device, 2)
    for value in (1.0, 37.5, 1e-20, 3e38, 0.0, -2.0, math.nan, math.inf):
        g = torch.tensor([value], device=device)
        assert_exact("quantize_nvfp4", ac4k.quantize_nvfp4(x, g), x, g)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize(
    "shape", [(5, 7, 160), (129, 255), (257, 1024), (7,), (3, 4099), (600, 136)]
)
def test_dequantize(device: str, dtype: str, granularity: str, shape: tuple[int, ...]) -> None:
    scale = given_scale(shape, granularity, device)
    codes = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(1))
    codes = codes.to(torch.uint8).to(device)
    for torch_type, _, _ in FP8.values():
        q = codes.view(torch_type)
        result = ac4k.dequantize_fp8(q, scale, granularity, TORCH[dtype])
        assert result.dtype == TORCH[dtype]
        assert_exact("dequantize_fp8", result, q, scale, granularity)
    q = codes.view(torch.int8)
    zero = (scale * 100).int() - 50
    for points in (None, zero, zero * 1_000_003):
        result = ac4k.dequantize_int8(q, scale, points, granularity, TORCH[dtype])
        assert_exact("dequantize_int8", result, q, scale, points, granularity)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 32), (5, 7, 160), (129, 288), (64, 4096), (600, 96)])
def test_dequantize_blocks(device: str, dtype: str, shape: tuple[int, ...]) -> None:
    x = random(shape, dtype, device, 4)
    for layout in ("plain", "tiled"):
        parts = ac4k.quantize_nvfp4(x, layout=layout)
        result = ac4k.dequantize_nvfp4(*parts, layout, TORCH[dtype])
        assert_exact("dequantize_nvfp4", result, *parts, layout)
    q, scale = ac4k.quantize_mxfp4(x)
    assert_exact("dequantize_mxfp4", ac4k.dequantize_mxfp4(q, scale, TORCH[dtype]), q, scale)
    for fp8 in FP8:
        q, scale = ac4k.quantize_mxfp8(x, fp8)
        assert_exact("dequantize_mxfp8", ac4k.dequantize_mxfp8(q, scale, TORCH[dtype]), q, scale)


@pytest.mark.parametrize(("name", "options"), WAYS, ids=way_name)
def test_error_is_half_a_step(device: str, name: str, options: dict[str, Any]) -> None:
    """Quantised and back, no number is further off than half the spacing of its codes."""
    x = torch.randn(130, 256, generator=torch.Generator().manual_seed(5)).to(device)
    parts = getattr(ac4k, name)(x, **options)
    parts = parts if isinstance(parts, tuple) else (parts,)
    options = {key: value for key, value in options.items() if key in ("granularity", "layout")}
    back = getattr(ac4k, name.replace("quantize", "dequantize"))(*parts, **options)
    # Relative to the number, plus a step at the end of the format's range relative to the largest.
    relative = {"quantize_int8": 0.0, "quantize_nvfp4": 0.25, "quantize_mxfp4": 0.25}.get(
        name, 2.0**-3
    )
    largest = x.abs().max().item()
    allowed = relative * x.abs() + largest * (0.02 if name != "quantize_mxfp4" else 0.15)
    if name == "quantize_mxfp8":
        allowed += 0.13 * x.abs()  # up to 511 / 448 past the range
    if name == "quantize_nvfp4":
        allowed += 0.1 * largest  # steps of the scale
    assert ((back - x).abs() <= allowed).all()


# --- strides, alignment, empty


@pytest.mark.parametrize(("name", "options"), WAYS, ids=way_name)
def test_rows_apart(device: str, name: str, options: dict[str, Any]) -> None:
    base = random((6, 10, 416), "bf16", device, 6)
    views = [
        base[:, :, :64],
        base[:, ::2, 32:160],
        base.transpose(0, 1)[..., :128],
        base[:, :1].expand(6, 10, 416),
        base[..., 1:257],  # rows not aligned to 16 bytes
        base[::2, 1:, 3:99],
        base[0, 0, :32].expand(4, 3, 32),
    ]
    op = getattr(ac4k, name)
    for x in views:
        results = op(x, **options)
        assert_exact(name, results, x, **options)
        assert same_bits(results, op(x.contiguous(), **options))


@pytest.mark.parametrize(("name", "options"), WAYS, ids=way_name)
def test_into_outputs_of_any_alignment(device: str, name: str, options: dict[str, Any]) -> None:
    x = random((9, 160), "f32", device, 7)
    expected = getattr(ac4k, name)(x, **options)
    for shift in (0, 1):
        out = []
        for result in expected:
            size = result.element_size()
            memory = torch.full(
                (result.numel() * size + shift * size,), 0xA5, dtype=torch.uint8, device=device
            )
            out.append(memory[shift * size :].view(result.dtype).view(result.shape))
        got = getattr(ac4k, name)(x, **options, out=tuple(out))
        assert all(a is b for a, b in zip(got, out, strict=True))
        assert same_bits(got, expected)


@pytest.mark.parametrize("shape", [(0, 32), (3, 0), (0,), (2, 0, 64), (0, 0)])
@pytest.mark.parametrize(("name", "options"), WAYS, ids=way_name)
def test_empty(device: str, name: str, options: dict[str, Any], shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape, device=device)
    assert_exact(name, getattr(ac4k, name)(x, **options), x, **options)
    if name == "quantize_fp8":
        scale = given_scale(shape, options["granularity"], device)
        _, copy = ac4k.quantize_fp8(x, options["granularity"], scale=scale)
        assert torch.equal(copy, scale)


# --- sizes at which an H200 keeps what it has read


# Long columns and large tensors, which fill clusters or the GPU: read once, read twice in part, and
# with an end within a tile.
LARGE = [(8200, 80), (20_000, 208), (6300, 2576)]
OF_LARGE = [
    ("quantize_fp8", {"granularity": "per_tensor"}),
    ("quantize_fp8", {"granularity": "per_tensor", "dtype": "float8_e5m2", "pow2_scale": True}),
    ("quantize_int8", {"granularity": "per_tensor", "symmetric": True}),
    ("quantize_int8", {"granularity": "per_tensor", "symmetric": False}),
    ("quantize_fp8", {"granularity": "per_channel"}),
    ("quantize_fp8", {"granularity": "per_channel", "dtype": "float8_e5m2", "pow2_scale": True}),
    ("quantize_int8", {"granularity": "per_channel", "symmetric": True}),
    ("quantize_int8", {"granularity": "per_channel", "symmetric": False}),
    ("quantize_nvfp4", {}),
    ("quantize_nvfp4", {"layout": "tiled"}),
]


def large(rows: int, columns: int, dtype: str, device: str) -> torch.Tensor:
    if device == "cpu":  # where their number makes no difference
        rows //= 128
    x = random((rows, columns), dtype, device, rows)
    x[rows // 2, 3] = math.nan
    x[-1, 5] = 3e4
    return x


def check_large(
    shapes: list[tuple[int, int]], device: str, dtype: str, name: str, options: dict[str, Any]
) -> None:
    op = getattr(ac4k, name)
    for rows, columns in shapes:
        x = large(rows, columns, dtype, device)
        results = op(x, **options)
        apart = torch.zeros((x.shape[0], columns + 32), dtype=x.dtype, device=device)
        apart[:, :columns] = x
        assert same_bits(results, op(apart[:, :columns], **options))
        assert same_bits(results, op(x, **options))
        if device == "cpu":
            assert_exact(name, results, x, **options)
        else:
            assert same_bits(results, op(x.cpu(), **options))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "options"), OF_LARGE, ids=way_name)
def test_large(device: str, dtype: str, name: str, options: dict[str, Any]) -> None:
    check_large(LARGE, device, dtype, name, options)


# Columns of a few tiles and of more than a cluster keeps; one stripe of columns and many, with an
# end within one.
LONG = [
    (130, 4104),
    (450, 136),
    (4099, 8),
    (5000, 4104),
    (16_400, 520),
    (33_000, 136),
    (33_000, 520),
    (70_000, 24),
    (300_000, 24),
    (400_000, 8),
    (450_000, 8),
]
OF_LONG = [way for way in OF_LARGE if way[1].get("granularity") == "per_channel"]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "options"), OF_LONG, ids=way_name)
def test_long_columns(device: str, dtype: str, name: str, options: dict[str, Any]) -> None:
    check_large(LONG, device, dtype, name, options)


@pytest.mark.parametrize("symmetric", [True, False])
def test_special_values_of_long_columns(device: str, symmetric: bool) -> None:
    """Columns with nothing but NaN, zeros or infinities, each in rows that blocks apart see."""
    x = large(8200, 1032, "bf16", device)
    rows = x.shape[0]
    x[:, 0] = math.nan
    x[:, 1] = 0.0
    x[:, 2] = -0.0
    x[rows // 3, 7] = math.inf
    x[rows // 2, 8] = -math.inf
    x[:, 1000] = x[:, 1000].abs()
    x[:, 1001] = -x[:, 1001].abs()
    options = {"granularity": "per_channel", "symmetric": symmetric}
    assert_exact("quantize_int8", ac4k.quantize_int8(x, **options), x, **options)


def test_large_on_two_streams(device: str) -> None:
    """Blocks that wait for each other do so whatever else runs, and when a graph is replayed."""
    if device == "cpu":
        pytest.skip("needs CUDA streams")
    x = large(4100, 2576, "bf16", device)
    small = x[:400]
    calls = [
        lambda: ac4k.quantize_int8(x, "per_tensor", False),
        lambda: ac4k.quantize_nvfp4(small),
        lambda: ac4k.quantize_fp8(x, "per_channel"),
    ]
    expected = [call() for call in calls]
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    found = []
    for _ in range(20):
        for stream in streams:
            with torch.cuda.stream(stream):
                found += [call() for call in calls]
    torch.cuda.synchronize()
    for i, results in enumerate(found):
        assert same_bits(results, expected[i % len(calls)])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = [call() for call in calls]
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))


# --- special values


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "options"), WAYS, ids=way_name)
def test_special_values(device: str, dtype: str, name: str, options: dict[str, Any]) -> None:
    x = random((12, 288), dtype, device, 8)
    x[0] = 0
    x[1] = -0.0
    x[2, 5] = math.nan
    x[3] = math.nan
    x[4, 7] = math.inf
    x[5, 9], x[5, 10] = -math.inf, math.inf
    x[6] *= 1e-38 if dtype != "f16" else 1e-7  # denormals
    x[7, 100] = 60000.0  # an outlier
    x[8, 3] = math.inf
    x[8, 4] = math.nan
    x[9] = 2.0**-130 if dtype != "f16" else 2.0**-24
    x[10, :32] = 0
    for rows in (slice(None), slice(0, 3), slice(0, 1), slice(6, 7), slice(9, 10), slice(3, 4)):
        part = x[rows]
        assert_exact(name, getattr(ac4k, name)(part, **options), part, **options)


def test_documented_special_values(device: str) -> None:
    def row(*values: float) -> torch.Tensor:
        return torch.tensor([values], device=device)

    q, scale = ac4k.quantize_fp8(row(0.0, -0.0, 0.0))
    assert scale.item() == 2.0**-120
    assert q.view(torch.uint8).tolist() == [[0, 0x80, 0]]
    q, scale = ac4k.quantize_fp8(row(1.0, math.nan, -448.0))
    assert scale.item() == 1
    assert q.view(torch.uint8).tolist() == [[0x38, 0x7F, 0xFE]]
    q, scale = ac4k.quantize_fp8(row(math.inf, -math.inf, 1.0))
    assert scale.item() == np.float32(np.finfo(np.float32).max) / np.float32(448)
    assert q.float().tolist() == [[448.0, -448.0, 0.0]]
    q, scale = ac4k.quantize_int8(row(math.nan, 127.0, -1.0))
    assert (q.tolist(), scale.item()) == ([[0, 127, -1]], 1)
    q, scale, zero = ac4k.quantize_int8(row(math.nan, 0.0, 255.0), symmetric=False)
    assert (q.tolist(), scale.item(), zero.item()) == ([[-128, -128, 127]], 1, -128)
    q, scale = ac4k.quantize_fp8(row(1.0, 449.0), pow2_scale=True)
    assert scale.item() == 2
    x = torch.zeros((1, 32), device=device)
    q, scale, g = ac4k.quantize_nvfp4(x)
    assert (q.sum().item(), scale.float().sum().item(), g.item()) == (0, 0, 1)
    q, scale = ac4k.quantize_mxfp4(x)
    assert (q.sum().item(), scale.item()) == (0, 0)


def test_refusals(device: str) -> None:
    x = torch.zeros((2, 40), device=device)
    with pytest.raises(ValueError, match=r"quantize_int8: argument 'scale': expected None"):
        ac4k.quantize_int8(x, "per_tensor", False, torch.ones(1, device=device))
    with pytest.raises(ValueError, match="quantize_nvfp4"):
        ac4k.quantize_nvfp4(x)
    with pytest.raises(ValueError, match=r"quantize_nvfp4: expected a multiple of 16 .* got 40"):
        ac4k.quantize_nvfp4(x, layout="tiled")
    with pytest.raises(ValueError, match="quantize_mxfp4"):
        ac4k.quantize_mxfp4(x)
    with pytest.raises(ValueError, match="granularity"):
        ac4k.quantize_fp8(x, "per_row")
    with pytest.raises(ValueError, match="scale"):
        ac4k.quantize_fp8(x, "per_token", scale=torch.ones(2, device=device))
    with pytest.raises((TypeError, ValueError), match="dtype"):
        ac4k.quantize_fp8(x, dtype=torch.int8)
    with pytest.raises((TypeError, ValueError), match="x"):
        ac4k.quantize_fp8(x.double())


# --- CPU levels and threads


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_cpu_level(dtype: str) -> None:
    for name, options in WAYS:
        shape = (37, 288) if name in BLOCK else (37, 301)
        x = random(shape, dtype, "cpu", 9)
        parts = getattr(ac4k, name)(x, **options)
        assert_exact(name, parts, x, **options)
        kept = {key: value for key, value in options.items() if key in ("granularity", "layout")}
        back = name.replace("quantize", "dequantize")
        result = getattr(ac4k, back)(*parts, **kept, dtype=TORCH[dtype])
        assert_exact(back, result, *parts, **kept)


@pytest.mark.parametrize(("name", "options"), WAYS, ids=way_name)
def test_results_do_not_depend_on_threads(name: str, options: dict[str, Any]) -> None:
    x = random((301, 1024), "bf16", "cpu", 10)
    results = []
    for count in (1, 2, 3):
        ac4k.set_num_threads(count)
        try:
            results.append(getattr(ac4k, name)(x, **options))
        finally:
            ac4k.set_num_threads(0)
    assert all(same_bits(result, results[0]) for result in results)


# --- properties


@given(
    way=st.sampled_from(WAYS),
    leading=st.lists(st.integers(1, 5), max_size=3),
    blocks=st.integers(1, 9),
    odd=st.integers(0, 31),
    gap=st.integers(0, 9),
    exponent=st.integers(-140, 120),
    dtype=st.sampled_from(FLOATS),
    seed=st.integers(0, 2**30),
)
@settings(max_examples=250, deadline=None, derandomize=True)
def test_any_shape_and_size(
    way: tuple[str, dict[str, Any]],
    leading: list[int],
    blocks: int,
    odd: int,
    gap: int,
    exponent: int,
    dtype: str,
    seed: int,
) -> None:
    name, options = way
    N = blocks * BLOCK.get(name, 32) + (0 if name in BLOCK else odd)
    base = random((*leading, N + gap), "f32", "cpu", seed) * 2.0**exponent
    x = base.to(TORCH[dtype])[..., gap:]
    assert_exact(name, getattr(ac4k, name)(x, **options), x, **options)


@given(
    x=st.lists(st.floats(width=32, allow_nan=True), min_size=1, max_size=40),
    granularity=st.sampled_from(GRANULARITIES),
    symmetric=st.booleans(),
)
@settings(max_examples=250, deadline=None, derandomize=True)
def test_any_floats(x: list[float], granularity: str, symmetric: bool) -> None:
    row = torch.tensor([x], dtype=torch.float32)
    results = ac4k.quantize_int8(row, granularity, symmetric)
    assert_exact("quantize_int8", results, row, granularity, symmetric)
    for fp8 in FP8:
        results = ac4k.quantize_fp8(row, granularity, fp8)
        assert_exact("quantize_fp8", results, row, granularity, fp8)
