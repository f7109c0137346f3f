"""The generated-call fuzzer, in processes of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

FUZZER = Path(__file__).with_name("fuzz_calls.py")
CALLS = 8000


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


WRONG = {
    "is off by a little": ("result *= 1.1", "times the tolerance"),
    "writes past its output": (
        "result.as_strided((1,), (1,), result.storage_offset() + result.numel()).fill_(3)",
        "wrote outside the output",
    ),
    "writes before it checks": ("pass", "wrote before it failed"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_the_fuzzer_sees_a_kernel_that(kind: str) -> None:
    damage, report = WRONG[kind]
    before = kind == "writes before it checks"
    program = f"""
import runpy, sys, torch, ac4k
right = ac4k.element_wise_mul_add
def wrong(a, b, c, *, out=None):
    if {before} and isinstance(out, torch.Tensor) and out.device.type == "cpu":
        out.fill_(3)
    result = right(a, b, c, out=out)
    if not {before} and isinstance(result, torch.Tensor) and out is not None:
        {damage}
    return result
ac4k.element_wise_mul_add = wrong
sys.argv = ["fuzz_calls.py", "--seed", "1", "--count", "2000"]
runpy.run_path({str(FUZZER)!r}, run_name="__main__")
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    assert report in done.stdout
