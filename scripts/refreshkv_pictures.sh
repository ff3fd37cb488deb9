#!/usr/bin/env bash
# Makes the pictures of docs/howto/refreshkv-by-hand.md with the bundled pair; no display is needed.
# Usage: scripts/refreshkv_pictures.sh [PROGRAM]     (default build/refreshlab; seen from the repository's root)
set -euo pipefail
cd "$(dirname "$0")/.."
# Names within the repository: a picture keeps the command line that made it.
program=${1:-build/refreshlab}
work=out/refreshkv-pictures
rm -rf "$work" && mkdir -p "$work"
prompt="Write a chronicle of 6 companies."

run() { # NAME, options: a trace of that name
    "$program" run --prompt "$prompt" --set max_tokens=120 "${@:2}" --record "$work/$1.rlt" > /dev/null 2> "$work/log" ||
        { cat "$work/log" >&2; exit 1; }
}
picture() { # FILE, TRACE, options
    "$program" gui "$work/$2.rlt" --screenshot "docs/images/$1.png" "${@:3}" 2> "$work/log" > /dev/null ||
        { cat "$work/log" >&2; exit 1; }
}

refreshkv=(--student-cache refreshkv --set student_cache.partial=24 --set student_cache.check_every=5)
run refreshkv "${refreshkv[@]}" --set student_cache.similarity=0.45
run h2o --student-cache h2o --set student_cache.budget=48
picture refreshkv-signals refreshkv --layout Tune --size 1280x720 --panel Signals --theme light \
    --signals entropy_bits,query_similarity,full_step.strip
picture refreshkv-cache refreshkv --layout Explore --size 1600x1000 --panel Cache --theme light
picture refreshkv-attention refreshkv --layout Explore --size 1600x1000 --panel Attention --theme light
picture h2o-cache h2o --layout Explore --size 1600x1000 --panel Cache --theme light
picture h2o-text h2o --layout Explore --size 1600x1000 --panel Text --theme light
