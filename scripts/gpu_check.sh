#!/usr/bin/env bash
# Checks RefreshLab on the GPU of this machine: engine and kernel suites, also under compute-sanitizer where that is installed; CPU against CUDA
# recordings of the bundled pair in every mode and policy, and their replay; tokens/s and the benchmark; the kernels of a decode step against
# their plan. Writes one JSON report.
#
#   scripts/gpu_check.sh [--build DIR] [--out REPORT.json] [--no-build] [--sections A,B] [--model FOLDER] [-- CMAKE OPTIONS]
#
# With --no-build the binaries in DIR, librefreshlab_*.so beside the program among them, are taken as they are (made elsewhere with -DREFRESHLAB_STATIC=ON against the same
# libtorch, and -DREFRESHLAB_CUDA_ARCHITECTURES=all; LD_LIBRARY_PATH names this machine's libtorch). Exit status: 0 all well, 1 something failed, 2 no GPU here.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build-gpu out=gpu-check.json make_it=1 more=()
while [ $# -gt 0 ]; do
    case "$1" in
        --build) build=$2; shift 2 ;;
        --out) out=$2; shift 2 ;;
        --no-build) make_it=0; shift ;;
        --sections|--model) more+=("$1" "$2"); shift 2 ;;
        --) shift; break ;;
        *) echo "gpu_check: unknown option $1" >&2; exit 2 ;;
    esac
done
if [ "$make_it" = 1 ]; then
    cmake -S . -B "$build" -G Ninja -DREFRESHLAB_CUDA=ON -DREFRESHLAB_UI=OFF "$@"
    cmake --build "$build" --target refreshlab test_kernels test_device test_model test_cache test_session kernel_trace
fi
exec python3 scripts/gpu_check.py --build "$build" --out "$out" "${more[@]}"
