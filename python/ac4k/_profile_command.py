"""The command line of `ac4k profile`."""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

from ._console import UsageError, note, print_pairs, usage_errors
from .profiling import Profile, profile
from .timing import format_us

_CALLS = 20


def run(options: argparse.Namespace) -> int:
    if bool(options.op) == bool(options.script):
        raise UsageError("expected --op NAME or script.py and its arguments")
    status = 0
    if options.op:
        result = _profile_op(options.op, options.out_dir)
    else:
        with _stdout_as_stderr() if options.json else nullcontext():
            result, status = _profile_script(options.script, options.out_dir)
    block: dict[str, Any] = {
        "trace": str(result.trace_path),
        "report": str(result.report_path),
        "wall_s": result.wall_s,
        "peak_memory": result.peak_memory,
        "ops": result.summary(),
    }
    if options.json:
        print(json.dumps(block, indent=1))
        return status
    pairs = [("wall time", format_us(result.wall_s * 1e6))]
    peaks = result.peak_memory.items()
    pairs += [(name, f"{size / (1 << 20):.1f} MiB peak") for name, size in peaks]
    pairs += [
        (row["op"], f"{row['calls']} calls, {format_us(row['mean_us'])} each")
        for row in result.summary()[:5]
    ]
    pairs += [("report", block["report"]), ("trace", f"{block['trace']} (https://ui.perfetto.dev)")]
    print_pairs(pairs, title="ac4k profile")
    return status


def _profile_op(name: str, out_dir: str) -> Profile:
    import ac4k

    from .bench.arrays import arrays_on, devices
    from .bench.case import arguments_of, case_of
    from .bench.inputs import op_named
    from .demo import demo_options, demo_sizes, dtypes_here, what_lacks

    with usage_errors():
        op = op_named(name)
    arrays = arrays_on(devices()[0] if op["cuda"] else "cpu")
    dtypes = dtypes_here(op, arrays)
    if not dtypes:
        raise RuntimeError(f"--op {name}: {what_lacks(op, arrays)}")
    options = demo_options(op, dtypes[0], arrays)
    sizes, _ = demo_sizes(op, "real", arrays.device)
    arguments = arguments_of(op, case_of(name), sizes, dtypes[0], arrays, options=options)

    def calls() -> None:
        for _ in range(_CALLS):
            arguments.call(getattr(ac4k, name))

    calls()  # compiling and loading are not what is asked for
    return profile(calls, out_dir=out_dir)


def _profile_script(command: list[str], out_dir: str) -> tuple[Profile, int]:
    """What was recorded, also where the script fails, and the status Python would exit with."""
    script = Path(command[0])
    if not script.is_file():
        raise UsageError(f"no script '{script}'")
    status = 0
    arguments, path = sys.argv, sys.path[:]
    sys.argv = command
    sys.path.insert(0, str(script.resolve().parent))
    try:
        with profile(out_dir=out_dir) as result:
            try:
                runpy.run_path(str(script), run_name="__main__")
            except SystemExit as leaving:
                status = _exit_status(leaving)
            except Exception as error:
                _print_traceback(error, str(script))
                status = 1
    finally:
        sys.argv, sys.path[:] = arguments, path
    return result, status


def _exit_status(leaving: SystemExit) -> int:
    if leaving.code is None or isinstance(leaving.code, int):
        return leaving.code or 0
    note(str(leaving.code))
    return 1


def _print_traceback(error: Exception, script: str) -> None:
    """As Python would: from the script on, without what runs it."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != script:
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)


@contextmanager
def _stdout_as_stderr() -> Iterator[None]:
    """Also that of child processes: stdout is for the JSON alone."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()
        os.dup2(kept, 1)
        os.close(kept)
