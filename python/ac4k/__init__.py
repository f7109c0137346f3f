"""AC4K: low-precision kernels for LLM and diffusion inference, on CPU and GPU.

Ops take torch tensors, NumPy, CuPy or JAX arrays and give the same kind back:

>>> import ac4k, numpy as np
>>> ac4k.gemm(np.eye(2), np.ones((2, 2))).tolist()
[[1.0, 1.0], [1.0, 1.0]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ac4k import _native, _torch_watch
from ac4k.ops import *  # noqa: F403
from ac4k.ops import __all__ as _op_names
from ac4k.settings import (
    dependent_launch,
    get_arch,
    get_backend,
    get_num_threads,
    info,
    op_table,
    set_cache_dir,
    set_cpu_isa,
    set_dependent_launch,
    set_jit,
    set_num_threads,
)

if TYPE_CHECKING:
    from ac4k import bench, gguf, jit, nn, reference
    from ac4k.flat_state import flatten_state_dict, unflatten_state_dict
    from ac4k.packed_linear import linear, pack, quant_linear_configs, unpack
    from ac4k.profiling import profile
    from ac4k.quant_tensor import QuantTensor
    from ac4k.rope_tables import rope_3d_table, rope_table
    from ac4k.timing import benchmark_kernel
    from ac4k.w4a16 import (
        w4a16_dequantize,
        w4a16_linear,
        w4a16_order,
        w4a16_pack,
        w4a16_quantize,
        w4a16_unpack,
    )
    from ac4k.w4a16_import import w4a16_from_awq, w4a16_from_gptq, w4a16_load
    from ac4k.w4a16_runner import W4A16Runner

__version__: str = _native.C.__version__

__all__ = [
    "QuantTensor",
    "W4A16Runner",
    "__version__",
    "bench",
    "benchmark_kernel",
    "dependent_launch",
    "flatten_state_dict",
    "get_arch",
    "get_backend",
    "get_num_threads",
    "gguf",
    "info",
    "jit",
    "linear",
    "nn",
    "op_table",
    "pack",
    "profile",
    "quant_linear_configs",
    "reference",
    "rope_3d_table",
    "rope_table",
    "set_cache_dir",
    "set_cpu_isa",
    "set_dependent_launch",
    "set_jit",
    "set_num_threads",
    "unflatten_state_dict",
    "unpack",
    "w4a16_dequantize",
    "w4a16_from_awq",
    "w4a16_from_gptq",
    "w4a16_linear",
    "w4a16_load",
    "w4a16_order",
    "w4a16_pack",
    "w4a16_quantize",
    "w4a16_unpack",
    *_op_names,
]

# Imported when first asked for, so that `import ac4k` stays quick.
_LAZY = {
    "bench": ("ac4k.bench", None),
    "gguf": ("ac4k.gguf", None),
    "jit": ("ac4k.jit", None),
    "nn": ("ac4k.nn", None),
    "reference": ("ac4k.reference", None),
    "profile": ("ac4k.profiling", "profile"),
    "QuantTensor": ("ac4k.quant_tensor", "QuantTensor"),
    "flatten_state_dict": ("ac4k.flat_state", "flatten_state_dict"),
    "unflatten_state_dict": ("ac4k.flat_state", "unflatten_state_dict"),
    "linear": ("ac4k.packed_linear", "linear"),
    "pack": ("ac4k.packed_linear", "pack"),
    "quant_linear_configs": ("ac4k.packed_linear", "quant_linear_configs"),
    "unpack": ("ac4k.packed_linear", "unpack"),
    "rope_3d_table": ("ac4k.rope_tables", "rope_3d_table"),
    "rope_table": ("ac4k.rope_tables", "rope_table"),
    "benchmark_kernel": ("ac4k.timing", "benchmark_kernel"),
    "w4a16_dequantize": ("ac4k.w4a16", "w4a16_dequantize"),
    "w4a16_from_awq": ("ac4k.w4a16_import", "w4a16_from_awq"),
    "w4a16_from_gptq": ("ac4k.w4a16_import", "w4a16_from_gptq"),
    "w4a16_linear": ("ac4k.w4a16", "w4a16_linear"),
    "w4a16_load": ("ac4k.w4a16_import", "w4a16_load"),
    "w4a16_order": ("ac4k.w4a16", "w4a16_order"),
    "w4a16_pack": ("ac4k.w4a16", "w4a16_pack"),
    "w4a16_quantize": ("ac4k.w4a16", "w4a16_quantize"),
    "w4a16_unpack": ("ac4k.w4a16", "w4a16_unpack"),
    "W4A16Runner": ("ac4k.w4a16_runner", "W4A16Runner"),
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'ac4k' has no attribute {name!r}")
    import importlib

    module_name, attribute = _LAZY[name]
    module = importlib.import_module(module_name)
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value  # also where a submodule of the same name was just bound
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


_torch_watch.start()
