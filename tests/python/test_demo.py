"""`ac4k demo` walks the whole op table and fails when an op is wrong."""

import json
import sys

import pytest

import ac4k
from ac4k import demo
from ac4k.bench.arrays import DTYPES, arrays_on
from ac4k.bench.case import case_of
from ac4k.bench.inputs import dtypes_of, make_arguments, op_named
from ac4k.bench.settings import Settings
from ac4k.cli import main


class Tiny(Settings):
    budget_s = 0.0
    sample_us = 20.0


@pytest.fixture
def small_only(monkeypatch):
    """Real sizes take seconds, and so do true timings; the walk is the same."""
    sizes = demo.demo_sizes
    monkeypatch.setattr(demo, "demo_sizes", lambda op, _size, device: sizes(op, "small", device))
    monkeypatch.setattr(demo, "devices", lambda: ["cpu"])
    monkeypatch.setattr(demo, "Settings", Tiny)


@pytest.fixture
def few_ops(small_only, monkeypatch):
    """What does not depend on the op is seen with three of them."""
    names = ("gemm", "relu2", "quantize_fp8")
    table = [op for op in ac4k.op_table() if op["name"] in names]
    monkeypatch.setattr(ac4k, "op_table", lambda: table)


def test_every_op_is_shown(small_only, capsys):
    assert main(["demo"]) == 0
    text = capsys.readouterr().out
    assert all(op["name"] in text for op in ac4k.op_table())
    assert "all within tolerance" in text


def test_json(few_ops, capsys):
    assert main(["demo", "--json"]) == 0
    trials = json.loads(capsys.readouterr().out)["trials"]
    assert {trial["op"] for trial in trials} == {op["name"] for op in ac4k.op_table()}
    assert all(trial["ok"] for trial in trials)
    assert {trial["size"] for trial in trials} == {"small", "real"}


def test_without_torch(small_only, monkeypatch, capsys):
    monkeypatch.setattr("ac4k.bench.arrays.has_torch", lambda: False)
    assert main(["demo", "--json"]) == 0
    trials = json.loads(capsys.readouterr().out)["trials"]
    assert all(trial["over_torch"] is None for trial in trials)


def test_without_ml_dtypes_the_rest_is_shown(few_ops, monkeypatch, capsys):
    monkeypatch.setattr("ac4k.bench.arrays.has_torch", lambda: False)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert main(["demo", "--json"]) == 0
    captured = capsys.readouterr()
    block = json.loads(captured.out)
    assert {trial["op"] for trial in block["trials"]} == {"gemm", "relu2"}
    assert list(block["skipped"]) == ["quantize_fp8"]
    assert "skipped quantize_fp8: NumPy has float8_e4m3fn from the package" in captured.err


def test_the_type_of_a_row_is_that_of_the_call(monkeypatch):
    """A case may fix the result's dtype, which the demo varies."""
    arrays = arrays_on("cpu")
    op = op_named("dequantize_int8")
    for dtype in dtypes_of(op):
        options = demo.demo_options(op, dtype, arrays)
        sizes, _ = demo.demo_sizes(op, "small", "cpu")
        arguments = make_arguments(op, sizes, dtype, arrays, options=options)
        assert dtype.torch in str(arguments.out.dtype)


def test_an_op_with_another_type_is_shown_in_that(monkeypatch):
    monkeypatch.setattr("ac4k.bench.arrays.has_torch", lambda: False)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    options = demo.demo_options(op_named("relu2_quant"), DTYPES["f32"], arrays_on("cpu"))
    assert options is not None
    assert options["dtype"] == "int8"


def test_a_wrong_op_fails(few_ops, monkeypatch, capsys):
    def wrong(a, b, *, out=None):
        out = a @ b if out is None else out
        out[...] = 0
        return out

    monkeypatch.setattr(ac4k, "gemm", wrong)
    assert main(["demo"]) == 1
    captured = capsys.readouterr()
    assert "FAILED" in captured.out
    assert "gemm" in captured.err


def test_an_op_that_raises_fails(few_ops, monkeypatch, capsys):
    def broken(*_args, **_kwargs):
        raise NotImplementedError("no kernel for this CPU")

    monkeypatch.setattr(ac4k, "gemm", broken)
    assert main(["demo"]) == 1
    assert "no kernel for this CPU" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["small", "real"])
@pytest.mark.parametrize("op", ac4k.op_table(), ids=lambda op: op["name"])
def test_an_op_without_a_case_gets_sizes_too(op, size, monkeypatch):
    monkeypatch.setattr(demo, "case_of", lambda _name: None)
    monkeypatch.setattr(demo, "_REAL", 64)
    sizes, _ = demo.demo_sizes(op, size, "cpu")
    arrays = arrays_on("cpu")
    try:
        arguments = make_arguments(op, sizes, dtypes_of(op)[0], arrays)
        arguments.call(getattr(ac4k, op["name"]))
    except (TypeError, ValueError):
        # Arguments that depend on each other, or a format of blocks, are what a case gives; any
        # other op must do without.
        formats = any(param["name"] == "fmt" for param in op["params"])
        case = case_of(op["name"])
        assert formats or (case.given or case.weights) is not None


def test_sizes_respect_divisors(monkeypatch):
    monkeypatch.setattr(demo, "case_of", lambda _name: None)
    op = {
        "name": "q",
        "params": [{"name": "w", "kind": "tensor", "dims": ["N", "K/32"]}],
        "outputs": [{"dims": ["N", "K"]}],
    }
    sizes, _ = demo.demo_sizes(op, "small", "cpu")
    assert sizes["K"] % 32 == 0
