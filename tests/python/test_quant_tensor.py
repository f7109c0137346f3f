"""QuantTensor: what it accepts, and that torch handles it like a tensor of its own."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import ac4k
from ac4k._formats import FORMATS, STORED_FORMATS
from ac4k.quant_tensor import packed_bytes, raw_shape

QuantTensor = ac4k.QuantTensor


def random_bytes(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def quantized(
    fmt: str = "q4_0", shape: tuple[int, ...] = (5, 96), layout: str = "gguf"
) -> QuantTensor:
    if layout == "gguf":
        data = random_bytes(raw_shape(fmt, shape))
    else:
        data = random_bytes((*shape[:-2], packed_bytes(fmt, *shape[-2:])))
    return QuantTensor(torch.from_numpy(data), fmt, shape, layout)


class Layer(nn.Module):
    def __init__(self, weight: QuantTensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.register_buffer("other", copy.deepcopy(weight))
        self.scale = nn.Parameter(torch.ones(3))


# ---- Without torch --------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", [*FORMATS, *STORED_FORMATS])
def test_numpy_is_wrapped_without_a_copy(fmt: str) -> None:
    data = random_bytes(raw_shape(fmt, (3, 512)))
    weight = QuantTensor(data, fmt, (3, 512))
    assert weight.raw is data
    assert (weight.format, weight.shape, weight.block_layout) == (fmt, (3, 512), "gguf")
    assert (weight.ndim, len(weight), weight.nbytes) == (2, 3, data.nbytes)
    flat = QuantTensor(data.reshape(3, -1), fmt, (3, 512))
    assert flat.raw.shape == data.shape
    assert np.shares_memory(flat.raw, data)


def test_numpy_works_where_torch_is_not_installed() -> None:
    program = """
import sys
sys.modules["torch"] = None
import ac4k, copy, numpy as np, pickle
weight = ac4k.QuantTensor(np.zeros((5, 2, 18), np.uint8), "q4_0", (5, 64))
print(weight, weight[1:3], pickle.loads(pickle.dumps(weight)), copy.deepcopy(weight))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    one, some = "QuantTensor(q4_0, shape=(5, 64))", "QuantTensor(q4_0, shape=(2, 64))"
    assert done.stdout.strip() == f"{one} {some} {one} {one}", done.stderr


def test_numpy_goes_to_torch() -> None:
    data = random_bytes((5, 2, 18))
    weight = QuantTensor(data, "q4_0", (5, 64)).to("cpu")
    assert isinstance(weight, torch.Tensor)
    assert weight.raw.data_ptr() == data.ctypes.data


@pytest.mark.parametrize("layout", ["gguf", "packed"])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_leading_dims_can_be_indexed(layout: str, kind: str) -> None:
    experts: Any = quantized("q4_0", (4, 70, 96), layout)
    if kind == "numpy":
        experts = QuantTensor(experts.raw.numpy(), "q4_0", experts.shape, layout)
    one = experts[2]
    assert isinstance(one, QuantTensor)
    assert tuple(one.shape) == (70, 96)
    assert bytes(np.asarray(one.raw)) == bytes(np.asarray(experts.raw[2]))
    assert bytes(np.asarray(experts[-1].raw)) == bytes(np.asarray(experts.raw[3]))
    some = experts[1:4:2]
    assert tuple(some.shape) == (2, 70, 96)
    assert bytes(np.asarray(some.raw)) == bytes(np.asarray(experts.raw[[1, 3]]))
    if layout == "gguf":
        rows = experts[:, 10:20]
        assert tuple(rows.shape) == (4, 10, 96)
        assert bytes(np.asarray(rows.raw)) == bytes(np.asarray(experts.raw[:, 10:20]))
        assert tuple(experts[1, 3].shape) == (96,)
    with pytest.raises(IndexError, match=r"first [012] dims"):
        experts[:, :, 32:] if layout == "gguf" else experts[:, 3:]
    assert bytes(np.asarray(experts[np.int64(2)].raw)) == bytes(np.asarray(one.raw))


