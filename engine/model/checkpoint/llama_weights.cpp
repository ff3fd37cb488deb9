#include "engine/model/checkpoint/llama_weights.h"

#include "engine/base/check.h"
#include "kernels/blocks/blocks.h"
#include "kernels/blocks/device_blocks.h"
#include "kernels/cpu/convert.h"
#include "kernels/execution/huge_pages.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace refreshlab {

namespace {

/// What files call the parts of a routed MLP.
struct ExpertNames {
    std::string block, gate, up, down;
};
ExpertNames expert_names(const ModelConfig& config) {
    if (config.experts.numbered) return {"block_sparse_moe", "w1", "w3", "w2"};
    return {"mlp", "gate_proj", "up_proj", "down_proj"};
}

/// The one list of a model's tensors: calls see(place, tensor) for each, in the order of use. Makes the layers that are not
/// there yet, and ties the head.
template <class See>
void walk(const ModelConfig& config, LlamaWeights& weights, See&& see) {
    using Part = WeightPlace::Part;
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
        head_w{config.head_dim, config.head_dim}, experts_w{config.experts.count, config.experts.count},
        expert_w{config.experts.width, LlamaWeights::held_width(config.experts.width)};
    int64_t i = -1; // the layer
    const auto vector = [&](const std::string& name, Width n, at::Tensor& place) {
        see(WeightPlace{name, i, Part::other, {n.stored}, {n.held}}, place);
    };
    const auto matrix = [&](const std::string& name, Part part, Width out, Width in, at::Tensor& place) {
        see(WeightPlace{name + ".weight", i, part, {out.stored, in.stored}, {out.held, in.held}}, place);
    };
    const auto bias = [&](const std::string& name, Width out, bool present, at::Tensor& place) {
        if (present) vector(name + ".bias", out, place);
    };

    weights.layers.resize(static_cast<size_t>(config.num_layers));
    matrix("model.embed_tokens", Part::other, vocab_w, hidden_w, weights.embedding);
    for (i = 0; i < config.num_layers; ++i) {
        const std::string prefix = "model.layers." + std::to_string(i) + ".";
        const std::string attention = prefix + "self_attn.";
        const std::string mlp = prefix + "mlp.";
        LlamaLayer& layer = weights.layers[static_cast<size_t>(i)];
        if (config.pre_norms) vector(prefix + "input_layernorm.weight", hidden_w, layer.input_norm);
        matrix(attention + "q_proj", Part::attention, q_w, hidden_w, layer.q);
        bias(attention + "q_proj", q_w, config.qkv_bias, layer.q_bias);
        matrix(attention + "k_proj", Part::attention, kv_w, hidden_w, layer.k);
        bias(attention + "k_proj", kv_w, config.qkv_bias, layer.k_bias);
        matrix(attention + "v_proj", Part::attention, kv_w, hidden_w, layer.v);
        bias(attention + "v_proj", kv_w, config.qkv_bias, layer.v_bias);
        if (config.qk_norm) {
            vector(attention + "q_norm.weight", config.qk_norm_whole ? q_w : head_w, layer.q_norm);
            vector(attention + "k_norm.weight", config.qk_norm_whole ? kv_w : head_w, layer.k_norm);
        }
        matrix(attention + "o_proj", Part::attention, hidden_w, q_w, layer.o);
        bias(attention + "o_proj", hidden_w, config.output_bias, layer.o_bias);
        // The name says where the norm stands in Llama's block: after attention, before the MLP.
        const std::string after_attention = prefix + "post_attention_layernorm.weight";
        if (config.branch_norms) vector(after_attention, hidden_w, layer.o_norm);
        if (config.pre_norms)
            vector(config.branch_norms ? prefix + "pre_feedforward_layernorm.weight" : after_attention,
                   hidden_w, layer.post_norm);
        if (config.branch_norms)
            vector(prefix + "post_feedforward_layernorm.weight", hidden_w, layer.down_norm);
        if (config.routed(i)) {
            const ExpertNames names = expert_names(config);
            matrix(prefix + names.block + ".gate", Part::other, experts_w, hidden_w, layer.router);
            layer.experts.resize(static_cast<size_t>(config.experts.count));
            for (size_t e = 0; e < layer.experts.size(); ++e) {
                const std::string expert = prefix + names.block + ".experts." + std::to_string(e) + ".";
                matrix(expert + names.gate, Part::mlp, expert_w, hidden_w, layer.experts[e].gate);
                matrix(expert + names.up, Part::mlp, expert_w, hidden_w, layer.experts[e].up);
                matrix(expert + names.down, Part::mlp, hidden_w, expert_w, layer.experts[e].down);
            }
            continue;
        }
        matrix(mlp + "gate_proj", Part::mlp, inner_w, hidden_w, layer.gate);
        bias(mlp + "gate_proj", inner_w, config.mlp_bias, layer.gate_bias);
        matrix(mlp + "up_proj", Part::mlp, inner_w, hidden_w, layer.up);
        bias(mlp + "up_proj", inner_w, config.mlp_bias, layer.up_bias);
        matrix(mlp + "down_proj", Part::mlp, hidden_w, inner_w, layer.down);
        bias(mlp + "down_proj", hidden_w, config.mlp_bias, layer.down_bias);
    }
    i = -1;
    vector("model.norm.weight", hidden_w, weights.final_norm);
    if (config.tied_head) {
        weights.head = weights.embedding;
        // A vocabulary that was cut (LlamaModel::keep_vocabulary) stays cut.
        const bool whole = !kernels::is_blocks(weights.head);
        if (weights.head.defined() && whole && weights.head.size(0) > config.vocab_size)
            weights.head = weights.head.narrow(0, 0, config.vocab_size);
    } else {
        matrix("lm_head", Part::other, vocab_w, hidden_w, weights.head);
    }
}

int64_t product(const std::vector<int64_t>& shape) {
    int64_t result = 1;
    for (const int64_t n : shape)
        result *= n;
    return result;
}

/// Memory of a model's tensors. On the CPU they stand in stretches, one after the other in the order of use: they are read once
/// per token, from end to end. Each tensor keeps its stretch.
class Arena {
public:
    explicit Arena(at::TensorOptions options)
        : m_options(options)
        , m_step(64 / static_cast<int64_t>(options.dtype().itemsize())) {}

