#!/bin/sh
# Makes .venv ready: system packages, a virtual environment, pinned Python packages. Every step looks
# before it acts, so a second run takes a moment.
# Variables: PYTHON (an interpreter >= 3.11), TORCH (what to install as torch), PIP_ARGS.
set -eu
cd "$(dirname "$0")/.."
TORCH=${TORCH:-torch==2.13.0}
venv=.venv

find_python() {
  for candidate in ${PYTHON:-python3.11 python3 python3.12 python3.13}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
}

# --- System packages ---------------------------------------------------------------------------
python=$(find_python)
required=
optional=
command -v g++ >/dev/null || required="$required g++"
command -v cmake >/dev/null || required="$required cmake"
command -v ninja >/dev/null || required="$required ninja-build"
if [ -z "$python" ]; then
  required="$required python3 python3-venv python3-dev"
else
  "$python" -c 'import ensurepip, venv' 2>/dev/null || required="$required python3-venv"
  "$python" -c 'import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' ||
    required="$required python3-dev"
fi
[ -e /usr/include/gtest/gtest.h ] || optional="$optional libgtest-dev"
command -v pkg-config >/dev/null || optional="$optional pkg-config"

if [ -n "$required$optional" ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing$required$optional"
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    # shellcheck disable=SC2086  # lists of words
    (apt-get update && apt-get install -y --no-install-recommends $required $optional) \
      >"$log" 2>&1 || { cat "$log"; rm "$log"; exit 1; }
    rm "$log"
  elif [ -n "$required" ]; then
    echo "These packages are missing; install them and try again:" >&2
    echo "    sudo apt-get install$required$optional" >&2
    exit 1
  else
    echo "Without these packages the C++ tests are left out: sudo apt-get install$optional" >&2
  fi
  python=$(find_python)
fi
if [ -z "$python" ]; then
  echo "No Python >= 3.11 found. Name one: make PYTHON=/path/to/python3" >&2
  exit 1
fi

# --- Virtual environment -----------------------------------------------------------------------
if ! [ -x $venv/bin/python ] || ! $venv/bin/python -c '' 2>/dev/null; then
  echo "Creating $venv with $("$python" --version)"
  rm -rf $venv
  "$python" -m venv $venv
fi

# An nvcc of the machine is used where there is one; elsewhere the one from PyPI compiles device code.
groups="--group dev"
if ! command -v nvcc >/dev/null && ! [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
  groups="$groups --group nvcc"
fi

stamp=$venv/installed
wanted=$({ cat pyproject.toml; echo "$TORCH ${PIP_ARGS:-} $groups"; } | sha256sum)
if [ "$(cat $stamp 2>/dev/null)" != "$wanted" ]; then
  echo "Installing $TORCH and the pinned Python packages into $venv (a few minutes the first time)"
  pip="$venv/bin/python -m pip --disable-pip-version-check"
  $pip install -qq pip==26.3 # `--group` needs 25.1
  # shellcheck disable=SC2086
  $pip install -qq $groups "$TORCH" ${PIP_ARGS:-}
  echo "$wanted" >$stamp
fi
