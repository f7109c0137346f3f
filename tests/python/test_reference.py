"""The references: quantised results have no room but where float32 may round to either side."""

from __future__ import annotations

import numpy as np
import pytest

from ac4k.reference import error_ratio, references_of, round_to

X = np.random.default_rng(5).normal(size=(64, 512))


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("code", ["float8_e4m3fn", "float8_e5m2", "int8"])
@pytest.mark.parametrize("name", ["silu_and_mul_quant", "rms_norm_quant", "layer_norm_quant"])
def test_a_wrong_code_is_seen(name: str, code: str, dtype: str) -> None:
    codes, scales = references_of(name, round_to(dtype, X), dtype=code, dtypes={"x": dtype})
    exact = np.asarray(codes.absolute) == 0
    assert exact.mean() > 0.95  # the others lie next to a tie
    kind = {"float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "int8": "i8"}[code]
    assert error_ratio(kind, 8.0, codes.result, codes) == 0
    wrong = codes.result.copy()
    wrong[tuple(np.argwhere(exact)[0])] += 1
    assert error_ratio(kind, 8.0, wrong, codes) == np.inf
    assert error_ratio("f32", 8.0, scales.result * 1.05, scales) > 1


@pytest.mark.parametrize("kind", ["f8e4m3", "f8e5m2", "bf16"])
def test_a_cache_is_exact_where_its_dtype_is_known(kind: str) -> None:
    tokens = round_to("bf16", X).reshape(64, 4, 128)
    caches = [np.zeros((8, 16, 4, 128)) for _ in range(2)]
    dtypes = {"key": "bf16", "value": "bf16", "k_cache": kind, "v_cache": kind}
    slots = np.arange(64)[::-1]
    for found in references_of("store_kvcache", tokens, tokens, *caches, slots, dtypes=dtypes):
        assert not np.any(found.absolute)
        assert error_ratio(kind, 1.0, found.result, found) == 0
        stored = found.result.reshape(128, 4, 128)[:64][::-1]
        step = {"f8e4m3": 2.0**-4, "f8e5m2": 2.0**-3, "bf16": 0.0}[kind]
        assert np.all(np.abs(stored - tokens) <= step * np.abs(tokens) + 2.0**-10)
