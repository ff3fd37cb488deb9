"""GGUF files and what they must read as, for the suite of engine/model/gguf.

usage: gguf_reference.py OUT_DIR SOURCE_DIR SEED

OUT_DIR/blocks/<TYPE>.bin        random blocks of a type, raw
OUT_DIR/blocks/model.safetensors what the `gguf` package unpacks them to: <TYPE> [n] f32
OUT_DIR/models/<name>/           a checkpoint folder as published (config.json, weights, the bundled tokenizer)
OUT_DIR/models/<name>.gguf       the same model: same numbers, packed in the types of gguf, rows and names as llama.cpp has them
OUT_DIR/models/bundled.gguf      the bundled student in bf16
OUT_DIR/ids/<name>/              as tests/engine/text/reference_ids.py writes them, and OUT_DIR/ids/<name>/model.gguf: the vocabulary alone
OUT_DIR/manifest.json            {"types": {name: [id, elements, bytes]}, "models": [name, ...], "ids": [name, ...]}

Does nothing when OUT_DIR holds the results of the same scripts, libraries and seed.
"""
import copy
import hashlib
import importlib.metadata
import json
import math
import pathlib
import shutil
import sys

import gguf
import numpy
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize
from safetensors.numpy import load_file, save_file

TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
# Where a block has its f16 scales.
SCALES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208]}
LLAMA3 = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def size_of(name):
    return gguf.GGML_QUANT_SIZES[Type[name]]


def random_blocks(rng, name, count, scale=None):
    """Raw blocks [count, bytes]: every bit random, but scales finite, or of about the size `scale`."""
    elements, size = size_of(name)
    if name == "F32":
        return rng.standard_normal(count, numpy.float32).view(numpy.uint8).reshape(count, 4)
    raw = rng.integers(0, 256, (count, size), numpy.uint8)
    for at in SCALES.get(name, [0] if name != "BF16" else []):
        if scale is None:  # any finite half, subnormals and both signs included
            bits = rng.integers(0, 0x7C00, count, numpy.uint16) | (rng.integers(0, 2, count, numpy.uint16) << 15)
        else:
            bits = (scale * rng.uniform(0.5, 1.5, count)).astype(numpy.float16).view(numpy.uint16)
        raw[:, at:at + 2] = bits.astype("<u2").view(numpy.uint8).reshape(count, 2)
    if name == "BF16":
        raw[:, 1] = raw[:, 1] & 0xBF  # no exponent of all ones
    return raw


def write_blocks(out, rng):
    folder = out / "blocks"
    folder.mkdir(parents=True)
    expected = {}
    for name in TYPES:
        elements, _ = size_of(name)
        raw = random_blocks(rng, name, 3000 if elements < 256 else 400)
        (folder / f"{name}.bin").write_bytes(raw.tobytes())
        expected[name] = dequantize(raw.reshape(1, -1), Type[name]).astype(numpy.float32).reshape(-1)
    save_file(expected, folder / "model.safetensors")


