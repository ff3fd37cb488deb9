// MPCache: a prompt's entries leave that nobody looks at; of the rest a step reads those clusters that its query could match, found
// coarsely first.
//   prompt: with A = rows of the last fifth of the prompt's queries (a tenth above 24,000 tokens), mean of all query heads, entry j stays
//           if any row gives it theta or more; the newest entry stays. One set for a layer
//   step:   clusters of `cluster` and of twice as many neighbours among what is held, with the largest and smallest value of each key
//           channel; sim = sum_c q_c (0.6 max_c + 0.4 min_c), maximum of the group
//           coarse: the best floor(coarse_share * all) of the large clusters, and the first and the last one
//           fine: within them the best floor(fine_share * all) of the small clusters, and the first and the last one: these are read
// The released code scores the prompt without causal mask and scale (compat_scores), and adds the last clusters only where the last large
// one is partial (compat_last_cluster). Here the newest entry stays and is read in any case.
// Source: reference/cache-definitions.md, section 6; Zeng et al. 2025 (MPCache).
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace refreshlab {

namespace {

constexpr double share_of_queries = 0.2, share_of_long_prompts = 0.1;
constexpr int64_t long_prompt = 24000;
constexpr float weight_of_max = 0.6F, weight_of_min = 0.4F;

class MpCache final : public CacheMethodBase<MpCache> {
public:
    MpCache(const CacheValues& values, const PolicyContext& context)
        : m_cluster(values.whole("cluster"))
        , m_theta(values.real("theta"))
        , m_raw_scores(values.flag("compat_scores"))
        , m_last_if_partial(values.flag("compat_last_cluster"))
        , m_context(context)
        , m_bounds(static_cast<size_t>(context.layers * context.kv_heads)) {
        set_values(values);
    }

    [[nodiscard]] PolicyNeeds needs() const override {
        const int64_t length = m_context.prompt_length;
        const double share = length > long_prompt ? share_of_long_prompts : share_of_queries;
        const int64_t rows = std::max<int64_t>(static_cast<int64_t>(share * static_cast<double>(length)), 1);
        return {
            .prompt_rows = m_raw_scores ? 0 : rows, .prompt_queries = m_raw_scores ? rows : 0, .query = true};
    }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        const std::vector<float> most = most_looked_at(view, cache);
        std::vector<int64_t> kept;
        for (int64_t j = 0; j < view.length; ++j)
            if (static_cast<double>(most[static_cast<size_t>(j)]) >= m_theta || j + 1 == view.length)
                kept.push_back(j);
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            cache.score(view.layer, head, cache.held(view.layer, head).first(most.size() - 1),
                        std::span(most).first(most.size() - 1));
            cache.keep(view.layer, head, kept);
        }
    }

    const HeadPositions* before_attention(const StepView& view, CacheEditor& cache) override {
        m_chosen.assign(static_cast<size_t>(m_context.kv_heads), {});
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            measure(view.layer, head, cache);
            const std::vector<int64_t> clusters = choose(view, head);
            const auto held = cache.held(view.layer, head);
            auto& chosen = m_chosen[static_cast<size_t>(head)];
            for (const int64_t cluster : clusters) {
                const int64_t end = std::min((cluster + 1) * m_cluster, std::ssize(held));
                chosen.insert(chosen.end(), held.begin() + cluster * m_cluster, held.begin() + end);
            }
            if (chosen.empty() || chosen.back() != held.back()) chosen.push_back(held.back());
        }
        return &m_chosen;
    }

    void refreshed(const EntrySelection& written, const CacheEditor& cache) override {
        for (const int64_t at : written.head_numbers()) {
            Bounds& bounds = m_bounds[static_cast<size_t>(at)];
            if (bounds.entries == 0) continue; // no step has read this layer
            bounds = {};
            measure(at / m_context.kv_heads, at % m_context.kv_heads, cache);
        }
    }

    void set_values(const CacheValues& values) override {
        m_coarse_share = values.real("coarse_share");
        m_fine_share = values.real("fine_share");
    }

