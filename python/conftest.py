"""Names that the examples in docstrings use without importing them."""

import numpy as np
import pytest

import ac4k


@pytest.fixture(autouse=True)
def _names(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace["ac4k"] = ac4k
    doctest_namespace["np"] = np
