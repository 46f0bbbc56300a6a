#!/usr/bin/env bash
# Everything that only a Hopper GPU can show, in one go; the table of what passed comes last:
#
#   ctest/verify_on_gpu.sh OUT      evidence, logs and medians end up in the folder OUT
#
# Needs what a build needs, nvcc and compute-sanitizer; with diffusers 0.42.1 and torch in python3 the provider is timed, too.
# CMAKE_ARGS may say where packages lie, H3_BUILD_DIR where to build, STEPS picks some of:
# build rows cutlass block0 fullmodel generation parallel nccl bytes bench memcheck racecheck initcheck synccheck,
# and mutants, which only runs where it is named.
set -uo pipefail
out=$(realpath -m "${1:?usage: ctest/verify_on_gpu.sh OUT}")
cd "$(dirname "$0")/.."
build=${H3_BUILD_DIR:-/tmp/h3-verify}
steps=" ${STEPS:-build rows cutlass block0 fullmodel generation parallel nccl bytes bench memcheck racecheck initcheck synccheck} "
mkdir -p "$out"
. ctest/steps.sh

compile() {
  # shellcheck disable=SC2086
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release ${CMAKE_ARGS:-} &&
    cmake --build "$build" --target h3_conformance h3_gate h3_evidence h3_bench_cuda h3_bench_library h3 &&
    "$build/h3_conformance" --gtest_list_tests --gtest_filter='*_cuda/*' >"$out/cuda_cases.txt" &&
    echo "$(grep -c '^  ' "$out/cuda_cases.txt") cases of engine cuda"
}

# h3_gate by hand: a gate that is not closed, skipped ones too, is a failure here.
gate() {
  "$build/h3_gate" --gate "$1" --binary "$build/h3_conformance" --required "ctest/required/$1.txt" --evidence "$build/evidence/$1" \
    --source . --time-limit "${2:-400}"
  local code=$?
  "$build/h3_evidence" verify "$build/evidence/$1" --gate "$1" || code=1
  tar -czf "$out/$1.evidence.tar.gz" -C "$build/evidence" "$1"
  return $code
}

# The provider's libraries and the strict rows at sizes that no record holds, node by node on the same inputs.
same_bytes() {
  local rows
  for rows in 8192 38718; do "$build/h3" provider --rows "$rows" --against cuda || return; done
}

# With the provider's packages both sides take turns in one process, else ours is timed alone.
race() {
  if python3 -c 'import diffusers, torch'; then
    python3 fixtures/race_provider.py --library "$build/libh3_bench_cuda.so" --json "$out/race.json"
  else
    "$build/h3_bench_cuda" --json "$out/bench.json"
  fi
}

# One small case of every kernel.
sanitize() {
  compute-sanitizer --tool "$1" --error-exitcode 1 "$build/h3_conformance" --gtest_brief=1 \
    --gtest_filter='rows_cuda/*equals_*twin*:-*264x*:*5376*:*925x*:*2049x*:*130x300*'
}

# Kernel mutants that only a GPU kills, those that ctest/mutants_cuda.json does not hold yet. The record is whole after every one: stopped, it
# goes on once OUT/mutants_cuda.json lies in ctest/.
mutants() {
  cmake --build "$build" --target h3_mutants &&
    "$build/h3_mutants" --build "$build" --work "$build-mutants" --engine cuda --stale --time-limit 30 --record "$out/mutants_cuda.json"
}

asked_for build && step build compile
[ "$status" -eq 0 ] || exit "$status"  # nothing below has anything to run
asked_for rows && step rows gate rows_cuda
[ -f "$build/libh3_golden_cutlass.a" ] && asked_for cutlass && step cutlass gate rows_cutlass
asked_for block0 && step block0 gate block0_cuda
asked_for fullmodel && step fullmodel gate fullmodel_cuda
asked_for generation && step generation gate generation_cuda
# Where the linker does not find NCCL, the one that PyTorch brings.
if [ -z "${H3_NCCL_LIBRARY:-}" ] && ! ldconfig -p | grep -q libnccl.so.2; then
  H3_NCCL_LIBRARY=$(python3 -c 'import nvidia.nccl as n; print(n.__path__[0] + "/lib/libnccl.so.2")' 2>/dev/null) && export H3_NCCL_LIBRARY
fi
asked_for parallel && step parallel gate parallel_cuda 560
[ "$(nvidia-smi -L | wc -l)" -ge 2 ] && asked_for nccl && step nccl gate parallel_nccl 560
asked_for bytes && step bytes same_bytes
asked_for bench && step bench race
asked_for mutants && step mutants mutants
for tool in memcheck racecheck initcheck synccheck; do asked_for "$tool" && step "$tool" sanitize "$tool"; done

asked_for bench && cat "$out/bench.log"
printf '%s\n' "" "${table[@]}"
exit $status
