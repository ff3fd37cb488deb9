#include "engine/model/gates/token_gate.h"

#include "engine/base/check.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "kernels/ops/dense.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace refreshlab {

namespace {

at::Tensor invariant_silu(const at::Tensor& x) {
    return kernels::silu_mul(x, at::ones_like(x));
}

/// Element by element on the host: what ATen gives an element depends on where it stands in its tensor.
at::Tensor invariant_log_sigmoid(const at::Tensor& x) {
    at::Tensor y = x.to(at::kCPU, at::kFloat).contiguous().clone();
    float* const data = y.mutable_data_ptr<float>();
    for (int64_t i = 0; i < y.numel(); ++i) {
        const auto value = static_cast<double>(data[i]);
        data[i] = static_cast<float>(std::min(value, 0.0) - std::log1p(std::exp(-std::abs(value))));
    }
    return y;
}

} // namespace

const GateMath& running_math() {
    static const GateMath math{kernels::linear, invariant_silu, invariant_log_sigmoid};
    return math;
}

const GateMath& training_math() {
    static const GateMath math{[](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
                                   return at::linear(x, weight,
                                                     bias.defined() ? std::optional(bias) : std::nullopt);
                               },
                               [](const at::Tensor& x) { return at::silu(x); },
                               [](const at::Tensor& x) { return at::log_sigmoid(x); }};
    return math;
}

std::span<const GateKind> all_gate_kinds() {
    static const std::vector<GateKind> kinds{gate_kinds::trim_kv(), gate_kinds::make_each_token_count(),
                                             gate_kinds::locret(), gate_kinds::attention_gate(),
                                             gate_kinds::lookahead_kv()};
    return kinds;
}

const GateKind* find_gate_kind(std::string_view method) {
    const auto kinds = all_gate_kinds();
    const auto found = std::ranges::find(kinds, method, &GateKind::method);
    return found == kinds.end() ? nullptr : &*found;
}

at::Tensor padded(const at::Tensor& weight, const GateWeight& place) {
    const auto more = [&](size_t dimension) {
        return LlamaWeights::held_width(place.shape[dimension]) - place.shape[dimension];
    };
    if (!place.held_in && !place.held_out) return weight;
    return at::constant_pad_nd(weight, {0, place.held_in ? more(1) : 0, 0, place.held_out ? more(0) : 0});
}

at::Tensor unpadded(const at::Tensor& weight, const GateWeight& place) {
    return weight.dim() == 2 ? weight.narrow(0, 0, place.shape[0]).narrow(1, 0, place.shape[1]) : weight;
}

GateSettings default_settings(const GateKind& kind) {
    GateSettings settings;
    for (const GateSetting& setting : kind.settings)
        settings.emplace(setting.key, setting.choices.front());
    return settings;
}

ModelGates untrained_gates(const ModelConfig& model, at::Device device, uint64_t seed) {
    ModelGates gates;
    for (const GateKind& kind : all_gate_kinds())
        gates.emplace(
            kind.method,
            TokenGate::untrained(kind, model, kind.width, default_settings(kind), seed)->on(device));
    return gates;
}

TokenGate::TokenGate(const GateKind& kind, int64_t width, GateSettings settings,
                     std::vector<std::vector<at::Tensor>> weights)
    : m_kind(kind)
    , m_width(width)
    , m_settings(std::move(settings))
    , m_weights(std::move(weights)) {
    RL_ASSERT(m_settings.size() == kind.settings.size());
    for (const GateSetting& setting : kind.settings) {
        const auto found = m_settings.find(setting.key);
        RL_ASSERT(found != m_settings.end());
        RL_ASSERT(std::ranges::find(setting.choices, found->second) != setting.choices.end());
    }
}

std::unique_ptr<TokenGate> TokenGate::untrained(const GateKind& kind, const ModelConfig& model, int64_t width,
                                                GateSettings settings, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::vector<at::Tensor>> layers(static_cast<size_t>(model.num_layers));
    for (auto& layer : layers) {
        for (const GateWeight& weight : kind.weights(model, width)) {
            if (weight.shared && &layer != &layers.front()) {
                layer.push_back(layers.front()[layer.size()]);
                continue;
            }
            at::Tensor tensor = at::full(weight.shape, weight.first, at::kFloat);
            if (weight.shape.size() == 2 && !weight.begins_as_zero) {
                const double bound = 1 / std::sqrt(static_cast<double>(weight.shape[1]));
                float* const data = tensor.mutable_data_ptr<float>();
                for (int64_t i = 0; i < tensor.numel(); ++i) // 53 bits, the same with every library
                    data[i] = static_cast<float>(
                        bound * (2 * static_cast<double>(random() >> 11) / 9007199254740992.0 - 1));
            }
            layer.push_back(padded(tensor, weight).contiguous());
        }
    }
    return std::make_unique<TokenGate>(kind, width, std::move(settings), std::move(layers));
}

at::Tensor TokenGate::scores(int64_t layer, const GateInputs& in, const GateMath& math) const {
    return m_kind.scores(m_weights[static_cast<size_t>(layer)], m_settings, in, math);
}

at::Tensor TokenGate::together(int64_t layer, const at::Tensor& rows, const GateMath& math) const {
    if (m_kind.together == nullptr) return rows;
    return m_kind.together(m_weights[static_cast<size_t>(layer)], m_settings, rows, math);
}

at::Tensor TokenGate::soft_tokens() const {
    RL_ASSERT(m_kind.soft_tokens != nullptr);
    return m_kind.soft_tokens(m_weights.front());
}

at::Tensor TokenGate::change(int64_t layer, Projection place, const at::Tensor& x,
                             const GateMath& math) const {
    RL_ASSERT(m_kind.change != nullptr);
    return m_kind.change(m_weights[static_cast<size_t>(layer)], place, x, math);
}

std::shared_ptr<const TokenGate> TokenGate::on(at::Device device) const {
    auto weights = m_weights;
    for (auto& layer : weights)
        for (at::Tensor& tensor : layer)
            tensor = tensor.to(device);
    return std::make_shared<TokenGate>(m_kind, m_width, m_settings, std::move(weights));
}

} // namespace refreshlab
