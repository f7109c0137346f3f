"""ac4k.jit where no GPU is needed: compiling, the cache, and clear errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import wakes_beside

import ac4k
from ac4k.cli import main

SCALE = """
extern "C" __global__ void scale(float* y, const float* x, float factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i];
}
"""


def has_nvrtc() -> bool:
    try:
        ac4k.jit.compile('extern "C" __global__ void probe() {}', "probe", arch="sm90a")
    except (NotImplementedError, RuntimeError):
        return False
    return True


needs_nvrtc = pytest.mark.skipif(not has_nvrtc(), reason="no NVRTC found")


@pytest.fixture
def cache(tmp_path: Path):
    ac4k.set_cache_dir(str(tmp_path))
    yield tmp_path
    ac4k.set_cache_dir("")


def origin_in_a_new_process(cache: Path) -> str:
    """A process keeps what it compiled; another one has to look into the cache."""
    program = f"""
import ac4k
print(ac4k.jit.compile({SCALE!r}, "scale", arch="sm90a").attributes["origin"])
"""
    env = {**os.environ, "AC4K_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=True
    ).stdout.strip()


def entries(cache: Path) -> list[Path]:
    return sorted((cache / "jit").iterdir()) if (cache / "jit").exists() else []


@needs_nvrtc
def test_compile_in_under_a_second_and_find_it_again(cache: Path) -> None:
    start = time.perf_counter()
    first = ac4k.jit.compile(SCALE, "scale", arch="sm90a")
    assert time.perf_counter() - start < 1.0
    assert first.attributes["origin"] == "compiled"
    assert first.attributes["registers"] > 0
    assert first.attributes["local_bytes"] == 0
    assert origin_in_a_new_process(cache) == "cache"
    assert len(entries(cache)) == 1
    assert [entry["name"] for entry in ac4k.jit.list_cache()] == ["scale"]
    # Another architecture, another option, another text: each has an entry of its own.
    ac4k.jit.compile(SCALE, "scale", arch="sm89")
    ac4k.jit.compile(SCALE, "scale", arch="sm90a", options=["--use_fast_math"])
    ac4k.jit.compile(SCALE + "\n", "scale", arch="sm90a")
    assert len(entries(cache)) == 4
    assert ac4k.jit.clear_cache() == 4
    assert entries(cache) == []


@needs_nvrtc
def test_paths_and_headers_are_known_by_their_contents(cache: Path, tmp_path: Path) -> None:
    keys = []
    for name, factor in (("one", 2), ("two", 2), ("three", 3)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "factor.h").write_text(f"constexpr float kFactor = {factor};\n")
        source = folder / "kernel.cu"
        source.write_text(
            '#include "factor.h"\nextern "C" __global__ void f(float* y) { *y = kFactor; }\n'
        )
        kernel = ac4k.jit.compile(source, "f", arch="sm90a", options=[f"-I{folder}"])
        keys.append(kernel.attributes["key"])
    assert keys[0] == keys[1]
    assert keys[0] != keys[2]


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    """Bytes of a path and of a damaged entry are what os.fsdecode makes of them."""
    root = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    entry = Path(root) / "jit" / "0123"
    entry.mkdir(parents=True)
    (entry / "meta.json").write_bytes(b'{"name": "scale\xff", "size": 7}')
    ac4k.set_cache_dir(root)
    try:
        assert ac4k.info()["cuda"]["cache_dir"] == root
        (listed,) = ac4k.jit.list_cache()
    finally:
        ac4k.set_cache_dir("")
    assert listed["name"] == "scale\udcff"
    assert Path(listed["path"]) == entry
    env = {**os.environ, "AC4K_CACHE_DIR": root}
    for words in ("info", "jit list", "jit list --json"):
        command = [sys.executable, "-m", "ac4k", *words.split()]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "\\xff" in done.stdout or "\\udcff" in done.stdout


@needs_nvrtc
def test_damaged_entries_are_rebuilt(cache: Path) -> None:
    assert origin_in_a_new_process(cache) == "compiled"
    (entry,) = entries(cache)
    (entry / "kernel.cubin").write_bytes(b"rubbish")
    assert origin_in_a_new_process(cache) == "compiled"
    assert len(entries(cache)) == 1
    assert origin_in_a_new_process(cache) == "cache"


@needs_nvrtc
def test_eight_processes_at_once(cache: Path) -> None:
    program = f"""
