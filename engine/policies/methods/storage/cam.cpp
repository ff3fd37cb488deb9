// CaM (cache merging): what leaves gives its value to those after it.
//   acc[h][j] = attention that entry j received from every decode step so far, mean over the query heads of KV head h
//   every `interval` steps, above the budget: one set for all heads stays, the newest half and of the others the largest mean of acc
//   over the heads (H2O's rule). Of those that leave, the m largest are merged, m = steps since the last time; the others are dropped
//   merged: V_i / w is added to the values of the next w <= `spread` entries that stay, with probability
//   clamp(acc_i / mean acc of these, 0, 1) per KV head; keys are untouched. An entry with none behind it is dropped
// Interval 1 is the original method. What was added to is not written by a refresh any more.
// Source: reference/cache-definitions.md, section 8; Zhang et al. 2024 (CaM), in the form of kvpress.
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/mixed_bits.h"

#include <algorithm>
#include <iterator>

namespace refreshlab {

namespace {

using Floats = std::vector<float>;

class Cam final : public CacheMethodBase<Cam> {
public:
    Cam(const CacheValues& values, const PolicyContext& context)
        : m_context(context)
        , m_acc(static_cast<size_t>(context.layers * context.kv_heads))
        , m_fired(static_cast<size_t>(context.layers), 0) {
        set_values(values);
    }

    [[nodiscard]] PolicyNeeds needs() const override { return {.row = true}; }
    void set_values(const CacheValues& values) override {
        m_budget = values.whole("budget");
        m_interval = values.whole("interval");
        m_spread = values.whole("spread");
        m_expected = values.flag("expected");
    }

    void after_attention(const StepView& view, CacheEditor& cache) override {
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            Floats& sums = acc(view.layer, head);
            sums.resize(cache.held(view.layer, head).size(), 0);
            cache_scores::add_group_mean(cache_scores::heads_of(view.row, m_context, head), sums);
        }
        const auto held = cache.held(view.layer, 0); // the same in all heads
        if (view.step % m_interval == 0 && std::ssize(held) > m_budget)
            fire(view, {held.begin(), held.end()}, cache);
    }

private:
    [[nodiscard]] Floats& acc(int64_t layer, int64_t head) {
        return m_acc[static_cast<size_t>(layer * m_context.kv_heads + head)];
    }

    void fire(const StepView& view, const std::vector<int64_t>& held, CacheEditor& cache) {
        const int64_t n = std::ssize(held), heavy = m_budget / 2, recent = m_budget - heavy;
        std::vector<std::span<const float>> heads;
        for (int64_t head = 0; head < m_context.kv_heads; ++head)
            heads.push_back(acc(view.layer, head));
        const Floats scores = cache_scores::reduce_group(heads, cache_scores::Group::mean);
        const auto old = static_cast<size_t>(n - recent);
        for (int64_t head = 0; head < m_context.kv_heads; ++head)
            cache.score(view.layer, head, std::span(held).first(old), std::span(scores).first(old));
        std::vector<int64_t> stay = cache_scores::top(std::span(scores).first(old), heavy);
        for (int64_t i = n - recent; i < n; ++i)
            stay.push_back(i);
        std::vector<int64_t> leave;
        for (int64_t i = 0; i < n; ++i)
            if (!std::ranges::binary_search(stay, i)) leave.push_back(i);
        int64_t& fired = m_fired[static_cast<size_t>(view.layer)];
        Floats of_leaving;
        for (const int64_t i : leave)
            of_leaving.push_back(scores[static_cast<size_t>(i)]);
        std::vector<int64_t> merged;
        for (const int64_t i : cache_scores::top(of_leaving, view.step - fired))
            merged.push_back(leave[static_cast<size_t>(i)]);
        fired = view.step;
        for (int64_t head = 0; head < m_context.kv_heads; ++head)
            merge(view.layer, head, held, stay, leave, merged, cache);
    }

