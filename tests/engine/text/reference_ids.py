"""Ids of the `tokenizers` library, for the parity tests of engine/text.

Writes OUT_DIR/ids/NAME/tokenizer.json for each variant, OUT_DIR/ids/NAME/cases.json = [[text, ids, ids with special
tokens, decoded text], ...], OUT_DIR/ids/NAME/decodes.json = [[ids, are special tokens skipped, decoded text], ...], and
OUT_DIR/classes.json = {pattern: [[first, last], ...]}: which code points matches of the pattern cover.
"""
import copy
import json
import random

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
          r"|\s+(?!\S)|\s+")
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+"]
CLASSES = [r"\s", r"\S", r"\p{L}", r"\P{L}", r"\p{N}", r"\p{M}", r"\p{P}", r"\p{S}", r"\p{Lu}", r"\p{Ll}", r"\p{Lm}", r"\p{Lo}",
           r"\p{Lt}", r"\p{Nd}", r"\p{^N}", r"\p{Han}", r"\p{Hiragana}", r"\w", r"\W", r"\d", r"\h", r".", r"(?i:s)", r"(?i:k)",
           r"(?i:[t-v])", r"[^\s\p{L}\p{N}]", r"[\w\-]", r"\x{41}", r"\u0042", r"[\x41-\x43\]]", r"\b\w", r"$\n", r"^a"]

EDGES = [
    "", " ", "  ", "\n", "\r\n", "\t\t\t", " \n \n ", "a", "a ", " a", "  a", "a  b", "a\n\nb", "a \n b", "\u00a0", "a\u00a0b", "\u2028", "a\u2028\u2029b",
    "\u3000\u3000x", "\u180e", "a\u180eb", "\u200b", "a\u200b \u200cb", "\ufeffBOM", "\u0085x", "\x00\x01\x7f", "e\u0301", "\u00e9", "a\u0323\u0307", "a\u0307\u0323",
    "\u1e69 s\u0323\u0307", "\u212b \u2126", "\u1100\u1161\u11a8 \uac01", "\ufb01 \ufb03", "\u0958 \u0915\u093c", "a\u0898\u0323", "\U00011935\U00011930",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea\U0001f1eb", "\U0001f44d\U0001f3fd", "\u2764\ufe0f", "1\ufe0f\u20e3", "\u4f60\u597d\uff0c\u4e16\u754c",
    "\u65e5\u672c\u8a9e\u3067\u3059\u3002", "\ud55c\uad6d\uc5b4", "\u05e9\u05dc\u05d5\u05dd", "\u0627\u0644\u0633\u0644\u0627\u0645", "\u202eabc\u202c", "\u0928\u092e\u0938\u094d\u0924\u0947",
    "I'll've it'S they'RE 'TIS 'll 'LL", "it'\u017f done'\u017f", "'\u212a \u212a\u212alvin", "\u017fong", "don\u2019t", "\u0130stanbul \u0131", "\u01c5", "stra\u00dfe",
    "0 12 123 1234 12345678901", "\u0661\u0662\u0663\u0664 \u00b2\u00bd\u2163", "3.14e-10", "x=1;y=2", "!!!???...", "---\n===\r\n", "@@ ##\n\n\n", "http://a.b/c?d=e&f",
    "<|begin|>", "<|begin|> hi <|end|>", "<|be", "<|begin|", "<<|begin|>>", "<|end|><|end|>", "a<|user|>b", "  <|user|>  ", "<|USER|>", "\u2581under\u0120G",
    "a zebra wordxword x wordxword", "    z", "!?!?", "MASK", " MASK ", "xMASKx", "MASK!", "\u00e9MASK", "<lstrip>", "a  <lstrip>  b", "a <rstrip> \n b", "<both> \t<both>", "caf\u00e9", "cafe\u0301 cafe\u0301s",
    "wordword", "\ud7ff\ue000\ufffe\uffff\U0010ffff", "a\x00b", "\x00", "\u0627\u0644\u0640\u0651 abc 123 \u05d0", "\t x\t\ty \t", "trailing  ", "trailing \n", " \u2581 x\u2581\u2581y", "<0x41><0x0A> <0xZZ>", "<s>hi</s>", "[INST] x [/INST]<unk>", "\U00010d40\U0001c000\u1c89\ua7da", "\U0002ebf0\U00031350\u9fff", "\U000e0001", "a" * 300, "ab" * 200, " " * 300, "\n" * 70, "\u00e9" * 100, "!" * 200, "1" * 50,
]


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for entry in value:
            yield from strings(entry)
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield key
            yield from strings(entry)


def prompts(folder):
    found = []
    for path in sorted(folder.iterdir()):
        text = path.read_text(encoding="utf-8")
        records = [json.loads(text)] if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]
        for record in records:
            found += strings(record)
    return found


