"""The sessions of the parity suite: tiny pairs of every family, jobs on them and on the bundled pair, and their references.

usage: session_jobs.py OUT_DIR short|full BUNDLED_TEACHER BUNDLED_STUDENT

OUT_DIR/pairs/<name>-teacher and -student become checkpoint folders, OUT_DIR/<job>/ holds policy.json, prompt.txt and given.txt
of a job, and OUT_DIR/manifest.json a list of {name, arguments, expected}: what to give to `refreshlab run`, and what
session_reference.py makes of the same job. Everything is made once: a stamp of both scripts, the library versions, the
arguments and the bundled pair stays, and a second run with the same stamp does nothing.
"""

import fcntl
import hashlib
import importlib.metadata
import json
import pathlib
import random
import shutil
import sys

HERE = pathlib.Path(__file__).parent
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
DEFAULT = {"rope_type": "default", "rope_theta": 10000.0}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 4.0}


def shape(layers, heads, kv_heads, head_dim, **more):
    return dict(num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim, **more)


# name -> (what both have, hidden and MLP width of the teacher, of the student, what only the student has)
PAIRS = {
    "llama": (shape(3, 6, 2, 16, rope_parameters=LLAMA3, tie_word_embeddings=True), (48, 80), (29, 53), {}),
    "qwen2": (shape(2, 4, 2, 12, rope_parameters=DEFAULT), (44, 72), (31, 45), {"num_attention_heads": 6}),
    "qwen3": (shape(3, 6, 3, 14, rope_parameters=YARN), (51, 83), (40, 56), {"attention_bias": True}),
    "mistral": (shape(3, 4, 1, 18, rope_parameters=DEFAULT, sliding_window=13), (45, 77), (33, 61), {}),
    # Another number of layers: rebuild mode.
    "llama-rebuild": (shape(3, 4, 2, 16, rope_parameters=DEFAULT), (48, 64), (35, 49), {"num_hidden_layers": 2}),
    # Other heads as well, and a window that only the student has.
    "mistral-rebuild": (shape(2, 4, 2, 16, rope_parameters=DEFAULT, sliding_window=None), (40, 64), (27, 41),
                        {"num_key_value_heads": 4, "sliding_window": 9}),
}
SPECIALS = ["<|begin|>", "<|end|>"]
# So many that random models come across one: the run then ends, or a refresh takes the token back.
END_TOKENS = list(range(1, 320, 13))
CORPUS = ("the king and the queen of the north went to the old tower by the river. there the guard saw a red fox, a white hare "
          "and seven small birds; nobody knew whose they were, but the cook said: let them stay till the winter is over. "
          "Zürich, naïve, 12 345 - 67.\n")


def make_tokenizer(folder: pathlib.Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=[AddedToken(s, special=True) for s in SPECIALS],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([CORPUS], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "bos_token": "<|begin|>"}))


def make_checkpoint(folder: pathlib.Path, family: str, seed: int, widths: tuple, **settings) -> None:
    import torch
    from tokenizers import Tokenizer
    from transformers import AutoConfig, AutoModelForCausalLM

    folder.mkdir(parents=True)
    make_tokenizer(folder)
    vocab = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size()
    config = AutoConfig.for_model(family, vocab_size=vocab, max_position_embeddings=256, hidden_size=widths[0],
                                  intermediate_size=widths[1], bos_token_id=0, eos_token_id=END_TOKENS, **settings)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            # Large enough that logits reach several units and attention is far from uniform.
            if "norm" in key:
                parameter.normal_(1.0, 0.2)
            else:
                parameter.normal_(0.0, 0.2)
    model.generation_config.eos_token_id = END_TOKENS
    model.save_pretrained(folder)


def make_pairs(out: pathlib.Path) -> dict:
    pairs = {}
    for seed, (name, (both, teacher, student, own)) in enumerate(PAIRS.items()):
        family = name.partition("-")[0]
        folders = [out / "pairs" / f"{name}-{role}" for role in ("teacher", "student")]
        make_checkpoint(folders[0], family, 2 * seed, teacher, **both)
        make_checkpoint(folders[1], family, 2 * seed + 1, student, **both | own)
        pairs[name] = [str(folder) for folder in folders]
    return pairs


# Policies in the form of docs/design.md, section 4.


def periodic(every, **more):
    return {"signal": "steps_since_refresh", "at_least": every, **more}


def above(signal, threshold, every=1, cooldown=0):
    return {"signal": signal, "above": threshold, "every": every, "cooldown": cooldown}


def policy(*triggers, combine="any", window=None, lag=0, on_fire="keep", cap=None, per=1000):
    return {"name": "parity", "when": {combine: list(triggers)}, "do": {"refresh": {"window": window, "lag": lag}},
            "on_fire": on_fire, "budget": {"refreshes": cap, "per_tokens": per}}


