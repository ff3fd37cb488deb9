"""What kvpress keeps, and what a model says with it: the references of kvpress_test.cpp.

usage: kvpress_reference.py OUT_DIR SEED vectors
       kvpress_reference.py OUT_DIR STEPS model MODEL      (a folder, or a GGUF file)

vectors  Seeded queries, keys and values of a few shapes, straight through each press. Identity projections and a rotation by nothing
         make the given numbers the queries after RoPE, so both sides score the same numbers. For CaM, which works while decoding,
         the second half of them is fed as steps.
model    A prompt through transformers with each press, then STEPS tokens, greedily.

OUT_DIR/manifest.json is a list of cases: the policy as RefreshLab's data, what is kept per layer and KV head after the prompt, and
for a model the tokens and what is held after the last step. Numbers lie beside it as raw fp32. Made once: a stamp is left behind.
"""
import contextlib
import hashlib
import importlib.metadata
import json
import os
import pathlib
import shutil
import sys
import types

os.environ["TQDM_DISABLE"] = "1"
PACKAGES = ("gguf", "kvpress", "numpy", "torch", "transformers")


def ratio_of(length, budget):
    """The compression ratio with which kvpress, which truncates, keeps `budget` of `length` entries."""
    import math

    ratio = 1 - budget / length
    while int(length * (1 - ratio)) < budget:
        ratio = math.nextafter(ratio, 0)
    assert int(length * (1 - ratio)) == budget
    return ratio


def reindexed(sinks, ratio):
    """StreamingLLM with positions counted within the cache, as KeyRerotationPress does it; as a scorer, so that it also serves decoding."""
    import kvpress

    class Reindexed(kvpress.StreamingLLMPress):
        def compress(self, *arguments):
            scorer = kvpress.StreamingLLMPress(self.compression_ratio, self.n_sink)
            return kvpress.KeyRerotationPress(scorer).compress(*arguments)

    return Reindexed(ratio, sinks)


def methods(length, budget, window, kernel, sinks):
    """name: (policy of RefreshLab, press of the prompt, the scorer that thins while decoding and its target, or None)"""
    import kvpress

    ratio = ratio_of(length, budget)
    scores = {"budget": budget, "window": window, "kernel": kernel, "pool": "mean", "group": "mean"}
    snap = lambda: kvpress.SnapKVPress(ratio, window, kernel)
    # RefreshLab makes room before a token is read, kvpress after it: to read as many entries, kvpress holds one less between steps.
    return {
        "snapkv": ({"policy": "snapkv", **scores}, snap(), None),
        "pyramidkv": ({"policy": "pyramidkv", **scores, "layer_budgets": "kvpress"}, kvpress.PyramidKVPress(ratio, window, kernel), None),
        "adakv": ({"policy": "adakv", **scores, "alpha": 0.2, "allocation": "pinned"}, kvpress.AdaKVPress(snap(), 0.2), None),
        "tova": ({"policy": "tova", "budget": budget}, kvpress.TOVAPress(ratio), (kvpress.TOVAPress(), budget)),
        "streaming_llm": ({"policy": "streaming_llm", "budget": budget, "sinks": sinks, "keep_positions": True},
                          kvpress.StreamingLLMPress(ratio, sinks), (kvpress.StreamingLLMPress(0, sinks), budget - 1)),
        "streaming_llm reindexed": ({"policy": "streaming_llm", "budget": budget, "sinks": sinks}, reindexed(sinks, ratio),
                                    (reindexed(sinks, 0), budget - 1)),
        "sliding_window": ({"policy": "sliding_window", "budget": budget}, kvpress.StreamingLLMPress(ratio, 0),
                           (kvpress.StreamingLLMPress(0, 0), budget - 1)),
        "h2o": ({"policy": "h2o", "budget": budget, "recent": 0, "per_query_mean": True, "group": "mean"}, kvpress.ObservedAttentionPress(ratio), None),
        "think": ({"policy": "think", "dropped": 0.4, "window": window, "keep_window": False}, kvpress.ThinKPress(0.4, window), None),
    }


def kept_of(press, module, hidden, keys, values, attentions, kwargs):
    """What a press keeps, as indices of each KV head, ascending: values that are their own index go through it."""
    import torch

    heads, length = keys.shape[1:3]
    module.masked_key_indices = None
    index = torch.arange(length, dtype=values.dtype).view(1, 1, length, 1).expand_as(values).contiguous()
    _, marks = press.compress(module, hidden, keys.clone(), index, attentions, kwargs)  # ThinK writes into the keys
    kept = [sorted(int(i) for i in marks[0, head, :, 0]) for head in range(heads)]
    if module.masked_key_indices is not None:  # Ada-KV: all is stored, and some of it masked
        gone = set(zip(module.masked_key_indices[1].tolist(), module.masked_key_indices[2].tolist()))
        kept = [[i for i in held if (head, i) not in gone] for head, held in enumerate(kept)]
    module.masked_key_indices = None
    return kept