import ac4k
print(ac4k.jit.compile({SCALE!r}, "scale", arch="sm90a").attributes["origin"])
"""
    env = {**os.environ, "AC4K_CACHE_DIR": str(cache)}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, text=True
        )
        for _ in range(8)
    ]
    origins = [process.communicate(timeout=120)[0].strip() for process in running]
    assert all(process.returncode == 0 for process in running)
    assert set(origins) <= {"compiled", "cache"}
    assert len(entries(cache)) == 1


@needs_nvrtc
def test_a_module_compiles_for_every_architecture(cache: Path) -> None:
    """All modules for all of them: tools/device_gate.py."""
    for arch in ("sm89", "sm90a", "sm100a", "sm120a"):
        modules = ac4k.jit.build("common/mul_add", arch)
        assert [module["module"] for module in modules] == ["common/mul_add"]
        assert {"mul_add_f32", "mul_add_bf16"} <= {k["name"] for k in modules[0]["kernels"]}


@needs_nvrtc
def test_other_threads_run_beside_a_compile(cache: Path) -> None:
    ac4k.set_jit("force")
    try:
        assert wakes_beside(lambda: ac4k.jit.load("common/gemm", "gemm_f32", arch="sm89")) > 20
    finally:
        ac4k.set_jit("auto")


@needs_nvrtc
def test_mistakes(cache: Path) -> None:
    with pytest.raises(RuntimeError, match="undefined_thing"):
        ac4k.jit.compile('extern "C" __global__ void f() { undefined_thing(); }', "f", arch="sm90a")
    with pytest.raises((RuntimeError, ValueError), match="other"):
        ac4k.jit.compile(SCALE, "other", arch="sm90a")
    with pytest.raises((RuntimeError, ValueError), match="sm12345"):
        ac4k.jit.compile(SCALE, "scale", arch="sm12345")
    with pytest.raises(FileNotFoundError):
        ac4k.jit.compile("no_such_file.cu", "scale", arch="sm90a")
    with pytest.raises((RuntimeError, ValueError), match="no/such"):
        ac4k.jit.load("no/such", "kernel", arch="sm90a")
    with pytest.raises(TypeError, match=r"argtypes|pointer"):
        ac4k.jit.compile(SCALE, "scale", arch="sm90a", argtypes=["pointer", "colour"])


@needs_nvrtc
def test_arguments_must_have_the_sizes_of_the_kernel(cache: Path) -> None:
    """The driver would read as many bytes as the kernel wants, wherever they are."""
    source = """
    struct Pair { double a, b; };
    template <typename T> __global__ void fill(T* y, T value, Pair pair) { *y = value + pair.a; }
    """
    kernel = ac4k.jit.compile(source, "fill<double>", arch="sm90a")
    assert kernel.attributes["param_bytes"] == [8, 8, 16]
    with pytest.raises(TypeError, match="expected 3 arguments, got 1"):
        kernel(1, 1, bytes(8))
    with pytest.raises(TypeError, match="argument 1: expected 8 bytes, got 1"):
        kernel(1, 1, bytes(8), b"\1", bytes(16))
    with pytest.raises(TypeError, match=r"argument 2: .* not plain"):
        kernel(1, 1, bytes(8), bytes(8), 1)
    with pytest.raises(TypeError, match=r"argtypes of \[8, 8, 16\] bytes, got pointer, int"):
        ac4k.jit.compile(source, "fill<double>", arch="sm90a", argtypes=["pointer", "int"])
    scale = ac4k.jit.compile(SCALE, "scale", arch="sm90a")
    with pytest.raises(TypeError, match="argument 2: expected 4 bytes, got 8"):
        scale(1, 1, 0, 0, bytes(8), 1)


@needs_nvrtc
def test_launches_that_contradict_themselves(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scale = ac4k.jit.compile(SCALE, "scale", arch="sm90a")
    for grid, shared_bytes in (((2**32 + 1,), 0), ((-1,), 0), ((1, 2**64), 0), ((1,), 2**32)):
        with pytest.raises(ValueError, match=r"below 2\^32"):
            scale(grid, 32, 0, 0, 1.0, 1, shared_bytes=shared_bytes)
    monkeypatch.setattr(ac4k._C, "device_of", lambda pointer: 1)
    array = SimpleNamespace(
        __cuda_array_interface__={"shape": (4,), "typestr": "<f4", "data": (4096, False)}
    )
    with pytest.raises(ValueError, match="argument 0: expected device 0, got device 1"):
        scale(1, 32, array, array, 1.0, 1, device=0)


def test_argument_types_are_read_off_the_source() -> None:
    types = ac4k.jit._argument_types
    assert types(SCALE, "scale") == ["pointer", "pointer", "float", "int"]
    assert types("template <class T> __global__ void g(T* y, long long n) {}", "g<int>") == [
        "pointer",
        "long long",
    ]
    assert types("__global__ void h(Params params) {}", "h") is None
    assert types("// __global__ void i(int n)\n", "i") is None


def test_without_nvrtc_the_message_says_what_to_install(tmp_path: Path) -> None:
    program = f"""
