"""Products, activations, and the streaming kernel."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .oracle import Float64, Reference

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def gemm(A: Float64, B: Float64) -> Reference:
    # K additions, each off by at most eps/2 of a partial sum, which is at most |A| |B|.
    K = A.shape[1]
    return Reference(A @ B, (np.abs(A) @ np.abs(B)) * max(1.0, K / 2))


def element_wise_mul_add(a: Float64, b: Float64, c: Float64) -> Reference:
    return Reference(a * b + c, np.abs(a * b) + np.abs(c))


def fused_add_gelu(x: Float64, bias: Float64, *, approximate: str = "none") -> Reference:
    y = x + bias
    if approximate == "tanh":
        result = 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
    else:
        result = 0.5 * y * _erfc(-y / math.sqrt(2))
    # The sum is rounded before GELU, whose slope is at most 1.13.
    return Reference(result, np.abs(x) + np.abs(bias))


def silu_and_mul(x: Float64) -> Reference:
    a, b = np.split(x, 2, axis=-1)
    # Stable on both sides; -inf * 0 is NaN.
    e = np.exp(-np.abs(a))
    result = a * np.where(a < 0, e, 1.0) / (1 + e) * b
    # exp's argument is rounded, which costs |a| eps in the tail; from -87 on exp(a) is denormal and
    # rounded to float32's last place before a and b multiply it.
    tail = np.clip(-a, 0, 128)
    return Reference(result, np.abs(result) * (1 + tail) + 2.0**-126 * tail * np.abs(b))


def gelu_and_mul(x: Float64, *, approximate: str = "none") -> Reference:
    a, b = np.split(x, 2, axis=-1)
    gelu = fused_add_gelu(a, np.zeros_like(a), approximate=approximate).result
    return Reference(gelu * b, np.abs(a * b))


def relu2(x: Float64) -> Reference:
    result = np.maximum(x, 0) ** 2
    return Reference(result, result)


def residual_gate(x: Float64, y: Float64, gate: Float64) -> Reference:
    return element_wise_mul_add(gate[..., None, :], y, x)


def stream_bytes(src: NDArray[np.uint8], W: int) -> Reference:
    R, W = src.size, int(W)
    if W > R:
        result = np.resize(src, W) if R else np.zeros(W, np.uint8)
    else:
        padded = np.concatenate([src, np.zeros(-R % W if W else 0, np.uint8)])
        result = np.bitwise_xor.reduce(padded.reshape(-1, W), axis=0) if W else padded[:0]
    return Reference(result, np.zeros(W))
