"""The compiled eager door. Made from the op table by tools/generate.py; do not edit."""

from typing import Any, Literal, TypeVar

Array = TypeVar("Array")

__version__: str

def dequantize(
    q: Array,
    fmt: Literal[
        "q4_0",
        "q4_1",
        "q5_0",
        "q5_1",
        "q8_0",
        "q8_1",
        "q2_k",
        "q3_k",
        "q4_k",
        "q5_k",
        "q6_k",
        "iq4_nl",
        "iq4_xs",
        "mxfp4",
        "nvfp4",
    ],
    dtype: Any = "float32",
    out: Array | None = None,
) -> Array: ...
def dequantize_fp8(
    q: Array,
    scale: Array,
    granularity: Literal[
        "per_tensor", "per_token", "per_channel", "group128", "block128"
    ] = "per_token",
    dtype: Any = "float32",
    out: Array | None = None,
) -> Array: ...
def dequantize_int8(
    q: Array,
    scale: Array,
    zero: Array | None = None,
    granularity: Literal[
        "per_tensor", "per_token", "per_channel", "group128", "block128"
    ] = "per_token",
    dtype: Any = "float32",
    out: Array | None = None,
) -> Array: ...
def dequantize_mxfp4(
    q: Array,
    scale: Array,
    dtype: Any = "float32",
    out: Array | None = None,
) -> Array: ...
def dequantize_mxfp8(
    q: Array,
    scale: Array,
    dtype: Any = "float32",
    out: Array | None = None,
) -> Array: ...
def dequantize_nvfp4(
    q: Array,
    scale: Array,
    global_scale: Array,
    layout: Literal["plain", "tiled"] = "plain",
    dtype: Any = "float32",
    out: Array | None = None,
) -> Array: ...
def dequantize_q4_0(q: Array, dtype: Any = "float32", out: Array | None = None) -> Array: ...
def dequantize_q4_1(q: Array, dtype: Any = "float32", out: Array | None = None) -> Array: ...
def dequantize_q5_0(q: Array, dtype: Any = "float32", out: Array | None = None) -> Array: ...
def dequantize_q5_1(q: Array, dtype: Any = "float32", out: Array | None = None) -> Array: ...
def dequantize_q8_0(q: Array, dtype: Any = "float32", out: Array | None = None) -> Array: ...
def dequantize_q8_1(q: Array, dtype: Any = "float32", out: Array | None = None) -> Array: ...
def element_wise_mul_add(a: Array, b: Array, c: Array, out: Array | None = None) -> Array: ...
def fused_add_gelu(
    x: Array,
    bias: Array,
    approximate: Literal["none", "tanh"] = "none",
    out: Array | None = None,
) -> Array: ...
def fused_add_gelu_quant(
    x: Array,
    bias: Array,
    scale: Array | None = None,
    approximate: Literal["none", "tanh"] = "none",
    granularity: Literal["per_token", "per_tensor", "group128"] = "per_token",
    dtype: Any = "float8_e4m3fn",
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]: ...
def fused_add_rms_norm(
    x: Array,
    residual: Array,
    weight: Array | None = None,
    eps: float = 1e-06,
    cast_first: bool = False,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]: ...
