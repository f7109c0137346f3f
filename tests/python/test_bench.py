"""`ac4k bench`: cases, inputs from the op table, checks, engine, JSON."""

import json
import math
import os
import re
import sys
import time
from dataclasses import replace

import pytest

import ac4k
from ac4k._formats import FORMATS, WEIGHT_FORMATS
from ac4k._signature import dim_names, parse_dim, shape_of
from ac4k.bench import case as case_module
from ac4k.bench import llama_cpp
from ac4k.bench.arrays import DTYPES, NumpyArrays, arrays_on, dtype_named
from ac4k.bench.case import Case, Configs, all_cases, case_of, cases_named
from ac4k.bench.check import check, largest_ratio
from ac4k.bench.command import parse_shape
from ac4k.bench.inputs import make_arguments, op_named
from ac4k.bench.overhead import measure_paths
from ac4k.bench.report import print_configs
from ac4k.bench.roofline import stream_sizes
from ac4k.bench.runner import rows_of, run_row
from ac4k.bench.settings import Settings
from ac4k.bench.weights import gguf_blocks, packed_gguf, packed_w4
from ac4k.cli import main

QUICK = Settings(device="cpu", quick=True, peers=("eager",))


class Tiny(Settings):
    """The least that goes every way `--quick` goes: its buffers are 64 MiB, an op and a peer."""

    rotation_bytes = 1 << 20
    budget_s = 0.0
    sample_us = 20.0


TINY = Tiny(device="cpu", quick=True, peers=("eager",))
OP_CASES = [case for case in all_cases().values() if isinstance(case, Case)]


def test_every_op_of_the_table_has_a_case():
    assert {op["name"] for op in ac4k.op_table()} <= set(all_cases())


@pytest.mark.parametrize("case", OP_CASES, ids=lambda case: case.name)
def test_case_shapes_fit_the_op(case):
    op = op_named(case.op)
    for shape in (*case.shapes, *case.cpu_shapes, *case.quick_shapes):
        sizes = case.sizes(shape)
        inputs = [p for p in op["params"] if p["kind"] == "tensor" and not p["optional"]]
        for tensor in inputs + [out for out in op["outputs"] if "if" not in out]:
            for dims in tensor["dims"] if "dims_by" in tensor else [tensor["dims"]]:
                assert math.prod(shape_of(dims, sizes)) > 0
    assert set(case.dtypes) <= set(DTYPES)


@pytest.mark.parametrize("case", OP_CASES, ids=lambda case: case.name)
def test_rows_run_quickly_and_are_complete(case):
    arrays = arrays_on("cpu")
    rows = [row for row in rows_of(case, TINY) if arrays.why_not(row.dtype) is None]
    assert rows
    result = run_row(rows[0], arrays, TINY)
    assert result.check.ok
    assert {"cold", "hot"} == set(result.timings["ac4k"])
    assert result.sets * sum(result.arguments_bytes) >= TINY.rotation_bytes
    block = json.loads(json.dumps(result.to_dict()))
    assert block["timings_us"]["ac4k"]["cold"]["median"] > 0
    if case.op != "stream_bytes":
        assert block["roofline"]["percent"]["cold"] > 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("N", 65),
        ("128", 128),
        ("M/32", 2),
        ("N*2", 130),
        ("ceil(N/64)*4", 8),
        ("rows", 6),
        ("ceil(rows/4)", 2),
    ],
)
def test_dimensions_are_read(text, value):
    assert shape_of([text], {"M": 64, "N": 65, "...": (2, 3)}) == (value,)


def test_unknown_dimension_is_named():
    with pytest.raises(ValueError, match="'K'"):
        shape_of(["K"], {"N": 64})
    with pytest.raises(ValueError, match="2K"):
        parse_dim("2K/")


def test_dim_names_in_order_of_the_signature():
    assert dim_names(op_named("gemm")) == ["M", "K", "N"]


def test_arguments_follow_the_op_table():
    op = op_named("fused_add_gelu")
    sizes = {"...": (2, 3), "N": 5}
    arguments = make_arguments(op, sizes, DTYPES["f32"], arrays_on("cpu"))
    assert [tuple(tensor.shape) for tensor in arguments.inputs] == [(2, 3, 5), (5,)]
    assert tuple(arguments.out.shape) == (2, 3, 5)
    assert (arguments.bytes_read, arguments.bytes_written) == (4 * 35, 4 * 30)
    other = arguments.clone(arrays_on("cpu"))
    assert other.args[0] is not arguments.args[0]


