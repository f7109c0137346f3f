"""The generated-call fuzzer, in processes of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

FUZZER = Path(__file__).with_name("fuzz_calls.py")
CALLS = 12000


@pytest.mark.parametrize("seed", [1, 2])
def test_random_calls_raise_or_are_right(seed: int, device: str) -> None:
    command = [sys.executable, str(FUZZER), "--seed", str(seed), "--count", str(CALLS)]
    done = subprocess.run(
        [*command, "--device", device], capture_output=True, text=True, timeout=900
    )
    output = re.sub(r"[\r\n]call \d+(?=[\r\n])", "", done.stdout)  # all but the last
    assert done.returncode == 0, f"{output[-4000:]}\n{done.stderr[-4000:]}"
    assert f"{CALLS} calls, 0 failures" in output
    # Both kinds of ending must really occur, or the fuzzer has gone blind.
    assert int(re.search(r"'result': (\d+)", output)[1]) > CALLS // 4
    assert int(re.search(r"'ValueError': (\d+)", output)[1]) > CALLS // 20
    assert int(re.search(r"'TypeError': (\d+)", output)[1]) > CALLS // 20


def test_the_fuzzer_sees_a_wrong_result() -> None:
    """A kernel that is off by a little, and one that writes past its output, are both found."""
    program = f"""
import runpy, sys, torch, ac4k
right = ac4k.element_wise_mul_add
def wrong(a, b, c, *, out=None):
    result = right(a, b, c, out=out)
    if isinstance(result, torch.Tensor) and result.is_floating_point():
        result *= 1.1
    return result
ac4k.element_wise_mul_add = wrong
sys.argv = ["fuzz_calls.py", "--seed", "1", "--count", "200"]
runpy.run_path({str(FUZZER)!r}, run_name="__main__")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 1
    assert "times the tolerance" in done.stdout
