"""The long form of the soak: one run of many steps, and one process that makes many short runs.

Measured from outside, in /proc: open descriptors and resident memory. Asserted:
  one long run     after its first tenth no descriptor is added, and memory grows by what a step has to leave behind and by
                   nothing else: its columns in both caches (reserved from the start, touched as they are written), the
                   columns that its splice keeps for a rewind, and its record; in the second half no faster than in the first
  many short runs  after the first tenth neither grows: a sweep keeps nothing of a run but a row of numbers
The bundled pair is copied with a longer context, so that one run may have more than its 2,048 positions. Standard library only.
Exit status: 0 flat, 1 not (the measurements are printed either way).
"""
import argparse
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

# The record of a step with all signals, its candidates and its share of events: some 600 bytes, and room.
RECORD_BYTES = 1500
# Allocators and SQLite's page cache move by this much without anything being kept.
NOISE_BYTES = 6 << 20

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--steps", type=int, default=30000, help="steps of the long run")
parser.add_argument("--runs", type=int, default=400, help="runs of the sweep")
parser.add_argument("--program", default="build/refreshlab")
options = parser.parse_args()
root = pathlib.Path(__file__).resolve().parent.parent
program = str(pathlib.Path(options.program).resolve())


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def watch(command, done, total):
    """Runs the command; samples (work done, descriptors, resident bytes) until it ends. done() says how much is done."""
    samples = []
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, stderr=said)
        while process.poll() is None:
            time.sleep(0.25)
            try:
                sample = (done(), len(os.listdir(f"/proc/{process.pid}/fd")), resident_bytes(process.pid))
            except (OSError, ValueError):
                continue  # it has just ended
            if sample[2] > 0 and 0 < sample[0] < total:
                samples.append(sample)
        if process.returncode != 0:
            said.seek(0)
            sys.exit(f"soak: {command[1]} ended with {process.returncode}:\n{said.read().decode(errors='replace')[-2000:]}")
    return samples


def count(file, question):
    """A number out of an SQLite file that another process writes; 0 while it is not there yet."""
    if not file.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=5) as db:
            return db.execute(question).fetchone()[0] or 0
    except sqlite3.OperationalError:
        return 0


def at(samples, share, total):
    return next((s for s in samples if s[0] >= share * total), samples[-1])


def judge(name, samples, total, bytes_each):
    if len(samples) < 8:
        sys.exit(f"soak: {name}: only {len(samples)} measurements; give it more work")
    tenth, half, last = at(samples, 0.1, total), at(samples, 0.55, total), samples[-1]
    first = (half[2] - tenth[2]) / max(1, half[0] - tenth[0])
    second = (last[2] - half[2]) / max(1, last[0] - half[0])
    # The fewest: some are opened for a moment, and one that is never closed lifts these too.
    early = min(s[1] for s in samples if tenth[0] <= s[0] <= half[0])
    late = min(s[1] for s in samples if s[0] >= half[0])
    print(f"{name}: {last[0]} of {total} measured; descriptors {early}, then {late}; memory "
          f"{tenth[2] / 2**20:.1f} -> {half[2] / 2**20:.1f} -> {last[2] / 2**20:.1f} MiB, a unit {first:.0f} then {second:.0f} bytes")
    faults = []
    if late > early:
        faults.append(f"descriptors grew from {early} to {late}")
    grown, units = last[2] - tenth[2], last[0] - tenth[0]
    if grown > NOISE_BYTES + bytes_each * units:
        faults.append(f"memory grew by {grown} bytes over {units} units")
    if last[2] - half[2] > NOISE_BYTES + 1.2 * max(first, 0) * (last[0] - half[0]):
        faults.append("memory grew faster in the second half than in the first")
    for fault in faults:
        print(f"soak: {name}: {fault}")
    return not faults


with tempfile.TemporaryDirectory() as scratch_name:
    scratch = pathlib.Path(scratch_name)
    models = []
    for name in ("teacher", "student"):
        folder = scratch / name
        shutil.copytree(root / "assets/models" / f"llama-tales-{name}", folder)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config["max_position_embeddings"] = max(options.steps + 1024, config["max_position_embeddings"])
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        models += [f"--{name}", str(folder)]
    column_bytes = 2 * 4 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"]

    trace = scratch / "long.rlt"
    begun = time.monotonic()
    samples = watch([program, "run", *models, "--prompt", "Write a chronicle of 6 companies.", "--max-tokens", str(options.steps),
                     "--ignore-stop", "--policy", "periodic", "--set", "capture.attention=false", "--record", str(trace)],
                    lambda: count(trace, "SELECT max(step) FROM steps"), options.steps)
    good = judge("one long run", samples, options.steps, 3 * column_bytes + RECORD_BYTES)
    print(f"  {time.monotonic() - begun:.0f} s, trace of {trace.stat().st_size / 2**20:.1f} MiB")
    if count(trace, "SELECT count(*) FROM steps") != options.steps:
        print(f"soak: the trace holds {count(trace, 'SELECT count(*) FROM steps')} steps of {options.steps}")
        good = False

    spec, results = scratch / "many.json", scratch / "many.db"
    spec.write_text(json.dumps({"name": "many", "modes": "overfill", "policies": "periodic", "prompts": "Write a tale.",
                                "max_tokens": 12, "samplers": {"temperature": 1}, "seeds": {"from": 0, "count": options.runs}}),
                    encoding="utf-8")
    begun = time.monotonic()
    samples = watch([program, "sweep", str(spec), "--out", str(results), "--jobs", "1"],
                    lambda: count(results, "SELECT count(*) FROM results"), options.runs)
    good = judge("many short runs", samples, options.runs, 0) and good
    print(f"  {time.monotonic() - begun:.0f} s")
print("soak: flat" if good else "soak: FAILED")
sys.exit(0 if good else 1)