    /// \param zeros  where nothing is written later
    [[nodiscard]] at::Tensor take(const std::vector<int64_t>& shape, bool zeros) {
        const int64_t n = product(shape), room = (n + m_step - 1) / m_step * m_step;
        if (!m_options.device().is_cpu() || room > stretch / 4)
            return finished(large(n), shape, zeros); // alone
        if (!m_memory.defined() || m_used + room > m_memory.numel()) {
            m_memory = large(stretch);
            m_used = 0;
        }
        const at::Tensor tensor = m_memory.narrow(0, m_used, n);
        m_used += room;
        return finished(tensor, shape, zeros);
    }

private:
    static constexpr int64_t stretch = int64_t{8} << 20; ///< elements

    [[nodiscard]] at::Tensor large(int64_t elements) const {
        const at::Tensor memory = at::empty({elements}, m_options);
        if (memory.is_cpu()) kernels::prefer_huge_pages(memory.mutable_data_ptr(), memory.nbytes());
        return memory;
    }
    [[nodiscard]] static at::Tensor finished(const at::Tensor& memory, const std::vector<int64_t>& shape,
                                             bool zeros) {
        at::Tensor tensor = memory.view(shape);
        if (zeros) tensor.zero_();
        return tensor;
    }

    at::TensorOptions m_options;
    int64_t m_step; ///< elements of 64 bytes
    at::Tensor m_memory;
    int64_t m_used = 0;
};

} // namespace

double LlamaWeights::multiplier(const ModelConfig& config, const std::string& name) {
    const auto is = [&](std::string_view part) { return name.find(part) != std::string::npos; };
    const Multipliers& m = config.multipliers;
    if (is(".o_proj.") || is(".down_proj.")) return m.branch;
    if (is(".q_proj.")) return m.query;
    return name == "model.norm.weight" ? m.logits : 1;
}

LlamaWeights LlamaWeights::gather(const ModelConfig& config, const Source& source, at::Device device,
                                  at::ScalarType dtype) {
    const auto options = at::TensorOptions().device(device).dtype(dtype);
    Arena arena(options);
    LlamaWeights weights;
    walk(config, weights, [&](const WeightPlace& place, at::Tensor& slot) {
        at::Tensor tensor = source(place.name, place.stored);
        if (kernels::is_blocks(tensor)) { // stay as they are, in the device's order
            RL_ASSERT(multiplier(config, place.name) == 1);
            const kernels::BlockShape shape = kernels::block_shape(tensor);
            RL_ASSERT((place.held == std::vector<int64_t>{shape.out, shape.in}));
            tensor = kernels::blocks_on(tensor, device);
            weights.bytes += static_cast<int64_t>(tensor.nbytes());
            slot = std::move(tensor);
            return;
        }
        RL_ASSERT(tensor.defined() && tensor.sizes() == place.stored);
        const at::Tensor held = arena.take(place.held, place.held != place.stored);
        at::Tensor inside = held;
        for (size_t d = 0; d < place.stored.size(); ++d)
            inside = inside.narrow(static_cast<int64_t>(d), 0, place.stored[d]);
        kernels::convert_into(inside, tensor.detach());
        if (const double by = multiplier(config, place.name); by != 1) inside.mul_(by);
        tensor = held;
        weights.bytes += static_cast<int64_t>(tensor.nbytes());
        slot = std::move(tensor);
    });
    return weights;
}

void LlamaWeights::visit(const ModelConfig& config,
                         const std::function<void(const WeightPlace&, const at::Tensor&)>& see) const {
    LlamaWeights same = *this; // tensors are handles
    walk(config, same, [&](const WeightPlace& place, at::Tensor& slot) { see(place, slot); });
}

void LlamaWeights::replace(const ModelConfig& config,
                           const std::function<at::Tensor(const WeightPlace&, const at::Tensor&)>& see) {
    walk(config, *this, [&](const WeightPlace& place, at::Tensor& slot) { slot = see(place, slot); });
}

std::vector<std::string> LlamaWeights::names(const ModelConfig& config) {
    std::vector<std::string> result;
    LlamaWeights none;
    walk(config, none, [&](const WeightPlace& place, at::Tensor&) { result.push_back(place.name); });
    return result;
}

int64_t LlamaWeights::held_elements(const ModelConfig& config) {
    int64_t elements = 0;
    LlamaWeights none;
    walk(config, none, [&](const WeightPlace& place, at::Tensor&) { elements += product(place.held); });
    return elements;
}

} // namespace refreshlab
