"""tests/python/fuzz_calls.py with the model as the GPU: random calls, good and bad. Kernels that
touch memory which no argument has, or never end, are failures.

    python tests/model/fuzz_on_model.py --seed 1 --count 2000
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/model"), str(ROOT / "tests/python")]

import fuzz_calls  # noqa: E402
from gpu import Gpu  # noqa: E402

gpu = Gpu(ROOT / "build/dev/model", ROOT / "build/model")


class OnModel(fuzz_calls.Call):
    """A call whose tensors are said to be on the GPU while it runs."""

    def run(self, door: str) -> Any:
        if self.out is None and self.present:  # nothing can allocate on the model
            self.outs = [
                fuzz_calls.Guarded(self.shape(out), self.dtype(out), "cpu") for out in self.present
            ]
            tensors = tuple(guarded.tensor for guarded in self.outs)
            self.out = tensors[0] if len(tensors) == 1 else tensors
        values, out = self.values, self.out
        written = [guarded.tensor for guarded in self.mutable]
        written += out if isinstance(out, tuple) else [out]

        def placed(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(placed, value))
            if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
                return value
            return gpu.place(value, writable=any(value is each for each in written))

        try:
            self.values = {name: placed(value) for name, value in values.items()}
            self.out = placed(out)
            super().run("_C" if door == "_C" else "eager")
        except RuntimeError as error:
            if "model (" in str(error):
                raise AssertionError(error) from error
            raise
        finally:
            self.values, self.out = values, out
            gpu.forget()
        return out


if __name__ == "__main__":
    fuzz_calls.Call = OnModel  # type: ignore[misc]
    sys.exit(fuzz_calls.main())
