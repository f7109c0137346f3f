"""`W4A16Runner`: products with 4-bit weights by a kernel of one's choice, timed and remembered."""

from __future__ import annotations

import sys
from typing import Any, Literal, NamedTuple

from ac4k import _native
from ac4k.packed_linear import device_numbers, sizes_of_64_bits
from ac4k.quant_tensor import QuantTensor
from ac4k.w4a16 import Activation, checked_dtype, split_packed, w4_of, w4a16_linear

Quant = Literal["per_channel", "group", "group_zeros"]

_QUANTS: tuple[Quant, ...] = ("per_channel", "group", "group_zeros")


class Tuned(NamedTuple):
    best: int
    microseconds: list[float]  # of each config


class W4A16Runner:
    """Multiplies by packed 4-bit weights with a kernel that can be chosen.

    dtype: of the activations, "float16" or "bfloat16".
    quant: "per_channel" (one scale a row), "group" or "group_zeros".
    device: "cpu", "cuda" (which is "cuda:0") or "cuda:1"; tensors have to be there.

    The same from C++ is `ac4k::W4A16Runner` in `ac4k/w4a16.hpp`, from C the functions of
    `ac4k/w4a16.h`.

    >>> runner = ac4k.W4A16Runner("bfloat16", "group")
    >>> runner.configs(1, 4096, 4096)[0]
    'auto'
    >>> runner.workspace_size(1, 4096, 4096)
    0
    """

    def __init__(self, dtype: Any, quant: Quant = "group", device: Any = "cpu") -> None:
        name = checked_dtype("W4A16Runner", dtype)
        if quant not in _QUANTS:
            raise ValueError(
                f"W4A16Runner: argument 'quant': expected {', '.join(_QUANTS)}, got {quant!r}"
            )
        place = device_numbers("W4A16Runner", device)
        self.dtype, self.quant, self.device = name, quant, str(device).removesuffix(":")
        self._handle = _native.C.w4a16_runner(name == "bfloat16", _QUANTS.index(quant), *place)

    def __reduce__(self) -> tuple[Any, ...]:
        # Modules that have one are copied and pickled; a handle is not.
        return type(self), (self.dtype, self.quant, self.device)

    def workspace_size(self, M: int, N: int, K: int) -> int:
        """Bytes that a product needs besides its tensors."""
        sizes = sizes_of_64_bits("W4A16Runner.workspace_size", M=M, N=N, K=K)
        return _native.C.w4a16_workspace_size(self._handle, *sizes)

    def configs(self, M: int, N: int, K: int) -> list[str]:
        """Names of the kernels that can multiply this size, by number; the first is "auto"."""
        sizes = sizes_of_64_bits("W4A16Runner.configs", M=M, N=N, K=K)
        return _native.C.w4a16_configs(self._handle, *sizes)

    def best_config(self, M: int, N: int, K: int, group_size: int | None = None) -> int:
        """The config for a size: as `tune` found here, now or earlier; else by table.

        group_size: 128 unless told otherwise, and K for "per_channel".
        """
        if group_size is None:
            group_size = K if self.quant == "per_channel" else 128
        sizes = sizes_of_64_bits("W4A16Runner.best_config", M=M, N=N, K=K, group_size=group_size)
        return _native.C.w4a16_best_config(self._handle, *sizes)

    def gemm(
        self,
        x: Any,
        packed: QuantTensor,
        bias: Any = None,
        alpha: float = 1.0,
        *,
        activation: Activation = "none",
        residual: Any = None,
        config: int | str | None = None,
        out: Any = None,
    ) -> Any:
        """activation(alpha * x W^T + bias) + residual, as `w4a16_linear`.

        config: a number or a name of `configs`; None asks `best_config`, and under torch.compile,
            which asks for any M at once, leaves the choice to the library. Graphs take numbers: a
            name, which is looked up for an M, breaks them.
        """
        M, N, K, group_size = self._sizes("gemm", x, packed)
        if config is None and _is_compiling():
            number = 0
        elif config is None:
            number = self.best_config(M, N, K, group_size)
        elif isinstance(config, str):
            names = self.configs(M, N, K)
            if config not in names:
                raise ValueError(
                    f"W4A16Runner.gemm: argument 'config': expected one of {', '.join(names)}, "
                    f"got {config!r}"
                )
            number = names.index(config)
        else:
            number = config
        return w4a16_linear(
            x,
            packed,
            bias,
            alpha,
            activation=activation,
            residual=residual,
            config=number,
            out=out,
        )

    def tune(self, x: Any, packed: QuantTensor, seconds: float = 0.5) -> Tuned:
        """Times every config on these tensors and keeps the fastest for `best_config`, in the
        cache directory too: (number of the best, microseconds of each)."""
        M, N, K, group_size = self._sizes("tune", x, packed)
        # A result of x's kind and place, to be written again and again.
        out = w4a16_linear(x, packed).reshape(M, N)
        blocks, _ = split_packed(packed, w4_of("W4A16Runner.tune", packed))
        rows = x.reshape(M, K)
        rows = rows.contiguous() if hasattr(rows, "contiguous") else rows.copy(order="C")
        described = [_native.C.describe(array) for array in (rows, blocks, out)]
        a, b, c = (each[0] for each in described)
        product = (a, b, int(blocks.nbytes), c, M, N, K, group_size)
        return Tuned(*_native.C.w4a16_tune(self._handle, product, described[0][4], seconds))

    def _sizes(self, function: str, x: Any, packed: Any) -> tuple[int, int, int, int]:
        op = f"W4A16Runner.{function}"
        fmt = w4_of(op, packed)
        dtype = {"f16": "float16", "bf16": "bfloat16"}[fmt.dtype]
        if dtype != self.dtype:
            raise TypeError(
                f"{op}: argument 'packed': expected scales of {self.dtype}, got {packed!r}"
            )
        N, K = (int(size) for size in packed.shape)
        zeros = self.quant == "group_zeros"
        if fmt.zeros != zeros or (self.quant == "per_channel" and fmt.group_size != K):
            raise ValueError(
                f"{op}: argument 'packed': expected weights quantised {self.quant}, got {packed!r}"
            )
        for name, array in (("x", x), ("packed", packed.raw)):
            place = str(getattr(array, "device", "cpu"))
            if not is_on(place, self.device):
                wanted = "cuda:0" if self.device == "cuda" else self.device
                raise ValueError(
                    f"{op}: argument '{name}': expected a tensor on {wanted}, got one on {place}"
                )
        shape = tuple(getattr(x, "shape", ()))
        if not shape or shape[-1] != K:
            raise ValueError(f"{op}: argument 'x': expected [..., {K}], got {shape or type(x)}")
        M = 1
        for size in shape[:-1]:
            M *= size
        return M, N, K, fmt.group_size


def is_on(place: str, device: str) -> bool:
    """Whether a tensor at `place` is where a runner for `device` multiplies.

    >>> is_on("cuda:0", "cuda"), is_on("cuda:0", "cuda:1"), is_on("cpu", "cpu:1")
    (True, False, True)
    """
    kind, _, number = place.partition(":")
    wanted, _, wanted_number = device.partition(":")
    # Numbers of a CPU say nothing: its memory is one.
    return kind == wanted and (kind == "cpu" or int(number or 0) == int(wanted_number or 0))


def _is_compiling() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()
