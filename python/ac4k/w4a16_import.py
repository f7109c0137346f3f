"""W4A16 weights as GPTQ and AWQ checkpoints keep them: eight codes to an int32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ac4k._checkpoint_folder import GptqVersion, file_of_tensors, gptq_version
from ac4k.quant_tensor import QuantTensor
from ac4k.w4a16 import cast_finite, checked_dtype, dtype_name, w4a16_pack

# Which column of eight each nibble of an AWQ word is, lowest first.
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
_SCALES: tuple[str, ...] = ("float16", "bfloat16", "float32")


def w4a16_from_gptq(
    qweight: Any,
    qzeros: Any,
    scales: Any,
    g_idx: Any = None,
    *,
    version: GptqVersion = "v1",
    dtype: Any = None,
) -> QuantTensor:
    """A packed weight from the tensors of a GPTQ layer.

    qweight: int32 [K / 8, N]. qzeros: int32 [G, N / 8], less one in version "v1", as they are in
        "v2". scales: [G, N]. g_idx: int32 [K], the group of each column, or None where groups
        follow each other. NumPy or torch.
    dtype: of the activations, "float16" or "bfloat16"; that of the scales by default. Scales are
        rounded to it; ones that become infinite are refused.

    With act-order (a g_idx that jumps) columns are sorted by group and `w4a16_linear` gathers those
    of x. Zero points that are all 8 are left out: the weight is symmetric.

    >>> import numpy as np
    >>> qweight, qzeros = np.zeros((16, 64), np.int32), np.full((1, 8), 0x77777777, np.int32)
    >>> ac4k.w4a16_from_gptq(qweight, qzeros, np.ones((1, 64), np.float16))
    QuantTensor(w4_g128_f16, shape=(64, 128), packed)
    """
    op = "w4a16_from_gptq"
    _check_version(op, version)
    numpy_tensors = _as_numpy(op, qweight=qweight, qzeros=qzeros, scales=scales, g_idx=g_idx)
    words, zero_words, steps, groups_of = numpy_tensors
    _check_dims(op, "qweight", words, 2)
    _check_dims(op, "scales", steps, 2)
    columns, rows = words.shape[0] * 8, words.shape[1]
    groups = _check_scales(op, steps, zero_words, rows, columns)
    codes = _nibbles(words, range(8), axis=0)  # [K, N]
    zeros = _nibbles(zero_words, range(8), axis=1)  # [G, N]
    if version == "v1":
        zeros = (zeros + 1) & 15
    order = None
    if groups_of is not None:
        order = _order_of(op, groups_of, columns, groups)
    if order is not None:
        codes = codes[order]
    return _packed(op, qweight, codes, steps, zeros, order, dtype)


def w4a16_from_awq(qweight: Any, qzeros: Any, scales: Any, *, dtype: Any = None) -> QuantTensor:
    """A packed weight from the tensors of an AWQ layer.

    qweight: int32 [K, N / 8]. qzeros: int32 [G, N / 8]. scales: [G, N]. NumPy or torch.
    dtype: as in `w4a16_from_gptq`.

    >>> import numpy as np
    >>> qweight, qzeros = np.zeros((128, 8), np.int32), np.zeros((1, 8), np.int32)
    >>> ac4k.w4a16_from_awq(qweight, qzeros, np.ones((1, 64), np.float16), dtype="bfloat16")
    QuantTensor(w4_g128z_bf16, shape=(64, 128), packed)
    """
    op = "w4a16_from_awq"
    words, zero_words, steps, _ = _as_numpy(op, qweight=qweight, qzeros=qzeros, scales=scales)
    _check_dims(op, "qweight", words, 2)
    _check_dims(op, "scales", steps, 2)
    columns, rows = words.shape[0], words.shape[1] * 8
    _check_scales(op, steps, zero_words, rows, columns)
    codes = _nibbles(words, _AWQ_ORDER, axis=1)
    zeros = _nibbles(zero_words, _AWQ_ORDER, axis=1)
    return _packed(op, qweight, codes, steps, zeros, None, dtype)


def w4a16_load(
    path: str | Path, prefix: str, *, dtype: Any = None, version: GptqVersion | None = None
) -> QuantTensor:
    """A packed weight from a safetensors checkpoint, GPTQ or AWQ.

    path: a `.safetensors` file, the `.index.json` of several, or a folder with model.safetensors
        or its index.
    prefix: the layer, such as "model.layers.0.mlp.up_proj": its tensors are prefix + ".qweight",
        ".qzeros", ".scales" and, for GPTQ, maybe ".g_idx".
    dtype: as in `w4a16_from_gptq`.
    version: of GPTQ's zero points. None goes by the `checkpoint_format` of quantize_config.json or
        config.json beside the file ("gptq_v2" is "v2"), or AutoRound's `packing_format`, and is
        "v1" where they do not say.

    What the tensors are follows from their shapes. The result is over NumPy; `.to(device)` makes a
    torch tensor of it.
    """
    from ac4k._safetensors import open_checkpoint

    op = "w4a16_load"
    if version is not None:
        _check_version(op, version)
    file = file_of_tensors(op, Path(path))
    checkpoint = open_checkpoint(file)
    names = {part: f"{prefix}.{part}" for part in ("qweight", "qzeros", "scales", "g_idx")}
    for part in ("qweight", "qzeros", "scales"):
        if names[part] not in checkpoint:
            layers = sorted(
                n.removesuffix(".qweight") for n in checkpoint if n.endswith(".qweight")
            )
            known = ", ".join(layers[:5]) + (", ..." if len(layers) > 5 else "")
            raise ValueError(
                f"{op}: argument 'prefix': expected a quantised layer of {path} "
                f"({known or 'it has none'}), got {prefix!r}, which has no {part}"
            )
    qweight, qzeros, scales = (checkpoint[names[p]] for p in ("qweight", "qzeros", "scales"))
    _check_dims(op, names["qweight"], qweight, 2)
    _check_dims(op, names["scales"], scales, 2)
    if qweight.shape[1] * 8 == scales.shape[1]:
        return w4a16_from_awq(qweight, qzeros, scales, dtype=dtype)
    g_idx = checkpoint.get(names["g_idx"], None)
    version = version or gptq_version(op, file.parent)
    return w4a16_from_gptq(qweight, qzeros, scales, g_idx, version=version, dtype=dtype)


# ---- details ----


def _check_version(op: str, version: str) -> None:
    if version not in ("v1", "v2"):
        raise ValueError(f"{op}: argument 'version': expected v1 or v2, got {version!r}")


def _as_numpy(op: str, **tensors: Any) -> tuple[Any, Any, Any, Any]:
    """On the CPU, packing being done there. torch's scales stay torch's, which has bfloat16."""
    import numpy

    found: list[Any] = []
    for name, tensor in tensors.items():
        if tensor is None and name == "g_idx":
            found.append(None)
            continue
        if not hasattr(tensor, "shape") or not hasattr(tensor, "dtype"):
            raise TypeError(
                f"{op}: argument '{name}': expected a tensor or array, got {type(tensor).__name__}"
            )
        given = dtype_name(tensor)
        if name == "scales":
            kind, fine = _SCALES, given in _SCALES
        elif name == "g_idx":
            kind, fine = ("int32",), given.startswith(("int", "uint"))
        else:
            kind, fine = ("int32",), given in ("int32", "uint32")
        if not fine:
            raise TypeError(f"{op}: argument '{name}': expected {' or '.join(kind)}, got {given}")
        if hasattr(tensor, "detach"):
            tensor = tensor.detach().cpu()
            if name == "scales":
                found.append(tensor)
                continue
        found.append(numpy.asarray(tensor))
    qweight, qzeros, scales, *g_idx = found
    return qweight, qzeros, scales, g_idx[0] if g_idx else None


def _check_dims(op: str, argument: str, array: Any, ndim: int) -> None:
    if array.ndim != ndim:
        raise ValueError(
            f"{op}: argument '{argument}': expected {ndim} dims, got {tuple(array.shape)}"
        )


def _check_scales(op: str, scales: Any, qzeros: Any, rows: int, columns: int) -> int:
    """The number of groups."""
    groups = scales.shape[0]
    if scales.shape[1] != rows or groups == 0 or columns % groups != 0:
        raise ValueError(
            f"{op}: argument 'scales': expected [G, {rows}] with a G that divides K = {columns}, "
            f"got {tuple(scales.shape)}"
        )
    if rows % 8 != 0 or qzeros.shape != (groups, rows // 8):
        raise ValueError(
            f"{op}: argument 'qzeros': expected 4-bit zero points [{groups}, {rows / 8:g}], "
            f"got {qzeros.shape}"
        )
    return int(groups)


def _nibbles(words: Any, order: Any, axis: int) -> Any:
    """Eight codes of each word along `axis`; nibble i is code order[i]."""
    import numpy

    words = numpy.ascontiguousarray(words).view(numpy.uint32)
    shape = list(words.shape)
    shape[axis] *= 8
    codes = numpy.empty(shape, numpy.uint8)
    for i, place in enumerate(order):
        where = [slice(None)] * 2
        where[axis] = slice(place, None, 8)
        codes[tuple(where)] = (words >> numpy.uint32(4 * i)) & numpy.uint32(15)
    return codes


def _order_of(op: str, g_idx: Any, columns: int, groups: int) -> Any:
    """Columns sorted by group; None where they already are."""
    import numpy

    group = columns // groups
    expected = numpy.repeat(numpy.arange(groups), group)
    if g_idx.shape != (columns,):
        raise ValueError(f"{op}: argument 'g_idx': expected shape ({columns},), got {g_idx.shape}")
    if numpy.array_equal(g_idx, expected):
        return None
    order = numpy.argsort(g_idx, kind="stable")
    if not numpy.array_equal(g_idx[order], expected):
        raise ValueError(
            f"{op}: argument 'g_idx': expected {group} columns of each of {groups} groups, "
            f"got groups {int(g_idx.min())} to {int(g_idx.max())} of other sizes"
        )
    return order


def _packed(
    op: str, like: Any, codes: Any, scales: Any, zeros: Any, order: Any, dtype: Any
) -> QuantTensor:
    """From [K, N] and [G, N] to a weight of the kind, and on the device, of `like`."""
    if dtype is None:
        dtype = "float16" if dtype_name(scales) == "float32" else dtype_name(scales)
    scales = cast_finite(op, "scales", scales.T, checked_dtype(op, dtype))
    symmetric = bool((zeros == 8).all())
    codes, zeros = codes.T, None if symmetric else zeros.T
    if not hasattr(like, "detach"):
        return w4a16_pack(codes, scales, zeros, order=order)
    import torch

    codes = torch.from_numpy(codes)
    zeros = None if zeros is None else torch.from_numpy(zeros)
    return w4a16_pack(codes, scales, zeros, order=order).to(like.device)
