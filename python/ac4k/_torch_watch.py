"""Opens the torch door as soon as torch is there, whichever is imported first.

`torch.ops.ac4k` and torch.compile must work in `import ac4k; import torch` too, and ac4k must not
import torch by itself: so a finder waits for torch's import and acts right after it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _LoaderThenDoor(Loader):
    """torch's own loader, with the door opened behind it."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _open_door()


class _TorchFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)  # not installed now; it may be later
            return None
        spec.loader = _LoaderThenDoor(spec.loader)
        return spec


def _open_door() -> None:
    import ac4k._torch_door  # noqa: F401


def start() -> None:
    """Opens the door now if torch is loaded, else waits for it."""
    if sys.modules.get("torch") is not None:
        _open_door()
    else:
        sys.meta_path.insert(0, _TorchFinder())