def fused_add_rms_norm_quant(
    x: Array,
    residual: Array,
    weight: Array | None = None,
    eps: float = 1e-06,
    scale: Array | None = None,
    granularity: Literal["per_token", "per_tensor", "group128"] = "per_token",
    dtype: Any = "float8_e4m3fn",
    cast_first: bool = False,
    out: tuple[Array, Array, Array] | None = None,
) -> tuple[Array, Array, Array]: ...
def gather_kvcache(
    k_cache: Array,
    v_cache: Array,
    slots: Array,
    k_scale: Array | None = None,
    v_scale: Array | None = None,
    layout: Literal["NHD", "HND"] = "NHD",
    dtype: Any = "bfloat16",
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]: ...
def gelu_and_mul(
    x: Array,
    approximate: Literal["none", "tanh"] = "none",
    out: Array | None = None,
) -> Array: ...
def gelu_and_mul_quant(
    x: Array,
    scale: Array | None = None,
    approximate: Literal["none", "tanh"] = "none",
    granularity: Literal["per_token", "per_tensor", "group128"] = "per_token",
    dtype: Any = "float8_e4m3fn",
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]: ...
def gemm(A: Array, B: Array, out: Array | None = None) -> Array: ...
def gemm_q4_0_q8_1(
    weight_q: Array,
    activation_q: Array,
    M: int,
    N: int,
    K: int,
    out: Array | None = None,
) -> Array: ...
def gemm_q4_1_q8_1(
    weight_q: Array,
    activation_q: Array,
    M: int,
    N: int,
    K: int,
    out: Array | None = None,
) -> Array: ...
def gemm_q5_0_q8_1(
    weight_q: Array,
    activation_q: Array,
    M: int,
    N: int,
    K: int,
    out: Array | None = None,
) -> Array: ...
def gemm_q5_1_q8_1(
    weight_q: Array,
    activation_q: Array,
    M: int,
    N: int,
    K: int,
    out: Array | None = None,
) -> Array: ...
def gemm_q8_0_q8_1(
    weight_q: Array,
    activation_q: Array,
    M: int,
    N: int,
    K: int,
    out: Array | None = None,
) -> Array: ...
def layer_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-05,
    out: Array | None = None,
) -> Array: ...
def layer_norm_quant(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-05,
    scale: Array | None = None,
    granularity: Literal["per_token", "per_tensor", "group128"] = "per_token",
    dtype: Any = "float8_e4m3fn",
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]: ...
def mrope(
    q: Array,
    positions: Array,
    cos_sin: Array,
    k: Array | None,
    section_t: int,
    section_h: int,
    section_w: int,
    interleaved_sections: bool = False,
    style: Literal["neox", "interleaved"] = "neox",
    out: Any | None = None,
) -> Any: ...
def pack_weight(
    q: Array,
    N: int,
    K: int,
    fmt: Literal[
        "q4_0",
        "q4_1",
        "q5_0",
        "q5_1",
        "q8_0",
        "q2_k",
        "q3_k",
        "q4_k",
        "q5_k",
        "q6_k",
        "iq4_nl",
        "iq4_xs",
        "mxfp4",
        "nvfp4",
    ],
    out: Array | None = None,
) -> Array: ...
def qk_norm(
    q: Array,
    k: Array,
    q_weight: Array | None = None,
    k_weight: Array | None = None,
    eps: float = 1e-06,
    over: Literal["head_dim", "heads"] = "head_dim",
    cast_first: bool = False,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]: ...
def qk_norm_rope(
    q: Array,
    k: Array,
    q_weight: Array,
    k_weight: Array,
    positions: Array,
    cos_sin: Array,
    eps: float = 1e-06,
    style: Literal["neox", "interleaved"] = "neox",
    cast_first: bool = False,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]: ...
def qk_norm_rope_3d(
    q: Array,
    k: Array,
    q_weight: Array,
    k_weight: Array,
    grid_sizes: Array,
    table: Array,
    eps: float = 1e-06,
    height_pairs: int = -1,
    width_pairs: int = -1,
    precision: Literal["exact", "fast"] = "exact",
    cast_first: bool = False,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]: ...
def quant_linear(
    x: Array,
    weight: Array,
    bias: Array | None,
    N: int,
    fmt: Literal[
        "q4_0",
        "q4_1",
        "q5_0",
        "q5_1",
        "q8_0",
        "q2_k",
        "q3_k",
        "q4_k",
        "q5_k",
        "q6_k",
        "iq4_nl",
        "iq4_xs",
        "mxfp4",
        "nvfp4",
    ],
    config: int = 0,
    out: Array | None = None,
) -> Array: ...
def quantize(
    x: Array,
    fmt: Literal[
        "q4_0",
        "q4_1",
        "q5_0",
        "q5_1",
        "q8_0",
        "q8_1",
        "q2_k",
        "q3_k",
        "q4_k",
        "q5_k",
        "q6_k",
        "iq4_nl",
        "iq4_xs",
        "mxfp4",
        "nvfp4",
    ],
    out: Array | None = None,
) -> Array: ...
def quantize_fp8(
    x: Array,
    granularity: Literal[
        "per_tensor", "per_token", "per_channel", "group128", "block128"
    ] = "per_token",
    dtype: Any = "float8_e4m3fn",
    scale: Array | None = None,
    pow2_scale: bool = False,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]: ...
