"""How `ac4k bench` times: buffers, rounds, samples, graphs, the rate of the library's product."""

import contextlib
import itertools
from collections import Counter

import pytest

import ac4k
from ac4k.bench import engine
from ac4k.bench.arrays import DTYPES
from ac4k.bench.engine import Candidate, measure, set_count, turns
from ac4k.bench.roofline import matmul_flops_per_us
from ac4k.bench.settings import Settings

QUICK = Settings(device="cpu", quick=True, peers=("eager",))


def test_enough_buffers_are_rotated():
    assert set_count(100, 1000) == 11
    assert set_count(1000, 1000) == 2
    assert set_count(10**9, 1000) == 2


@pytest.mark.parametrize("count", [1, 2, 3, 9, 40, 41])
def test_rounds_go_in_another_order_each_time(count):
    size = count + count % 2
    rounds = [turns(number, count) for number in range(size)]
    assert all(sorted(each) == list(range(count)) for each in rounds)
    followers = Counter(pair for each in rounds for pair in itertools.pairwise(each))
    assert max(followers.values(), default=0) <= 1 + count % 2  # twice where a place is empty
    for candidate in range(count):
        places = [each.index(candidate) for each in rounds]
        assert max(Counter(places).values()) <= 1 + count % 2
        if count > 8:  # few rounds: early, late and between
            few = [turns(number, count).index(candidate) for number in range(5)]
            assert count / 4 <= sum(few) / 5 <= 3 * count / 4


class Heating:
    """Candidates of a GPU that slows down by what ran before: heat fades from one to the next."""

    heat = 0.0
    is_long = False

    def __init__(self, candidate, settings):
        Heating.heat = 0.0
        self.load = candidate.calls[0]()
        self.us = 0.0

    def start(self):
        self.us = 100 * (1 + 0.3 * Heating.heat)
        Heating.heat = 0.5 * Heating.heat + 0.5 * self.load

    def microseconds(self):
        return self.us


def test_a_kernel_takes_the_same_time_wherever_it_stands(monkeypatch):
    """The same kernel as "auto", behind heavy ones, and by its name, behind light ones."""
    monkeypatch.setattr(engine, "_loop_sampler", Heating)
    loads = [1.0] * 6 + [0.7] + [0.1] * 9 + [0.7] + [0.5] * 3
    candidates = {str(i): Candidate([lambda load=load: load]) for i, load in enumerate(loads)}

    def unlike(rounds):
        timings = measure(candidates, Settings(seconds=100.0 if rounds > 5 else 0.0))
        assert len(timings["6"].samples) == rounds
        return abs(timings["6"].median / timings["16"].median - 1)

    assert unlike(5) < 0.05
    assert unlike(31) < 0.02
    monkeypatch.setattr(engine, "turns", lambda number, count: list(range(count)))
    assert unlike(31) > 0.2


def test_16_bits_are_widened_where_that_is_faster():
    """A CPU without instructions for bfloat16 must not make everything look fast."""
    pytest.importorskip("torch")
    rates = {name: matmul_flops_per_us(DTYPES[name], QUICK) for name in ("f32", "bf16")}
    assert rates["bf16"] >= rates["f32"] > 0


def test_long_samples_are_few(monkeypatch):
    class Sampler(Heating):
        def __init__(self, candidate, settings):
            super().__init__(candidate, settings)
            self.is_long = self.load > 0.5

    monkeypatch.setattr(engine, "_loop_sampler", Sampler)
    loads = {"long": 1.0, "short": 0.1, "other": 0.2}
    candidates = {name: Candidate([lambda load=load: load]) for name, load in loads.items()}
    timings = measure(candidates, QUICK)
    counts = {name: len(timing.samples) for name, timing in timings.items()}
    assert counts == {"long": 3, "short": QUICK.rounds, "other": QUICK.rounds}


def test_every_candidate_is_called_in_every_round():
    order = []
    calls = {name: Candidate([lambda name=name: order.append(name)]) for name in "ab"}
    timings = measure(calls, QUICK)
    assert set(timings) == {"a", "b"}
    assert len(timings["a"].samples) == len(timings["b"].samples) == QUICK.rounds
    runs = [name for name, _ in itertools.groupby(order)]
    assert len(runs) >= QUICK.rounds  # ab ba ab: a round begins where the last one ended


def test_graphs_with_a_stand_in_for_cuda(monkeypatch):
    """The GPU's way through the engine, with graphs that only count."""
    torch = pytest.importorskip("torch")
    captured, replays, dependent = [], [], []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            pass

        def synchronize(self):
            pass

        def elapsed_time(self, other):
            return 1.0  # ms

    class Graph:
        def replay(self):
            replays.append(self)

    class Stream:
        def wait_stream(self, other):
            pass

    for name, stand_in in {
        "CUDAGraph": Graph,
        "Event": Event,
        "Stream": Stream,
        "current_stream": Stream,
        "stream": lambda _: contextlib.nullcontext(),
        "graph": lambda graph: contextlib.nullcontext(captured.append(graph)),
        "get_device_name": lambda: "stand-in",
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    launch_mode = ac4k.dependent_launch
    monkeypatch.setattr(
        ac4k, "dependent_launch", lambda on: dependent.append(on) or launch_mode(on)
    )
    calls = []
    candidates = {
        "cold": Candidate([lambda i=i: calls.append(i) for i in range(5)]),
        "chain": Candidate([lambda: None] * 5, dependent=True),
    }
    timings = measure(candidates, Settings(device="cuda", quick=True))
    assert len(captured) == 2  # 1 ms for 5 calls is long enough: no second capture
    assert set(dependent) == {False, True}
    assert calls[-5:] == [0, 1, 2, 3, 4]
    assert timings["cold"].median == pytest.approx(200.0)
    assert timings["cold"].method == "CUDA graph"
    assert len(replays) == 2 * 2 * (1 + QUICK.rounds)
