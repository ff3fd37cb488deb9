"""Writes a checkpoint folder of the Llama layout as a GGUF file without a vocabulary, in f32 or bf16: the same weights for llama.cpp,
which is fed ids. `python bench/peers/to_gguf.py FOLDER OUT.gguf --type bf16`"""
import argparse
import json
import pathlib

import gguf_file

NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def gguf_name(name):
    outside = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
               "lm_head.weight": "output.weight"}
    if name in outside:
        return outside[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"


def interleaved(weight, heads):
    """Rows of a head in the order of GGUF's Llama: channel pairs (i, i + head_dim / 2) side by side."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def convert(folder, target, kind):
    import gguf
    import numpy as np
    import safetensors.torch
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    if config["model_type"] != "llama" or config.get("attention_bias") or config.get("rope_scaling"):
        raise SystemExit(f"{folder}: only plain Llama models are written")
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer = gguf.GGUFWriter(target, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    for file in sorted(folder.glob("*.safetensors")):
        for name, tensor in safetensors.torch.load_file(file).items():
            values = tensor.float().numpy()
            if "q_proj" in name or "k_proj" in name:
                values = interleaved(values, heads if "q_proj" in name else kv_heads)
            gguf_file.add_tensor(writer, gguf_name(name), np.ascontiguousarray(values), kind)
    gguf_file.finish(writer)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--type", choices=["f32", "bf16"], required=True)
    arguments = parser.parse_args()
    convert(arguments.source, arguments.target, arguments.type)