def quantize_int8(
    x: Array,
    granularity: Literal[
        "per_tensor", "per_token", "per_channel", "group128", "block128"
    ] = "per_token",
    symmetric: bool = True,
    scale: Array | None = None,
    out: Any | None = None,
) -> Any: ...
def quantize_mxfp4(x: Array, out: tuple[Array, Array] | None = None) -> tuple[Array, Array]: ...
def quantize_mxfp8(
    x: Array,
    dtype: Any = "float8_e4m3fn",
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]: ...
def quantize_nvfp4(
    x: Array,
    global_scale: Array | None = None,
    layout: Literal["plain", "tiled"] = "plain",
    out: tuple[Array, Array, Array] | None = None,
) -> tuple[Array, Array, Array]: ...
def quantize_q4_0(x: Array, out: Array | None = None) -> Array: ...
def quantize_q4_1(x: Array, out: Array | None = None) -> Array: ...
def quantize_q5_0(x: Array, out: Array | None = None) -> Array: ...
def quantize_q5_1(x: Array, out: Array | None = None) -> Array: ...
def quantize_q8_0(x: Array, out: Array | None = None) -> Array: ...
def quantize_q8_1(x: Array, out: Array | None = None) -> Array: ...
def relu2(x: Array, out: Array | None = None) -> Array: ...
def relu2_quant(
    x: Array,
    scale: Array | None = None,
    granularity: Literal["per_token", "per_tensor", "group128"] = "per_token",
    dtype: Any = "float8_e4m3fn",
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]: ...
def residual_gate(x: Array, y: Array, gate: Array, out: Array | None = None) -> Array: ...
def rms_norm(
    x: Array,
    weight: Array | None = None,
    eps: float = 1e-06,
    cast_first: bool = False,
    out: Array | None = None,
) -> Array: ...
def rms_norm_quant(
    x: Array,
    weight: Array | None = None,
    eps: float = 1e-06,
    scale: Array | None = None,
    granularity: Literal["per_token", "per_tensor", "group128"] = "per_token",
    dtype: Any = "float8_e4m3fn",
    cast_first: bool = False,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]: ...
