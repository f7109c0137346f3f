#!/bin/sh
# Fuzzes the GGUF reader with libFuzzer under ASan and UBSan: fuzz_gguf.sh SECONDS. Seeds are the files
# of tests/fuzz/corpus/gguf; what is found on the way stays in build/fuzz/gguf, a crash in
# build/fuzz/crash-*. Needs clang; it is installed when root.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-600}

if ! command -v clang++ >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing clang"
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    # Recommended packages too: they bring libFuzzer and the sanitizers' run time.
    (apt-get update && apt-get install -y clang) >"$log" 2>&1 || { cat "$log"; rm "$log"; exit 1; }
    rm "$log"
  else
    echo "clang is missing; install it and try again: sudo apt-get install clang" >&2
    exit 1
  fi
fi

build=build/fuzz
mkdir -p $build/gguf
clang++ -std=c++20 -O1 -g -Wall -Wextra -Werror -fno-omit-frame-pointer \
  -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Iinclude -Isrc \
  tests/fuzz/fuzz_gguf.cpp src/gguf/*.cpp src/core/status.cpp -o $build/fuzz_gguf
exec $build/fuzz_gguf -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 \
  -artifact_prefix=$build/ -print_final_stats=1 $build/gguf tests/fuzz/corpus/gguf
