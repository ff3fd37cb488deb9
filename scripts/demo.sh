#!/usr/bin/env bash
# Opens the window on a published model and a student that is made of its own weights. Without a display: the same as text.
set -euo pipefail
cd "$(dirname "$0")/.."
model=$(build/refreshlab models get smollm2-135m) # says in one line what is missing where there is no network
echo "teacher: SmolLM2-135M-Instruct, dequantised from Q4_1 (not the published bf16 weights)" >&2
echo "student: the same weights rounded to 3 bits in groups of 32; the teacher rewrites its entries every 16 tokens" >&2
session=(--teacher "$model" --student derive:bits=3,group=32 --prompt "Explain in simple words why the sky is blue."
    --max-tokens 90 --policy periodic --set periodic.every=16)
if [ -n "${DISPLAY:-}" ]; then
    exec build/refreshlab gui "${session[@]}" --shadow --signals kl_nats,acceptance,entropy_bits "$@"
fi
out="${REFRESHLAB_OUT:-build/demo}"
mkdir -p "$out"
echo "no display: running as text; trace and picture go to $out" >&2
for policy in none periodic; do
    echo "--- refreshes: $policy" >&2
    build/refreshlab run "${session[@]}" --policy "$policy" --record "$out/$policy.rlt" --shadow 2> "$out/$policy.txt"
    echo >&2
    grep -E "^(refreshes|teacher perplexity|mean KL|acceptance)" "$out/$policy.txt" >&2
done
build/refreshlab gui "$out/periodic.rlt" --signals kl_nats,acceptance,entropy_bits --screenshot "$out/window.png" --size 1600x1000
echo "wrote $out/none.rlt, $out/periodic.rlt and $out/window.png" >&2
