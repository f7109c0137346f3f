"""A pybind11 torch extension that does what `ac4k._C` does, to compare the cost of a call with.

It takes the same tensors, makes the same kind of checks, finds the device and its current stream,
and runs the same kernel; it is built on the spot with torch's own tools and cached by them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._console import note

_HOST = r"""
#include <torch/extension.h>
#ifdef AC4K_PEER_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
void launch_mul_add(const float*, const float*, const float*, float*, int64_t, cudaStream_t);
void launch_add_gelu(const float*, const float*, float*, int64_t, int64_t, cudaStream_t);
#endif

namespace {

void check(const char* name, const at::Tensor& tensor, const at::Tensor& like) {
  TORCH_CHECK(tensor.device() == like.device(), name, ": wrong device");
  TORCH_CHECK(tensor.scalar_type() == like.scalar_type(), name, ": wrong dtype");
  TORCH_CHECK(tensor.is_contiguous(), name, ": not contiguous");
}

const float* in(const at::Tensor& tensor) { return tensor.const_data_ptr<float>(); }

void mul_add(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, at::Tensor out) {
  TORCH_CHECK(a.scalar_type() == at::kFloat, "a: expected float32");
  check("a", a, a);
  check("b", b, a);
  check("c", c, a);
  check("out", out, a);
  TORCH_CHECK(b.sizes() == a.sizes() && c.sizes() == a.sizes() && out.sizes() == a.sizes());
#ifdef AC4K_PEER_CUDA
  if (a.is_cuda()) {
    const c10::cuda::CUDAGuard guard(a.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    if (a.numel() == 0) return;
    launch_mul_add(in(a), in(b), in(c), out.mutable_data_ptr<float>(), a.numel(), stream);
    return;
  }
#endif
  float* y = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < a.numel(); ++i) y[i] = in(a)[i] * in(b)[i] + in(c)[i];
}

void add_gelu(const at::Tensor& x, const at::Tensor& bias, at::Tensor out) {
  TORCH_CHECK(x.scalar_type() == at::kFloat, "x: expected float32");
  TORCH_CHECK(x.dim() >= 1 && bias.dim() == 1 && bias.size(0) == x.size(-1), "bias: wrong shape");
  check("x", x, x);
  check("bias", bias, x);
  check("out", out, x);
  TORCH_CHECK(out.sizes() == x.sizes(), "out: wrong shape");
#ifdef AC4K_PEER_CUDA
  if (x.is_cuda()) {
    const c10::cuda::CUDAGuard guard(x.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    if (x.numel() == 0) return;
    launch_add_gelu(in(x), in(bias), out.mutable_data_ptr<float>(), x.numel(), bias.numel(),
                    stream);
    return;
  }
#endif
  float* y = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float sum = in(x)[i] + in(bias)[i % bias.numel()];
    y[i] = 0.5f * sum * (1.0f + std::erf(sum * 0.70710678f));
  }
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("mul_add", &mul_add);
  m.def("add_gelu", &add_gelu);
}
"""

_DEVICE = r"""
#include <cstdint>
__global__ void mul_add(const float* a, const float* b, const float* c, float* out, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < n) out[i] = a[i] * b[i] + c[i];
}
__global__ void add_gelu(const float* x, const float* bias, float* out, int64_t n, int64_t cols) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i >= n) return;
  const float sum = x[i] + bias[i % cols];
  out[i] = 0.5f * sum * (1.0f + erff(sum * 0.70710678f));
}
void launch_mul_add(const float* a, const float* b, const float* c, float* out, int64_t n,
                    cudaStream_t stream) {
  mul_add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, c, out, n);
}
void launch_add_gelu(const float* x, const float* bias, float* out, int64_t n, int64_t cols,
                     cudaStream_t stream) {
  add_gelu<<<(n + 255) / 256, 256, 0, stream>>>(x, bias, out, n, cols);
}
"""


def build_peer(device: str) -> tuple[Any | None, str]:
    """The extension, or None and why there is none."""
    try:
        from torch.utils import cpp_extension
    except ImportError:
        return None, "torch is not installed"
    with_cuda = device == "cuda"
    if with_cuda and cpp_extension.CUDA_HOME is None:
        return None, "nvcc was not found (CUDA_HOME)"
    if not cpp_extension.is_ninja_available():
        return None, "ninja was not found"
    name = f"ac4k_pybind11_peer_{device}"
    folder = Path(cpp_extension._get_build_directory(name, False))
    if not (folder / f"{name}.so").exists():
        note("ac4k bench: building a pybind11 extension to compare with (once, about a minute) …")
    sources = [_write(folder / "peer.cpp", _HOST)]
    if with_cuda:
        sources.append(_write(folder / "peer_kernels.cu", _DEVICE))
    flags = ["-O2", "-DAC4K_PEER_CUDA"] if with_cuda else ["-O2"]
    try:
        return cpp_extension.load(name, sources, extra_cflags=flags, with_cuda=with_cuda), ""
    except (RuntimeError, OSError, ImportError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return None, f"did not build: {lines[0]}"


def _write(path: Path, text: str) -> str:
    """Writes only what changed, so that ninja has nothing to do on the next run."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return str(path)
