"""The driver layer on a real GPU: streams, graphs, threads, dependent launches, large sizes."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

import ac4k

gelu = torch.nn.functional.gelu


def op_calls() -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    x, w = torch.randn(48, 64, device="cuda"), torch.randn(64, 32, device="cuda")
    return [
        ("gemm", (x, w), {}),
        ("fused_add_gelu", (x.bfloat16(), x[0].bfloat16()), {}),
        ("fused_add_gelu", (x, x[0]), {"approximate": "tanh"}),
        ("element_wise_mul_add", (x, x, x), {}),
        ("stream_bytes", (torch.arange(96, dtype=torch.uint8, device="cuda"), 32), {}),
    ]


def test_back_end_is_the_gpu() -> None:
    assert ac4k.get_backend() == "cuda"
    major, minor = torch.cuda.get_device_capability()
    assert ac4k.get_arch().startswith(f"sm{major}{minor}")
    device = ac4k.info()["cuda"]["devices"][0]
    assert device["sms"] == torch.cuda.get_device_properties(0).multi_processor_count


@pytest.mark.parametrize("index", range(5))
def test_gpu_agrees_with_cpu(index: int) -> None:
    name, args, options = op_calls()[index]
    function = getattr(ac4k, name)
    on_gpu = function(*args, **options)
    on_cpu = function(*(a.cpu() if isinstance(a, torch.Tensor) else a for a in args), **options)
    if on_gpu.dtype == torch.bfloat16:  # both within half an ulp and a little: one ulp apart
        torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=2.0**-7, atol=1e-5)
    elif on_gpu.is_floating_point():  # gemm: K / 2 = 32 roundings of sums up to about 60
        torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=1e-5, atol=2.5e-4)
    else:
        assert torch.equal(on_gpu.cpu(), on_cpu)


@pytest.mark.parametrize("index", range(5))
@pytest.mark.parametrize("door", ["eager", "torch"])
def test_graph_capture_and_replay(index: int, door: str) -> None:
    name, args, options = op_calls()[index]
    function = getattr(ac4k, name) if door == "eager" else getattr(torch.ops.ac4k, name)
    function(*args, **options)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = function(*args, **options)
    for tensor in args:
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
            tensor.mul_(0.5)
    captured.fill_(0)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, function(*args, **options))


def test_current_stream_is_used() -> None:
    """Work on a side stream must come after what was enqueued there before it."""
    x = torch.zeros(1 << 22, device="cuda")
    ones = torch.ones_like(x)
    for door in (ac4k.element_wise_mul_add, torch.ops.ac4k.element_wise_mul_add):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            x.fill_(2.0)
            result = door(x, x, ones)
        side.synchronize()
        assert bool((result == 5.0).all())
        x.zero_()
        torch.cuda.synchronize()


def test_many_threads_and_streams() -> None:
    failures: list[str] = []

    def work(index: int) -> None:
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                x = torch.full((1000, 130), float(index), device="cuda")
                for _ in range(50):
                    y = ac4k.element_wise_mul_add(x, x, x)
                    z = ac4k.gemm(y[:32], y[:32].t())
            stream.synchronize()
            value = float(index * index + index)
            if not bool((y == value).all()) or not bool((z == value * value * 130).all()):
                failures.append(f"thread {index}")
        except Exception as error:
            failures.append(f"thread {index}: {error}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dependent_launches_keep_their_order(dtype: torch.dtype) -> None:
    """A chain in which each op reads what the one before it wrote, and overwrites what the one
    before that read."""
    x = torch.randn(257, 4096, device="cuda").to(dtype)
    bias = torch.randn(4096, device="cuda").to(dtype)

    def chain(buffers: list[torch.Tensor]) -> torch.Tensor:
        for i in range(40):
            source, target = buffers[i % 2], buffers[(i + 1) % 2]
            if i % 3 == 0:
                ac4k.fused_add_gelu(source, bias, out=target)
            elif i % 3 == 1:
                ac4k.element_wise_mul_add(source, source, source, out=target)
            else:
                ac4k.element_wise_mul_add(source, bias.expand_as(source), source, out=target)
            target.clamp_(-4, 4) if i % 5 == 4 else None
        return buffers[0]

    expected = chain([x.clone(), torch.empty_like(x)]).clone()
    with ac4k.dependent_launch():
        for _ in range(5):
            assert torch.equal(chain([x.clone(), torch.empty_like(x)]), expected)
        buffers = [x.clone(), torch.empty_like(x)]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = chain(buffers)
        for _ in range(5):
            buffers[0].copy_(x)
            graph.replay()
            assert torch.equal(result, expected)


def test_mixed_devices_are_refused() -> None:
    with pytest.raises(
        ValueError, match="argument 'B': expected a tensor on cuda:0, as 'A' is, got one on cpu"
    ):
        ac4k.gemm(torch.ones(2, 2, device="cuda"), torch.ones(2, 2))
    with pytest.raises(ValueError, match="argument 'out': expected a tensor on cuda:0"):
        ac4k.gemm(
            torch.ones(2, 2, device="cuda"), torch.ones(2, 2, device="cuda"), out=torch.ones(2, 2)
        )


def test_more_than_2_to_the_31_elements() -> None:
    count = 2**31 + 4099
    x = torch.ones(count, dtype=torch.bfloat16, device="cuda")
    x[-5:] = 3
    y = ac4k.element_wise_mul_add(x, x, x)
    assert y[-6:].tolist() == [2.0] + [12.0] * 5
    assert bool((y[:-5] == 2).all())
    bias = torch.zeros(1, dtype=torch.bfloat16, device="cuda")
    rows = ac4k.fused_add_gelu(x[:, None], bias)
    assert rows[-1].item() == pytest.approx(3.0, abs=0.02)
    strided = ac4k.element_wise_mul_add(x[1:], x[1:], x[:-1])
    assert strided[-1].item() == 12.0


def test_out_of_memory_is_an_exception() -> None:
    huge = torch.ones(1, device="cuda").expand(2**40)
    with pytest.raises((MemoryError, RuntimeError), match="memory"):
        ac4k.element_wise_mul_add(huge, huge, huge)
    assert ac4k.gemm(torch.eye(2, device="cuda"), torch.eye(2, device="cuda")).trace() == 2


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_second_device() -> None:
    x = torch.randn(8, 8, device="cuda:1")
    assert ac4k.gemm(x, x).device == x.device
