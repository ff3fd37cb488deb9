#!/usr/bin/env bash
# Suites under AddressSanitizer and UBSan: scripts/asan.sh [memory_suites | room_suites], in build-asan.
#
# One commit of three (scripts/share.sh) has what needs the whole program, which is a third of what there is to compile. Everything:
# REFRESHLAB_SHARE= scripts/asan.sh. Left out are the program's own suites, each of whose many starts takes seconds under ASan (make
# asan-program), and the published model, whose size adds time and no code.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/share.sh
suites=${1:-memory_suites}
left_out=program
if [ "$suites" != memory_suites ]; then
    choice=(--exclude-regex '^(test_ui|test_window|test_serve|test_gui)$')
else
    choice=(--label-regex 'memory|both')
    if [ "${REFRESHLAB_SHARE%/*}" != 0 ] && [ -n "$REFRESHLAB_SHARE" ]; then
        suites=room_memory_suites
        left_out='program|whole'
    fi
fi
cmake --preset asan > /dev/null
cmake --build build-asan -j "${JOBS:-$(nproc)}" --target "$suites"
REFRESHLAB_MODELS=none REFRESHLAB_FUZZ_RUNS=6000 ctest --test-dir build-asan --output-on-failure --no-tests=error \
    --parallel "${JOBS:-$(nproc)}" --label-exclude "$left_out" "${choice[@]}"