def test_rows_can_be_split() -> None:
    weight: Any = quantized("q4_0", (10, 96))
    for parts in (weight.chunk(3), weight.split(4), torch.split(weight, [4, 4, 2])):
        assert [part.shape for part in parts] == [(4, 96), (4, 96), (2, 96)]
        assert torch.equal(parts[1].raw, weight.raw[4:8])
        assert parts[1].raw.data_ptr() == weight.raw[4:].data_ptr()
    assert [part.shape for part in weight[:0].split(3)] == [(0, 96)]
    with pytest.raises(RuntimeError, match="sum exactly to 10"):
        weight.split([3, 3])
    with pytest.raises(IndexError, match="first 1 dims, got one into dim 1"):
        weight.chunk(3, dim=-1)


@pytest.mark.parametrize("index", [True, 1.5, np.array([1]), "1"])
def test_other_indices_are_refused(index: Any) -> None:
    experts = QuantTensor(random_bytes((4, 5, 2, 18)), "q4_0", (4, 5, 64))
    with pytest.raises(TypeError, match=r"q4_0, shape=\(4, 5, 64\)\): expected an int or a slice"):
        experts[index]


def test_numpy_makes_no_array_of_it() -> None:
    blocks = QuantTensor(random_bytes((5, 2, 18)), "q4_0", (5, 64))
    packed = QuantTensor(random_bytes((2304,)), "q4_0", (5, 64), "packed")
    for weight in (blocks, packed):
        for operation in (np.asarray, np.sum, lambda w: np.ones((2, 5)) @ w):
            with pytest.raises(NotImplementedError, match=r"q4_0.*NumPy.*\.raw.*dequantize"):
                operation(weight)
    assert [each.shape for each in blocks] == [(64,)] * 5
    with pytest.raises(IndexError, match="first 0 dims"):
        list(packed)


def test_shapes_can_be_of_any_rank_or_empty() -> None:
    assert QuantTensor(random_bytes((2, 18)), "q4_0", (64,)).shape == (64,)
    assert QuantTensor(random_bytes((2, 3, 4, 1, 34)), "q8_0", (2, 3, 4, 32)).ndim == 4
    assert QuantTensor(random_bytes((0, 2, 18)), "q4_0", (0, 64)).nbytes == 0
    assert quantized("q6_k", (0, 256)).shape == (0, 256)


