"""The model of a GPU itself: numbers against PyTorch and ml_dtypes, and mistakes that it must see.

In a process of its own: `python tools/check.py model`.
"""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from gpu import Gpu, OnGpu
from helpers import wakes_beside
from kernels import Kernel

import ac4k

HEADERS = "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n#include <cuda_fp8.h>\n"


def kernel_of(gpu: Gpu, body: str, parameters: str) -> Kernel:
    text = f'{HEADERS}extern "C" __global__ void kernel({parameters}) {{\n{body}\n}}\n'
    return Kernel(gpu, text, "kernel")


def awkward_floats() -> torch.Tensor:
    """Every bfloat16, values halfway between neighbours of narrower types, random bits."""
    every = np.arange(1 << 16, dtype=np.uint32) << 16
    halfway = np.concatenate([every | low for low in (0x8000, 0x7FFF, 0x8001, 0x1000, 0x2FFF)])
    random = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
    return torch.from_numpy(np.concatenate([every, halfway, random]).view(np.float32))


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Bit by bit, but for the payload of NaN."""
    both_nan = one.isnan() & other.isnan()
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[one.itemsize]
    return bool((both_nan | (one.view(kind) == other.view(kind))).all())


@pytest.mark.parametrize(
    ("dtype", "convert"),
    [
        (torch.float16, "__half_as_ushort(__float2half_rn(x[i]))"),
        (torch.bfloat16, "__bfloat16_as_ushort(__float2bfloat16_rn(x[i]))"),
    ],
)
def test_narrow_numbers(gpu: Gpu, dtype: torch.dtype, convert: str) -> None:
    x = awkward_floats()
    kernel = kernel_of(
        gpu,
        f"const int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = {convert};",
        "unsigned short* y, const float* x, int n",
    )
    y = torch.empty(x.numel(), dtype=torch.int16)
    kernel(-(-x.numel() // 256), 256, y, x, x.numel(), writes=[y])
    assert same(y.view(dtype), x.to(dtype))


@pytest.mark.parametrize(
    ("name", "kind"), [("float8_e4m3fn", "__NV_E4M3"), ("float8_e5m2", "__NV_E5M2")]
)
def test_eight_bit_numbers(gpu: Gpu, name: str, kind: str) -> None:
    x = awkward_floats()
    kernel = kernel_of(
        gpu,
        "const int i = blockIdx.x * 256 + threadIdx.x;"
        f"if (i < n) y[i] = __nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, {kind});",
        "unsigned char* y, const float* x, int n",
    )
    y = torch.empty(x.numel(), dtype=torch.uint8)
    kernel(-(-x.numel() // 256), 256, y, x, x.numel(), writes=[y])
    dtype = np.dtype(getattr(ml_dtypes, name))
    most = float(ml_dtypes.finfo(dtype).max)
    with np.errstate(invalid="ignore"):
        expected = np.clip(x.numpy(), -most, most).astype(dtype)
    assert same(y.view(getattr(torch, name)).float(), torch.from_numpy(expected.astype(np.float32)))


@pytest.mark.parametrize(
    ("dtype", "prefix"), [(torch.float16, "half"), (torch.bfloat16, "bfloat16")]
)
def test_pairs_of_16_bits(gpu: Gpu, dtype: torch.dtype, prefix: str) -> None:
    torch.manual_seed(0)
    pair = "__half2" if prefix == "half" else "__nv_bfloat162"
    bits = torch.randint(-(1 << 15), 1 << 15, (3, 1 << 16), dtype=torch.int16)
    a, b, c = bits.view(dtype)
    kernel = kernel_of(
        gpu,
        f"""using Pair = {pair};
        const int i = blockIdx.x * 256 + threadIdx.x;
        const Pair p = *reinterpret_cast<const Pair*>(a + i);
        const Pair q = *reinterpret_cast<const Pair*>(b + i);
        const Pair r = *reinterpret_cast<const Pair*>(c + i);
        const Pair all[4] = {{__hmul2(p, q), __hadd2(p, r), __hfma2(p, q, r), __hmax2(p, q)}};
        for (int k = 0; k < 4; ++k) y[k * n + i] = *reinterpret_cast<const unsigned*>(&all[k]);""",
        "unsigned* y, const unsigned* a, const unsigned* b, const unsigned* c, int n",
    )
    y = torch.empty(4, a.numel(), dtype=torch.int16)
    kernel(a.numel() // 512, 256, y, a, b, c, a.numel() // 2, writes=[y])
    wide = [each.double() for each in (a, b, c)]
    larger = torch.where(
        wide[0].isnan(),
        wide[1],
        torch.where(wide[1].isnan(), wide[0], torch.maximum(wide[0], wide[1])),
    )
    expected = [wide[0] * wide[1], wide[0] + wide[2], wide[0] * wide[1] + wide[2], larger]
    for found, exact in zip(y.view(dtype), expected, strict=True):
        # PyTorch rounds twice on the way from float64: a neighbour where that is a tie.
        rounded = exact.to(dtype)
        close = (found.double() - exact).abs() <= (rounded.double() - exact).abs()
        zero_or_nan = (found == rounded) | (found.isnan() & rounded.isnan())
        assert bool((close | zero_or_nan).all())


def test_products_of_warps(gpu: Gpu) -> None:
    """mma against PyTorch; PTX's picture of its fragments is written out here once more."""
    a = torch.randn(16, 16).to(torch.bfloat16)
    b = torch.randn(16, 8).to(torch.bfloat16)
    d = torch.full((16, 8), torch.nan)
    kernel = kernel_of(
        gpu,
        """const int g = threadIdx.x / 4, t = threadIdx.x % 4;
        auto pair = [&](int row, int k) {
          return *reinterpret_cast<const unsigned*>(a + row * 16 + k);
        };
        auto column = [&](int k) {
          return unsigned(b[k * 8 + g]) | unsigned(b[k * 8 + 8 + g]) << 16;
        };
        float s[4];
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
            " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
            : "=f"(s[0]), "=f"(s[1]), "=f"(s[2]), "=f"(s[3])
            : "r"(pair(g, 2 * t)), "r"(pair(g + 8, 2 * t)), "r"(pair(g, 2 * t + 8)),
              "r"(pair(g + 8, 2 * t + 8)), "r"(column(2 * t)), "r"(column(2 * t + 8)), "f"(0.0f));
        for (int i = 0; i < 4; ++i) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = s[i];""",
        "float* d, const unsigned short* a, const unsigned short* b",
    )
    kernel(1, 32, d, a, b, writes=[d])
    torch.testing.assert_close(d.double(), a.double() @ b.double(), rtol=1e-6, atol=1e-6)


