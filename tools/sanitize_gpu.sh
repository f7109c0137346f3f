#!/bin/sh
# compute-sanitizer over every op on the GPU of this machine: invalid and misaligned accesses, races
# in shared memory, barriers that not all threads reach. Takes what `make test-gpu` has installed.
# Arguments: ops, all of them if there are none.
#
# racecheck reports the ring of weights in many_4_bf16: a stage is read by all lanes of a warp, which
# then meet, and one of them arrives at the barrier that lets the next copy in. Where the compiler
# knows that the lanes run together it leaves the meeting out, and the tool misses the order.
set -u
cd "$(dirname "$0")/.." || exit 1
python=${PYTHON:-python3}
export PYTHONPATH="$PWD/build/gpu/site${PYTHONPATH:+:$PYTHONPATH}"
export PYTORCH_NO_CUDA_MEMORY_CACHING=1 # an allocation a tensor, so that its ends are known
failed=
for tool in ${SANITIZERS:-memcheck racecheck synccheck}; do
  echo "== $tool"
  compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 20 \
    "$python" tests/gpu/every_kernel.py "$@" || failed="$failed $tool"
done
[ -z "$failed" ] || { echo "problems:$failed" >&2; exit 1; }