def test_packed_data_may_have_any_dims_of_the_right_size() -> None:
    size = packed_bytes("q4_k", 65, 512)
    assert size == 128 * 2 * 144
    weight = QuantTensor(random_bytes((2, 2, size // 4)), "q4_k", (65, 512), "packed")
    assert repr(weight) == "QuantTensor(q4_k, shape=(65, 512), packed)"
    assert packed_bytes("nvfp4", 64, 64) == 64 * 36
    assert packed_bytes("q4_0", 64, 96) == 64 * 4 * 18


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((random_bytes((5, 2, 18)), "q9_9", (5, 64)), ValueError, "'fmt'.*q4_0.*'q9_9'"),
        ((random_bytes((5, 2, 18)), None, (5, 64)), ValueError, "'fmt'.*q4_0.*got None"),
        ((random_bytes((5, 2, 18)), "q4_0", 5), TypeError, "'shape'.*integers, got 5"),
        ((random_bytes((5, 2, 18)), "q4_0", (5, 64.0)), TypeError, "'shape'.*integers, got"),
        ((random_bytes((5, 2, 18)), "q4_0", (5, 65)), ValueError, "'shape'.*multiple of 32"),
        ((random_bytes((5, 2, 18)), "q4_0", ()), ValueError, "'shape'.*multiple of 32"),
        ((random_bytes((5, 2, 18)), "q4_0", (-5, 64)), ValueError, "'shape'.*>= 0"),
        ((random_bytes((5, 2, 18)), "q4_0", (4, 64)), ValueError, r"\(4, 2, 18\).*\(5, 2, 18\)"),
        ((random_bytes((5, 2, 18)), "q4_1", (5, 64)), ValueError, r"\(5, 2, 20\).*\(5, 2, 18\)"),
        ((np.zeros((5, 2, 18)), "q4_0", (5, 64)), TypeError, "'data'.*uint8.*float64"),
        (([1, 2], "q4_0", (5, 64)), TypeError, "'data'.*uint8.*list"),
        ((random_bytes((5, 4, 18))[:, ::2], "q4_0", (5, 64)), ValueError, "contiguous"),
        ((random_bytes((5, 2, 18)), "q4_0", (5, 64), "tiled"), ValueError, "'layout'.*'tiled'"),
        ((random_bytes((180,)), "q4_0", (5, 64), "packed"), ValueError, "2304 bytes"),
        ((random_bytes((2304,)), "q4_0", (64,), "packed"), ValueError, r"\[..., N, K\]"),
        ((torch.zeros(5, 2, 18), "q4_0", (5, 64)), TypeError, "uint8.*float32"),
        ((torch.zeros(5, 3, 18, dtype=torch.uint8), "q4_0", (5, 64)), ValueError, "expected shape"),
    ],
)
def test_what_does_not_fit_is_named(
    arguments: tuple[Any, ...], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=f"QuantTensor: argument .*{text}"):
        QuantTensor(*arguments)


@pytest.mark.parametrize("kind", ["numpy", "torch", "packed"])
def test_dequantize(kind: str) -> None:
    values = np.random.default_rng(0).normal(size=(70, 96)).astype(np.float32)
    blocks = ac4k.quantize(values, "q8_0")
    expected = ac4k.dequantize(blocks, "q8_0")
    weight = QuantTensor(blocks, "q8_0", (70, 96))
    if kind == "torch":
        weight = weight.to("cpu")
        assert weight.dequantize(torch.bfloat16).dtype == torch.bfloat16
    elif kind == "packed":
        weight = ac4k.pack(weight)
    result = weight.dequantize()
    assert isinstance(result, torch.Tensor) == (kind == "torch")
    assert np.array_equal(np.asarray(result), expected)
    with pytest.raises(NotImplementedError, match=r"iq1_s.*expected one of q4_0"):
        quantized("iq1_s", (1, 256)).dequantize()


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("shape", [(3, 70, 96), (2, 2, 64, 64), (0, 70, 96), (3, 0, 96)])
def test_stacked_packed_weights_are_dequantized(shape: tuple[int, ...], kind: str) -> None:
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    blocks = ac4k.quantize(values, "q8_0")
    packed = [ac4k.pack(blocks[i], "q8_0").raw.reshape(-1) for i in np.ndindex(shape[:-2])]
    raw = np.concatenate([np.zeros(0, np.uint8), *packed])
    experts = QuantTensor(
        raw.reshape(*shape[:-2], packed_bytes("q8_0", *shape[-2:])), "q8_0", shape, "packed"
    )
    if kind == "torch":
        experts = experts.to("cpu")
    assert np.array_equal(np.asarray(ac4k.unpack(experts).raw), blocks)
    assert np.array_equal(np.asarray(experts.dequantize()), ac4k.dequantize(blocks, "q8_0"))


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_ops_ask_for_its_bytes(kind: str) -> None:
    weight = QuantTensor(random_bytes((5, 2, 18)), "q4_0", (5, 64))
    if kind == "torch":
        weight = weight.to("cpu")
    with pytest.raises((TypeError, NotImplementedError), match=r"argument 'q': .*`\.raw`"):
        ac4k.dequantize(weight, "q4_0")


# ---- As a torch tensor ----------------------------------------------------------------------


def test_a_torch_tensor_with_the_logical_shape() -> None:
    data = torch.from_numpy(random_bytes((5, 3, 18)))
    weight = QuantTensor(data, "q4_0", (5, 96))
    assert isinstance(weight, torch.Tensor)
    assert isinstance(weight, QuantTensor)
    assert weight.shape == (5, 96)
    assert (weight.dtype, weight.device, weight.requires_grad) == (torch.uint8, data.device, False)
    assert weight.raw is data
    assert weight.nbytes == data.nbytes
    assert repr(weight) == "QuantTensor(q4_0, shape=(5, 96), device='cpu')"
    assert type(weight)(data, "q4_0", (5, 96)).raw is data
    assert torch.equal(weight, weight.clone())
    assert not torch.equal(weight, quantized("q4_1", (5, 96)))
    assert not weight.is_pinned()


def test_a_parameter_stays_what_it_is() -> None:
    layer = Layer(quantized())
    assert isinstance(layer.weight, nn.Parameter)
    assert isinstance(layer.weight, QuantTensor)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "scale"]
    with pytest.raises(RuntimeError, match="floating point"):
        nn.Parameter(quantized())