def test_arguments_without_torch_are_numpy():
    op = op_named("gemm")
    arguments = make_arguments(op, {"M": 3, "N": 4, "K": 5}, DTYPES["f64"], NumpyArrays())
    assert type(arguments.out).__module__ == "numpy"
    assert check(op, case_of("gemm"), arguments, NumpyArrays(), DTYPES["f64"]).ok


@pytest.mark.parametrize("text", ["bf16", "bfloat16", "torch.bfloat16", "BF16"])
def test_dtypes_have_several_names(text):
    assert dtype_named(text).name == "bf16"


def test_unknown_dtype_lists_the_known():
    with pytest.raises(ValueError, match="f32"):
        dtype_named("float128")


def test_shapes_are_parsed():
    assert parse_shape("16x128x4096") == parse_shape("16×128X4096") == (16, 128, 4096)
    with pytest.raises(ValueError, match="16x128x4096"):
        parse_shape("16,128")


@pytest.mark.parametrize(
    ("read", "written", "reads"),
    [
        (1000, 1000, 1),
        (3000, 1000, 3),
        (1001, 1000, 1),
        (1500, 1000, 2),
        (5000, 1000, 8),
        (99000, 1000, 8),
        (700, 1000, 1),
        (500, 1000, 1 / 2),
        (505, 1000, 1 / 2),
        (100, 1000, 1 / 4),
    ],
)
def test_stream_keeps_the_traffic(read, written, reads):
    scale = 1 << 10
    stream_read, stream_written = stream_sizes(read * scale, written * scale)
    assert stream_read == reads * stream_written
    assert stream_written % 16 == 0
    assert stream_read + stream_written == pytest.approx((read + written) * scale, rel=0.001)


def test_memory_is_every_memory_bound_op():
    names = {case.name for case in cases_named(["memory", "gemm"])}
    assert {"fused_add_gelu", "element_wise_mul_add", "gemm"} <= names
    assert not {"stream_bytes", "call_overhead"} & names
    with pytest.raises(ValueError, match="known: memory, "):
        cases_named(["nonsense"])


def test_a_wrong_kernel_is_not_timed(monkeypatch, capsys):
    def wrong(a, b, c, *, out):
        out[...] = a * b
        return out

    monkeypatch.setattr(ac4k, "element_wise_mul_add", wrong)
    assert main(["bench", "element_wise_mul_add", "--quick", "--device", "cpu"]) == 1
    assert "WRONG RESULT" in capsys.readouterr().err


def test_an_unwritten_output_is_noticed(monkeypatch):
    op = op_named("element_wise_mul_add")
    monkeypatch.setattr(ac4k, "element_wise_mul_add", lambda a, b, c, *, out: out)
    arrays = arrays_on("cpu")
    arguments = make_arguments(op, {"...": (7,)}, DTYPES["f32"], arrays)
    assert check(op, None, arguments, arrays, DTYPES["f32"]).error == math.inf


def test_sums_that_cancel_are_right_and_a_wrong_one_is_not():
    """As a GPU's product, whose weights are rounded, is compared with the CPU's."""
    torch = pytest.importorskip("torch")
    kind, arrays = DTYPES["bf16"], arrays_on("cpu")
    w = packed_gguf("q4_0", 512, 4096, arrays)
    x = arrays.random((64, 4096), kind, 3)
    dense = ac4k.dequantize(ac4k.unpack_weight(w, 512, 4096, fmt="q4_0"), "q4_0")
    want = (x.double() @ dense.double().T).to(torch.bfloat16)
    got = (x.double() @ dense.to(torch.bfloat16).double().T).to(torch.bfloat16)
    assert largest_ratio(got, want, kind, 4.0, product=True) < 1
    assert largest_ratio(got, want, kind, 4.0, product=False) > 1  # relative to sums that cancel
    rms = want.double().square().mean().sqrt()
    for size in (0.0, 0.5, 1.0):  # of the element that is wrong
        place = (want.double().abs() - size * rms).abs().argmin()
        wrong = want.clone()
        wrong.view(-1)[place] += 0.05 * rms
        assert largest_ratio(wrong, want, kind, 4.0, product=True) > 1
    missing = want.clone()
    missing[3, 5] = math.nan
    assert largest_ratio(missing, want, kind, 4.0, product=True) == math.inf


