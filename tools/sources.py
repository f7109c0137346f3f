"""Lists the project's own sources, one a line: --cpp for C++ and CUDA, --python for Python."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("benchmarks", "examples", "include", "python", "src", "tests", "tools")
CPP = {".h", ".hpp", ".cpp", ".cu", ".cuh"}


def sources(suffixes: set[str]) -> list[Path]:
    """Files of the project with one of these suffixes; third-party code is left out."""
    return sorted(
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and not {"third_party", "templates"} & set(path.parts)
    )


if __name__ == "__main__":
    for path in sources(CPP if "--cpp" in sys.argv else {".py", ".pyi"}):
        print(path)
