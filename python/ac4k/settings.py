"""What was built, what runs here, and what can be set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, cast

from ac4k._native import C


def info() -> dict[str, Any]:
    """What was built and what runs here, to paste into an issue."""
    import json

    return cast("dict[str, Any]", json.loads(C.info_json()))


def op_table() -> list[dict[str, Any]]:
    """Every op's declaration: name, signature, dtypes, doc line, tolerance."""
    import json

    return cast("list[dict[str, Any]]", json.loads(C.op_table_json()))


def get_backend() -> str:
    """ "cuda" where a CUDA device can be used, else "cpu".

    >>> ac4k.get_backend() in ("cuda", "rocm", "cpu")
    True
    """
    return "cuda" if info()["cuda"]["devices"] else "cpu"


def get_arch() -> str:
    """The architecture kernels run on: that of the first GPU, else the CPU's instruction set.

    >>> isinstance(ac4k.get_arch(), str)
    True
    """
    facts = info()
    devices = facts["cuda"]["devices"]
    return str(devices[0]["arch"] if devices else facts["cpu"]["isa"])


def set_cpu_isa(name: Literal["auto", "generic", "avx2", "avx512", "amx"]) -> None:
    """Makes CPU kernels use this instruction-set level (also AC4K_CPU_ISA)."""
    C.set("cpu_isa", name)


def set_num_threads(count: int) -> None:
    """Threads of CPU kernels; 0 follows OpenMP, and so torch (also AC4K_NUM_THREADS)."""
    C.set("num_threads", str(count))


def get_num_threads() -> int:
    """Threads that CPU kernels would use now."""
    return int(C.get("num_threads"))


def set_jit(mode: Literal["auto", "off", "force"]) -> None:
    """Whether kernels may be compiled at first use (also AC4K_JIT)."""
    C.set("jit", mode)


def set_cache_dir(path: str) -> None:
    """Where compiled kernels are kept (also AC4K_CACHE_DIR); a colon list reads from all of its
    folders and writes to the first, and "" goes back to the environment's."""
    C.set("cache_dir", path)


def set_dependent_launch(enabled: bool) -> None:
    """Lets each kernel start while the one before it in the stream still runs (sm90 and later).

    Kernels wait for their inputs themselves, so results are the same; what is saved is the gap
    between two launches. But products fetch quantised weights before they wait, as nothing in a
    model writes these: synchronise between writing weights and multiplying by them. Off by default.
    """
    C.set("dependent_launch", "on" if enabled else "off")


@contextmanager
def dependent_launch(enabled: bool = True) -> Iterator[None]:
    """`set_dependent_launch` for the body of a `with`."""
    before = C.get("dependent_launch") == "on"
    set_dependent_launch(enabled)
    try:
        yield
    finally:
        set_dependent_launch(before)