@pytest.mark.parametrize("layout", ["gguf", "packed"])
def test_modules_move_it_and_never_cast_it(layout: str) -> None:
    layer = Layer(quantized("q4_k", (5, 256), layout))
    before = layer.weight.raw.clone()
    layer.half()
    assert layer.scale.dtype == torch.float16
    assert torch.equal(layer.weight.raw, before)
    layer.to(torch.bfloat16).to("cpu", torch.float32)
    assert isinstance(layer.weight, nn.Parameter)
    assert torch.equal(layer.weight.raw, before)
    layer.to("meta")
    assert isinstance(layer.weight, QuantTensor)
    assert (layer.weight.device.type, layer.weight.raw.device.type) == ("meta", "meta")
    assert layer.other.raw.is_meta
    layer.to_empty(device="cpu")
    assert layer.weight.raw.shape == before.shape
    assert (layer.weight.format, layer.weight.block_layout) == ("q4_k", layout)


def test_dtypes_are_refused() -> None:
    with pytest.raises(TypeError, match=r"q4_0, shape=\(5, 96\).*device.*float16.*dequantize"):
        quantized().to(torch.float16)


def test_state_dicts_carry_it_both_ways() -> None:
    source, target = Layer(quantized()), Layer(quantized("q4_0", (5, 96)))
    target.weight.raw.zero_()
    state = source.state_dict()
    assert isinstance(state["weight"], QuantTensor)
    target.load_state_dict(state)
    assert torch.equal(target.weight.raw, source.weight.raw)
    assert target.weight.raw.data_ptr() != source.weight.raw.data_ptr()
    empty = Layer(quantized()).to("meta")
    empty.load_state_dict(source.state_dict(), assign=True)
    assert empty.weight.raw.data_ptr() == source.weight.raw.data_ptr()
    with pytest.raises(RuntimeError, match=r"expected two alike.*q4_1.*q4_0"):
        Layer(quantized("q4_1")).load_state_dict(state)
    with pytest.raises(RuntimeError, match="size mismatch"):
        Layer(quantized("q4_0", (6, 96))).load_state_dict(state)


def test_torch_save_and_load() -> None:
    layer = Layer(quantized())
    layer.alias = layer.weight[1:]
    buffer = io.BytesIO()
    torch.save(
        {"state": layer.state_dict(), "parameter": layer.weight, "rows": layer.alias}, buffer
    )
    buffer.seek(0)
    loaded = torch.load(buffer)  # weights_only
    assert torch.equal(loaded["state"]["weight"].raw, layer.weight.raw)
    assert isinstance(loaded["parameter"], nn.Parameter)
    assert not isinstance(loaded["rows"], nn.Parameter)
    # Storages that were shared stay shared.
    assert loaded["rows"].raw.data_ptr() == loaded["parameter"].raw.data_ptr() + 3 * 18
    buffer.seek(0)
    mapped = torch.load(buffer, map_location="meta")
    assert mapped["parameter"].device.type == "meta"


