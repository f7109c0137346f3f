"""W4A16: 4-bit weights for 16-bit activations. Quantise, pack once, multiply.

Weights are scale * (q - 8), or scale * (q - zero), with codes q of 0 to 15 and one scale (and zero
point) for each row and group of columns. Scales have the dtype of the activations.
"""

from __future__ import annotations

import operator
import sys
from typing import Any, Literal

from ac4k import ops
from ac4k._w4_format import W4Format, w4_format
from ac4k.packed_linear import matrix_shape
from ac4k.quant_tensor import PACKED_COLUMNS, PACKED_ROWS, QuantTensor, packed_bytes

Activation = Literal["none", "silu", "gelu", "gelu_tanh"]

_SHORT = {"float16": "f16", "bfloat16": "bf16"}
_LONG = {short: name for name, short in _SHORT.items()}
# How names of dtypes begin whose values are numbers, those of ml_dtypes among them.
_REAL = ("bool", "int", "uint", "float", "bfloat")


def _error(
    op: str, argument: str, expected: str, got: object, kind: type[Exception] = ValueError
) -> Exception:
    return kind(f"{op}: argument '{argument}': expected {expected}, got {got}")


def _is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def _namespace(array: Any) -> Any:
    """torch or NumPy, whose functions used here are called alike."""
    if _is_torch(array):
        return sys.modules["torch"]
    import numpy

    return numpy


def dtype_name(array: Any) -> str:
    return str(getattr(array, "dtype", type(array).__name__)).removeprefix("torch.")


def cast(array: Any, dtype: str) -> Any:
    """To a dtype by its name, also NumPy's bfloat16 of ml_dtypes. What is too large is infinite."""
    if _is_torch(array):
        return array.to(getattr(sys.modules["torch"], dtype))
    import numpy

    with numpy.errstate(over="ignore"):
        if dtype == "bfloat16":
            from ac4k._ml_dtypes import added_dtype

            return array.astype(added_dtype("bfloat16", "dtype 'bfloat16'"))
        return array.astype(dtype)


def cast_finite(op: str, argument: str, array: Any, dtype: str) -> Any:
    """As `cast`, but an error where a finite number would not stay one."""
    xp = _namespace(array)
    result = cast(array, dtype)
    lost = xp.isfinite(array) & ~xp.isfinite(result)
    if bool(lost.any()):
        raise _error(op, argument, f"numbers that {dtype} can hold", float(array[lost][0]))
    return result


def checked_dtype(op: str, dtype: Any, allowed: tuple[str, ...] = tuple(_SHORT)) -> str:
    """The name of a dtype that is given by its name, or as torch's or NumPy's, as ops take them."""
    name = dtype.__name__ if isinstance(dtype, type) else str(dtype).removeprefix("torch.")
    if name not in allowed:
        expected = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
        raise _error(op, "dtype", expected, repr(dtype), TypeError)
    return name


def _check_matrix(op: str, argument: str, array: Any, shape: tuple[Any, ...] | None = None) -> None:
    given = getattr(array, "shape", None)
    if given is None or not hasattr(array, "dtype"):
        raise _error(op, argument, "a tensor or array", type(array).__name__, TypeError)
    if len(given) != 2 or (shape is not None and tuple(given) != shape):
        wanted = "two dims" if shape is None else f"shape {shape}"
        raise _error(op, argument, wanted, f"shape {tuple(given)}")


# ---- quantise ----


