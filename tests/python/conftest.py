"""Which device the tests use: AC4K_TEST_DEVICE, cpu unless told otherwise."""

from __future__ import annotations

import os

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Doctests name `ac4k` without importing it; gpu-marked tests need a GPU."""


@pytest.fixture(scope="session")
def device() -> str:
    return os.environ.get("AC4K_TEST_DEVICE", "cpu")
