"""Numbers as text where the locale writes them with a comma."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import json, locale, sys
locale.setlocale(locale.LC_ALL, sys.argv[1])
import ac4k
facts = [ac4k.op_table(), ac4k.jit.list_cache()]
print(json.dumps([locale.localeconv()["decimal_point"], *facts]))
"""


@pytest.fixture
def comma_locale(tmp_path: Path) -> Path:
    """A folder for LOCPATH with the locale de_DE.UTF-8."""
    localedef = shutil.which("localedef")
    if localedef is None:
        pytest.skip("needs localedef")
    folder = tmp_path / "locales"
    folder.mkdir()
    command = [localedef, "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("needs the sources of a locale")
    return folder


def test_declarations_and_the_cache_do_not_depend_on_it(tmp_path: Path, comma_locale: Path) -> None:
    entry = tmp_path / "cache" / "jit" / "0123"
    entry.mkdir(parents=True)
    (entry / "meta.json").write_text('{"name": "scale", "seconds": 0.125, "size": 7}')
    env = {**os.environ, "LOCPATH": str(comma_locale), "AC4K_CACHE_DIR": str(tmp_path / "cache")}

    def run(locale: str) -> list[Any]:
        command = [sys.executable, "-c", PROGRAM, locale]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        facts: list[Any] = json.loads(done.stdout)
        return facts

    ours, theirs = run("C"), run("de_DE.UTF-8")
    assert (ours[0], theirs[0]) == (".", ",")
    assert ours[1:] == theirs[1:]
    (listed,) = theirs[2]
    assert (listed["name"], listed["seconds"]) == ("scale", 0.125)