private:
    /// Of each entry of the prompt, the most that a late row gives it, mean of the query heads.
    [[nodiscard]] std::vector<float> most_looked_at(const PromptView& view, const CacheEditor& cache) const {
        std::vector<std::vector<float>> keys; // of each KV head
        for (int64_t head = 0; head < m_context.kv_heads && m_raw_scores; ++head)
            keys.push_back(cache.keys(view.layer, head, cache.held(view.layer, head)));
        std::vector<float> most(static_cast<size_t>(view.length), 0);
        const int64_t rows = m_raw_scores ? view.queries.n0 : view.rows.n0;
        for (int64_t r = 0; r < rows; ++r) {
            std::vector<std::vector<float>> raw;
            for (int64_t head = 0; head < m_context.heads && m_raw_scores; ++head)
                raw.push_back(softmax_of_products(view.queries.row(r, head),
                                                  keys[static_cast<size_t>(head / m_context.group())]));
            std::vector<std::span<const float>> heads(raw.begin(), raw.end());
            for (int64_t head = 0; head < m_context.heads && !m_raw_scores; ++head)
                heads.push_back(view.rows.row(r, head));
            const std::vector<float> mean = cache_scores::reduce_group(heads, cache_scores::Group::mean);
            for (size_t j = 0; j < most.size(); ++j)
                most[j] = std::max(most[j], mean[j]);
        }
        return most;
    }
    /// Over all keys, those behind the query included, not divided by the root of head_dim.
    [[nodiscard]] static std::vector<float> softmax_of_products(std::span<const float> q,
                                                                const std::vector<float>& keys) {
        std::vector<float> row;
        for (size_t first = 0; first < keys.size(); first += q.size())
            row.push_back(
                std::inner_product(q.begin(), q.end(), keys.begin() + static_cast<int64_t>(first), 0.0F));
        const float largest = *std::ranges::max_element(row);
        double sum = 0;
        for (float& x : row) {
            x = std::exp(x - largest);
            sum += static_cast<double>(x);
        }
        for (float& x : row)
            x = static_cast<float>(static_cast<double>(x) / sum);
        return row;
    }

    /// Of the small clusters of what a KV head holds: [clusters][max, min][head_dim].
    struct Bounds {
        int64_t entries = 0; ///< that are in it
        std::vector<float> numbers;
    };

    /// Brings the bounds up to what is held: entries are only appended after the prompt.
    void measure(int64_t layer, int64_t head, const CacheEditor& cache) {
        const auto d = static_cast<size_t>(m_context.head_dim);
        Bounds& bounds = m_bounds[static_cast<size_t>(layer * m_context.kv_heads + head)];
        const auto held = cache.held(layer, head);
        if (bounds.entries == std::ssize(held)) return;
        const std::vector<float> keys =
            cache.keys(layer, head, held.subspan(static_cast<size_t>(bounds.entries)));
        for (size_t i = 0; i < keys.size() / d; ++i, ++bounds.entries) {
            const auto cluster = static_cast<size_t>(bounds.entries / m_cluster);
            if (bounds.entries % m_cluster == 0) {
                bounds.numbers.insert(bounds.numbers.end(), d, -std::numeric_limits<float>::infinity());
                bounds.numbers.insert(bounds.numbers.end(), d, std::numeric_limits<float>::infinity());
            }
            float* const high = bounds.numbers.data() + cluster * 2 * d;
            for (size_t c = 0; c < d; ++c) {
                high[c] = std::max(high[c], keys[i * d + c]);
                high[d + c] = std::min(high[d + c], keys[i * d + c]);
            }
        }
    }

    /// Small clusters that a step reads, ascending.
    [[nodiscard]] std::vector<int64_t> choose(const StepView& view, int64_t head) const {
        const auto d = static_cast<size_t>(m_context.head_dim);
        const Bounds& bounds = m_bounds[static_cast<size_t>(view.layer * m_context.kv_heads + head)];
        const int64_t small = std::ssize(bounds.numbers) / (2 * m_context.head_dim), large = (small + 1) / 2;
        std::vector<float> of_large, of_small;
        std::vector<float> joined(2 * d);
        for (int64_t i = 0; i < large; ++i) {
            const float* const one = bounds.numbers.data() + static_cast<size_t>(2 * i) * 2 * d;
            const float* const two = 2 * i + 1 < small ? one + 2 * d : one;
            for (size_t c = 0; c < d; ++c) {
                joined[c] = std::max(one[c], two[c]);
                joined[d + c] = std::min(one[d + c], two[d + c]);
            }
            of_large.push_back(similarity(view, head, joined.data()));
        }
        const bool last = !m_last_if_partial || bounds.entries % (2 * m_cluster) != 0;
        std::vector<int64_t> candidates;
        for (const int64_t i : with_ends(of_large, m_coarse_share, large, last)) {
            for (int64_t k = 2 * i; k < std::min(2 * i + 2, small); ++k) {
                candidates.push_back(k);
                of_small.push_back(
                    similarity(view, head, bounds.numbers.data() + static_cast<size_t>(k) * 2 * d));
            }
        }
        std::vector<int64_t> chosen;
        for (const int64_t i : with_ends(of_small, m_fine_share, small, last))
            chosen.push_back(candidates[static_cast<size_t>(i)]);
        return chosen;
    }
    /// The best floor(share * all), the first, and maybe the last; ascending. The 1e-9 is for shares such as 0.2 * 5.
    [[nodiscard]] static std::vector<int64_t> with_ends(const std::vector<float>& scores, double share,
                                                        int64_t all, bool last) {
        std::vector<int64_t> best =
            cache_scores::top(scores, static_cast<int64_t>(share * static_cast<double>(all) + 1e-9));
        best.push_back(0);
        if (last) best.push_back(std::ssize(scores) - 1);
        std::ranges::sort(best);
        const auto rest = std::ranges::unique(best);
        best.erase(rest.begin(), rest.end());
        return best;
    }
    /// \param bounds  [max, min][head_dim]
    [[nodiscard]] float similarity(const StepView& view, int64_t head, const float* bounds) const {
        const auto d = static_cast<size_t>(m_context.head_dim);
        float most = -std::numeric_limits<float>::infinity();
        for (const auto& q : cache_scores::heads_of(view.query, m_context, head)) {
            float sum = 0;
            for (size_t c = 0; c < d; ++c)
                sum += q[c] * (weight_of_max * bounds[c] + weight_of_min * bounds[d + c]);
            most = std::max(most, sum);
        }
        return most;
    }

    int64_t m_cluster;
    double m_theta, m_coarse_share = 0, m_fine_share = 0;
    bool m_raw_scores, m_last_if_partial;
    PolicyContext m_context;
    std::vector<Bounds> m_bounds; ///< [layers * kv_heads]
    HeadPositions m_chosen;
};

} // namespace

