"""The build's outcomes: choice of back end, the C++ install tree, the wheel."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/dev"  # of `make test`
if not BUILD.exists():
    BUILD = ROOT / "build/gpu/cmake"  # of `make test-gpu`
EXAMPLE = ROOT / "examples/cpp"

needs_build = pytest.mark.skipif(
    not (BUILD / "build.ninja").exists() or shutil.which("cmake") is None,
    reason="needs a build directory and cmake",
)
needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
CMAKE = shutil.which("cmake") or ""


def run(*command: str | Path, **environment: str) -> str:
    """Runs a command; its output is the assertion message when it fails."""
    result = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@contextmanager
def build_directory() -> Iterator[Path]:
    """The build directory, for one process at a time: tests run in several."""
    with (BUILD / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield BUILD


# ---- Choice of back end ---------------------------------------------------------------------


def choose_backend(
    tmp_path: Path, *defines: str, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Runs the choice on a machine with no GPU and no compiler but what a test puts there."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("AC4K_", "CUDA_"))}
    environment |= {"PATH": f"{tmp_path}:/usr/bin:/bin"} | settings
    for tool in ("nvidia-smi", "rocminfo"):
        if not (tmp_path / tool).exists():
            put_program(tmp_path, tool, "")  # hides the machine's own
    fake_nvcc = () if "AC4K_NVCC" in "".join(defines) else ("-DAC4K_NVCC=/fake/nvcc",)
    return subprocess.run(
        [CMAKE, *fake_nvcc, *defines, "-P", ROOT / "cmake/Backend.cmake"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def put_program(folder: Path, name: str, output: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\ncat <<'EOF'\n{output}\nEOF\n")
    program.chmod(0o755)


@needs_cmake
@pytest.mark.parametrize(
    ("asked", "archs"),
    [
        ("sm90a", "sm90a"),
        ("sm_90a", "sm90a"),
        ("90", "sm90a"),
        ("9.0", "sm90a"),
        ("sm90a,sm89", "sm90a,sm89"),
        ("sm90a;sm89", "sm90a,sm89"),
        ("sm90a sm90a", "sm90a"),
    ],
)
def test_cuda_architectures_are_taken_in_every_spelling(
    tmp_path: Path, asked: str, archs: str
) -> None:
    by_environment = choose_backend(tmp_path, AC4K_CUDA_ARCH=asked)
    assert f"back end cuda ({archs})" in by_environment.stdout
    by_define = choose_backend(tmp_path, f"-DAC4K_CUDA_ARCH={asked}")
    assert by_define.stdout == by_environment.stdout


@needs_cmake
@pytest.mark.parametrize(
    ("setting", "value", "known"),
    [
        ("AC4K_CUDA_ARCH", "sm70", "sm89, sm90a, sm100a, sm120a"),
        ("AC4K_ROCM_ARCH", "gfx1", "gfx90a, gfx942"),
        ("AC4K_BACKEND", "metal", "auto, cuda, rocm, cpu"),
    ],
)
def test_unknown_settings_are_errors_that_list_the_known(
    tmp_path: Path, setting: str, value: str, known: str
) -> None:
    result = choose_backend(tmp_path, **{setting: value})
    message = " ".join(result.stderr.split())
    assert result.returncode != 0
    assert f"'{value}'; known: {known}" in message
    assert setting in message


@needs_cmake
def test_the_gpu_present_decides(tmp_path: Path) -> None:
    put_program(tmp_path, "nvidia-smi", "9.0\n9.0\n8.9")
    assert "back end cuda (sm90a,sm89)" in choose_backend(tmp_path).stdout
    assert "back end cpu" in choose_backend(tmp_path, AC4K_BACKEND="cpu").stdout


@needs_cmake
def test_a_gpu_without_kernels_gives_a_cpu_build(tmp_path: Path) -> None:
    put_program(tmp_path, "nvidia-smi", "7.0")
    assert "back end cpu: no kernels for this GPU (7.0)" in choose_backend(tmp_path).stdout


@needs_cmake
def test_rocm_is_checked_and_noted(tmp_path: Path) -> None:
    put_program(tmp_path, "rocminfo", "  Name:  gfx942")
    assert "back end cpu: no hipcc found" in choose_backend(tmp_path).stdout
    put_program(tmp_path, "hipcc", "")
    assert "back end rocm (gfx942): no ROCm kernels" in choose_backend(tmp_path).stdout


@needs_cmake
def test_without_gpu_or_compiler_the_build_is_for_the_cpu(tmp_path: Path) -> None:
    assert "back end cpu: no GPU found" in choose_backend(tmp_path).stdout
    # "pypi": look at the Python package alone; a bare virtual environment has none.
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare")
    result = choose_backend(
        tmp_path,
        "-DAC4K_NVCC=pypi",
        f"-DPython_EXECUTABLE={tmp_path / 'bare/bin/python'}",
        AC4K_BACKEND="cuda",
    )
    assert "back end cpu: no nvcc found" in result.stdout


# ---- C++ install tree -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefix")
    with build_directory() as build:
        run("cmake", "--install", build, "--component", "dev", "--prefix", folder)
    return folder


@needs_build
def test_install_tree(prefix: Path) -> None:
    for name in ("lib/libac4k.so", "include/ac4k/ac4k.h", "lib/ac4k/src/common"):
        assert (prefix / name).exists(), name
    assert not list(prefix.rglob("*.abi3.so"))
    needed = run("readelf", "-d", prefix / "lib/libac4k.so")
    assert not re.search(r"NEEDED.*(torch|python|cuda|nvrtc)", needed)
    assert "NODELETE" in needed  # threads and handles keep parts of it


@needs_build
def test_library_exports_only_the_c_abi(prefix: Path) -> None:
    symbols = run("nm", "-D", "--defined-only", prefix / "lib/libac4k.so").splitlines()
    names = {line.split()[-1] for line in symbols}
    assert "ac4k_call" in names
    assert all(name.startswith("ac4k_") for name in names), sorted(names)


@needs_build
def test_example_with_cmake(prefix: Path, tmp_path: Path) -> None:
    run("cmake", "-S", EXAMPLE, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path)
    assert "gemm" in run(tmp_path / "ac4k_example")


@needs_build
@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="needs pkg-config")
def test_example_with_pkg_config(prefix: Path, tmp_path: Path) -> None:
    path = str(prefix / "lib/pkgconfig")
    flags = run("pkg-config", "--cflags", "--libs", "ac4k", PKG_CONFIG_PATH=path).split()
    program = tmp_path / "example"
    warnings = ("-Wall", "-Wextra", "-Werror")
    run("g++", "-std=c++20", *warnings, EXAMPLE / "main.cpp", "-o", program, *flags)
    assert "gemm" in run(program, LD_LIBRARY_PATH=str(prefix / "lib"))


# ---- Wheel ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel from the objects that are there: nothing is compiled again."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet")
    options = ("--no-build-isolation", "--no-deps", "--no-index", "-w", folder)
    with build_directory() as build:
        run(*pip, *options, "-C", f"build-dir={build}", ROOT)
    (path,) = folder.glob("*.whl")
    return path


def version() -> str:
    header = (ROOT / "include/ac4k/ac4k.h").read_text()
    match = re.search(r'#define AC4K_VERSION "([^"]+)"', header)
    assert match
    return match[1]


@needs_build
def test_wheel_is_one_for_every_python(wheel: Path) -> None:
    assert wheel.name.startswith(f"ac4k-{version()}-cp311-abi3-linux_")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"ac4k/__init__.py", "ac4k/_C.abi3.so", "ac4k/lib/libac4k.so", "ac4k/py.typed"} <= names
    assert any(name.startswith("ac4k/lib/ac4k/src/common/") for name in names)
    assert not [name for name in names if name.endswith((".a", ".o", ".cpp"))]


@needs_build
def test_wheel_imports_without_torch(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    # -S: no site-packages and so no editable install; NumPy comes by a path of its own.
    (tmp_path / "numpy").symlink_to(Path(sysconfig.get_path("platlib")) / "numpy")
    libraries = Path(sysconfig.get_path("platlib")) / "numpy.libs"
    if libraries.exists():
        (tmp_path / "numpy.libs").symlink_to(libraries)
    code = "import ac4k, sys; print(ac4k.__file__, ac4k.__version__, 'torch' in sys.modules)"
    output = run(sys.executable, "-S", "-c", code, PYTHONPATH=str(tmp_path))
    assert output.split() == [str(tmp_path / "ac4k/__init__.py"), version(), "False"]
