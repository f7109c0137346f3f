"""`ac4k new my_op`: writes the files of a new op into a source tree.

What it writes is a complete, tested op (out = scale * x), small enough to be replaced line by line.
"""

from __future__ import annotations

import argparse
import json
import keyword
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ._console import UsageError, print_pairs, say

_TEMPLATES = Path(__file__).parent / "templates" / "new_op"
_FILES = {
    "op.cpp.in": ("src/ops/{name}.cpp", "declaration, checks, choice of kernel"),
    "cpu.hpp.in": ("src/cpu/common/{name}.hpp", "CPU kernel"),
    "cpu.cpp.in": ("src/cpu/common/{name}.cpp", "CPU kernel"),
    "cuda.h.in": ("src/cuda/common/{name}.h", "what the host hands to the GPU kernel"),
    "cuda.cu.in": ("src/cuda/common/{name}.cu", "GPU kernel"),
    "test.py.in": ("tests/python/test_{name}.py", "tests"),
    "case.py.in": ("python/ac4k/bench/cases/{name}.py", "benchmark"),
}
_REFERENCE = Path("python/ac4k/reference/__init__.py")
_TABLE_START = "REFERENCES: dict["


@dataclass(frozen=True)
class Written:
    path: Path
    purpose: str


def new_op(name: str, root: Path) -> list[Written]:
    """Writes the op's files below `root`; writes nothing when any of them could not be."""
    _check_name(name)
    root = root.resolve()
    if not (root / "src/ops").is_dir() or not (root / _REFERENCE).is_file():
        raise ValueError(f"{root} is not AC4K's source tree: it has no src/ops")
    texts: dict[Path, tuple[str, str]] = {}
    for template, (pattern, purpose) in _FILES.items():
        path = root / pattern.format(name=name)
        if path.exists():
            raise ValueError(f"{path} exists already")
        texts[path] = (_fill((_TEMPLATES / template).read_text(), name), purpose)
    texts[root / _REFERENCE] = (_with_reference(root, name), "float64 reference")
    for path, (text, _) in texts.items():
        path.write_text(text)
    _format_cpp([path for path in texts if path.suffix != ".py"], root)
    return [Written(path.relative_to(root), purpose) for path, (_, purpose) in texts.items()]


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UsageError(f"'{name}' is no name for an op; use words like scaled_square")
    import ac4k

    if hasattr(ac4k, name):
        raise ValueError(f"ac4k.{name} exists already")


def _fill(template: str, name: str) -> str:
    camel = "".join(word.capitalize() for word in name.split("_"))
    return template.replace("@name@", name).replace("@Name@", camel).replace("@NAME@", name.upper())


def _with_reference(root: Path, name: str) -> str:
    """The references with the op's function before the table and its entry at the table's end."""
    text = (root / _REFERENCE).read_text()
    function = _fill((_TEMPLATES / "reference.py.in").read_text(), name)
    head, start, tail = text.partition(_TABLE_START)
    entries, end, rest = tail.partition("\n}")
    if not start or not end:
        raise ValueError(f"{_REFERENCE} has no table REFERENCES to add to")
    return f'{head}{function}\n\n{start}{entries}\n    "{name}": {name},{end}{rest}'


def _format_cpp(paths: list[Path], root: Path) -> None:
    """A long name moves line ends; clang-format puts them right where it is installed."""
    beside = Path(sys.executable).parent / "clang-format"
    program = str(beside) if beside.exists() else shutil.which("clang-format")
    if program is not None:
        subprocess.run([program, "-i", *map(str, paths)], cwd=root, check=True)


def run(options: argparse.Namespace) -> int:
    written = new_op(options.name, Path(options.dir))
    commands = [
        ("make generate", f"compiles it and writes ac4k.{options.name}, stubs, headers, docs"),
        (f".venv/bin/pytest tests/python/test_{options.name}.py", "tests it"),
        (f".venv/bin/ac4k bench {options.name}", "times it against its roofline and PyTorch"),
    ]
    if options.json:
        block = {
            "files": [str(each.path) for each in written],
            "commands": [command for command, _ in commands],
        }
        print(json.dumps(block, indent=1))
        return 0
    print_pairs([(str(each.path), each.purpose) for each in written], title="wrote")
    say("")
    print_pairs(commands, title="next")
    return 0