def test_codes_may_be_a_step_apart() -> None:
    """Steps are those of the numbers: the two zeros of a float are one."""
    torch = pytest.importorskip("torch")
    kind = DTYPES["f8e4m3"]
    want = torch.tensor([0x00, 0x01, 0x81, 0x7E, 0x80], dtype=torch.uint8)
    got = torch.tensor([0x80, 0x00, 0x82, 0x7D, 0x81], dtype=torch.uint8)
    numbers = torch.float8_e4m3fn
    assert largest_ratio(got.view(numbers), want.view(numbers), kind, 4.0, product=False) == 1
    got[1] = 0x83
    assert largest_ratio(got.view(numbers), want.view(numbers), kind, 4.0, product=False) == 4
    assert largest_ratio(want, got, DTYPES["i8"], 4.0, product=False) > 100


@pytest.mark.parametrize("arrays", [NumpyArrays(), arrays_on("cpu")], ids=["numpy", "torch"])
def test_weights_are_like_those_of_a_model(arrays):
    for fmt in WEIGHT_FORMATS:
        values = FORMATS[fmt].block_values
        columns = 160 if values == 32 else 2 * max(values, 64)
        packed = packed_gguf(fmt, 128, columns, arrays)
        blocks = ac4k.unpack_weight(packed, 128, columns, fmt=fmt)
        assert bool((ac4k.pack_weight(blocks, 128, columns, fmt=fmt) == packed).all())
        drawn = gguf_blocks(fmt, tuple(blocks.shape), arrays)
        for each in (blocks, drawn):
            assert float(ac4k.dequantize(each, fmt).std()) == pytest.approx(1.0, rel=0.1)
    for layout in ("g32", "g64", "g128", "g32z", "g64z", "g128z"):
        packed = packed_w4(layout, DTYPES["f16"], 128, 256, arrays)
        groups = 256 // int(layout.strip("gz"))
        q, scales, zeros = ac4k.w4a16_unpack_weight(packed, 128, 256, groups, layout=layout)
        counts = [int((q == code).sum()) for code in range(16)]
        assert min(counts) > 0.8 * 128 * 16  # each code as often as the others
        assert 1.5 < float(scales.max() / scales.min()) <= 2
        assert (float(zeros.min()), float(zeros.max())) == ((0, 15) if "z" in layout else (8, 8))


def test_command_writes_json(tmp_path, capsys):
    target = tmp_path / "sub" / "bench.json"
    command = ["bench", "element_wise_mul_add", "--quick", "--device", "cpu", "--shape", "3x5x7"]
    assert main([*command, "--dtype", "f32,f64", "--json", str(target)]) == 0
    assert "element_wise_mul_add" in capsys.readouterr().out
    report = json.loads(target.read_text())
    assert report["schema"] == "ac4k-bench-1"
    assert [result["dtype"] for result in report["results"]] == ["f32", "f64"]
    assert report["results"][0]["shape"] == [3, 5, 7]
    assert report["environment"]["cpu"]


def test_json_to_stdout_is_only_json(capsys):
    assert main(["bench", "gemm", "--quick", "--device", "cpu", "--dtype", "f32", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["op"] == "gemm"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["gelly"], "known: "),
        (["gelly", "--list"], "known: "),
        (["gemm", "--shape", "3x4"], "MxNxK"),
        (["gemm", "--shape", "3xx"], "sizes such as 16x128x4096, got '3xx'"),
        (["gemm", "--dtype", "f33"], "unknown dtype 'f33'"),
        (["gemm", "--peers", "tensorrt"], "inductor"),
        (["gguf", "--peers", "tinygemm"], "eager, inductor, dense, dequantise, none"),
        (["gemm", "--seconds", "-1"], "--seconds: expected a time such as 0.5, got -1"),
        (["gemm", "--seconds", "nan"], "--seconds: expected a time such as 0.5, got nan"),
    ],
)
def test_mistakes_are_named(capsys, words, text):
    assert main(["bench", "--device", "cpu", *words]) == 2
    assert text in capsys.readouterr().err


