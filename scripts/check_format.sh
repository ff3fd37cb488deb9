#!/usr/bin/env bash
# clang-format 14 over the project's own C++ and CUDA files; --fix rewrites them.
set -euo pipefail
cd "$(dirname "$0")/.."
files=$(git ls-files -- 'app/*.h' 'app/*.cpp' 'ui/*.h' 'ui/*.cpp' 'engine/*.h' 'engine/*.cpp' 'kernels/*.h' 'kernels/*.cpp' \
    'kernels/*.cu' 'kernels/*.cuh' 'python/*.h' 'python/*.cpp' 'tests/*.h' 'tests/*.cpp' 'tests/*.cu' | while read -r f; do [ -f "$f" ] && echo "$f"; done)
if [ "${1:-}" = --fix ]; then
    printf '%s\n' $files | xargs clang-format-14 -i
else
    printf '%s\n' $files | xargs clang-format-14 --dry-run --Werror
    echo "format: clean"
fi
