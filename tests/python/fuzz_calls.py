"""Calls ops with random arguments, good and bad, through both doors, and checks what comes back.

Run by test_fuzz.py in a process of its own, since the point is that nothing crashes:
    python tests/python/fuzz_calls.py --seed 1 --count 10000 [--device cuda] [--only 4711]
Knows ops by the op table alone. Each call ends in an exception that a user can read, with the
output untouched, or in a result that agrees with the float64 reference.
"""

from __future__ import annotations

import argparse
import faulthandler
import math
import random
import sys
from collections import Counter
from typing import Any

import numpy as np
import torch

import ac4k
from ac4k._signature import (
    all_dims,
    dim_names,
    dims_of,
    dtype_of,
    is_present,
    parse_dim,
    shape_of,
)
from ac4k.bench.arrays import DTYPES
from ac4k.reference import error_ratio, references_of

SIZES = (0, 1, 1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 33, 64)
HUGE = (2**31, 2**40, 2**61, 2**62)
GUARD = 64  # bytes before and after each output
EXCEPTIONS = (TypeError, ValueError, NotImplementedError, RuntimeError, MemoryError)
TORCH = {name: getattr(torch, dtype.torch) for name, dtype in DTYPES.items()}
# Indices that ops want to differ from each other; some lie outside.
DISTINCT = ("slot_mapping",)
# Bytes that hold scales and zero points: their products are to stay within float32, and those of
# blocks, which a GPU may round to float16, within that.
SCALED = "packed"
BLOCKS = "weight"
OTHER_DTYPES = ("f64", "f16", "bf16", "i64", "u8", "bool")


class Guarded:
    """An output with guard bytes around it; both are known before the call."""

    def __init__(self, shape: tuple[int, ...], dtype: str, device: str, shift: int = 0) -> None:
        size = DTYPES[dtype].bytes
        count = int(np.prod(shape, dtype=np.int64))
        self.begin = GUARD + shift * size
        self.end = self.begin + count * size
        self.memory = torch.full((self.end + GUARD,), 0xA5, dtype=torch.uint8, device=device)
        self.memory[self.begin : self.end] = 0x5A
        self.tensor = self.memory[self.begin : self.end].view(TORCH[dtype]).view(shape)

    def guards_intact(self) -> bool:
        memory = self.memory
        edges = torch.cat([memory[: self.begin], memory[self.end :]])
        return bool((edges == 0xA5).all())

    def untouched(self) -> bool:
        return bool((self.memory[self.begin : self.end] == 0x5A).all())


def random_tensor(
    rng: random.Random, shape: tuple[int, ...], dtype: str, device: str
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rng.getrandbits(40))
    if DTYPES[dtype].is_float:
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        if rng.random() < 0.1 and values.numel():
            special = rng.choice((float("nan"), float("inf"), 0.0, -0.0, 1e-42, 70000.0))
            values.view(-1)[rng.randrange(values.numel())] = special
    else:
        values = torch.randint(0, 2 if dtype == "bool" else 100, shape, generator=generator)
    return values.to(TORCH[dtype]).to(device)


