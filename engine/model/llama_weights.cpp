#include "engine/model/llama_weights.h"

#include "kernels/check.h"

#include <utility>

namespace refreshlab {

LlamaWeights LlamaWeights::gather(const ModelConfig& config, const Source& source, at::Device device,
                                  at::ScalarType dtype) {
    LlamaWeights weights;
    const auto get = [&](const std::string& name, at::IntArrayRef shape) {
        at::Tensor tensor = source(name, shape);
        RL_ASSERT(tensor.defined() && tensor.sizes() == shape);
        tensor = tensor.detach().to(at::TensorOptions().device(device).dtype(dtype)).contiguous();
        weights.bytes += static_cast<int64_t>(tensor.nbytes());
        return tensor;
    };
    const int64_t hidden = config.hidden_size;
    const int64_t inner = config.intermediate_size;
    const int64_t q_width = config.num_heads * config.head_dim;
    const int64_t kv_width = config.num_kv_heads * config.head_dim;

    weights.embedding = get("model.embed_tokens.weight", {config.vocab_size, hidden});
    for (int64_t i = 0; i < config.num_layers; ++i) {
        const std::string prefix = "model.layers." + std::to_string(i) + ".";
        const auto matrix = [&](const std::string& name, int64_t out, int64_t in) {
            return get(prefix + name + ".weight", {out, in});
        };
        const auto bias = [&](const std::string& name, int64_t out, bool present) {
            return present ? get(prefix + name + ".bias", {out}) : at::Tensor();
        };
        LlamaLayer layer;
        layer.input_norm = get(prefix + "input_layernorm.weight", {hidden});
        layer.q = matrix("self_attn.q_proj", q_width, hidden);
        layer.q_bias = bias("self_attn.q_proj", q_width, config.attention_bias);
        layer.k = matrix("self_attn.k_proj", kv_width, hidden);
        layer.k_bias = bias("self_attn.k_proj", kv_width, config.attention_bias);
        layer.v = matrix("self_attn.v_proj", kv_width, hidden);
        layer.v_bias = bias("self_attn.v_proj", kv_width, config.attention_bias);
        layer.o = matrix("self_attn.o_proj", hidden, q_width);
        layer.o_bias = bias("self_attn.o_proj", hidden, config.attention_bias);
        layer.post_norm = get(prefix + "post_attention_layernorm.weight", {hidden});
        layer.gate = matrix("mlp.gate_proj", inner, hidden);
        layer.gate_bias = bias("mlp.gate_proj", inner, config.mlp_bias);
        layer.up = matrix("mlp.up_proj", inner, hidden);
        layer.up_bias = bias("mlp.up_proj", inner, config.mlp_bias);
        layer.down = matrix("mlp.down_proj", hidden, inner);
        layer.down_bias = bias("mlp.down_proj", hidden, config.mlp_bias);
        weights.layers.push_back(std::move(layer));
    }
    weights.final_norm = get("model.norm.weight", {hidden});
    weights.head = config.tied_head ? weights.embedding : get("lm_head.weight", {config.vocab_size, hidden});
    return weights;
}

} // namespace refreshlab
