#!/usr/bin/env bash
# The pictures of docs/studies.md, from the folders that its studies wrote with --out:
#   scripts/studies_pictures.sh RESULTS    RESULTS/landscape: study landscape on derive:ffn=0.5 (12 answers, 12 passages),
#                                          RESULTS/cache: study cache --parts text, of the same published model
set -euo pipefail
results=${1:?"usage: scripts/studies_pictures.sh RESULTS"}
repository=$(cd "$(dirname "$0")/.." && pwd)
program=$(realpath "${REFRESHLAB:-$repository/build/refreshlab}")
# A figure keeps its command line: without a word of this machine.
PATH=$(dirname "$program"):$PATH
cd "$results"
draw() { # STUDY FIGURE
    refreshlab figure "$1" --panel "$2" --size 174mm -o "study-$1-$2.svg"
    mv "study-$1-$2.svg" "$repository/docs/images/"
    rm "study-$1-$2.csv"
}
draw landscape loss
draw landscape ranks
draw cache text