def w4a16_quantize(
    w: Any, group_size: int = 128, symmetric: bool = True, *, dtype: Any = None
) -> tuple[Any, Any, Any]:
    """Weights to 4-bit codes: (q uint8 [N, K], scales [N, K / group_size], zeros or None).

    w: floating point [N, K], finite; NumPy or torch.
    group_size: 32, 64, a multiple of 128, or K; K is a multiple of it.
    symmetric: w ~ scale * (q - 8), where the largest magnitude of a group is 7.5 steps; otherwise
        w ~ scale * (q - zero), where the range of a group, with 0 in it, is 15 steps.
    dtype: of scales and zeros, "float16" or "bfloat16"; w's by default where it is one of them,
        else float16.

    >>> import numpy as np
    >>> q, scales, zeros = ac4k.w4a16_quantize(np.eye(2, 128, dtype=np.float16))
    >>> q.shape, scales.shape, zeros
    ((2, 128), (2, 1), None)
    """
    op = "w4a16_quantize"
    _check_matrix(op, "w", w)
    if _is_torch(w):
        w = w.detach()
    xp = _namespace(w)
    name = dtype_name(w)
    if name not in ("float64", "float32", "float16", "bfloat16"):
        raise _error(op, "w", "floating-point weights", name, TypeError)
    if dtype is None:
        dtype = name if name in _SHORT else "float16"
    dtype = checked_dtype(op, dtype)
    rows, columns = map(int, w.shape)
    group_size = _checked_group(op, "group_size", group_size, columns)
    groups = cast(w, "float32").reshape(rows, columns // group_size, group_size)
    if not bool(xp.isfinite(groups).all()):
        raise _error(op, "w", "finite weights", "infinities or NaN")
    if groups.shape[1] == 0 or rows == 0:
        empty = cast(groups[..., 0], dtype)
        return cast(w, "uint8"), empty, None if symmetric else empty
    if symmetric:
        step = xp.amax(xp.abs(groups), -1) / 7.5
    else:
        low, high = (xp.clip(xp.amin(groups, -1), None, 0), xp.clip(xp.amax(groups, -1), 0, None))
        step = (high - low) / 15
    scales = cast(step, dtype)
    step = cast(scales, "float32")
    if not bool(xp.isfinite(step).all()):
        raise _error(op, "w", f"weights whose scales are {dtype}", "larger ones")
    # Nothing but zeros, or numbers too small for a scale: codes are those of zero.
    scales[step == 0] = 1
    step[step == 0] = 1
    codes = xp.round(groups / step[..., None])
    if symmetric:
        codes, zeros = xp.clip(codes, -8, 7) + 8, None
    else:
        zero = xp.clip(xp.round(-low / step), 0, 15)
        codes, zeros = xp.clip(codes + zero[..., None], 0, 15), cast(zero, dtype)
    return cast(codes.reshape(rows, columns), "uint8"), scales, zeros


def _checked_group(op: str, argument: str, group_size: Any, columns: int) -> int:
    try:
        size = 0 if isinstance(group_size, bool) else operator.index(group_size)
    except TypeError:
        size = 0
    if size <= 0:
        raise _error(op, argument, "a positive number of columns", repr(group_size))
    problem = W4Format(size, False, "f16").problem_with(columns)
    if problem is not None:
        raise ValueError(f"{op}: argument '{argument}': expected {problem}")
    return size


# ---- pack ----


def w4a16_pack(q: Any, scales: Any, zeros: Any = None, *, order: Any = None) -> QuantTensor:
    """Codes and scales in the order that `w4a16_linear` reads, on CPU and GPU alike.

    q: [N, K]; uint8 of 0 to 15, or int8 of -8 to 7. NumPy or torch.
    scales: float16 or bfloat16 [N, G] for groups of K / G columns: 32, 64, a multiple of 128, or K.
        Activations will have this dtype.
    zeros: [N, G] of any dtype, or None: weight = scale * (q - zero). Without, weight = scale *
        (q - 8) for uint8, scale * q for int8. They are stored in the dtype of the scales, and with
        int8 codes as zero + 8: rounded where they are no small integers, and refused where they
        become infinite.
    order: [K] integers where columns of q are not in the order of x's: column k of q multiplies
        column order[k] of x.

    The result is a `QuantTensor`, which modules, state dicts and `.to(device)` take like a tensor.

    >>> import numpy as np
    >>> q, scales = np.zeros((64, 256), np.uint8), np.ones((64, 2), np.float16)
    >>> ac4k.w4a16_pack(q, scales)
    QuantTensor(w4_g128_f16, shape=(64, 256), packed)
    """
    op = "w4a16_pack"
    _check_matrix(op, "q", q)
    _check_matrix(op, "scales", scales)
    rows, columns = map(int, q.shape)
    signed = dtype_name(q) == "int8"
    if dtype_name(q) not in ("uint8", "int8"):
        raise _error(op, "q", "uint8 or int8 codes", dtype_name(q), TypeError)
    low, high = (-8, 7) if signed else (0, 15)
    if 0 not in q.shape and not (int(q.min()) >= low and int(q.max()) <= high):
        raise _error(op, "q", f"codes of {low} to {high}", f"{int(q.min())} to {int(q.max())}")
    dtype = dtype_name(scales)
    if dtype not in _SHORT:
        raise _error(op, "scales", "float16 or bfloat16", dtype, TypeError)
    groups = int(scales.shape[1])
    if int(scales.shape[0]) != rows or (groups == 0) != (columns == 0):
        raise _error(op, "scales", f"shape ({rows}, groups)", f"shape {tuple(scales.shape)}")
    if groups and columns % groups != 0:
        raise _error(
            op, "scales", f"a number of groups that divides K = {columns}", f"{groups} groups"
        )
    group_size = _checked_group(op, "scales", columns // groups if groups else 128, columns)
    if zeros is not None:
        _check_matrix(op, "zeros", zeros, (rows, groups))
        if not dtype_name(zeros).startswith(_REAL):
            raise _error(op, "zeros", "real numbers", dtype_name(zeros), TypeError)
        zeros = cast_finite(op, "zeros", cast(zeros, "float64") + (8 if signed else 0), dtype)
    if signed:
        q = cast(q + 8, "uint8")
    fmt = W4Format(group_size, zeros is not None, _SHORT[dtype], order is not None)
    device = getattr(q, "device", None)

    def plain(array: Any) -> Any:
        array = (
            array.contiguous() if _is_torch(array) else _namespace(array).ascontiguousarray(array)
        )
        return array.cpu() if _is_torch(array) else array

    packed = ops.w4a16_pack_weight(
        plain(q), plain(scales), None if zeros is None else plain(zeros), layout=fmt.layout
    )
    if order is not None:
        packed = _with_order(op, packed.reshape(-1), order, columns)
    if _is_torch(packed):
        packed = packed.to(device)
    return QuantTensor(packed, fmt.name, (rows, columns), "packed")


def _with_order(op: str, packed: Any, order: Any, columns: int) -> Any:
    import numpy

    numbers = numpy.asarray(order.cpu() if _is_torch(order) else order)
    if numbers.dtype.kind not in "iu" or not numpy.array_equal(
        numpy.sort(numbers.reshape(-1)), numpy.arange(columns)
    ):
        raise _error(
            op, "order", f"each of 0 to {columns - 1} once", f"{numbers.dtype} {numbers!r}"
        )
    tail = numbers.reshape(-1).astype("<i4").view(numpy.uint8)
    if _is_torch(packed):
        torch = sys.modules["torch"]
        return torch.cat([packed, torch.from_numpy(tail)])
    return numpy.concatenate([packed, tail])


# ---- parts of a packed weight ----


def w4_of(op: str, w: Any, argument: str = "packed") -> W4Format:
    """The format of a packed W4A16 weight, or an error that says what was given instead."""
    if not isinstance(w, QuantTensor):
        raise _error(op, argument, "a QuantTensor of ac4k.w4a16_pack", type(w).__name__, TypeError)
    fmt = w4_format(w.format)
    if fmt is None:
        raise _error(op, argument, "weights of ac4k.w4a16_pack", repr(w))
    return fmt


def split_packed(w: QuantTensor, fmt: W4Format) -> tuple[Any, Any]:
    """The packed blocks [row tiles, blocks, bytes] and the order of columns or None."""
    rows, columns = int(w.shape[0]), int(w.shape[1])
    values, size = fmt.block
    depth = max(values, PACKED_COLUMNS)
    tile = PACKED_ROWS * (depth // values) * size
    shape = (-(-rows // PACKED_ROWS), -(-columns // depth), tile)
    flat = w.raw.reshape(-1)
    if not fmt.ordered:
        return flat.reshape(shape), None
    count = packed_bytes(fmt._replace(ordered=False).name, rows, columns)
    order = flat[count:].view(_namespace(flat).int32)
    return flat[:count].reshape(shape), order


def w4a16_unpack(packed: QuantTensor) -> tuple[Any, Any, Any]:
    """What was given to `w4a16_pack`, exactly: (q uint8 [N, K], scales, zeros or None).

    Signed codes and zeros come back 8 larger. Columns that were given an `order` stay in it, and
    `w4a16_order` says which: both together make the same weight again.

    >>> import numpy as np
    >>> q, scales = np.full((2, 64), 3, np.uint8), np.ones((2, 2), np.float16)
    >>> codes, same, _ = ac4k.w4a16_unpack(ac4k.w4a16_pack(q, scales))
    >>> bool((codes == q).all() and (same == scales).all())
    True
    """
    fmt = w4_of("w4a16_unpack", packed)
    rows, columns = matrix_shape("w4a16_unpack", "packed", packed)
    blocks, _ = split_packed(packed, fmt)
    q, scales, zeros = _unpacked(blocks, rows, columns, fmt)
    return q, scales, zeros if fmt.zeros else None


def _unpacked(blocks: Any, rows: int, columns: int, fmt: W4Format) -> Any:
    groups = columns // fmt.group_size
    dtype = _LONG[fmt.dtype]
    if getattr(getattr(blocks, "device", None), "type", "cpu") != "cuda":
        return ops.w4a16_unpack_weight(
            blocks, rows, columns, groups, layout=fmt.layout, dtype=dtype
        )
    parts = _unpacked(blocks.cpu(), rows, columns, fmt)
    return tuple(part.to(blocks.device) for part in parts)


def w4a16_order(packed: QuantTensor) -> Any:
    """The column of x that each column of the codes multiplies, int32 [K]; None where they agree.

    >>> import numpy as np
    >>> q, scales = np.zeros((1, 32), np.uint8), np.ones((1, 1), np.float16)
    >>> packed = ac4k.w4a16_pack(q, scales, order=np.arange(32)[::-1])
    >>> ac4k.w4a16_order(packed)[:3].tolist()
    [31, 30, 29]
    >>> ac4k.w4a16_order(ac4k.w4a16_pack(q, scales)) is None
    True
    """
    fmt = w4_of("w4a16_order", packed)
    matrix_shape("w4a16_order", "packed", packed)
    order = split_packed(packed, fmt)[1]  # a view of the weight's bytes, not to be given away
    if order is None:
        return None
    return order.clone() if _is_torch(order) else order.copy()


def w4a16_dequantize(packed: QuantTensor, dtype: Any = "float32") -> Any:
    """The weights [N, K] that packed ones stand for, computed in float32.

    dtype: "float64", "float32", "float16" or "bfloat16".

    >>> import numpy as np
    >>> w = ac4k.w4a16_pack(np.full((1, 32), 9, np.uint8), np.full((1, 1), 0.5, np.float16))
    >>> float(ac4k.w4a16_dequantize(w).sum())
    16.0
    """
    op = "w4a16_dequantize"
    fmt = w4_of(op, packed)
    name = checked_dtype(op, dtype, ("float64", "float32", *_SHORT))
    rows, columns = matrix_shape(op, "packed", packed)
    blocks, order = split_packed(packed, fmt)
    q, scales, zeros = (cast(part, "float32") for part in _unpacked(blocks, rows, columns, fmt))
    grouped = q.reshape(rows, columns // fmt.group_size, fmt.group_size)
    values = (scales[..., None] * (grouped - zeros[..., None])).reshape(rows, columns)
    if order is not None:
        ordered = _namespace(values).zeros_like(values)
        ordered[:, cast(order, "int64")] = values
        values = ordered
    return cast(values, name)


# ---- multiply ----


def w4a16_linear(
    x: Any,
    packed: QuantTensor,
    bias: Any = None,
    alpha: float = 1.0,
    *,
    activation: Activation = "none",
    residual: Any = None,
    config: int = 0,
    out: Any = None,
) -> Any:
    """activation(alpha * x W^T + bias) + residual with 4-bit weights, for any number of tokens.

    x: [..., K] of the dtype of the weights' scales, float16 or bfloat16; NumPy or torch, with a
        contiguous last dim.
    packed: [N, K], made by `w4a16_pack`.
    bias: [N]. residual: [..., N], may be `out`. out: [..., N] to write into. All contiguous.
    activation: "none", "silu", "gelu" or "gelu_tanh".
    config: a kernel by its number in `W4A16Runner.configs`; 0 leaves it to the library.

    Sums are kept in float32 and rounded once, behind activation and residual.

    >>> import numpy as np
    >>> w = ac4k.w4a16_pack(np.full((3, 64), 9, np.uint8), np.full((3, 2), 0.5, np.float16))
    >>> ac4k.w4a16_linear(np.ones((1, 64), np.float16), w, alpha=0.5).tolist()
    [[16.0, 16.0, 16.0]]
    """
    op = "w4a16_linear"
    fmt = w4_of(op, packed)
    rows, columns = matrix_shape(op, "packed", packed)
    shape = tuple(getattr(x, "shape", ()))
    if not shape or shape[-1] != columns:
        raise _error(
            op,
            "x",
            f"[..., {columns}], as 'packed' has {columns} columns",
            shape or type(x).__name__,
        )
    if dtype_name(x) != _LONG[fmt.dtype]:
        raise _error(
            op, "x", f"{_LONG[fmt.dtype]}, as the scales of 'packed'", dtype_name(x), TypeError
        )
    blocks, order = split_packed(packed, fmt)
    if order is not None:
        x = _gathered(x, order)
    return ops.w4a16_gemm(
        x,
        blocks,
        bias,
        alpha,
        residual,
        N=rows,
        layout=fmt.layout,
        activation=activation,
        config=config,
        **({} if out is None else {"out": out}),
    )


def _gathered(x: Any, order: Any) -> Any:
    """x in the order of the weight's columns; either may be NumPy's or torch's."""
    if _is_torch(x):
        return x.index_select(-1, sys.modules["torch"].as_tensor(order, device=x.device))
    import numpy

    return numpy.take(x, numpy.asarray(order), -1)
