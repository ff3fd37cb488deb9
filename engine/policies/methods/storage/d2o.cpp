// D2O (dynamic discriminative operations): heavy hitters as in H2O, budgets by layer, and what leaves goes into what it resembles.
//   acc[j] = attention that entry j received from every query so far, mean over the query heads of the KV head
//   layers: v_l = mean over KV heads of the variance of acc at the prompt's end, after min-max scaling over the heads; a layer's budget
//           is `budget` * NL * softmax(-v)_l, at least a hundredth of the prompt. `dense_layers` and the last one keep everything
//   above it: the newest part (`recent`) stays, and of the others the first `sinks` and those with the largest acc
//   c_i = largest cosine of a leaving key with a key that stays. Threshold of a layer: the mean of c when something first leaves, then
//         half of what it was and half of the mean of c; or a fixed one
//   the i-th entries that leave the heads of a layer are merged where the mean of their c_i reaches the threshold, else dropped:
//         K_k = (K_k + sum c_i K_i) / (1 + number of them), V alike, k the most alike of those that stay in the head
// Nothing leaves before the first decode step has read the prompt. What was merged into is not written by a refresh any more.
// Source: reference/cache-definitions.md, section 8; Wan et al. 2024 (D2O).
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/merging.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace refreshlab {

namespace {

using merging::Rows;

class D2o final : public CacheMethodBase<D2o> {
public:
    D2o(const CacheValues& values, const PolicyContext& context)
        : m_budget(values.whole("budget"))
        , m_sinks(values.whole("sinks"))
        , m_dense_layers(values.whole("dense_layers"))
        , m_recent(values.real("recent"))
        , m_fixed_threshold(values.real("merge_threshold"))
        , m_normalise(values.flag("normalise"))
        , m_context(context)
        , m_acc(static_cast<size_t>(context.layers * context.kv_heads))
        , m_variance(static_cast<size_t>(context.layers))
        , m_budgets(static_cast<size_t>(context.layers), context.prompt_length)
        , m_thresholds(static_cast<size_t>(context.layers)) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.prompt_sums = true, .row = true}; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        (void)cache;
        std::vector<double> variances;
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            Floats& sums = acc(view.layer, head);
            sums = cache_scores::reduce_group(cache_scores::heads_of(view.sums, m_context, head),
                                              cache_scores::Group::mean);
            variances.push_back(variance(sums));
        }
        const auto [low, high] = std::ranges::minmax(variances);
        double mean = 0;
        for (const double v : variances)
            mean += high > low ? (v - low) / (high - low) / static_cast<double>(variances.size()) : 0;
        m_variance[static_cast<size_t>(view.layer)] = mean;
    }

    void finish_prompt(CacheEditor& cache) override {
        (void)cache;
        double sum = 0;
        for (const auto& v : m_variance)
            if (v) sum += std::exp(-*v);
        const auto layers = static_cast<double>(
            std::ranges::count_if(m_variance, [](const auto& v) { return v.has_value(); }));
        for (size_t i = 0; i < m_variance.size(); ++i) {
            if (!m_variance[i]) continue;
            const double share = layers * std::exp(-*m_variance[i]) / sum;
            m_budgets[i] = std::max(std::llround(share * static_cast<double>(m_budget)),
                                    std::llround(0.01 * static_cast<double>(m_context.prompt_length)));
            m_budgets[i] = std::max<int64_t>(m_budgets[i], 1);
        }
    }

    void after_attention(const StepView& view, CacheEditor& cache) override {
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            Floats& sums = acc(view.layer, head);
            sums.resize(cache.held(view.layer, head).size(), 0);
            cache_scores::add_group_mean(cache_scores::heads_of(view.row, m_context, head), sums);
        }
        const int64_t n = std::ssize(cache.held(view.layer, 0)); // the same number in all heads
        if (n <= budget_of(view.layer) || merging::stays_whole(view.layer, m_dense_layers, m_context)) return;
        thin(view.layer, cache);
    }

