"""Tiny random checkpoints in folders as the model families publish them, and what transformers' generate() says greedily.

usage: published_folders.py OUT_DIR MODEL_DIR

OUT_DIR/<name>/ has config.json with the keys, values and spellings of the published one (sizes apart), weights as published
(shards with an index, bf16, tied head left out), generation_config.json, and the tokenizer of MODEL_DIR.
OUT_DIR/answers.json = {name: {"prompt": ids, "ids": drawn ids, "logits": of the prompt's last token}}, in fp32, end tokens
obeyed. Done once: a stamp is left behind.
"""
import hashlib
import importlib.metadata
import json
import pathlib
import shutil
import sys

EOS = [3, 7, 1]
LLAMA3 = {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 64, "rope_type": "llama3"}
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 4096}
COMMON = {"attention_dropout": 0.0, "hidden_act": "silu", "initializer_range": 0.02, "use_cache": True}

# name: (config.json beside the sizes, save_pretrained's shard size, dtype of the file, generation_config.json)
FOLDERS = {
    "llama-3.2": ({"architectures": ["LlamaForCausalLM"], "attention_bias": False, "bos_token_id": 1, "eos_token_id": EOS, "head_dim": 16, "max_position_embeddings": 2048,
                   "mlp_bias": False, "model_type": "llama", "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": LLAMA3, "rope_theta": 500000.0,
                   "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0"},
                  "200KB", "bfloat16", {"bos_token_id": 1, "do_sample": True, "eos_token_id": EOS, "temperature": 0.6, "top_p": 0.9}),
    "llama-3.2, transformers 5": ({"architectures": ["LlamaForCausalLM"], "attention_bias": False, "bos_token_id": 1, "dtype": "bfloat16", "eos_token_id": EOS, "head_dim": 16,
                                   "max_position_embeddings": 2048, "mlp_bias": False, "model_type": "llama", "pad_token_id": None, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
                                   "rope_parameters": LLAMA3 | {"rope_theta": 500000.0}, "tie_word_embeddings": True, "transformers_version": "5.2.0"},
                                  "5GB", "bfloat16", {"eos_token_id": EOS}),
    "llama-3.1": ({"architectures": ["LlamaForCausalLM"], "attention_bias": False, "bos_token_id": 1, "eos_token_id": EOS, "max_position_embeddings": 2048, "mlp_bias": False,
                   "model_type": "llama", "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": LLAMA3 | {"factor": 8.0}, "rope_theta": 500000.0,
                   "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.42.3"}, "1MB", "bfloat16", {"eos_token_id": EOS}),
    "llama-2": ({"_name_or_path": "meta-llama/Llama-2-7b-hf", "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 512,
                 "model_type": "llama", "num_key_value_heads": 4, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "tie_word_embeddings": False,
                 "torch_dtype": "float16", "transformers_version": "4.31.0.dev0"}, "500KB", "float16", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}),
    "llama, first upload": ({"architectures": ["LlamaForCausalLM"], "bos_token_id": 0, "eos_token_id": 1, "max_sequence_length": 2048, "max_position_embeddings": 256, "model_type": "llama",
                             "num_key_value_heads": 4, "pad_token_id": -1, "rms_norm_eps": 1e-06, "tie_word_embeddings": False, "torch_dtype": "float16",
                             "transformers_version": "4.27.0.dev0"}, "5GB", "float16", None),
    "mistral-7b-v0.1": ({"architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 512, "model_type": "mistral",
                         "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 24, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
                         "transformers_version": "4.34.0.dev0"}, "1MB", "bfloat16", {"bos_token_id": 1, "eos_token_id": 2}),
    "mistral-7b-v0.3": ({"architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "head_dim": None, "max_position_embeddings": 1024, "model_type": "mistral",
                         "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
                         "transformers_version": "4.42.0.dev0"}, "1MB", "bfloat16", {"bos_token_id": 1, "eos_token_id": 2}),
    "qwen2.5": ({"architectures": ["Qwen2ForCausalLM"], "bos_token_id": 5, "eos_token_id": 7, "max_position_embeddings": 1024, "max_window_layers": 3, "model_type": "qwen2",
                 "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 24, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.43.1",
                 "use_sliding_window": False, "use_mrope": False}, "5GB", "bfloat16",
                {"bos_token_id": 5, "pad_token_id": 5, "do_sample": True, "eos_token_id": EOS, "repetition_penalty": 1.1, "temperature": 0.7, "top_p": 0.8, "top_k": 20}),
    "qwen2.5, window on": ({"architectures": ["Qwen2ForCausalLM"], "bos_token_id": 5, "eos_token_id": 7, "max_position_embeddings": 1024, "max_window_layers": 2, "model_type": "qwen2",
                            "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 24, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
                            "transformers_version": "4.43.1", "use_sliding_window": True}, "5GB", "bfloat16", {"eos_token_id": EOS}),
    "qwen3": ({"architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "bos_token_id": 5, "eos_token_id": 7, "head_dim": 32, "max_position_embeddings": 1024,
               "max_window_layers": 4, "model_type": "qwen3", "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None,
               "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_sliding_window": False}, "300KB", "bfloat16", {"eos_token_id": EOS}),
    "qwen3, transformers 5": ({"architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "bos_token_id": None, "dtype": "bfloat16", "eos_token_id": 7, "head_dim": 32,
                               "layer_types": ["full_attention"] * 4, "max_position_embeddings": 1024, "max_window_layers": 4, "model_type": "qwen3", "pad_token_id": None,
                               "rms_norm_eps": 1e-06, "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"}, "sliding_window": None, "tie_word_embeddings": False,
                               "transformers_version": "5.2.0", "use_sliding_window": False, "an_unknown_key": {"of": "tomorrow"}}, "5GB", "bfloat16", {"eos_token_id": EOS}),
    "granite-3.1": ({"architectures": ["GraniteForCausalLM"], "attention_bias": False, "attention_multiplier": 0.0625, "bos_token_id": 0, "embedding_multiplier": 12.0,
                     "eos_token_id": 0, "logits_scaling": 8.0, "max_position_embeddings": 1024, "mlp_bias": False, "model_type": "granite", "residual_multiplier": 0.22,
                     "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 5000000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
                     "transformers_version": "4.47.0.dev0"}, "5GB", "bfloat16", None),
    "smollm3": ({"architectures": ["SmolLM3ForCausalLM"], "attention_bias": False, "bos_token_id": 5, "eos_token_id": 0, "layer_types": ["full_attention"] * 4,
                 "max_position_embeddings": 1024, "max_window_layers": 28, "mlp_bias": False, "model_type": "smollm3", "no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0],
                 "pad_token_id": 0, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 5000000.0, "sliding_window": None, "torch_dtype": "bfloat16",
                 "transformers_version": "4.54.0.dev0", "use_sliding_window": False}, "5GB", "bfloat16", None),
    "olmo-2": ({"architectures": ["Olmo2ForCausalLM"], "attention_bias": False, "eos_token_id": 0, "max_position_embeddings": 1024, "model_type": "olmo2", "num_key_value_heads": 4,
                "pad_token_id": 0, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 500000, "tie_word_embeddings": False, "torch_dtype": "float32",
                "transformers_version": "4.47.0.dev0"}, "5GB", "float32", None),
    "phi-3-mini-4k": ({"architectures": ["Phi3ForCausalLM"], "attention_bias": False, "bos_token_id": 1, "embd_pdrop": 0.0, "eos_token_id": 0, "max_position_embeddings": 1024,
                       "model_type": "phi3", "num_key_value_heads": 4, "original_max_position_embeddings": 1024, "pad_token_id": 0, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05,
                       "rope_scaling": None, "rope_theta": 10000.0, "sliding_window": 23, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
                       "transformers_version": "4.40.2"}, "1MB", "bfloat16", None),
    "phi-4-mini": ({"architectures": ["Phi3ForCausalLM"], "attention_bias": False, "bos_token_id": 1, "embd_pdrop": 0.0, "eos_token_id": 0, "full_attn_mod": 1, "interpolate_factor": 1,
                    "lm_head_bias": False, "max_position_embeddings": 1024, "mlp_bias": False, "model_type": "phi3", "original_max_position_embeddings": 32, "pad_token_id": 0,
                    "partial_rotary_factor": 0.75, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05,
                    "rope_scaling": {"long_factor": [1, 1.118, 2.25, 4.01, 9.5, 16.3], "short_factor": [1.0] * 6, "type": "longrope"}, "rope_theta": 10000.0,
                    "sliding_window": 1024, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.45.0"}, "5GB", "bfloat16", None),
    "gemma-2-2b": ({"architectures": ["Gemma2ForCausalLM"], "attention_bias": False, "attn_logit_softcapping": 50.0, "bos_token_id": 2, "cache_implementation": "hybrid",
                    "eos_token_id": 1, "final_logit_softcapping": 30.0, "head_dim": 16, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
                    "max_position_embeddings": 1024, "model_type": "gemma2", "pad_token_id": 0, "query_pre_attn_scalar": 16, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
                    "sliding_window": 24, "torch_dtype": "float32", "transformers_version": "4.42.4"}, "5GB", "float32", None),
    "gemma-3-1b": ({"architectures": ["Gemma3ForCausalLM"], "attention_bias": False, "attn_logit_softcapping": None, "bos_token_id": 2, "cache_implementation": "hybrid",
                    "eos_token_id": 1, "final_logit_softcapping": None, "head_dim": 32, "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 1024,
                    "model_type": "gemma3_text", "pad_token_id": 0, "query_pre_attn_scalar": 24, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000, "rope_scaling": None,
                    "rope_theta": 1000000, "sliding_window": 24, "sliding_window_pattern": 3, "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0"},
                   "5GB", "bfloat16", None),
    "mixtral-8x7b": ({"architectures": ["MixtralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 1024, "model_type": "mixtral", "num_experts_per_tok": 2,
                      "num_local_experts": 4, "output_router_logits": False, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02, "sliding_window": None,
                      "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.36.0.dev0"}, "1MB", "bfloat16", None),
    "qwen3-30b-a3b": ({"architectures": ["Qwen3MoeForCausalLM"], "attention_bias": False, "bos_token_id": 5, "decoder_sparse_step": 1, "eos_token_id": 7, "head_dim": 32,
                       "max_position_embeddings": 1024, "max_window_layers": 4, "mlp_only_layers": [], "model_type": "qwen3_moe", "moe_intermediate_size": 32, "norm_topk_prob": True,
                       "num_experts": 8, "num_experts_per_tok": 2, "output_router_logits": False, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000.0,
                       "router_aux_loss_coef": 0.001, "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
                       "use_sliding_window": False}, "5GB", "bfloat16", None),
}
FIRST_OF_LONG = 11  # folders from here on draw 100 tokens, the others 40


def stamp() -> str:
    versions = [importlib.metadata.version(name) for name in ("torch", "transformers")]
    return hashlib.sha256(pathlib.Path(__file__).read_bytes() + repr(versions).encode()).hexdigest()


def make(out: pathlib.Path, source: pathlib.Path):
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)  # tiny models: more threads only wait for one another
    answers = {}
    for number, (name, (keys, shards, dtype, generation)) in enumerate(FOLDERS.items()):
        folder = out / name
        folder.mkdir(parents=True)
        published = SIZES | COMMON | keys
        (folder / "config.json").write_text(json.dumps(published, indent=2))
        config = transformers.AutoConfig.from_pretrained(folder)
        torch.manual_seed(number)
        config.initializer_range = 0.25  # so that arg max is clear and attention is not flat
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        model.generation_config = transformers.GenerationConfig()  # checked when saved; the published one comes below
        model.to(getattr(torch, dtype)).save_pretrained(folder, max_shard_size=shards)
        (folder / "config.json").write_text(json.dumps(published, indent=2))
        (folder / "generation_config.json").unlink(missing_ok=True)
        if generation is not None:
            (folder / "generation_config.json").write_text(json.dumps(generation))
        for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            if (source / file).exists():
                shutil.copy(source / file, folder / file)
        sharded = (folder / "model.safetensors.index.json").exists()
        assert sharded == (shards != "5GB"), (name, list(folder.iterdir()))

        # Other attention of transformers leaves soft caps out.
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        prompt = [(37 * i * i + 11 * i + number) % 4000 + 50 for i in range(60)]
        with torch.no_grad():
            logits = model(torch.tensor([prompt])).logits[0, -1]
            drawn = prompt[:]
            most = 100 if number >= FIRST_OF_LONG else 40
            while len(drawn) < len(prompt) + most:
                drawn.append(int(model(torch.tensor([drawn])).logits[0, -1].argmax()))
        ids = drawn[len(prompt):]
        if generation is not None and isinstance(generation["eos_token_id"], list):
            generation = generation | {"eos_token_id": [EOS[0], ids[25], EOS[2]]}  # a list of which one is drawn
            (folder / "generation_config.json").write_text(json.dumps(generation))
        ends = transformers.AutoModelForCausalLM.from_pretrained(folder).generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        ids = ids[:next((i for i, token in enumerate(ids) if token in ends), len(ids))]
        answers[name] = {"prompt": prompt, "ids": ids, "most": most, "ends": sorted(ends), "logits": logits.tolist()}
    (out / "answers.json").write_text(json.dumps(answers))


def main():
    out, source = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    mark = out / "stamp.txt"
    if mark.exists() and mark.read_text() == stamp():
        return
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    make(out, source)
    mark.write_text(stamp())


if __name__ == "__main__":
    main()