def with_layout(rng: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    """The same values behind other strides."""
    layout = rng.choice(("plain", "plain", "transposed", "stepped", "shifted", "expanded"))
    if tensor.dim() == 0 or layout == "plain":
        return tensor
    if layout == "transposed":
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "expanded":
        axis = rng.randrange(tensor.dim())
        if tensor.shape[axis] == 0:
            return tensor
        return tensor.narrow(axis, 0, 1).expand(tensor.shape)
    if layout == "stepped":
        wide = torch.empty(
            (*tensor.shape[:-1], tensor.shape[-1] * 2), dtype=tensor.dtype, device=tensor.device
        )
        wide[..., ::2] = tensor
        return wide[..., ::2]
    flat = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
    flat[1:] = tensor.reshape(-1)
    return flat[1:].view(tensor.shape)


def with_row_layout(rng: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    """The same values with rows apart from each other, or in another order."""
    if tensor.dim() > 2 and rng.random() < 0.5:
        return tensor.transpose(0, -2).contiguous().transpose(0, -2)
    gap = rng.choice((1, 3, 8))
    wide = torch.zeros(
        (*tensor.shape[:-1], tensor.shape[-1] + gap), dtype=tensor.dtype, device=tensor.device
    )
    wide[..., gap:] = tensor
    return wide[..., gap:]


class Call:
    """One random call of one op."""

    def __init__(self, op: dict[str, Any], rng: random.Random, device: str) -> None:
        self.op, self.rng, self.device = op, rng, device
        self.sizes: dict[str, Any] = {name: rng.choice(SIZES) for name in dim_names(op)}
        self.sizes["..."] = tuple(rng.choice(SIZES[1:8]) for _ in range(rng.randrange(4)))
        tensors = [tensor for tensor in (*op["params"], *op["outputs"]) if "dims" in tensor]
        divisors: dict[str, int] = {}
        for text in (text for tensor in tensors for text in all_dims(tensor) if text != "..."):
            dim = parse_dim(text)
            if dim.symbol and dim.divide > 1 and not dim.round_up:  # a whole number of K/32
                divisors[dim.symbol] = math.lcm(divisors.get(dim.symbol, 1), dim.divide)
        for symbol, divisor in divisors.items():
            self.sizes[symbol] = rng.choice((0, 1, 2, 3)) * divisor
        self.types = {name: rng.choice(types) for name, types in op["types"].items()}
        self.values: dict[str, Any] = {}
        self.mutable: list[Guarded] = []
        for param in sorted(op["params"], key=lambda param: param["kind"] == "tensor"):
            self.values[param["name"]] = self.value_of(param)
        self.surplus: dict[str, Any] = {}
        self.present = [out for out in op["outputs"] if is_present(op, out, self.values)]
        self.outs: list[Guarded] = []
        self.out: Any = None
        if self.present and rng.random() < 0.6:
            shift = rng.choice((0, 0, 1))
            self.outs = [
                Guarded(self.shape(out), self.dtype(out), device, shift) for out in self.present
            ]
            tensors = tuple(guarded.tensor for guarded in self.outs)
            self.out = tensors[0] if len(tensors) == 1 else tensors
        self.mutation = "none"

    def shape(self, tensor: dict[str, Any]) -> tuple[int, ...]:
        return shape_of(dims_of(self.op, tensor, self.values), self.sizes)

    def dtype(self, tensor: dict[str, Any]) -> str:
        return dtype_of(self.op, tensor, self.types, self.values)

    def value_of(self, param: dict[str, Any]) -> Any:
        rng, kind = self.rng, param["kind"]
        if kind == "tensor":
            if param["has_default"] and rng.random() < 0.5:
                return None
            dtype = self.dtype(param)
            shape = self.shape(param)
            tensor = random_tensor(rng, shape, dtype, self.device)
            if param["name"] == SCALED:
                tensor = tensor & 0x3F | 0x20
            if param["name"] == BLOCKS and dtype == "u8" and "f16" in self.types.values():
                tensor = tensor & 0x3F
            if param["name"] in DISTINCT:
                chosen = rng.sample(range(-3, 2 * shape[0] + 3), shape[0])
                tensor = torch.tensor(chosen, dtype=TORCH[dtype], device=self.device)
            if param["mutable"]:
                guarded = Guarded(self.shape(param), dtype, self.device)
                guarded.tensor.copy_(tensor)
                self.mutable.append(guarded)
                return guarded.tensor
            if param["layout"] == "row_strided" and tensor.dim() > 1 and rng.random() < 0.5:
                return with_row_layout(rng, tensor)
            strided = param["layout"] == "strided" or rng.random() < 0.1
            return with_layout(rng, tensor) if strided else tensor
        if kind in ("choice", "dtype"):
            return rng.choice(param["choices"])
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "float":
            return rng.choice((0.0, 1.0, -2.5, 1e-6))
        return self.sizes.get(param["name"], rng.choice(SIZES))

    def mutate(self) -> None:
        """Makes one thing about the call wrong, or at least unusual."""
        rng = self.rng
        mutations = [
            self.wrong_value,
            self.wrong_shape,
            self.wrong_dtype,
            self.missing,
            self.surplus_argument,
        ]
        mutations += [self.huge, self.other_device, self.wrong_scalar, self.wrong_out, self.overlap]
        mutation = rng.choice(mutations)
        self.mutation = mutation.__name__
        mutation()
        self.present = [o for o in self.op["outputs"] if is_present(self.op, o, self.values)]

    def pick(self, *kinds: str) -> str | None:
        names = [
            p["name"]
            for p in self.op["params"]
            if p["kind"] in kinds and self.values.get(p["name"]) is not None
        ]
        return self.rng.choice(names) if names else None

    def wrong_value(self) -> None:
        name = self.rng.choice([p["name"] for p in self.op["params"]])
        wrong = (
            None,
            3,
            2.5,
            "text",
            [1.0, 2.0],
            object(),
            b"bytes",
            {},
            float("nan"),
            2**80,
            True,
        )
        self.values[name] = self.rng.choice(wrong)

    def wrong_shape(self) -> None:
        if (name := self.pick("tensor")) is None:
            return
        tensor = self.values[name]
        shape = list(tensor.shape)
        how = self.rng.randrange(3)
        if how == 0 and shape:
            shape[self.rng.randrange(len(shape))] += 1
        elif how == 1 and shape:
            shape.pop()
        else:
            shape = [*([1] * self.rng.randrange(1, 9)), *shape]
        self.values[name] = torch.ones(shape, dtype=tensor.dtype, device=tensor.device)

    def wrong_dtype(self) -> None:
        if (name := self.pick("tensor")) is None:
            return
        dtype = self.rng.choice(OTHER_DTYPES)
        self.values[name] = self.values[name].to(TORCH[dtype])
        variable = next(p["dtype"] for p in self.op["params"] if p["name"] == name)
        if dtype in self.op["types"].get(variable, ()):  # right after all, if no other has it
            self.types[variable] = dtype

    def missing(self) -> None:
        self.values.pop(self.rng.choice([p["name"] for p in self.op["params"]]), None)

    def surplus_argument(self) -> None:
        self.surplus = {self.rng.choice(("extra", "alpha", "dtype")): 1}

    def huge(self) -> None:
        if (name := self.pick("tensor")) is None or self.values[name].dim() == 0:
            return
        tensor = self.values[name]
        shape = [1] * tensor.dim()
        axis = self.rng.randrange(tensor.dim())
        one = torch.ones(shape, dtype=tensor.dtype, device=tensor.device)
        shape = [1 if size == 0 else size for size in tensor.shape]
        shape[axis] = self.rng.choice(HUGE)
        if np.prod([float(size) for size in shape]) < 2**62:
            self.values[name] = one.expand(shape)
        # An output of 2^31 elements would be right, and slow.
        if self.out is None and self.present:
            self.out = torch.empty(3, device=self.device)

    def other_device(self) -> None:
        if (name := self.pick("tensor")) is not None:
            other = "cpu" if self.device == "cuda" and self.rng.random() < 0.5 else "meta"
            self.values[name] = self.values[name].to(other)

    def wrong_scalar(self) -> None:
        if (name := self.pick("int", "float", "choice", "bool", "dtype")) is not None:
            self.values[name] = self.rng.choice(
                (-1, 2**63, -(2**63), 2.5, "nonsense", None, "\ud800", "")
            )

    def wrong_out(self) -> None:
        if not self.outs:
            return
        tensor = self.outs[0].tensor
        wrong = [
            tensor.to("meta"),
            tensor[..., None],
            tensor.double() if tensor.dtype != torch.float64 else tensor.float(),
        ]
        if tensor.dim() and tensor.shape[-1] > 1:
            wrong += [tensor[..., :-1], tensor[..., :1].expand(tensor.shape)]
        if tensor.dim() == 2:
            wrong.append(torch.empty_like(tensor.t()).t())
        self.out = self.rng.choice(wrong)

    def overlap(self) -> None:
        """An input that shares memory with the output."""
        name = self.pick("tensor")
        if name is None or not self.outs:
            return
        tensor = self.values[name]
        memory = self.outs[0].memory
        needed = tensor.numel() * tensor.element_size()
        if memory.numel() < needed:
            return
        start = (
            self.rng.choice((0, self.outs[0].begin))
            // tensor.element_size()
            * tensor.element_size()
        )
        start = min(start, memory.numel() - needed) // tensor.element_size() * tensor.element_size()
        self.values[name] = memory[start : start + needed].view(tensor.dtype).view(tensor.shape)

    def run(self, door: str) -> Any:
        names = [p["name"] for p in self.op["params"]]
        positional = []
        keywords = dict(self.surplus)
        in_order = True
        for param, name in zip(self.op["params"], names, strict=True):
            if name not in self.values:
                in_order = False
            elif in_order and not param["keyword_only"]:
                positional.append(self.values[name])
            else:
                keywords[name] = self.values[name]
        out = self.out
        if door == "numpy":
            positional = [as_numpy(value) for value in positional]
            keywords = {name: as_numpy(value) for name, value in keywords.items()}
            out = as_numpy(out)
        if door == "torch":
            packet = getattr(torch.ops.ac4k, self.op["name"])
            if out is None:
                return packet.default(*positional, **keywords)
            outs = out if isinstance(out, tuple) else (out,)
            names = ["out"]
            if len(self.op["outputs"]) > 1:
                there = enumerate(self.op["outputs"])
                names = [f"out{i}" for i, each in there if each in self.present]
            packet.out(*positional, **keywords, **dict(zip(names, outs, strict=False)))
            return out
        function = (
            getattr(ac4k, self.op["name"]) if door != "_C" else getattr(ac4k._C, self.op["name"])
        )
        return function(*positional, **keywords, **({} if out is None else {"out": out}))

    def check_result(self, result: Any, before: dict[str, torch.Tensor]) -> str | None:
        """What is wrong with a result; None when nothing is. Mutable arguments are taken as they
        were before the call."""
        arguments = {}
        for param in self.op["params"]:
            value = self.values.get(param["name"])
            if isinstance(value, torch.Tensor):
                if value.numel() > 10**6:
                    return None  # right or wrong, too large to compute again
                value = as_float64(before[param["name"]] if param.get("mutable") else value)
            elif isinstance(value, bytes) and param["kind"] == "tensor":  # has the buffer protocol
                value = np.frombuffer(value, np.uint8)
            elif value is None and param["kind"] == "bool" and param["name"] in self.values:
                return None  # the dispatcher takes None for False; the other doors refuse it
            if value is not None:
                arguments[param["name"]] = value
        tensors = [param for param in self.op["params"] if param["kind"] == "tensor"]
        dtypes = {param["name"]: self.dtype(param) for param in tensors}
        expected = references_of(self.op["name"], dtypes=dtypes, **arguments)
        outputs = [] if result is None else result if isinstance(result, tuple) else [result]
        if len(outputs) == len(self.op["outputs"]) > len(self.present):  # the dispatcher's
            pairs = zip(outputs, self.op["outputs"], strict=True)
            outputs = [each for each, declared in pairs if declared in self.present]
        mutable = [param for param in self.op["params"] if param.get("mutable")]
        results = [*outputs, *(self.values[param["name"]] for param in mutable)]
        for got, reference, declared in zip(
            map(as_float64, results), expected, [*self.present, *mutable], strict=True
        ):
            if got.shape != reference.result.shape:
                return f"shape {got.shape}, expected {reference.result.shape}"
            dtype = self.dtype(declared)
            ratio = error_ratio(dtype, float(self.op["tolerance"]), got, reference)
            if not ratio <= 1:
                return f"{declared.get('name', 'output')}: error {ratio:.3g} times the tolerance"
        return None


def as_float64(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        return (value.double() if value.is_floating_point() else value).numpy()
    value = np.asarray(value)
    return value if value.dtype.kind in "iub" else value.astype(np.float64)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def as_numpy(value: Any) -> Any:
    """The same memory as a NumPy array, where NumPy can have it."""
    if isinstance(value, tuple):
        return tuple(map(as_numpy, value))
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
        return value
    import ml_dtypes

    if value.dtype == torch.bfloat16:
        return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    if value.is_floating_point() and value.element_size() == 1:
        kind = getattr(ml_dtypes, str(value.dtype).removeprefix("torch."))
        return value.view(torch.uint8).numpy().view(kind)
    return value.numpy()


def one_call(
    op: dict[str, Any], rng: random.Random, device: str, counts: Counter[str]
) -> str | None:
    doors = ("eager", "_C", "torch") if device == "cuda" else ("eager", "_C", "torch", "numpy")
    door = rng.choice(doors)
    call = Call(op, rng, device)
    if rng.random() < 0.6:
        call.mutate()
    what = f"{op['name']} through {door}, {call.mutation}, sizes {call.sizes}, types {call.types}"
    before = {
        n: v.detach().clone()
        for n, v in call.values.items()
        if isinstance(v, torch.Tensor) and v.numel() < 10**6 and v.device.type != "meta"
    }
    try:
        result = call.run(door)
    except EXCEPTIONS as error:
        counts[type(error).__name__] += 1
        if door in ("eager", "_C", "numpy") and not str(error):
            return f"{what}: an empty {type(error).__name__}"
        if any(not guarded.untouched() for guarded in call.outs) or any(
            not same_bits(before[p["name"]], call.values[p["name"]])
            for p in op["params"]
            if p.get("mutable") and p["name"] in before
        ):
            return f"{what}: wrote before it failed: {error}"
        problem = None
    except BaseException as error:
        return f"{what}: {type(error).__name__}: {error}"
    else:
        counts["result"] += 1
        aliased = call.mutation == "overlap" and bool(call.outs)
        on_meta = any(
            isinstance(v, torch.Tensor) and v.device.type == "meta" for v in call.values.values()
        )
        for name, value in before.items():
            if aliased:
                call.values[name] = value
        problem = None if on_meta else call.check_result(result, before)
    if device == "cuda":
        torch.cuda.synchronize()
    if any(not guarded.guards_intact() for guarded in (*call.outs, *call.mutable)):
        return f"{what}: wrote outside the output"
    return f"{what}: {problem}" if problem else None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    faulthandler.enable()
    torch.set_num_threads(1)
    table = ac4k.op_table()
    counts: Counter[str] = Counter()
    failures = 0
    for index in range(options.count) if options.only is None else [options.only]:
        rng = random.Random(options.seed * 1_000_003 + index)
        print(f"\rcall {index}", end="", flush=True)  # the last one shown is the one that crashed
        if problem := one_call(rng.choice(table), rng, options.device, counts):
            failures += 1
            again = f"--seed {options.seed} --only {index} --device {options.device}"
            print(f"\n{problem}\n  again: python {sys.argv[0]} {again}")
    print(f"\r{sum(counts.values())} calls, {failures} failures: {dict(counts)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
