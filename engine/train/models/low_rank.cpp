#include "engine/train/models/low_rank.h"

#include "engine/base/check.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace refreshlab {

namespace {

constexpr std::array<std::string_view, num_projections> names{"q", "k", "v", "o", "gate", "up", "down"};

} // namespace

std::string_view to_string(Projection place) {
    return names[static_cast<size_t>(place)];
}

std::optional<Projection> projection_of(const WeightPlace& place) {
    if (place.layer < 0 || place.part == WeightPlace::Part::other) return std::nullopt;
    for (size_t i = 0; i < num_projections; ++i)
        if (place.name.ends_with(fmt::format(".{}_proj.weight", names[i]))) return static_cast<Projection>(i);
    return std::nullopt;
}

LowRankUpdates::LowRankUpdates(const ModelConfig& config, const LlamaWeights& weights, const LowRank& how,
                               uint64_t seed)
    : m_scale(how.alpha / static_cast<double>(how.rank)) {
    RL_ASSERT(how.rank > 0);
    at::Generator random = at::detail::createCPUGenerator(seed);
    weights.visit(config, [&](const WeightPlace& place, const at::Tensor& weight) {
        const auto map = projection_of(place);
        if (!map || std::ranges::find(how.places, *map) == how.places.end()) return;
        const LlamaLayer& layer = weights.layers[static_cast<size_t>(place.layer)];
        if (place.part == WeightPlace::Part::attention ? !layer.attends : !layer.has_mlp) return;
        at::Tensor a = at::zeros({how.rank, place.held[1]}, at::kFloat);
        const double most = 1 / std::sqrt(static_cast<double>(place.stored[1]));
        a.narrow(1, 0, place.stored[1]).uniform_(-most, most, random); // padding stays zero
        m_updates.emplace(
            std::pair(place.layer, *map),
            Update{a.to(weight.device()), at::zeros({place.held[0], how.rank}, weight.options()), place});
    });
}

std::vector<at::Tensor> LowRankUpdates::matrices() const {
    std::vector<at::Tensor> all;
    for (const auto& [key, update] : m_updates) {
        all.push_back(update.a);
        all.push_back(update.b);
    }
    return all;
}

at::Tensor LowRankUpdates::added(int64_t layer, Projection place, const at::Tensor& rows) const {
    const auto found = m_updates.find({layer, place});
    if (found == m_updates.end()) return {};
    return at::linear(at::linear(rows, found->second.a), found->second.b) * m_scale;
}

at::Tensor LowRankUpdates::change(const WeightPlace& place) const {
    const auto map = projection_of(place);
    const auto found = map ? m_updates.find({place.layer, *map}) : m_updates.end();
    if (found == m_updates.end()) return {};
    return at::matmul(found->second.b, found->second.a) * m_scale;
}

std::vector<NamedTensor> LowRankUpdates::named() const {
    std::vector<NamedTensor> all;
    for (const auto& [key, update] : m_updates) {
        const std::string stem =
            "base_model.model." +
            update.place.name.substr(0, update.place.name.size() - std::string(".weight").size());
        all.push_back(
            {stem + ".lora_A.weight", update.a.detach().narrow(1, 0, update.place.stored[1]).contiguous()});
        all.push_back(
            {stem + ".lora_B.weight", update.b.detach().narrow(0, 0, update.place.stored[0]).contiguous()});
    }
    return all;
}

} // namespace refreshlab
