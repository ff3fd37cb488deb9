#!/usr/bin/env bash
# A sweep as a Slurm array: one task for each shard, then a merge that waits for all of them.
#
#   scripts/sweep_slurm.sh SPEC.json --shards N --out FILE.db [--local [--parallel M]] [TABLE OPTIONS] [-- SBATCH OPTIONS]
#
# TABLE OPTIONS go to the merge: --markdown F, --csv F, --pareto F, --deterministic. SBATCH OPTIONS (partition, time, GPUs)
# go to the array. Shards lie beside FILE.db; a task that is requeued goes on where it was. --local runs the same tasks on
# this machine, M at a time (default: one for each core). $REFRESHLAB is the program (default: build/refreshlab).
#
# The script is its own batch script: Slurm runs a copy of it with the same arguments, which then finds a task's number in
# the environment and does that task alone.
#SBATCH --job-name=refreshlab-sweep
#SBATCH --cpus-per-task=1
#SBATCH --requeue
set -euo pipefail
fail() { printf 'sweep_slurm: %s\n' "$*" >&2; exit 2; }

all=("$@")
spec="" shards="" out="" local_run="" step="" parallel=$(nproc) tables=() sbatch_options=()
while [ $# -gt 0 ]; do
    case "$1" in
    --shards | --out | --parallel | --markdown | --csv | --pareto)
        [ $# -ge 2 ] || fail "$1 needs a value"
        case "$1" in
        --shards) shards=$2 ;;
        --out) out=$2 ;;
        --parallel) parallel=$2 ;;
        *) tables+=("$1" "$2") ;;
        esac
        shift 2 ;;
    --deterministic) tables+=("$1"); shift ;;
    --local) local_run=1; shift ;;
    --merge-step) step=merge; shift ;; # of the second job; not for people
    --) shift; sbatch_options=("$@"); break ;;
    -*) fail "unknown option $1" ;;
    *) [ -z "$spec" ] || fail "two specs: $spec and $1"; spec=$1; shift ;;
    esac
done
[ -n "$spec" ] || fail "give a SPEC.json"
[[ "$shards" =~ ^[1-9][0-9]{0,4}$ ]] || fail "give --shards N, a whole number from 1"
[[ "$parallel" =~ ^[1-9][0-9]{0,3}$ ]] || fail "--parallel must be a whole number from 1"
[ -n "$out" ] || fail "give --out FILE.db"

if [ -z "${REFRESHLAB:-}" ]; then
    # Only at submission: the copy that Slurm runs lies elsewhere and inherits the variable.
    REFRESHLAB="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build/refreshlab"
    export REFRESHLAB
fi
[ -x "$REFRESHLAB" ] || fail "no program at $REFRESHLAB; build it or set REFRESHLAB"

shard_file() { printf '%s.shard-%d-of-%d.db' "${out%.db}" "$1" "$shards"; }
run_shard() { "$REFRESHLAB" sweep "$spec" --shard "$1/$shards" --out "$(shard_file "$1")" --jobs "${SLURM_CPUS_PER_TASK:-1}"; }
merge() {
    local files=()
    for ((i = 1; i <= shards; ++i)); do files+=("$(shard_file "$i")"); done
    "$REFRESHLAB" merge "$out" "${files[@]}" "${tables[@]}"
}

if [ -n "$local_run" ]; then
    pids=() status=0
    for ((i = 1; i <= shards; ++i)); do
        [ ${#pids[@]} -lt "$parallel" ] || { wait "${pids[0]}" || status=1; pids=("${pids[@]:1}"); }
        run_shard "$i" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || status=1; done
    [ $status = 0 ] || fail "a shard did not finish; the same command goes on where it ended"
    merge
elif [ "$step" = merge ]; then
    merge
elif [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
    run_shard "$SLURM_ARRAY_TASK_ID"
else
    command -v sbatch > /dev/null || fail "no sbatch here; --local runs the shards on this machine"
    script="${BASH_SOURCE[0]}"
    # "--merge-step" goes before the sbatch options, which end the line.
    array=$(sbatch --parsable --array="1-$shards" --chdir="$PWD" "${sbatch_options[@]}" "$script" "${all[@]}")
    array=${array%%;*} # "number;cluster" on federations
    merge_job=$(sbatch --parsable --dependency="afterok:$array" --kill-on-invalid-dep=yes --chdir="$PWD" "$script" --merge-step "${all[@]}")
    printf 'sweep_slurm: array job %s, merge job %s -> %s\n' "$array" "${merge_job%%;*}" "$out" >&2
fi