def test_without_ml_dtypes_the_rest_is_measured(monkeypatch, capsys):
    """The type of a result may be what NumPy has not."""
    monkeypatch.setattr("ac4k.bench.arrays.has_torch", lambda: False)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    command = ["bench", "relu2_quant", "--quick", "--device", "cpu", "--peers", "none"]
    assert main([*command, "--dtype", "f32", "--shape", "3x128", "--shape", "5x128", "--json"]) == 0
    captured = capsys.readouterr()
    results = json.loads(captured.out)["results"]
    assert [result["options"]["dtype"] for result in results] == ["int8", "int8"]
    skipped = captured.err.splitlines()
    assert len(skipped) == 2  # of two variants, not of each size
    assert all("skipped relu2_quant" in line and "float8_e4m3fn" in line for line in skipped)


# ---- Products with weights, and llama.cpp ----------------------------------------------------


def test_products_are_chosen_by_format_tokens_and_matrix():
    settings = Settings(formats=("q4_0", "q6_k"), tokens=(1, 8), matrices=((70, 256),))
    cases = cases_named(["gguf"])
    rows = [row for case in cases for row in rows_of(case, settings)]
    assert [(row.title, row.shape) for row in rows] == [
        *[(f"quant_linear {fmt}", (n, 70, 256)) for fmt in ("q4_0", "q6_k") for n in (1, 8)],
        *[("gemm_q4_0_q8_1", (70, n, 256)) for n in (1, 8)],
    ]
    every = rows_of(case_of("quant_linear"), Settings(device="cuda"))
    assert len({row.fmt for row in every}) == 14
    assert {row.shape[0] for row in every} == {1, 2, 4, 8, 16, 32, 64, 128, 512, 2048}
    matrices = {row.shape[1:] for row in every}
    assert matrices == {(4096, 4096), (14336, 4096), (4096, 14336), (8192, 28672)}
    # Sizes of the case stay where only one of the two is chosen.
    some = rows_of(case_of("quant_linear"), Settings(device="cuda", tokens=(3,)))
    assert {row.shape for row in some} == {(3, *matrix) for matrix in matrices}
    other = rows_of(case_of("fused_add_gelu"), settings)
    assert other == rows_of(case_of("fused_add_gelu"), Settings())


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--format", "q4_9", "'q4_9' is not one of q4_0"),
        ("--tokens", "1,x", "1,8,512"),
        ("--tokens", "0", "1,8,512"),
        ("--matrix", "4096", "rows and columns such as 4096x14336"),
        ("--matrix", "256x500", "--matrix: .* multiple of 32 for quant_linear q4_0, got 500 in "),
        ("--llama-cpp", "/nowhere/test-backend-ops", "expected a test-backend-ops that runs"),
        ("--llama-cpp", "/bin/true", r"times of MUL_MAT on CPU .* \(exit code 0\), got: nothing"),
    ],
)
def test_mistakes_about_products_are_named(capsys, option, value, text):
    status = 1 if option == "--llama-cpp" else 2  # a program that fails is no wrong command line
    assert main(["bench", "gguf", "--quick", "--device", "cpu", option, value]) == status
    assert re.search(text, capsys.readouterr().err)


# What test-backend-ops prints: with and without the parameters that newer versions added, in the
# colours it gives rates, and what must not be taken for a plain product.
LLAMA_CPP_OUTPUT = """\
Testing 2 devices

Backend 1/2: CUDA0
  Skipping
Backend 2/2: CPU
  Device description: A Processor
  Device memory: 15991 MB (15991 MB free)

  MUL_MAT(type_a=f16,type_b=f32,m=16416,n=1,k=128,bs=[8,1],nr=[4,1],per=[0,2,1,3],k_v=0,o=1): \
              852 runs -  1300.55 us/run - 134.48 MFLOP/run - \x1b[1;34m103.40 GFLOPS\x1b[0m
  MUL_MAT(type_a=f16,type_b=f32,m=128,n=1,k=64,bs=[1,1],nr=[1,1],per=[0,1,2,3],k_v=128,o=1): \
              852 runs -     1.55 us/run -  16.38 kFLOP/run - \x1b[1;34m 10.40 GFLOPS\x1b[0m
  MUL_MAT(type_a=q4_0,type_b=f32,m=70,n=1,k=256,bs=[1,1],nr=[1,1],per=[0,1,2,3],k_v=0,o=1): \
             1704 runs -   611.94 us/run -  35.84 kFLOP/run - \x1b[1;34m  0.06 GFLOPS\x1b[0m
  MUL_MAT(type_a=q4_K,type_b=f32,m=70,n=8,k=256,bs=[1,1],nr=[1,1],per=[0,1,2,3]):   \
               85 runs - 12345.00 us/run - 286.72 kFLOP/run -  23.23 MFLOPS
  MUL_MAT(type_a=q4_K,type_b=f16,m=70,n=8,k=256,bs=[1,1],nr=[1,1],per=[0,1,2,3]):   \
               85 runs -     2.00 us/run - 286.72 kFLOP/run -  23.23 MFLOPS
  MUL_MAT(type_a=nvfp4,type_b=f32,m=70,n=1,k=256,bs=[1,1],nr=[1,1],per=[0,1,2,3]): not supported
  MUL_MAT_ID(type_a=q4_0,type_b=f32,n_mats=4,n_used=2,b=0,m=70,n=1,k=256): 9 runs - 1.00 us/run
  Backend CPU: \x1b[1;32mOK\x1b[0m
2/2 backends passed
"""


