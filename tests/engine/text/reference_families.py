"""Tokenizers with exactly the pipelines that the model families publish, around small BPEs trained here.

Writes OUT_DIR/ids/NAME/ for each, in the form of reference_ids.py.
"""
import copy
import json
import random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from reference_ids import EDGES, LLAMA3, QWEN2, added, byte_level, prompts, random_strings, sequence, split, write_cases

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPACE = "\u2581"


def special(content, **flags):
    return added(content, **({"special": True, "normalized": False} | flags))


def begin(content, number):
    return {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": content, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": content, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                     {"SpecialToken": {"id": content, "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {content: {"id": content, "ids": [number], "tokens": [content]}}}


def replace(pattern, content):
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def metaspace(scheme, cut):
    return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": cut}


def decoders(*steps):
    return {"type": "Sequence", "decoders": list(steps)}


STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
LLAMA2_DECODER = decoders(replace(SPACE, " "), {"type": "ByteFallback"}, {"type": "Fuse"}, STRIP)
LLAMA2_NORMALIZER = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, replace(" ", SPACE)]}


def number(tokens, vocab):
    """Ids as the library gives them: those of the vocabulary keep theirs, the others follow on."""
    following = len(vocab)
    for entry in tokens:
        entry["id"] = vocab.get(entry["content"], following)
        following += entry["id"] == following
    return tokens


def byte_level_families(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=1000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]

    def family(tokens, **sections):
        content = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "decoder": byte_level(False, False),
                   "model": copy.deepcopy(model)} | copy.deepcopy(sections)
        content["added_tokens"] = number(tokens, content["model"]["vocab"])
        return content

    made = {}
    gpt2 = family([special("<|endoftext|>", normalized=True)], pre_tokenizer=byte_level(False, True), post_processor=byte_level(False, True),
                  decoder=byte_level(True, True))
    gpt2["model"]["merges"] = [" ".join(pair) for pair in gpt2["model"]["merges"]]
    gpt2["model"] |= {"continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": False}
    made["family GPT-2"] = gpt2

    llama3_tokens = [special(f"<|{name}|>") for name in ("begin_of_text", "end_of_text", "reserved_special_token_0", "start_header_id", "end_header_id", "eot_id")]
    llama3 = family(llama3_tokens, pre_tokenizer=sequence(split(LLAMA3), byte_level()))
    llama3["post_processor"] = {"type": "Sequence", "processors": [byte_level(True, True), begin("<|begin_of_text|>", llama3_tokens[0]["id"])]}
    llama3["decoder"] = byte_level(True, True)
    llama3["model"]["ignore_merges"] = True
    made["family Llama 3"] = llama3

    qwen_tokens = [special(text) for text in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]
    made["family Qwen 2"] = family(copy.deepcopy(qwen_tokens), normalizer={"type": "NFC"}, pre_tokenizer=sequence(split(QWEN2), byte_level()),
                                   post_processor=byte_level())
    thinking = [added(text, normalized=False) for text in ("<tool_call>", "</tool_call>", "<think>", "</think>")]
    made["family Qwen 3"] = family(qwen_tokens + thinking, normalizer={"type": "NFC"}, pre_tokenizer=sequence(split(QWEN2), byte_level()),
                                   post_processor=byte_level())
    return made


