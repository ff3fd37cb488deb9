// What a derivation asks of a model, and what it costs.
#include "engine/base/error.h"
#include "engine/control/derive/derive_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab {

namespace {

constexpr int64_t plain_bytes = 2; ///< of an element that is not rounded, and of a scale or minimum

std::optional<DeriveFault> range_fault(const DeriveSpec& spec) {
    const auto fault = [](const char* field, std::string problem) {
        return std::optional(DeriveFault{field, std::move(problem)});
    };
    const auto whole = [&](const char* field, int64_t value, int64_t min, int64_t max) {
        return fault(field, fmt::format("must be a whole number from {} to {}, not {}", min, max, value));
    };
    if (spec.bits != 0 && (spec.bits < DeriveSpec::min_bits || spec.bits > DeriveSpec::max_bits))
        return whole("bits", spec.bits, DeriveSpec::min_bits, DeriveSpec::max_bits);
    if (spec.group < 1 || spec.group > DeriveSpec::max_group)
        return whole("group", spec.group, 1, DeriveSpec::max_group);
    if (!(spec.ffn > 0) || spec.ffn > 1)
        return fault("ffn", fmt::format("must be larger than 0 and at most 1, not {}", spec.ffn));
    if (!(spec.noise >= 0) || spec.noise > DeriveSpec::max_noise)
        return fault("noise",
                     fmt::format("must be a number from 0 to {}, not {}", DeriveSpec::max_noise, spec.noise));
    if (spec.skip_auto < 0 || spec.skip_auto > DeriveSpec::max_skips)
        return whole("skip_auto", spec.skip_auto, 0, DeriveSpec::max_skips);
    if (spec.bits == 0 && spec.group != DeriveSpec{}.group)
        return fault("group", "has no effect without bits");
    if (spec.bits == 0 && spec.symmetric) return fault("symmetric", "has no effect without bits");
    if (spec.bits == 0 && spec.noise == 0 && spec.only != DeriveSpec::Only::all)
        return fault("only", "has no effect without bits or noise");
    if (spec.noise == 0 && spec.seed != 0) return fault("seed", "has no effect without noise");
    if (!spec.text.empty() && !spec.measures())
        return fault("text", "has no effect without ffn or skip=auto:N");
    return std::nullopt;
}

std::optional<DeriveFault> layer_fault(const char* field, const std::vector<int32_t>& layers, int64_t count) {
    for (const int32_t layer : layers) {
        if (layer < 0 || layer >= count)
            return DeriveFault{
                field, fmt::format("layer {} is outside the teacher's layers 0 to {}", layer, count - 1)};
    }
    return std::nullopt;
}

std::optional<DeriveFault> group_fault(const DeriveSpec& spec, const ModelShape& shape) {
    const auto of = [&](const char* matrix, int64_t inputs) -> std::optional<DeriveFault> {
        if (inputs % spec.group == 0) return std::nullopt;
        return DeriveFault{"group",
                           fmt::format("{} does not divide the {} inputs of {}", spec.group, inputs, matrix)};
    };
    if (spec.rounds_attention()) {
        if (auto fault = of("q_proj, k_proj and v_proj", shape.hidden)) return fault;
        if (auto fault = of("o_proj", shape.heads * shape.head_dim)) return fault;
    }
    if (spec.rounds_mlp()) {
        if (auto fault = of("gate_proj and up_proj", shape.hidden)) return fault;
        if (auto fault = of("down_proj", shape.intermediate)) return fault;
    }
    return std::nullopt;
}

bool contains(const std::vector<int32_t>& layers, int64_t layer) {
    return std::ranges::find(layers, layer) != layers.end();
}

} // namespace

std::optional<DeriveFault> derive_fault(const DeriveSpec& spec, const ModelShape* teacher) {
    if (auto fault = range_fault(spec)) return fault;
    if (teacher == nullptr) return std::nullopt;
    if (auto fault = layer_fault("skip_attention", spec.skip_attention, teacher->layers)) return fault;
    if (auto fault = layer_fault("skip_mlp", spec.skip_mlp, teacher->layers)) return fault;
    const auto named = static_cast<int64_t>(spec.skip_attention.size() + spec.skip_mlp.size());
    if (const int64_t left = 2 * teacher->layers - named; spec.skip_auto > left)
        return DeriveFault{"skip_auto",
                           fmt::format("{} sublayers are more than the {} that the teacher has{}",
                                       spec.skip_auto, left, named > 0 ? " besides those named" : "")};
    return spec.bits > 0 ? group_fault(spec, *teacher) : std::nullopt;
}

void check_derive(const DeriveSpec& spec, const ModelShape* teacher) {
    if (const auto fault = derive_fault(spec, teacher))
        throw Error("deriving a student", derivation_path(spec), fault->field + ": " + fault->problem);
}

int64_t kept_channels(const DeriveSpec& spec, int64_t intermediate) {
    if (spec.ffn >= 1) return intermediate;
    const int64_t unit = spec.rounds_mlp() ? spec.group : 1;
    const int64_t units = intermediate / unit;
    const auto wanted = static_cast<int64_t>(std::llround(spec.ffn * static_cast<double>(units)));
    return std::clamp<int64_t>(wanted, 1, std::max<int64_t>(units, 1)) * unit;
}

DeriveCost derive_cost(const DeriveSpec& spec, const ModelShape& teacher, int64_t element_bytes) {
    const int64_t q = teacher.heads * teacher.head_dim * teacher.hidden;
    const int64_t kv = 2 * teacher.kv_heads * teacher.head_dim * teacher.hidden;
    const int64_t kept = kept_channels(spec, teacher.intermediate);
    const auto plain = [](int64_t elements) { return elements * plain_bytes; };
    const auto rounded = [&](int64_t elements) {
        const int64_t numbers = spec.symmetric ? 1 : 2; // of a group: its scale, its minimum
        return elements * spec.bits / 8 + elements / spec.group * numbers * plain_bytes;
    };
    const auto attention = [&](int64_t elements) {
        return spec.rounds_attention() ? rounded(elements) : plain(elements);
    };
    const auto mlp = [&](int64_t elements) {
        return spec.rounds_mlp() ? rounded(elements) : plain(elements);
    };
    DeriveCost cost;
    const int64_t outside = plain(teacher.vocab * teacher.hidden + 2 * teacher.hidden); // head, a row, a norm
    cost.token_bytes = cost.teacher_token_bytes = outside;
    const bool touches_attention =
        spec.rounds_attention() || (spec.noise > 0 && spec.only != DeriveSpec::Only::mlp);
    const bool touches_mlp =
        spec.rounds_mlp() || spec.ffn < 1 || (spec.noise > 0 && spec.only != DeriveSpec::Only::attention);
    for (int64_t layer = 0; layer < teacher.layers; ++layer) {
        const bool attends = !contains(spec.skip_attention, layer);
        const bool has_mlp = !contains(spec.skip_mlp, layer);
        const int64_t own_mlp = 3 * kept * teacher.hidden;
        cost.teacher_token_bytes +=
            plain(2 * q + kv + 3 * teacher.intermediate * teacher.hidden + 2 * teacher.hidden);
        cost.token_bytes += attention(kv) + (attends ? attention(2 * q) : 0) + (has_mlp ? mlp(own_mlp) : 0) +
                            plain((has_mlp ? 2 : 1) * teacher.hidden);
        if (touches_attention) cost.own_bytes += (kv + (attends ? 2 * q : 0)) * element_bytes;
        if (touches_mlp && has_mlp) cost.own_bytes += own_mlp * element_bytes;
    }
    return cost;
}

} // namespace refreshlab
