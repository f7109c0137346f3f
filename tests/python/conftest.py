"""Which device the tests use: AC4K_TEST_DEVICE, cpu unless told otherwise; levels of the CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from helpers import cpu_levels

import ac4k
from ac4k._onednn import import_torch

import_torch()  # 16-bit products of its own die on virtual machines with half an AMX


@pytest.fixture(scope="session")
def device() -> str:
    return os.environ.get("AC4K_TEST_DEVICE", "cpu")


@pytest.fixture(params=cpu_levels())
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs the test on every level this CPU has."""
    ac4k.set_cpu_isa(request.param)
    yield request.param
    ac4k.set_cpu_isa("auto")
