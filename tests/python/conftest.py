"""Which device the tests use: AC4K_TEST_DEVICE, cpu unless told otherwise."""

from __future__ import annotations

import os

import pytest

from ac4k._onednn import import_torch

import_torch()  # 16-bit products of its own die on virtual machines with half an AMX


@pytest.fixture(scope="session")
def device() -> str:
    return os.environ.get("AC4K_TEST_DEVICE", "cpu")
