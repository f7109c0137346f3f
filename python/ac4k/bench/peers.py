"""Others who compute the same, in the same run: eager PyTorch (cuBLAS), Inductor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..environment import has_torch
from .case import Case
from .inputs import Arguments
from .settings import Settings


@dataclass
class Peers:
    present: dict[str, Callable[..., Any]] = field(default_factory=dict)  # called as the op is
    absent: dict[str, str] = field(default_factory=dict)  # why


def find_peers(case: Case, arguments: Arguments, settings: Settings) -> Peers:
    """Those of `settings.peers` that work on these arguments; each is called once."""
    peers = Peers()
    eager_name = case.torch_name if settings.device == "cuda" else case.cpu_torch_name
    if case.torch_fn is not None:
        names = {"eager": eager_name, "inductor": "inductor"}
        wanted = [names[peer] for peer in settings.peers if peer != "inductor" or case.compile]
        why_not = _why_not(case.torch_fn, arguments)
        if why_not is not None:
            peers.absent = dict.fromkeys(wanted, why_not)
        else:
            if eager_name in wanted:
                peers.present[eager_name] = case.torch_fn
            if "inductor" in wanted:
                _add_inductor(peers, case.torch_fn, arguments)
    for name, fn in case.torch_peers.items() if "eager" in settings.peers else ():
        why_not = _why_not(fn, arguments)
        if why_not is None:
            peers.present[name] = fn
        else:
            peers.absent[name] = why_not
    return peers


def _why_not(fn: Callable[..., Any], arguments: Arguments) -> str | None:
    if not has_torch():
        return "torch is not installed"
    try:
        nothing = fn(*arguments.args, **arguments.options) is None
    except RuntimeError as error:
        return _first_line(error)
    return "PyTorch has nothing for this size" if nothing else None


def _add_inductor(peers: Peers, fn: Callable[..., Any], arguments: Arguments) -> None:
    import torch

    torch._dynamo.reset()  # a limit on recompilations would silently fall back to eager
    compiled = torch.compile(fn, fullgraph=True, dynamic=False)
    try:
        compiled(*arguments.args, **arguments.options)
    except Exception as error:  # compilers fail in every way there is
        peers.absent["inductor"] = _first_line(error)
        return
    peers.present["inductor"] = compiled


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:200]
