"""Counts the instructions of a kernel's innermost loops that multiply matrices, by the pipe that
starts them: what bounds products with packed weights, and what docs/architecture.md and commits
give figures of.

    python tools/loops.py sm90a/mixed_q4_0 few_8_1_bf16 many_1_bf16    (without names: all kernels)

Needs nvcc and cuobjdump; of the latter PyPI has nvidia-cuda-cuobjdump, which wants
nvidia-cuda-nvdisasm beside it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

from device_gate import ROOT, build_with_nvcc

PIPES = {
    "tensor": r"[HIQD]?G?MMA",
    "integer": r"LOP3|SHF|PRMT|IADD3|VIADD|LEA|ISETP|SEL|VIMNMX|IABS|PLOP3|I?MNMX|POPC",
    "half": r"H(ADD2|MUL2|FMA2|SETP2|MNMX2)",
    "float": r"F(FMA|ADD|MUL|SETP|SEL|MNMX)|IMAD",
    "special": r"MUFU|[FI]2[FIP]\w*",
    "shared": r"LDSM?|STSM?|SHFL|ATOMS",
    "uniform": r"U\w+|R2UR|S2UR|ELECT|VOTE\w*",
}
Instruction = tuple[int, str]  # address and text


def tool(name: str) -> str:
    packages = Path(sysconfig.get_path("purelib")).glob(f"nvidia/*/bin/{name}")
    found = shutil.which(name) or next(map(str, packages), None)
    if found is None:
        sys.exit(f"{name} is missing: a CUDA toolkit has it, and so has nvidia-cuda-{name} of PyPI")
    return found


def kernels_of(cubin: Path) -> dict[str, list[Instruction]]:
    text = subprocess.run(
        [tool("cuobjdump"), "--dump-sass", cubin], capture_output=True, text=True, check=True
    ).stdout
    kernels: dict[str, list[Instruction]] = {}
    for part in text.split("Function : ")[1:]:
        found = re.findall(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", part, re.M)
        kernels[part.split()[0]] = [(int(address, 16), line) for address, line in found]
    return kernels


def opcode(instruction: str) -> str:
    return re.sub(r"^@!?U?P\w+\s+", "", instruction).split()[0].split(".")[0]


def pipe_of(instruction: str) -> str:
    code = opcode(instruction)
    return next((name for name, codes in PIPES.items() if re.fullmatch(codes, code)), "other")


def product_loops(instructions: list[Instruction]) -> list[list[str]]:
    """Those of the loops with matrix products in them that have no other such loop inside. Waits
    that lie behind the end of the kernel jump back, too, past an EXIT: they are no loops.
    """
    loops: set[tuple[int, int]] = set()
    products = [at for at, line in instructions if pipe_of(line) == "tensor"]
    ends = [at for at, line in instructions if opcode(line) == "EXIT"]
    for end, line in instructions:
        jump = re.search(r"\bBRA\b.*?0x([0-9a-f]+)", line)
        start = int(jump[1], 16) if jump else end + 1
        inside = range(start, end + 1)
        if any(at in inside for at in products) and not any(at in inside for at in ends):
            loops.add((start, end))
    inner = [
        (start, end)
        for start, end in sorted(loops)
        if not any((a, b) != (start, end) and start <= a and b <= end for a, b in loops)
    ]
    return [[line for at, line in instructions if start <= at <= end] for start, end in inner]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("module", help="such as sm90a/mixed_q4_0")
    parser.add_argument("kernels", nargs="*", help="such as few_8_1_bf16")
    parser.add_argument("--arch", default="sm90a")
    parser.add_argument("--nvcc", default="")
    options = parser.parse_args()
    build = ROOT / "build/device"
    build_with_nvcc(options.arch, build, options.nvcc, [options.module])
    cubin = build / f"lib/ac4k/cubin/{options.module.replace('/', '.')}.{options.arch}.cubin"
    kernels = kernels_of(cubin)
    unknown = set(options.kernels) - set(kernels)
    if unknown:
        sys.exit(f"{options.module} has no {', '.join(unknown)}, but {', '.join(sorted(kernels))}")
    names = ["kernel", "all", *PIPES, "other"]
    print(f"{names[0]:24}" + "".join(f"{name:>9}" for name in names[1:]))
    for kernel in options.kernels or sorted(kernels):
        for loop in product_loops(kernels[kernel]):
            count = Counter(map(pipe_of, loop))
            cells = [len(loop), *(count[name] for name in names[2:])]
            print(f"{kernel:24}" + "".join(f"{cell:9}" for cell in cells))


if __name__ == "__main__":
    main()
