"""ac4k.nn against plain PyTorch and against the layers of Transformers they replace."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional

import ac4k
from ac4k.nn import GatedMLP, RMSNorm


class PlainNorm(torch.nn.Module):
    def __init__(self, hidden_size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        root = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * (wide * root).to(x.dtype)


class PlainMLP(torch.nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        hidden, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = torch.nn.Linear(hidden, inner, bias=False)
        self.up_proj = torch.nn.Linear(hidden, inner, bias=False)
        self.down_proj = torch.nn.Linear(inner, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


try:
    import transformers
    from transformers.models.qwen3 import modeling_qwen3 as modeling
except ImportError:  # the same layers, written down again
    transformers = None
    modeling = SimpleNamespace(Qwen3RMSNorm=PlainNorm, Qwen3MLP=PlainMLP)

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@pytest.fixture(autouse=True)
def no_autograd() -> Iterator[None]:
    with torch.no_grad():
        yield


def random(*shape: int, dtype: torch.dtype, device: str, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype).to(device)


def config(**changes: Any) -> Any:
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 176,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "vocab_size": 199,
        "max_position_embeddings": 256,
    }
    make = SimpleNamespace if transformers is None else transformers.Qwen3Config
    return make(**{**sizes, **changes})


def test_import_brings_no_torch() -> None:
    program = "import ac4k, ac4k.nn, sys; print('torch' in sys.modules, dir(ac4k.nn))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.startswith("False")
    assert "GatedMLP" in done.stdout


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm_is_transformers(device: str, dtype: torch.dtype) -> None:
    """Rounded at the same two places: at most one unit in the last place, and rarely."""
    theirs = modeling.Qwen3RMSNorm(320, eps=1e-5).to(device, dtype)
    theirs.weight.copy_(random(320, dtype=dtype, device=device))
    ours = RMSNorm(320, eps=1e-5).to(device, dtype)
    ours.load_state_dict(theirs.state_dict())
    assert ours.variance_epsilon == theirs.variance_epsilon
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x = random(5, 7, 320, dtype=dtype, device=device, seed=2) * 3
    plain = RMSNorm(320, 1e-5, use_custom_kernels=False).to(device, dtype)
    plain.load_state_dict(theirs.state_dict())
    expected = theirs(x)
    assert torch.equal(plain(x), expected)
    result = ours(x)
    torch.testing.assert_close(result, expected, rtol=2 * torch.finfo(dtype).eps, atol=1e-6)
    if dtype != torch.float32:
        assert (result != expected).float().mean() < 0.01
    strided = x.transpose(0, 1)
    torch.testing.assert_close(ours(strided), result.transpose(0, 1), rtol=0, atol=0)
    columns = random(320, 5, dtype=dtype, device=device, seed=3).t()
    torch.testing.assert_close(ours(columns), ours(columns.contiguous()), rtol=0, atol=0)


def mlps(
    device: str, dtype: torch.dtype, hidden: int = 64, inner: int = 176
) -> tuple[Any, GatedMLP, GatedMLP]:
    torch.manual_seed(3)
    theirs = modeling.Qwen3MLP(config(hidden_size=hidden, intermediate_size=inner))
    theirs = theirs.to(device, dtype)
    made = []
    for kernels in (True, False):
        mlp = GatedMLP(hidden, inner, use_custom_kernels=kernels).to(device, dtype)
        mlp.load_state_dict(theirs.state_dict())
        made.append(mlp)
    return theirs, made[0], made[1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 64), (2, 9, 64), (64,), (0, 64), (3, 1, 64)])
def test_gated_mlp(device: str, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    theirs, ours, plain = mlps(device, dtype)
    x = random(*shape, dtype=dtype, device=device, seed=4)
    # Sums of 176 products with weights below 1/13, of numbers off by one rounding each (two of
    # Transformers'), in another order.
    close = {"rtol": 4 * torch.finfo(dtype).eps, "atol": 4 * torch.finfo(dtype).eps}
    torch.testing.assert_close(ours(x), plain(x), **close)
    torch.testing.assert_close(ours(x), theirs(x), **close)
    assert ours(x).dtype == dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernel_and_fallback_round_once(device: str, dtype: torch.dtype) -> None:
    """The same arithmetic: what differs is exp's last bits, within the op's tolerance of 8 eps of
    float32; 16-bit results hide it, but for a rare unit."""
    x = random(64, 512, dtype=dtype, device=device) * 3
    gate, up = x.float().chunk(2, -1)
    plain = (functional.silu(gate) * up).to(dtype)
    kernel = ac4k.silu_and_mul(x)
    torch.testing.assert_close(kernel, plain, rtol=8 * torch.finfo(dtype).eps, atol=1e-7)
    if dtype != torch.float32:
        assert (kernel != plain).float().mean() < 0.01


def is_joined(mlp: GatedMLP) -> bool:
    return mlp._joined_weight() is not None


def test_weights_stay_joined_and_apart(device: str) -> None:
    theirs, mlp, _ = mlps(device, torch.float32)
    assert list(mlp.state_dict()) == list(theirs.state_dict())
    assert [name for name, _ in mlp.named_parameters()] == list(theirs.state_dict())
    assert is_joined(mlp)
    for change in (mlp.half, mlp.bfloat16, mlp.float, lambda: mlp.to(device)):
        change()
        assert is_joined(mlp)
    mlp.load_state_dict(theirs.state_dict(), assign=True)
    assert is_joined(mlp)
    x = random(3, 64, dtype=torch.float32, device=device)
    expected = mlp(x)
    torch.testing.assert_close(expected, theirs(x))
    # Moved apart by something that knows nothing of it.
    for other in (copy.deepcopy(mlp), pickle.loads(pickle.dumps(mlp))):
        torch.testing.assert_close(other(x), expected)
        other.join_weights()
        assert is_joined(other)
        torch.testing.assert_close(other(x), expected)
    mlp.gate_proj.weight.data = mlp.gate_proj.weight.data.clone()
    assert not is_joined(mlp)
    torch.testing.assert_close(mlp(x), expected)
    # Writing into one changes nothing in the other, and both change the result.
    mlp.join_weights()
    up = mlp.up_proj.weight.clone()
    mlp.gate_proj.weight.zero_()
    assert torch.equal(mlp.up_proj.weight, up)
    assert not mlp(x).any()


def test_layers_that_are_no_longer_plain(device: str) -> None:
    theirs, mlp, _ = mlps(device, torch.float32)
    mlp.up_proj = torch.nn.Sequential(mlp.up_proj)  # type: ignore[assignment]
    x = random(3, 64, dtype=torch.float32, device=device)
    torch.testing.assert_close(mlp(x), theirs(x))


def test_packed_weights_stay_apart() -> None:
    mlp = GatedMLP(256, 128).bfloat16()
    x = random(3, 256, dtype=torch.bfloat16, device="cpu")
    for layer in (mlp.gate_proj, mlp.up_proj, mlp.down_proj):
        packed = ac4k.w4a16_pack(*ac4k.w4a16_quantize(layer.weight))
        layer.weight = torch.nn.Parameter(packed, requires_grad=False)
    expected = mlp(x)
    mlp.to("cpu", torch.bfloat16).load_state_dict(mlp.state_dict())
    assert torch.equal(mlp(x), expected)


def test_meta_device() -> None:
    with torch.device("meta"):
        mlp = GatedMLP(16, 32)
        norm = RMSNorm(16)
    assert norm(mlp(torch.empty(2, 16, device="meta"))).shape == (2, 16)
    mlp = mlp.to_empty(device="cpu")
    assert is_joined(mlp)


def test_autograd_takes_the_plain_way(device: str) -> None:
    theirs, mlp, _ = mlps(device, torch.float32)
    norm = RMSNorm(64).to(device)
    x = random(3, 64, dtype=torch.float32, device=device)
    with torch.enable_grad():
        mlp(norm(x)).sum().backward()
        expected = modeling.Qwen3RMSNorm(64).to(device)
        theirs(expected(x)).sum().backward()
    torch.testing.assert_close(mlp.gate_proj.weight.grad, theirs.gate_proj.weight.grad)
    torch.testing.assert_close(norm.weight.grad, expected.weight.grad)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # torch's own, in jvp
@pytest.mark.parametrize("layer", [RMSNorm(8), GatedMLP(8, 16)])
def test_forward_mode_takes_the_plain_way(device: str, layer: torch.nn.Module) -> None:
    layer = layer.to(device).requires_grad_(False)
    x, direction = random(2, 3, 8, dtype=torch.float32, device=device)
    _, tangent = torch.func.jvp(layer, (x,), (direction,))
    step = 1e-2
    expected = (layer(x + step * direction) - layer(x - step * direction)) / (2 * step)
    torch.testing.assert_close(tangent, expected, rtol=1e-2, atol=1e-3)


def test_hooks_on_the_layers_are_called(device: str) -> None:
    """As calibration and pruning put them there; the numbers stay the same."""
    theirs, mlp, _ = mlps(device, torch.float32)
    x = random(3, 64, dtype=torch.float32, device=device)
    seen = []
    hooks = [
        mlp.gate_proj.register_forward_pre_hook(lambda layer, given: seen.append(given[0])),
        mlp.up_proj.register_forward_hook(lambda layer, given, result: seen.append(result)),
    ]
    torch.testing.assert_close(mlp(x), theirs(x))
    assert len(seen) == 2
    assert torch.equal(seen[0], x)
    torch.testing.assert_close(seen[1], theirs.up_proj(x))
    for hook in hooks:
        hook.remove()
    mlp(x)
    assert len(seen) == 2
    mlp.up_proj.forward = lambda x: torch.zeros_like(theirs.up_proj(x))  # as accelerate does
    assert not mlp(x).any()


def test_other_dtypes(device: str) -> None:
    theirs, mlp, _ = mlps(device, torch.float64)
    x = random(3, 64, dtype=torch.float64, device=device)
    torch.testing.assert_close(mlp(x), theirs(x))
    mixed = RMSNorm(64).to(device)  # float32 weight, bfloat16 input
    y = random(3, 64, dtype=torch.bfloat16, device=device)
    assert torch.equal(mixed(y), modeling.Qwen3RMSNorm(64).to(device)(y))


def test_compile(device: str) -> None:
    _, mlp, _ = mlps(device, torch.bfloat16)
    norm = RMSNorm(64).to(device, torch.bfloat16)
    x = random(3, 64, dtype=torch.bfloat16, device=device)

    def both(x: torch.Tensor) -> torch.Tensor:
        return mlp(norm(x))

    result = torch.compile(both, fullgraph=True, backend="aot_eager")(x)
    torch.testing.assert_close(result, both(x), rtol=0.02, atol=0.02)


def swap(model: Any, use_custom_kernels: bool) -> int:
    """Puts our modules where theirs are; returns how many."""
    count = 0
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            new: torch.nn.Module
            if isinstance(child, modeling.Qwen3RMSNorm):
                new = RMSNorm(child.weight.shape[0], child.variance_epsilon, use_custom_kernels)
            elif isinstance(child, modeling.Qwen3MLP):
                new = GatedMLP(child.hidden_size, child.intermediate_size, use_custom_kernels)
            else:
                continue
            new.to(child.state_dict()[next(iter(child.state_dict()))])
            new.load_state_dict(child.state_dict())
            setattr(parent, name, new)
            count += 1
    return count


@pytest.mark.skipif(transformers is None, reason="needs transformers")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kernels", [True, False])
def test_qwen3_with_our_modules(device: str, dtype: torch.dtype, kernels: bool) -> None:
    torch.manual_seed(0)
    model = transformers.Qwen3ForCausalLM(config()).to(device, dtype).eval()
    for parameter in model.parameters():  # norms other than 1
        if parameter.dim() == 1:
            parameter.copy_(1 + 0.2 * torch.randn(parameter.shape))
    ids = torch.randint(0, 199, (2, 33), generator=torch.Generator().manual_seed(1)).to(device)
    expected = model(ids).logits.float()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    # Two norms and two of the attention a layer, one at the end; an MLP a layer.
    assert swap(model, kernels) == 3 * (2 + 2 + 1) + 1
    assert {n: v.shape for n, v in model.state_dict().items()} == {
        n: v.shape for n, v in state.items()
    }
    model.load_state_dict(state)
    result = model(ids).logits.float()
    error = (result - expected).norm() / expected.norm()
    # Noise of the dtype through three layers: float32 reorders sums, bfloat16 drops a rounding of
    # every gate.
    assert error < (2e-6 if dtype == torch.float32 else 2e-2)
    torch.testing.assert_close(
        result.softmax(-1),
        expected.softmax(-1),
        rtol=1e-4 if dtype == torch.float32 else 0.1,
        atol=1e-6 if dtype == torch.float32 else 1e-3,
    )
