"""Writes tiny checkpoints of every family and what `transformers` computes with them, for the parity suite.

usage: transformers_reference.py OUT_DIR short|full NAME=CHECKPOINT...

For every configuration below (full: and random ones of every family, longer texts), OUT_DIR/<name>/ becomes a checkpoint
folder (save_pretrained); for every NAME=CHECKPOINT given, that folder is used as it is. Beside each,
OUT_DIR/<name>-reference/model.safetensors holds, all as floating-point tensors:
  tokens                     prompt and the tokens fed afterwards, one cached step each
  logits, hidden             fp32, of every token; hidden[l] is what layer l reads, hidden[-1] what the final norm reads
  keys, values               of every layer, all positions (a window is a mask here, nothing is dropped)
  attention.<i>              rows of all layers of the last prompt token (i = 0) and of every step
  far_tokens, far_logits     the whole context, its last 8 rows
  bf16_logits                the same tokens in bf16
  rounded_logits             in fp32 with the weights rounded to bf16
OUT_DIR/manifest.json lists names, families, lengths and chunk sizes. Everything is made once: a stamp of this script, the library
versions, the arguments and the given checkpoints is left behind, and a second run with the same stamp does nothing.
"""

import hashlib
import importlib.metadata
import json
import pathlib
import random
import shutil
import sys

FAMILIES = ["llama", "mistral", "qwen2", "qwen3", "granite", "smollm3"]
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}
DEFAULT = {"rope_type": "default", "rope_theta": 1000000.0}
# Of 6 or more channel pairs some turn often enough within 64 positions to stay, and some do not turn once.
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 4.0}
YARN_OWN = {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 8.0, "original_max_position_embeddings": 128, "beta_fast": 8.0, "beta_slow": 0.5,
            "truncate": False, "attention_factor": 0.8}


def shape(hidden, inner, layers, heads, kv_heads, **more):
    return dict(hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
                num_key_value_heads=kv_heads, **more)


