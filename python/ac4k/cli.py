"""The command line: `ac4k` or `python -m ac4k`.

Each command's work is imported when it is asked for, so that `ac4k info` starts at once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from ._console import UsageError, note


def _info(options: argparse.Namespace) -> int:
    import ac4k

    from ._console import print_pairs, say
    from .environment import environment

    info = ac4k.info()
    block = environment()
    if options.json:
        print(json.dumps({"info": info, "environment": block}, indent=1))
        return 0
    build, cpu, cuda = info["build"], info["cpu"], info["cuda"]
    say(f"AC4K {ac4k.__version__}", style="bold")
    devices = [f"{d['name']} ({d['arch']}, {d['sms']} SMs)" for d in cuda["devices"]]
    archs = [*build["cuda_archs"], *build["rocm_archs"]]
    packages = block["packages"]
    print_pairs(
        [
            ("back end", f"{block['backend']}, architecture {block['arch']}"),
            (
                "built for",
                f"{build['backend']} {' '.join(archs)}".strip() + f", {build['compiler']}",
            ),
            ("GPU", "; ".join(devices) or f"none ({cuda.get('why_not', 'no device')})"),
            ("CPU", f"{block['cpu']}, {block['cpus']} cores"),
            ("CPU ISA", f"{cpu['isa']} (best here: {cpu['best_isa']}), {cpu['threads']} threads"),
            ("JIT", f"{cuda['jit']}, cache {cuda['cache_dir'] or 'none'}"),
            ("ops", ", ".join(op["name"] for op in ac4k.op_table())),
            ("Python", block["python"]),
            *((name, version or "not installed") for name, version in packages.items()),
            ("commit", block["git"] or "unknown"),
        ]
    )
    return 0


def _demo(options: argparse.Namespace) -> int:
    from .demo import run

    return run(as_json=options.json)


def _bench(options: argparse.Namespace) -> int:
    from .bench.command import run

    return run(options)


def _gguf(options: argparse.Namespace) -> int:
    from ._gguf_command import run

    return run(options)


def _jit(options: argparse.Namespace) -> int:
    from ._jit_command import run

    return run(options)


def _new(options: argparse.Namespace) -> int:
    from .new import run

    return run(options)


def _profile(options: argparse.Namespace) -> int:
    from ._profile_command import run

    return run(options)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ac4k", description="Low-precision kernels for LLM and diffusion inference."
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    info = commands.add_parser("info", help="what was built and what runs here")
    info.add_argument("--json", action="store_true", help="JSON on stdout")
    info.set_defaults(run=_info)

    demo = commands.add_parser("demo", help="every op: is it right, how fast is it")
    demo.add_argument("--json", action="store_true", help="JSON on stdout")
    demo.set_defaults(run=_demo)

    from .bench.command import add_arguments as add_bench_arguments

    bench = commands.add_parser("bench", help="time ops against their roofline and their peers")
    add_bench_arguments(bench)
    bench.set_defaults(run=_bench)

    from ._gguf_command import add_arguments as add_gguf_arguments

    gguf = commands.add_parser("gguf", help="look into GGUF files, check them, quantise them")
    add_gguf_arguments(gguf)
    gguf.set_defaults(run=_gguf)

    jit = commands.add_parser("jit", help="the cache of run-time compiled kernels")
    jit.add_argument("action", choices=("build", "list", "clear"))
    jit.add_argument(
        "--arch",
        help="build: for this architecture instead of the GPU present; list, clear: entries of it",
    )
    jit.add_argument("--module", help="this module alone, such as common/gemm")
    jit.add_argument("--json", action="store_true", help="JSON on stdout")
    jit.set_defaults(run=_jit)

    new = commands.add_parser("new", help="write the files of a new op into the source tree")
    new.add_argument("name", help="the op's name, such as scaled_square")
    new.add_argument("--dir", default=".", help="the source tree (default: here)")
    new.add_argument("--json", action="store_true", help="JSON on stdout")
    new.set_defaults(run=_new)

    profile = commands.add_parser("profile", help="trace an op or a script for Perfetto")
    profile.add_argument("--op", help="an op of the table, at a real size")
    profile.add_argument("--out-dir", default=".", help="where the two files go (default: here)")
    profile.add_argument("--json", action="store_true", help="JSON on stdout")
    profile.add_argument("script", nargs=argparse.REMAINDER, help="script.py and its arguments")
    profile.set_defaults(run=_profile)
    return parser


def _pin_threads(options: argparse.Namespace) -> None:
    """Starts this command anew with OpenMP's threads bound to cores.

    Unbound, a scheduler may put two of them on one core for milliseconds at a time, and a table
    of CPU times then shows its moods. OpenMP reads its settings while it loads, so they must be
    there before Python starts; what the user has set is left alone.
    """
    import ac4k

    on_cpu = options.command == "demo" or options.device == "cpu"
    if not on_cpu and ac4k.info()["cuda"]["devices"]:
        return
    if any(name.startswith(("OMP_", "GOMP_")) for name in os.environ):
        return
    os.environ["OMP_PROC_BIND"] = "true"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; 0 when it worked, 1 when something failed, 2 for a wrong command line."""
    command = ""
    try:  # Ctrl-C may come while modules are imported, too
        parser = make_parser()
        options = parser.parse_args(arguments)
        if options.version:
            import ac4k

            print(ac4k.__version__)
            return 0
        if options.command is None:
            parser.print_help()
            return 2
        command = options.command
        if arguments is None and command in ("demo", "bench"):
            _pin_threads(options)
        return int(options.run(options))
    except (ValueError, TypeError, RuntimeError, ImportError, OSError) as error:
        if isinstance(error, BrokenPipeError):  # `ac4k info | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        # Ops and files name themselves, some as the command is called.
        text = str(error).removeprefix(f"{command}: ")
        note(f"{f'ac4k {command}'.rstrip()}: {text}")
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        note("")
        return 130
