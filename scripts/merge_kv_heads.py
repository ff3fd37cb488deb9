"""Writes a student of another KV geometry, made of a model of the Llama layout: KV heads merged by their mean, as grouped-query attention is
begun from a model with more heads (Ainslie et al. 2023), and layers left out. Nothing is trained after it.

    .deps/venv/bin/python scripts/merge_kv_heads.py MODEL -o DIR --kv-heads 1 [--drop-layer 2 ...]
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file


def merged(weight: torch.Tensor, heads: int, kept: int) -> torch.Tensor:
    """[heads * width, hidden] (or [heads * width]): each of the `kept` heads is the mean of its group."""
    shape = weight.shape[1:]
    return weight.float().view(kept, heads // kept, -1, *shape).mean(1).reshape(-1, *shape).to(weight.dtype)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--kv-heads", type=int, required=True)
    parser.add_argument("--drop-layer", type=int, action="append", default=[])
    options = parser.parse_args()

    config = json.loads((options.model / "config.json").read_text())
    heads, layers = config["num_key_value_heads"], config["num_hidden_layers"]
    if heads % options.kv_heads:
        parser.error(f"{heads} KV heads cannot become {options.kv_heads}")
    weights = {}
    for file in sorted(options.model.glob("*.safetensors")):
        weights |= load_file(file)
    kept = [layer for layer in range(layers) if layer not in options.drop_layer]
    out = {}
    for name, weight in weights.items():
        if name.startswith("model.layers."):
            layer, rest = name.removeprefix("model.layers.").split(".", 1)
            if int(layer) not in kept:
                continue
            name = f"model.layers.{kept.index(int(layer))}.{rest}"
        if ".k_proj." in name or ".v_proj." in name:
            # Rows of a head stand together.
            width = weight.shape[0] // heads
            assert width * heads == weight.shape[0]
            weight = merged(weight, heads, options.kv_heads)
        out[name] = weight.contiguous()
    config |= {"num_key_value_heads": options.kv_heads, "num_hidden_layers": len(kept)}

    options.out.mkdir(parents=True, exist_ok=True)
    for file in options.model.iterdir():
        if file.is_file() and file.suffix in (".json", ".jinja", ".txt", ".model") and "index" not in file.name:
            shutil.copy(file, options.out)
    (options.out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(out, options.out / "model.safetensors", {"format": "pt"})


if __name__ == "__main__":
    main()
