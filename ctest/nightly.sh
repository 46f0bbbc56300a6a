#!/usr/bin/env bash
# What is too slow for every change: fuzzing with coverage feedback, the sanitizers over the CPU part, and another compiler, whose twins
# have to have the same bytes.
#
#   ctest/nightly.sh OUT                everything, a few hours on two cores; the table of what passed comes last
#   STEPS=fuzz SECONDS_A_TARGET=60 ctest/nightly.sh OUT
#
# Needs what a build needs, and clang for `fuzz` and `clang`. STEPS picks some of: fuzz address thread clang. RUNS bounds a target's executions,
# SECONDS_A_TARGET its time (600). Findings, logs and the grown corpora end up in OUT.
set -uo pipefail
out=$(realpath -m "${1:?usage: ctest/nightly.sh OUT}")
cd "$(dirname "$0")/.." || exit
steps=" ${STEPS:-fuzz address thread clang} "
mkdir -p "$out"
. ctest/steps.sh

build() {
  local preset=$1 target targets=()
  shift
  for target in "$@"; do targets+=(--target "$target"); done
  [ -f "build-$preset/build.ninja" ] || cmake --preset "$preset" || return
  cmake --build "build-$preset" "${targets[@]}"
}

# HDF5 asks for what a file says, takes a refused allocation for an answer, and keeps lists that it does not free.
fuzz() {
  local corpora asan='' options=(-malloc_limit_mb=1024)
  case $1 in hdf5 | capsule) asan=allocator_may_return_null=1:detect_leaks=0 options=(-malloc_limit_mb=1000000) ;; esac
  mkdir -p "$out/corpus/$1"
  mapfile -t corpora < <(cat "build-fuzz/fuzz_$1.txt")
  ASAN_OPTIONS=$asan "build-fuzz/h3_fuzz_$1" "${options[@]}" -artifact_prefix="$out/$1-" \
    -max_len=16384 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 ${RUNS:+-runs="$RUNS"} \
    -max_total_time="${SECONDS_A_TARGET:-600}" "$out/corpus/$1" "${corpora[@]}"
}

# Ranks and evaluations in threads; the rest of the suite starts its threads in the same two places.
threads() {
  TSAN_OPTIONS=halt_on_error=1 OPENBLAS_NUM_THREADS=1 build-sanitize-thread/h3 parallel --config narrow --ranks 4 &&
    TSAN_OPTIONS=halt_on_error=1 OPENBLAS_NUM_THREADS=1 build-sanitize-thread/h3 parallel --config narrow --ranks 3 --plan sequence &&
    TSAN_OPTIONS=halt_on_error=1 OPENBLAS_NUM_THREADS=1 build-sanitize-thread/h3 fullmodel
}

if asked_for fuzz; then
  step fuzz_build build fuzz h3_fuzz
  for target in safetensors hdf5 contract ensemble ledger evidence seal page capsule dump_names required; do step "fuzz_$target" fuzz "$target"; done
fi
if asked_for address; then
  step address_build build sanitize all
  step address ctest --preset sanitize
fi
if asked_for thread; then
  step thread_build build sanitize-thread h3
  step thread threads
fi
if asked_for clang; then
  step clang_build build clang all
  step clang ctest --preset clang
fi
printf '%s\n' "" "${table[@]}"
exit $status
