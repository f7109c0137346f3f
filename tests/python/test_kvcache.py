"""store_kvcache and gather_kvcache: bit by bit against indexing in PyTorch and ml_dtypes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ac4k

FLOATS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
FP8 = {"f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}
ML_DTYPES = {
    torch.float8_e4m3fn: (ml_dtypes.float8_e4m3fn, 448.0),
    torch.float8_e5m2: (ml_dtypes.float8_e5m2, 57344.0),
}


def bits(tensor: torch.Tensor) -> torch.Tensor:
    size = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.element_size()]
    return tensor.contiguous().cpu().view(size)


def random(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype).to(device)


def caches(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, layout: str = "NHD"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Full of numbers that must survive; shape is [blocks, block size, heads, head dim]."""
    blocks, size, heads, head_dim = shape
    real = (blocks, heads, size, head_dim) if layout == "HND" else shape
    return random(real, dtype, device, 90), random(real, dtype, device, 91)


def encoded(x: torch.Tensor, dtype: torch.dtype, scale: torch.Tensor | None = None) -> torch.Tensor:
    """What the cache should hold, by ml_dtypes, on the CPU."""
    x = x.cpu()
    if dtype not in ML_DTYPES:
        return x.to(dtype)
    kind, largest = ML_DTYPES[dtype]
    inverse = np.ones(1, np.float32) if scale is None else np.float32(1) / scale.cpu().numpy()
    with np.errstate(all="ignore"):
        numbers = (x.float().numpy() * inverse[:, None]).clip(-largest, largest)
        codes = np.where(np.isnan(numbers), 0x7F, numbers.astype(kind).view(np.uint8))
        return torch.from_numpy(codes.astype(np.uint8)).view(dtype)


def slots_first(cache: torch.Tensor, layout: str) -> torch.Tensor:
    """The cache as [slots, heads, head dim]."""
    cache = cache.cpu()
    in_order = cache if layout == "NHD" else cache.transpose(1, 2)
    return in_order.reshape(-1, *in_order.shape[2:])


def check_store(
    key: torch.Tensor,
    value: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slots: torch.Tensor,
    *scales: torch.Tensor | None,
    layout: str = "NHD",
) -> None:
    """Stores, and compares every slot of both caches."""
    before = [slots_first(cache.clone(), layout) for cache in (k_cache, v_cache)]
    assert ac4k.store_kvcache(key, value, k_cache, v_cache, slots, *scales, layout=layout) is None
    for index, (tokens, cache) in enumerate(((key, k_cache), (value, v_cache))):
        scale = scales[index] if scales else None
        expected = bits(before[index])
        new = bits(encoded(tokens[: len(slots)], cache.dtype, scale))
        for token, slot in enumerate(slots.tolist()):
            if 0 <= slot < len(expected):
                expected[slot] = new[token]
        assert torch.equal(bits(slots_first(cache, layout)), expected)


SHAPES = [
    # tokens, heads, head dim, blocks, block size
    (1, 8, 128, 4, 16),
    (37, 4, 64, 5, 16),
    (5, 1, 128, 2, 3),
    (9, 3, 80, 3, 7),
    (6, 2, 33, 4, 2),
    (3, 1, 1, 3, 1),
    (130, 2, 8, 9, 16),
    (4, 40, 512, 3, 4),
    (600, 2, 16, 50, 16),
    (0, 2, 8, 2, 2),
]


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("cache_dtype", ["same", *FP8])
@pytest.mark.parametrize("shape", SHAPES)
def test_store_and_gather(
    device: str, dtype: str, cache_dtype: str, layout: str, shape: tuple[int, ...]
) -> None:
    tokens, heads, head_dim, blocks, size = shape
    kind = FLOATS[dtype] if cache_dtype == "same" else FP8[cache_dtype]
    key = random((tokens, heads, head_dim), FLOATS[dtype], device, 1)
    value = random((tokens, heads, head_dim), FLOATS[dtype], device, 2)
    k_cache, v_cache = caches((blocks, size, heads, head_dim), kind, device, layout)
    # Some slots are negative, some past the end; the rest differ from each other.
    generator = torch.Generator().manual_seed(3)
    slots = (torch.randperm(2 * tokens + blocks * size, generator=generator) - 2)[:tokens]
    for index in (torch.int64, torch.int32):
        check_store(key, value, k_cache, v_cache, slots.to(index).to(device), layout=layout)
    got = ac4k.gather_kvcache(
        k_cache, v_cache, slots.to(device), layout=layout, dtype=FLOATS[dtype]
    )
    for result, cache in zip(got, (k_cache, v_cache), strict=True):
        assert result.shape == key.shape
        flat = slots_first(cache, layout)
        for token, slot in enumerate(slots.tolist()):
            inside = 0 <= slot < blocks * size
            row = flat[slot].float() if inside else torch.zeros(heads, head_dim)
            assert torch.equal(bits(result[token]), bits(row.to(FLOATS[dtype])))


