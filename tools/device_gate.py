"""Compiles every device source for sm90a by nvcc, and prints what each kernel uses; for the other
architectures of the table by NVRTC, so that ptxas has seen them, and by NVRTC for sm90a what they
do not have. Of families with a module a format those are compiled that differ in their code, and
by NVRTC one of the three quantising norms, which share their headers. --all: everything.

Register spills fail, unless the source says `// Spills allowed: <reason>`, and so do products of
warpgroups that ptxas lets wait for each other. The nvcc half uses the same CMake rules as an
installation; the NVRTC half has no host headers, as at first use.
"""

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CUDA = ROOT / "src/cuda"
# Modules of a format each. By nvcc one of each kind of planes, scales and offsets is compiled; by
# NVRTC, which sees the same headers, two that have little in common.
ENGINE, RAW, STREAM = "sm90a/mixed_", "common/block_product_", "sm90a/block_stream_"
NVCC_SAMPLES = {
    ENGINE: (
        "q4_0",
        "q4_1",
        "q5_1",
        "q8_0",
        "q2_k",
        "q4_k",
        "q6_k",
        "iq4_xs",
        "nvfp4",
        "w4_g32_bf16",
        "w4_g128z_f16",
    ),
}
NVRTC_SAMPLES: dict[str, tuple[str, ...]] = {
    ENGINE: ("iq4_xs", "w4_g128z_bf16"),
    RAW: ("q5_1", "q8_0"),
    STREAM: ("q5_1",),
    "common/rms_norm_quant": (),  # as layer_norm_quant
    "common/add_rms_norm_quant": (),
}


@dataclass
class Usage:
    """What ptxas reported for one kernel."""

    module: str
    kernel: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int
    serialized: bool  # products of warpgroups, one after another


def parse_report(module: str, text: str) -> list[Usage]:
    """Reads the output of `ptxas -v`."""
    usages = []
    serialized = re.findall(r"wgmma\S* instructions are serialized .* function '([^']+)'", text)
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
                name[1] in serialized,
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


def build_with_nvcc(arch: str, build: Path, nvcc: str, modules: list[str]) -> list[Usage]:
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
    cubins = [f"lib/ac4k/cubin/{module.replace('/', '.')}.{arch}.cubin" for module in modules]
    subprocess.run(["cmake", "--build", build, "--target", *cubins, "--", "--quiet"], check=True)
    usages = []
    for module, cubin in zip(modules, cubins, strict=True):
        report = (build / cubin).with_suffix(".txt")
        if not report.exists():
            raise FileNotFoundError(f"{report}: no nvcc found, or the build left it out")
        usages += parse_report(module, report.read_text())
    return usages


def device_sources(arch: str) -> list[Path]:
    return sorted([*(CUDA / "common").glob("*.cu"), *(CUDA / arch).glob("*.cu")])


def module_of(source: Path) -> str:
    return str(source.relative_to(CUDA).with_suffix(""))


def modules_of(arch: str, samples: dict[str, tuple[str, ...]]) -> list[str]:
    """All of them, but of these families only the samples."""

    def counts(module: str) -> bool:
        return all(
            not module.startswith(family) or module.removeprefix(family) in formats
            for family, formats in samples.items()
        )

    return [m for m in map(module_of, device_sources(arch)) if counts(m)]


Kernels = dict[tuple[str, str], dict[str, int]]  # by module and name


def build_with_nvrtc(name: str, arch: str) -> Kernels:
    """Compiles a module of the library as at first use, into a cache of its own. It stays: entries
    are known by their contents, so the next run compiles what has changed.
    """
    import ac4k.jit

    ac4k.jit.C.set("cache_dir", str(ROOT / "build/device/jit_cache"))
    (module,) = ac4k.jit.build(name, arch)
    return {(module["module"], kernel["name"]): kernel for kernel in module["kernels"]}


def architectures() -> list[str]:
    table = (CUDA / "architectures.def").read_text()
    return re.findall(r"^AC4K_CUDA_ARCH\((\w+)", table, flags=re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="sm90a")
    parser.add_argument("--build", type=Path, default=ROOT / "build/device")
    parser.add_argument("--nvcc", default="", help="a path, or `pypi` for the PyPI packages alone")
    parser.add_argument("--all", action="store_true", help="all formats of each family")
    options = parser.parse_args()

    others = [arch for arch in architectures() if arch != options.arch]
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        by_nvrtc = {
            arch: [
                pool.submit(build_with_nvrtc, name, arch)
                for name in modules_of(arch, {} if options.all else NVRTC_SAMPLES)
                if options.all or arch != options.arch or name.startswith(f"{arch}/")
            ]
            for arch in [options.arch, *others]
        }

        def kernels_of(arch: str) -> Kernels:
            return {
                key: kernel for built in by_nvrtc[arch] for key, kernel in built.result().items()
            }

        modules = modules_of(options.arch, {} if options.all else NVCC_SAMPLES)
        usages = build_with_nvcc(options.arch, options.build, options.nvcc, modules)
        failures = report(options.arch, usages, kernels_of(options.arch))
        for arch in others:
            kernels = kernels_of(arch)
            spilling = [name for (_, name), kernel in kernels.items() if kernel["local_bytes"] > 0]
            print(
                f"{arch}: {len(kernels)} kernels by NVRTC, {len(spilling)} spill {spilling or ''}"
            )
    return int(failures > 0)


def report(arch: str, usages: list[Usage], by_nvrtc: Kernels) -> int:
    """Prints a line a kernel and gives the number of kernels with problems."""
    names = demangle([usage.kernel for usage in usages])
    failures = 0
    print(f"registers, nvcc/NVRTC {'shared':>8}{'stack':>7}{'spills':>8}  kernel ({arch})")
    for usage, name in zip(usages, names, strict=True):
        problem = ""
        other = by_nvrtc.get((usage.module, usage.kernel))
        spills = usage.spill_bytes > 0 or (other is not None and other["local_bytes"] > 0)
        if other is None and any(module == usage.module for module, _ in by_nvrtc):
            problem = "  <-- not in NVRTC's cubin"
        elif spills and "// Spills allowed:" not in (CUDA / f"{usage.module}.cu").read_text():
            problem = "  <-- spills, or local arrays by NVRTC"
        elif usage.serialized:
            problem = "  <-- wgmma serialized"
        failures += bool(problem)
        registers = f"{usage.registers}/{other['registers'] if other else '-'}"
        print(
            f"{registers:>21} {usage.shared_bytes:8}{usage.stack_bytes:7}{usage.spill_bytes:8}"
            f"  {usage.module}: {name}{problem}"
        )
    print(f"{len(usages)} kernels by nvcc, {len(by_nvrtc)} by NVRTC, {failures} with problems")
    return failures


if __name__ == "__main__":
    sys.exit(main())
