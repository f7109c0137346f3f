"""torch.ops.ac4k and the guard that decides which calls go there."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import ac4k
from ac4k._signature import is_present
from ac4k.bench.arrays import TorchArrays
from ac4k.bench.case import arguments_of, case_of
from ac4k.bench.inputs import Arguments, dtypes_of

OPS = {op["name"]: op for op in ac4k.op_table()}
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def sample_calls(name: str, device: str) -> list[Arguments]:
    """Calls of any op, made from its declaration and its benchmark: two dtypes, each choice."""
    op, case = OPS[name], case_of(name)
    assert case is not None
    arrays = TorchArrays(device)
    options = [case.variants[0]] * 2
    dtypes = [dtypes_of(op)[0], dtypes_of(op)[-1]]
    for param in op["params"]:
        for choice in param.get("choices", ()):
            options.append({**case.variants[0], param["name"]: choice})
            dtypes.append(dtypes_of(op)[0])
    calls = []
    for dtype, chosen in zip(dtypes, options, strict=True):
        made = arguments_of(
            op, case, case.sizes(case.quick_shapes[0]), dtype, arrays, options=chosen
        )
        try:
            made.clone(arrays).call(getattr(ac4k, name))
        except ValueError:  # choices that need another argument
            continue
        except NotImplementedError:
            assert device != "cpu"
            pytest.skip(f"{name} has no kernels for {device}")
        calls.append(made)
    assert len(calls) >= 2
    return calls


def out_keywords(made: Arguments, op: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The outputs as the `.out` overload names them."""
    if len(op["outputs"]) == 1:
        return {"out": made.outs[0]}
    names = [param["name"] for param in op["params"]]
    values = {**dict(zip(names, made.args, strict=False)), **made.options}
    there = [i for i, each in enumerate(op["outputs"]) if is_present(op, each, values)]
    return {f"out{i}": out for i, out in zip(there, made.outs, strict=True)}


def results_of(made: Arguments, result: Any) -> list[torch.Tensor]:
    outputs = [] if result is None else result if isinstance(result, tuple) else [result]
    return [bits(tensor) for tensor in (*outputs, *made.mutable) if tensor.numel()]


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """FP8 has no equality of its own."""
    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor


