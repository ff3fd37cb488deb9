"""Writes tiny checkpoints of every family and what `transformers` computes with them, for the parity suite.

usage: transformers_reference.py OUT_DIR short|full NAME=CHECKPOINT...

For every configuration below (full: and random ones of every family, longer texts), OUT_DIR/<name>/ becomes a checkpoint
folder (save_pretrained); for every NAME=CHECKPOINT given, that folder is used as it is. Beside each,
OUT_DIR/<name>-reference/model.safetensors holds, all as floating-point tensors:
  tokens                     prompt and the tokens fed afterwards, one cached step each
  logits, hidden             fp32, of every token; hidden[l] is what layer l reads, hidden[-1] what the final norm reads
  keys, values               of every layer, all positions (a window is a mask here, nothing is dropped)
  attention.<i>              rows of all layers of the last prompt token (i = 0) and of every step
  frequencies                of the rotary embedding, before a context that changes them; of Gemma 3 local_frequencies as well; only those that a layer uses
  far_tokens, far_logits     the whole context, its last 8 rows
  far_error                  how far they are from a computation in fp64, at most: how well this model is conditioned
  bf16_logits                the same tokens in bf16
  rounded_logits             in fp32 with the weights rounded to bf16
OUT_DIR/manifest.json lists names, families, lengths and chunk sizes. Everything is made once: a stamp of this script, the library
versions, the arguments and the given checkpoints is left behind, and a second run with the same stamp does nothing.
"""

import copy
import hashlib
import importlib.metadata
import json
import pathlib
import random
import shutil
import sys

FAMILIES = ["llama", "mistral", "qwen2", "qwen3", "granite", "smollm3", "olmo2", "phi3", "gemma2", "gemma3_text", "mixtral", "qwen3_moe"]
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}
DEFAULT = {"rope_type": "default", "rope_theta": 1000000.0}
# Of 6 or more channel pairs some turn often enough within 64 positions to stay, and some do not turn once.
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 4.0}
YARN_OWN = {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 8.0, "original_max_position_embeddings": 128, "beta_fast": 8.0, "beta_slow": 0.5,
            "truncate": False, "attention_factor": 0.8}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
TWO_ROPES = {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 500000.0},
             "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}}


