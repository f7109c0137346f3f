"""`ac4k new`: what it writes compiles, passes its own tests and the project's linters."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from reuse_object import LAUNCHER

from ac4k.cli import main
from ac4k.new import new_op

ROOT = Path(__file__).resolve().parents[2]
NAME = "scaled_copy_of_a_test"  # long enough to move line ends
BIN = Path(sys.executable).parent

pytestmark = pytest.mark.skipif(not (ROOT / "src/ops").is_dir(), reason="needs the source tree")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the sources with a new op in it."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("cmake", "include", "src", "python", "tools"):
        ignored = shutil.ignore_patterns("__pycache__", "*.so", "lib")
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    for name in ("CMakeLists.txt", "pyproject.toml", ".clang-format"):
        shutil.copy(ROOT / name, copy / name)
    (copy / "tests/python").mkdir(parents=True)
    new_op(NAME, copy)
    return copy


def run(*command, cwd, **environment):
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def test_files_are_where_they_belong(tree):
    for path in (
        f"src/ops/{NAME}.cpp",
        f"src/cpu/common/{NAME}.cpp",
        f"src/cuda/common/{NAME}.cu",
        f"tests/python/test_{NAME}.py",
        f"python/ac4k/bench/cases/{NAME}.py",
    ):
        text = (tree / path).read_text()
        assert NAME in text
        assert not {"@name@", "@Name@", "@NAME@"} & set(text.split())
    assert f'"{NAME}": {NAME},' in (tree / "python/ac4k/reference/__init__.py").read_text()


@pytest.mark.skipif(not (BIN / "ruff").exists(), reason="needs ruff and clang-format")
def test_files_are_formatted(tree):
    python = [f"python/ac4k/bench/cases/{NAME}.py", f"tests/python/test_{NAME}.py"]
    run(BIN / "ruff", "check", *python, cwd=tree)
    run(BIN / "ruff", "format", "--check", *python, cwd=tree)
    cpp = list(tree.glob(f"src/**/{NAME}.*"))
    assert len(cpp) == 5
    run(BIN / "clang-format", "--dry-run", "-Werror", *cpp, cwd=tree)


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which("cmake") and shutil.which("ninja") and (BIN / "ruff").exists()),
    reason="needs cmake, ninja, ruff and clang-format",
)
def test_the_op_builds_and_passes_its_tests(tree):
    configure = ["-DAC4K_BACKEND=cpu", "-DAC4K_TESTS=OFF", f"-DPython_EXECUTABLE={sys.executable}"]
    run("cmake", "-S", ".", "-B", "build", "-G", "Ninja", *configure, cwd=tree, **LAUNCHER)
    run("cmake", "--build", "build", cwd=tree)
    run("cmake", "--install", "build", "--component", "python", "--prefix", "python", cwd=tree)
    # -S leaves out the .pth files, and with them the development install of the real tree.
    site = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    path = os.pathsep.join([str(tree / "python"), *sorted(site)])
    python = [sys.executable, "-S"]
    run(*python, "tools/generate.py", cwd=tree, PYTHONPATH=path)
    output = run(
        *python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/python/test_{NAME}.py",
        cwd=tree, PYTHONPATH=path,
    )  # fmt: skip
    assert "passed" in output
    assert "failed" not in output
    bench = [*python, "-m", "ac4k", "bench", NAME, "--quick", "--device", "cpu", "--json"]
    report = json.loads(run(*bench, cwd=tree, PYTHONPATH=path))
    assert {result["op"] for result in report["results"]} == {NAME}


@pytest.mark.parametrize("name", ["", "Upper", "9lives", "a-b", "class", "../escape"])
def test_bad_names_are_refused(name, tree):
    with pytest.raises(ValueError, match="no name for an op"):
        new_op(name, tree)


def test_names_in_use_are_refused(tree):
    with pytest.raises(ValueError, match=r"ac4k\.gemm exists"):
        new_op("gemm", tree)


def test_files_are_not_overwritten(tree):
    before = (tree / "python/ac4k/reference/__init__.py").read_text()
    with pytest.raises(ValueError, match="exists already"):
        new_op(NAME, tree)
    assert (tree / "python/ac4k/reference/__init__.py").read_text() == before


def test_elsewhere_is_refused(tmp_path, capsys):
    assert main(["new", "my_op", "--dir", str(tmp_path)]) == 1
    assert "not AC4K's source tree" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
