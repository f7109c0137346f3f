"""The command line of `ac4k profile`."""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from pathlib import Path
from typing import Any

from ._console import print_pairs
from .profiling import Profile, profile
from .timing import format_us

_CALLS = 20


def run(options: argparse.Namespace) -> int:
    if bool(options.op) == bool(options.script):
        raise ValueError("expected --op NAME or script.py and its arguments")
    if options.op:
        result = _profile_op(options.op, options.out_dir)
    else:
        result = _profile_script(options.script, options.out_dir)
    block: dict[str, Any] = {
        "trace": str(result.trace_path),
        "report": str(result.report_path),
        "wall_s": result.wall_s,
        "peak_memory": result.peak_memory,
        "ops": result.summary(),
    }
    if options.json:
        print(json.dumps(block, indent=1))
        return 0
    pairs = [("wall time", format_us(result.wall_s * 1e6))]
    peaks = result.peak_memory.items()
    pairs += [(name, f"{size / (1 << 20):.1f} MiB peak") for name, size in peaks]
    pairs += [
        (row["op"], f"{row['calls']} calls, {format_us(row['mean_us'])} each")
        for row in result.summary()[:5]
    ]
    pairs += [("report", block["report"]), ("trace", f"{block['trace']} (https://ui.perfetto.dev)")]
    print_pairs(pairs, title="ac4k profile")
    return 0


def _profile_op(name: str, out_dir: str) -> Profile:
    import ac4k

    from .bench.arrays import arrays_on, devices
    from .bench.case import arguments_of, case_of
    from .bench.inputs import dtypes_of, op_named
    from .demo import demo_sizes

    op = op_named(name)
    device = devices()[0] if op["cuda"] else "cpu"
    sizes, _ = demo_sizes(op, "real", device)
    arguments = arguments_of(op, case_of(name), sizes, dtypes_of(op)[0], arrays_on(device))

    def calls() -> None:
        for _ in range(_CALLS):
            arguments.call(getattr(ac4k, name))

    calls()  # compiling and loading are not what is asked for
    return profile(calls, out_dir=out_dir)


def _profile_script(command: list[str], out_dir: str) -> Profile:
    script = Path(command[0])
    if not script.is_file():
        raise ValueError(f"no script '{script}'")
    arguments, path = sys.argv, sys.path[:]
    sys.argv = command
    sys.path.insert(0, str(script.resolve().parent))
    try:
        with profile(out_dir=out_dir) as result:
            try:
                runpy.run_path(str(script), run_name="__main__")
            except SystemExit as leaving:
                if leaving.code not in (None, 0):
                    raise RuntimeError(f"{script} exited with {leaving.code}") from None
    finally:
        sys.argv, sys.path[:] = arguments, path
    return result
