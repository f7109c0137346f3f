"""Runs the project's gates one after another, then prints a table of times and outcomes.

`python tools/check.py` runs all of them, `python tools/check.py ruff pytest` some. Later gates run
even when an earlier one failed, so one run shows everything that is wrong.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sources import CPP, ROOT, sources

BIN = Path(sys.executable).parent
DEV = ROOT / "build/dev"
ASAN = ROOT / "build/asan"
JOBS = str(os.cpu_count() or 2)


class SkippedError(Exception):
    """The gate cannot run here; the text says why."""


class FailedError(Exception):
    """The gate found something; the text is a summary."""


def run(*command: str | Path, **environment: str) -> str:
    """Runs a command with its output shown, and returns what it printed."""
    words = [str(word) for word in command]
    process = subprocess.Popen(
        words,
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    if process.wait() != 0:
        last = next((line for line in reversed(lines) if line.strip()), "").strip("=\n ")
        raise FailedError(f"{Path(words[0]).name} ended with {process.returncode}: {last}")
    return "".join(lines)


def check_format() -> str:
    files = sources(CPP)
    run(BIN / "clang-format", "--dry-run", "-Werror", *files)
    run(BIN / "ruff", "format", "--check", "--quiet", ".")
    return f"{len(files)} C++ files"


def check_ruff() -> str:
    run(BIN / "ruff", "check", "--quiet", ".")
    return ""


def check_mypy() -> str:
    return run(BIN / "mypy").strip().splitlines()[-1]


def check_generated() -> str:
    if not (ROOT / "tools/generate.py").exists():
        raise SkippedError("no tools/generate.py")
    run(sys.executable, "tools/generate.py", "--check")
    run(sys.executable, "tools/performance.py", "--check")
    return ""


def gtest_outcome(output: str) -> str:
    return ", ".join(re.findall(r"^\[ *(?:PASSED|SKIPPED) *\] (\d+ tests?)", output, re.M))


def run_cpp_tests(build: Path, **environment: str) -> str:
    if "ac4k_tests" not in (build / "build.ninja").read_text():
        raise SkippedError("GoogleTest not found, or no tests")
    run("cmake", "--build", build, "--target", "ac4k_tests", "--", "--quiet")
    environment["FAKE_LIBCUDA"] = str(build / "libfake_cuda.so")
    return gtest_outcome(run(build / "ac4k_tests", "--gtest_brief=1", **environment))


def check_cpp() -> str:
    return run_cpp_tests(DEV)


def check_cpp_sanitized() -> str:
    defines = ("-DAC4K_SANITIZE=ON", "-DAC4K_PYTHON=OFF", "-DAC4K_BACKEND=cpu")
    run("cmake", "-S", ".", "-B", ASAN, "-G", "Ninja", "--log-level=WARNING", *defines)
    return run_cpp_tests(
        ASAN,
        ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1",
        UBSAN_OPTIONS="print_stacktrace=1",
    )


def check_device() -> str:
    return run(sys.executable, "tools/device_gate.py").strip().splitlines()[-1]


def check_model() -> str:
    run("cmake", "--build", DEV, "--target", "ac4k_model", "--", "--quiet")
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/model")
    fuzz = ("tests/model/fuzz_on_model.py", "--seed", "1", "--count", "4000")
    run(sys.executable, *fuzz)
    # Of the other architectures sm89 is the one without clusters and dependent launches.
    checked = [
        run(sys.executable, "tests/model/check_kernels.py", "--arch", arch).strip().splitlines()[-1]
        for arch in ("sm90a", "sm89")
    ]
    return "; ".join(checked)


def check_pytest() -> str:
    output = run(sys.executable, "-m", "pytest", "-q", "-n", JOBS, "--dist", "worksteal")
    if not re.search(r"\d+ passed", output):
        raise FailedError("no test ran")
    return output.strip().splitlines()[-1].strip("= ")


def check_doctest() -> str:
    if not (ROOT / "python/ac4k/__init__.py").exists():
        raise SkippedError("no package yet")
    output = run(sys.executable, "-m", "pytest", "-q", "--doctest-modules", "python/ac4k")
    return output.strip().splitlines()[-1].strip("= ")


# In the order that shows the cheapest mistakes first.
GATES: dict[str, Callable[[], str]] = {
    "format": check_format,
    "ruff": check_ruff,
    "mypy": check_mypy,
    "generated": check_generated,
    "cpp": check_cpp,
    "cpp-sanitized": check_cpp_sanitized,
    "device": check_device,
    "model": check_model,
    "doctest": check_doctest,
    "pytest": check_pytest,
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in GATES]
    if unknown:
        print(f"unknown gate {', '.join(unknown)}; known: {', '.join(GATES)}", file=sys.stderr)
        return 2
    rows = []
    for name in names or GATES:
        print(f"--- {name}", flush=True)
        start = time.monotonic()
        try:
            outcome, detail = "ok", GATES[name]()
        except SkippedError as reason:
            outcome, detail = "skipped", str(reason)
        except (OSError, FailedError) as error:
            outcome, detail = "FAILED", str(error)[:120]
        rows.append((name, outcome, time.monotonic() - start, detail))
    print(f"\n{'gate':15}{'outcome':>8}{'seconds':>9}")
    for name, outcome, seconds, detail in rows:
        print(f"{name:15}{outcome:>8}{seconds:9.1f}  {detail}")
    print(f"{'total':15}{'':8}{sum(row[2] for row in rows):9.1f}")
    return int(any(row[1] == "FAILED" for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
