"""Decodes the same weights with refreshlab and with other programs, in turns, and says how fast each is. A ratio stands there
only where the generated ids are the same, or where --because says why they are not. See docs/benchmarks/README.md.

    .deps/venv/bin/python bench/peers/compare.py --model assets/models/llama-tales-teacher --peer transformers
    python bench/peers/compare.py --model M.Q4_1.gguf --peer llama.cpp --because "quantised blocks against unpacked ones"
"""
import argparse
import datetime
import json
import os
import platform
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peers
import ratio


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.split(": ", 1)[1].strip() for line in file if line.startswith("model name")), platform.machine())
    except OSError:
        return platform.machine()


def ids_of(args):
    """The prompt: a file's, or arbitrary ids that every vocabulary of some size has."""
    if not args.ids:
        return [16 + (i * 7919 + 13) % 1008 for i in range(args.prompt_tokens)]
    with open(args.ids, encoding="utf-8") as file:
        ids = json.load(file)
    if not isinstance(ids, list) or not ids or not all(isinstance(i, int) and i >= 0 for i in ids):
        raise SystemExit(f"--ids {args.ids}: is not a list of token ids")
    return ids


def peer_of(name, args, context):
    model = args.peer_model or args.model
    if name == "llama.cpp":
        return peers.LlamaCpp(model, args.dtype, args.threads, context)
    return peers.Transformers(model, args.dtype, args.threads, static="static" in name, compiled="compiled" in name)


def measure(programs, ids, args):
    """Rounds in turns; the order goes round. {program: {"ids", "rates", "first_token_ms"}}"""
    found = {program: {"ids": [], "rates": [], "first_token_ms": []} for program in programs}
    for program in programs[1:]:  # ours warms up in each of its processes
        for _ in range(args.warm_ups):
            program.decode(ids, min(args.tokens, 32))
    for r in range(args.rounds):
        for program in programs[r % len(programs):] + programs[:r % len(programs)]:
            made, first, rate = program.decode(ids, args.tokens)
            found[program]["ids"] = made
            found[program]["rates"].append(rate)
            found[program]["first_token_ms"].append(first * 1000)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/refreshlab")
    parser.add_argument("--model", required=True, help="a checkpoint folder or a .gguf file")
    parser.add_argument("--peer-model", help="the file that the peers read, where it is another one of the same weights (unpack.py)")
    parser.add_argument("--peer", action="append", required=True,
                        choices=["transformers", "transformers-static", "transformers-static-compiled", "llama.cpp"])
    parser.add_argument("--dtype", choices=["f32", "bf16", "native"], default="f32",
                        help="of ours and of transformers; of llama.cpp the cache alone (native: bf16): its weights are the file's")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--ids", help="a JSON list of token ids: the prompt")
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-ups", type=int, default=2)
    parser.add_argument("--because", help="why the generated ids may differ")
    parser.add_argument("--json", help="write everything")
    args = parser.parse_args()
    if args.tokens < 2 or args.rounds < 1 or args.prompt_tokens < 1 or args.threads < 1:
        parser.error("--tokens needs at least 2, --rounds, --prompt-tokens and --threads at least 1")
    for path in (args.program, args.model, args.peer_model):
        if path and not os.path.exists(path):
            parser.error(f"{path}: no such file")
    ids = ids_of(args)
    ours = peers.Ours(args.program, args.model, args.dtype, args.threads)
    programs = [ours, *(peer_of(name, args, len(ids) + args.tokens + 8) for name in args.peer)]
    found = measure(programs, ids, args)

    report = {"format": "refreshlab-peers", "version": 1, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "cpu": cpu_name(), "load": os.getloadavg()[0], "model": args.model, "peer_model": args.peer_model, "dtype": args.dtype,
              "threads": args.threads, "prompt_tokens": len(ids), "tokens": args.tokens, "rounds": args.rounds, "programs": []}
    print(f"{os.path.basename(args.model.rstrip('/'))}, {args.dtype}, {args.threads} threads, {args.tokens} tokens after {len(ids)}, "
          f"{args.rounds} rounds in turns, load {report['load']:.1f}; medians, in brackets the quartiles")
    for program in programs:
        speed, first = (ratio.spread(found[program][key]) for key in ("rates", "first_token_ms"))
        entry = {"name": program.name, "about": program.about, "tokens_per_second": speed, "first_token_ms": first,
                 "ids": found[program]["ids"]}
        line = (f"{program.name:<34} {speed['median']:>9.1f} tokens/s ({speed['low']:.1f} .. {speed['high']:.1f}), "
                f"first token {first['median']:.1f} ms")
        if program is not ours:
            entry.update(ratio.verdict(found[ours], found[program], args.because))
            if "ratio" in entry:
                line += f"; ours is {entry['ratio']['median']:.2f} times as fast ({entry['ratio']['low']:.2f} .. {entry['ratio']['high']:.2f})"
                if "because" in entry:
                    line += f"; ids differ from token {entry['first_difference'] + 1} on: {entry['because']}"
            else:
                line += f"; no ratio: {entry['refused']}"
        report["programs"].append(entry)
        print(line)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
