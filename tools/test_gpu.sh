#!/bin/sh
# Tests on the GPU of this machine; nothing is downloaded. Takes the python3 of PATH when its torch
# (>= 2.11) sees a GPU, else .venv. Builds for the GPU present, or installs the wheel given as the
# argument, into build/gpu/site (.venv: builds its editable install). Writes tests/gpu/last_run.json.
set -u
cd "$(dirname "$0")/.." || exit 1
wheel=${1:-}
out=$PWD/build/gpu
mkdir -p "$out"

python=
for candidate in ${PYTHON:-python3 .venv/bin/python}; do
  if "$candidate" - 2>/dev/null <<'EOF'
import sys, torch
version = tuple(int(x) for x in torch.__version__.split(".")[:2])
sys.exit(version < (2, 11) or not torch.cuda.is_available())
EOF
  then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo "No Python with torch >= 2.11 that sees a CUDA device (looked at python3 and .venv)." >&2
  exit 1
fi

rm -rf "$out/site" "$out"/*.xml
pip="$python -m pip --disable-pip-version-check install --quiet --no-deps --no-index --target $out/site"
cpp_build=build/gpu/cmake
export AC4K_BACKEND=${AC4K_BACKEND:-cuda}
if [ -n "$wheel" ]; then
  $pip "$wheel" || exit 1
  cpp_build=
elif [ "$python" = .venv/bin/python ]; then
  tools/build.sh || exit 1 # the editable install there hides any other
  cpp_build=build/dev
else
  $pip --no-build-isolation -C build-dir=build/gpu/cmake -C cmake.define.AC4K_TESTS=ON . || exit 1
fi
export PYTHONPATH="$out/site${PYTHONPATH:+:$PYTHONPATH}"

# What was just installed is what must be imported.
imported=$("$python" -c 'import ac4k._C; print(ac4k._C.__file__)') || exit 1
echo "Testing $imported with $("$python" -c 'import torch; print("torch", torch.__version__)')"
case $python:$imported in
  .venv/*) [ -z "$wheel" ] || { echo "Wheels are tested by a Python without an editable AC4K" >&2; exit 1; } ;;
  *:"$out"/site/*) ;;
  *) echo "Expected a file under $out/site" >&2; exit 1 ;;
esac

export AC4K_TEST_DEVICE=cuda
export AC4K_CACHE_DIR="$out/cache"
processes=${TEST_PROCESSES:-4}
tests="$python -m pytest -q -p no:cacheprovider -n $processes --dist worksteal"
# Each process would take all cores for what it computes on the CPU.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$((($(nproc) + processes - 1) / processes))}"
runs=

if [ -n "$cpp_build" ] && grep -q ac4k_tests "$cpp_build/build.ninja"; then
  cmake --build "$cpp_build" --target ac4k_tests -- --quiet || exit 1
  FAKE_LIBCUDA=$PWD/$cpp_build/libfake_cuda.so "$cpp_build/ac4k_tests" --gtest_brief=1 \
    --gtest_output="xml:$out/cpp.xml"
  runs="$runs cpp=$out/cpp.xml"
fi
AC4K_JIT=auto $tests --junitxml="$out/static.xml" tests/gpu tests/python
runs="$runs static=$out/static.xml"

rm -rf "$AC4K_CACHE_DIR" # every kernel is compiled afresh
AC4K_JIT=force $tests --junitxml="$out/jit.xml" tests/gpu
runs="$runs jit=$out/jit.xml"

# shellcheck disable=SC2086
exec "$python" tools/gpu_report.py $runs
