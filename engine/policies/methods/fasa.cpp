// FASA (frequency-aware sparse attention): everything stays; a step reads the entries that its query matches best in a few pairs of
// channels, those that RoPE turns with frequencies that say most about the whole product.
//   partial[i][j] = part of q.k_j that frequency pair i has: two channels, which RoPE turns together
//   profile, per layer and query head: of pair i the mean overlap of the k entries with the largest partial[i] and of those with the
//            largest q.k, over queries; the best `pairs` pairs are the head's
//   step:    score[j] = sum of partial[i][j] over the head's pairs, maximum of the group; the best `budget` entries are read, the newest
//            among them. The first layers read everything
// Ours: the profile is that of the prompt's last queries, so that no file is needed; k is the budget, and half of what the first of them sees at most.
// Per query head in the released code, which also pairs channels 2i and 2i + 1 (channel_pairs).
// Source: reference/cache-definitions.md, section 6; Wang et al. 2026 (FASA).
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace refreshlab {

namespace {

class Fasa final : public CacheMethodBase<Fasa> {
public:
    Fasa(const CacheValues& values, const PolicyContext& context)
        : m_budget(values.whole("budget"))
        , m_num_pairs(std::min(values.whole("pairs"), context.head_dim / 2))
        , m_dense_layers(values.whole("dense_layers"))
        , m_profile_queries(values.whole("profile_queries"))
        , m_neighbours(values.whole("channel_pairs") == 1)
        , m_context(context)
        , m_pairs(static_cast<size_t>(context.layers * context.heads)) {}

    [[nodiscard]] PolicyNeeds needs() const override {
        return {.edits = false, .prompt_queries = m_profile_queries, .query = true};
    }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        if (view.layer < m_dense_layers) return;
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            const std::vector<float> keys = cache.keys(view.layer, head, cache.held(view.layer, head));
            for (int64_t q = head * m_context.group(); q < (head + 1) * m_context.group(); ++q)
                m_pairs[static_cast<size_t>(view.layer * m_context.heads + q)] = best_pairs(view, q, keys);
        }
    }

    const HeadPositions* before_attention(const StepView& view, CacheEditor& cache) override {
        if (view.layer < m_dense_layers || view.position < m_budget) return nullptr;
        m_chosen.assign(static_cast<size_t>(m_context.kv_heads), {});
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            const auto held = cache.held(view.layer, head);
            const std::vector<float> keys = cache.keys(view.layer, head, held);
            std::vector<std::vector<float>> all;
            for (int64_t q = head * m_context.group(); q < (head + 1) * m_context.group(); ++q)
                all.push_back(score(view.query.row(0, q), keys,
                                    m_pairs[static_cast<size_t>(view.layer * m_context.heads + q)]));
            const std::vector<std::span<const float>> heads(all.begin(), all.end());
            std::vector<float> scores = cache_scores::reduce_group(heads, cache_scores::Group::max);
            if (cache.wants_scores()) cache.score(view.layer, head, held, scores);
            scores.back() = std::numeric_limits<float>::infinity(); // the newest, within the budget
            for (const int64_t i : cache_scores::top(scores, m_budget))
                m_chosen[static_cast<size_t>(head)].push_back(held[static_cast<size_t>(i)]);
        }
        return &m_chosen;
    }

    void set_values(const CacheValues& values) override { m_budget = values.whole("budget"); }

private:
    /// What pair i adds to the product of two rows.
    [[nodiscard]] float part(const float* q, const float* k, int64_t pair) const {
        const int64_t first = m_neighbours ? 2 * pair : pair;
        const int64_t second = m_neighbours ? first + 1 : pair + m_context.head_dim / 2;
        return q[first] * k[first] + q[second] * k[second];
    }
    /// Of each key.
    [[nodiscard]] std::vector<float> score(std::span<const float> q, std::span<const float> keys,
                                           std::span<const int64_t> pairs) const {
        std::vector<float> scores;
        for (size_t at = 0; at < keys.size(); at += q.size()) {
            float sum = 0;
            for (const int64_t pair : pairs)
                sum += part(q.data(), keys.data() + at, pair);
            scores.push_back(sum);
        }
        return scores;
    }

    /// The profile of a query head.
    [[nodiscard]] std::vector<int64_t> best_pairs(const PromptView& view, int64_t head,
                                                  const std::vector<float>& keys) const {
        std::vector<int64_t> all;
        for (int64_t pair = 0; pair < m_context.head_dim / 2; ++pair)
            all.push_back(pair);
        const int64_t first_sees = view.length - view.queries.n0 + 1;
        const int64_t k = std::min(m_budget, std::max<int64_t>(first_sees / 2, 1));
        std::vector<float> overlap(all.size(), 0); // counts: ties are ties
        for (int64_t r = 0; r < view.queries.n0; ++r) {
            const auto q = view.queries.row(r, head);
            const auto seen =
                std::span(keys).first(static_cast<size_t>((first_sees + r) * m_context.head_dim));
            const std::vector<int64_t> best = cache_scores::top(score(q, seen, all), k);
            for (const int64_t pair : all) {
                std::vector<int64_t> both;
                std::ranges::set_intersection(best, cache_scores::top(score(q, seen, {&pair, 1}), k),
                                              std::back_inserter(both));
                overlap[static_cast<size_t>(pair)] += static_cast<float>(both.size());
            }
        }
        return cache_scores::top(overlap, m_num_pairs);
    }

    int64_t m_budget, m_num_pairs, m_dense_layers, m_profile_queries;
    bool m_neighbours;
    PolicyContext m_context;
    std::vector<std::vector<int64_t>> m_pairs; ///< [layers * heads], ascending
    HeadPositions m_chosen;
};

} // namespace

CacheMethod cache_method_list::fasa() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "fasa";
    method.label = "FASA";
    method.summary =
        "Everything stays; a step reads the entries that match its query in the few frequencies that "
        "say most.";
    method.cost =
        "stores n entries, reads `budget` of them; a step looks at `pairs` pairs of channels of all "
        "keys, the prompt's end at all of them, `profile_queries` times";
    method.source = "Wang et al. 2026 (FASA)";
    CacheParameter dense = dense_layers();
    dense.fallback = 1;
    method.parameters = {live(budget(256)),
                         whole("pairs", "Frequency pairs", "pairs",
                               "Pairs of channels that a query head is compared in.", 1, 1024, 16),
                         dense, profile_queries(8),
                         choice("channel_pairs", "Channel pairs",
                                "halves: a channel and the one half a head further, as RoPE turns them; "
                                "neighbours: 2i and 2i + 1 "
                                "(released code).",
                                {"halves", "neighbours"}, 0)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<Fasa>(values, context);
    };
    return method;
}

} // namespace refreshlab