def longrope(pairs):
    return {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1 + 0.1 * i for i in range(pairs)],
            "long_factor": [1.5 + 0.7 * i for i in range(pairs)]}


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
    "llama-dynamic": shape(32, 48, 2, 2, 1, head_dim=16, rope_parameters=DYNAMIC),
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
    "olmo2-grouped": shape(48, 72, 3, 6, 2, rope_parameters=DEFAULT),
    "olmo2-odd": shape(45, 61, 2, 5, 5, head_dim=14, attention_bias=True, tie_word_embeddings=True, rope_parameters=YARN),
    "olmo2-linear": shape(64, 88, 2, 4, 1, rms_norm_eps=1e-6, rope_parameters=LINEAR),
    # the prompt is longer than the original context, or that is reached at the end of the context alone; heads that turn in part
    "phi3-window": shape(50, 77, 3, 5, 1, sliding_window=13),
    "phi3-partial": shape(64, 80, 2, 4, 2, tie_word_embeddings=True, partial_rotary_factor=0.75, rope_parameters=DEFAULT),
    "phi3-long": shape(48, 72, 2, 4, 4, original_max_position_embeddings=48, rope_parameters=longrope(6)),
    "phi3-short": shape(64, 72, 2, 4, 2, original_max_position_embeddings=200, partial_rotary_factor=0.5, rope_parameters=longrope(4)),
    # as published the caps hardly bend anything: smaller ones; one of them, the other
    "gemma2-window": shape(48, 72, 4, 4, 2, head_dim=16, sliding_window=13, query_pre_attn_scalar=16, attn_logit_softcapping=5.0,
                           final_logit_softcapping=7.0),
    "gemma2-odd": shape(45, 61, 3, 6, 3, head_dim=14, sliding_window=40, query_pre_attn_scalar=24, attention_bias=True, tie_word_embeddings=False,
                        final_logit_softcapping=None),
    "gemma2-types": shape(32, 56, 3, 2, 1, head_dim=24, sliding_window=9, query_pre_attn_scalar=24, attn_logit_softcapping=None,
                          final_logit_softcapping=6.0, layer_types=["full_attention", "sliding_attention", "full_attention"]),
    "gemma3_text-six": shape(48, 72, 7, 4, 2, head_dim=16, sliding_window=13, query_pre_attn_scalar=16),
    "gemma3_text-two": shape(40, 56, 3, 4, 1, head_dim=16, sliding_window=21, query_pre_attn_scalar=12, rope_parameters=TWO_ROPES, attn_logit_softcapping=1.0,  # transformers reads it and caps nothing
                             final_logit_softcapping=6.0, layer_types=["full_attention", "sliding_attention", "full_attention"]),
    "gemma3_text-odd": shape(45, 61, 3, 6, 3, head_dim=14, sliding_window=600, query_pre_attn_scalar=24, attention_bias=True,
                             tie_word_embeddings=False),
    "mixtral-four": shape(48, 40, 3, 4, 2, num_local_experts=4, num_experts_per_tok=2, rope_parameters=DEFAULT),
    "mixtral-window": shape(45, 33, 2, 6, 3, head_dim=14, num_local_experts=3, num_experts_per_tok=1, sliding_window=17, tie_word_embeddings=True),
    "mixtral-all": shape(32, 24, 2, 4, 1, num_local_experts=3, num_experts_per_tok=3, rope_parameters=LINEAR),
    "qwen3_moe-six": shape(48, 72, 3, 4, 2, head_dim=16, moe_intermediate_size=24, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True),
    "qwen3_moe-mixed": shape(40, 56, 4, 4, 1, head_dim=16, moe_intermediate_size=32, num_experts=5, num_experts_per_tok=3, decoder_sparse_step=2,
                             mlp_only_layers=[3], attention_bias=True, tie_word_embeddings=True),
    "qwen3_moe-odd": shape(45, 61, 2, 6, 3, head_dim=14, moe_intermediate_size=21, num_experts=4, num_experts_per_tok=2, use_sliding_window=True,
                           sliding_window=19, rope_parameters=DEFAULT),
}
# Their own special ids are beyond this vocabulary.
OWN_IDS = {"smollm3", "olmo2", "phi3"}
EAGER = dict(attn_implementation="eager", experts_implementation="eager")  # the other experts ask for aligned widths
# The wide student of the literature as it is (one layer of it): 1689 x 4505 at 24 heads of 128.
FULL_CONFIGS = {"llama-1689": shape(1689, 4505, 1, 24, 8, head_dim=128, tie_word_embeddings=True, rope_parameters=LLAMA3)}


