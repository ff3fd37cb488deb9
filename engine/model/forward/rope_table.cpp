#include "engine/model/forward/rope_table.h"

#include "engine/base/check.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace refreshlab {

namespace {

/// YaRN: how much of pair i's own frequency stays, 0 to 1; the rest is divided by the factor. Pairs that turn more than beta_fast times
/// within the original context keep theirs, those below beta_slow turns are stretched, between the two a ramp.
double own_share(const ModelConfig& config, int64_t i) {
    const RopeScaling& scaling = config.rope_scaling;
    const auto dim = static_cast<double>(config.head_dim);
    const auto pair_of = [&](double turns) {
        const double context = static_cast<double>(scaling.original_max_position);
        return dim * std::log(context / (turns * 2 * std::numbers::pi)) / (2 * std::log(config.rope_theta));
    };
    double low = pair_of(scaling.beta_fast), high = pair_of(scaling.beta_slow);
    if (scaling.truncate) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, dim - 1);
    if (low == high) high += 0.001;
    return 1 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
}

} // namespace

std::vector<float> rope_frequencies(const ModelConfig& config) {
    const RopeScaling& scaling = config.rope_scaling;
    const int64_t pairs = config.head_dim / 2;
    std::vector<float> result(static_cast<size_t>(pairs));
    for (int64_t i = 0; i < pairs; ++i) {
        const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim);
        double frequency = 1.0 / std::pow(config.rope_theta, exponent);
        if (scaling.kind == RopeScaling::Kind::linear) {
            frequency /= scaling.factor;
        } else if (scaling.kind == RopeScaling::Kind::llama3) {
            // Long waves (seen less than low_freq_factor times in the original context) are stretched by the factor,
            // short ones are left alone, those between are blended.
            const auto context = static_cast<double>(scaling.original_max_position);
            const double wave = 2.0 * std::numbers::pi / frequency;
            if (wave > context / scaling.low_freq_factor) {
                frequency /= scaling.factor;
            } else if (wave >= context / scaling.high_freq_factor) {
                const double smooth = (context / wave - scaling.low_freq_factor) /
                                      (scaling.high_freq_factor - scaling.low_freq_factor);
                frequency = (1.0 - smooth) * frequency / scaling.factor + smooth * frequency;
            }
        } else if (scaling.kind == RopeScaling::Kind::yarn) {
            const double own = own_share(config, i);
            frequency = own * frequency + (1 - own) * frequency / scaling.factor;
        } else if (scaling.kind == RopeScaling::Kind::factors) {
            frequency /= static_cast<double>(scaling.factors.at(static_cast<size_t>(i)));
        }
        result[static_cast<size_t>(i)] = static_cast<float>(frequency);
    }
    return result;
}

RopeTable::RopeTable(const ModelConfig& config, at::Device device)
    : m_frequencies(rope_frequencies(config))
    , m_layer_turns(config.layer_turns)
    , m_size(static_cast<float>(config.rope_scaling.attention_factor))
    , m_device(device) {}

RopeTable RopeTable::still(const ModelConfig& config, at::Device device) {
    RopeTable table(config, device);
    std::ranges::fill(table.m_frequencies, 0.0F);
    table.m_size = 1;
    return table;
}

std::pair<at::Tensor, at::Tensor> RopeTable::rows(int64_t first_pos, int64_t n) {
    RL_ASSERT(first_pos >= 0 && n > 0 && !m_frequencies.empty());
    if (!m_cos.defined() || first_pos + n > m_cos.size(0)) grow(first_pos + n);
    return {m_cos.narrow(0, first_pos, n), m_sin.narrow(0, first_pos, n)};
}

std::pair<at::Tensor, at::Tensor> RopeTable::rows_of(int64_t layer, int64_t first_pos, int64_t n) {
    if (turns(layer)) return rows(first_pos, n);
    const auto options = at::TensorOptions().dtype(at::kFloat).device(m_device);
    const auto pairs = static_cast<int64_t>(m_frequencies.size());
    return {at::ones({n, pairs}, options), at::zeros({n, pairs}, options)};
}

void RopeTable::grow(int64_t positions) {
    constexpr int64_t first_size = 1024;
    const int64_t old_size = m_cos.defined() ? m_cos.size(0) : 0;
    const int64_t new_size = std::max({first_size, positions, 2 * old_size});
    const auto pairs = static_cast<int64_t>(m_frequencies.size());
    const auto options = at::TensorOptions().dtype(at::kFloat);
    const at::Tensor cos = at::empty({new_size, pairs}, options);
    const at::Tensor sin = at::empty({new_size, pairs}, options);
    auto* cos_out = cos.mutable_data_ptr<float>();
    auto* sin_out = sin.mutable_data_ptr<float>();
    for (int64_t p = 0; p < new_size; ++p) {
        for (int64_t i = 0; i < pairs; ++i) {
            const float angle = static_cast<float>(p) * m_frequencies[static_cast<size_t>(i)];
            cos_out[p * pairs + i] = m_size * static_cast<float>(std::cos(static_cast<double>(angle)));
            sin_out[p * pairs + i] = m_size * static_cast<float>(std::sin(static_cast<double>(angle)));
        }
    }
    m_cos = cos.to(m_device);
    m_sin = sin.to(m_device);
}

} // namespace refreshlab
