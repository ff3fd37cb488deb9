#!/usr/bin/env bash
# Opens the window with the bundled pair already decoding. Without a display: the same session headless.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -n "${DISPLAY:-}" ]; then
    exec build/refreshlab gui "$@"
fi
out="${REFRESHLAB_OUT:-build/first-run}"
mkdir -p "$out"
echo "no display: running the same session headless; trace and picture go to $out" >&2
prompt="Write a chronicle of 6 companies."
gate=(--policy entropy --set entropy.threshold=6 --set entropy.every=1 --set entropy.cooldown=4 --set on_fire=redraw)
build/refreshlab run --prompt "$prompt" "${gate[@]}" --max-tokens 330 --record "$out/run.rlt"
build/refreshlab gui "$out/run.rlt" --screenshot "$out/window.png" --size 1600x1000
echo "wrote $out/run.rlt and $out/window.png" >&2
