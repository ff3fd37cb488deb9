#include "engine/model/sampler.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "kernels/ops/sampling_weights.h"
#include "kernels/shared/philox.h"

#include <ATen/ops/nan_to_num.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace refreshlab {

namespace {

/// A token that may be drawn and its weight, exp((z - max z) / temperature).
struct Candidate {
    double weight;
    int32_t id;
};

/// More likely first, ties to the lower id.
bool before(const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

/// A row of logits on the host, its arg max and normaliser. NaN stands as minus infinity: it is never chosen.
class Row {
public:
    /// \param statistics  of this row; null: they are made here
    Row(const at::Tensor& row, const kernels::RowStatistics* statistics)
        : m_values(row.to(at::TensorOptions().device(at::kCPU).dtype(at::kFloat)).contiguous()) {
        RL_ASSERT(row.dim() == 1 && row.size(0) > 0);
        const kernels::RowStatistics of_row =
            statistics != nullptr ? *statistics : kernels::row_statistics(m_values.unsqueeze(0))[0];
        if (of_row.finite) {
            m_best = of_row.top1_id;
            m_top = static_cast<double>(logits()[static_cast<size_t>(m_best)]);
            m_log_z = of_row.log_z;
            return;
        }
        // Statistics of a row with a NaN or an infinity have no arg max.
        constexpr double infinity = std::numeric_limits<double>::infinity();
        m_values = at::nan_to_num(m_values, -infinity, infinity, -infinity);
        m_best = std::ranges::max_element(logits()) - logits().begin();
        m_top = static_cast<double>(logits()[static_cast<size_t>(m_best)]);
        if (std::isinf(m_top)) {
            throw Error("choosing a token", {}, "the model's logits are not finite numbers",
                        "is the checkpoint damaged, or f16 too narrow for it?", ErrorKind::failure);
        }
        m_log_z = m_top + std::log(total(1.0));
    }

    [[nodiscard]] int64_t best() const { return m_best; }
    [[nodiscard]] int64_t vocab() const { return m_values.numel(); }
    [[nodiscard]] Choice choice(int64_t id) const {
        return {static_cast<int32_t>(id), static_cast<double>(logits()[static_cast<size_t>(id)]) - m_log_z,
                static_cast<int32_t>(m_best)};
    }

    /// Sum of the weights of all tokens.
    [[nodiscard]] double total(double temperature) const {
        Weights weights;
        double sum = 0;
        for (size_t begin = 0; begin < logits().size(); begin += block)
            sum += weigh(begin, temperature, weights);
        return sum;
    }
    /// The k most likely tokens, in that order.
    [[nodiscard]] std::vector<Candidate> first(int64_t k, double temperature) const {
        return weighed(kernels::top_k(m_values, k).ids, temperature);
    }
    /// Tokens whose weight is `least` or more, and perhaps some just below it.
    [[nodiscard]] std::vector<Candidate> from(double least, double temperature) const {
        constexpr double slack = 1e-6; // of the fp32 floor beside a weight in double
        const double drop = std::log(least) * temperature;
        const double floor = m_top + drop - (std::abs(m_top) + std::abs(drop)) * slack;
        constexpr double lowest = std::numeric_limits<float>::lowest();
        std::vector<int32_t> ids;
        kernels::ids_from(logits(), static_cast<float>(std::max(floor, lowest)), ids);
        return weighed(ids, temperature);
    }
    /// Of all tokens by id. \param weights  [vocab]
    void weights(double temperature, std::span<double> weights) const {
        for (size_t begin = 0; begin < logits().size(); begin += block) {
            const size_t n = std::min(block, logits().size() - begin);
            kernels::sampling_weights(logits().subspan(begin, n), m_top, temperature,
                                      weights.subspan(begin, n));
        }
    }
    /// Walks over all tokens by id, to where the weights passed reach this share of their sum.
    [[nodiscard]] int32_t at_share(double share, double temperature) const {
        Weights weights;
        const double target = share * total(temperature);
        double reached = 0;
        int64_t drawn = m_best; // where rounding lets the walk end before the target
        for (size_t begin = 0; begin < logits().size(); begin += block) {
            const double sum = weigh(begin, temperature, weights);
            if (reached + sum <= target) {
                reached += sum;
                continue;
            }
            const size_t n = std::min(block, logits().size() - begin);
            for (size_t i = 0; i < n; ++i) {
                if (weights[i] <= 0.0) continue; // underflow or -inf: never drawn, not even by a rounding
                drawn = static_cast<int64_t>(begin + i);
                reached += weights[i];
                if (reached > target) return static_cast<int32_t>(drawn);
            }
        }
        return static_cast<int32_t>(drawn);
    }

private:
    static constexpr size_t block = 512;
    using Weights = std::array<double, block>;

    [[nodiscard]] std::span<const float> logits() const {
        return {m_values.const_data_ptr<float>(), static_cast<size_t>(m_values.numel())};
    }
    /// Weights of the tokens from `begin` on. \return their sum
    double weigh(size_t begin, double temperature, Weights& weights) const {
        const size_t n = std::min(block, logits().size() - begin);
        return kernels::sampling_weights(logits().subspan(begin, n), m_top, temperature,
                                         std::span(weights).first(n));
    }
    [[nodiscard]] std::vector<Candidate> weighed(std::span<const int32_t> ids, double temperature) const {
        std::vector<Candidate> result;
        result.reserve(ids.size());
        for (const int32_t id : ids) {
            const double d = static_cast<double>(logits()[static_cast<size_t>(id)]) - m_top;
            result.push_back({std::exp(d / temperature), id});
        }
        return result;
    }

    at::Tensor m_values;
    int64_t m_best = -1;
    double m_top = 0, m_log_z = 0;
};

/// Of a token that is settled: one number of the row is read, of the arg max none, so a device's row stays there. Nothing: the row has to be searched.
std::optional<Choice> settled(const at::Tensor& row, int64_t id, const kernels::RowStatistics* statistics) {
    if (statistics == nullptr || !statistics->finite) return std::nullopt;
    const double logit = id == statistics->top1_id ? statistics->top1_logit : row[id].item<double>();
    return Choice{static_cast<int32_t>(id), logit - statistics->log_z,
                  static_cast<int32_t>(statistics->top1_id)};
}

/// What top-p and min-p keep of candidates whose weights sum to `total` with those that are not among them: the most likely
/// ones. A heap is popped only as far as it is kept.
/// \return nothing where the candidates end before either filter is full
std::optional<std::vector<Candidate>> most_likely(std::vector<Candidate> candidates, double total,
                                                  const SamplerConfig& sampler) {
    const auto after = [](const Candidate& a, const Candidate& b) { return before(b, a); };
    std::make_heap(candidates.begin(), candidates.end(), after);
    std::vector<Candidate> kept;
    auto heap_end = candidates.end();
    double mass = 0;
    while (heap_end != candidates.begin()) {
        const Candidate& next = candidates.front();
        const bool enough = sampler.top_p < 1.0 && mass >= sampler.top_p * total;
        const bool unlikely = !kept.empty() && next.weight < sampler.min_p * kept.front().weight;
        if (!kept.empty() && (enough || unlikely)) return kept;
        mass += next.weight;
        kept.push_back(next);
        std::pop_heap(candidates.begin(), heap_end, after);
        --heap_end;
    }
    if (sampler.top_p < 1.0 && mass >= sampler.top_p * total) return kept;
    return std::nullopt;
}

/// top-k takes tokens away.
bool counts(int64_t vocab, const SamplerConfig& sampler) {
    return sampler.top_k > 0 && sampler.top_k < vocab;
}
/// Filters that look at weights may.
bool cuts_by_weight(const SamplerConfig& sampler) {
    return sampler.top_p < 1.0 || sampler.min_p > 0.0;
}
/// Some filter may.
bool cuts(int64_t vocab, const SamplerConfig& sampler) {
    return counts(vocab, sampler) || cuts_by_weight(sampler);
}

/// Sum of the candidates' weights, in their order.
double mass_of(const std::vector<Candidate>& candidates) {
    double mass = 0;
    for (const Candidate& c : candidates)
        mass += c.weight;
    return mass;
}

/// What the filters leave of the k most likely tokens, which stand in this order.
std::vector<Candidate> filtered_first(std::vector<Candidate> first, const SamplerConfig& sampler) {
    if (!cuts_by_weight(sampler)) return first;
    auto kept = most_likely(first, mass_of(first), sampler);
    return kept ? std::move(*kept) : std::move(first);
}

/// Keeps what the filters let through, in the order of transformers: top-k, top-p over what is left, min-p.
std::vector<Candidate> filtered(const Row& row, const SamplerConfig& sampler) {
    const double temperature = sampler.temperature;
    if (counts(row.vocab(), sampler)) return filtered_first(row.first(sampler.top_k, temperature), sampler);
    // The nucleus of a row is mostly a handful of tokens: look among the likely ones first.
    const double total = sampler.top_p < 1.0 ? row.total(temperature) : 0.0;
    for (const double least : {1e-3, 1e-7, 1e-300}) {
        const bool last = least < 1e-100 || least <= sampler.min_p;
        std::vector<Candidate> candidates = row.from(std::max(least, sampler.min_p), temperature);
        auto kept = most_likely(candidates, total, sampler);
        if (kept) return std::move(*kept);
        if (last) return candidates;
    }
    return {};
}

/// Walks over candidates by id, to where their weights reach this share of their sum.
int32_t drawn_of(std::vector<Candidate> candidates, double share) {
    // Ids ascending, as where nothing is filtered.
    std::ranges::sort(candidates, {}, &Candidate::id);
    const double target = share * mass_of(candidates);
    double reached = 0;
    int32_t drawn = candidates.front().id;
    for (const Candidate& c : candidates) {
        if (c.weight <= 0.0) continue; // underflow or -inf: never drawn, not even by a rounding of the sum
        drawn = c.id;
        reached += c.weight;
        if (reached > target) break;
    }
    return drawn;
}

} // namespace

double uniform_number(uint64_t seed, int64_t position, uint32_t attempt, Draw draw) {
    const auto place = static_cast<uint64_t>(position);
    // The dropout sites count from 0, those of draws end at 15.
    const uint32_t tag = kernels::shared::mask_tag(static_cast<uint32_t>(draw), 0, 0);
    const kernels::shared::Philox4 bits = kernels::shared::philox4x32(
        {{attempt, static_cast<uint32_t>(place >> 32), static_cast<uint32_t>(place), tag}},
        static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
    const uint64_t word = (static_cast<uint64_t>(bits.word[1]) << 32) | bits.word[0];
    constexpr double step = 1.0 / 9007199254740992.0; // 2^-53
    return static_cast<double>(word >> 11) * step;
}

std::vector<double> token_probabilities(const at::Tensor& logits, const SamplerConfig& sampler,
                                        const kernels::RowStatistics* statistics) {
    const Row row(logits, statistics);
    std::vector<double> p(static_cast<size_t>(row.vocab()), 0.0);
    if (sampler.temperature <= 0.0) {
        p[static_cast<size_t>(row.best())] = 1.0;
        return p;
    }
    if (cuts(row.vocab(), sampler)) {
        for (const Candidate& c : filtered(row, sampler))
            p[static_cast<size_t>(c.id)] = c.weight;
    } else {
        row.weights(sampler.temperature, p);
    }
    double total = 0;
    for (const double weight : p)
        total += weight;
    for (double& weight : p)
        weight /= total;
    return p;
}

Choice given_token(const at::Tensor& logits, int32_t token, const kernels::RowStatistics* statistics) {
    RL_ASSERT(logits.dim() == 1 && token >= 0 && token < logits.size(0));
    if (const auto choice = settled(logits, token, statistics)) return *choice;
    return Row(logits, statistics).choice(token);
}

Choice choose_token(const at::Tensor& logits, const SamplerConfig& sampler, uint64_t seed, int64_t position,
                    const kernels::RowStatistics* statistics, uint32_t attempt) {
    RL_ASSERT(position >= 0);
    if (sampler.temperature <= 0.0 && statistics != nullptr) {
        if (const auto choice = settled(logits, statistics->top1_id, statistics)) return *choice;
    }
    const Row row(logits, statistics);
    if (sampler.temperature <= 0.0) return row.choice(row.best());
    const double share = uniform_number(seed, position, attempt, Draw::token);
    if (!cuts(row.vocab(), sampler)) return row.choice(row.at_share(share, sampler.temperature));

    return row.choice(drawn_of(filtered(row, sampler), share));
}

std::optional<DrawNeeds> draw_needs(const SamplerConfig& sampler, int64_t vocab, int64_t most) {
    RL_ASSERT(sampler.temperature > 0.0);
    if (!cuts(vocab, sampler)) return DrawNeeds{.token = true};
    const int64_t keys = std::min(vocab, most);
    if (!counts(vocab, sampler)) return DrawNeeds{.keys = keys, .total = sampler.top_p < 1.0};
    if (sampler.top_k <= most) return DrawNeeds{.keys = sampler.top_k};
    // The share of more than that is unknown, but a floor may lie among those that are.
    if (sampler.top_p < 1.0 || sampler.min_p <= 0.0) return std::nullopt;
    return DrawNeeds{.keys = keys};
}

std::optional<Choice> choose_among(const KnownOfRow& row, const SamplerConfig& sampler, double share) {
    const kernels::TopK& largest = row.largest;
    RL_ASSERT(row.statistics.finite && !largest.ids.empty() && cuts(row.vocab, sampler));
    const double top = row.statistics.top1_logit;
    const auto count = static_cast<int64_t>(largest.ids.size());
    const int64_t wanted = counts(row.vocab, sampler) ? sampler.top_k : row.vocab;
    std::vector<Candidate> known;
    for (int64_t i = 0; i < std::min(count, wanted); ++i) {
        const auto at = static_cast<size_t>(i);
        known.push_back({std::exp((static_cast<double>(largest.logits[at]) - top) / sampler.temperature),
                         largest.ids[at]});
    }
    std::optional<std::vector<Candidate>> kept;
    if (counts(row.vocab, sampler) && count >= wanted) {
        kept = filtered_first(std::move(known), sampler);
    } else {
        const double least = known.back().weight;
        kept = most_likely(known, row.total, sampler);
        if (!kept && count >= wanted) kept = std::move(known);
        // A token of the least weight that is kept may tie with unknown ones: at high temperatures different logits have equal weights.
        if (!kept || (count < wanted && kept->back().weight <= least)) return std::nullopt;
    }
    const int32_t drawn = drawn_of(std::move(*kept), share);
    const auto at = std::ranges::find(largest.ids, drawn) - largest.ids.begin();
    return Choice{drawn, static_cast<double>(largest.logits[static_cast<size_t>(at)]) - row.statistics.log_z,
                  static_cast<int32_t>(row.statistics.top1_id)};
}

} // namespace refreshlab