def test_times_of_llama_cpp_are_read():
    assert llama_cpp.parse_times(LLAMA_CPP_OUTPUT) == {
        llama_cpp.Product("q4_0", 1, 70, 256): 611.94,
        llama_cpp.Product("q4_k", 8, 70, 256): 12345.0,
    }


def test_llama_cpp_is_a_peer(tmp_path, capsys):
    """A stand-in for its program keeps its arguments and prints a table."""
    program = tmp_path / "test-backend-ops"
    (tmp_path / "table").write_text(LLAMA_CPP_OUTPUT)
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\ncat {tmp_path}/table\n')
    program.chmod(0o755)
    target = tmp_path / "bench.json"
    chosen = ["--format", "q4_0,q4_k", "--tokens", "1", "--matrix", "70x256", "--dtype", "bf16"]
    command = ["bench", "quant_linear", "--quick", "--device", "cpu", *chosen]
    assert main([*command, "--llama-cpp", str(program), "--json", str(target)]) == 0
    asked = (tmp_path / "arguments").read_text().strip()
    assert asked.startswith("perf -o MUL_MAT -b CPU -p ")
    assert re.search(asked.split()[-1], "type_a=q4_K,type_b=f32,m=70,n=1,k=256,bs=[1,1]")
    there, not_there = json.loads(target.read_text())["results"]
    assert there["timings_us"]["llama.cpp"]["hot"]["median"] == 611.94
    ours = there["timings_us"]["ac4k+alloc"]["hot"]["median"]
    assert there["speedup_over"]["llama.cpp"] == {"hot": pytest.approx(611.94 / ours)}
    assert {"dense", "dequantise"} <= set(there["speedup_over"])
    assert "llama.cpp" in not_there["absent"]
    assert "llama.cpp: timed by its own program" in capsys.readouterr().out


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a single core")
def test_llama_cpp_has_as_many_cores_as_we(tmp_path):
    """As after OpenMP has bound this thread to one of them."""
    program = tmp_path / "test-backend-ops"
    (tmp_path / "table").write_text(LLAMA_CPP_OUTPUT)
    cores = tmp_path / "cores"
    program.write_text(
        f"#!/bin/sh\ngrep Cpus_allowed_list /proc/self/status > {cores}\ncat {tmp_path}/table\n"
    )
    program.chmod(0o755)
    before = os.sched_getaffinity(0)
    one = {min(before)}
    try:
        os.sched_setaffinity(0, one)
        llama_cpp.run(str(program), [llama_cpp.Product("q4_0", 1, 70, 256)], "cpu", 2)
        assert os.sched_getaffinity(0) == one
    finally:
        os.sched_setaffinity(0, before)
    assert re.fullmatch(r"\d+[-,]\d+", cores.read_text().split()[1])