import ac4k
ac4k._C.set("nvrtc_path", {str(tmp_path / "libnvrtc.so.13")!r})
try:
    ac4k.jit.compile({SCALE!r}, "scale", arch="sm90a")
except (NotImplementedError, RuntimeError) as error:
    print(error)
"""
    env = {**os.environ, "AC4K_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert "NVRTC" in done.stdout, done.stdout + done.stderr


def test_command_line(tmp_path: Path) -> None:
    if not has_nvrtc():
        pytest.skip("no NVRTC found")
    env = {**os.environ, "AC4K_CACHE_DIR": str(tmp_path)}

    def jit(*words: str) -> str:
        command = [sys.executable, "-m", "ac4k", "jit", *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    jit("build", "--arch", "sm90a", "--module", "common/gemm")
    (listed,) = json.loads(jit("list", "--json"))
    assert "common/gemm" in listed["name"]
    assert jit("clear") == "1 entry removed\n"
    assert json.loads(jit("list", "--json")) == []


def put(cache: Path, key: str, name: str, arch: str) -> None:
    """An entry, of which nothing is asked but its metadata."""
    folder = cache / "jit" / key
    folder.mkdir(parents=True)
    (folder / "kernel.cubin").write_bytes(b"cubin")
    meta = {"name": name, "arch": arch, "compiler": "nvrtc 13.0", "seconds": 1.0, "size": 5}
    (folder / "meta.json").write_text(json.dumps(meta))


def test_entries_are_listed_and_cleared_by_module_and_architecture(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(cache, "0" * 64, "common/gemm", "sm89")
    put(cache, "1" * 64, "common/gemm", "sm90a")
    put(cache, "2" * 64, "common/rope", "sm90a")

    def jit(*words: str) -> Any:
        assert main(["jit", *words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    def keys(*words: str) -> list[str]:
        return sorted(entry["key"][0] for entry in jit("list", *words))

    assert keys() == ["0", "1", "2"]
    assert keys("--arch", "sm90a") == ["1", "2"]
    assert keys("--module", "common/gemm") == ["0", "1"]
    assert keys("--module", "common/gemm", "--arch", "sm90a") == ["1"]
    assert keys("--arch", "sm100a") == []
    assert jit("clear", "--arch", "sm100a") == {"removed": 0}
    assert jit("clear", "--module", "common/gemm", "--arch", "sm90a") == {"removed": 1}
    assert keys() == ["0", "2"]
    assert not list((cache / "tmp").glob("*"))
    assert jit("clear", "--arch", "sm90a") == {"removed": 1}
    assert jit("clear") == {"removed": 1}
    assert main(["jit", "list"]) == 0
    assert "the cache is empty" in capsys.readouterr().out


def test_entries_that_are_only_read_stay(tmp_path: Path) -> None:
    for name in ("own", "image"):
        put(tmp_path / name, name[0] * 64, "common/gemm", "sm90a")
    ac4k.set_cache_dir(f"{tmp_path / 'own'}:{tmp_path / 'image'}")
    try:
        assert ac4k.jit.clear_cache(arch="sm90a") == 1
        assert [entry["key"][0] for entry in ac4k.jit.list_cache()] == ["i"]
    finally:
        ac4k.set_cache_dir("")


@needs_nvrtc
@pytest.mark.parametrize("writable", [True, False])
def test_build_says_what_was_not_kept(tmp_path: Path, writable: bool) -> None:
    place = tmp_path / "cache"
    if not writable:
        place.write_text("a file is no directory, not even for root")
    command = [sys.executable, "-m", "ac4k", "jit", "build", "--arch", "sm90a"]
    done = subprocess.run(
        [*command, "--module", "common/mul_add"],
        env={**os.environ, "AC4K_CACHE_DIR": str(place)},
        capture_output=True,
        text=True,
        check=True,
    )
    title = done.stdout.splitlines()[0]
    assert title.startswith(f"kernels compiled {'into the cache' if writable else 'and not kept'}")
