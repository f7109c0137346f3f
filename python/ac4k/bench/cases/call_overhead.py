"""The cost of a call through each door."""

from __future__ import annotations

from ..case import Special
from ..overhead import run, show

CASES = (
    Special(
        name="call_overhead",
        doc="ns a call: ac4k._C, the public function, torch.ops, a pybind11 extension",
        run=run,
        show=show,
    ),
)
