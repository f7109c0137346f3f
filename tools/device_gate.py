"""Compiles every device source for sm90a, by nvcc and by NVRTC, and prints what each kernel uses.

Register spills fail, unless the source says `// Spills allowed: <reason>`. The nvcc half uses the
same CMake rules as an installation; the NVRTC half has no host headers, as at first use.
"""

import argparse
import ctypes
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CUDA = ROOT / "src/cuda"


@dataclass
class Usage:
    """What ptxas reported for one kernel."""

    module: str
    kernel: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int


def parse_report(module: str, text: str) -> list[Usage]:
    """Reads the output of `ptxas -v`."""
    usages = []
    for part in re.split(r"Compiling entry function ", text)[1:]:
        name = re.match(r"'([^']+)'", part)
        stack = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", part)
        used = re.search(r"Used (\d+) registers", part)
        shared = re.search(r"(\d+) bytes smem", part)
        if not (name and stack and used):
            raise ValueError(f"{module}: cannot read the report of ptxas:\n{text}")
        usages.append(
            Usage(
                module,
                name[1],
                int(used[1]),
                int(shared[1]) if shared else 0,
                int(stack[1]),
                int(stack[2]),
            )
        )
    return usages


def demangle(names: list[str]) -> list[str]:
    """Readable kernel names, or the same names when c++filt is missing."""
    try:
        output = subprocess.run(
            ["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return names
    return output.stdout.splitlines()


def build_with_nvcc(arch: str, build: Path, nvcc: str) -> list[Usage]:
    """Builds the cubins as an installation does and returns what the kernels use."""
    configure = ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "--no-warn-unused-cli"]
    defines = {
        "AC4K_BACKEND": "cuda",
        "AC4K_CUDA_ARCH": arch,
        "AC4K_NVCC": nvcc,
        "AC4K_PYTHON": "OFF",
        "AC4K_TESTS": "OFF",
        "Python_EXECUTABLE": sys.executable,
    }
    configure += [f"-D{name}={value}" for name, value in defines.items()]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(
        ["cmake", "--build", build, "--target", "ac4k_cubins", "--", "--quiet"], check=True
    )
    usages = []
    for source in device_sources(arch):
        module = str(source.relative_to(CUDA).with_suffix(""))
        report = build / "lib/ac4k/cubin" / f"{module.replace('/', '.')}.{arch}.txt"
        if not report.exists():
            raise FileNotFoundError(f"{report}: no nvcc found, or the build left it out")
        usages += parse_report(module, report.read_text())
    return usages


def device_sources(arch: str) -> list[Path]:
    return sorted([*(CUDA / "common").glob("*.cu"), *(CUDA / arch).glob("*.cu")])


class Nvrtc:
    """The compiler library, from the PyPI package in this environment."""

    def __init__(self) -> None:
        root = Path(sysconfig.get_path("purelib")) / "nvidia/cu13"
        self.include = root / "include"
        # NVRTC finds its builtins only when they are loaded already.
        for name in ("libnvrtc-builtins.so.13.0", "libnvrtc.so.13"):
            self.library = ctypes.CDLL(str(root / "lib" / name), mode=ctypes.RTLD_GLOBAL)

    def compile(self, source: Path, arch: str) -> None:
        """Compiles one file to a cubin that is thrown away; raises with the log on failure."""
        library = self.library
        program = ctypes.c_void_p()
        text = source.read_bytes()
        library.nvrtcCreateProgram(ctypes.byref(program), text, source.name.encode(), 0, None, None)
        options = [
            "-std=c++20",
            f"-arch={arch.replace('sm', 'sm_')}",
            f"-I{CUDA}",
            f"-I{source.parent}",
            f"-I{self.include}",
        ]
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        result = library.nvrtcCompileProgram(program, len(options), words)
        size = ctypes.c_size_t()
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        library.nvrtcDestroyProgram(ctypes.byref(program))
        if result != 0:
            raise RuntimeError(f"NVRTC cannot compile {source}:\n{log.value.decode()}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="sm90a")
    parser.add_argument("--build", type=Path, default=ROOT / "build/device")
    parser.add_argument("--nvcc", default="", help="a path, or `pypi` for the PyPI packages alone")
    options = parser.parse_args()

    usages = build_with_nvcc(options.arch, options.build, options.nvcc)
    names = demangle([usage.kernel for usage in usages])
    failures = 0
    print(f"{'registers':>9}{'shared':>8}{'stack':>7}{'spills':>8}  kernel ({options.arch})")
    for usage, name in zip(usages, names, strict=True):
        allowed = "// Spills allowed:" in (CUDA / f"{usage.module}.cu").read_text()
        spilled = usage.spill_bytes > 0 and not allowed
        failures += spilled
        print(
            f"{usage.registers:9}{usage.shared_bytes:8}{usage.stack_bytes:7}{usage.spill_bytes:8}"
            f"  {usage.module}: {name}{'  <-- spills' if spilled else ''}"
        )

    nvrtc = Nvrtc()
    for source in device_sources(options.arch):
        nvrtc.compile(source, options.arch)
    print(
        f"{len(device_sources(options.arch))} sources, {len(usages)} kernels by nvcc and NVRTC, "
        f"{failures} with spills"
    )
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