CacheMethod cache_method_list::mpcache() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "mpcache";
    method.label = "MPCache";
    method.summary =
        "Of the prompt, all that its last fifth looks at stays; a step reads the clusters of it that "
        "its query could match, found coarsely first.";
    method.cost =
        "stores what stays and 2 keys more a cluster, reads `fine_share` of it; rows of a fifth of the "
        "prompt, once (4 B for each of heads * length^2 / 5, a layer at a time)";
    method.source = "Zeng et al. 2025 (MPCache)";
    method.parameters = {
        real("theta", "Least attention", "",
             "Entries of the prompt are evicted if no late row gives them so much attention (mean of the "
             "heads).",
             0, 1, 1e-4),
        whole("cluster", "Cluster", "entries",
              "Neighbours that are read together; twice as many in the coarse round.", 1, 1024, 16),
        live(real("coarse_share", "Coarse share", "",
                  "Share of the large clusters that the fine round looks into.", 0, 1, 0.5)),
        live(real("fine_share", "Fine share", "",
                  "Share of all small clusters that is read, besides the first and the last.", 0, 1, 0.2)),
        flag("compat_scores", "Scores as released",
             "The prompt is scored without causal mask and scale, as in the released code.", false),
        flag("compat_last_cluster", "Last cluster as released",
             "The last clusters are added only where the last large one is partial; the newest entry is read "
             "anyway.",
             false)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<MpCache>(values, context);
    };
    return method;
}

} // namespace refreshlab
