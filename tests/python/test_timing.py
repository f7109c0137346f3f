"""benchmark_kernel and the statistics behind it."""

import subprocess
import sys
import time

import pytest

import ac4k
from ac4k.timing import Timing, calls_per_sample, cuda_device_of, format_us, quantile


def test_statistics_of_known_samples():
    timing = Timing.from_samples([5.0, 1.0, 2.0, 4.0, 3.0], "cpu")
    assert (timing.min, timing.median, timing.mean) == (1.0, 3.0, 3.0)
    assert timing.p20 == pytest.approx(1.8)
    assert timing.p80 == pytest.approx(4.2)
    assert timing.samples == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert timing.to_dict()["samples"] == 5


def test_quantile_of_one_sample_is_the_sample():
    assert [quantile([7.0], q) for q in (0.0, 0.2, 0.5, 1.0)] == [7.0] * 4


def test_no_samples_is_an_error():
    with pytest.raises(ValueError, match="at least one"):
        Timing.from_samples([], "cpu")


def test_times_what_it_is_given():
    timing = ac4k.benchmark_kernel(time.sleep, 0.002, warmup=1, iters=5)
    assert 2000 <= timing.min <= timing.p20 <= timing.median <= timing.p80
    assert timing.median < 20000
    assert timing.device == "cpu"
    assert len(timing.samples) == 5


def test_arguments_reach_the_function():
    seen = []

    def record(*args, **kwargs):
        seen.append((args, kwargs))

    ac4k.benchmark_kernel(record, 1, 2, warmup=3, iters=4, option="x")
    assert len(seen) >= 7
    assert set(map(repr, seen)) == {repr(((1, 2), {"option": "x"}))}


@pytest.mark.parametrize(("warmup", "iters"), [(0, 0), (-1, 5)])
def test_nonsense_counts_are_refused(warmup, iters):
    with pytest.raises(ValueError, match="iters"):
        ac4k.benchmark_kernel(lambda: None, warmup=warmup, iters=iters)


def test_repr_reads_well():
    text = repr(Timing.from_samples([18.2], "NVIDIA H200", "CUDA graph"))
    assert "18.2 µs median" in text
    assert "NVIDIA H200" in text


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0.217, "217 ns"),
        (1.0, "1.00 µs"),
        (18.24, "18.2 µs"),
        (1396.3, "1.40 ms"),
        (2.5e6, "2.50 s"),
        (999.4, "999 µs"),
        (999.9, "1.00 ms"),
    ],
)
def test_times_are_written_with_three_digits(microseconds, text):
    assert format_us(microseconds) == text


def test_short_calls_are_batched():
    assert calls_per_sample(1.0, 50.0) == 50
    assert calls_per_sample(100.0, 50.0) == 1
    assert calls_per_sample(0.0, 50.0, most=77) == 77


def test_device_of_nested_cpu_arguments():
    torch = pytest.importorskip("torch")
    assert cuda_device_of(((torch.ones(2), [torch.ones(1)]), {"out": torch.ones(3)})) is None


def test_arrays_it_cannot_time_are_refused():
    class OnGpu:
        __cuda_array_interface__ = {"version": 3}  # noqa: RUF012

    with pytest.raises(NotImplementedError, match="OnGpu"):
        ac4k.benchmark_kernel(lambda x: x, OnGpu())


@pytest.mark.gpu
def test_cuda_tensors_are_timed_on_the_device():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    x = torch.ones(1 << 24, device="cuda")
    timing = ac4k.benchmark_kernel(torch.add, x, 1.0, iters=20)
    assert timing.method == "CUDA graph"
    assert 5 < timing.median < 5000


@pytest.mark.gpu
def test_what_cannot_be_captured_is_timed_with_events():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    # In its own process: torch's allocator does not get over a failed capture.
    code = (
        "import ac4k, torch; x = torch.ones(1 << 20, device='cuda');"
        "t = ac4k.benchmark_kernel(lambda x: x.sum().item(), x, iters=5);"
        "assert t.method == 'CUDA events', t; assert t.median > 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
