"""Keeps PyTorch alive on virtual machines with half an AMX.

Some hypervisors show AMX to the guest but leave CPUID leaf 0x1D (the tile palettes) empty. The
instructions work, but oneDNN configures its tiles from that leaf: PyTorch's 16-bit matrix products
then raise "could not create a primitive" or die of an illegal instruction.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
from typing import Any

# push rbx; mov eax, edi; mov ecx, esi; cpuid; mov eax, <register>; pop rbx; ret
_CPUID_EAX = bytes.fromhex("5389f889f10fa25bc3")
_CPUID_EDX = bytes.fromhex("5389f889f10fa289d05bc3")
_AMX_TILE = 1 << 24  # leaf 7, edx


def _cpuid(code: bytes, leaf: int) -> int:
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    function = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)(address)
    return int(function(leaf, 0))


def amx_is_broken() -> bool:
    """Does this CPU claim AMX without saying what its tiles are?"""
    if platform.machine() != "x86_64" or sys.platform != "linux":
        return False
    try:
        return bool(_cpuid(_CPUID_EDX, 7) & _AMX_TILE) and _cpuid(_CPUID_EAX, 0x1D) == 0
    except (OSError, ValueError):  # no executable memory here
        return False


def import_torch() -> Any:
    """torch, with oneDNN kept off AMX where AMX would kill it; the user's own setting wins."""
    if "ONEDNN_MAX_CPU_ISA" not in os.environ and amx_is_broken():
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_FP16"
    import torch

    return torch
