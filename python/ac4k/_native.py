"""The compiled part of the package: `C` is the extension module `ac4k._C`.

Kept free of pathlib and other imports that cost milliseconds. In a plain source checkout it is
built on the first import, into the same cache the JIT uses.
"""

from __future__ import annotations

import os
import sys

import ac4k

try:
    from ac4k import _C as C
except ImportError as error:
    from ac4k import _source_build

    if not _source_build.is_source_checkout():
        raise ImportError(f"ac4k is not installed completely: {error}") from error
    ac4k.__path__.append(str(_source_build.ensure_built()))
    from ac4k import _C as C

__all__ = ["C"]


def _tell_where_nvrtc_is() -> None:
    """The toolkit and the loader's path are searched by the library itself; packages are not."""
    folders = ("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib")
    names = ("libnvrtc.so.13", "libnvrtc.so.12")
    for entry in dict.fromkeys(sys.path):
        if not entry.endswith(("site-packages", "dist-packages")):
            continue
        for folder in folders:
            for name in names:
                path = os.path.join(entry, folder, name)
                if os.path.exists(path):
                    C.set("nvrtc_path", path)
                    C.set("cuda_include", os.path.join(entry, os.path.dirname(folder), "include"))
                    return


def _has_cuda_toolkit() -> bool:
    roots = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")
    return any(root and os.path.exists(os.path.join(root, "lib64/libnvrtc.so")) for root in roots)


if not _has_cuda_toolkit():
    _tell_where_nvrtc_is()
