"""Writes tiny Llama checkpoints and what `transformers` computes with them, for the parity suite.

usage: transformers_reference.py OUT_DIR NAME=CHECKPOINT...

For every random configuration below, OUT_DIR/<name>/ becomes a checkpoint folder (save_pretrained); for every
NAME=CHECKPOINT given, that folder is used as it is. Beside each, OUT_DIR/<name>-reference/model.safetensors holds, all
as floating-point tensors: tokens, logits, keys, values and attention rows of a prefill followed by 32 cached steps in fp32, and the
logits of the same tokens in bf16, and in fp32 with the weights rounded to bf16.
"""

import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

PROMPT, STEPS = 70, 32

LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}

CONFIGS = {
    # head size and heads that do not multiply to the hidden width; one shard per few kilobytes
    "gqa": dict(hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=6,
                num_key_value_heads=2, head_dim=16, tie_word_embeddings=True, bos_token_id=3, eos_token_id=[5, 9]),
    # own output matrix, biases everywhere, derived head size, no grouping
    "separate": dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                     tie_word_embeddings=False, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-5),
    # widths that no vector length divides, llama3 frequencies
    "odd": dict(hidden_size=53, intermediate_size=89, num_hidden_layers=4, num_attention_heads=6,
                num_key_value_heads=3, head_dim=20, tie_word_embeddings=False, rope_parameters=LLAMA3),
    "linear": dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
                   num_key_value_heads=1, head_dim=32, tie_word_embeddings=True,
                   rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}),
}


def make_checkpoint(name: str, folder: pathlib.Path) -> None:
    torch.manual_seed(len(name))
    config = LlamaConfig(vocab_size=211, max_position_embeddings=512, **CONFIGS[name])
    model = LlamaForCausalLM(config).float().eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            # Large enough that logits reach several units and attention is far from uniform.
            parameter.normal_(1.0, 0.2) if "norm" in key else parameter.normal_(0.0, 0.16)
    model.save_pretrained(folder, max_shard_size="30KB" if name == "gqa" else "5GB")


@torch.no_grad()
def reference(folder: pathlib.Path, seed: int) -> dict[str, torch.Tensor]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, model.config.vocab_size, (1, PROMPT + STEPS), generator=generator)
    out = {"tokens": tokens[0].to(torch.float64)}

    result = model(tokens[:, :PROMPT], use_cache=True, output_attentions=True)
    rows = [result.logits[0]]
    cache = result.past_key_values
    out["attention.0"] = torch.stack([a[0, :, -1] for a in result.attentions])
    for i in range(STEPS):
        result = model(tokens[:, PROMPT + i : PROMPT + i + 1], past_key_values=cache, use_cache=True,
                       output_attentions=True)
        rows.append(result.logits[0])
        out[f"attention.{i + 1}"] = torch.stack([a[0, :, -1] for a in result.attentions])
    out["logits"] = torch.cat(rows)
    out["keys"] = torch.cat([layer.keys for layer in cache.layers])
    out["values"] = torch.cat([layer.values for layer in cache.layers])

    # Far into the context, where the rounding of the rotary angle counts.
    far = torch.randint(0, model.config.vocab_size, (1, model.config.max_position_embeddings), generator=generator)
    out["far_tokens"] = far[0].to(torch.float64)
    out["far_logits"] = model(far, use_cache=False).logits[0, -8:]

    half = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="eager").eval()
    out["bf16_logits"] = half(tokens, use_cache=False).logits[0].float()
    # The same rounded weights, computed without rounding: what a bf16 row approximates.
    out["rounded_logits"] = half.float()(tokens, use_cache=False).logits[0]
    return {key: value.contiguous().clone() for key, value in out.items()}


def main() -> None:
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    out = pathlib.Path(sys.argv[1])
    folders = {name: out / name for name in CONFIGS}
    for name, folder in folders.items():
        make_checkpoint(name, folder)
    for argument in sys.argv[2:]:
        name, _, folder = argument.partition("=")
        folders[name] = pathlib.Path(folder)
    for seed, (name, folder) in enumerate(folders.items()):
        target = out / f"{name}-reference"
        target.mkdir(parents=True)
        save_file(reference(folder, seed), target / "model.safetensors")


if __name__ == "__main__":
    main()
