"""Calls every op on a GPU, for compute-sanitizer (tools/sanitize_gpu.sh): each variant, each dtype,
small sizes, and for products the numbers of tokens that lead to other kernels and, in one dtype,
all configs. What the results are is tested elsewhere.

    python tests/gpu/every_kernel.py [--device cpu] [NAME ...]
"""

import argparse
import sys

import torch

import ac4k
from ac4k.bench.arrays import TorchArrays, dtype_named
from ac4k.bench.case import Case, arguments_of, case_of
from ac4k.bench.inputs import dtypes_of

TOKENS = (1, 9, 24, 40, 72, 130, 260)  # one for each kernel of the mixed-input engine
MANY_ROWS, MANY_HEADS = 600, 4800
# Every tile of it, splits, row tiles that have no others, launches in two parts.
ALL_CONFIGS = ((7, 150, 512), (600, 150, 512))


def shapes_of(case: Case) -> list[tuple[int, ...]]:
    shapes = list(case.quick_shapes)
    if not shapes:
        return shapes
    first = list(shapes[0])
    if case.tokens_at is None:  # rows that are no whole vectors, where the op takes them
        shapes.append((*first[:-1], max(first[-1] - 3, 1)))
        # More than the kernels for small sizes take.
        shapes.append((MANY_HEADS // first[1] if len(first) > 2 else MANY_ROWS, *first[1:]))
    else:
        for tokens in TOKENS:
            first[case.tokens_at] = tokens
            shapes.append(tuple(first))
            if tokens in (TOKENS[0], TOKENS[-1]):  # rows aligned to fewer bytes
                shapes.append((*first[:-1], first[-1] + 32))
    return shapes


def call_all(name: str, op: dict[str, object], device: str) -> int:
    case = case_of(name)
    if case is None:
        return 0
    arrays = TorchArrays(device)
    calls = 0
    for variant in case.variants:
        for dtype in dtypes_of(op):
            for shape in shapes_of(case):
                try:
                    sizes = case.sizes(shape)
                    made = arguments_of(op, case, sizes, dtype, arrays, options=variant)
                    made.call(getattr(ac4k, name))
                except (NotImplementedError, ValueError, RuntimeError) as error:
                    if "CUDA" in str(error):
                        raise
                    continue  # no kernels for this device, or not this size
                calls += 1
    if case.configs is not None:
        calls += call_configs(case, op, arrays, device)
    if device != "cpu":
        torch.cuda.synchronize()
    return calls


def call_configs(case: Case, op: dict[str, object], arrays: TorchArrays, device: str) -> int:
    dtype = dtype_named("bf16")
    assert case.configs is not None
    calls = 0
    for shape in ALL_CONFIGS:
        made = arguments_of(op, case, case.sizes(shape), dtype, arrays, options=case.variants[0])
        for config in range(len(case.configs(shape, dtype, case.variants[0], device).names)):
            getattr(ac4k, case.op)(*made.args, **made.options, config=config, out=made.out)
            calls += 1
    return calls


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    ops = {op["name"]: op for op in ac4k.op_table()}
    unknown = set(options.names) - set(ops)
    if unknown:
        parser.error(f"no op {', '.join(sorted(unknown))}")
    for name in options.names or ops:
        print(f"{name}: {call_all(name, ops[name], options.device)} calls", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
