// KVMerger: neighbours of the prompt whose keys look alike become one entry.
//   exempt: the newest part of the budget (`recent`), of the others those with the most attention, and the layers of `dense_layers` with the last one
//   sets: from the newest back, a token joins the one behind it while the cosine of their keys is `key_similarity` or more
//   pivot p of a set = the member with the most attention; weights w_i proportional to exp(-|k_i - k_p|^2 / (2 s^2)), s^2 = the mean
//   squared distance of the other members from the pivot; equal weights where that is 0
//   K_p = sum w_i k_i, V_p = sum w_i v_i; the others leave
// So a KV head holds its budget and one entry for each set. The paper defines s by the weights, and the weights by s: the mean is our
// choice. What was merged into is not written by a refresh any more.
// Source: reference/cache-definitions.md, section 8; Wang et al. 2024 (KVMerger).
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/merging.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace refreshlab {

namespace {

using merging::Rows;

class KvMerger final : public CacheMethodBase<KvMerger> {
public:
    KvMerger(const CacheValues& values, const PolicyContext& context)
        : m_budget(values.whole("budget"))
        , m_dense_layers(values.whole("dense_layers"))
        , m_recent(values.real("recent"))
        , m_similarity(values.real("key_similarity"))
        , m_context(context) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.prompt_sums = true}; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        if (view.length <= m_budget || merging::stays_whole(view.layer, m_dense_layers, m_context)) return;
        for (int64_t head = 0; head < m_context.kv_heads; ++head)
            merge(view, head, cache);
    }

private:
    void merge(const PromptView& view, int64_t head, CacheEditor& cache) const {
        const std::vector<float> sums = cache_scores::reduce_group(
            cache_scores::heads_of(view.sums, m_context, head), cache_scores::Group::mean);
        const auto heavy = static_cast<int64_t>(static_cast<double>(m_budget) * (1 - m_recent));
        const int64_t old = view.length - (m_budget - heavy); // the newest behind it are exempt
        const std::vector<int64_t> exempt =
            cache_scores::top(std::span(sums).first(static_cast<size_t>(old)), heavy);
        std::vector<int64_t> positions(static_cast<size_t>(old)); // entry i is position i
        std::iota(positions.begin(), positions.end(), int64_t{0});
        const Rows keys{cache.keys(view.layer, head, positions), m_context.head_dim};
        const Rows values{cache.values(view.layer, head, positions), m_context.head_dim};

        std::vector<int64_t> pivots, gone;
        std::vector<float> new_keys, new_values;
        for (const Set& set : sets(keys, old, exempt)) {
            const auto begin = sums.begin() + set.first;
            const int64_t pivot = std::max_element(begin, sums.begin() + set.last + 1) - sums.begin();
            std::vector<int64_t> members(static_cast<size_t>(set.last - set.first + 1));
            std::iota(members.begin(), members.end(), set.first);
            const std::vector<double> weights = weights_of(keys, members, pivot);
            pivots.push_back(pivot);
            merging::append_sum(keys, members, weights, new_keys);
            merging::append_sum(values, members, weights, new_values);
            std::ranges::copy_if(members, std::back_inserter(gone), [=](int64_t p) { return p != pivot; });
        }
        if (pivots.empty()) return;
        cache.merge_into(view.layer, head, pivots, new_keys, new_values);
        cache.merge_away(view.layer, head, gone);
    }

    struct Set {
        int64_t first, last; ///< positions; two or more
    };
    /// Sets of [0, end), ascending.
    [[nodiscard]] std::vector<Set> sets(const Rows& keys, int64_t end,
                                        const std::vector<int64_t>& exempt) const {
        std::vector<Set> found;
        const auto joins = [&](int64_t p) { // p and p + 1
            return !std::ranges::binary_search(exempt, p) && !std::ranges::binary_search(exempt, p + 1) &&
                   merging::cosine(keys.row(p), keys.row(p + 1)) >= m_similarity;
        };
        for (int64_t last = end - 1; last >= 0;) {
            int64_t first = last;
            while (first > 0 && joins(first - 1))
                --first;
            if (first < last) found.push_back({first, last});
            last = first - 1;
        }
        std::ranges::reverse(found);
        return found;
    }

    /// They sum to 1.
    static std::vector<double> weights_of(const Rows& keys, const std::vector<int64_t>& members,
                                          int64_t pivot) {
        std::vector<double> weights;
        double mean = 0;
        for (const int64_t p : members) {
            weights.push_back(merging::squared_distance(keys.row(p), keys.row(pivot)));
            mean += weights.back() / static_cast<double>(members.size() - 1);
        }
        double sum = 0;
        for (double& weight : weights) {
            weight = mean > 0 ? std::exp(-weight / (2 * mean)) : 1;
            sum += weight;
        }
        for (double& weight : weights)
            weight /= sum;
        return weights;
    }

    int64_t m_budget, m_dense_layers;
    double m_recent; ///< share of the budget
    double m_similarity;
    PolicyContext m_context;
};

} // namespace

CacheMethod cache_method_list::kv_merger() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "kv_merger";
    method.label = "KVMerger";
    method.summary = "Of the prompt, neighbours with similar keys become one entry; the most attended and "
                     "the newest stay.";
    method.cost =
        "stores and reads `budget` entries, one for each set, and the generated ones; column sums, once";
    method.source = "Wang et al. 2024 (KVMerger)";
    method.prompt_only = true;
    method.parameters = {budget(), recent(),
                         real("key_similarity", "Similarity of keys", "",
                              "Neighbours with keys at least as alike join: their cosine.", -1, 2, 0.75),
                         dense_layers()};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<KvMerger>(values, context);
    };
    return method;
}

} // namespace refreshlab
