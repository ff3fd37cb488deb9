#!/usr/bin/env bash
# The suites of the release build with other random numbers in each round. What fails is named with its seed, and kept.
#   ROUNDS  rounds (else 20)      SUITES  "test_kernels test_model ..." (else all that draw random numbers)
set -uo pipefail
cd "$(dirname "$0")/.."
suites="${SUITES:-$(cd build/tests && ls -d test_* | grep -vE '^test_(app|window)$')}"
failures=0
for ((round = 1; round <= ${ROUNDS:-20}; ++round)); do
    for suite in $suites; do
        seed=$((RANDOM * 32768 + RANDOM))
        log="build/soak-$suite-$seed.log"
        if REFRESHLAB_FUZZ_RUNS="${REFRESHLAB_FUZZ_RUNS:-5000}" "build/tests/$suite" --rng-seed $seed > "$log" 2>&1; then
            rm "$log"
        else
            echo "round $round: $suite --rng-seed $seed failed: $log"
            failures=$((failures + 1))
        fi
    done
    echo "round $round done, $failures failed so far"
done
((failures == 0))
