"""The part of gpu_check.sh that runs and compares. Standard library only.

Sections, each an entry of the report: suites; sanitizer (compute-sanitizer's memcheck, racecheck and synccheck); recordings (CPU against device
for every mode, refresh preset and cache policy, and each run again from its command log, bit for bit); decode (tokens/s in turns); bench; and
kernels (every launch of a decode step as CUPTI times it, beside `bench --plan`). What cannot run on this machine says why, and has no number."""
import argparse
import csv
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("--build", required=True)
parser.add_argument("--out", required=True)
parser.add_argument("--device", default="cuda", help="compared with the CPU; `cpu` tries the script without a GPU")
parser.add_argument("--sections", default="suites,sanitizer,recordings,decode,bench,kernels", help="some of these, by commas")
parser.add_argument("--model", help="whose kernels are timed against the plan: a checkpoint folder; default: the bundled student")
options = parser.parse_args()
sections = options.sections.split(",")
source = pathlib.Path(__file__).resolve().parent.parent
build = pathlib.Path(options.build).resolve()
program = str(build / "refreshlab")

# fp32 on both sides; matrix products sum in another order. Signals of a greedy run with the same tokens.
TOLERANCE = {"entropy_bits": 2e-3, "top1_prob": 1e-3, "kl_nats": 2e-3, "teacher_logprob": 2e-3, "drift": 2e-3,
             "mc_variance": 5e-3, "logprob": 2e-3}
CASES = {
    "teacher": ["--mode", "teacher"],
    "student": ["--mode", "student"],
    "entropy gate": ["--policy", "entropy", "--set", "entropy.threshold=6", "--set", "entropy.every=1",
                     "--set", "entropy.cooldown=4", "--set", "on_fire=redraw"],
    "kl probe": ["--policy", "kl", "--set", "kl.every=32"],
    "mc": ["--policy", "mc", "--set", "mc.every=8"],
}
GPUS = {"H100": "h100", "H200": "h200", "RTX 4090": "rtx4090", "RTX 3090": "rtx3090"}  # by nvidia-smi's name: a model of bench --plan


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


def all_cases():
    """Those above, each refresh preset, and each cache policy of the student with half of the text as its budget."""
    known = json.loads(run([program, "policies", "--json"]).stdout)
    cases = dict(CASES)
    for preset in known["refresh_presets"]:
        cases["refresh " + preset["name"]] = ["--policy", preset["name"]]
    for policy in known["cache_policies"]:
        if policy["given_text"] or policy["name"] == "full":
            continue
        cases["cache " + policy["name"]] = ["--student-cache", policy["name"]]
        if any(p["key"] == "budget" for p in policy["parameters"]):
            cases["cache " + policy["name"]] += ["--set", "student_cache.budget=128"]
    return cases


def outcome(done):
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return {"passed": done.returncode == 0, "summary": lines[-1:]}


def suites():
    return {suite: outcome(run([str(build / "tests" / suite)]))
            for suite in ["test_kernels", "test_device", "test_model", "test_cache", "test_session"]}


def sanitized():
    sanitizer = shutil.which("compute-sanitizer")
    if not sanitizer or not on_gpu:
        return {"not run": "compute-sanitizer is not installed" if on_gpu else "no GPU"}
    session = [program, "run", "--prompt", "Hello", "--max-tokens", "4", "--device", options.device]
    checked = {"kernels of steps and passes": [str(build / "tests" / "test_device")],
               "kernels of answers": [str(build / "tests" / "test_kernels"), "[cuda]"],
               "a splice": [str(build / "tests" / "test_session"), "a splice copies*"],
               "decode steps": session + ["--policy", "mc", "--set", "mc.every=2"],
               "a cache policy": session + ["--student-cache", "h2o"]}
    return {f"{name}, {tool}": outcome(run([sanitizer, "--tool", tool, "--error-exitcode", "9", *command]))
            for tool in ["memcheck", "racecheck", "synccheck"] for name, command in checked.items()}


def recordings(folder):
    results = {}
    for name, arguments in all_cases().items():
        cpu, _ = decode(folder, name, "cpu", arguments)
        gpu, _ = decode(folder, name + " again", options.device, arguments)
        results[name], results[name]["passed"] = compare(cpu, gpu)
        trace = pathlib.Path(folder) / f"{name.replace(' ', '_')}_again-{options.device.replace(':', '_')}.rlt"
        replayed = run([program, "run", "--replay", str(trace), "--exact"]).returncode == 0
        results[name]["replays_bit_for_bit"] = replayed
        results[name]["passed"] = results[name]["passed"] and replayed
    return results


