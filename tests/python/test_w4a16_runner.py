"""W4A16Runner from Python: configs, tuning, and what it refuses."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from test_w4a16 import NMSE, dense, nmse, random_weight

import ac4k
from ac4k.w4a16_runner import is_on


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    before = ac4k._C.get("cache_dir")
    ac4k.set_cache_dir(str(tmp_path))
    yield tmp_path
    ac4k.set_cache_dir(before)


def test_every_config_multiplies(device: str) -> None:
    runner = ac4k.W4A16Runner(torch.bfloat16, "group", device)
    features = 328  # more than the largest tile has, and the last one in part
    given = random_weight(features, 512, 128)
    packed = ac4k.w4a16_pack(*given).to(device)
    for tokens in (1, 20):
        names = runner.configs(tokens, features, 512)
        assert names[0] == "auto"
        assert len(set(names)) == len(names)
        x = torch.randn(tokens, 512).to(torch.bfloat16)
        expected = x.double() @ dense(*given).T
        for config in (None, *range(len(names)), *names):
            got = runner.gemm(x.to(device), packed, config=config)
            assert nmse(got, expected) < NMSE[torch.bfloat16]
        assert 0 <= runner.best_config(tokens, features, 512, 128) < len(names)
        assert runner.workspace_size(tokens, features, 512) >= 0


def test_tuning_is_kept(cache: Path, device: str) -> None:
    runner = ac4k.W4A16Runner("float16", "group_zeros", device)
    given = random_weight(40, 192, 64, torch.float16, "integer")
    packed = ac4k.w4a16_pack(*given).to(device)
    x = torch.randn(3, 192).half().to(device)
    tuned = runner.tune(x, packed, 0.02)
    assert len(tuned.microseconds) == len(runner.configs(3, 40, 192))
    assert tuned.microseconds[tuned.best] == min(tuned.microseconds)
    assert runner.best_config(3, 40, 192, 64) == tuned.best
    file = cache / "w4a16_tuned.tsv"
    (line,) = file.read_text().splitlines()
    key, name, _ = line.split("\t")
    assert "g64 3x40x192" in key
    assert name == runner.configs(3, 40, 192)[tuned.best]
    # Another process reads it; lines that make no sense do not matter.
    other = runner.configs(3, 40, 192)[-1]
    file.write_text(f"nonsense\n\t\t\n{key}\t{other}\t1.0\n{key}")
    code = (
        f"import ac4k; r = ac4k.W4A16Runner('float16', 'group_zeros', {device!r}); "
        "print(r.best_config(3, 40, 192, 64))"
    )
    environment = os.environ | {"AC4K_CACHE_DIR": str(cache), "PATH": "", "HOME": str(cache)}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert int(ran.stdout) == len(runner.configs(3, 40, 192)) - 1


def test_group_size_of_best_config_has_a_default() -> None:
    for quant, group in (("group", 128), ("group_zeros", 128), ("per_channel", 384)):
        runner = ac4k.W4A16Runner(np.float16, quant)
        assert runner.best_config(3, 40, 384) == runner.best_config(3, 40, 384, group)


def test_modules_with_a_runner_are_copied() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.runner = ac4k.W4A16Runner(torch.bfloat16, "group_zeros", torch.device("cpu"))

    packed = ac4k.w4a16_pack(*random_weight(40, 256, 128, zeros="integer"))
    x = torch.randn(2, 256).to(torch.bfloat16)
    layer = Layer()
    for other in (copy.deepcopy(layer).runner, pickle.loads(pickle.dumps(layer.runner))):
        assert (other.dtype, other.quant, other.device) == ("bfloat16", "group_zeros", "cpu")
        assert torch.equal(other.gemm(x, packed), layer.runner.gemm(x, packed))


def test_compiles_whole() -> None:
    """For any number of tokens at once, so that none is asked for."""
    runner = ac4k.W4A16Runner(torch.bfloat16, "group")
    packed = ac4k.w4a16_pack(*random_weight(40, 256, 128))
    gemm = torch.compile(runner.gemm, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (2, 3, 50):
        x = torch.randn(tokens, 256).to(torch.bfloat16)
        assert torch.equal(gemm(x, packed), ac4k.w4a16_linear(x, packed))
        assert torch.equal(gemm(x, packed, config=1), ac4k.w4a16_linear(x, packed, config=1))

    class Layer(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return runner.gemm(x, packed)

    tokens = torch.export.Dim("tokens", min=2, max=4096)
    exported = torch.export.export(Layer(), (x,), dynamic_shapes=({0: tokens},)).module()
    assert torch.equal(exported(x[:7]), ac4k.w4a16_linear(x[:7], packed))


def test_refusals() -> None:
    with pytest.raises(TypeError, match="W4A16Runner: argument 'dtype': expected float16"):
        ac4k.W4A16Runner("float32")
    with pytest.raises(ValueError, match="argument 'quant': expected per_channel"):
        ac4k.W4A16Runner("float16", "tensor")
    with pytest.raises(ValueError, match="argument 'device': expected cpu"):
        ac4k.W4A16Runner("float16", "group", "tpu")
    runner = ac4k.W4A16Runner("bfloat16", "group")
    given = random_weight(8, 256, 64)
    packed = ac4k.w4a16_pack(*given)
    x = torch.randn(2, 256).to(torch.bfloat16)
    for config in (-1, 99):
        with pytest.raises(ValueError, match="argument 'config'"):
            runner.gemm(x, packed, config=config)
    with pytest.raises(ValueError, match=r"'config': expected one of auto, .* got 'fast'"):
        runner.gemm(x, packed, config="fast")
    with pytest.raises(TypeError, match=r"W4A16Runner\.gemm: argument 'packed': expected a Quant"):
        runner.gemm(x, given[0])
    with pytest.raises(ValueError, match=r"\.gemm: argument 'x': expected \[\.\.\., 256\]"):
        runner.gemm(x[:, :64], packed)
    with pytest.raises(TypeError, match="'packed': expected scales of bfloat16"):
        runner.gemm(x.half(), ac4k.w4a16_pack(*random_weight(8, 256, 64, torch.float16)))
    zeros = ac4k.w4a16_pack(*random_weight(8, 256, 64, zeros="integer"))
    with pytest.raises(ValueError, match="'packed': expected weights quantised group, got"):
        runner.gemm(x, zeros)
    with pytest.raises(ValueError, match="expected weights quantised group_zeros"):
        ac4k.W4A16Runner("bfloat16", "group_zeros").gemm(x, packed)
    with pytest.raises(ValueError, match="expected weights quantised per_channel"):
        ac4k.W4A16Runner("bfloat16", "per_channel").gemm(x, packed)
    with pytest.raises(ValueError, match="'x': expected a tensor on cpu, got one on meta"):
        runner.gemm(x.to("meta"), packed)
    with pytest.raises(ValueError, match="argument 'group_size': expected a divisor of K = 256"):
        runner.best_config(1, 8, 256, 48)
    with pytest.raises(ValueError, match="argument 'M': expected a size"):
        runner.configs(-1, 8, 256)
    for size in (2**70, -(2**63) - 1):
        with pytest.raises(ValueError, match=rf"\.configs: argument 'M': .* 64 bits, got {size}$"):
            runner.configs(size, 8, 256)
        with pytest.raises(
            ValueError, match=r"workspace_size: argument 'K': expected an int of 64"
        ):
            runner.workspace_size(1, 8, size)
        with pytest.raises(ValueError, match=r"best_config: argument 'group_size': .* 64 bits"):
            runner.best_config(1, 8, 256, size)
    with pytest.raises(TypeError, match=r"Runner\.configs: argument 'N': .* an int, got float$"):
        runner.configs(1, 1.5, 256)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"quant_linear_configs: argument 'tokens': .* got float$"):
        ac4k.quant_linear_configs("q4_0", 1.5, 8, 256)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="argument 'seconds'"):
        runner.tune(x, packed, float("nan"))


@pytest.mark.parametrize("number", ["9" * 20, "9" * 5000, "2147483648"])
def test_devices_beyond_all_numbers(number: str) -> None:
    with pytest.raises(ValueError, match=r"argument 'device': expected a number below 2\^31, got"):
        ac4k.W4A16Runner("float16", "group", f"cuda:{number}")


@pytest.mark.parametrize("device", ["cuda:²", "cuda:-1", "cuda:x", "cpu:0x1"])
def test_devices_without_a_number(device: str) -> None:
    with pytest.raises(ValueError, match="argument 'device': expected cpu, cuda or cuda:1, got"):
        ac4k.W4A16Runner("float16", "group", device)


def test_tensors_have_to_be_on_the_runners_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for place, device in (("cpu", "cpu"), ("cpu", "cpu:1"), ("cuda:0", "cuda"), ("cuda:1",) * 2):
        assert is_on(place, device)
    for place, device in (
        ("cuda:0", "cuda:1"),
        ("cuda:1", "cuda:0"),
        ("cuda:1", "cuda"),
        ("cuda:0", "cpu"),
        ("cpu", "cuda:0"),
        ("meta", "cpu"),
        ("<CUDA Device 0>", "cuda"),
    ):
        assert not is_on(place, device)

    class There:
        shape, device = (2, 256), "cuda:1"

    runner = ac4k.W4A16Runner("bfloat16", "group")
    monkeypatch.setattr(runner, "device", "cuda")  # without one there is no runner for it
    packed = ac4k.w4a16_pack(*random_weight(8, 256, 64))
    with pytest.raises(ValueError, match="'x': expected a tensor on cuda:0, got one on cuda:1"):
        runner.gemm(There(), packed)


def test_numpy_and_per_channel() -> None:
    runner = ac4k.W4A16Runner("float16", "per_channel")
    q, scales, _ = random_weight(5, 200, 200, torch.float16)
    packed = ac4k.w4a16_pack(q.numpy(), scales.numpy())
    x = np.ones((2, 200), np.float16)
    got = runner.gemm(x, packed, alpha=0.5)
    assert np.allclose(got, 0.5 * dense(q, scales, None).sum(1).numpy(), rtol=2e-3, atol=2e-2)


def test_pointers_of_another_device(device: str) -> None:
    if device != "cuda":
        pytest.skip("one device")
    given = random_weight(64, 128, 128)
    host, gpu = ac4k.w4a16_pack(*given), ac4k.w4a16_pack(*given).to(device)
    for place, weight, x, expected in (
        ("cpu", gpu, torch.zeros(1, 128, dtype=torch.bfloat16), "the host, got memory of cuda:0"),
        ("cuda", host, torch.zeros(1, 128, dtype=torch.bfloat16), "cuda:0, got memory of the host"),
    ):
        x = x.to(place)
        out = torch.zeros(1, 64, dtype=torch.bfloat16, device=place)
        runner = ac4k.W4A16Runner("bfloat16", "group", place)
        raw = weight.raw
        product = (x.data_ptr(), raw.data_ptr(), raw.nbytes, out.data_ptr(), 1, 64, 128, 128)
        with pytest.raises(ValueError, match=f"argument 'b': expected memory of {expected}"):
            ac4k._C.w4a16_tune(runner._handle, product, 0, 0.0)
