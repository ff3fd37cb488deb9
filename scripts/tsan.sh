#!/usr/bin/env bash
# ThreadSanitizer over what threads share and libtorch has no part in: command queue, recording, trace writer, drafts, the
# kernels' thread pool. The suites are those of every build; libtorch's own threads cannot be judged, so nothing that links
# it runs here.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset tsan "$@" > /dev/null
cmake --build --preset tsan -j "${JOBS:-$(nproc)}"
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 die_after_fork=0 ${TSAN_OPTIONS:-}"
# Its memory map wants addresses that a kernel with much randomisation gives away: without randomisation there then.
run=()
build-tsan/tests/test_threads --list-tests > /dev/null 2>&1 || run=(setarch "$(uname -m)" -R)
for suite in test_threads test_control test_record; do
    "${run[@]}" "build-tsan/tests/$suite" --rng-seed 20240611
done
