#include "engine/model/sampler.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "kernels/shared/philox.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace refreshlab {

namespace {

/// Site of the sampler in Philox's counter (kernels/shared/philox.h); the dropout sites count from 0.
constexpr uint32_t sampler_site = 15;

/// One number of [0, 1) per (seed, position), 53 bits.
double uniform(uint64_t seed, int64_t position) {
    const auto place = static_cast<uint64_t>(position);
    const kernels::shared::Philox4 bits =
        kernels::shared::philox4x32({{0, static_cast<uint32_t>(place >> 32), static_cast<uint32_t>(place),
                                      kernels::shared::mask_tag(sampler_site, 0, 0)}},
                                    static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
    const uint64_t word = (static_cast<uint64_t>(bits.word[1]) << 32) | bits.word[0];
    constexpr double step = 1.0 / 9007199254740992.0; // 2^-53
    return static_cast<double>(word >> 11) * step;
}

/// A token that may be drawn and its unnormalised probability exp((z - max z) / temperature).
struct Candidate {
    double weight;
    int32_t id;
};

/// More likely first, ties to the lower id.
bool before(const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

/// Keeps what the filters let through, in the order of transformers: top-k, top-p over what is left, min-p. Each keeps
/// a head of the list sorted by `before`, so the list is popped from a heap only as far as it is kept.
void filter(std::vector<Candidate>& candidates, const SamplerConfig& sampler) {
    if (sampler.top_k > 0 && static_cast<size_t>(sampler.top_k) < candidates.size()) {
        std::nth_element(candidates.begin(), candidates.begin() + sampler.top_k, candidates.end(), before);
        candidates.resize(static_cast<size_t>(sampler.top_k));
    }
    const bool top_p = sampler.top_p < 1.0;
    if (!top_p && sampler.min_p <= 0.0) return;
    double total = 0;
    for (const Candidate& c : candidates)
        total += c.weight;

    const auto after = [](const Candidate& a, const Candidate& b) { return before(b, a); };
    std::make_heap(candidates.begin(), candidates.end(), after);
    std::vector<Candidate> kept;
    auto heap_end = candidates.end();
    double mass = 0;
    while (heap_end != candidates.begin()) {
        const Candidate& next = candidates.front();
        const bool enough = top_p && mass >= sampler.top_p * total;
        const bool unlikely = !kept.empty() && next.weight < sampler.min_p * kept.front().weight;
        if (!kept.empty() && (enough || unlikely)) break;
        mass += next.weight;
        kept.push_back(next);
        std::pop_heap(candidates.begin(), heap_end, after);
        --heap_end;
    }
    candidates = std::move(kept);
}

/// A row of logits on the CPU, its arg max and normaliser.
struct RawRow {
    RawRow(const at::Tensor& row, const kernels::RowStatistics* statistics)
        : copy(row.to(at::TensorOptions().device(at::kCPU).dtype(at::kFloat)).contiguous())
        , z(copy.const_data_ptr<float>())
        , vocab(copy.size(0)) {
        RL_ASSERT(row.dim() == 1 && vocab > 0);
        // Statistics of a row with a NaN or an infinity have no arg max.
        if (statistics != nullptr && statistics->finite) best = statistics->top1_id;
        for (int64_t i = 0; i < vocab && (statistics == nullptr || !statistics->finite); ++i) {
            if (!std::isnan(z[i]) && (best < 0 || z[i] > z[best])) best = i; // NaN is never chosen
        }
        if (best < 0 || std::isinf(z[best])) {
            throw Error("choosing a token", {}, "the model's logits are not finite numbers",
                        "is the checkpoint damaged, or f16 too narrow for it?", ErrorKind::failure);
        }
        top = static_cast<double>(z[best]);
        for (int64_t i = 0; i < vocab; ++i) {
            if (!std::isnan(z[i])) total += std::exp(static_cast<double>(z[i]) - top);
        }
    }
    [[nodiscard]] Choice choice(int64_t id) const {
        return {static_cast<int32_t>(id), static_cast<double>(z[id]) - top - std::log(total),
                static_cast<int32_t>(best)};
    }

    at::Tensor copy;
    const float* z;
    int64_t vocab, best = -1;
    double top = 0, total = 0;
};

} // namespace

Choice given_token(const at::Tensor& row, int32_t token, const kernels::RowStatistics* statistics) {
    const RawRow raw(row, statistics);
    RL_ASSERT(token >= 0 && token < raw.vocab);
    return raw.choice(token);
}

Choice choose_token(const at::Tensor& row, const SamplerConfig& sampler, uint64_t seed, int64_t position,
                    const kernels::RowStatistics* statistics) {
    RL_ASSERT(position >= 0);
    const RawRow raw(row, statistics);
    if (sampler.temperature <= 0.0) return raw.choice(raw.best);

    std::vector<Candidate> candidates;
    candidates.reserve(static_cast<size_t>(raw.vocab));
    for (int64_t i = 0; i < raw.vocab; ++i) {
        if (std::isnan(raw.z[i])) continue;
        candidates.push_back({std::exp((static_cast<double>(raw.z[i]) - raw.top) / sampler.temperature),
                              static_cast<int32_t>(i)});
    }
    filter(candidates, sampler);
    // Ids ascending: filters that happen to keep everything then give the very draw that no filter gives.
    const auto by_id = [](const Candidate& a, const Candidate& b) { return a.id < b.id; };
    if (!std::is_sorted(candidates.begin(), candidates.end(), by_id)) {
        std::sort(candidates.begin(), candidates.end(), by_id);
    }
    double mass = 0;
    for (const Candidate& c : candidates)
        mass += c.weight;
    const double target = uniform(seed, position) * mass;
    double reached = 0;
    int32_t drawn = candidates.front().id;
    for (const Candidate& c : candidates) {
        if (c.weight <= 0.0) continue; // underflow or -inf: never drawn, not even by a rounding of the sum
        drawn = c.id;
        reached += c.weight;
        if (reached > target) break;
    }
    return raw.choice(drawn);
}

} // namespace refreshlab