def assert_same(got: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for one, other in zip(got, expected, strict=True):
        assert torch.equal(one, other)


def opcheck(op: Any, args: tuple[Any, ...], options: dict[str, Any], *, traced: bool) -> None:
    """`traced`: also through AOT dispatch, ten times the time of all others."""
    tests = ["test_autograd_registration", "test_faketensor"]
    given = (*args, *options.values())
    # PyTorch compares inputs before and after with allclose, which it has not for FP8.
    if not any(isinstance(a, torch.Tensor) and a.dtype in FP8 for a in given):
        tests.append("test_schema")
    if traced:
        tests.append("test_aot_dispatch_dynamic")
    torch.library.opcheck(op, args, options, test_utils=tests)


@pytest.mark.parametrize("name", OPS)
def test_opcheck(device: str, name: str) -> None:
    packet = getattr(torch.ops.ac4k, name)
    arrays = TorchArrays(device)
    for number, made in enumerate(sample_calls(name, device)):
        # What AOT dispatch does depends on the op and not on a choice of its options.
        traced = number == 0
        opcheck(packet.default, tuple(made.args), made.options, traced=traced)
        by_torch, by_hand = made.clone(arrays), made.clone(arrays)
        got = results_of(by_torch, packet.default(*by_torch.args, **by_torch.options))
        assert_same(got, results_of(by_hand, by_hand.call(getattr(ac4k, name))))
        if made.outs:
            outs = out_keywords(made, OPS[name])
            opcheck(packet.out, tuple(made.args), {**made.options, **outs}, traced=traced)


@pytest.mark.parametrize("name", OPS)
def test_compile_without_graph_breaks(device: str, name: str) -> None:
    torch.compiler.reset()  # made.call is compiled once an op, and Dynamo counts
    arrays = TorchArrays(device)
    made = sample_calls(name, device)[-1]
    function = getattr(ac4k, name)
    fresh, traced = made.clone(arrays), made.clone(arrays)
    expected = results_of(fresh, function(*fresh.args, **fresh.options))
    compiled = torch.compile(function, fullgraph=True, dynamic=True)
    assert_same(results_of(traced, compiled(*traced.args, **traced.options)), expected)
    if made.outs:
        torch.compile(made.call, fullgraph=True)(function)
        assert_same(results_of(made, made.out), expected)


class Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_dispatch_modes_see_the_op(device: str) -> None:
    x = torch.randn(3, 8, device=device)
    expected = ac4k.fused_add_gelu(x, x[0])
    with Recorder() as recorder:
        bias = x[0]
        result = ac4k.fused_add_gelu(x, bias)
        ac4k.fused_add_gelu(x, bias, out=torch.empty_like(x))
    assert [name for name in recorder.seen if "ac4k" in name] == [
        "ac4k.fused_add_gelu.default",
        "ac4k.fused_add_gelu.out",
    ]
    assert torch.equal(result, expected)


def test_plain_calls_skip_the_dispatcher(device: str) -> None:
    """Also without gradients and in inference mode, where models really run."""
    x = torch.randn(3, 8, device=device)
    calls = []
    route = sys.modules["ac4k._torch_door"].route
    sys.modules["ac4k._torch_door"].route = lambda *a: calls.append(a) or route(*a)
    try:
        ac4k.fused_add_gelu(x, x[0])
        with torch.no_grad():
            ac4k.fused_add_gelu(torch.nn.Parameter(x), x[0])
        with torch.inference_mode():
            ac4k.fused_add_gelu(x * 1, x[0])
        assert not calls
        with Recorder():
            ac4k.fused_add_gelu(x, x[0])
        assert len(calls) == 1
    finally:
        sys.modules["ac4k._torch_door"].route = route


def test_fake_tensors_and_meta(device: str) -> None:
    with FakeTensorMode():
        result = ac4k.gemm(torch.empty(3, 4, device=device), torch.empty(4, 5, device=device))
        assert isinstance(result, FakeTensor)
        assert result.shape == (3, 5)
        with pytest.raises((ValueError, RuntimeError), match="gemm"):
            ac4k.gemm(torch.empty(3, 4), torch.empty(5, 5))
        with pytest.raises(TypeError, match="expected dtype"):
            ac4k.gemm(torch.empty(3, 4), torch.empty(4, 5, dtype=torch.float64))
    meta = ac4k.fused_add_gelu(torch.empty(3, 4, device="meta"), torch.empty(4, device="meta"))
    assert meta.device.type == "meta"
    assert meta.shape == (3, 4)


def message_of(call: Any) -> str:
    with pytest.raises((ValueError, RuntimeError)) as caught:
        call()
    return str(caught.value)


BLOCKS = {"dtype": torch.uint8}


@pytest.mark.parametrize(
    "call",
    [
        lambda zeros: ac4k.quantize(zeros(4, 64), "q4_k"),
        lambda zeros: ac4k.quantize(zeros(4, 64), "q4_k", out=zeros(4, 0, 144, **BLOCKS)),
        lambda zeros: ac4k.quantize_q4_0(zeros(4, 33)),
        lambda zeros: ac4k.gemm_q4_0_q8_1(
            zeros(4, 1, 18, **BLOCKS), zeros(3, 1, 36, **BLOCKS), 4, 3, 33
        ),
        lambda zeros: ac4k.quant_linear(zeros(4, 64), zeros(1, 0, 9216, **BLOCKS), N=8, fmt="q4_k"),
        lambda zeros: ac4k.silu_and_mul(zeros(4, 7)),
        lambda zeros: ac4k.gemm(zeros(4, 64), zeros(63, 2)),
        lambda zeros: ac4k.element_wise_mul_add(zeros(4, 8), zeros(3, 8), zeros(4, 8)),
        lambda zeros: ac4k.quantize(zeros(4, 64), "zz"),
        lambda zeros: ac4k.fused_add_gelu(zeros(4, 8), zeros(8), approximate="zz"),
    ],
)
def test_meta_tensors_are_refused_as_others_are(device: str, call: Any) -> None:
    texts = [
        message_of(lambda place=place: call(lambda *s, **o: torch.zeros(*s, device=place, **o)))
        for place in (device, "meta")
    ]
    assert texts[0] == texts[1]


def test_dtypes_by_name_are_checked() -> None:
    x = torch.zeros(4, 64, device="meta")
    with pytest.raises(
        ValueError, match=r"argument 'dtype': expected one of float8_e4m3fn, .*'zz'"
    ):
        ac4k.quantize_fp8(x, dtype="zz")  # type: ignore[call-overload]
    q, _ = torch.ops.ac4k.quantize_fp8(x, dtype="f8e5m2")  # the op's own name, as in eager calls
    assert q.dtype == torch.float8_e5m2


def test_whole_quotients_are_guards_of_a_graph() -> None:
    """Any number of blocks is one graph; a part of a block is refused."""
    torch.compiler.reset()
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    compiled = torch.compile(
        lambda x: ac4k.quantize(x, "q4_0"), fullgraph=True, dynamic=True, backend=backend
    )
    for columns in (64, 96, 320):
        assert compiled(torch.zeros(5, columns)).shape == (5, columns // 32, 18)
    assert len(graphs) == 1
    assert "expected a whole K/32" in message_of(lambda: compiled(torch.zeros(5, 65)))
    wrong = torch.compile(lambda x: ac4k.quantize(x, "zz"), fullgraph=True)  # type: ignore[arg-type]
    assert "argument 'fmt': expected one of q4_0" in message_of(lambda: wrong(torch.zeros(4, 64)))


def test_tracers_and_transforms(device: str) -> None:
    x, bias = torch.randn(4, 8, device=device), torch.randn(8, device=device)
    expected = ac4k.fused_add_gelu(x, bias)
    graph = make_fx(lambda x: ac4k.fused_add_gelu(x, bias))(x)
    assert "ac4k.fused_add_gelu" in graph.code
    assert torch.equal(
        torch.func.functionalize(lambda x: ac4k.fused_add_gelu(x, bias))(x), expected
    )
    assert torch.equal(torch.vmap(lambda row: ac4k.fused_add_gelu(row, bias))(x), expected)
    traced = torch.jit.trace(lambda x: ac4k.fused_add_gelu(x, bias), (x,))
    assert "ac4k::fused_add_gelu" in str(traced.graph)
    assert torch.equal(traced(x + 1), ac4k.fused_add_gelu(x + 1, bias))


def test_export_with_dynamic_shapes() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return ac4k.gemm(x, w)

    exported = torch.export.export(
        Model(),
        (torch.randn(4, 8), torch.randn(8, 3)),
        dynamic_shapes=({0: torch.export.Dim("n")}, None),
    )
    assert any("ac4k.gemm" in str(node.target) for node in exported.graph.nodes)
    x, w = torch.randn(11, 8), torch.randn(8, 3)
    assert torch.equal(exported.module()(x, w), ac4k.gemm(x, w))


class Tagged(torch.Tensor):
    pass


def test_subclasses_keep_their_type(device: str) -> None:
    x = torch.randn(4, 8, device=device)
    assert type(ac4k.fused_add_gelu(x.as_subclass(Tagged), x[0])) is Tagged


def test_lazily_negated_views(device: str) -> None:
    """The imaginary part of a conjugate is a real tensor whose memory has the other sign."""
    view = torch.randn(3, 5, dtype=torch.complex64, device=device).conj().imag
    assert view.is_neg()
    ones, zeros = torch.ones(3, 5, device=device), torch.zeros(3, 5, device=device)
    assert torch.equal(ac4k.element_wise_mul_add(view, ones, zeros), view.resolve_neg())
    single = view[1, 2]
    one = torch.ones((), device=device)
    assert torch.equal(ac4k.element_wise_mul_add(single, one, one * 0), single.resolve_neg())


@pytest.mark.parametrize(
    "change",
    [
        lambda view: view.unsqueeze(-1),
        lambda view: view.unsqueeze(0).mT,
        lambda view: view[:, :1].squeeze(-1).unsqueeze(-1),
        lambda view: view[1:2, 2:3].reshape(1),
    ],
)
def test_lazily_negated_views_with_dims_of_one(change: Any, device: str) -> None:
    """Whose stride is 1 wherever their elements lie."""
    view = change(torch.randn(3, 5, dtype=torch.complex64, device=device).conj().imag)
    assert view.is_neg()
    x = view.resolve_neg()
    assert torch.equal(ac4k.relu2(view), ac4k.relu2(x))
    with pytest.raises(ValueError, match=r"'out'.*negated"):
        ac4k.relu2(x, out=view)


@pytest.mark.parametrize(
    "make", [lambda: torch.eye(4).to_sparse(), lambda: torch.ones(4, 4).to_mkldnn()]
)
def test_layouts_without_plain_memory_are_refused(make: Any) -> None:
    with pytest.raises((NotImplementedError, RuntimeError)):
        ac4k.gemm(make(), torch.ones(4, 4))


def test_errors_through_the_dispatcher(device: str) -> None:
    with pytest.raises(RuntimeError, match="gemm: argument 'B': expected shape"):
        torch.ops.ac4k.gemm(torch.ones(2, 3, device=device), torch.ones(2, 3, device=device))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.ops.ac4k.gemm(None, x),
        lambda x: torch.ops.ac4k.gemm.out(x, x, out=None),
        lambda x: torch.ops.ac4k.fused_add_gelu(None, x, approximate="tanh"),
    ],
)
def test_what_is_refused_is_not_kept(call: Any) -> None:
    x = torch.ones(2, 2)
    before = x._use_count()
    with pytest.raises(RuntimeError, match="expected a tensor, got None"):
        call(x)
    assert x._use_count() == before