def test_torch_load_in_a_process_that_only_imports_both(tmp_path: Path) -> None:
    path = tmp_path / "weight.pt"
    torch.save(quantized(), path)
    program = f"import ac4k, torch; print(torch.load({str(path)!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.startswith("QuantTensor(q4_0"), done.stderr


def test_safetensors_files_hold_what_a_state_dict_is(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    layer = Layer(quantized("q4_k", (5, 256), "packed"))
    path = tmp_path / "layer.safetensors"
    with pytest.raises(NotImplementedError, match=r"`\.raw`"):
        safetensors.save_file(layer.state_dict(), path)
    tensors, metadata = ac4k.flatten_state_dict(layer.state_dict())
    safetensors.save_file(tensors, path, metadata)
    with safetensors.safe_open(path, "pt") as file:
        loaded = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        state = ac4k.unflatten_state_dict(loaded, file.metadata())
    target = Layer(quantized("q4_k", (5, 256), "packed"))
    target.weight.raw.zero_()
    target.load_state_dict(state)
    for name, tensor in layer.state_dict().items():
        assert torch.equal(target.state_dict()[name], tensor)
    assert ac4k.unflatten_state_dict(tensors, None) == tensors
    for text in ("{", "3", '{"weight": 3}', '{"weight": ["q4_k"]}', '{"weight": ["q4_0", [5], 1]}'):
        with pytest.raises(ValueError, match="unflatten_state_dict: argument 'metadata': expected"):
            ac4k.unflatten_state_dict(tensors, {"ac4k.quant_tensors": text})


def test_state_dicts_come_back_in_parts() -> None:
    state = {"a": quantized(), "b": torch.ones(2), "c": quantized("q8_0")}
    tensors, metadata = ac4k.flatten_state_dict(state)
    shards = [{"a": tensors["a"], "b": tensors["b"]}, {"c": tensors["c"]}]
    found = [ac4k.unflatten_state_dict(shard, metadata) for shard in shards]
    assert [list(each) for each in found] == [["a", "b"], ["c"]]
    for name, tensor in {**found[0], **found[1]}.items():
        assert torch.equal(tensor, state[name])
        assert type(tensor) is type(state[name])


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (torch.zeros(3), r"\['q4_0', .*\]: QuantTensor: argument 'data': expected a uint8 tensor"),
        (torch.zeros(3, dtype=torch.uint8), r"\['q4_0', .*\]: QuantTensor: .* expected shape"),
    ],
)
def test_state_dicts_name_the_tensor_that_does_not_fit(data: torch.Tensor, text: str) -> None:
    tensors, metadata = ac4k.flatten_state_dict({"a": quantized("q8_0"), "layer.b": quantized()})
    with pytest.raises(ValueError, match=f"'metadata': expected .* tensor 'layer.b', got {text}"):
        ac4k.unflatten_state_dict({**tensors, "layer.b": data}, metadata)
    with pytest.raises(ValueError, match=r"tensor 'layer\.b', got 3: "):
        ac4k.unflatten_state_dict(tensors, {"ac4k.quant_tensors": '{"layer.b": 3}'})


def test_copies_are_deep() -> None:
    layer = Layer(quantized())
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert isinstance(other.weight, nn.Parameter)
        assert isinstance(other.weight, QuantTensor)
        assert torch.equal(other.weight.raw, layer.weight.raw)
        assert other.weight.raw.data_ptr() != layer.weight.raw.data_ptr()
    shallow = copy.copy(layer.weight)
    assert shallow.raw.data_ptr() == layer.weight.raw.data_ptr()


def test_arithmetic_is_refused_by_name() -> None:
    for operation in (
        lambda w: w + 1,
        lambda w: w @ w,
        lambda w: w.view(96, 5),
        lambda w: torch.zeros(96, 5, dtype=torch.uint8) @ w,
        lambda w: ac4k.relu2(w),
    ):
        with pytest.raises(NotImplementedError, match=r"QuantTensor \(q4_0.*not supported"):
            operation(quantized())
    with pytest.raises(TypeError, match="expected two alike"):
        quantized().copy_(torch.zeros(5, 96, dtype=torch.uint8))


# ---- The memory behind a torch tensor --------------------------------------------------------


def test_sharing_memory_shares_the_bytes() -> None:
    weight = quantized()
    assert not weight.is_shared()
    assert weight.share_memory_() is weight
    assert weight.is_shared()
    assert weight.raw.is_shared()
    layer = Layer(quantized())
    layer.share_memory()
    assert isinstance(layer.weight, nn.Parameter)
    assert layer.weight.is_shared()
    assert layer.other.is_shared()
    # Who gets it, as a worker would, sees what is written afterwards.
    other = ForkingPickler.loads(ForkingPickler.dumps(layer.weight))
    layer.weight.raw.fill_(7)
    assert other.raw.unique().tolist() == [7]


