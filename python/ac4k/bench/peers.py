"""Others who compute the same, in the same run: eager PyTorch (cuBLAS), Inductor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..environment import has_torch
from .case import Case, Special
from .inputs import Arguments
from .settings import PEERS, Settings


@dataclass
class Peers:
    present: dict[str, Callable[..., Any]] = field(default_factory=dict)  # called as the op is
    absent: dict[str, str] = field(default_factory=dict)  # why


def find_peers(case: Case, arguments: Arguments, settings: Settings) -> Peers:
    """Those of `settings.peers` that work on these arguments; each is called once.

    "eager" stands for every way of PyTorch's that is not compiled; each has a name of its own, too.
    """
    peers = Peers()
    asked = {name.lower() for name in settings.peers}
    eager_name = case.torch_name if settings.device == "cuda" else case.cpu_torch_name
    wanted = []
    if asked & {"eager", case.torch_name.lower(), case.cpu_torch_name.lower()}:
        wanted.append(eager_name)
    if "inductor" in asked and case.compile:
        wanted.append("inductor")
    if case.torch_fn is not None and wanted:
        why_not = _why_not(case.torch_fn, arguments)
        if why_not is not None:
            peers.absent = dict.fromkeys(wanted, why_not)
        else:
            if eager_name in wanted:
                peers.present[eager_name] = case.torch_fn
            if "inductor" in wanted:
                _add_inductor(peers, case.torch_fn, arguments)
    for name, fn in case.torch_peers.items():
        if not asked & {"eager", name.lower()}:
            continue
        why_not = _why_not(fn, arguments)
        if why_not is None:
            peers.present[name] = fn
        else:
            peers.absent[name] = why_not
    return peers


def peer_names(cases: Iterable[Case | Special]) -> list[str]:
    """What `settings.peers` can hold for these cases."""
    found = dict.fromkeys(PEERS)
    for case in cases:
        if isinstance(case, Case):
            ways = [case.torch_name, case.cpu_torch_name] if case.torch_fn is not None else []
            found |= dict.fromkeys([*ways, *case.torch_peers])
    return list(found)


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
