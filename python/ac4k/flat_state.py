"""State dicts as files of plain tensors (safetensors) take them: bytes, and what they are."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from typing import Any

from ac4k.quant_tensor import QuantTensor

_KEY = "ac4k.quant_tensors"  # in a file's metadata


def flatten_state_dict(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """(tensors, metadata): a `QuantTensor` as its bytes, and in texts what `state` had instead.

    >>> import numpy as np
    >>> weight = ac4k.QuantTensor(np.zeros((5, 2, 18), np.uint8), "q4_0", (5, 64))
    >>> tensors, metadata = ac4k.flatten_state_dict({"weight": weight, "bias": np.zeros(5)})
    >>> tensors["weight"].shape
    (5, 2, 18)
    >>> ac4k.unflatten_state_dict(tensors, metadata)["weight"]
    QuantTensor(q4_0, shape=(5, 64))
    """
    quantised = {name: each for name, each in state.items() if isinstance(each, QuantTensor)}
    tensors = {**state, **{name: each.raw for name, each in quantised.items()}}
    parts = {
        name: (each.format, tuple(each.shape), each.block_layout)
        for name, each in quantised.items()
    }
    return tensors, {_KEY: json.dumps(parts)}


def unflatten_state_dict(
    tensors: Mapping[str, Any], metadata: Mapping[str, str] | None
) -> dict[str, Any]:
    """What was given to `flatten_state_dict`; the tensors alone where metadata does not say.

    tensors: all of them or some, as shards have them, each with the metadata of the whole.
    """
    parts = _parts(metadata)
    return {
        name: _quant_tensor(name, each, parts[name]) if name in parts else each
        for name, each in tensors.items()
    }


def _parts(metadata: Mapping[str, str] | None) -> dict[str, Any]:
    text = (metadata or {}).get(_KEY, "{}")
    try:
        parts = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise _error(f"that of flatten_state_dict, got {type(error).__name__}: {error}") from error
    if not isinstance(parts, dict):
        raise _error(f"that of flatten_state_dict, got {_KEY} = {reprlib.repr(text)}")
    return parts


def _quant_tensor(name: str, data: Any, part: Any) -> QuantTensor:
    try:
        return QuantTensor(data, *part)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise _error(
            f"format, shape and layout of tensor {name!r}, got {reprlib.repr(part)}: {error}"
        ) from error


def _error(expected_and_got: str) -> ValueError:
    return ValueError(f"unflatten_state_dict: argument 'metadata': expected {expected_and_got}")
