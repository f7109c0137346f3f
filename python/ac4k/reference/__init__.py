"""The float64 oracle of every op, in plain NumPy, and how far from it a result may be.

Two things cost accuracy: rounding the result to its dtype, and the arithmetic before it, which runs
in float32 (float64 for float64) on numbers of some magnitude. So a result is right when

    |result - reference| <= eps(dtype) * |reference| + tolerance * eps(arithmetic) * magnitude

with the tolerance of the op table and the magnitude that the reference gives. Quantised results
must be exact, but where float32 arithmetic next to a tie may round to the other side.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _gguf_linear_reference, _gguf_reference, _quantize_rule
from .activations_quant import (
    fused_add_gelu_quant,
    gelu_and_mul_quant,
    relu2_quant,
    silu_and_mul_quant,
)
from .elementwise import (
    element_wise_mul_add,
    fused_add_gelu,
    gelu_and_mul,
    gemm,
    relu2,
    residual_gate,
    silu_and_mul,
    stream_bytes,
)
from .kvcache import gather_kvcache, rope_store_kvcache, store_kvcache
from .norms import (
    fused_add_rms_norm,
    fused_add_rms_norm_quant,
    layer_norm,
    layer_norm_quant,
    qk_norm,
    rms_norm,
    rms_norm_quant,
)
from .oracle import (
    Dtypes,
    Float64,
    Reference,
    References,
    allowed_error,
    error_ratio,
    round_to,
)
from .rope import mrope, qk_norm_rope, qk_norm_rope_3d, rope, rope_3d
from .w4a16 import w4a16_gemm, w4a16_pack_weight, w4a16_unpack_weight

__all__ = [
    "REFERENCES",
    "Float64",
    "Reference",
    "allowed_error",
    "error_ratio",
    "references_of",
    "round_to",
]


def _exactly(rule: Callable[..., Any]) -> Callable[..., References]:
    """What a rule gives, with no error allowed but the rounding to a float output's dtype."""

    def reference(*args: Any, **options: Any) -> References:
        found = rule(*args, **options)
        return tuple(map(Reference, found)) if isinstance(found, tuple) else Reference(found)

    return reference


def _gemm_q8_1(fmt: str) -> Callable[..., References]:
    def reference(*args: Any, **options: Any) -> Reference:
        return Reference(*_gguf_linear_reference.gemm_q8_1(fmt, *args, **options))

    return reference


def quant_linear(*args: Any, **options: Any) -> Reference:
    return Reference(*_gguf_linear_reference.quant_linear(*args, **options))


REFERENCES: dict[str, Callable[..., References]] = {
    "gemm": gemm,
    "element_wise_mul_add": element_wise_mul_add,
    "fused_add_gelu": fused_add_gelu,
    "fused_add_gelu_quant": fused_add_gelu_quant,
    "gather_kvcache": gather_kvcache,
    "gelu_and_mul": gelu_and_mul,
    "gelu_and_mul_quant": gelu_and_mul_quant,
    "mrope": mrope,
    "qk_norm_rope": qk_norm_rope,
    "qk_norm_rope_3d": qk_norm_rope_3d,
    "quant_linear": quant_linear,
    "relu2": relu2,
    "relu2_quant": relu2_quant,
    "residual_gate": residual_gate,
    "rope": rope,
    "rope_3d": rope_3d,
    "rope_store_kvcache": rope_store_kvcache,
    "silu_and_mul": silu_and_mul,
    "fused_add_rms_norm": fused_add_rms_norm,
    "fused_add_rms_norm_quant": fused_add_rms_norm_quant,
    "layer_norm": layer_norm,
    "layer_norm_quant": layer_norm_quant,
    "qk_norm": qk_norm,
    "silu_and_mul_quant": silu_and_mul_quant,
    "rms_norm": rms_norm,
    "rms_norm_quant": rms_norm_quant,
    "store_kvcache": store_kvcache,
    "stream_bytes": stream_bytes,
    "w4a16_gemm": w4a16_gemm,
    "w4a16_pack_weight": w4a16_pack_weight,
    "w4a16_unpack_weight": w4a16_unpack_weight,
}
REFERENCES.update(
    (name, _exactly(getattr(_gguf_linear_reference, name)))
    for name in ("pack_weight", "unpack_weight")
)
REFERENCES.update(
    (f"gemm_{fmt}_q8_1", _gemm_q8_1(fmt)) for fmt in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0")
)
REFERENCES.update((name, _exactly(rule)) for name, rule in _gguf_reference.RULES.items())
REFERENCES.update(
    (name, _exactly(getattr(_quantize_rule, name)))
    for name in (
        "quantize_fp8",
        "dequantize_fp8",
        "quantize_int8",
        "dequantize_int8",
        "quantize_nvfp4",
        "dequantize_nvfp4",
        "quantize_mxfp4",
        "dequantize_mxfp4",
        "quantize_mxfp8",
        "dequantize_mxfp8",
    )
)


def references_of(
    name: str, *args: Any, dtypes: Dtypes = None, **options: Any
) -> tuple[Reference, ...]:
    """What a call should give, for each output that is there and each tensor written into. With the
    dtypes of the tensors some references are sharper."""
    reference = REFERENCES[name]
    if dtypes is not None and "dtypes" in inspect.signature(reference).parameters:
        options["dtypes"] = dtypes
    with np.errstate(all="ignore"):
        found = reference(*args, **options)
    found = (found,) if isinstance(found, Reference) else found
    return tuple(reference for reference in found if reference is not None)
