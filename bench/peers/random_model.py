"""Writes a Llama checkpoint of a given shape with random bf16 weights, N(0, 0.02), and the tokenizer of another folder: for speed at
sizes that no small trained model has. `python bench/peers/random_model.py OUT --like assets/models/llama-tales-teacher --hidden 512
--inner 1408 --layers 9 --heads 8 --kv-heads 4`"""
import argparse
import json
import pathlib
import shutil


def write(args):
    import safetensors.torch
    import torch
    torch.manual_seed(args.seed)
    like, out = pathlib.Path(args.like), pathlib.Path(args.out)
    out.mkdir(parents=True)
    config = json.loads((like / "config.json").read_text())
    config.update(hidden_size=args.hidden, intermediate_size=args.inner, num_hidden_layers=args.layers, num_attention_heads=args.heads,
                  num_key_value_heads=args.kv_heads, head_dim=args.hidden // args.heads, max_position_embeddings=8192)
    (out / "config.json").write_text(json.dumps(config, indent=2))
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"):
        if (like / name).exists():
            shutil.copy(like / name, out / name)
    kv_width = config["head_dim"] * args.kv_heads
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], args.hidden), "model.norm.weight": (args.hidden,)}
    for layer in range(args.layers):
        at = f"model.layers.{layer}."
        shapes |= {at + "input_layernorm.weight": (args.hidden,), at + "post_attention_layernorm.weight": (args.hidden,),
                   at + "self_attn.q_proj.weight": (args.hidden, args.hidden), at + "self_attn.k_proj.weight": (kv_width, args.hidden),
                   at + "self_attn.v_proj.weight": (kv_width, args.hidden), at + "self_attn.o_proj.weight": (args.hidden, args.hidden),
                   at + "mlp.gate_proj.weight": (args.inner, args.hidden), at + "mlp.up_proj.weight": (args.inner, args.hidden),
                   at + "mlp.down_proj.weight": (args.hidden, args.inner)}
    tensors = {name: (torch.randn(shape) * 0.02 if len(shape) > 1 else torch.ones(shape)).to(torch.bfloat16)
               for name, shape in shapes.items()}
    safetensors.torch.save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--like", required=True)
    for option in ("hidden", "inner", "layers", "heads", "kv-heads"):
        parser.add_argument(f"--{option}", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    write(parser.parse_args())