def test_lanes_that_part_meet_again(gpu: Gpu) -> None:
    y = torch.empty(64, dtype=torch.int32)
    kernel = kernel_of(
        gpu,
        """int v = threadIdx.x;
        for (int i = 0; i < threadIdx.x % 7; ++i) v = v * 3 + i;
        if (v % 2 == 0) v ^= 5;
        v += __shfl_xor_sync(0xffffffffu, v, 1);
        y[threadIdx.x] = v;""",
        "int* y",
    )
    kernel(1, 64, y, writes=[y])
    values = []
    for lane in range(64):
        v = lane
        for i in range(lane % 7):
            v = v * 3 + i
        values.append(v if v % 2 else v ^ 5)
    assert y.tolist() == [v + values[lane ^ 1] for lane, v in enumerate(values)]


def test_long_work_is_not_taken_for_waiting(gpu: Gpu) -> None:
    y = torch.empty(32, dtype=torch.int32)
    kernel = kernel_of(
        gpu,
        """unsigned v = threadIdx.x;
        for (int i = 0; i < 100000; ++i) v = v * 1664525u + (v >> 16);
        y[threadIdx.x] = v;""",
        "unsigned* y",
    )
    kernel(1, 32, y, writes=[y])
    v = np.arange(32, dtype=np.uint32)
    for _ in range(100000):
        v = v * np.uint32(1664525) + (v >> np.uint32(16))
    assert (y.numpy().view(np.uint32) == v).all()


EXCHANGE = """__shared__ int s[96];
s[threadIdx.x] = threadIdx.x;
{sync}
y[threadIdx.x] = s[95 - threadIdx.x];"""


@pytest.mark.parametrize("sync", ["__syncthreads();", ""])
def test_a_missing_barrier_shows(gpu: Gpu, sync: str) -> None:
    kernel = kernel_of(gpu, EXCHANGE.format(sync=sync), "int* y")
    right = []
    for seed in range(1, 33):
        gpu.set_seed(seed)
        y = torch.empty(96, dtype=torch.int32)
        kernel(1, 96, y, writes=[y])
        right.append(y.tolist() == list(range(95, -1, -1)))
    assert all(right) == bool(sync)


