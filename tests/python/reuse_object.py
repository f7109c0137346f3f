"""Stands in front of the compiler in tests that build a copy of the tree: an object that the
development build has made from the same source with the same flags is copied, not compiled again.

CMake takes it as CMAKE_CXX_COMPILER_LAUNCHER, by a variable of the environment (`LAUNCHER`).
"""

import json
import os
import shlex
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/dev"
LAUNCHER = {"CMAKE_CXX_COMPILER_LAUNCHER": f"{sys.executable};-S;{Path(__file__).resolve()}"}


def flags(command: list[str]) -> list[str]:
    """What decides the object, but for the files read (warnings do not)."""
    return sorted(word for word in command if word.startswith(("-D", "-O", "-f", "-m", "-s")))


def object_made_before(command: list[str]) -> Path | None:
    if not {"-c", "-o"} <= set(command):
        return None
    source, target = Path(command[command.index("-c") + 1]), command[command.index("-o") + 1]
    known = BUILD / "compile_commands.json"
    for entry in json.loads(known.read_text()) if known.exists() else ():
        its_command = shlex.split(entry["command"])
        if its_command[its_command.index("-o") + 1] != target:
            continue
        same = Path(entry["file"]).read_bytes() == source.read_bytes()
        same &= flags(its_command) == flags(command)
        return BUILD / target if same and (BUILD / target).exists() else None
    return None


def main(command: list[str]) -> None:
    made = object_made_before(command)
    if made is None:
        os.execvp(command[0], command)
    shutil.copy(made, command[command.index("-o") + 1])
    if "-MF" in command:
        Path(command[command.index("-MF") + 1]).write_text("")


if __name__ == "__main__":
    main(sys.argv[1:])
