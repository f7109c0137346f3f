"""Which device the tests use: AC4K_TEST_DEVICE, cpu unless told otherwise."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session")
def device() -> str:
    return os.environ.get("AC4K_TEST_DEVICE", "cpu")