def to_pairs(matrix, heads):
    """Rows of q and k as llama.cpp's converter orders them for architecture llama: row h*d + 2i + p is row h*d + p*d/2 + i."""
    d = matrix.shape[0] // heads
    order = [h * d + p * (d // 2) + i for h in range(heads) for i in range(d // 2) for p in range(2)]
    return matrix[order]


def from_pairs(matrix, heads):
    d = matrix.shape[0] // heads
    result = numpy.empty_like(matrix)
    for h in range(heads):
        for i in range(d // 2):
            for p in range(2):
                result[h * d + p * (d // 2) + i] = matrix[h * d + 2 * i + p]
    return result


def shape(model_type, hidden, inner, layers, heads, kv_heads, **more):
    return dict(model_type=model_type, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
                num_key_value_heads=kv_heads, vocab_size=4096, max_position_embeddings=2048, rms_norm_eps=1e-5, rope_theta=10000.0,
                tie_word_embeddings=False, bos_token_id=0, eos_token_id=1, torch_dtype="float32") | more


# Every type occurs in every architecture that has blocks of its width.
MODELS = {
    "llama": shape("llama", 256, 512, 3, 4, 2, tie_word_embeddings=True, rope_theta=500000.0, rope_scaling=LLAMA3, head_dim=64),
    "llama biases": shape("llama", 96, 160, 2, 3, 3, attention_bias=True, mlp_bias=True, head_dim=40, rope_scaling={"rope_type": "linear", "factor": 4.0}),
    "llama odd": shape("llama", 90, 110, 2, 5, 5, rms_norm_eps=1e-6),
    "mistral": shape("mistral", 256, 768, 2, 8, 2, rope_theta=1000000.0, sliding_window=None),
    "mistral window": shape("mistral", 64, 96, 2, 4, 2, sliding_window=29),
    "qwen2": shape("qwen2", 256, 512, 3, 4, 1, tie_word_embeddings=True, rope_theta=1000000.0, rms_norm_eps=1e-6),
    "qwen2 yarn": shape("qwen2", 96, 128, 2, 4, 2, rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}),
    "qwen3": shape("qwen3", 256, 256, 3, 4, 2, head_dim=96, rope_theta=1000000.0, rms_norm_eps=1e-6),
    "granite": shape("granite", 96, 128, 2, 4, 2, tie_word_embeddings=True, embedding_multiplier=12.0, residual_multiplier=0.22,
                     attention_multiplier=0.125, logits_scaling=2.0),
    "smollm3": shape("smollm3", 96, 128, 4, 4, 2, tie_word_embeddings=True, rope_theta=2000000.0, rms_norm_eps=1e-6),
    "olmo2": shape("olmo2", 96, 128, 2, 4, 4, rope_theta=500000.0, rms_norm_eps=1e-6),
    "phi3": shape("phi3", 96, 128, 2, 4, 2, original_max_position_embeddings=512, partial_rotary_factor=0.75,
                  rope_scaling={"rope_type": "longrope", "short_factor": [1 + 0.1 * i for i in range(9)], "long_factor": [1.5 + 0.7 * i for i in range(9)]}),
    "phi3 window": shape("phi3", 64, 96, 2, 4, 4, sliding_window=29),
    "gemma2": shape("gemma2", 96, 128, 3, 4, 2, head_dim=32, query_pre_attn_scalar=32, sliding_window=29, tie_word_embeddings=True,
                    attn_logit_softcapping=20.0, final_logit_softcapping=10.0),
    "gemma3": shape("gemma3_text", 64, 96, 7, 4, 1, head_dim=32, query_pre_attn_scalar=32, sliding_window=29, tie_word_embeddings=True,
                    rope_theta=1000000.0, rope_scaling={"rope_type": "linear", "factor": 8.0}),
    "mixtral": shape("mixtral", 96, 64, 2, 4, 2, rope_theta=1000000.0, num_local_experts=3, num_experts_per_tok=2),
    "qwen3 experts": shape("qwen3_moe", 64, 96, 2, 4, 2, head_dim=32, rope_theta=1000000.0, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                           norm_topk_prob=True),
}
ARCHITECTURES = {"mistral": "llama", "mixtral": "llama", "gemma3_text": "gemma3", "qwen3_moe": "qwen3moe"}
LINEAR = {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
          "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def metadata(writer, arch, config, tensors):
    """The keys that llama.cpp's converter writes for these configurations."""
    writer.add_uint32(f"{arch}.block_count", config["num_hidden_layers"])
    writer.add_uint32(f"{arch}.context_length", config["max_position_embeddings"])
    writer.add_uint32(f"{arch}.embedding_length", config["hidden_size"])
    writer.add_uint32(f"{arch}.feed_forward_length", config["intermediate_size"])
    writer.add_uint32(f"{arch}.attention.head_count", config["num_attention_heads"])
    writer.add_uint32(f"{arch}.attention.head_count_kv", config["num_key_value_heads"])
    writer.add_float32(f"{arch}.attention.layer_norm_rms_epsilon", config["rms_norm_eps"])
    writer.add_float32(f"{arch}.rope.freq_base", config["rope_theta"])
    if "head_dim" in config:
        writer.add_uint32(f"{arch}.attention.key_length", config["head_dim"])
        writer.add_uint32(f"{arch}.attention.value_length", config["head_dim"])
        writer.add_uint32(f"{arch}.rope.dimension_count", config["head_dim"])
    if config.get("sliding_window"):
        writer.add_uint32(f"{arch}.attention.sliding_window", config["sliding_window"])
    for key, ours in (("attention.scale", "attention_multiplier"), ("embedding_scale", "embedding_multiplier"), ("residual_scale", "residual_multiplier"),
                      ("logit_scale", "logits_scaling"), ("attn_logit_softcapping",) * 2, ("final_logit_softcapping",) * 2):
        if ours in config:
            writer.add_float32(f"{arch}.{key}", config[ours])
    experts = config.get("num_local_experts") or config.get("num_experts")
    if experts:
        writer.add_uint32(f"{arch}.expert_count", experts)
        writer.add_uint32(f"{arch}.expert_used_count", config["num_experts_per_tok"])
    if "moe_intermediate_size" in config:
        writer.add_uint32(f"{arch}.expert_feed_forward_length", config["moe_intermediate_size"])
    if config["model_type"] == "phi3":
        d = config["hidden_size"] // config["num_attention_heads"]
        writer.add_uint32(f"{arch}.rope.dimension_count", int(d * config.get("partial_rotary_factor", 1)))
    scaling = config.get("rope_scaling") or {}
    if scaling.get("rope_type") == "longrope":
        original = config["original_max_position_embeddings"]
        writer.add_uint32(f"{arch}.rope.scaling.original_context_length", original)
        writer.add_float32(f"{arch}.rope.scaling.attn_factor",
                           math.sqrt(1 + math.log(config["max_position_embeddings"] / original) / math.log(original)))
        for kind in ("long", "short"):
            tensors[f"rope_factors_{kind}.weight"] = (numpy.array(scaling[f"{kind}_factor"], numpy.float32), None)
    if scaling.get("rope_type") == "linear":
        writer.add_string(f"{arch}.rope.scaling.type", "linear")
        writer.add_float32(f"{arch}.rope.scaling.factor", scaling["factor"])
    if scaling.get("rope_type") == "yarn":
        writer.add_string(f"{arch}.rope.scaling.type", "yarn")
        writer.add_float32(f"{arch}.rope.scaling.factor", scaling["factor"])
        writer.add_uint32(f"{arch}.rope.scaling.original_context_length", scaling["original_max_position_embeddings"])
    if scaling.get("rope_type") == "llama3":  # the converter's formula, in fp32
        half = config["head_dim"] // 2
        factors = []
        for i in range(half):
            wave = 2 * math.pi * config["rope_theta"] ** (2 * i / config["head_dim"])
            low, high = (scaling["original_max_position_embeddings"] / scaling[f"{key}_freq_factor"] for key in ("low", "high"))
            if wave < high:
                factors.append(1.0)
            elif wave > low:
                factors.append(scaling["factor"])
            else:
                smooth = (scaling["original_max_position_embeddings"] / wave - scaling["low_freq_factor"]) / (scaling["high_freq_factor"] - scaling["low_freq_factor"])
                factors.append(1 / ((1 - smooth) / scaling["factor"] + smooth))
        assert 1.0 in factors and scaling["factor"] in factors and len(set(factors)) > 3
        tensors["rope_freqs.weight"] = (numpy.array(factors, numpy.float32), None)


def tokenizer_keys(writer, content, model, pre=None, bos=None, eos=None, add_bos=None, scores=False):
    """The tokenizer of a tokenizer.json, as llama.cpp's converter writes it."""
    vocab = dict(content["model"]["vocab"])
    kinds = {token: 6 if model == "llama" and len(token) == 6 and token.startswith("<0x") else 1 for token in vocab}
    for entry in content["added_tokens"]:
        vocab[entry["content"]] = entry["id"]
        kinds[entry["content"]] = 3 if entry["special"] else 4
    if content["model"].get("unk_token") and model == "llama":
        kinds[content["model"]["unk_token"]] = 2
    tokens = sorted(vocab, key=vocab.get)
    assert [vocab[token] for token in tokens] == list(range(len(tokens)))
    writer.add_string("tokenizer.ggml.model", model)
    if pre is not None:
        writer.add_string("tokenizer.ggml.pre", pre)
    writer.add_array("tokenizer.ggml.tokens", tokens)
    writer.add_array("tokenizer.ggml.token_type", [kinds[token] for token in tokens])
    if scores:
        writer.add_array("tokenizer.ggml.scores", [float(-i) if kinds[token] == 1 else 0.0 for i, token in enumerate(tokens)])
    else:
        merges = content["model"]["merges"]
        writer.add_array("tokenizer.ggml.merges", [merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    for key, token in (("bos", bos), ("eos", eos)):
        if token is not None:
            writer.add_uint32(f"tokenizer.ggml.{key}_token_id", vocab[token])
    if add_bos is not None:
        writer.add_bool("tokenizer.ggml.add_bos_token", add_bos)


def write_file(writer, tensors):
    for name, (data, kind) in tensors.items():
        if kind is None:
            writer.add_tensor(name, data)
        else:
            writer.add_tensor(name, data, raw_dtype=Type[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_model(out, source, rng, name, config):
    family = config["model_type"]
    arch = ARCHITECTURES.get(family, family)
    heads, kv_heads, hidden = config["num_attention_heads"], config["num_key_value_heads"], config["hidden_size"]
    d = config.get("head_dim") or hidden // heads
    inner = config["intermediate_size"]
    weights, tensors, turn = {}, {}, [0]

    def packed(rows, columns, hf, theirs, order_heads=None, experts=None):
        fitting = [kind for kind in TYPES if columns % size_of(kind)[0] == 0]
        kind = fitting[turn[0] % len(fitting)]
        turn[0] += 1
        elements, size = size_of(kind)
        if kind in ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"):  # the package unpacks these only
            scale = {"Q2_K": 0.02, "Q3_K": 0.005, "Q4_K": 0.001, "Q5_K": 0.0005, "Q6_K": 0.0001}[kind]
            raw = random_blocks(rng, kind, rows * columns // elements, scale).reshape(rows, -1)
        else:
            raw = quantize(rng.standard_normal((rows, columns), numpy.float32) * 0.2, Type[kind])
        values = dequantize(raw, Type[kind]).astype(numpy.float32).reshape(rows, columns)
        if experts is not None:  # one tensor of all of them
            raw = raw.reshape(experts, rows // experts, -1)
            weights.update({hf.format(e): part for e, part in enumerate(values.reshape(experts, rows // experts, columns))})
        else:
            weights[hf] = from_pairs(values, order_heads) if order_heads else values
        tensors[theirs] = (raw, kind if kind not in ("F32", "F16") else None)

    def vector(n, mean, hf, theirs, order_heads=None):
        values = (mean + 0.2 * rng.standard_normal(n)).astype(numpy.float32)
        tensors[theirs] = (values, None)
        if family.startswith("gemma") and "norm" in hf:  # the file's are larger by 1
            values = values - numpy.float32(1)
        weights[hf] = from_pairs(values, order_heads) if order_heads else values

    packed(config["vocab_size"], hidden, "model.embed_tokens.weight", "token_embd.weight")
    widths = {"self_attn.q_proj": (heads * d, hidden), "self_attn.k_proj": (kv_heads * d, hidden), "self_attn.v_proj": (kv_heads * d, hidden),
              "self_attn.o_proj": (hidden, heads * d), "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner)}
    if family == "phi3":
        widths = {"self_attn.qkv_proj": ((heads + 2 * kv_heads) * d, hidden), "self_attn.o_proj": widths["self_attn.o_proj"],
                  "mlp.gate_up_proj": (2 * inner, hidden), "mlp.down_proj": widths["mlp.down_proj"]}
    routed = {"mixtral": ("block_sparse_moe", ("w1", "w3", "w2")), "qwen3_moe": ("mlp", ("gate_proj", "up_proj", "down_proj"))}.get(family)
    if routed:
        widths = {part: shape for part, shape in widths.items() if not part.startswith("mlp")}
    turned = {"self_attn.q_proj": heads, "self_attn.k_proj": kv_heads} if arch in ("llama", "granite", "smollm3") else {}
    before, after = family != "olmo2", family == "olmo2" or family.startswith("gemma")
    for layer in range(config["num_hidden_layers"]):
        hf, theirs = f"model.layers.{layer}.", f"blk.{layer}."
        if before:
            vector(hidden, 1.0, hf + "input_layernorm.weight", theirs + "attn_norm.weight")
            vector(hidden, 1.0, hf + ("pre_feedforward_layernorm.weight" if after else "post_attention_layernorm.weight"), theirs + "ffn_norm.weight")
        if after:
            vector(hidden, 1.0, hf + "post_attention_layernorm.weight", theirs + "post_attention_norm.weight")
            vector(hidden, 1.0, hf + "post_feedforward_layernorm.weight", theirs + "post_ffw_norm.weight")
        if family in ("qwen3", "qwen3_moe", "olmo2", "gemma3_text"):
            whole = family == "olmo2"
            vector(heads * d if whole else d, 1.0, hf + "self_attn.q_norm.weight", theirs + "attn_q_norm.weight")
            vector(kv_heads * d if whole else d, 1.0, hf + "self_attn.k_norm.weight", theirs + "attn_k_norm.weight")
        if routed:
            block, names = routed
            experts, width = config.get("num_local_experts") or config["num_experts"], config.get("moe_intermediate_size", inner)
            packed(experts, hidden, f"{hf}{block}.gate.weight", theirs + "ffn_gate_inp.weight")
            for part, called in zip(("gate", "up", "down"), names):
                rows, columns = (hidden, width) if part == "down" else (width, hidden)
                packed(experts * rows, columns, hf + block + ".experts.{}." + called + ".weight", theirs + f"ffn_{part}_exps.weight", experts=experts)
        for part, (rows, columns) in widths.items():
            packed(rows, columns, f"{hf}{part}.weight", f"{theirs}{LINEAR[part]}.weight", turned.get(part))
            attention = part.startswith("self_attn")
            biased = config.get("attention_bias", False) if attention else config.get("mlp_bias", False)
            if biased or (arch == "qwen2" and attention and part != "self_attn.o_proj"):
                vector(rows, 0.0, f"{hf}{part}.bias", f"{theirs}{LINEAR[part]}.bias", turned.get(part))
    vector(hidden, 1.0, "model.norm.weight", "output_norm.weight")
    if not config["tie_word_embeddings"]:
        packed(config["vocab_size"], hidden, "lm_head.weight", "output.weight")

    folder = out / "models" / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file({key: numpy.ascontiguousarray(value) for key, value in weights.items()}, folder / "model.safetensors")
    bundled = source / "assets" / "models" / "llama-tales-student"
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(bundled / file, folder / file)
    writer = gguf.GGUFWriter(out / "models" / f"{name}.gguf", arch)
    metadata(writer, arch, config, tensors)
    tokenizer_keys(writer, json.loads((bundled / "tokenizer.json").read_text()), "gpt2", "smaug-bpe", "<|begin|>", "<|end|>", False)
    write_file(writer, tensors)
    return turn[0]


def write_bundled(out, source):
    """The bundled student, which is in bf16: the same bits in a GGUF file."""
    bundled = source / "assets" / "models" / "llama-tales-student"
    config = json.loads((bundled / "config.json").read_text())
    from safetensors import safe_open
    tensors = {}
    with safe_open(bundled / "model.safetensors", "pt") as file:
        import torch
        for name in file.keys():
            value = file.get_tensor(name).contiguous()
            assert value.dtype == torch.bfloat16
            raw = value.view(torch.int16).numpy().view(numpy.uint16)
            part = name.removesuffix(".weight")
            if part.endswith(("q_proj", "k_proj")):
                raw = to_pairs(raw, config["num_attention_heads" if part.endswith("q_proj") else "num_key_value_heads"])
            short = {"model.embed_tokens": "token_embd", "model.norm": "output_norm"}.get(part)
            if short is None:
                _, _, layer, rest = part.split(".", 3)
                short = f"blk.{layer}." + (LINEAR | {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"})[rest]
            tensors[short + ".weight"] = (numpy.ascontiguousarray(raw).view(numpy.uint8), "BF16")
    writer = gguf.GGUFWriter(out / "models" / "bundled.gguf", "llama")
    metadata(writer, "llama", config, tensors)
    tokenizer_keys(writer, json.loads((bundled / "tokenizer.json").read_text()), "gpt2", "smaug-bpe", "<|begin|>", "<|end|>", False)
    template = json.loads((bundled / "tokenizer_config.json").read_text()).get("chat_template")
    if template:
        writer.add_chat_template(template)
    write_file(writer, tensors)


def write_tokenizers(out, source, seed):
    """The pipelines that are published, each as a tokenizer.json and as a GGUF file."""
    import random

    import reference_families as families
    from reference_ids import EDGES, LLAMA3 as LLAMA3_WORDS, QWEN2, added, byte_level, prompts, random_strings, sequence, split, write_cases
    from transformers.convert_slow_tokenizer import generate_merges

    texts = prompts(source / "assets" / "prompts")
    sample = [text for text in random.Random(seed).sample(texts, 400) if len(text) < 4000]
    made = families.byte_level_families(sample + EDGES)
    pieces = families.sentencepiece_families(sample)
    gpt2 = made["family GPT-2"]
    digits = copy.deepcopy(gpt2) | {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": True}, byte_level(False, True)), "post_processor": None}
    marks = copy.deepcopy(made["family Qwen 2"]) | {"pre_tokenizer": sequence(split(QWEN2.replace(r"\p{L}", r"[\p{L}\p{M}]").replace(r"[^\r\n[\p{L}\p{M}]", r"[^\r\n\p{L}")
                                                                              .replace(r"[^\s[\p{L}\p{M}]", r"[^\s\p{L}\p{M}")), byte_level())}
    words = r"[^\r\n\p{L}\p{N}]?"
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    tekken = copy.deepcopy(made["family Llama 3"])
    tekken["pre_tokenizer"] = sequence(split(f"{words}{upper}*{lower}+|{words}{upper}+{lower}*" + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"), byte_level())
    o200k = copy.deepcopy(tekken)
    after = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    o200k["pre_tokenizer"] = sequence(split(f"{words}{upper}*{lower}+{after}|{words}{upper}+{lower}*{after}" +
                                            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"), byte_level())
    o200k["model"]["ignore_merges"], o200k["post_processor"] = False, None
    smaug = copy.deepcopy(made["family Llama 3"])
    smaug["model"]["ignore_merges"], smaug["post_processor"] = False, None
    llama2 = copy.deepcopy(pieces["family Llama 2"])
    vocab = llama2["model"]["vocab"]
    normal = {piece: -float(i) for piece, i in vocab.items() if piece not in ("<unk>", "<s>", "</s>") and piece not in families.BYTES}
    llama2["model"]["merges"] = [list(pair) for pair in generate_merges({piece: vocab[piece] for piece in normal}, normal)]
    no_prefix = copy.deepcopy(llama2)
    no_prefix["normalizer"]["normalizers"].pop(0)
    no_prefix["decoder"]["decoders"].pop()
    end = copy.deepcopy(llama2)
    end["post_processor"] = None
    begin = dict(bos="<|begin_of_text|>", eos="<|eot_id|>")
    qwen = dict(eos="<|im_end|>", add_bos=False)
    sentences = dict(model="llama", pre="default", bos="<s>", eos="</s>", scores=True)
    cases = {
        "gpt-2": (gpt2, dict(model="gpt2", pre="gpt-2", eos="<|endoftext|>")),
        "smollm": (digits, dict(model="gpt2", pre="smollm", bos="<|endoftext|>", eos="<|endoftext|>", add_bos=False)),
        "llama-bpe": (made["family Llama 3"], dict(model="gpt2", pre="llama-bpe", **begin)),
        "smaug-bpe": (smaug, dict(model="gpt2", pre="smaug-bpe", **begin)),
        "tekken": (tekken, dict(model="gpt2", pre="tekken", add_bos=True, **begin)),
        "gpt-4o": (o200k, dict(model="gpt2", pre="gpt-4o", eos="<|eot_id|>")),
        "qwen2": (made["family Qwen 2"], dict(model="gpt2", pre="qwen2", **qwen)),
        "qwen2 with other tokens": (made["family Qwen 3"], dict(model="gpt2", pre="qwen2", **qwen)),
        "qwen35": (marks, dict(model="gpt2", pre="qwen35", **qwen)),
        "sentencepiece": (llama2, dict(sentences)),
        "sentencepiece without prefix": (no_prefix, dict(sentences, space_prefix=False)),
        "sentencepiece without begin": (end, dict(sentences, add_bos=False)),
    }
    for number, (name, (content, keys)) in enumerate(cases.items()):
        folder = out / "ids" / name
        inputs = EDGES + random_strings(seed + 700 + number, 300) + sample[:30]
        write_cases(folder, json.dumps(content), inputs, seed + number)
        writer = gguf.GGUFWriter(folder / "model.gguf", "llama")
        prefix = keys.pop("space_prefix", None)
        tokenizer_keys(writer, content, **keys)
        if prefix is not None:
            writer.add_add_space_prefix(prefix)
        write_file(writer, {})
    return list(cases)


def stamp(source, seed):
    digest = hashlib.sha256(repr((seed, [importlib.metadata.version(name) for name in ("gguf", "numpy", "tokenizers", "transformers")])).encode())
    for file in [pathlib.Path(__file__), *sorted((source / "tests/engine/text").glob("reference*.py"))]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def main():
    out, source, seed = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    mark = out / "stamp.txt"
    if mark.exists() and mark.read_text() == stamp(source, seed):
        return
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    sys.path.insert(0, str(source / "tests/engine/text"))
    rng = numpy.random.default_rng(seed)
    write_blocks(out, rng)
    for name, config in MODELS.items():
        write_model(out, source, rng, name, config)
    write_bundled(out, source)
    names = write_tokenizers(out, source, seed)
    types = {name: [int(Type[name]), *size_of(name)] for name in TYPES}
    (out / "manifest.json").write_text(json.dumps({"types": types, "models": list(MODELS), "ids": names}))
    mark.write_text(stamp(source, seed))


if __name__ == "__main__":
    main()