def random_config(family: str, draw: random.Random) -> dict:
    kv_heads = draw.choice([1, 2, 3])
    layers = draw.randint(1, 5)
    config = shape(draw.randint(9, 120), draw.randint(9, 200), layers, kv_heads * draw.choice([1, 2, 3, 4]), kv_heads,
                   head_dim=2 * draw.randint(4, 33), tie_word_embeddings=draw.random() < 0.5,
                   rms_norm_eps=draw.choice([1e-5, 1e-6]), rope_parameters=dict(draw.choice([LLAMA3, LINEAR, DEFAULT, YARN, YARN_OWN])))
    if family == "phi3":
        heads = config["num_attention_heads"]
        config.update(hidden_size=heads * 2 * draw.randint(4, 12), sliding_window=draw.choice([None, draw.randint(1, 300)]),
                      original_max_position_embeddings=draw.choice([4, 512]))
        config.pop("head_dim")
        share, head_dim = draw.choice([0.5, 1.0]), config["hidden_size"] // heads
        turning = int(head_dim * share) // 2 * 2
        config.update(partial_rotary_factor=turning / head_dim, rope_parameters=draw.choice([dict(DEFAULT), longrope(turning // 2)]))
    if family.startswith("gemma"):
        config.update(query_pre_attn_scalar=draw.choice([config["head_dim"], 20]), sliding_window=draw.randint(1, 300),
                      attn_logit_softcapping=draw.choice([None, 6.0]), final_logit_softcapping=draw.choice([None, 8.0]))
    if family == "gemma3_text":
        config["rope_parameters"] = dict(TWO_ROPES)
    if family == "mixtral":
        config.update(num_local_experts=draw.randint(2, 5), num_experts_per_tok=draw.randint(1, 2), sliding_window=draw.choice([None, draw.randint(1, 300)]))
    if family == "qwen3_moe":
        config.update(num_experts=draw.randint(2, 7), num_experts_per_tok=draw.randint(1, 2), moe_intermediate_size=draw.randint(9, 60),
                      decoder_sparse_step=draw.randint(1, 2), norm_topk_prob=draw.random() < 0.5)
    if family == "granite":
        config.update(embedding_multiplier=draw.choice([1.0, 6.0, 12.0]), residual_multiplier=draw.choice([0.22, 1.0]),
                      attention_multiplier=draw.choice([0.1, 0.25]), logits_scaling=draw.choice([1.0, 1.5]))
    if family == "smollm3":
        config["no_rope_layer_interval"] = draw.randint(1, 4)
    if family in ("llama", "qwen3", "granite", "smollm3", "olmo2", "gemma2", "gemma3_text", "qwen3_moe"):
        config["attention_bias"] = draw.random() < 0.5
    if family in ("llama", "granite", "smollm3"):
        config["mlp_bias"] = draw.random() < 0.5
    if family == "mistral":
        config["sliding_window"] = draw.choice([None, draw.randint(1, 300)])
    if family in ("qwen2", "qwen3") and draw.random() < 0.7:
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

    settings = copy.deepcopy(settings)  # transformers writes into it
    torch.manual_seed(sum(name.encode()))
    family = name.partition("-")[0]
    if family in OWN_IDS:
        settings = dict(settings, pad_token_id=None, bos_token_id=0, eos_token_id=1)
    config = AutoConfig.for_model(family, vocab_size=211, max_position_embeddings=512, **settings)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    width = settings["hidden_size"]
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            # Large enough that logits reach several units and attention is far from uniform.
            if "norm" in key:
                parameter.normal_(0.0 if family.startswith("gemma") else 1.0, 0.2)
            else:
                parameter.normal_(0.0, 0.16 if width < 200 else 0.03)
    model.save_pretrained(folder, max_shard_size="30KB" if name == "llama-gqa" else "5GB")
    if name == "llama-linear":
        old_spelling(folder)


def reference(folder: pathlib.Path, seed: int, prompt: int, steps: int) -> dict:
    import torch
    from transformers import AutoModelForCausalLM, DynamicCache

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **EAGER).eval()
    context = model.config.max_position_embeddings
    scaling = model.config.rope_parameters
    if scaling.get("rope_type") == "dynamic":  # there the key names the context before it grows
        context = int(context * scaling["factor"])
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
    rotary = model.model.rotary_emb
    for key, of in (("frequencies", "full_attention_"), ("local_frequencies", "sliding_attention_")):
        named = getattr(rotary, f"{of}original_inv_freq", None)  # of Gemma 3, where a layer is of that kind
        if named is not None or hasattr(rotary, "original_inv_freq"):
            out[key] = named if named is not None else rotary.original_inv_freq
    exact = model.double()(far, use_cache=False).logits[0, -8:]
    out["far_error"] = (exact - out["far_logits"]).abs().max().reshape(1)

    half = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **EAGER).eval()
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
