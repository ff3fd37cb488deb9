"""Other programs that decode the same weights. Each has decode(ids, tokens) -> (generated ids, seconds to the first token,
tokens a second = (N - 1) / (t_last - t_first)): greedy, forced length, no stop token."""
import json
import os
import subprocess
import tempfile
import time


class Ours:
    """The built refreshlab. A process a round, which warms up by itself; loading does not count."""

    def __init__(self, program, model, dtype, threads):
        self.command = [program, "bench", "--decode-only", "--mode", "student", "--student", model, "--dtype", dtype,
                        "--threads", str(threads), "--rounds", "1", "--warm-ups", "1", "--json", "-"]
        self.name = "refreshlab"
        self.about = {}

    def decode(self, ids, tokens):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(ids, file)
            file.flush()
            done = subprocess.run([*self.command, "--ids", file.name, "--tokens", str(tokens)], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"refreshlab failed: {done.stderr.strip()}")
        found = json.loads(done.stdout)
        self.about = {key: found[key] for key in ("commit", "kernels", "threads", "dtype")}
        return found["ids"], found["first_token_ms"]["median"] / 1000, found["tokens_per_second"]["median"]


class Transformers:
    """Hugging Face transformers: eager with a DynamicCache, or with a StaticCache (the forward is compiled where `compiled`;
    compiling counts as warm-up)."""

    def __init__(self, model, dtype, threads, static=False, compiled=False):
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        import torch
        import transformers
        self.torch, self.transformers = torch, transformers
        transformers.utils.logging.disable_progress_bar()
        torch.set_num_threads(threads)
        kind = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "native": torch.bfloat16}[dtype]
        folder, file = os.path.split(model) if model.endswith(".gguf") else (model, None)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            folder or ".", dtype=kind, **({"gguf_file": file} if file else {})).eval()
        self.static = static
        self.forward = torch.compile(self.model.forward, dynamic=False) if compiled else self.model.forward
        self.name = "transformers " + ("static cache" if static else "eager") + (", compiled" if compiled else "")
        self.about = {"transformers": transformers.__version__, "torch": torch.__version__, "threads": threads, "dtype": dtype}

    def _cache(self, length):
        if not self.static:
            return self.transformers.DynamicCache()
        return self.transformers.StaticCache(config=self.model.config, max_cache_len=length)

    def decode(self, ids, tokens):
        torch = self.torch
        with torch.inference_mode():
            cache = self._cache(len(ids) + tokens)
            began = time.perf_counter()
            # The prefill is eager in both: its shape is another one.
            out = self.model(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True, logits_to_keep=1,
                             cache_position=torch.arange(len(ids)))
            made = [int(out.logits[0, -1].argmax())]
            first = time.perf_counter()
            for i in range(tokens - 1):
                at = torch.tensor([len(ids) + i])
                out = self.forward(input_ids=torch.tensor([[made[-1]]]), past_key_values=cache, use_cache=True,
                                   cache_position=at, position_ids=at[None])
                made.append(int(out.logits[0, -1].argmax()))
            last = time.perf_counter()
        return made, first - began, (tokens - 1) / (last - first)


class LlamaCpp:
    """llama.cpp through llama-cpp-python. Its C interface is called directly, so Python costs some microseconds a token."""

    def __init__(self, model, dtype, threads, context):
        if not model.endswith(".gguf"):
            raise SystemExit("llama.cpp reads .gguf files; unpack.py and the converter of llama.cpp make one")
        import llama_cpp
        self.lib = llama_cpp
        llama_cpp.llama_backend_init()
        llama_cpp.llama_log_set(self._quiet(), None)
        self.weights = llama_cpp.llama_model_load_from_file(model.encode(), llama_cpp.llama_model_default_params())
        if not self.weights:
            raise SystemExit(f"llama.cpp cannot load {model}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = context, 512, 512
        params.n_threads = params.n_threads_batch = threads
        # Keys and values as ours are held: GGML_TYPE_F32 = 0, F16 = 1, BF16 = 30.
        params.type_k = params.type_v = {"f32": 0, "f16": 1, "bf16": 30, "native": 30}[dtype]
        self.context = llama_cpp.llama_init_from_model(self.weights, params)
        if not self.context:
            raise SystemExit("llama.cpp cannot make a context")
        self.sampler = llama_cpp.llama_sampler_init_greedy()
        self.name = "llama.cpp"
        self.about = {"llama-cpp-python": llama_cpp.__version__, "threads": threads, "cache": dtype,
                      "system": llama_cpp.llama_print_system_info().decode().strip()}

    def _quiet(self):
        self.log = self.lib.llama_log_callback(lambda *_: None)  # kept: C calls it later
        return self.log

    def _feed(self, ids):
        lib = self.lib
        array = (lib.llama_token * len(ids))(*ids)
        if lib.llama_decode(self.context, lib.llama_batch_get_one(array, len(ids))) != 0:
            raise SystemExit("llama.cpp failed in a decode")
        return lib.llama_sampler_sample(self.sampler, self.context, -1)

    def decode(self, ids, tokens):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        began = time.perf_counter()
        for at in range(0, len(ids), 512):
            chosen = self._feed(ids[at:at + 512])
        made = [chosen]
        first = time.perf_counter()
        for _ in range(tokens - 1):
            made.append(self._feed([made[-1]]))
        last = time.perf_counter()
        return made, first - began, (tokens - 1) / (last - first)