@pytest.mark.parametrize("cache_dtype", FP8)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize("head_dim", [64, 65])
def test_scales(device: str, dtype: str, cache_dtype: str, per_head: bool, head_dim: int) -> None:
    key = random((11, 4, head_dim), FLOATS[dtype], device, 1) * 3
    value = random((11, 4, head_dim), FLOATS[dtype], device, 2)
    k_cache, v_cache = caches((3, 5, 4, head_dim), FP8[cache_dtype], device)
    count = 4 if per_head else 1
    k_scale = torch.rand(count, generator=torch.Generator().manual_seed(5)).to(device) + 0.01
    v_scale = torch.tensor([0.37], device=device)
    slots = torch.randperm(15, generator=torch.Generator().manual_seed(6))[:11].to(device)
    check_store(key, value, k_cache, v_cache, slots, k_scale, v_scale)
    got = ac4k.gather_kvcache(k_cache, v_cache, slots, k_scale, v_scale, dtype=FLOATS[dtype])
    for result, cache, scale in zip(got, (k_cache, v_cache), (k_scale, v_scale), strict=True):
        stored = slots_first(cache, "NHD")[slots.cpu()].float()
        expected = (stored * scale.cpu()[:, None]).to(FLOATS[dtype])
        assert torch.equal(bits(result), bits(expected))


@pytest.mark.parametrize("cache_dtype", ["bf16", *FP8])
def test_views_as_engines_have_them(device: str, cache_dtype: str) -> None:
    """Keys inside a QKV projection, padded for graphs; caches that are halves of one tensor,
    outside or inside the block dim; misaligned caches."""
    kind = FLOATS.get(cache_dtype) or FP8[cache_dtype]
    qkv = random((12, 3 * 256), torch.bfloat16, device, 1)
    key, value = (qkv[:, i * 256 : (i + 1) * 256].view(12, 2, 128) for i in (1, 2))
    slots = torch.tensor([3, 8, -1, 31, 0, 32, 17], device=device)
    whole = random((2, 4, 8, 2, 128), kind, device, 2)
    check_store(key, value, whole[0], whole[1], slots)
    interleaved = random((4, 2, 8, 2, 128), kind, device, 3)
    check_store(key, value, interleaved[:, 0], interleaved[:, 1], slots)
    padded = random((2, 4, 8, 2, 129), kind, device, 4)
    check_store(key, value, padded[0, ..., 1:], padded[1, ..., 1:], slots)
    heads_first = random((2, 2, 4, 8, 128), kind, device, 5)  # [k/v, heads, blocks, size, dim]
    check_store(key, value, *heads_first.transpose(1, 2).unbind(0), slots, layout="HND")
    check_store(qkv[:, 1:257].view(12, 2, 128), value, whole[0], whole[1], slots)


def test_a_captured_step_is_padded(device: str) -> None:
    """Fewer slots than keys: the rest is padding. nano-vllm's call."""
    key, value = (random((64, 2, 128), torch.bfloat16, device, seed) for seed in (1, 2))
    k_cache, v_cache = caches((4, 256, 2, 128), torch.bfloat16, device)
    slot_mapping = torch.tensor([5, 700, -1], dtype=torch.int32, device=device)
    check_store(key, value, k_cache, v_cache, slot_mapping)


@pytest.mark.parametrize("shape", [(2, 0, 3, 8), (0, 4, 3, 8), (0, 0, 3, 8)])
@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_a_cache_without_slots(device: str, shape: tuple[int, ...], layout: str) -> None:
    """PyTorch gives it strides that blocks of it would not follow each other by."""
    empty = caches(shape, torch.bfloat16, device, layout)
    slots = torch.tensor([0, -1, 5], device=device)
    for rows in ac4k.gather_kvcache(*empty, slots, layout=layout):
        assert rows.shape == (3, 3, 8)
        assert not rows.any()
    tokens = random((3, 3, 8), torch.bfloat16, device, 1)
    ac4k.store_kvcache(tokens, tokens, *empty, slots, layout=layout)


@pytest.mark.parametrize("cache_dtype", FP8)
def test_special_values(device: str, cache_dtype: str) -> None:
    special = [
        0.0,
        -0.0,
        math.inf,
        -math.inf,
        math.nan,
        1e-40,
        448.0,
        464.0,
        500.0,
        -6e4,
        3e38,
        1e-3,
    ]
    key = torch.tensor(special, device=device).view(1, 1, 12)
    k_cache, v_cache = caches((1, 1, 1, 12), FP8[cache_dtype], device)
    check_store(key, -key, k_cache, v_cache, torch.zeros(1, dtype=torch.int64, device=device))
    assert k_cache.float().isfinite().sum() == 11
    copies = torch.empty(1, 1, 1, 12, device=device), torch.empty(1, 1, 1, 12, device=device)
    ac4k.store_kvcache(key, -key, *copies, torch.zeros(1, dtype=torch.int32, device=device))
    assert torch.equal(bits(copies[0].view(-1)), bits(key.view(-1)))


