"""A QuantTensor as the weight of a layer."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

import ac4k


def linear_layer(
    fmt: str = "q4_k", dtype: torch.dtype = torch.bfloat16, *, bias: bool = True
) -> tuple[nn.Linear, torch.Tensor]:
    """An nn.Linear with a packed weight, and the numbers of that weight."""
    torch.manual_seed(0)
    blocks = ac4k.quantize(torch.randn(70, 256), fmt)
    layer = nn.Linear(256, 70, bias=bias, dtype=dtype)
    layer.weight = nn.Parameter(ac4k.pack(blocks, fmt), requires_grad=False)
    return layer, ac4k.dequantize(blocks, fmt)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("dtype", "error"), [(torch.float32, 2e-4), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)]
)
def test_linear_layers_multiply_by_it(dtype: torch.dtype, error: float, bias: bool) -> None:
    layer, dense = linear_layer(dtype=dtype, bias=bias)
    x = torch.randn(2, 3, 256, dtype=dtype)
    expected = x.double() @ dense.double().t()
    if bias:
        expected += layer.bias.double()
    result = layer(x)
    assert result.dtype == dtype
    assert torch.equal(result, ac4k.linear(x, layer.weight, layer.bias))
    assert (result - expected).abs().max() < error * expected.abs().max()
    functional = nn.functional.linear(input=x, weight=layer.weight, bias=layer.bias)
    assert torch.equal(functional, result)


def test_linear_layers_follow_autocast() -> None:
    layer, _ = linear_layer(dtype=torch.float32)
    x = torch.randn(3, 256)
    with torch.autocast("cpu", torch.bfloat16):
        result = layer(x)
    assert torch.equal(result, layer.bfloat16()(x.bfloat16()))


def test_linear_layers_take_inputs_of_any_strides() -> None:
    layer, _ = linear_layer()
    x = torch.randn(2, 256, 3, dtype=torch.bfloat16).transpose(1, 2)
    assert torch.equal(layer(x), layer(x.contiguous()))
    bias = torch.randn(70, 2, dtype=torch.bfloat16)[:, 0]
    expected = nn.functional.linear(x, layer.weight, bias.clone())
    assert torch.equal(nn.functional.linear(x, layer.weight, bias), expected)
    with pytest.raises(ValueError, match="expected a contiguous last dim"):
        ac4k.linear(x, layer.weight)


def test_linear_layers_have_shapes_on_meta() -> None:
    layer, x = linear_layer()[0].to("meta"), torch.empty(3, 256, dtype=torch.bfloat16)
    assert layer(x.to("meta")).shape == (3, 70)


def test_linear_layers_travel() -> None:
    layer, _ = linear_layer()
    x = torch.randn(3, 256, dtype=torch.bfloat16)
    expected = layer(x)
    assert torch.equal(copy.deepcopy(layer)(x), expected)
    assert torch.equal(pickle.loads(pickle.dumps(layer))(x), expected)
    target, _ = linear_layer()
    target.weight.raw.zero_()
    target.load_state_dict(layer.state_dict())
    assert torch.equal(target(x), expected)
    empty = linear_layer()[0].to("meta")
    empty.load_state_dict(layer.state_dict(), assign=True)
    assert torch.equal(empty(x), expected)
    layer.to("cpu", torch.float16)
    assert layer(x.half()).dtype == torch.float16


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_linear_layers_compile_whole(backend: str) -> None:
    layer, _ = linear_layer()
    layer.requires_grad_(False)
    model = nn.Sequential(layer, nn.ReLU())
    x = torch.randn(3, 256, dtype=torch.bfloat16)
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(x), model(x))
    torch.testing.assert_close(compiled(x[:2]), model(x[:2]))


def test_linear_refuses_what_it_cannot_multiply() -> None:
    layer, _ = linear_layer()
    x = torch.randn(3, 256, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"linear: argument 'w': expected packed.*ac4k\.pack"):
        nn.functional.linear(x, ac4k.unpack(layer.weight))
    with pytest.raises(NotImplementedError, match="expected a QuantTensor as 'weight' alone"):
        nn.functional.linear(layer.weight, torch.randn(4, 256))
    with pytest.raises(NotImplementedError, match=r"aten\.t.*functional\.linear\(x, weight\)"):
        x @ layer.weight.t()
    with pytest.raises(ValueError, match=r"argument 'x': expected \[\.\.\., 256\]"):
        layer(x[:, :128])