def sentencepiece_families(texts):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    trainer = trainers.BpeTrainer(vocab_size=1200, special_tokens=["<unk>", "<s>", "</s>"] + BYTES, limit_alphabet=110, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    for length in (1, 2, 4):  # runs of spaces are pieces of these vocabularies
        piece = SPACE * 2 * length
        if piece not in model["vocab"]:
            model["vocab"][piece] = len(model["vocab"])
            model["merges"].append([SPACE * length] * 2)
    begin_s = begin("<s>", 1)
    marks = [special(text) for text in ("<unk>", "<s>", "</s>")]
    made = {}

    def family(name, tokens=(), **sections):
        content = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": None, "post_processor": begin_s,
                   "decoder": LLAMA2_DECODER, "model": model} | sections
        made[name] = copy.deepcopy(content)
        made[name]["added_tokens"] = number(copy.deepcopy(marks + list(tokens)), model["vocab"])
        return made[name]

    family("family Llama 2", normalizer=LLAMA2_NORMALIZER)["model"]["merges"] = [" ".join(pair) for pair in model["merges"]]
    older = family("Llama 2, normalised tokens", normalizer=LLAMA2_NORMALIZER)
    for entry in older["added_tokens"]:
        entry["normalized"] = True
    family("family Llama 2 without legacy", pre_tokenizer=metaspace("first", False))
    family("family Mistral", normalizer=LLAMA2_NORMALIZER)["model"]["fuse_unk"] = False
    family("family Mistral 3", [special(text) for text in ("[INST]", "[/INST]", "[TOOL_CALLS]")], pre_tokenizer=metaspace("first", False))
    phi = [special("<|user|>", rstrip=True), special("<|end|>", lstrip=True), added("MASK", single_word=True), added("caf\u00e9"), added("  ", normalized=False)]
    family("Phi 3", phi, normalizer=LLAMA2_NORMALIZER)
    family("tokens with Metaspace first", phi, pre_tokenizer=metaspace("first", True))
    family("Metaspace always", phi, pre_tokenizer=metaspace("always", True), decoder=metaspace("always", True))
    family("Metaspace never", pre_tokenizer=metaspace("never", True), decoder=decoders(metaspace("never", True), {"type": "ByteFallback"}))
    old = {"type": "Metaspace", "replacement": SPACE, "add_prefix_space": True, "str_rep": SPACE}
    family("Metaspace of old", pre_tokenizer=sequence(old, {"type": "Digits", "individual_digits": True}), decoder=old)
    family("Gemma", normalizer=replace(" ", SPACE), pre_tokenizer=split(" ", "MergedWithPrevious", kind="String"),
           decoder=decoders(replace(SPACE, " "), {"type": "ByteFallback"}, {"type": "Fuse"}))
    family("Metaspace after digits", normalizer={"type": "NFC"}, pre_tokenizer=sequence(split(r"\p{N}{1,3}"), metaspace("first", False)))
    strip = decoders(STRIP, replace(SPACE, " "), STRIP | {"start": 2, "content": "a"}, {"type": "ByteFallback"}, {"type": "Fuse"}, STRIP | {"start": 2},
                     STRIP | {"content": "t"})
    family("strips", normalizer=LLAMA2_NORMALIZER, decoder=strip)
    family("no strip", normalizer=LLAMA2_NORMALIZER, decoder=decoders())
    whole = family("whole words", pre_tokenizer=metaspace("always", True))["model"]
    whole["ignore_merges"] = True
    for word in ("\u2581zebra", "\u2581\u4f60\u597d", "wordxword", "!?!?"):
        whole["vocab"][word] = len(whole["vocab"])
    for name, fallback, fuse, unknown in [("some bytes, fused", True, True, "<unk>"), ("some bytes", True, False, "<unk>"),
                                          ("some bytes, nothing unknown", True, True, None), ("no fallback, fused", False, True, "<unk>"),
                                          ("no fallback", False, False, "<unk>")]:
        reduced = family(name, normalizer=LLAMA2_NORMALIZER)
        dropped = set(BYTES[0x90:0xC8] + BYTES[0x0A:0x10])
        vocab = {piece: i for i, piece in enumerate(piece for piece in model["vocab"] if piece not in dropped)}
        reduced["model"] |= {"vocab": vocab, "byte_fallback": fallback, "fuse_unk": fuse, "unk_token": unknown}
    return made


def write(out, source, seed):
    texts = prompts(source / "assets" / "prompts")
    sample = [text for text in random.Random(seed).sample(texts, 400) if len(text) < 4000]
    families = byte_level_families(sample + EDGES) | sentencepiece_families(sample)
    for index, (name, content) in enumerate(families.items()):
        count = 2000 if name.startswith("family") else 300
        inputs = EDGES + random_strings(seed + 100 + index, count) + sample[:50]
        write_cases(out / "ids" / name, json.dumps(content), inputs, seed + 100 + index)
