"""The model as pytest's GPU, one a process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/model"), str(ROOT / "tests/python")]
LIBRARIES = ROOT / "build/dev/model"

from gpu import Gpu  # noqa: E402


@pytest.fixture(scope="session")
def gpu() -> Gpu:
    return Gpu(LIBRARIES, ROOT / "build/model")