def random_strings(seed, count):
    rng = random.Random(seed)
    blocks = [range(0x20, 0x7f)] * 6 + [range(0xa0, 0x180), range(0x300, 0x370), range(0x370, 0x400), range(0x400, 0x460), range(0x5d0, 0x5eb),
              range(0x620, 0x670), range(0x900, 0x980), range(0x1100, 0x1200), range(0x1e00, 0x1f00), range(0x2000, 0x2070), range(0x2100, 0x2190),
              range(0x3040, 0x3100), range(0x4e00, 0x4f00), range(0xac00, 0xad00), range(0xfb00, 0xfb50), range(0x1f300, 0x1f680), range(0x10d40, 0x10d90)]
    pieces = [" ", "  ", "\n", "\r\n", "\t", "'s", "'LL", "'\u017f", " the", "123", "<|end|>", "<|us", "<lstrip>", " <rstrip> ", "MASK", "caf\u00e9", "\u200d", "\u180e", "..."]
    made = []
    for _ in range(count):
        text = ""
        for _ in range(rng.randrange(1, 25)):
            if rng.random() < 0.35:
                text += rng.choice(pieces)
            else:
                block = rng.choice(blocks)
                text += "".join(chr(rng.choice(block)) for _ in range(rng.randrange(1, 6)))
        made.append(text)
    for _ in range(count // 10):  # any code points at all
        made.append("".join(chr(c) for c in (rng.randrange(0x110000) for _ in range(20)) if not 0xD800 <= c < 0xE000))
    return made


def matched(pattern):
    """Code points that matches of the pattern cover, in texts of 4096 neighbouring code points each."""
    splitter = pre_tokenizers.Split(Regex(pattern), "removed")
    ranges = []
    for start in [*range(0, 0x40000, 4096), *range(0xE0000, 0xE1000, 4096)]:  # the rest is unassigned or private
        points = [c for c in range(start, start + 4096) if not 0xD800 <= c < 0xE000]
        if not points:
            continue
        left = set()
        for _, (begin, end) in splitter.pre_tokenize_str("".join(map(chr, points))):
            left.update(range(begin, end))
        for index, point in enumerate(points):
            if index not in left:
                if ranges and ranges[-1][1] == point - 1:
                    ranges[-1][1] = point
                else:
                    ranges.append([point, point])
    return ranges


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def byte_level(prefix=False, regex=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def added(content, **flags):
    entry = {"id": -1, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False}
    entry.update(flags)
    return entry


def variants(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=1200, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    base = json.loads(tokenizer.to_str())
    base["decoder"] = byte_level(True, True)
    size = len(base["model"]["vocab"])
    made = {}

    def variant(name, pre, normalizer=None, tokens=(), post=None, **model):
        made[name] = copy.deepcopy(base)
        made[name].update({"pre_tokenizer": pre, "normalizer": normalizer, "added_tokens": copy.deepcopy(list(tokens)), "post_processor": copy.deepcopy(post)})
        made[name]["model"].update(model)
        following = size  # tokens that the vocabulary has already keep their id, as the library numbers them
        for entry in made[name]["added_tokens"]:
            entry["id"] = base["model"]["vocab"].get(entry["content"], following)
            following += entry["id"] == following
        return made[name]["model"]

    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|begin|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                                                          {"SpecialToken": {"id": "two", "type_id": 0}}], "pair": [],
                "special_tokens": {"<|begin|>": {"id": "<|begin|>", "ids": [size], "tokens": ["<|begin|>"]},
                                   "two": {"id": "two", "ids": [size + 1, 5], "tokens": ["<|end|>", "x"]}}}
    template["pair"] = template["single"] + [{"Sequence": {"id": "B", "type_id": 1}}]
    specials = [added(text, normalized=False, special=True) for text in ["<|begin|>", "<|end|>", "<|user|>"]]

    model = variant("gpt2", byte_level(True, True), post=byte_level())
    model["merges"] = ["#version: 0.2"] + [" ".join(pair) for pair in model["merges"]]
    model["continuing_subword_prefix"] = model["end_of_word_suffix"] = ""

    model = variant("llama3", sequence(split(LLAMA3), byte_level()), tokens=specials, ignore_merges=True,
                    post={"type": "Sequence", "processors": [byte_level(), template]})
    whole = ["\u0120zebra", "wordxword", "\u0120\u0120\u0120\u0120z", "!?!?"]  # words that merges do not make
    model["vocab"].update({word: size + i for i, word in enumerate(whole)})
    for entry in made["llama3"]["added_tokens"]:
        entry["id"] += len(whole)
    for entry in made["llama3"]["post_processor"]["processors"][1]["special_tokens"].values():
        entry["ids"] = [i + len(whole) if i >= size else i for i in entry["ids"]]

    mixed = specials + [
        added("<lstrip>", lstrip=True, special=True, normalized=False), added("<rstrip>", rstrip=True),
        added("<both>", lstrip=True, rstrip=True, normalized=False), added("MASK", single_word=True),
        added("caf\u00e9"), added("cafe\u0301s", normalized=False), added("s\u0323\u0307"), added("<|us", normalized=False),
        added("  ", normalized=False, rstrip=True)]
    variant("qwen", sequence(split(QWEN2), byte_level()), normalizer={"type": "NFC"}, tokens=mixed)
    variant("prefixed", sequence(split(GPT2), byte_level(True)), tokens=mixed,
            normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Prepend", "prepend": "_"},
                                                            {"type": "Replace", "pattern": {"String": "."}, "content": "<>"},
                                                            {"type": "Replace", "pattern": {"Regex": "[0-9]+"}, "content": "#"}]})
    variant("o200k", sequence(split(O200K), byte_level()))
    variant("cl100k", sequence(split(CL100K), byte_level()))
    variant("deepseek", sequence(*[split(pattern) for pattern in DEEPSEEK], byte_level()))
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        for invert in [False, True]:
            variant(f"split {behavior} {invert}", sequence(split(" ", behavior, invert, "String"), split(r"\p{P}|\b", behavior, invert), byte_level()))
    variant("digits", sequence({"type": "Digits", "individual_digits": True}, byte_level(regex=True)))
    variant("digit runs", sequence({"type": "Digits", "individual_digits": False}, byte_level(True)))
    for name, unknown, fuse in [("no bytes", None, False), ("unknown", "?", False), ("fused unknown", "?", True)]:
        model = variant(name, sequence(split(QWEN2), byte_level()), unk_token=unknown, fuse_unk=fuse)
        keep = {token: i for token, i in model["vocab"].items() if all(ord(c) < 0x80 or c == "\u0120" for c in token) and "q" not in token}
        model["vocab"] = {token: i for i, token in enumerate(keep)}
        model["merges"] = [pair for pair in model["merges"] if pair[0] + pair[1] in keep and pair[0] in keep and pair[1] in keep]
    return made