def entries(keys, values, kept):
    """K then V of the kept entries of each KV head, fp32, one after another."""
    import torch

    return torch.cat([torch.stack([keys[0, head, held], values[0, head, held]]).flatten() for head, held in enumerate(kept)])


# --- vectors -----------------------------------------------------------------------------------------------------------------

# layers, heads, KV heads, head_dim, length, budget, window, kernel
SHAPES = [(3, 4, 2, 16, 60, 24, 8, 5), (2, 6, 2, 16, 130, 40, 16, 7), (4, 3, 3, 8, 97, 33, 8, 3), (2, 8, 1, 16, 41, 13, 4, 1), (5, 4, 4, 16, 256, 140, 8, 5),
          (6, 4, 2, 8, 240, 90, 4, 5)]


def vectors(out, seed):
    import torch

    cases = []
    for number, (layers, heads, kv_heads, dim, length, budget, window, kernel) in enumerate(SHAPES):
        random = torch.Generator().manual_seed(seed + number)
        shape = {"layers": layers, "heads": heads, "kv_heads": kv_heads, "head_dim": dim, "length": length}
        q = 1.5 * torch.randn(layers, length, heads, dim, generator=random)
        k = torch.randn(layers, kv_heads, length, dim, generator=random)
        v = torch.randn(layers, kv_heads, length, dim, generator=random)
        file = f"vectors-{number}.bin"
        torch.cat([q.flatten(), k.transpose(1, 2).flatten(), v.transpose(1, 2).flatten()]).numpy().tofile(out / file)
        for name, (policy, press, _) in methods(length, budget, window, kernel, 4).items():
            config = types.SimpleNamespace(num_attention_heads=heads, num_key_value_heads=kv_heads, num_hidden_layers=layers, _attn_implementation="sdpa")
            if name.endswith("reindexed"):  # RefreshLab turns keys when a token is read, which then has a place of its own
                press = methods(length, budget - 1, window, kernel, 4)[name][1]
            kept, contents = [], []
            for layer in range(layers):
                # Frequencies 2^-c, so that angles of whole gaps are exact in fp32.
                module = types.SimpleNamespace(config=config, head_dim=dim, layer_idx=layer, q_proj=lambda x: x,
                                               rotary_emb=types.SimpleNamespace(inv_freq=2.0 ** -torch.arange(dim // 2)))
                hidden, keys, values = q[layer].reshape(1, length, heads * dim), k[layer][None], v[layer][None]
                turned = {"position_embeddings": (torch.ones(1, length, dim), torch.zeros(1, length, dim)), "hidden_states": hidden}
                attentions = None
                if name == "h2o":
                    scores = q[layer].transpose(0, 1) @ k[layer].repeat_interleave(heads // kv_heads, 0).transpose(1, 2) / dim ** 0.5
                    attentions = torch.softmax(scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf")), -1)[None]
                one = kept_of(press, module, hidden, keys, values, attentions, turned)
                pressed, _ = press.compress(module, hidden, keys.clone(), values.clone(), attentions, turned)
                kept.append(one)
                if name == "streaming_llm reindexed":
                    keys = keys.clone()
                    keys[:, :, one[0]] = pressed  # turned; stored in the order of positions
                if name == "think":
                    keys = pressed  # some channels are 0
                contents.append(entries(keys, values, one))
            stored = f"{name.replace(' ', '-')}-{number}.bin"
            torch.cat(contents).numpy().tofile(out / stored)
            cases.append({"name": f"{name} {number}", "shape": shape, "prompt": length, "vectors": file, "policy": policy, "kept": kept, "entries": stored})
        cases.append(merged(out, number, shape, file, q, k, v, budget // 2))
    return cases


class WithoutDraws:
    """torch.bernoulli gives the probability itself."""

    def __enter__(self):
        import torch

        self.plain, torch.bernoulli = torch.bernoulli, lambda probability: probability

    def __exit__(self, *problem):
        import torch

        torch.bernoulli = self.plain


def merged(out, number, shape, file, q, k, v, budget, interval=7, spread=5):
    """CaM: the first half of the numbers is the prompt, the others are steps. What an entry received scores it, the newest half of the
    budget stays: as RefreshLab's, which takes H2O's rule."""
    import kvpress
    import torch
    import transformers

    layers, length, group = shape["layers"], shape["length"], shape["heads"] // shape["kv_heads"]
    prompt = length // 2

    class Received(kvpress.ScorerPress):
        def score(self, module, *_):
            scores = press._running_attn_sum[module.layer_idx].clone()
            scores[:, :, -(budget - budget // 2):] = float("inf")
            return scores

    press = kvpress.CAMPress(base_press=Received(), compression_interval=interval, target_size=budget, hidden_states_buffer_size=0, merge_budget=spread)
    cache = transformers.DynamicCache()
    modules = [types.SimpleNamespace(layer_idx=layer, config=types.SimpleNamespace(num_attention_heads=shape["heads"])) for layer in range(layers)]
    for layer in range(layers):
        cache.update(k[layer, :, :prompt][None], v[layer, :, :prompt][None], layer)
    with WithoutDraws():
        for position in range(prompt, length):
            for layer, module in enumerate(modules):
                cache.update(k[layer, :, position:position + 1][None], v[layer, :, position:position + 1][None], layer)
                held = cache.layers[layer].keys[0].repeat_interleave(group, 0)
                scores = torch.einsum("hd,hnd->hn", q[layer, position], held) / shape["head_dim"] ** 0.5
                rows = torch.softmax(scores, -1)[None, :, None]
                state = {"hidden_states": torch.zeros(1, 1, 1), "past_key_values": cache, "cache_position": torch.tensor([position])}
                press.forward_hook(module, [], state, [None, rows])
    kept, contents = [], []
    for layer in range(layers):
        keys, values = cache.layers[layer].keys[0], cache.layers[layer].values[0]
        # Keys are never changed: they tell which entry stands where.
        kept.append([[int((k[layer, head] == key).all(-1).nonzero()) for key in keys[head]] for head in range(shape["kv_heads"])])
        contents.append(torch.cat([torch.stack([keys[head], values[head]]).flatten() for head in range(shape["kv_heads"])]))
    stored = f"cam-{number}.bin"
    torch.cat(contents).numpy().tofile(out / stored)
    policy = {"policy": "cam", "budget": budget, "interval": interval, "spread": spread, "expected": True}
    return {"name": f"cam {number}", "shape": shape, "prompt": prompt, "vectors": file, "policy": policy, "kept": kept, "entries": stored}


# --- models ------------------------------------------------------------------------------------------------------------------

# Plain text, long enough that every method has to choose.
PROMPT_LENGTH, BUDGET, PYRAMID_BUDGET, WINDOW, KERNEL, SINKS = 200, 48, 110, 8, 5, 4


class Watched:
    """A press that notes what it keeps of each layer: positions of each KV head, and of the prompt K and V as well."""

    def __init__(self, press):
        self.press, self.kept, self.contents, self.held, self.before = press, {}, {}, {}, {}

    def note(self, scorer, module, hidden, keys, values, attentions, kwargs):
        layer, length = module.layer_idx, keys.shape[2]
        new = hidden.shape[1] == 1
        held = self.held.get(layer, [[] for _ in range(keys.shape[1])])
        if new:
            held = [[*one, self.position] for one in held]
        else:
            held = [list(range(length)) for _ in range(keys.shape[1])]
        self.before[layer] = held
        kept = kept_of(scorer, module, hidden, keys, values, attentions, kwargs)
        if not new:
            if type(scorer).__name__ == "ThinKPress":
                keys = type(scorer).compress(scorer, module, hidden, keys.clone(), values, attentions, kwargs)[0]
            self.kept[layer], self.contents[layer] = kept, entries(keys, values, kept)
        self.held[layer] = [[one[i] for i in chosen] for one, chosen in zip(held, kept)]

    def watch(self, scorer):
        plain, watched = scorer.compress, self

        def compress(module, hidden, keys, values, attentions, kwargs):
            if scorer.compression_ratio:
                scorer.compress = plain
                watched.note(scorer, module, hidden, keys, values, attentions, kwargs)
                result = plain(module, hidden, keys, values, attentions, kwargs)
                scorer.compress = compress
                # In the order of positions: the next scores come in this order too.
                return result
            return plain(module, hidden, keys, values, attentions, kwargs)

        scorer.compress = compress


def sorted_top(function):
    """torch.topk with indices ascending: kvpress stores entries in the order of their scores, this in that of their positions."""
    import torch

    class Sorted:
        def __init__(self, indices):
            self.indices = indices

    def topk(self, k, dim=-1, **more):
        return Sorted(torch.sort(function(self, k, dim=dim, **more).indices, dim=dim).values)

    return topk


@contextlib.contextmanager
def in_order():
    import torch

    plain = torch.Tensor.topk
    torch.Tensor.topk = sorted_top(plain)
    try:
        yield
    finally:
        torch.Tensor.topk = plain


def load(model):
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    path = pathlib.Path(model)
    where = {"gguf_file": path.name} if path.is_file() else {}
    folder = str(path.parent if path.is_file() else path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **where)
    return tokenizer, transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa", **where).eval()


def generate(model, ids, steps, name, press, decoding):
    import torch
    import kvpress

    watched = Watched(press)
    watched.watch(press)
    both = press
    if decoding is not None:
        scorer, target = decoding
        watched.watch(scorer)
        both = kvpress.PrefillDecodingPress(press, kvpress.DecodingPress(scorer, compression_interval=1, target_size=target, hidden_states_buffer_size=1))
    from transformers import DynamicCache

    cache, length = DynamicCache(), len(ids)
    with torch.no_grad(), in_order(), both(model):
        row = model(torch.tensor([ids]), past_key_values=cache, logits_to_keep=1).logits[0, -1]
        said, closest = [], []
        for step in range(steps):
            best = torch.sort(row, descending=True)
            closest.append(float(best.values[0] - best.values[1]))
            said.append(int(best.indices[0]))
            if step + 1 == steps:
                break
            watched.position = length + step
            place = cache.get_seq_length() if name.endswith("reindexed") else watched.position
            row = model(torch.tensor([said[-1:]]), past_key_values=cache, position_ids=torch.tensor([[place]])).logits[0, -1]
    return watched, said, min(closest)


def model_cases(out, steps, path):
    import torch

    tokenizer, model = load(path)
    text = (pathlib.Path(__file__).parents[3] / "assets" / "prompts" / "passages.jsonl").read_text().splitlines()
    record = json.loads(text[0])
    ids = tokenizer.encode(record["prompt"] + " " + record["reference"], add_special_tokens=False)[:PROMPT_LENGTH]
    layers = model.config.num_hidden_layers
    cases = []
    table = methods(len(ids), BUDGET, WINDOW, KERNEL, SINKS)
    table["pyramidkv"] = methods(len(ids), PYRAMID_BUDGET, WINDOW, KERNEL, SINKS)["pyramidkv"]  # smaller ones are flat
    for name, (policy, press, decoding) in table.items():
        if name == "h2o":
            continue  # kvpress has its scores for the prompt alone
        if decoding is not None and decoding[1] != BUDGET:  # one entry less between steps, from the prompt on
            press = methods(len(ids), decoding[1], WINDOW, KERNEL, SINKS)[name][1]
        watched, said, closest = generate(model, ids, steps, name, press, decoding)
        case = {"name": name, "policy": policy, "ids": ids, "said": said, "text": tokenizer.decode(said), "closest": closest}
        if decoding is None or decoding[1] == BUDGET:
            case["kept"] = [watched.kept[layer] for layer in range(layers)]
            case["entries"] = f"{name.replace(' ', '-')}.bin"
            torch.cat([watched.contents[layer] for layer in range(layers)]).numpy().tofile(out / case["entries"])
        if decoding is not None:
            # What the last step read: of a method that makes room first, all that RefreshLab holds after it.
            held = watched.held if decoding[1] == BUDGET else watched.before
            case["held"] = [held[layer] for layer in range(layers)]
        cases.append(case)
    return cases


def stamp(arguments):
    versions = [importlib.metadata.version(name) for name in PACKAGES]
    digest = hashlib.sha256(repr((arguments, versions)).encode())
    digest.update(pathlib.Path(__file__).read_bytes())
    for argument in arguments[2:]:
        path = pathlib.Path(argument)
        for file in [path] if path.is_file() else sorted(path.glob("*")):
            digest.update(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}".encode())
    return digest.hexdigest()


def main():
    out, number, what = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    mark = stamp(sys.argv[2:])
    if (out / "stamp").exists() and (out / "stamp").read_text() == mark:
        return
    import torch

    torch.set_num_threads(1)  # suites run side by side
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    cases = vectors(out, number) if what == "vectors" else model_cases(out, number, sys.argv[4])
    (out / "manifest.json").write_text(json.dumps(cases, allow_nan=False))
    (out / "stamp").write_text(mark)


if __name__ == "__main__":
    main()