PRODUCT = """__shared__ __align__(1024) unsigned short b[8 * 64];
for (int i = threadIdx.x; i < 8 * 64; i += 128) b[i] = 0x3f80;
__syncthreads();
const unsigned long long matrix =
    1ull << 62 | 64ull << 32 | (unsigned)__cvta_generic_to_shared(b) >> 4;
float s[4] = {{1, 1, 1, 1}};
asm volatile("{fence}" ::: "memory");
asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%0, %1, %2, %3}},"
             " {{%4, %4, %4, %4}}, %5, 1, 1, 1, 0; wgmma.commit_group.sync.aligned;"
             : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]) : "r"(0x3f803f80), "l"(matrix));
{before}
x[threadIdx.x] = s[0] + s[1] + s[2] + s[3];
{after}"""
FENCE = "wgmma.fence.sync.aligned;"
WAIT = 'asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");'


@pytest.mark.parametrize("waits", [True, False])
def test_products_of_warpgroups_take_time(gpu: Gpu, waits: bool) -> None:
    at = {"before": WAIT, "after": ""} if waits else {"before": "", "after": WAIT}
    kernel = kernel_of(gpu, PRODUCT.format(fence=FENCE, **at), "float* x")
    right = []
    for seed in range(1, 17):
        gpu.set_seed(seed)
        x = torch.empty(128)
        kernel(1, 128, x, writes=[x])
        right.append(bool((x == 4 * 17).all()))
    assert all(right) == waits


@pytest.mark.parametrize(
    ("fence", "wait", "message"),
    [("", WAIT, "before wgmma.fence"), (FENCE, "", "still under way")],
)
def test_products_of_warpgroups_are_fenced_and_awaited(
    gpu: Gpu, fence: str, wait: str, message: str
) -> None:
    gpu.set_seed(2)
    kernel = kernel_of(gpu, PRODUCT.format(fence=fence, before=wait, after=""), "float* x")
    x = torch.empty(128)

    def multiply_often() -> None:
        for _ in range(8):  # products may end at once
            kernel(1, 128, x, writes=[x])

    with pytest.raises(RuntimeError, match=message):
        multiply_often()


BARRIER = """__shared__ unsigned long long barrier;
const unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
"""
MISTAKES = {
    "behind the end": ("x[threadIdx.x + 1] = 1;", "is no argument's"),
    "written, but only to be read": ("y[0] = 1;", "is no argument's"),
    "misaligned": (
        "*reinterpret_cast<float4*>(x) = *reinterpret_cast<const float4*>(y + 1);",
        "misaligned",
    ),
    "outside of shared memory": (
        "__shared__ float s[32]; s[threadIdx.x + 8] = y[0]; __syncwarp(); x[threadIdx.x] = s[0];",
        "shared address",
    ),
    "a barrier for some": (
        "if (threadIdx.x == 0) __syncthreads(); __syncwarp();",
        "waits for what does not happen",
    ),
    "from a lane that is gone": (
        "if (threadIdx.x < 16) x[0] = __shfl_sync(0xffffffffu, y[0], 20);",
        "does not take part",
    ),
    "no barrier": (
        BARRIER + 'asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 1;" :: "r"(at));',
        "not initialised",
    ),
    "too few arrivals": (
        BARRIER
        + """if (threadIdx.x == 0) {
          asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" :: "r"(at));
          asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 1;" :: "r"(at));
        }
        __syncwarp();
        asm volatile("{.reg .pred done; again:"
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;"
                     "@!done bra again;}" :: "r"(at));""",
        "waits for what does not happen",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_errors(gpu: Gpu, mistake: str) -> None:
    body, message = MISTAKES[mistake]
    x, y = torch.zeros(32), torch.ones(32)
    kernel = kernel_of(gpu, body, "float* x, float* y")
    with pytest.raises(RuntimeError, match=message):
        kernel(1, 32, x, y, writes=[x])


def test_other_threads_run_beside_a_first_use(gpu: Gpu, tmp_path: Path) -> None:
    cache = ac4k._C.get("cache_dir")
    ac4k.set_cache_dir(str(tmp_path))
    x = torch.randn(4, 8)
    out = torch.empty_like(x)
    try:
        assert wakes_beside(lambda: ac4k.relu2(OnGpu(x), out=OnGpu(out))) > 20
    finally:
        ac4k.set_cache_dir(cache)
    torch.testing.assert_close(out, torch.relu(x) ** 2)


def test_an_op_reaches_the_model(gpu: Gpu) -> None:
    """The whole way: checks, choice of kernel, compile, launch."""
    x, bias = torch.randn(5, 70), torch.randn(70)
    out = torch.full_like(x, torch.nan)
    placed = [gpu.place(each, writable=each is out) for each in (x, bias, out)]
    ac4k.fused_add_gelu(placed[0], placed[1], out=placed[2])
    gpu.forget()
    torch.testing.assert_close(out, torch.nn.functional.gelu(x + bias))
