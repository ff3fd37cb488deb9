"""The part of gpu_check.sh that runs and compares. Standard library only."""
import argparse
import csv
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("--build", required=True)
parser.add_argument("--out", required=True)
parser.add_argument("--device", default="cuda", help="compared with the CPU; `cpu` tries the script without a GPU")
options = parser.parse_args()
build = pathlib.Path(options.build).resolve()
program = str(build / "refreshlab")

# fp32 on both sides; matrix products sum in another order. Signals of a greedy run with the same tokens.
TOLERANCE = {"entropy_bits": 2e-3, "top1_prob": 1e-3, "kl_nats": 2e-3, "teacher_logprob": 2e-3, "drift": 2e-3,
             "mc_variance": 5e-3, "logprob": 2e-3}
CASES = {
    "teacher": ["--mode", "teacher"],
    "student": ["--mode", "student"],
    "overfill": ["--policy", "none"],
    "entropy gate": ["--policy", "entropy", "--set", "entropy.threshold=6", "--set", "entropy.every=1",
                     "--set", "entropy.cooldown=4", "--set", "on_fire=redraw"],
    "kl probe": ["--policy", "kl", "--set", "kl.every=32"],
    "mc": ["--policy", "mc", "--set", "mc.every=8"],
}


def run(arguments, **more):
    return subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def decode(folder, name, device, arguments):
    base = pathlib.Path(folder) / f"{name.replace(' ', '_')}-{device.replace(':', '_')}"
    done = run([program, "run", "--prompt", "Write a chronicle of 6 companies.", "--max-tokens", "330", "--device", device,
                "--record", f"{base}.rlt", "--summary", f"{base}.json", *arguments])
    if done.returncode != 0:
        raise SystemExit(f"gpu_check: {name} on {device}: {done.stderr.strip().splitlines()[-1]}")
    exported = run([program, "export", f"{base}.rlt", "--csv", str(base)])
    if exported.returncode != 0:
        raise SystemExit(f"gpu_check: export of {name}: {exported.stderr.strip()}")
    with open(base / "steps.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return rows, json.loads(pathlib.Path(f"{base}.json").read_text(encoding="utf-8"))


def compare(cpu, gpu):
    result = {"same_tokens": [r["token_id"] for r in cpu] == [r["token_id"] for r in gpu],
              "same_refreshes": [r["reason"] for r in cpu] == [r["reason"] for r in gpu], "signals": {}}
    good = result["same_tokens"] and result["same_refreshes"]
    if not result["same_tokens"]:
        result["first_different_step"] = next((i + 1 for i, (a, b) in enumerate(zip(cpu, gpu))
                                               if a["token_id"] != b["token_id"]), min(len(cpu), len(gpu)) + 1)
        return result, False
    for signal, tolerance in TOLERANCE.items():
        worst = 0.0
        for a, b in zip(cpu, gpu):
            if (a[signal] == "") != (b[signal] == ""):
                worst = math.inf
            elif a[signal] != "":
                x, y = float(a[signal]), float(b[signal])
                worst = max(worst, abs(x - y) / max(1.0, abs(x)))
        result["signals"][signal] = {"worst": worst if math.isfinite(worst) else "measured on one side only",
                                     "tolerance": tolerance}
        good = good and worst <= tolerance
    return result, good


report = {"device": options.device, "suites": {}, "recordings": {}, "decode": {}}
good = True
probe = run([program, "run", "--prompt", "Hello", "--max-tokens", "2", "--device", options.device])
if probe.returncode != 0:
    print(f"gpu_check: {probe.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    sys.exit(2)
report["doctor"] = run([program, "doctor"]).stdout.splitlines()
for suite in ["test_kernels", "test_model", "test_cache", "test_session"]:
    done = run([str(build / "tests" / suite)])
    report["suites"][suite] = {"passed": done.returncode == 0, "summary": done.stdout.strip().splitlines()[-1:]}
    good = good and done.returncode == 0
sanitizer = shutil.which("compute-sanitizer")
if sanitizer and options.device.startswith("cuda"):
    checked = {"kernels": [str(build / "tests" / "test_kernels"), "[cuda]"],
               "a splice": [str(build / "tests" / "test_session"), "a splice copies*"],
               "decode steps": [program, "run", "--prompt", "Hello", "--max-tokens", "4", "--policy", "mc", "--set", "mc.every=2",
                                "--device", options.device]}
    for tool in ["memcheck", "racecheck", "synccheck"]:
        for name, command in checked.items():
            done = run([sanitizer, "--tool", tool, "--error-exitcode", "9", *command])
            report["suites"][f"{name} under compute-sanitizer {tool}"] = {"passed": done.returncode == 0,
                                                                          "summary": done.stdout.strip().splitlines()[-1:]}
            good = good and done.returncode == 0
with tempfile.TemporaryDirectory() as folder:
    for name, arguments in CASES.items():
        cpu, _ = decode(folder, name, "cpu", arguments)
        gpu, _ = decode(folder, name + " again", options.device, arguments)
        report["recordings"][name], same = compare(cpu, gpu)
        good = good and same
    # The same run again on the device, from its command log: every bit.
    for name in CASES:
        trace = pathlib.Path(folder) / f"{name.replace(' ', '_')}_again-{options.device.replace(':', '_')}.rlt"
        done = run([program, "run", "--replay", str(trace), "--exact"])
        report["recordings"][name]["replays_bit_for_bit"] = done.returncode == 0
        good = good and done.returncode == 0
    # Interleaved, medians: the first run of each pays for start-up.
    speeds = {"cpu": [], options.device: []}
    for _ in range(4):
        for device in speeds:
            _, summary = decode(folder, "speed", device, ["--policy", "none", "--ignore-stop", "--set", "capture.attention=false"])
            speeds[device].append(summary["decode_tps"])
    for device, values in speeds.items():
        counted = sorted(values[1:])
        report["decode"][device] = {"tokens_per_second_median": counted[len(counted) // 2], "runs": values}
report["passed"] = good
pathlib.Path(options.out).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
print(f"gpu_check: {'passed' if good else 'FAILED'}; report in {options.out}")
sys.exit(0 if good else 1)