def write_cases(folder, text, inputs, seed):
    """One tokenizer: its file, what it makes of the inputs, and what it makes of ids that no text gives."""
    tokenizer = Tokenizer.from_str(text)
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    plain = tokenizer.encode_batch(inputs, add_special_tokens=False)
    full = tokenizer.encode_batch(inputs, add_special_tokens=True)
    cases = [[text, a.ids, b.ids, tokenizer.decode(b.ids, skip_special_tokens=True)] for text, a, b in zip(inputs, plain, full)]
    (folder / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    rng = random.Random(seed)
    size = tokenizer.get_vocab_size()
    decodes = []
    for _ in range(500):
        low, high = rng.choice([(0, size), (0, min(size, 300)), (0, min(size, 300)), (size - 30, size + 2)])
        ids = [rng.randrange(low, high) for _ in range(rng.randrange(12))]
        skip = rng.random() < 0.5
        decodes.append([ids, skip, tokenizer.decode(ids, skip_special_tokens=skip)])
    (folder / "decodes.json").write_text(json.dumps(decodes), encoding="utf-8")


def write(out, source, seed):
    texts = prompts(source / "assets" / "prompts")
    rng = random.Random(seed)
    classes = {pattern: matched(pattern) for pattern in CLASSES}
    # Each mark before, behind and between marks of known classes: what a normaliser may reorder or compose.
    marks = [chr(c) for first, last in classes[r"\p{M}"] for c in range(first, last + 1)]
    marks_texts = [f"a{mark}\u0323 a\u0345{mark} a{mark}\u0334 a\u0301{mark}" for mark in marks]
    pairs = [(0x11935, 0x11930), (0x105D2, 0x307), (0x11382, 0x113C9), (0x113C2, 0x113B8), (0x1611E, 0x1611F), (0x16D67, 0x16D67), (0x11131, 0x11127)]
    marks_texts += [chr(a) + chr(b) for a, b in pairs]

    bundled = (source / "assets" / "models" / "llama-tales-teacher" / "tokenizer.json").read_text(encoding="utf-8")
    write_cases(out / "ids" / "bundled", bundled, texts + EDGES + random_strings(seed, 2000), seed)
    sample = [text for text in rng.sample(texts, 400) if len(text) < 4000]
    for number, (name, content) in enumerate(variants(sample + EDGES).items()):
        inputs = EDGES + random_strings(seed + 1 + number, 300) + (marks_texts if name == "qwen" else [])
        write_cases(out / "ids" / name, json.dumps(content), inputs, seed + number)
    (out / "classes.json").write_text(json.dumps(classes), encoding="utf-8")
