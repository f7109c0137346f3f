"""What lies in the folder of a checkpoint as Hugging Face has them: tensors, and what they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

GptqVersion = Literal["v1", "v2"]

_TENSORS = ("model.safetensors.index.json", "model.safetensors")
# File, and the part of it that is about quantisation; None is all of it.
_CONFIGS = (("quantize_config.json", None), ("config.json", "quantization_config"))
_VERSIONS: dict[str, GptqVersion] = {"gptq": "v1", "gptq_v2": "v2"}


def file_of_tensors(op: str, path: Path) -> Path:
    """`path`, or where that is a folder, the file in it that says where tensors are."""
    if not path.is_dir():
        return path
    for name in _TENSORS:
        if (path / name).exists():
            return path / name
    raise ValueError(
        f"{op}: argument 'path': expected a file, or a folder with {' or '.join(_TENSORS)}, "
        f"got {path}"
    )


def gptq_version(op: str, folder: Path) -> GptqVersion:
    """How zero points are stored, by what a configuration says; "v1" without one."""
    for name, part in _CONFIGS:
        path = folder / name
        if not path.exists():
            continue
        try:
            config = json.loads(path.read_text("utf-8"))
            config = config if part is None else config.get(part) or {}
            version = _version_in(config)
        except (ValueError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"{op}: argument 'version': expected v1 or v2, or a configuration in JSON that "
                f"says so, got {path} ({type(error).__name__}: {error})"
            ) from None
        if version is not None:
            return version
    return "v1"


def _version_in(config: dict[str, Any]) -> GptqVersion | None:
    if "auto-round" not in str(config.get("quant_method")):
        return _VERSIONS.get(str(config.get("checkpoint_format")))
    # "auto_round:auto_gptq" is GPTQ's; the others, "auto_round:gptqmodel" too, store them as are.
    packing = str(config.get("packing_format") or config.get("backend") or "auto_gptq").split(":")
    return "v1" if "auto_gptq" in packing or "gptq" in packing else "v2"
