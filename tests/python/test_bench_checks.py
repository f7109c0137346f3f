"""Checks of large calls, at some of their rows, and memory that calls of a row have."""

import math

import numpy as np
import pytest

import ac4k
from ac4k.bench import check as check_module
from ac4k.bench import sample as sample_module
from ac4k.bench.arrays import DTYPES, NumpyArrays, arrays_on
from ac4k.bench.case import arguments_of, case_of, sets_of
from ac4k.bench.check import check
from ac4k.bench.inputs import op_named
from ac4k.bench.runner import sizes_of
from ac4k.bench.sample import sample

# An op, a shape, options and what is compared of it when little may be.
LARGE = [
    ("quant_linear", (40, 577, 256), {"fmt": "q4_0"}, "4 of 40 rows, 193 of 577 N"),
    ("quant_linear", (1, 640, 512), {"fmt": "q4_k"}, "256 of 640 N"),
    ("w4a16_gemm", (33, 576, 256), {"layout": "g128"}, "4 of 33 rows, 256 of 576 N"),
    ("gemm_q4_0_q8_1", (50, 21, 96), {}, "4 of 50 M, 4 of 21 N"),
    ("pack_weight", (577, 256), {"fmt": "q6_k"}, "193 of 577 N"),
    ("w4a16_unpack_weight", (577, 256), {"layout": "g128"}, "193 of 577 N"),
    ("silu_and_mul_quant", (3, 17, 256), {"granularity": "group128"}, "4 of 51 rows"),
    ("fused_add_rms_norm", (99, 128), {}, "4 of 99 rows"),
    ("quantize_fp8", (99, 256), {"granularity": "per_token"}, "4 of 99 rows"),
    ("dequantize", (99, 512), {"fmt": "q6_k", "dtype": "bfloat16"}, "4 of 99 rows"),
]
# Rows depend on each other, or are not what the op goes through.
WHOLE = [
    ("quantize_fp8", (256, 256), {"granularity": "per_tensor"}),
    ("quantize_int8", (256, 256), {"granularity": "block128"}),
    ("quantize_nvfp4", (99, 256), {}),
    ("store_kvcache", (37, 4, 64), {}),
]


@pytest.fixture
def little(monkeypatch):
    """What is large, and what is compared of it, are small here."""
    monkeypatch.setattr(check_module, "_LARGE_BYTES", 0)
    monkeypatch.setattr(sample_module, "_ELEMENTS", 1)


def call_of(name, shape, options, arrays=None):
    case, op = case_of(name), op_named(name)
    arrays = arrays or arrays_on("cpu")
    wide = "f32" if arrays.framework == "numpy" else "bf16"
    dtype = DTYPES["u8" if case.dtypes == ("u8",) else wide]
    sizes = sizes_of(case, shape)
    arguments = arguments_of(op, case, sizes, dtype, arrays, options=options, seed=3)
    return op, case, arguments, arrays, dtype


@pytest.mark.parametrize(("name", "shape", "options", "text"), LARGE)
def test_some_rows_of_a_large_call_are_compared(little, name, shape, options, text):
    found = check(*call_of(name, shape, options))
    assert found.ok, found
    assert found.reference == "NumPy float64"
    assert found.compared == f"{text} (first, last, random); all written, the same twice"


@pytest.mark.parametrize(("name", "shape", "options"), WHOLE)
def test_what_cannot_be_cut_is_compared_whole(little, name, shape, options):
    found = check(*call_of(name, shape, options))
    assert found.ok
    assert found.compared == "everything"


def test_small_calls_are_compared_whole():
    found = check(*call_of("quant_linear", (40, 577, 256), {"fmt": "q4_0"}))
    assert found.ok
    assert found.compared == "everything"


def test_without_torch_rows_are_taken_from_numpy_arrays(little):
    found = check(*call_of("relu2", (3, 17, 64), {}, NumpyArrays()))
    assert found.ok
    assert found.compared.startswith("4 of 51 rows ")