@pytest.mark.parametrize("slot", [-1, -(2**62), 6, 2**31, 2**62])
def test_nothing_is_written_out_of_bounds(device: str, slot: int) -> None:
    memory = random((4, 6, 2, 16), torch.float32, device, 1)
    before = memory.clone()
    key = random((1, 2, 16), torch.float32, device, 2)
    slots = torch.tensor([slot], device=device)
    ac4k.store_kvcache(key, key, memory[1:2], memory[2:3], slots)
    assert torch.equal(memory, before)
    rows = ac4k.gather_kvcache(memory[1:2], memory[2:3], slots, dtype="float32")
    assert all(not row.any() for row in rows)


@pytest.fixture
def restore_settings() -> Iterator[None]:
    yield
    ac4k.set_cpu_isa("auto")
    ac4k.set_num_threads(0)


def test_every_cpu_level_and_thread_count(restore_settings: None) -> None:
    levels = ["generic", "avx2", "avx512", "amx"]
    levels = levels[: levels.index(ac4k.info()["cpu"]["best_isa"]) + 1]
    for dtype in FLOATS.values():
        key = random((300, 2, 67), dtype, "cpu", 1) * 100
        slots = torch.randperm(320, generator=torch.Generator().manual_seed(1))[:300] - 3
        scale = torch.tensor([0.3, 1.7])
        for kind in (dtype, *FP8.values()):
            scales = (scale, scale) if kind in ML_DTYPES else ()
            results = []
            for level, count in ((levels[-1], 1), (levels[-1], 3), *((each, 2) for each in levels)):
                ac4k.set_cpu_isa(level)
                ac4k.set_num_threads(count)
                k_cache, v_cache = caches((20, 16, 2, 67), kind, "cpu")
                check_store(key, -key, k_cache, v_cache, slots, *scales)
                results.append(
                    ac4k.gather_kvcache(k_cache, v_cache, slots, *scales, dtype=dtype)[0]
                )
            assert all(torch.equal(bits(result), bits(results[0])) for result in results)


@given(
    sizes=st.tuples(*(st.integers(1, 6) for _ in range(5))),
    layout=st.sampled_from(["NHD", "HND"]),
    cache_dtype=st.sampled_from([torch.float16, *FP8.values()]),
    slots=st.lists(st.integers(-3, 40), max_size=6, unique=True),
    seed=st.integers(0, 2**30),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_sizes(
    sizes: tuple[int, ...], layout: str, cache_dtype: Any, slots: list[int], seed: int
) -> None:
    extra, heads, head_dim, blocks, size = sizes
    key = random((len(slots) + extra, heads, head_dim), torch.float16, "cpu", seed)
    k_cache, v_cache = caches((blocks, size, heads, head_dim), cache_dtype, "cpu", layout)
    index = torch.tensor(slots, dtype=torch.int64)
    check_store(key, -key, k_cache, v_cache, index, layout=layout)


def test_what_is_refused(device: str) -> None:
    key = torch.ones(3, 2, 8, device=device)
    k_cache, v_cache = torch.zeros(2, 2, 4, 2, 8, device=device).unbind(0)
    slots = torch.arange(4, device=device)
    with pytest.raises(ValueError, match=r"'slot_mapping': expected at most 3 slots.*got 4"):
        ac4k.store_kvcache(key, key, k_cache, v_cache, slots)
    with pytest.raises(TypeError, match=r"'k_cache': expected dtype float32.*or an fp8 one, got"):
        ac4k.store_kvcache(key, key, k_cache.half(), v_cache.half(), slots[:3])
    with pytest.raises(ValueError, match="'k_scale': expected None for a cache of float32"):
        ac4k.store_kvcache(key, key, k_cache, v_cache, slots[:3], torch.ones(1, device=device))
    fp8 = torch.zeros(2, 4, 2, 8, device=device).to(torch.float8_e4m3fn)
    with pytest.raises(ValueError, match=r"'v_scale': expected shape \[1\] or \[2\].*got \[3\]"):
        ac4k.store_kvcache(
            key, key, fp8, fp8.clone(), slots[:3], v_scale=torch.ones(3, device=device)
        )
    with pytest.raises(ValueError, match="'v_cache'"):
        ac4k.store_kvcache(key, key, k_cache, v_cache[..., :4], slots[:3])
    with pytest.raises(ValueError, match="expected memory apart from"):
        ac4k.store_kvcache(key, key, k_cache, k_cache, slots[:3])
    with pytest.raises(
        ValueError, match="'dtype': expected float32, as 'k_cache' has, got bfloat16"
    ):
        ac4k.gather_kvcache(k_cache, v_cache, slots)
    with pytest.raises(TypeError, match="'slots'"):
        ac4k.gather_kvcache(k_cache, v_cache, slots.float(), dtype="float32")