def text_of(draw: random.Random, length: int) -> str:
    """Words of the corpus in any order: a text that no model would have written."""
    return " ".join(draw.choice(CORPUS.split()) for _ in range(length))


CHRONICLE = {"pair": "bundled", "prompt": "Write a chronicle of 6 companies.", "chat": True}
STORY = {"pair": "bundled", "prompt": "Once there was", "N": 40}


def jobs_by_hand(extent: str) -> list[dict]:
    draw = random.Random(7)
    given = text_of(draw, 30)

    def tiny(pair, **more):
        return {"pair": pair, "prompt": "the old tower", "N": 40, "ignore_stop": True, **more}

    def mixture(on_fire):
        return policy(above("entropy_bits", 5.0, 3, 2), above("kl_nats", 0.3, 5), above("top1_surprisal_bits", 3.5),
                      periodic(17), on_fire=on_fire, cap=4, per=20)

    dropout = {"measure": "true", "samples": 64, "p": 0.2}
    dropout |= {"every": 8, "groups": 16} if extent == "short" else {"every": 4, "groups": 60}
    return [
        # The bundled pair: what a person sees first.
        CHRONICLE | {"name": "chronicle entropy redraw", "N": 90,
                     "policy": policy(above("entropy_bits", 6.0, 1, 4), on_fire="redraw")},
        CHRONICLE | {"name": "chronicle kl keep", "N": 70, "policy": policy(above("kl_nats", 0.5, 8, 5))},
        STORY | {"name": "story periodic window teacher_token", "policy": policy(periodic(7), window=3, on_fire="teacher_token")},
        STORY | {"name": "story teacher", "mode": "teacher"},
        STORY | {"name": "story student", "mode": "student"},
        STORY | {"name": "story mixture", "policy": mixture("redraw")},
        # Every policy and every on_fire on every family.
        tiny("llama", name="llama none"),
        tiny("llama", name="llama burst", policy=policy(periodic(8), window=8)),
        tiny("llama", name="llama all", policy=policy(above("entropy_bits", 4.0, 2), above("kl_nats", 1.0, 6),
                                                      {"signal": "top1_prob", "below": 0.6, "every": 1, "cooldown": 3},
                                                      combine="all", on_fire="redraw")),
        tiny("llama", name="llama given mixture", given=given, N=60, policy=mixture("teacher_token")),
        tiny("qwen2", name="qwen2 entropy every cooldown", policy=policy(above("entropy_bits", 3.0, 4, 9), on_fire="redraw")),
        tiny("qwen2", name="qwen2 window 0", policy=policy(periodic(6), above("entropy_bits", 6.0, 1, 5), window=0)),
        tiny("qwen2", name="qwen2 kl teacher_token", policy=policy(above("kl_nats", 0.8, 7), on_fire="teacher_token")),
        tiny("qwen3", name="qwen3 periodic", policy=policy(periodic(9), on_fire="redraw")),
        tiny("qwen3", name="qwen3 cap", policy=policy(above("top1_surprisal_bits", 1.0), cap=2, per=11)),
        tiny("qwen3", name="qwen3 shadow", policy=policy(above("kl_nats", 0.5, 4, 6)), shadow=True),
        tiny("mistral", name="mistral periodic redraw", policy=policy(periodic(5), window=2, on_fire="redraw")),
        tiny("mistral", name="mistral mc", policy=policy(above("mc_variance", 0.0, 1, 6), on_fire="redraw"),
             mc={"samples": 3, "p": 0.1, "every": 5}),
        tiny("mistral", name="mistral student", mode="student"),
        tiny("qwen3", name="dropout attention", given=given, N=50, mc=dropout),
        # The bundled student declares dropout on both residual branches as well.
        STORY | {"name": "dropout all sites", "given": given, "N": 42, "mc": dropout},
        # Lagged: other passes, another delta, other tokens in between.
        tiny("llama", name="lag keep", policy=policy(above("kl_nats", 0.5, 7, 2), above("entropy_bits", 5.0, 3, 4), lag=3)),
        tiny("mistral", name="lag redraw", policy=policy(periodic(6), window=4, lag=5, on_fire="redraw")),
        tiny("qwen3", name="lag teacher_token", policy=policy(periodic(7), lag=2, on_fire="teacher_token")),
        # The mean over delta, alone and beside the newest position's.
        tiny("llama", name="mean kl", policy=policy(above("kl_mean_nats", 1.42, 3), on_fire="redraw")),
        tiny("mistral", name="both kl", policy=policy(above("kl_mean_nats", 1.0, 4, 3), above("kl_nats", 1.5, 9))),
        tiny("qwen2", name="both kl all", shadow=True, policy=policy(above("kl_mean_nats", 0.5, 4), above("kl_nats", 0.5, 7),
                                                                     combine="all", on_fire="teacher_token")),
        # How much of what the student draws would be taken.
        tiny("qwen3", name="acceptance", policy=policy({"signal": "acceptance", "below": 0.55, "every": 4, "cooldown": 3}, on_fire="redraw")),
        tiny("llama", name="acceptance shadow", shadow=True, policy=policy({"signal": "acceptance", "below": 0.4, "every": 6}, above("kl_nats", 1.5, 5))),
        # By hand: S10, 10 in small; against cool-down and cap; together with a trigger; while one is in flight.
        tiny("llama", name="by hand probe", manual=[20], policy=policy(above("kl_nats", 100.0, 13))),
        tiny("qwen3", name="by hand limits", manual=[5, 9, 10, 30],
             policy=policy(above("entropy_bits", 3.0, 5, 7), on_fire="redraw", cap=1, per=15)),
        tiny("mistral", name="by hand lag", manual=[5, 8, 9, 21], policy=policy(periodic(8), lag=4, window=5)),
        STORY | {"name": "story by hand", "manual": [1, 17], "policy": policy(on_fire="teacher_token")},
        # Edges.
        tiny("qwen3", name="given end", given="the cook said: let them stay", policy=policy(periodic(4), on_fire="redraw")),
        tiny("llama", name="one token", N=1, policy=policy(periodic(1), on_fire="redraw")),
        tiny("qwen3", name="prompt of one token", prompt="a", N=12, policy=policy(periodic(1), on_fire="teacher_token")),
        tiny("qwen2", name="every above N", policy=policy(periodic(41))),
        tiny("mistral", name="periodic 1 keep", N=12, policy=policy(periodic(1))),
        # The text may end by itself, also at a token that a refresh takes back.
        tiny("qwen3", name="end token keep", prompt="a white hare", ignore_stop=False, policy=policy(periodic(3))),
        tiny("qwen2", name="end token teacher_token", ignore_stop=False, policy=policy(periodic(3), on_fire="teacher_token")),
        tiny("mistral", name="end token taken back", prompt="a white hare", ignore_stop=False,
             policy=policy(periodic(3), on_fire="redraw")),
        tiny("llama", name="context limit", prompt=text_of(draw, 97), N=300, policy=policy(periodic(6), window=5)),
        # Other geometries: rebuild mode.
        tiny("llama-rebuild", name="rebuild entropy redraw", N=24,
             policy=policy(above("entropy_bits", 4.0, 2, 3), on_fire="redraw")),
        tiny("mistral-rebuild", name="rebuild mixture", N=24, policy=mixture("teacher_token")),
    ]


