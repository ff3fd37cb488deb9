#!/usr/bin/env bash
# All suites of the release build. The exit status is true only when every suite ran and passed.
set -euo pipefail
cd "$(dirname "$0")/.."
export LP_NUM_THREADS="${LP_NUM_THREADS:-1}" # software GL keeps off the decode's cores
. scripts/share.sh
export REFRESHLAB_FUZZ_RUNS="${REFRESHLAB_FUZZ_RUNS:-25000}" # `make soak` runs more, with other numbers
ctest --test-dir build --output-on-failure --no-tests=error --parallel "${JOBS:-$(nproc)}" "$@"