def rope(
    q: Array,
    positions: Array,
    cos_sin: Array,
    k: Array | None = None,
    style: Literal["neox", "interleaved"] = "neox",
    out: Any | None = None,
) -> Any: ...
def rope_3d(
    q: Array,
    grid_sizes: Array,
    table: Array,
    k: Array | None = None,
    height_pairs: int = -1,
    width_pairs: int = -1,
    precision: Literal["exact", "fast"] = "exact",
    out: Any | None = None,
) -> Any: ...
def rope_store_kvcache(
    q: Array,
    k: Array,
    v: Array,
    positions: Array,
    cos_sin: Array,
    k_cache: Array,
    v_cache: Array,
    slot_mapping: Array,
    k_scale: Array | None = None,
    v_scale: Array | None = None,
    style: Literal["neox", "interleaved"] = "neox",
    layout: Literal["NHD", "HND"] = "NHD",
    out: Array | None = None,
) -> Array: ...
def silu_and_mul(x: Array, out: Array | None = None) -> Array: ...
def silu_and_mul_quant(
    x: Array,
    scale: Array | None = None,
    granularity: Literal["per_token", "per_tensor", "group128"] = "per_token",
    dtype: Any = "float8_e4m3fn",
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]: ...
def store_kvcache(
    key: Array,
    value: Array,
    k_cache: Array,
    v_cache: Array,
    slot_mapping: Array,
    k_scale: Array | None = None,
    v_scale: Array | None = None,
    layout: Literal["NHD", "HND"] = "NHD",
) -> None: ...
def stream_bytes(src: Array, W: int, out: Array | None = None) -> Array: ...
def unpack_weight(
    packed: Array,
    N: int,
    K: int,
    fmt: Literal[
        "q4_0",
        "q4_1",
        "q5_0",
        "q5_1",
        "q8_0",
        "q2_k",
        "q3_k",
        "q4_k",
        "q5_k",
        "q6_k",
        "iq4_nl",
        "iq4_xs",
        "mxfp4",
        "nvfp4",
    ],
    out: Array | None = None,
) -> Array: ...
def w4a16_gemm(
    x: Array,
    packed: Array,
    bias: Array | None,
    alpha: float,
    residual: Array | None,
    N: int,
    layout: Literal["g32", "g64", "g128", "g32z", "g64z", "g128z"] = "g128",
    activation: Literal["none", "silu", "gelu", "gelu_tanh"] = "none",
    config: int = 0,
    out: Array | None = None,
) -> Array: ...
def w4a16_pack_weight(
    q: Array,
    scales: Array,
    zeros: Array | None = None,
    layout: Literal["g32", "g64", "g128", "g32z", "g64z", "g128z"] = "g128",
    out: Array | None = None,
) -> Array: ...
def w4a16_unpack_weight(
    packed: Array,
    N: int,
    K: int,
    G: int,
    layout: Literal["g32", "g64", "g128", "g32z", "g64z", "g128z"] = "g128",
    dtype: Any = "float16",
    out: tuple[Array, Array, Array] | None = None,
) -> tuple[Array, Array, Array]: ...
def op_table_json() -> str: ...
def info_json() -> str: ...
def set(name: str, value: str, /) -> None: ...
def get(name: str, /) -> str: ...
def jit_compile(source: str, entry: str, options: str | None, arch: str | None, /) -> object: ...
def jit_build(module: str | None, arch: str | None, /) -> str: ...
def jit_list() -> str: ...
def jit_clear(module: str | None, arch: str | None) -> int: ...
def kernel_find(module: str, entry: str, arch: str | None, /) -> object: ...
def kernel_json(kernel: object, /) -> str: ...
def kernel_launch(
    kernel: object,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    cluster: tuple[int, int, int],
    shared_bytes: int,
    dependent: bool,
    device: int,
    stream: int,
    params: tuple[bytes, ...],
    /,
) -> None: ...
def synchronize(device: int, /) -> None: ...
def device_of(pointer: int, /) -> int: ...
def describe(array: object, /) -> tuple[int, tuple[int, ...], int, int, int]: ...
def gguf_open(path: bytes, /) -> GGUFFile: ...
def quant_linear_configs(
    fmt: str, device_type: int, device_id: int, tokens: int, N: int, K: int, /
) -> str: ...
def w4a16_runner(is_bf16: bool, quant: int, device_type: int, device_id: int, /) -> object: ...
def w4a16_configs(runner: object, M: int, N: int, K: int, /) -> list[str]: ...
def w4a16_best_config(runner: object, M: int, N: int, K: int, group_size: int, /) -> int: ...
def w4a16_workspace_size(runner: object, M: int, N: int, K: int, /) -> int: ...
def w4a16_tune(
    runner: object,
    product: tuple[int, int, int, int, int, int, int, int],
    stream: int,
    seconds: float,
    /,
) -> tuple[int, list[float]]: ...
def calibrate_torch_guard() -> bool: ...
def set_torch_guard(enabled: bool, /) -> None: ...

class GGUFFile:
    def header(self) -> tuple[int, int, int, int]: ...
    def metadata(self) -> dict[str, Any]: ...
    def kinds(self) -> dict[str, Any]: ...
    def tensors(self) -> list[tuple[str, str, tuple[int, ...], int, int]]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