def random_trigger(draw: random.Random, signal: str) -> dict:
    every, cooldown = draw.choice([1, 1, 2, 3, 5, 16]), draw.choice([0, 0, 2, 7, 32])
    if signal == "steps_since_refresh":
        return {"signal": signal, "at_least": draw.randint(1, 30), "every": draw.choice([1, 1, 4]),
                "cooldown": draw.choice([0, 0, 6])}
    if signal.startswith("kl_"):
        return above(signal, round(draw.uniform(0, 4), 3), draw.randint(1, 24), cooldown)
    if signal == "top1_prob":
        return {"signal": signal, "below": round(draw.uniform(0.1, 0.9), 3), "every": every, "cooldown": cooldown}
    if signal == "mc_variance":
        return above(signal, 0.0, 1, cooldown)
    return above(signal, round(draw.uniform(0.5, 6), 3), every, cooldown)


def random_job(draw: random.Random, number: int) -> dict:
    pair = draw.choice([*PAIRS, "bundled"])
    signals = draw.sample(["steps_since_refresh", "kl_nats", "kl_mean_nats", "entropy_bits", "top1_surprisal_bits", "top1_prob",
                           "mc_variance"],
                          draw.choice([1, 1, 2, 3]))
    job = {
        "name": f"random {number} {pair}", "pair": pair, "prompt": text_of(draw, draw.randint(1, 12)),
        "N": draw.choice([1, 2, 17, 40, 64, 90]), "ignore_stop": draw.random() < 0.7,
        "mode": draw.choice(["overfill"] * 10 + ["teacher", "student"]),
        "policy": policy(*[random_trigger(draw, s) for s in signals], combine=draw.choice(["any", "any", "all"]),
                         window=draw.choice([None, None, 0, 1, 4, 16]), lag=draw.choice([0, 0, 0, 1, 2, 5, 12]),
                         on_fire=draw.choice(["keep", "teacher_token", "redraw"]),
                         cap=draw.choice([None, None, 0, 1, 3]), per=draw.choice([10, 50, 1000])),
        "mc": {"samples": 2, "p": 0.1, "every": draw.choice([1, 4, 16])},
        "shadow": draw.random() < 0.15,
    }
    if job["mode"] == "overfill" and draw.random() < 0.3:
        job["manual"] = sorted(draw.sample(range(1, 60), draw.randint(1, 4)))
    if draw.random() < 0.3:
        job["given"] = text_of(draw, 40)
    return job