def test_list_names_every_case(capsys):
    assert main(["bench", "--list"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in all_cases())


def test_list_names_the_cases_asked_for(capsys):
    assert main(["bench", "--list", "w4a16", "gemm", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"cases": ["w4a16_gemm", "gemm"]}
    assert main(["bench", "memory", "--list"]) == 0
    text = capsys.readouterr().out
    assert "rms_norm" in text
    assert "gemm" not in text


def test_two_cases_of_one_name_are_refused(monkeypatch):
    all_cases.cache_clear()
    monkeypatch.setattr(case_module.Case, "name", "same")
    with pytest.raises(RuntimeError, match="two cases"):
        all_cases()
    all_cases.cache_clear()


def test_overhead_of_paths():
    timings = measure_paths({"a": lambda: None, "b": lambda: sum(range(50))}, QUICK, lambda: None)
    assert 0 < timings["a"].median < timings["b"].median


def test_call_overhead_without_the_peer(capsys):
    pytest.importorskip("torch")
    assert main(["bench", "call_overhead", "--quick", "--device", "cpu", "--peers", "none"]) == 0
    text = capsys.readouterr().out
    assert "ac4k._C" in text
    assert "absent: pybind11 extension" in text


def test_all_configs_are_timed_beside_the_recommended_one(capsys):
    tiny = Tiny(device="cpu", quick=True, peers=("eager",), all_configs=True)
    case = case_of("w4a16_gemm")
    assert [case.name for case in cases_named(["w4a16"])] == ["w4a16_gemm"]
    result = run_row(rows_of(case, tiny)[0], arrays_on("cpu"), tiny)
    assert {"dense", "tinygemm"} <= set(result.peers.present)
    block = json.loads(json.dumps(result.to_dict()))["configs"]
    names = ac4k.W4A16Runner("bfloat16").configs(3, 80, 256)
    assert list(block["cold_us"]) == names
    assert block["recommended"] in names
    assert block["over_the_fastest"] >= 1
    gguf = run_row(rows_of(case_of("quant_linear"), tiny)[0], arrays_on("cpu"), tiny)
    assert list(gguf.to_dict()["configs"]["cold_us"]) == ["auto"]  # all that a CPU has
    print_configs([result, gguf])
    text = capsys.readouterr().out
    assert "quant_linear q4_0" in text
    assert "geometric mean" in text


def test_the_chosen_config_is_held_against_the_fastest(monkeypatch, capsys):
    """As on a GPU, with kernels that take known times by a clock of their own."""
    case = replace(case_of("quant_linear"), configs=lambda *_: Configs(["auto", "slow", "fast"], 0))
    tiny = Tiny(device="cpu", quick=True, peers=(), all_configs=True)
    multiply, called, now = ac4k.quant_linear, [], 0.0

    def pass_time(seconds):
        nonlocal now
        now += seconds
        return now

    def with_config(*args, config=0, **options):
        called.append(config)
        pass_time((0.02, 0.04, 0.01)[config])
        return multiply(*args, **options)

    monkeypatch.setattr(ac4k, "quant_linear", with_config)
    monkeypatch.setattr(time, "perf_counter", lambda: pass_time(1e-6))
    result = run_row(rows_of(case, tiny)[0], arrays_on("cpu"), tiny)
    assert set(called) == {0, 1, 2}
    block = result.to_dict()["configs"]
    assert block["recommended"] == "auto"
    assert block["cold_us"]["fast"] < block["cold_us"]["auto"] < block["cold_us"]["slow"]
    assert block["over_the_fastest"] == pytest.approx(2, rel=1e-3)
    print_configs([result])
    over = f"{block['over_the_fastest']:.3f} times the fastest one's time"
    assert over in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("dense", {"dense"}),
        ("dequantise", {"dequantise"}),
        ("Dense,dequantise", {"dense", "dequantise"}),
        ("eager", {"dense", "dequantise"}),
        ("inductor", set()),
        ("none", set()),
    ],
)
def test_peers_are_chosen_by_name(names, found, tmp_path):
    pytest.importorskip("torch")
    target = tmp_path / "bench.json"
    chosen = ["--format", "q4_0", "--tokens", "1", "--matrix", "64x64", "--peers", names]
    command = ["bench", "quant_linear", "--quick", "--seconds", "0", "--device", "cpu"]
    assert main([*command, *chosen, "--json", str(target)]) == 0
    (row,) = json.loads(target.read_text())["results"]
    assert set(row["speedup_over"]) == found


def test_help_names_what_chooses_products(capsys):
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    words = ("--format", "nvfp4", "--tokens", "--matrix", "--all-configs", "dequantise")
    assert all(word in text for word in words)
