"""What transformers makes of folders of derived students, and the derivations a second time, in numpy.

usage: derived_reference.py OUT_DIR

OUT_DIR/cases.json          {"ids": prompt, "cases": [{"name", "teacher": folder, "spec": the derivation as JSON}, ...]}
OUT_DIR/<name>/             the folder that this program wrote
OUT_DIR/logits.safetensors  <name>: fp32 logits of the prompt, by transformers from that folder
OUT_DIR/answers.json        {name: {"tensors": how many, "different": names of those that numpy makes otherwise, "ids_equal": whether
                            the tokenizers library reads a text with the folder's tokenizer as with the teacher's}}
"""
import json
import pathlib
import sys

import numpy as np

MATRICES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def philox(counter, seed):
    """Philox4x32-10 (Salmon et al. 2011), vectorised. counter: four arrays of uint64 that hold 32 bits each."""
    a, b, c, d = (np.asarray(word, np.uint64) for word in counter)
    key0, key1, low = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32), np.uint64(0xFFFFFFFF)
    for _ in range(10):
        product0, product1 = np.uint64(0xD2511F53) * a, np.uint64(0xCD9E8D57) * c
        a, b, c, d = (product1 >> np.uint64(32)) ^ b ^ key0, product1 & low, (product0 >> np.uint64(32)) ^ d ^ key1, product0 & low
        key0, key1 = (key0 + np.uint64(0x9E3779B9)) & low, (key1 + np.uint64(0xBB67AE85)) & low
    return a, b, c, d


def noisy(w, sigma, seed, stream):
    flat = w.astype(np.float64).reshape(-1)
    calls = np.arange((flat.size + 3) // 4, dtype=np.uint64)
    same = np.full_like
    words = philox((calls & np.uint64(0xFFFFFFFF), calls >> np.uint64(32), same(calls, stream), same(calls, 0x6E6F6973)), seed)
    normal = np.empty((calls.size, 4))
    for pair in (0, 1):
        u, v = (words[2 * pair].astype(np.float64) + 1) / 2.0**32, words[2 * pair + 1].astype(np.float64) / 2.0**32
        radius = np.sqrt(-2 * np.log(u))
        normal[:, 2 * pair], normal[:, 2 * pair + 1] = radius * np.cos(2 * np.pi * v), radius * np.sin(2 * np.pi * v)
    return (flat + sigma * np.sqrt(np.mean(flat**2)) * normal.reshape(-1)[: flat.size]).astype(np.float32).reshape(w.shape)


def rounded(w, bits, group, symmetric):
    groups = w.reshape(w.shape[0], -1, group)
    f16 = lambda x: x.astype(np.float16).astype(np.float32)
    top = np.float32(2 ** (bits - 1) - 1 if symmetric else 2**bits - 1)
    minimum = np.float32(0) if symmetric else f16(groups.min(2, keepdims=True))
    spread = np.abs(groups).max(2, keepdims=True) if symmetric else groups.max(2, keepdims=True) - groups.min(2, keepdims=True)
    scale = f16(spread / top)
    q = np.clip(np.rint((groups - minimum) / np.where(scale > 0, scale, np.float32(1))), -top if symmetric else 0, top)
    return (q * scale + minimum).astype(np.float32).reshape(w.shape)


def kept_channels(model, ids, spec, torch):
    """By layer: channels of the largest activation norm (rows scaled to length 1) times norm of the down_proj column."""
    activations = []
    handles = [layer.mlp.down_proj.register_forward_pre_hook(lambda module, given: activations.append(given[0][0].double())) for layer in model.model.layers]
    with torch.no_grad():
        model(torch.tensor([ids]))
    for handle in handles:
        handle.remove()
    width = activations[0].shape[1]
    unit = spec.get("group", 32) if "bits" in spec and spec.get("only") != "attention" else 1
    count = max(1, int(np.floor(spec["ffn"] * (width // unit) + 0.5))) * unit
    result = []
    for layer, z in zip(model.model.layers, activations):
        scores = (z / z.norm(dim=1, keepdim=True)).norm(dim=0) * layer.mlp.down_proj.weight.detach().double().norm(dim=0)
        result.append(np.sort(np.argsort(-scores.numpy(), kind="stable")[:count]))
    return result


def derived(model, spec, ids, torch):
    weights = {name: tensor.detach().float().numpy().copy() for name, tensor in model.state_dict().items()}
    channels = kept_channels(model, ids, spec, torch) if "ffn" in spec else None
    for name in list(weights):
        parts = name.split(".")
        if "layers" not in parts or parts[-2] not in MATRICES:
            continue
        layer, matrix, w = int(parts[2]), parts[-2], weights[name]
        mlp = matrix in MATRICES[4:]
        left_out = layer in spec.get("skip_mlp", []) if mlp else layer in spec.get("skip_attention", []) and matrix in ("q_proj", "o_proj")
        if channels is not None and mlp:
            w = w[:, channels[layer]] if matrix == "down_proj" else w[channels[layer]]
        if spec.get("only", "mlp" if mlp else "attention") == ("mlp" if mlp else "attention") and not left_out:
            if "noise" in spec:
                w = noisy(w, spec["noise"], spec["seed"], layer * 8 + MATRICES.index(matrix))
            if "bits" in spec:
                w = rounded(np.ascontiguousarray(w), spec["bits"], spec["group"], spec.get("symmetric", False))
        weights[name] = np.zeros_like(w) if left_out and matrix in ("o_proj", "down_proj") else w
    return weights


def main():
    out = pathlib.Path(sys.argv[1])
    import tokenizers
    import torch
    import transformers
    from safetensors.numpy import load_file
    from safetensors.torch import save_file

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    given = json.loads((out / "cases.json").read_text())
    ids, text = given["ids"], "Hello, 12 foxes!\n\n  caf\u00e9 <|end|> x"
    load = lambda folder: transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32).eval()
    read = lambda folder: tokenizers.Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json")).encode(text).ids
    answers, logits, teachers = {}, {}, {}
    for case in given["cases"]:
        name, teacher = case["name"], case["teacher"]
        with torch.no_grad():
            logits[name] = load(out / name)(torch.tensor([ids])).logits[0].float().contiguous()
        if teacher not in teachers:
            teachers[teacher] = load(teacher)
        written, wanted = load_file(out / name / "model.safetensors"), derived(teachers[teacher], case["spec"], ids, torch)
        tolerance = 1e-6 if "noise" in case["spec"] and "bits" not in case["spec"] else 0  # logarithms and cosines of two libraries
        step = 0.002 if "noise" in case["spec"] and "bits" in case["spec"] else 0  # which may fall on another step of the rounding
        different = [key for key, w in written.items()
                     if key not in wanted or w.shape != wanted[key].shape or np.mean(np.abs(w - wanted[key]) > tolerance) > step]
        answers[name] = {"tensors": len(written), "different": different, "ids_equal": read(out / name) == read(teacher)}
        transformers.AutoTokenizer.from_pretrained(str(out / name))
    save_file(logits, out / "logits.safetensors")
    (out / "answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