def speeds(folder):
    """Interleaved, medians: the first run of each pays for start-up."""
    found = {"cpu": [], options.device: []}
    for _ in range(4):
        for device in found:
            _, summary = decode(folder, "speed", device, ["--policy", "none", "--ignore-stop", "--set", "capture.attention=false"])
            found[device].append(summary["decode_tps"])
    return {device: {"tokens_per_second_median": sorted(values[1:])[len(values[1:]) // 2], "runs": values}
            for device, values in found.items()}


def benchmark(folder):
    path = pathlib.Path(folder) / "bench.json"
    done = run([program, "bench", "--quick", "--device", options.device, "--json", str(path)])
    if done.returncode != 0:
        return {"passed": False, "summary": done.stderr.strip().splitlines()[-1:]}
    return {"passed": True, "report": json.loads(path.read_text(encoding="utf-8"))}


def kernels(folder):
    """Each launch of the student's step, measured beside predicted."""
    library = next(iter(build.rglob("libkernel_trace.so")), None)
    if not on_gpu or library is None:
        return {"not measured": "no GPU" if not on_gpu else "libkernel_trace.so was not built"}
    named = run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]).stdout
    device_model = next((model for name, model in GPUS.items() if name in named), None)
    if device_model is None:
        return {"not measured": f"bench --plan has no model of {named.strip()}"}
    model = options.model or str(source / "assets" / "models" / "llama-tales-student")
    prompt, tokens = "Write a chronicle of 6 companies.", 96
    trace, plan, ids = (pathlib.Path(folder) / name for name in ["kernels.csv", "plan.json", "run.json"])
    environment = {**os.environ, "CUDA_INJECTION64_PATH": str(library), "REFRESHLAB_KERNEL_TRACE": str(trace)}
    done = run([program, "run", "--mode", "student", "--student", model, "--dtype", "bf16", "--prompt", prompt, "--max-tokens", str(tokens),
                "--ignore-stop", "--set", "capture.attention=false", "--device", options.device, "--summary", str(ids)], env=environment)
    if done.returncode != 0 or not trace.exists():
        return {"passed": False, "summary": done.stderr.strip().splitlines()[-1:]}
    context = str(json.loads(ids.read_text(encoding="utf-8")).get("prompt_tokens", 0) + tokens // 2)  # the middle of the run
    planned = run([program, "bench", "--plan", "--device-model", device_model, "--model", model, "--dtype", "bf16", "--context", context,
                   "--json", str(plan)])
    if planned.returncode != 0:
        return {"passed": False, "summary": planned.stderr.strip().splitlines()[-1:]}
    result = pathlib.Path(folder) / "kernels.json"
    joined = run([sys.executable, str(source / "bench" / "kernels" / "against_plan.py"), "--plan", str(plan), "--trace", str(trace),
                  "--json", str(result)])
    if joined.returncode != 0:
        return {"passed": False, "summary": joined.stderr.strip().splitlines()[-1:]}
    return {"passed": True, "report": json.loads(result.read_text(encoding="utf-8")), "table": joined.stdout.splitlines()}


def failed(result):
    """What of a section, or of its parts, did not pass."""
    parts = [result, *(part for part in result.values() if isinstance(part, dict))]
    return any(part.get("passed") is False for part in parts)


on_gpu = options.device.startswith("cuda")
probe = run([program, "run", "--prompt", "Hello", "--max-tokens", "2", "--device", options.device])
if probe.returncode != 0:
    print(f"gpu_check: {probe.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    sys.exit(2)
report = {"device": options.device, "doctor": run([program, "doctor"]).stdout.splitlines()}
with tempfile.TemporaryDirectory() as scratch:
    makers = {"suites": suites, "sanitizer": sanitized, "recordings": lambda: recordings(scratch), "decode": lambda: speeds(scratch),
              "bench": lambda: benchmark(scratch), "kernels": lambda: kernels(scratch)}
    for section in sections:
        if section not in makers:
            sys.exit(f"gpu_check: no section '{section}'; there are {', '.join(makers)}")
        report[section] = makers[section]()
        print(f"gpu_check: {section} {'FAILED' if failed(report[section]) else 'done'}", file=sys.stderr)
report["passed"] = not any(failed(report[section]) for section in sections)
pathlib.Path(options.out).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
print(f"gpu_check: {'passed' if report['passed'] else 'FAILED'}; report in {options.out}")
sys.exit(0 if report["passed"] else 1)