@pytest.mark.parametrize("token", [0, 39])
@pytest.mark.parametrize("row", [0, 63, 576])
def test_a_wrong_number_in_a_row_that_is_compared_is_noticed(little, monkeypatch, token, row):
    real = ac4k.quant_linear

    def wrong(*args, out, **options):
        real(*args, out=out, **options)
        out[token, row] += 10
        return out

    monkeypatch.setattr(ac4k, "quant_linear", wrong)
    assert check(*call_of("quant_linear", (40, 577, 256), {"fmt": "q4_0"})).error > 1


def compared_of(op, case, arguments):
    """Which indices of the result's first axis are compared."""
    (result,) = arguments.outs
    for index in range(len(result)):
        result[index] = index
    part = sample(op, arguments, [result], case.independent)
    return sorted({int(row.flatten()[0]) for row in part.results[0]})


def test_random_rows_are_compared_too(little):
    """Not the first and the last alone."""
    op, case, arguments, _, _ = call_of("pack_weight", (40 * 64, 64), {"fmt": "q4_0"})
    tiles = compared_of(op, case, arguments)
    assert len(tiles) == 4
    assert (tiles[0], tiles[-1]) == (0, 39)
    assert tiles[1:3] not in ([1, 2], [37, 38])


@pytest.mark.parametrize(
    ("name", "shape"), [("quant_linear", (40, 640, 256)), ("pack_weight", (640, 256))]
)
def test_elements_that_are_not_written_are_noticed_anywhere(little, monkeypatch, name, shape):
    """In rows that are not compared with float64, too; bytes as well as floats."""
    op, case, arguments, arrays, dtype = call_of(name, shape, {"fmt": "q4_0"})
    (result,) = arguments.outs
    left_out = next(i for i in range(len(result)) if i not in compared_of(op, case, arguments))
    real = getattr(ac4k, name)

    def forgetful(*args, out, **options):
        before = out.clone()
        real(*args, out=out, **options)
        out[left_out, 3] = before[left_out, 3]
        return out

    assert check(op, case, arguments, arrays, dtype).ok
    monkeypatch.setattr(ac4k, name, forgetful)
    assert check(op, case, arguments, arrays, dtype).error == math.inf


def test_large_arrays_repeat_numbers_but_not_rows():
    for arrays in (NumpyArrays(), arrays_on("cpu")):
        for kind in ("f32", "u8"):
            big = np.asarray(arrays.random((1500, 4096), DTYPES[kind], 1))
            assert len(np.unique(big[:, :64], axis=0)) == 1500
            small = np.asarray(arrays.random((3, 5), DTYPES[kind], 1))
            assert small.shape == (3, 5)
            assert big.std() == pytest.approx(1.0 if kind == "f32" else 74, rel=0.02)


@pytest.mark.parametrize(("name", "at"), [("rope", 1), ("mrope", 1), ("qk_norm_rope", 4)])
@pytest.mark.parametrize("tokens", [1, 64, 96])
def test_calls_of_rope_share_the_table_but_no_row_of_it(name, at, tokens):
    options = dict(case_of(name).variants[0])
    _, case, first, arrays, _ = call_of(name, (tokens, 2, 1, 128), options)
    count = 300
    sets = sets_of(case, first, count, arrays)
    assert len(sets) == count
    assert sets[0] is first
    tables = {id(call.inputs[at + 1]) for call in sets}
    rows = tokens * (3 if name == "mrope" and tokens <= 64 else 1)
    assert len(tables) == math.ceil(((count - 1) * rows + 1) / 32768)
    used = set()
    for call in sets:
        positions = np.unique(np.asarray(call.inputs[at]))
        assert len(positions) == rows
        assert positions.min() >= 0
        assert positions.max() < 32768
        used |= {(id(call.inputs[at + 1]), int(position)) for position in positions}
    assert len(used) >= 0.98 * count * rows
    others = [id(call.inputs[0]) for call in sets]
    assert len(set(others)) == count
    sets[-1].call(getattr(ac4k, name))
    assert not sets[-1].outs[0].isnan().any()
