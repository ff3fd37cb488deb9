"""Folders laid out as the model families publish them, and what AutoTokenizer of `transformers` makes of each.

Writes OUT_DIR/folders/NAME/ with tokenizer.json (of reference_families.py) and the files around it, and
    auto.json   {"texts": [[text, ids, ids with special tokens, decoded], ...],
                 "decodes": [[ids, decoded], ...], "chats": [[messages, rendered, ids], ...]}
where decoded is decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False).
"""
import json
import random

from transformers import AutoTokenizer

import reference_families
from reference_ids import EDGES, prompts, random_strings

INSTRUCT = "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}{% else %}{{ ' ' + m['content'] + eos_token }}{% endif %}{% endfor %}"
HEADERS = "{{- bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] | trim + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
CHATML = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
CHATS = [[{"role": "user", "content": "Hello there, world."}],
         [{"role": "user", "content": " two  spaces "}, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "caf\u00e9 \u4f60\u597d?"}]]


def token(content, **flags):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False} | flags


def listed(family):
    """added_tokens_decoder of a tokenizer.json"""
    return {str(entry["id"]): {key: value for key, value in entry.items() if key != "id"} for entry in family["added_tokens"]}


def layouts(families):
    """name -> (tokenizer.json, the other files)"""
    llama2, mistral, mistral3 = families["family Llama 2"], families["family Mistral"], families["family Mistral 3"]
    llama3, qwen2, qwen3 = families["family Llama 3"], families["family Qwen 2"], families["family Qwen 3"]
    spm = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": None, "sp_model_kwargs": {}, "clean_up_tokenization_spaces": False,
           "model_max_length": 1000000000000000019884624838656, "tokenizer_class": "LlamaTokenizer", "use_default_system_prompt": False}
    spm_map = {"bos_token": token("<s>"), "eos_token": token("</s>"), "unk_token": token("<unk>")}
    bpe3 = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "clean_up_tokenization_spaces": True, "model_input_names": ["input_ids", "attention_mask"],
            "model_max_length": 131072, "tokenizer_class": "PreTrainedTokenizerFast", "chat_template": HEADERS, "added_tokens_decoder": listed(llama3)}
    qwen = {"add_prefix_space": False, "add_bos_token": False, "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None,
            "errors": "replace", "split_special_tokens": False, "clean_up_tokenization_spaces": False, "model_max_length": 131072, "tokenizer_class": "Qwen2Tokenizer",
            "additional_special_tokens": ["<|im_start|>", "<|im_end|>"], "chat_template": CHATML}
    made = {}

    def folder(name, tokenizer, model_type, config, special=None, **files):
        files = {"config.json": {"model_type": model_type}, "tokenizer_config.json": config} | files
        if special is not None:
            files["special_tokens_map.json"] = special
        made[name] = (tokenizer, files)

    eos_list = {"generation_config.json": {"bos_token_id": 1, "eos_token_id": [2, 5, 7], "do_sample": True, "temperature": 0.6}}
    folder("Llama 2", llama2, "llama", spm | {"legacy": False, "add_bos_token": True, "add_eos_token": False, "added_tokens_decoder": listed(llama2), "chat_template": INSTRUCT},
           spm_map, **eos_list)
    folder("Llama 2, first upload", llama2, "llama", spm | {"bos_token": token("<s>") | {"__type": "AddedToken"}, "eos_token": token("</s>") | {"__type": "AddedToken"},
                                                            "unk_token": token("<unk>") | {"__type": "AddedToken"}, "chat_template": INSTRUCT}, spm_map)
    for flag in (True, False):  # neither changes ids where there is a tokenizer.json
        folder(f"Llama 2, end token {flag}", llama2, "llama", spm | {"legacy": flag, "add_bos_token": not flag, "add_eos_token": flag, "add_prefix_space": flag})
    folder("Llama 2, two files differ", llama2, "llama", spm | {"chat_template": INSTRUCT + "{{ eos_token }}"}, spm_map | {"eos_token": "<unk>"})
    folder("Mistral 0.1", mistral, "mistral", spm | {"legacy": True, "add_bos_token": True, "add_eos_token": False, "additional_special_tokens": [],
                                                     "added_tokens_decoder": listed(mistral), "chat_template": INSTRUCT}, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})
    folder("Mistral 0.3", mistral3, "mistral", spm | {"legacy": False, "add_prefix_space": None, "added_tokens_decoder": listed(mistral3),
                                                      "chat_template": [{"name": "tool_use", "template": "never"}, {"name": "default", "template": INSTRUCT}]}, spm_map)
    folder("Llama 3.2", llama3, "llama", bpe3, {"bos_token": token("<|begin_of_text|>"), "eos_token": token("<|eot_id|>")}, **eos_list)
    folder("Llama 3.2, template file", llama3, "llama", {key: value for key, value in bpe3.items() if key != "added_tokens_decoder"}, {"eos_token": "<|end_of_text|>"},
           **{"chat_template.jinja": HEADERS + "{{ eos_token }}"})
    folder("Qwen 2.5", qwen2, "qwen2", qwen | {"added_tokens_decoder": listed(qwen2)}, **eos_list)
    folder("Qwen 3", qwen3, "qwen3", qwen | {"added_tokens_decoder": listed(qwen3), "chat_template": "the older one"}, **{"chat_template.jinja": CHATML + "\n"})
    return made


def write(out, source, seed):
    texts = prompts(source / "assets" / "prompts")
    sample = [text for text in random.Random(seed).sample(texts, 400) if len(text) < 4000]
    families = reference_families.byte_level_families(sample + EDGES) | reference_families.sentencepiece_families(sample)
    for index, (name, (tokenizer, files)) in enumerate(layouts(families).items()):
        folder = out / "folders" / name
        folder.mkdir(parents=True)
        for file, content in ({"tokenizer.json": tokenizer} | files).items():
            (folder / file).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        auto = AutoTokenizer.from_pretrained(folder)
        rng = random.Random(seed + index)
        inputs = EDGES + random_strings(seed + 500 + index, 150) + sample[:20]
        inputs += [" hello", "hello </s> there <s>x", "<s>[INST] a [/INST]", "Hello , it 's n't ? <|eot_id|> b"]

        def decoded(ids):
            return auto.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

        texts_of = []
        for text in inputs:
            full = auto.encode(text)
            texts_of.append([text, auto.encode(text, add_special_tokens=False), full, decoded(full)])
        decodes = []
        for _ in range(300):
            ids = [rng.randrange(0, rng.choice([300, len(auto)])) for _ in range(rng.randrange(1, 12))]
            decodes.append([ids, decoded(ids)])
        chats = []
        for messages in CHATS if auto.chat_template else []:
            rendered = auto.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            ids = auto.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, return_dict=False)
            chats.append([messages, rendered, ids])
        (folder / "auto.json").write_text(json.dumps({"texts": texts_of, "decodes": decodes, "chats": chats}), encoding="utf-8")
