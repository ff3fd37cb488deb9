"""What the trainer of the `tokenizers` library learns: reads corpora, [{"texts", "cut", "specials", "vocab", "held_out", "own"}, ...], and writes for
each {"merges", "tokens", "ids", "own"}: merges and tokens by id, the ids of the held-out texts, and those that the library gives with the file `own`."""
import json
import sys

from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, trainers

from reference_ids import GPT2, LLAMA3, QWEN2


def learned(corpus):
    tokenizer = Tokenizer(models.BPE())
    cut = {"gpt2": GPT2, "llama3": LLAMA3, "qwen2": QWEN2}[corpus["cut"]]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(cut), "isolated"),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=corpus["vocab"], show_progress=False,
                                  special_tokens=[AddedToken(token, special=True) for token in corpus["specials"]],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus["texts"], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return {"merges": model["merges"], "tokens": sorted(model["vocab"], key=model["vocab"].get),
            "ids": [tokenizer.encode(text).ids for text in corpus["held_out"]],
            "own": [Tokenizer.from_file(corpus["own"]).encode(text).ids for text in corpus["held_out"]]}


corpora, out = sys.argv[1:]
with open(corpora, encoding="utf-8") as file:
    result = [learned(corpus) for corpus in json.load(file)]
with open(out, "w", encoding="utf-8") as file:
    json.dump(result, file)