CONFIGS = {
    # head size and heads that do not multiply to the hidden width; one shard per few kilobytes
    "llama-gqa": shape(48, 80, 3, 6, 2, head_dim=16, tie_word_embeddings=True, bos_token_id=3, eos_token_id=[5, 9]),
    # own output matrix, biases everywhere, derived head size, no grouping
    "llama-biases": shape(64, 96, 2, 4, 4, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-5),
    # the pruned student in small: odd widths, a head size that is not theirs, llama3 frequencies, tied head
    "llama-pruned": shape(53, 89, 4, 6, 3, head_dim=20, tie_word_embeddings=True, rope_parameters=LLAMA3),
    "llama-linear": shape(32, 48, 2, 2, 1, head_dim=32, rope_parameters=LINEAR),
    "mistral-window": shape(48, 64, 3, 8, 2, head_dim=12, sliding_window=13),
    "mistral-full": shape(45, 77, 2, 5, 5, head_dim=18, sliding_window=None),
    "mistral-odd": shape(37, 61, 2, 4, 1, head_dim=24, sliding_window=70, rope_parameters=LINEAR),
    "qwen2-tied": shape(64, 88, 2, 4, 2, tie_word_embeddings=True, rope_parameters=DEFAULT),
    "qwen2-upper": shape(48, 72, 3, 6, 2, use_sliding_window=True, sliding_window=17, max_window_layers=1),
    "qwen2-types": shape(42, 67, 3, 3, 1, use_sliding_window=True, sliding_window=29,
                         layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "qwen2-yarn": shape(48, 72, 2, 6, 2, rope_parameters=YARN),
    "qwen3-yarn": shape(40, 56, 2, 4, 2, head_dim=24, rope_parameters=YARN_OWN),
    "qwen3-odd": shape(51, 83, 3, 6, 2, head_dim=20, rope_parameters=DEFAULT),
    "qwen3-bias": shape(40, 56, 2, 4, 4, head_dim=16, attention_bias=True, tie_word_embeddings=True),
    "qwen3-window": shape(32, 64, 4, 4, 1, head_dim=32, use_sliding_window=True, sliding_window=9,
                          max_window_layers=2),
    # as published: 12, 0.22, 1/64 and 8, but for the smaller heads; then powers of two, which bf16 holds exactly; then all that the table has
    "granite-tied": shape(48, 72, 3, 6, 2, head_dim=16, tie_word_embeddings=True, embedding_multiplier=12.0, residual_multiplier=0.22,
                          attention_multiplier=0.125, logits_scaling=2.0),
    "granite-two": shape(39, 61, 2, 4, 4, head_dim=16, embedding_multiplier=4.0, residual_multiplier=0.5, attention_multiplier=0.125,
                         logits_scaling=0.5, rms_norm_eps=1e-5),
    "granite-biases": shape(64, 80, 2, 4, 1, attention_bias=True, mlp_bias=True, embedding_multiplier=3.0, residual_multiplier=0.7,
                            attention_multiplier=0.3, logits_scaling=1.5, rope_parameters=LLAMA3),
    # every fourth layer turns nothing; the list of another order; all that the table has
    "smollm3-fourth": shape(48, 72, 5, 4, 2, rope_parameters=DEFAULT),
    "smollm3-list": shape(42, 60, 3, 6, 3, head_dim=14, no_rope_layers=[0, 1, 0], tie_word_embeddings=False, rope_parameters=YARN),
    "smollm3-biases": shape(32, 48, 3, 4, 1, no_rope_layer_interval=2, attention_bias=True, mlp_bias=True, rope_parameters=DEFAULT),
}
# The wide student of the literature as it is (one layer of it): 1689 x 4505 at 24 heads of 128.
FULL_CONFIGS = {"llama-1689": shape(1689, 4505, 1, 24, 8, head_dim=128, tie_word_embeddings=True, rope_parameters=LLAMA3)}


def random_config(family: str, draw: random.Random) -> dict:
    kv_heads = draw.choice([1, 2, 3])
    layers = draw.randint(1, 5)
    config = shape(draw.randint(9, 120), draw.randint(9, 200), layers, kv_heads * draw.choice([1, 2, 3, 4]), kv_heads,
                   head_dim=2 * draw.randint(4, 33), tie_word_embeddings=draw.random() < 0.5,
                   rms_norm_eps=draw.choice([1e-5, 1e-6]), rope_parameters=dict(draw.choice([LLAMA3, LINEAR, DEFAULT, YARN, YARN_OWN])))
    if family == "granite":
        config.update(embedding_multiplier=draw.choice([1.0, 6.0, 12.0]), residual_multiplier=draw.choice([0.22, 1.0]),
                      attention_multiplier=draw.choice([0.1, 0.25]), logits_scaling=draw.choice([1.0, 1.5]))
    if family == "smollm3":
        config["no_rope_layer_interval"] = draw.randint(1, 4)
    if family in ("llama", "qwen3", "granite", "smollm3"):
        config["attention_bias"] = draw.random() < 0.5
    if family in ("llama", "granite", "smollm3"):
        config["mlp_bias"] = draw.random() < 0.5
    if family == "mistral":
        config["sliding_window"] = draw.choice([None, draw.randint(1, 300)])
    if family.startswith("qwen") and draw.random() < 0.7:
        config.update(use_sliding_window=True, sliding_window=draw.randint(1, 300), max_window_layers=draw.randint(0, layers))
    return config


def stamp(arguments: list[str]) -> str:
    digest = hashlib.sha256(pathlib.Path(__file__).read_bytes())
    for package in ("torch", "transformers", "safetensors"):
        digest.update(importlib.metadata.version(package).encode())
    for argument in arguments:
        digest.update(argument.encode())
        for file in sorted(pathlib.Path(argument.partition("=")[2] or "none").glob("*")):
            digest.update(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}".encode())
    return digest.hexdigest()


def old_spelling(folder: pathlib.Path) -> None:
    """config.json as it was written before transformers 5."""
    file = folder / "config.json"
    config = json.loads(file.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = {"type": rope.pop("rope_type"), **rope}
    config["torch_dtype"] = config.pop("dtype")
    file.write_text(json.dumps(config, indent=2))


def make_checkpoint(name: str, settings: dict, folder: pathlib.Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(sum(name.encode()))
    family = name.partition("-")[0]
    if family == "smollm3":  # its own ids are beyond this vocabulary
        settings = dict(settings, pad_token_id=None, bos_token_id=0, eos_token_id=1)
    config = AutoConfig.for_model(family, vocab_size=211, max_position_embeddings=512, **settings)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    width = settings["hidden_size"]
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            # Large enough that logits reach several units and attention is far from uniform.
            if "norm" in key:
                parameter.normal_(1.0, 0.2)
            else:
                parameter.normal_(0.0, 0.16 if width < 200 else 0.03)
    model.save_pretrained(folder, max_shard_size="30KB" if name == "llama-gqa" else "5GB")
    if name == "llama-linear":
        old_spelling(folder)


def reference(folder: pathlib.Path, seed: int, prompt: int, steps: int) -> dict:
    import torch
    from transformers import AutoModelForCausalLM, DynamicCache

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    context = model.config.max_position_embeddings
    assert prompt + steps <= context
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, model.config.vocab_size, (1, prompt + steps), generator=generator)
    out = {"tokens": tokens[0].to(torch.float64)}

    stream = [[] for _ in range(model.config.num_hidden_layers + 1)]
    hooks = [layer.register_forward_pre_hook(lambda _, args, kwargs, to=to: to.append((args[0] if args else kwargs["hidden_states"])[0]),
                                             with_kwargs=True)
             for layer, to in zip([*model.model.layers, model.model.norm], stream)]
    # Without the configuration a cache keeps every position, also of sliding layers; the window is then a mask alone.
    cache = DynamicCache()
    result = model(tokens[:, :prompt], past_key_values=cache, use_cache=True, output_attentions=True)
    rows = [result.logits[0]]
    out["attention.0"] = torch.stack([a[0, :, -1] for a in result.attentions])
    for i in range(steps):
        result = model(tokens[:, prompt + i : prompt + i + 1], past_key_values=cache, use_cache=True,
                       output_attentions=True)
        rows.append(result.logits[0])
        out[f"attention.{i + 1}"] = torch.stack([a[0, :, -1] for a in result.attentions])
    for hook in hooks:
        hook.remove()
    out["logits"] = torch.cat(rows)
    out["hidden"] = torch.stack([torch.cat(parts) for parts in stream])
    out["keys"] = torch.cat([layer.keys for layer in cache.layers])
    out["values"] = torch.cat([layer.values for layer in cache.layers])
    # Its own cache, which forgets what lies behind a window, gives the same rows.
    own = model(tokens[:, :prompt], use_cache=True)
    own_rows = [own.logits[0]]
    for i in range(steps):
        own = model(tokens[:, prompt + i : prompt + i + 1], past_key_values=own.past_key_values, use_cache=True)
        own_rows.append(own.logits[0])
    assert (torch.cat(own_rows) - out["logits"]).abs().max() < 5e-5, folder

    # Far into the context, where the rounding of the rotary angle counts.
    far = torch.randint(0, model.config.vocab_size, (1, context), generator=generator)
    out["far_tokens"] = far[0].to(torch.float64)
    out["far_logits"] = model(far, use_cache=False).logits[0, -8:]

    half = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="eager").eval()
    out["bf16_logits"] = half(tokens, use_cache=False).logits[0].float()
    # The same rounded weights, computed without rounding: what a bf16 row approximates.
    out["rounded_logits"] = half.float()(tokens, use_cache=False).logits[0]
    return {key: value.contiguous().clone() for key, value in out.items()}


def main() -> None:
    out = pathlib.Path(sys.argv[1])
    full = sys.argv[2] == "full"
    mark = stamp(sys.argv[2:])
    if (out / "stamp").exists() and (out / "stamp").read_text() == mark:
        return

    import torch
    from safetensors.torch import save_file
    from transformers.utils import logging

    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    configs = dict(CONFIGS)
    if full:
        configs.update(FULL_CONFIGS)
        draw = random.Random(20250214)
        for family in FAMILIES:
            for i in range(8):
                configs[f"{family}-random{i}"] = random_config(family, draw)
    for name, settings in configs.items():
        make_checkpoint(name, settings, out / name)
    folders = {name: out / name for name in configs}
    for argument in sys.argv[3:]:
        name, _, folder = argument.partition("=")
        folders[name] = pathlib.Path(folder)
    manifest = []
    for seed, (name, folder) in enumerate(folders.items()):
        prompt, steps = (70, 64) if not full else ((70, 64), (301, 64), (5, 200))[seed % 3]
        target = out / f"{name}-reference"
        target.mkdir(parents=True)
        with torch.no_grad():
            save_file(reference(folder, seed, prompt, steps), target / "model.safetensors")
        manifest.append({"name": name, "folder": str(folder), "prompt": prompt, "steps": steps})
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1))
    (out / "stamp").write_text(mark)


if __name__ == "__main__":
    main()
