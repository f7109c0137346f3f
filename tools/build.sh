#!/usr/bin/env bash
# Builds into build/dev and installs into .venv, as an editable install: `import ac4k` takes the Python
# files from python/ac4k, so an edit counts at once, and the compiled files from site-packages, so the
# checkout stays free of binaries. pip and CMake's configure step run only when the set-up changes;
# otherwise this is ninja and a copy of what is newer.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv
build=build/dev
stamp=$build/installed

# The install has a list of the Python files.
settings="$(find python/ac4k -name '*.py' | sort) ${AC4K_BACKEND:-} ${AC4K_CUDA_ARCH:-} ${AC4K_ROCM_ARCH:-}"
wanted=$({ cat pyproject.toml $venv/installed; echo "$settings"; pwd; } | sha256sum)
if [ "$(cat $stamp 2>/dev/null)" != "$wanted" ] || ! [ -x $venv/bin/ac4k ]; then
  echo "Building AC4K (about a minute on two cores the first time)"
  mkdir -p $build
  if ! $venv/bin/python -m pip --disable-pip-version-check install --no-build-isolation --no-deps \
    --no-index -C build-dir=$build -C cmake.define.AC4K_WERROR=ON -C cmake.define.AC4K_TESTS=ON \
    --verbose -e . >$build/install.log 2>&1; then
    cat $build/install.log
    exit 1
  fi
  sed -n 's/^ *-- AC4K: /AC4K: /p' $build/install.log
  echo "$wanted" >$stamp
else
  cmake --build $build | { grep -v -e 'Re-checking globbed' -e 'no work to do' || true; }
  site=$($venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
  cmake --install $build --component python --prefix "$site" >/dev/null
fi
