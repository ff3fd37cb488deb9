"""What the open window costs the decode: the same run in the window (shown, drawing, at full speed) and without one, in turns. Both
record a trace; tokens/s come from its arrival times, without the first tenth. `xvfb-run -s "-screen 0 1600x1000x24" python
bench/window_cost.py --program build/refreshlab --tokens 600 -- --student assets/models/llama-tales-student`"""
import argparse
import json
import os
import pathlib
import signal
import sqlite3
import statistics
import subprocess
import tempfile
import time


def rate_of(trace):
    """Tokens a second of the trace's only run; None while it goes on."""
    if not trace.exists():
        return None
    with sqlite3.connect(f"file:{trace}?mode=ro", uri=True) as db:
        try:
            if not db.execute("SELECT stop_reason FROM runs").fetchone()[0]:
                return None
        except (sqlite3.Error, TypeError):  # not a trace yet
            return None
        times = [ms for (ms,) in db.execute("SELECT arrival_ms FROM steps ORDER BY step")]
    times = times[len(times) // 10:]
    return 1000 * (len(times) - 1) / (times[-1] - times[0])


def decode(command, trace, patience):
    process = subprocess.Popen([*command, "--record", str(trace)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + patience
    while (rate := rate_of(trace)) is None:
        if time.monotonic() > deadline or process.poll() not in (None, 0):
            process.kill()
            raise SystemExit(f"{' '.join(command)}: no run ended: {process.stderr.read().strip()}")
        time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    process.wait()
    return rate


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/refreshlab")
    parser.add_argument("--tokens", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--patience", type=float, default=300, help="seconds that a run may take")
    parser.add_argument("--json", help="write everything")
    parser.add_argument("options", nargs="*", help="of the run, after --")
    args = parser.parse_args()
    if not os.environ.get("DISPLAY"):
        raise SystemExit("no display: use xvfb-run")
    run = ["--mode", "student", "--ignore-stop", "--max-tokens", str(args.tokens), "--prompt", "Once upon a time", *args.options]
    commands = {"run": [args.program, "run", *run], "window": [args.program, "gui", "--pace", "max", *run]}
    rates = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        for r in range(args.rounds):
            for name in list(commands)[::1 if r % 2 == 0 else -1]:
                rates[name].append(decode(commands[name], pathlib.Path(folder) / f"{name}-{r}.rlt", args.patience))
    ratios = sorted(w / p for w, p in zip(rates["window"], rates["run"]))
    for name, of in rates.items():
        print(f"{name:8} {statistics.median(of):9.1f} tokens/s ({min(of):.1f} .. {max(of):.1f})")
    print(f"the window takes {100 * (1 - statistics.median(ratios)):.1f} % ({100 * (1 - ratios[-1]):.1f} .. {100 * (1 - ratios[0]):.1f})")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"tokens": args.tokens, "options": args.options, "tokens_per_second": rates}))


if __name__ == "__main__":
    main()