private:
    using Floats = std::vector<float>;

    [[nodiscard]] Floats& acc(int64_t layer, int64_t head) {
        return m_acc[static_cast<size_t>(layer * m_context.kv_heads + head)];
    }
    /// Where everything fits into the budget, the layers have nothing to share.
    [[nodiscard]] int64_t budget_of(int64_t layer) const {
        return m_context.prompt_length <= m_budget ? m_budget : m_budgets[static_cast<size_t>(layer)];
    }
    static double variance(std::span<const float> numbers) {
        double mean = 0, sum = 0;
        for (const float x : numbers)
            mean += static_cast<double>(x) / static_cast<double>(numbers.size());
        for (const float x : numbers)
            sum += (static_cast<double>(x) - mean) * (static_cast<double>(x) - mean);
        return sum / static_cast<double>(numbers.size());
    }

    /// What a KV head does: places in what it holds, ascending, and for each that leaves what it resembles.
    struct Leaving {
        std::vector<int64_t> held, stay, leave;
        Rows keys, values;              ///< of all that is held
        std::vector<size_t> receivers;  ///< of each that leaves: place in `stay`
        std::vector<double> similarity; ///< of each that leaves
    };

    void thin(int64_t layer, CacheEditor& cache) {
        std::vector<Leaving> heads;
        for (int64_t head = 0; head < m_context.kv_heads; ++head)
            heads.push_back(choose(layer, head, cache));
        const size_t n = heads[0].leave.size();
        double mean = 0;
        std::vector<double> means(n, 0);
        for (size_t i = 0; i < n; ++i) {
            for (const Leaving& head : heads)
                means[i] += head.similarity[i] / static_cast<double>(heads.size());
            mean += means[i] / static_cast<double>(n);
        }
        auto& threshold = m_thresholds[static_cast<size_t>(layer)];
        threshold = threshold ? 0.5 * *threshold + 0.5 * mean : mean;
        const double least = m_fixed_threshold >= -1 ? m_fixed_threshold : *threshold;
        for (int64_t head = 0; head < m_context.kv_heads; ++head)
            merge(layer, head, heads[static_cast<size_t>(head)], means, least, cache);
    }

    [[nodiscard]] Leaving choose(int64_t layer, int64_t head, CacheEditor& cache) {
        Leaving result;
        const auto held = cache.held(layer, head);
        result.held.assign(held.begin(), held.end());
        const int64_t n = std::ssize(held), budget = budget_of(layer);
        const auto heavy = static_cast<int64_t>(static_cast<double>(budget) * (1 - m_recent));
        const int64_t recent = budget - heavy;
        Floats scores(acc(layer, head).begin(), acc(layer, head).begin() + (n - recent));
        for (size_t i = 0; i < scores.size() && held[i] < m_sinks; ++i)
            scores[i] = std::numeric_limits<float>::max(); // finite: people look at it
        cache.score(layer, head, held.first(scores.size()), scores);
        result.stay = cache_scores::top(scores, heavy);
        for (int64_t i = n - recent; i < n; ++i)
            result.stay.push_back(i);
        for (int64_t i = 0; i < n; ++i)
            if (!std::ranges::binary_search(result.stay, i)) result.leave.push_back(i);
        result.keys = {cache.keys(layer, head, result.held), m_context.head_dim};
        result.values = {cache.values(layer, head, result.held), m_context.head_dim};
        for (const int64_t i : result.leave) {
            size_t best = 0;
            double most = -2;
            for (size_t k = 0; k < result.stay.size(); ++k) {
                const double c = merging::cosine(result.keys.row(i), result.keys.row(result.stay[k]));
                if (c > most) {
                    most = c;
                    best = k;
                }
            }
            result.receivers.push_back(best);
            result.similarity.push_back(most);
        }
        return result;
    }

    /// \param means  of the similarity of the i-th that leaves, over the heads
    void merge(int64_t layer, int64_t head, const Leaving& of, const std::vector<double>& means, double least,
               CacheEditor& cache) {
        std::vector<int64_t> receivers, merged, dropped; // positions
        Floats keys, values;
        for (size_t k = 0; k < of.stay.size(); ++k) {
            std::vector<int64_t> places{of.stay[k]};
            std::vector<double> weights{1};
            double sum = 1;
            for (size_t i = 0; i < of.leave.size(); ++i) {
                if (of.receivers[i] != k || means[i] < least) continue;
                places.push_back(of.leave[i]);
                weights.push_back(of.similarity[i]);
                sum += m_normalise ? std::abs(of.similarity[i]) : 1;
            }
            if (places.size() == 1) continue;
            for (double& weight : weights)
                weight /= sum;
            receivers.push_back(of.held[static_cast<size_t>(of.stay[k])]);
            merging::append_sum(of.keys, places, weights, keys);
            merging::append_sum(of.values, places, weights, values);
        }
        for (size_t i = 0; i < of.leave.size(); ++i)
            (means[i] >= least ? merged : dropped).push_back(of.held[static_cast<size_t>(of.leave[i])]);
        if (!receivers.empty()) cache.merge_into(layer, head, receivers, keys, values);
        cache.merge_away(layer, head, merged);
        cache.evict(layer, head, dropped);
        Floats& sums = acc(layer, head);
        Floats left;
        for (const int64_t i : of.stay)
            left.push_back(sums[static_cast<size_t>(i)]);
        sums = std::move(left);
    }

    int64_t m_budget, m_sinks, m_dense_layers;
    double m_recent;          ///< share of the budget
    double m_fixed_threshold; ///< below -1: found on the way
    bool m_normalise;
    PolicyContext m_context;
    std::vector<Floats> m_acc; ///< per layer and KV head, one number per held entry; 4 B each
    std::vector<std::optional<double>> m_variance;   ///< per layer: v_l; none where it has no attention
    std::vector<int64_t> m_budgets;                  ///< per layer
    std::vector<std::optional<double>> m_thresholds; ///< per layer
};

} // namespace

CacheMethod cache_method_list::d2o() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "d2o";
    method.label = "D2O";
    method.summary = "As H2O, with budgets by layer; what leaves goes into the entry that it resembles most, "
                     "or is dropped.";
    method.cost = "stores and reads `budget` entries a layer on average; column sums of the prompt, a row a "
                  "step, keys and "
                  "values of what is held when entries leave";
    method.source = "Wan et al. 2024 (D2O)";
    method.parameters = {
        budget(),
        recent(),
        sinks(),
        dense_layers(),
        real("merge_threshold", "Merge threshold", "",
             "What resembles an entry at least so much goes into it; -2: a mean that follows the run.", -2, 2,
             -2),
        flag("normalise", "Normalise", "Divides by the sum of the weights instead of by their number.",
             false)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<D2o>(values, context);
    };
    return method;
}

} // namespace refreshlab
