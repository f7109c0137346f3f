"""`import ac4k`: quick, without torch, and from a bare checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from reuse_object import LAUNCHER

import ac4k

ROOT = Path(__file__).resolve().parents[2]


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=600
    )


def test_import_is_quick_and_brings_neither_torch_nor_numpy() -> None:
    program = """
import sys, time
start = time.process_time()
import ac4k
print(time.process_time() - start, sorted({"torch", "numpy", "rich"} & set(sys.modules)))
"""
    times = []
    for _ in range(5):
        done = run(program)
        assert done.returncode == 0, done.stderr
        seconds, _, loaded = done.stdout.strip().partition(" ")
        assert loaded == "[]"
        times.append(float(seconds))
    assert min(times) < 0.1, times


def test_works_where_torch_is_not_installed() -> None:
    program = """
import sys
sys.modules["torch"] = None  # importing it fails
import ac4k, numpy as np
print(ac4k.gemm(np.eye(2), np.eye(2)).tolist())
"""
    done = run(program)
    assert done.stdout.strip() == "[[1.0, 0.0], [0.0, 1.0]]", done.stderr


def test_a_failed_torch_import_can_be_repeated(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('broken')\n")
    program = """
import ac4k
for _ in range(2):
    try:
        import torch
    except ImportError as error:
        print(error)
"""
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = run(program, PYTHONPATH=path)
    assert done.stdout.split() == ["broken", "broken"], done.stderr


def test_environment_sets_and_nonsense_is_named() -> None:
    program = "import ac4k; print(ac4k.info()['cpu'])"
    done = run(program, AC4K_CPU_ISA="generic", AC4K_NUM_THREADS="3")
    assert "'isa': 'generic'" in done.stdout
    assert "'threads': 3" in done.stdout
    done = run(program, AC4K_CPU_ISA="quantum", AC4K_NUM_THREADS="many")
    assert done.returncode == 0
    assert "ignored AC4K_CPU_ISA: " in done.stderr
    assert "quantum" in done.stderr
    assert "ignored AC4K_NUM_THREADS: " in done.stderr
    assert "many" in done.stderr
    assert run(program, AC4K_CPU_ISA="", AC4K_NUM_THREADS="").stderr == ""


def test_public_names_resolve() -> None:
    for name in ac4k.__all__:
        assert getattr(ac4k, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'gem'"):
        ac4k.gem  # noqa: B018


@pytest.mark.slow
def test_plain_checkout_builds_itself_once(tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("needs cmake")
    tree = tmp_path / "tree"
    for name in ("cmake", "include", "src", "python"):
        shutil.copytree(ROOT / name, tree / name)
    shutil.copy(ROOT / "CMakeLists.txt", tree)
    environment = {
        "PYTHONPATH": os.pathsep.join([str(tree / "python"), str(Path(numpy.__file__).parents[1])]),
        "AC4K_CACHE_DIR": str(tmp_path / "cache"),
        "AC4K_BACKEND": "cpu",
        **LAUNCHER,
    }
    program = (
        "import ac4k, numpy as np; print(ac4k.__file__, ac4k.gemm(np.eye(2), np.eye(2)).sum())"
    )
    # -S keeps the installed package out; PYTHONPATH brings NumPy back.
    command = [sys.executable, "-S", "-c", program]
    env = {**os.environ, **environment}
    first = subprocess.run(command, capture_output=True, text=True, env=env, timeout=900)
    assert first.returncode == 0, first.stderr
    assert str(tmp_path) in first.stdout
    assert "building the library" in first.stderr
    second = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60)
    assert second.returncode == 0
    assert second.stderr == ""