def all_jobs(extent: str) -> list[dict]:
    jobs = jobs_by_hand(extent)
    if extent == "full":
        draw = random.Random(20250731)
        jobs += [random_job(draw, i) for i in range(120)]
        jobs.append({"name": "long chronicle", **CHRONICLE, "N": 330, "policy": policy(periodic(32))})
        # Student rows older than the ring leave KL missing.
        jobs.append({"name": "delta beyond the ring", "pair": "bundled", "prompt": "Once there was", "N": 300, "ignore_stop": True,
                     "policy": policy(periodic(290))})
    return jobs


def arguments_of(job: dict, pair: list[str], folder: pathlib.Path) -> list[str]:
    folder.mkdir(parents=True)
    (folder / "prompt.txt").write_text(job["prompt"] + "\n")  # one final line end is not part of the prompt
    out = ["--teacher", pair[0], "--student", pair[1], "--prompt-file", str(folder / "prompt.txt"), "--max-tokens", str(job["N"]),
           "--mode", job.get("mode", "overfill")]
    if not job.get("chat"):
        out.append("--raw-prompt")
    if "policy" in job:
        (folder / "policy.json").write_text(json.dumps(job["policy"], indent=1))
        out += ["--policy", str(folder / "policy.json")]
    if "given" in job:
        (folder / "given.txt").write_text(job["given"])
        out += ["--given-file", str(folder / "given.txt")]
    if "manual" in job:
        commands = [{"step": step, "command": {"command": "refresh_now"}} for step in job["manual"]]
        (folder / "commands.json").write_text(json.dumps(commands))
        out += ["--commands", str(folder / "commands.json")]
    if job.get("ignore_stop"):
        out.append("--ignore-stop")
    if job.get("shadow"):
        out.append("--shadow")
    for key, value in (job.get("mc") or {}).items():
        if key != "groups":
            out += ["--set", f"mc.{key}={value}"]
    return out


def stamp(arguments: list[str]) -> str:
    digest = hashlib.sha256()
    for script in ("session_jobs.py", "session_reference.py"):
        digest.update((HERE / script).read_bytes())
    for package in ("torch", "transformers", "tokenizers"):
        digest.update(importlib.metadata.version(package).encode())
    for argument in arguments:
        digest.update(argument.encode())
    for folder in arguments[1:]:
        for file in sorted(pathlib.Path(folder).glob("*")):
            digest.update(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}".encode())
    return digest.hexdigest()


def main() -> None:
    out = pathlib.Path(sys.argv[1])
    out.parent.mkdir(parents=True, exist_ok=True)
    with open(out.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two suites at once: the second waits and finds the answers
        write_answers(out, sys.argv[2], sys.argv[3:5])


def write_answers(out: pathlib.Path, extent: str, bundled: list[str]) -> None:
    mark = stamp([extent, *bundled])
    if (out / "stamp").exists() and (out / "stamp").read_text() == mark:
        return
    sys.path.insert(0, str(HERE))
    import session_reference as reference
    import torch

    torch.set_num_threads(1)
    reference.logging.set_verbosity_error()
    reference.logging.disable_progress_bar()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    pairs = make_pairs(out) | {"bundled": bundled}
    manifest = []
    for job in all_jobs(extent):
        pair = pairs[job["pair"]]
        tokenizer = reference.load_tokenizer(pair[0])
        question = {"mode": "overfill", "dtype": "float64"} | job | {"teacher": pair[0], "student": pair[1]}
        if "given" in job:
            question["given_ids"] = tokenizer.encode(job["given"], add_special_tokens=False).ids
        question["stop_ids"] = [] if job.get("ignore_stop") else reference.stop_ids(pair[0])
        expected = reference.run_job(question)
        # Where the two best logits, or a signal and its threshold, all but coincide, rounding decides and not the method.
        if any(distance is not None and distance < 5e-5 for distance in expected["closest"].values()):
            assert job["name"].startswith("random"), f"{job['name']}: too close to call: {expected['closest']}"
            continue
        manifest.append({"name": job["name"], "expected": expected,
                         "arguments": arguments_of(job, pair, out / job["name"].replace(" ", "-"))})
    (out / "manifest.json").write_text(json.dumps(manifest, allow_nan=False))
    (out / "stamp").write_text(mark)


if __name__ == "__main__":
    main()