@pytest.mark.parametrize(
    "operation",
    [
        torch.from_dlpack,
        np.from_dlpack,
        np.asarray,
        lambda w: w.cpu().numpy(),
        lambda w: w.tolist(),
        lambda w: w.storage(),
        lambda w: w.data_ptr(),
        lambda w: w.apply_(lambda value: value),
        lambda w: torch.cat([w, w]),
        lambda w: torch._foreach_add([w], [w]),
        lambda w: torch.add(torch.zeros(5, 96), 1, out=w),
    ],
)
def test_elements_that_are_nowhere_are_refused(operation: Any) -> None:
    for weight in (quantized(), nn.Parameter(quantized(), requires_grad=False)):
        with pytest.raises(NotImplementedError, match=r"q4_0.*not supported.*`\.raw`"):
            operation(weight)


def test_c_code_gets_no_null_pointer() -> None:
    weight = quantized()
    with pytest.raises(RuntimeError, match="data pointer"):
        torch.utils.dlpack.to_dlpack(weight)
    assert not hasattr(type(weight), "__dlpack_c_exchange_api__")
    assert weight.untyped_storage().share_memory_().nbytes() == 0
    assert torch.empty(3, dtype=torch.uint8).set_(weight.untyped_storage()).numel() == 0


def test_data_is_replaced_as_a_whole() -> None:
    layer = Layer(quantized())
    source = layer.weight.clone()
    assert layer.weight.data.raw.data_ptr() == layer.weight.raw.data_ptr()
    layer.weight.data = source
    assert layer.weight.raw.data_ptr() == source.raw.data_ptr()
    assert isinstance(layer.weight, nn.Parameter)
    for other in (torch.zeros(5, 96, dtype=torch.uint8), quantized("q4_1", (5, 96))):
        with pytest.raises(TypeError, match="data: expected two alike"):
            layer.weight.data = other


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_torch_compile_sees_bytes_and_format(backend: str) -> None:
    def first_scales(x: torch.Tensor, weight: Any) -> torch.Tensor:
        assert weight.format == "q4_0"
        scales = weight.raw[..., :2].contiguous().view(torch.float16)
        return x[:, None, None] * scales * weight.shape[1]

    compiled = torch.compile(first_scales, fullgraph=True, backend=backend)
    weight = nn.Parameter(
        QuantTensor(torch.full((5, 3, 18), 7, dtype=torch.uint8), "q4_0", (5, 96)),
        requires_grad=False,
    )
    x = torch.randn(5)
    torch.testing.assert_close(compiled(x, weight), first_scales(x, weight))
    module = Layer(weight.clone())
    by_module = torch.compile(
        lambda x: first_scales(x, module.weight), fullgraph=True, backend=backend
    )
    torch.testing.assert_close(by_module(x), first_scales(x, weight))


def test_compiled_code_is_kept_for_a_format() -> None:
    """Torch's cache on disk takes it without a warning, and tells formats of one size apart."""
    program = """
import warnings, torch, ac4k
warnings.simplefilter("error", UserWarning)
blocks = ac4k.pack(ac4k.quantize(torch.randn(64, 96), "q4_0"), "q4_0").raw
x = torch.randn(3, 96)
for fmt in ("q4_0", "iq4_nl"):
    torch._dynamo.reset()
    weight = ac4k.QuantTensor(blocks, fmt, (64, 96), "packed")
    result = torch.compile(torch.nn.functional.linear, fullgraph=True)(x, weight)
    assert torch.equal(result, ac4k.linear(x, weight))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "function",
    [
        lambda x, blocks: ac4k.linear(x + 1, ac4k.pack(blocks, "q8_0")) + 1,
        lambda x, blocks: x @ QuantTensor(blocks.clone(), "q8_0", (70, 96)).dequantize().t(),
    ],
)
def test_making_one_breaks_a_graph(function: Any) -> None:
    x, blocks = torch.randn(3, 96), ac4k.quantize(torch.randn(70, 96), "q8_0")
    compiled = torch.compile(function, backend="aot_eager")
    torch.testing.assert_close(compiled(x, blocks), function(x, blocks))


def test_an_import_brings_neither_torch_nor_numpy() -> None:
    program = "import ac4k, sys; ac4k.QuantTensor; print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.stdout.strip() == "set()", done.stderr
