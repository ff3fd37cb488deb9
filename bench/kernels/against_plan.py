"""A plan (`refreshlab bench --plan --json`) beside what its launches took on a GPU (trace.cpp). Standard library only.

    python3 bench/kernels/against_plan.py --plan plan.json --trace kernels.csv [--json FILE]

The trace is of a run with the plan's model; a step in it is a sequence of launches that has the plan's kernels and blocks, in its order. The
first steps pay for start-up and are left out. Grids may differ where they follow the capacity of a cache."""
import argparse
import csv
import json
import re
import statistics
import sys

WARM_UPS = 3


def kernel_of(name):
    """'void a::(anonymous namespace)::head_kernel<b, 8>(int)' -> 'head'; None for a kernel that is not one of ours."""
    found = re.search(r"(\w+)_kernel(?=[<(]|$)", name)
    return found[1] if found else None


def read_trace(file):
    """Launches of our kernels in the order in which they began."""
    launches = []
    for row in csv.DictReader(file):
        kernel = kernel_of(row["kernel"])
        if kernel:
            launches.append({"kernel": kernel, "start_ns": int(row["start_ns"]), "end_ns": int(row["end_ns"]),
                             "grid": [int(row["grid_" + axis]) for axis in "xyz"],
                             "block": [int(row["block_" + axis]) for axis in "xyz"]})
    return sorted(launches, key=lambda launch: launch["start_ns"])


def find_steps(planned, launches):
    """Sequences of launches that are the plan's, none of them twice."""
    wanted = [(p["kernel"], tuple(p["block"])) for p in planned]
    made = [(launch["kernel"], tuple(launch["block"])) for launch in launches]
    steps, at = [], 0
    while wanted and at + len(wanted) <= len(made):
        if made[at] == wanted[0] and made[at:at + len(wanted)] == wanted:
            steps.append(launches[at:at + len(wanted)])
            at += len(wanted)
        else:
            at += 1
    return steps


def spread(values):
    """Median and quartiles."""
    ordered = sorted(values)
    return {"median": statistics.median(ordered), "low": ordered[len(ordered) // 4], "high": ordered[(len(ordered) * 3) // 4],
            "count": len(ordered)}


def compare(plan, launches):
    """Measured beside predicted, for each kind of launch and for the step. Raises ValueError where the trace has too few steps."""
    planned = plan["launches"]
    steps = find_steps(planned, launches)[WARM_UPS:]
    if not steps:
        raise ValueError(f"the trace holds no step of the plan behind {WARM_UPS} that warm up: {len(launches)} launches of our kernels, "
                         f"{len(planned)} in a step")
    rows = {}
    for i, launch in enumerate(planned):
        row = rows.setdefault((launch["kernel"], launch["part"]), {"kernel": launch["kernel"], "part": launch["part"], "times": 0,
                                                                   "measured": [], "gaps": [], "predicted": [], "predicted_gaps": []})
        row["times"] += 1
        row["predicted"].append(launch["predicted_us"] - launch["gap_us"])
        row["predicted_gaps"].append(launch["gap_us"])
        for step in steps:
            row["measured"].append((step[i]["end_ns"] - step[i]["start_ns"]) / 1e3)
            if i > 0:  # below 0: a dependent launch that began before the one in front had ended
                row["gaps"].append((step[i]["start_ns"] - step[i - 1]["end_ns"]) / 1e3)
    table = []
    for row in rows.values():
        predicted = statistics.mean(row["predicted"])
        measured = spread(row["measured"])
        table.append({"kernel": row["kernel"], "part": row["part"], "times": row["times"], "measured_us": measured,
                      "predicted_us": predicted, "measured_over_predicted": measured["median"] / predicted if predicted > 0 else None,
                      "measured_gap_us": spread(row["gaps"]) if row["gaps"] else None,
                      "predicted_gap_us": statistics.mean(row["predicted_gaps"])})
    whole = spread([(step[-1]["end_ns"] - step[0]["start_ns"]) / 1e3 for step in steps])
    # The plan counts the gap in front of the first launch, a trace does not.
    predicted = plan["predicted_us"] - planned[0]["gap_us"]
    return {"device_model": plan["device_model"]["name"], "context": plan["context"], "steps": len(steps), "launches": table,
            "step": {"measured_us": whole, "predicted_us": predicted, "measured_over_predicted": whole["median"] / predicted,
                     "floor_us": plan["floor_us"], "measured_share_of_floor": plan["floor_us"] / whole["median"]}}


def table_of(result):
    lines = [f"{'launch':<12} {'kernel':<20} {'times':>5} {'measured us':>12} {'predicted us':>13} {'ratio':>6} {'gap us':>8} {'predicted':>9}"]
    for row in result["launches"]:
        gap = f"{row['measured_gap_us']['median']:.2f}" if row["measured_gap_us"] else "-"
        ratio = f"{row['measured_over_predicted']:.2f}" if row["measured_over_predicted"] is not None else "-"
        lines.append(f"{row['part']:<12} {row['kernel']:<20} {row['times']:>5} {row['measured_us']['median']:>12.2f} "
                     f"{row['predicted_us']:>13.2f} {ratio:>6} {gap:>8} {row['predicted_gap_us']:>9.2f}")
    step = result["step"]
    lines.append(f"step: measured {step['measured_us']['median']:.1f} us ({step['measured_us']['low']:.1f} .. "
                 f"{step['measured_us']['high']:.1f}, {result['steps']} steps), predicted {step['predicted_us']:.1f} us, floor "
                 f"{step['floor_us']:.1f} us")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plan", required=True)
    parser.add_argument("--trace", required=True)
    parser.add_argument("--json")
    options = parser.parse_args()
    with open(options.plan, encoding="utf-8") as file:
        plan = json.load(file)
    with open(options.trace, newline="", encoding="utf-8") as file:
        launches = read_trace(file)
    try:
        result = compare(plan, launches)
    except ValueError as problem:
        sys.exit(f"against_plan: {problem}")
    print(table_of(result))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=2)


if __name__ == "__main__":
    main()
