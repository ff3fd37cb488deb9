"""Runs a sweep on a Ray cluster: one task for each shard, then a merge.

    python scripts/sweep_ray.py SPEC.json --shards 8 --out FILE.db [--csv F.csv] [--markdown F.md] [--deterministic]

Needs Ray (scripts/requirements-ray.txt) and a folder that all nodes share: the shards' files lie beside FILE.db. A task that is
lost with its node is started again by Ray and goes on where its file ends. Without --address a cluster of this machine is used.
"""
import argparse
import os
import pathlib
import subprocess
import sys

import ray

root = pathlib.Path(__file__).resolve().parent.parent


def arguments():
    parser = argparse.ArgumentParser(description="A sweep on Ray: one task for each shard, then a merge.")
    parser.add_argument("spec", type=pathlib.Path)
    parser.add_argument("--shards", type=int, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--program", type=pathlib.Path, default=root / "build" / "refreshlab")
    parser.add_argument("--address", help="of a running cluster; default: this machine")
    parser.add_argument("--workers", type=int, help="CPUs of a cluster of this machine")
    parser.add_argument("--cpus", type=float, default=1, help="of a task")
    parser.add_argument("--gpus", type=float, default=0, help="of a task; Ray shows it only those")
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--csv", type=pathlib.Path)
    parser.add_argument("--pareto", type=pathlib.Path)
    parser.add_argument("--deterministic", action="store_true", help="tables without what the clock measures")
    chosen = parser.parse_args()
    if not 1 <= chosen.shards <= 100_000:
        parser.error("--shards must be from 1 to 100000")
    for path in (chosen.spec, chosen.program):
        if not path.is_file():
            parser.error(f"no such file: {path}")
    return chosen


def run_shard(program, spec, index, count, out, jobs):
    """One task: returns what is left of the shard's messages, or raises so that Ray tries it again."""
    done = subprocess.run(
        [program, "sweep", spec, "--shard", f"{index}/{count}", "--out", out, "--jobs", str(jobs)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    last = done.stderr.strip().splitlines()[-1:] or [""]
    if done.returncode != 0:
        raise RuntimeError(f"shard {index}/{count}: exit status {done.returncode}: {last[0]}")
    return f"shard {index}/{count} (node {os.uname().nodename}, pid {os.getpid()}): {last[0]}"


def main():
    chosen = arguments()
    program, spec, out = (str(path.resolve()) for path in (chosen.program, chosen.spec, chosen.out))
    stem = out[:-3] if out.endswith(".db") else out
    shards = [f"{stem}.shard-{i}-of-{chosen.shards}.db" for i in range(1, chosen.shards + 1)]
    ray.init(address=chosen.address, num_cpus=None if chosen.address else chosen.workers, log_to_driver=False)
    task = ray.remote(run_shard).options(num_cpus=chosen.cpus, num_gpus=chosen.gpus, max_retries=3, retry_exceptions=True)
    jobs = max(1, int(chosen.cpus))
    open_tasks = [task.remote(program, spec, i, chosen.shards, shard, jobs) for i, shard in enumerate(shards, 1)]
    failed = 0
    while open_tasks:
        finished, open_tasks = ray.wait(open_tasks, num_returns=1)
        try:
            print(ray.get(finished[0]), file=sys.stderr)
        except ray.exceptions.RayError as error:
            failed += 1
            print(str(getattr(error, "cause", error)).splitlines()[0], file=sys.stderr)
    ray.shutdown()
    if failed:
        sys.exit(f"sweep_ray: {failed} shards did not finish; the same command goes on where they ended")
    merge = [program, "merge", out, *shards]
    for option in ("markdown", "csv", "pareto"):
        if getattr(chosen, option):
            merge += [f"--{option}", str(getattr(chosen, option))]
    if chosen.deterministic:
        merge.append("--deterministic")
    sys.exit(subprocess.run(merge).returncode)


if __name__ == "__main__":
    main()