    /// Of one KV head. `stay`, `leave`, `merged`: places in `held`, ascending.
    void merge(int64_t layer, int64_t head, const std::vector<int64_t>& held,
               const std::vector<int64_t>& stay, const std::vector<int64_t>& leave,
               const std::vector<int64_t>& merged, CacheEditor& cache) {
        Floats& sums = acc(layer, head);
        std::vector<int64_t> kept, from, gone, dropped, changed; // positions
        for (const int64_t i : stay)
            kept.push_back(held[static_cast<size_t>(i)]);
        for (const int64_t i : merged)
            from.push_back(held[static_cast<size_t>(i)]);
        const Floats giving = cache.values(layer, head, from);
        Floats values = cache.values(layer, head, kept);
        std::vector<bool> is_changed(kept.size(), false);
        for (size_t m = 0; m < merged.size(); ++m) {
            const auto first = std::ranges::upper_bound(stay, merged[m]) - stay.begin();
            const int64_t w = std::min(m_spread, std::ssize(stay) - first);
            const float share =
                w > 0 ? share_of(layer, head, from[m], sums[static_cast<size_t>(merged[m])],
                                 std::span(stay).subspan(static_cast<size_t>(first), static_cast<size_t>(w)),
                                 sums)
                      : 0;
            if (share == 0) continue;
            gone.push_back(from[m]);
            const auto d = static_cast<size_t>(m_context.head_dim);
            for (auto to = static_cast<size_t>(first); to < static_cast<size_t>(first + w); ++to) {
                is_changed[to] = true;
                for (size_t c = 0; c < d; ++c)
                    values[to * d + c] += share / static_cast<float>(w) * giving[m * d + c];
            }
        }
        put(layer, head, kept, values, is_changed, cache);
        for (const int64_t i : leave)
            if (!std::ranges::binary_search(gone, held[static_cast<size_t>(i)]))
                dropped.push_back(held[static_cast<size_t>(i)]);
        cache.merge_away(layer, head, gone);
        cache.evict(layer, head, dropped);
        Floats left;
        for (const int64_t i : stay)
            left.push_back(sums[static_cast<size_t>(i)]);
        sums = std::move(left);
    }

    /// How much of a value is given: the probability, or 0 or 1 by a draw.
    [[nodiscard]] float share_of(int64_t layer, int64_t head, int64_t position, float own,
                                 std::span<const int64_t> receivers, const Floats& sums) const {
        float mean = 0;
        for (const int64_t i : receivers)
            mean += sums[static_cast<size_t>(i)];
        mean /= static_cast<float>(receivers.size());
        const float p = mean > 0 ? std::clamp(own / mean, 0.0F, 1.0F) : own > 0 ? 1.0F : 0.0F;
        if (m_expected) return p;
        const uint64_t key =
            mixed_bits(m_context.seed ^ mixed_bits(static_cast<uint64_t>(layer * m_context.kv_heads + head)));
        return unit_number(mixed_bits(key ^ static_cast<uint64_t>(position))) < p ? 1.0F : 0.0F;
    }

    void put(int64_t layer, int64_t head, const std::vector<int64_t>& kept, const Floats& values,
             const std::vector<bool>& is_changed, CacheEditor& cache) const {
        std::vector<int64_t> positions;
        Floats rows;
        const int64_t d = m_context.head_dim;
        for (size_t i = 0; i < kept.size(); ++i) {
            if (!is_changed[i]) continue;
            positions.push_back(kept[i]);
            const auto row = values.begin() + static_cast<int64_t>(i) * d;
            rows.insert(rows.end(), row, row + d);
        }
        if (!positions.empty()) cache.merge_into(layer, head, positions, {}, rows);
    }

    int64_t m_budget = 1, m_interval = 1, m_spread = 1;
    bool m_expected = false;
    PolicyContext m_context;
    std::vector<Floats> m_acc;    ///< per layer and KV head, one number per held entry; 4 B each
    std::vector<int64_t> m_fired; ///< per layer: the last step at which entries left
};

} // namespace

CacheMethod cache_method_list::cam() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "cam";
    method.label = "CaM";
    method.summary =
        "Every some steps entries leave, and the best of them give their values to those after them.";
    method.cost = "stores and reads `budget` entries to `budget` + `interval`; a row a step";
    method.source = "Zhang et al. 2024 (CaM)";
    method.parameters = {
        live(budget()), live(interval(512)),
        live(whole("spread", "Spread", "entries", "A merged value is divided among so many entries.", 1, 4096,
                   32)),
        live(flag("expected", "Expected",
                  "Adds the value times its probability; off: adds it or not, by a draw.", false))};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<Cam>(values, context);
    };
    return method;
}

} // namespace refreshlab
