#include "engine/model/forward/rope_table.h"

#include "engine/base/check.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace refreshlab {

namespace {

/// YaRN: how much of pair i's own frequency stays, 0 to 1; the rest is divided by the factor. Pairs that turn more than beta_fast times
/// within the original context keep theirs, those below beta_slow turns are stretched, between the two a ramp.
float own_share(const ModelConfig& config, int64_t i) {
    const RopeScaling& scaling = config.rope_scaling;
    const auto dim = static_cast<double>(config.rotary());
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
    const float ramp = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    return 1 - std::clamp(ramp, 0.0F, 1.0F);
}

/// The theta of a context beyond the original one under dynamic (NTK) scaling.
double stretched_theta(const ModelConfig& config, int64_t context) {
    const RopeScaling& scaling = config.rope_scaling;
    const auto dim = static_cast<double>(config.rotary()),
               original = static_cast<double>(scaling.original_max_position);
    if (static_cast<double>(context) <= original || dim <= 2) return config.rope_theta;
    const double stretch = scaling.factor * static_cast<double>(context) / original - (scaling.factor - 1);
    return config.rope_theta * std::pow(stretch, dim / (dim - 2));
}

/// theta^(2i / dim): exponent and power are rounded to fp32, as a tensor of PyTorch has them.
float power_of(double theta, int64_t i, int64_t dim) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    return static_cast<float>(
        std::pow(static_cast<double>(static_cast<float>(theta)), static_cast<double>(exponent)));
}

/// Llama 3.1: long waves (seen less than low_freq_factor times in the original context) are stretched by the factor, short ones are left
/// alone, those between are blended.
float llama3_frequency(const RopeScaling& scaling, float frequency) {
    const auto factor = static_cast<float>(scaling.factor);
    const auto original = static_cast<double>(scaling.original_max_position);
    const float wave = static_cast<float>(2.0 * std::numbers::pi) / frequency;
    if (wave > static_cast<float>(original / scaling.low_freq_factor)) return frequency / factor;
    if (wave < static_cast<float>(original / scaling.high_freq_factor)) return frequency;
    const float smooth = (static_cast<float>(original) / wave - static_cast<float>(scaling.low_freq_factor)) /
                         static_cast<float>(scaling.high_freq_factor - scaling.low_freq_factor);
    return (1 - smooth) * frequency / factor + smooth * frequency;
}

/// What the frequencies depend on, of a context.
int64_t class_of(const ModelConfig& config, Rope rope, int64_t context) {
    const RopeScaling& scaling = config.rope_scaling;
    if (rope != Rope::global || !scaling.by_context() || context <= scaling.original_max_position) return 0;
    return scaling.kind == RopeScaling::Kind::longrope ? scaling.original_max_position + 1 : context;
}

} // namespace

std::vector<float> rope_frequencies(const ModelConfig& config, int64_t context, bool local) {
    const RopeScaling unscaled;
    const RopeScaling& scaling = local ? unscaled : config.rope_scaling;
    using Kind = RopeScaling::Kind;
    const bool beyond = context > scaling.original_max_position;
    const double theta = local                           ? config.local_rope_theta
                         : scaling.kind == Kind::dynamic ? stretched_theta(config, context)
                                                         : config.rope_theta;
    const std::vector<float>& factors =
        scaling.kind == Kind::longrope && beyond ? scaling.long_factors : scaling.factors;
    const auto factor = static_cast<float>(scaling.factor);
    std::vector<float> result;
    for (int64_t i = 0; i < config.rotary() / 2; ++i) {
        const float power = power_of(theta, i, config.rotary());
        float frequency = 1 / power;
        if (scaling.kind == Kind::linear) {
            frequency /= factor;
        } else if (scaling.kind == Kind::llama3) {
            frequency = llama3_frequency(scaling, frequency);
        } else if (scaling.kind == Kind::yarn) {
            const float own = own_share(config, i);
            frequency = 1 / (factor * power) * (1 - own) + frequency * own;
        } else if (scaling.kind == Kind::factors || scaling.kind == Kind::longrope) {
            frequency = 1 / (factors.at(static_cast<size_t>(i)) * power);
        }
        result.push_back(frequency);
    }
    return result;
}

RopeTable::RopeTable(const ModelConfig& config, at::Device device)
    : m_config(config)
    , m_device(device) {}

std::pair<at::Tensor, at::Tensor> RopeTable::rows(Rope rope, int64_t context, int64_t first_pos, int64_t n) {
    RL_ASSERT(first_pos >= 0 && n > 0 && m_config.head_dim > 0);
    Table& table = m_tables[{rope, class_of(m_config, rope, context)}];
    if (table.frequencies.empty()) {
        table.frequencies = rope_frequencies(m_config, context, rope == Rope::local);
        if (rope == Rope::still) std::ranges::fill(table.frequencies, 0.0F);
        if (rope == Rope::global) table.size = static_cast<float>(m_config.rope_scaling.attention_factor);
    }
    if (!table.cos.defined() || first_pos + n > table.cos.size(0)) grow(table, first_pos + n);
    return {table.cos.narrow(0, first_pos, n), table.sin.narrow(0, first_pos, n)};
}

void RopeTable::grow(Table& table, int64_t positions) const {
    constexpr int64_t first_size = 1024;
    const int64_t old_size = table.cos.defined() ? table.cos.size(0) : 0;
    const int64_t new_size = std::max({first_size, positions, 2 * old_size});
    const auto pairs = static_cast<int64_t>(table.frequencies.size());
    const auto options = at::TensorOptions().dtype(at::kFloat);
    const at::Tensor cos = at::empty({new_size, pairs}, options);
    const at::Tensor sin = at::empty({new_size, pairs}, options);
    auto* cos_out = cos.mutable_data_ptr<float>();
    auto* sin_out = sin.mutable_data_ptr<float>();
    for (int64_t p = 0; p < new_size; ++p) {
        for (int64_t i = 0; i < pairs; ++i) {
            const float angle = static_cast<float>(p) * table.frequencies[static_cast<size_t>(i)];
            cos_out[p * pairs + i] = table.size * static_cast<float>(std::cos(static_cast<double>(angle)));
            sin_out[p * pairs + i] = table.size * static_cast<float>(std::sin(static_cast<double>(angle)));
        }
    }
    table.cos = cos.to(m_device);
    table.sin = sin.to(m_device);
}

} // namespace refreshlab
