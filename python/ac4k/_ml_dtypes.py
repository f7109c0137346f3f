"""NumPy's types that the package ml_dtypes adds, bfloat16 and the 8-bit floats: no dependency."""

from __future__ import annotations

from typing import Any


def added_dtype(name: str, what: str = "", advice: str = "") -> Any:
    """NumPy's dtype of this name, or an error that begins with `what` and ends with `advice`."""
    import numpy

    try:
        import ml_dtypes
    except ImportError as error:
        subject = f"{what}: " if what else ""
        text = f"{subject}NumPy has {name} from the package ml_dtypes, which is not installed"
        raise ImportError(f"{text}; {advice}" if advice else text) from error
    return numpy.dtype(getattr(ml_dtypes, name))
