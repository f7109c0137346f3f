"""Threads: fewer than were asked for, and those that are not there in a child of fork."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_WORK = """
import os, signal, torch, ac4k
w = ac4k.pack(ac4k.quantize(torch.randn(2048, 2048), "q4_0"), "q4_0")
x = torch.linspace(-1, 1, 64 * 2048).view(64, 2048)
def results():
    return [*(ac4k.linear(x[:n], w) for n in (3, 64)), ac4k.silu_and_mul(x), ac4k.rms_norm(x)]
def same(a, b):
    return all(torch.equal(*pair) for pair in zip(a, b, strict=True))
"""


def run(code: str, **environment: str) -> None:
    command = [sys.executable, "-c", _WORK + code]
    done = subprocess.run(command, timeout=100, check=False, env=os.environ | environment)
    assert done.returncode == 0


@pytest.mark.parametrize(
    "limits",
    [
        {"OMP_NUM_THREADS": "2", "OMP_THREAD_LIMIT": "1"},
        {"OMP_NUM_THREADS": "2", "OMP_DYNAMIC": "true"},
        {"OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "3"},
    ],
)
def test_openmp_gives_fewer_threads_than_were_asked_for(limits: dict[str, str]) -> None:
    code = """
ac4k.set_num_threads(1)
expected = results()
for count in (0, 2, 5):
    ac4k.set_num_threads(count)
    assert same(results(), expected), count
"""
    run(code, **limits)


@pytest.mark.parametrize("whose", ["expected = results()", "torch.sin(x.repeat(9, 1))"])
def test_a_forked_child_has_threads(whose: str) -> None:
    """Although those of its parent, whoever made them, are not there; its parent keeps on."""
    code = f"""
ac4k.set_num_threads(2)
torch.set_num_threads(2)
{whose}
child = os.fork()
if child == 0:
    signal.alarm(60)
    ours = results()
    threads = len(os.listdir("/proc/self/task"))
    ac4k.set_num_threads(1)
    os._exit(0 if same(ours, results()) and threads == 2 else 1)
status = os.waitpid(child, 0)[1]
assert os.waitstatus_to_exitcode(status) == 0, status
ours = results()
ac4k.set_num_threads(1)
assert same(ours, results())
"""
    run(code)
