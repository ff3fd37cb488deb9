#include "engine/model/checkpoint/llama_weights.h"

#include "engine/base/check.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

namespace refreshlab {

namespace {

/// A tensor of the configuration: its shape in the checkpoint and the shape that is held.
struct Extent {
    std::vector<int64_t> stored, held;
};

/// The one list of a model's tensors: calls get(name, extent) for each, in the order of use, and puts the result into its
/// place.
template <class Get>
LlamaWeights walk(const ModelConfig& config, Get&& get) {
    const int64_t hidden = config.hidden_size;
    const int64_t inner = config.intermediate_size;
    const int64_t held_hidden = LlamaWeights::held_width(hidden);
    const int64_t held_inner = LlamaWeights::held_width(inner);
    const int64_t q_width = config.num_heads * config.head_dim;
    const int64_t kv_width = config.num_kv_heads * config.head_dim;
    struct Width {
        int64_t stored, held;
    };
    const Width vocab_w{config.vocab_size, config.vocab_size}, hidden_w{hidden, held_hidden},
        inner_w{inner, held_inner}, q_w{q_width, q_width}, kv_w{kv_width, kv_width},
        head_w{config.head_dim, config.head_dim};
    const auto vector = [&](const std::string& name, Width n) {
        return get(name, Extent{{n.stored}, {n.held}});
    };
    const auto matrix = [&](const std::string& name, Width out, Width in) {
        return get(name + ".weight", Extent{{out.stored, in.stored}, {out.held, in.held}});
    };
    const auto bias = [&](const std::string& name, Width out, bool present) {
        return present ? vector(name + ".bias", out) : at::Tensor();
    };

    LlamaWeights weights;
    weights.embedding = matrix("model.embed_tokens", vocab_w, hidden_w);
    for (int64_t i = 0; i < config.num_layers; ++i) {
        const std::string prefix = "model.layers." + std::to_string(i) + ".";
        const std::string attention = prefix + "self_attn.";
        const std::string mlp = prefix + "mlp.";
        LlamaLayer layer;
        layer.input_norm = vector(prefix + "input_layernorm.weight", hidden_w);
        layer.q = matrix(attention + "q_proj", q_w, hidden_w);
        layer.q_bias = bias(attention + "q_proj", q_w, config.qkv_bias);
        layer.k = matrix(attention + "k_proj", kv_w, hidden_w);
        layer.k_bias = bias(attention + "k_proj", kv_w, config.qkv_bias);
        layer.v = matrix(attention + "v_proj", kv_w, hidden_w);
        layer.v_bias = bias(attention + "v_proj", kv_w, config.qkv_bias);
        if (config.qk_norm) {
            layer.q_norm = vector(attention + "q_norm.weight", head_w);
            layer.k_norm = vector(attention + "k_norm.weight", head_w);
        }
        layer.o = matrix(attention + "o_proj", hidden_w, q_w);
        layer.o_bias = bias(attention + "o_proj", hidden_w, config.output_bias);
        layer.post_norm = vector(prefix + "post_attention_layernorm.weight", hidden_w);
        layer.gate = matrix(mlp + "gate_proj", inner_w, hidden_w);
        layer.gate_bias = bias(mlp + "gate_proj", inner_w, config.mlp_bias);
        layer.up = matrix(mlp + "up_proj", inner_w, hidden_w);
        layer.up_bias = bias(mlp + "up_proj", inner_w, config.mlp_bias);
        layer.down = matrix(mlp + "down_proj", hidden_w, inner_w);
        layer.down_bias = bias(mlp + "down_proj", hidden_w, config.mlp_bias);
        weights.layers.push_back(std::move(layer));
    }
    weights.final_norm = vector("model.norm.weight", hidden_w);
    weights.head = config.tied_head ? weights.embedding : matrix("lm_head", vocab_w, hidden_w);
    return weights;
}

int64_t product(const std::vector<int64_t>& shape) {
    int64_t result = 1;
    for (const int64_t n : shape)
        result *= n;
    return result;
}

} // namespace

LlamaWeights LlamaWeights::gather(const ModelConfig& config, const Source& source, at::Device device,
                                  at::ScalarType dtype) {
    const auto options = at::TensorOptions().device(device).dtype(dtype);
    int64_t bytes = 0;
    LlamaWeights weights = walk(config, [&](const std::string& name, const Extent& extent) {
        at::Tensor tensor = source(name, extent.stored);
        RL_ASSERT(tensor.defined() && tensor.sizes() == extent.stored);
        if (extent.held == extent.stored) {
            tensor = tensor.detach().to(options).contiguous();
        } else {
            const at::Tensor padded = at::zeros(extent.held, options);
            at::Tensor inside = padded;
            for (size_t d = 0; d < extent.stored.size(); ++d)
                inside = inside.narrow(static_cast<int64_t>(d), 0, extent.stored[d]);
            inside.copy_(tensor.detach());
            tensor = padded;
        }
        bytes += static_cast<int64_t>(tensor.nbytes());
        return tensor;
    });
    weights.bytes = bytes;
    return weights;
}

std::vector<std::string> LlamaWeights::names(const ModelConfig& config) {
    std::vector<std::string> result;
    (void)walk(config, [&](const std::string& name, const Extent&) {
        result.push_back(name);
        return at::Tensor();
    });
    return result;
}

int64_t LlamaWeights::held_elements(const ModelConfig& config) {
    int64_t elements = 0;
    (void)walk(config, [&](const std::string&, const Extent& extent) {
        elements += product(extent.held);
        return at::Tensor();
    });
    return elements;
}

} // namespace refreshlab