@pytest.mark.parametrize("order", ["import ac4k, torch", "import torch, ac4k"])
def test_import_order_does_not_matter(order: str) -> None:
    program = f"""
{order}
x = torch.eye(3)
print(torch.ops.ac4k.gemm(x, x).sum().item())
print(torch.compile(lambda x: ac4k.gemm(x, x), fullgraph=True, backend="eager")(x).sum().item())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["3.0", "3.0"]


def test_a_build_without_torch_still_has_the_ops() -> None:
    """Without `ac4k._torch` the same schemas get Python kernels over the eager door."""
    program = """
import sys
sys.modules["ac4k._torch"] = None  # as if it had not been built
import torch, ac4k
x = torch.randn(4, 8)
out = torch.empty(4, 8)
torch.ops.ac4k.fused_add_gelu.out(x, x[0], approximate="tanh", out=out)
print(torch.equal(out, ac4k.fused_add_gelu(x, x[0], approximate="tanh")))
rows = torch.vmap(lambda row: ac4k.fused_add_gelu(row, x[0]))(x)
print(torch.equal(rows, ac4k.fused_add_gelu(x, x[0])))
compiled = torch.compile(lambda x: ac4k.gemm(x, x.t()), fullgraph=True, backend="aot_eager")
print(torch.equal(compiled(x), ac4k.gemm(x, x.t())))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["True"] * 3, done.stdout + done.stderr
