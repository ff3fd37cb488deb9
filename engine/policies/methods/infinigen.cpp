// InfiniGen: everything stays; a step reads the entries that its query will match, guessed one layer early, so that they could be
// fetched from slow memory while the layer below still runs.
//   guess    q' = what the layer's queries would be if its input were that of the layer below, as that one normalises it (`own_norm`: as
//            the layer itself does; ours)
//   axes     orthonormal directions of a query head in which its queries are not correlated; the `channels` share of them with the
//            largest sum of |q| over the prompt's last queries is its own
//   score[j] = (q' on these axes) . (k_j on these axes) / sqrt(d), maximum of the group
//   count    keys with a score above the largest - `margin`; the mean over KV heads, `limit` of all at most. So many of each KV head with the
//            highest scores are read, and the newest entry. The first layers read everything
// Ours: axes are measured on the prompt's last queries, so that no file is needed. What is not read stays where it is: nothing is moved
// between memories.
// Source: reference/cache-definitions.md, section 6; Lee et al. 2024 (InfiniGen).
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/principal_axes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace refreshlab {

namespace {

class InfiniGen final : public CacheMethodBase<InfiniGen> {
public:
    InfiniGen(const CacheValues& values, const PolicyContext& context)
        : m_margin(values.real("margin"))
        , m_limit(values.real("limit"))
        , m_channels(std::max<int64_t>(
              std::llround(values.real("channels") * static_cast<double>(context.head_dim)), 1))
        , m_dense_layers(values.whole("dense_layers"))
        , m_profile_queries(values.whole("profile_queries"))
        , m_turned(values.flag("turned"))
        , m_own_norm(values.flag("own_norm"))
        , m_context(context)
        , m_axes(static_cast<size_t>(context.layers * context.heads)) {}

    [[nodiscard]] PolicyNeeds needs() const override {
        return {.edits = false,
                .prompt_queries = m_profile_queries,
                .guessed_query = true,
                .guess_own_norm = m_own_norm};
    }

    void read_prompt(const PromptView& view, CacheEditor&) override {
        if (view.layer < m_dense_layers) return;
        for (int64_t head = 0; head < m_context.heads; ++head) {
            std::vector<float> queries;
            for (int64_t r = 0; r < view.queries.n0; ++r) {
                const auto row = view.queries.row(r, head);
                queries.insert(queries.end(), row.begin(), row.end());
            }
            m_axes[static_cast<size_t>(view.layer * m_context.heads + head)] = best_axes(queries);
        }
    }

    const HeadPositions* before_attention(const StepView& view, CacheEditor& cache) override {
        if (view.layer < m_dense_layers || view.guessed_query.data == nullptr) return nullptr;
        std::vector<std::vector<float>> scores; // of each KV head
        int64_t above = 0;
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            scores.push_back(score(view, head, cache));
            const float least = std::ranges::max(scores.back()) - static_cast<float>(m_margin);
            above += std::ranges::count_if(scores.back(), [least](float s) { return s >= least; });
        }
        const auto entries = static_cast<double>(scores.front().size());
        const int64_t most = std::max<int64_t>(static_cast<int64_t>(m_limit * entries), 1);
        const int64_t count = std::clamp<int64_t>(above / m_context.kv_heads, 1, most);
        m_chosen.assign(static_cast<size_t>(m_context.kv_heads), {});
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            const auto held = cache.held(view.layer, head);
            auto& chosen = m_chosen[static_cast<size_t>(head)];
            for (const int64_t i : cache_scores::top(scores[static_cast<size_t>(head)], count))
                chosen.push_back(held[static_cast<size_t>(i)]);
            chosen.push_back(view.position);
        }
        return &m_chosen;
    }

    void set_values(const CacheValues& values) override {
        m_margin = values.real("margin");
        m_limit = values.real("limit");
    }

private:
    /// Of the entries behind the newest.
    [[nodiscard]] std::vector<float> score(const StepView& view, int64_t kv_head, CacheEditor& cache) const {
        const auto held = cache.held(view.layer, kv_head);
        const auto older = held.first(held.size() - 1);
        const std::vector<float> keys = cache.keys(view.layer, kv_head, older);
        const float scale = 1 / std::sqrt(static_cast<float>(m_context.head_dim));
        std::vector<std::vector<float>> all;
        for (int64_t q = kv_head * m_context.group(); q < (kv_head + 1) * m_context.group(); ++q) {
            const std::vector<float> query = on_axes(
                view.guessed_query.row(0, q), m_axes[static_cast<size_t>(view.layer * m_context.heads + q)]);
            std::vector<float>& of_head = all.emplace_back();
            for (auto key = keys.begin(); key != keys.end(); key += m_context.head_dim)
                of_head.push_back(scale * std::inner_product(query.begin(), query.end(), key, 0.0F));
        }
        const std::vector<std::span<const float>> heads(all.begin(), all.end());
        std::vector<float> scores = cache_scores::reduce_group(heads, cache_scores::Group::max);
        if (cache.wants_scores()) cache.score(view.layer, kv_head, older, scores);
        return scores;
    }

    /// The part of a query that lies on axes: its product with a key is that of both on these axes.
    /// \param axes  [n, head_dim]; empty: all
    [[nodiscard]] std::vector<float> on_axes(std::span<const float> query,
                                             std::span<const float> axes) const {
        if (axes.empty()) return {query.begin(), query.end()};
        std::vector<float> part(query.size(), 0);
        for (; !axes.empty(); axes = axes.subspan(query.size())) {
            const float along = std::inner_product(query.begin(), query.end(), axes.begin(), 0.0F);
            for (size_t c = 0; c < query.size(); ++c)
                part[c] += along * axes[c];
        }
        return part;
    }

    /// Those on which the queries are largest, [channels, head_dim]; empty where that is all of them. \param queries  [n, head_dim]
    [[nodiscard]] std::vector<float> best_axes(std::span<const float> queries) const {
        const int64_t d = m_context.head_dim;
        if (m_channels >= d) return {};
        std::vector<float> axes;
        if (m_turned) {
            axes = principal_axes(queries, d);
        } else {
            axes.assign(static_cast<size_t>(d * d), 0);
            for (int64_t c = 0; c < d; ++c)
                axes[static_cast<size_t>(c * d + c)] = 1;
        }
        std::vector<float> sums(static_cast<size_t>(d), 0), best;
        for (int64_t axis = 0; axis < d; ++axis)
            for (auto query = queries.begin(); query != queries.end(); query += d)
                sums[static_cast<size_t>(axis)] +=
                    std::abs(std::inner_product(query, query + d, axes.begin() + axis * d, 0.0F));
        for (const int64_t axis : cache_scores::top(sums, m_channels))
            best.insert(best.end(), axes.begin() + axis * d, axes.begin() + (axis + 1) * d);
        return best;
    }

    double m_margin, m_limit;
    int64_t m_channels, m_dense_layers, m_profile_queries;
    bool m_turned, m_own_norm;
    PolicyContext m_context;
    std::vector<std::vector<float>> m_axes; ///< [layers * heads]: [channels, head_dim]; empty: all
    HeadPositions m_chosen;
};

} // namespace

CacheMethod cache_method_list::infinigen() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "infinigen";
    method.label = "InfiniGen";
    method.summary = "Everything stays; a step reads the entries that its query will match, guessed from the "
                     "layer below.";
    method.cost = "stores n entries, reads `limit` of them at most; a step looks at all keys, and projects "
                  "queries twice";
    method.source = "Lee et al. 2024 (InfiniGen)";
    CacheParameter dense = dense_layers();
    dense.fallback = 1;
    CacheParameter margin =
        live(real("margin", "Margin", "logits",
                  "Entries are read whose score is not further below the best one.", 0, 1e6, 4));
    margin.slider_max = 16;
    method.parameters = {
        margin,
        live(real("limit", "Limit", "", "The part of all entries that is read at most.", 0, 1, 0.2)),
        real("channels", "Channels", "", "The part of a head's directions in which entries are compared.", 0,
             1, 0.2),
        dense,
        profile_queries(64),
        flag("turned", "Turned",
             "Directions are the principal ones of a head's queries; off: channels as they are.", true),
        flag("own_norm", "Own norm",
             "The guess is normalised as its layer does it; off (published): as the layer below does, whose "
             "input it is.",
             false)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<InfiniGen>(values, context);
    };
    return method;
}

} // namespace refreshlab
