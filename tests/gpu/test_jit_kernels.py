"""Kernels of one's own on a real GPU, and what the JIT does under capture."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import ac4k

SCALE = """
extern "C" __global__ void scale(float* y, const float* x, float factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i];
}
"""
TEMPLATE = """
template <typename T, int kAdd>
__global__ void shift(T* y, const T* x, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + T(kAdd);
}
"""


def test_text_to_kernel_in_under_a_second() -> None:
    unique = SCALE.replace("factor * x[i]", f"factor * x[i] + {time.time_ns() % 1000}.0f * 0.0f")
    start = time.perf_counter()
    kernel = ac4k.jit.compile(unique, "scale")
    seconds = time.perf_counter() - start
    x = torch.randn(1000, device="cuda")
    y = torch.empty_like(x)
    kernel(4, 256, y, x, 3.0, 1000)
    assert torch.equal(y, 3.0 * x)
    assert seconds < 1.0
    assert kernel.attributes["registers"] > 0


def test_templates_files_and_argument_checks(tmp_path: Path) -> None:
    path = tmp_path / "shift.cu"
    path.write_text(TEMPLATE)
    kernel = ac4k.jit.compile(path, "shift<double, 5>")
    x = torch.randn(100, device="cuda", dtype=torch.float64)
    y = torch.empty_like(x)
    kernel((1,), (128,), y, x, 100)
    assert torch.equal(y, x + 5)
    scale = ac4k.jit.compile(SCALE, "scale")
    with pytest.raises(TypeError, match="expected 4 arguments, got 3"):
        scale(1, 128, y, x, 1.0)
    with pytest.raises(TypeError, match="argument 3"):
        scale(1, 128, y, x, 1.0, 2.5)
    with pytest.raises(ValueError, match="expected a CUDA tensor"):
        scale(1, 128, y, x.cpu(), 1.0, 100)
    with pytest.raises((ValueError, RuntimeError), match=r"block|thread"):
        scale(1, 4096, y, x, 1.0, 100)
    with pytest.raises(RuntimeError, match="no_such_function"):
        ac4k.jit.compile('extern "C" __global__ void f() { no_such_function(); }', "f")


def test_own_kernel_in_a_graph_and_on_a_stream() -> None:
    kernel = ac4k.jit.compile(SCALE, "scale")
    x = torch.ones(512, device="cuda")
    y = torch.zeros_like(x)
    kernel(2, 256, y, x, 1.0, 512)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(2, 256, y, x, 2.0, 512)
    y.zero_()
    graph.replay()
    assert bool((y == 2).all())


def run(program: str, cache: Path, mode: str) -> subprocess.CompletedProcess[str]:
    import os

    env = {**os.environ, "AC4K_CACHE_DIR": str(cache), "AC4K_JIT": mode}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=300
    )


CAPTURE = """
import torch, ac4k
x = torch.ones(64, 64, device="cuda")
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        y = ac4k.element_wise_mul_add(x, x, x)
except RuntimeError as error:
    print("refused:", error)
else:
    graph.replay()
    print("captured", y.sum().item())
"""


def test_compiling_under_capture_is_refused_and_loading_is_not(tmp_path: Path) -> None:
    cold = run(CAPTURE, tmp_path, "force")
    assert "refused:" in cold.stdout, cold.stdout + cold.stderr
    assert "capture" in cold.stdout
    warm = run(
        "import ac4k, torch; x = torch.ones(8, device='cuda'); ac4k.element_wise_mul_add(x, x, x)",
        tmp_path,
        "force",
    )
    assert warm.returncode == 0, warm.stderr
    cached = run(CAPTURE, tmp_path, "force")
    assert "captured 8192.0" in cached.stdout, cached.stdout + cached.stderr


def test_jit_off_says_what_would_help(tmp_path: Path) -> None:
    program = """
import ac4k
try:
    ac4k.jit.compile('extern "C" __global__ void never_seen() {}', "never_seen")
except NotImplementedError as error:
    print(error)
"""
    done = run(program, tmp_path, "off")
    assert "off" in done.stdout, done.stdout + done.stderr
