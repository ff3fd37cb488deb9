// RefreshKV: everything stays stored, and most steps read a small part of it. Every `check_every` steps a layer compares its query
// with that of its last full step; where it has turned away (cosine <= similarity), the step reads everything and chooses the part
// anew by its own attention. Each layer decides alone.
//
// The part is a list in ascending order of the score that chose it, so its first entry is the least important: a partial step appends
// the new entry and drops the first. It is kept as positions, not as a copy, so a refresh of the teacher's is in it at once, and the
// paper's tail of entries that are not in the full cache yet does not exist.
// Source: reference/cache-definitions.md, section 7; Xu et al. 2024.
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace refreshlab {

namespace {

using cache_scores::Group;

class RefreshKv final : public CacheMethodBase<RefreshKv> {
public:
    RefreshKv(const CacheValues& values, const PolicyContext& context)
        : m_attend_full(values.flag("attend_full"))
        , m_rotated_query(values.flag("rotated_query"))
        , m_context(context)
        , m_parts(static_cast<size_t>(context.layers * context.kv_heads))
        , m_reference(static_cast<size_t>(context.layers))
        , m_full(static_cast<size_t>(context.layers), 0)
        , m_cosine(static_cast<size_t>(context.layers), not_measured)
        , m_full_steps(static_cast<size_t>(context.layers), 0.0F) {
        set_values(values);
    }

    void set_values(const CacheValues& values) override {
        m_size = values.whole("partial");
        if (m_size == 0) m_size = std::max<int64_t>(1, m_context.prompt_length / 8);
        m_check_every = values.whole("check_every");
        m_similarity = values.real("similarity");
        m_fixed = values.whole("schedule") == 1;
        m_rebuild = values.flag("rebuild");
        m_kernel = values.whole("kernel");
        m_group = static_cast<Group>(values.whole("group"));
    }
    bool full_step_now() override {
        m_asked = true;
        return true;
    }

    [[nodiscard]] PolicyNeeds needs() const override {
        return {.edits = false,
                .prompt_rows = 1,
                .prompt_queries = 1,
                .row = true,
                .query = true,
                .raw_queries = !m_rotated_query,
                .rotated_query = !m_attend_full};
    }

    /// Full step 0: the last prompt token chooses the part.
    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            std::vector<int64_t> every(static_cast<size_t>(view.length));
            std::iota(every.begin(), every.end(), 0);
            choose(view.layer, head, every, cache_scores::heads_of(view.rows, m_context, head), cache);
        }
        m_reference[static_cast<size_t>(view.layer)] = mean_query(view.queries);
    }

    const HeadPositions* before_attention(const StepView& view, CacheEditor& cache) override {
        const auto layer = static_cast<size_t>(view.layer);
        const std::vector<float> query = mean_query(view.query);
        m_cosine[layer] = cosine(query, m_reference[layer]);
        m_full[layer] = is_full(view) ? 1 : 0;
        m_full_steps[layer] = static_cast<float>(m_full[layer]);
        if (m_full[layer] != 0) {
            m_reference[layer] = query;
            if (m_attend_full || !m_rebuild) return nullptr;
        }
        m_chosen.assign(static_cast<size_t>(m_context.kv_heads), {});
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            if (m_full[layer] != 0) choose_by_query(view, head, cache);
            auto& list = part(view.layer, head);
            shorten(list); // the size may have changed since
            auto& chosen = m_chosen[static_cast<size_t>(head)];
            chosen = list;
            if (std::ranges::find(chosen, view.position) == chosen.end()) chosen.push_back(view.position);
            std::ranges::sort(chosen);
        }
        return &m_chosen;
    }

    void after_attention(const StepView& view, CacheEditor& cache) override {
        const bool rebuilds = m_full[static_cast<size_t>(view.layer)] != 0 && m_rebuild;
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            if (rebuilds && !m_attend_full) continue; // before attention
            if (rebuilds) {
                choose(view.layer, head, view.read[static_cast<size_t>(head)],
                       cache_scores::heads_of(view.row, m_context, head), cache);
                continue;
            }
            auto& list = part(view.layer, head);
            list.push_back(view.position);
            shorten(list);
        }
    }

    [[nodiscard]] std::vector<PolicySignal> signals() const override {
        PolicySignal cosines{
            "query_similarity",
            "Query similarity",
            "",
            "Cosine of the mean query with that of the layer's last full step (RefreshKV): a check at or "
            "below the threshold makes the step a full one.",
            -1,
            1,
            m_cosine};
        PolicySignal full{
            "full_step", "Full step", "",          "1 where the layer read its whole cache (RefreshKV).",
            0,           1,           m_full_steps};
        return {std::move(cosines), std::move(full)};
    }

private:
    static constexpr float not_measured = std::numeric_limits<float>::quiet_NaN();

    [[nodiscard]] std::vector<int64_t>& part(int64_t layer, int64_t head) {
        return m_parts[static_cast<size_t>(layer * m_context.kv_heads + head)];
    }

    [[nodiscard]] bool is_full(const StepView& view) {
        if (m_asked) m_asked_step = view.step; // of all layers
        m_asked = false;
        if (view.step == m_asked_step) return true;
        if (view.step % m_check_every != 0) return false;
        return m_fixed || static_cast<double>(m_cosine[static_cast<size_t>(view.layer)]) <= m_similarity;
    }

    /// The least important leave.
    void shorten(std::vector<int64_t>& list) const {
        if (std::ssize(list) > m_size) list.erase(list.begin(), list.end() - m_size);
    }

    /// The best entries by the pooled attention of one query, ascending by score; ties: lower position first.
    void choose(int64_t layer, int64_t head, std::span<const int64_t> positions,
                const std::vector<std::span<const float>>& rows, CacheEditor& cache) {
        std::vector<float> scores = cache_scores::reduce_group(rows, m_group);
        scores.resize(positions.size());
        scores = cache_scores::pooled(scores, m_kernel, cache_scores::Pooling::max);
        cache.score(layer, head, positions, scores);
        std::vector<int64_t> best = cache_scores::top(scores, m_size);
        std::ranges::stable_sort(best, [&](int64_t a, int64_t b) {
            return scores[static_cast<size_t>(a)] < scores[static_cast<size_t>(b)];
        });
        auto& list = part(layer, head);
        list.clear();
        for (const int64_t i : best)
            list.push_back(positions[static_cast<size_t>(i)]);
    }

    /// The same from queries and keys, before anything is read (ablation "without full attention").
    void choose_by_query(const StepView& view, int64_t head, CacheEditor& cache) {
        const auto held = cache.held(view.layer, head);
        const std::vector<int64_t> positions(held.begin(), held.end());
        const std::vector<float> keys = cache.keys(view.layer, head, positions);
        std::vector<std::vector<float>> rows;
        for (int64_t g = 0; g < m_context.group(); ++g)
            rows.push_back(attention_of(view.rotated_query.row(0, head * m_context.group() + g), keys));
        choose(view.layer, head, positions, {rows.begin(), rows.end()}, cache);
    }
    [[nodiscard]] static std::vector<float> attention_of(std::span<const float> query,
                                                         std::span<const float> keys) {
        const size_t d = query.size();
        std::vector<float> row(keys.size() / d, 0.0F);
        for (size_t i = 0; i < row.size(); ++i) {
            for (size_t c = 0; c < d; ++c)
                row[i] += query[c] * keys[i * d + c];
            row[i] /= std::sqrt(static_cast<float>(d));
        }
        const float largest = *std::ranges::max_element(row);
        float sum = 0;
        for (float& value : row)
            sum += value = std::exp(value - largest);
        for (float& value : row)
            value /= sum;
        return row;
    }

    [[nodiscard]] std::vector<float> mean_query(const Cube& queries) const {
        std::vector<float> mean(static_cast<size_t>(m_context.head_dim), 0.0F);
        for (int64_t head = 0; head < m_context.heads; ++head) {
            const auto q = queries.row(queries.n0 - 1, head);
            for (size_t c = 0; c < mean.size(); ++c)
                mean[c] += q[c];
        }
        for (float& value : mean)
            value /= static_cast<float>(m_context.heads);
        return mean;
    }
    /// A zero vector counts as turned away.
    [[nodiscard]] static float cosine(std::span<const float> a, std::span<const float> b) {
        double ab = 0, aa = 0, bb = 0;
        for (size_t c = 0; c < std::min(a.size(), b.size()); ++c) {
            ab += static_cast<double>(a[c]) * static_cast<double>(b[c]);
            aa += static_cast<double>(a[c]) * static_cast<double>(a[c]);
            bb += static_cast<double>(b[c]) * static_cast<double>(b[c]);
        }
        return aa == 0 || bb == 0 ? -1 : static_cast<float>(ab / std::sqrt(aa * bb));
    }

    bool m_attend_full, m_rotated_query;
    PolicyContext m_context;
    // The live ones.
    int64_t m_size = 1, m_check_every = 1;
    double m_similarity = 0;
    bool m_fixed = false, m_rebuild = true;
    int64_t m_kernel = 1;
    Group m_group = Group::max;

    bool m_asked = false;                        ///< by hand: the next step is a full one
    int64_t m_asked_step = 0;                    ///< 0: none yet
    HeadPositions m_parts;                       ///< per layer and KV head; ascending by score, then by age
    std::vector<std::vector<float>> m_reference; ///< per layer: the mean query of its last full step
    std::vector<char> m_full;                    ///< per layer, of the step under way
    std::vector<float> m_cosine, m_full_steps;   ///< per layer, of the last step
    HeadPositions m_chosen;
};

} // namespace

CacheMethod cache_method_list::refreshkv() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "refreshkv";
    method.label = "RefreshKV";
    method.summary = "Everything stays; most steps read a small part, which full steps choose anew where the "
                     "query has turned.";
    method.cost =
        "stores n entries and the positions of `partial`; reads `partial` + 1 of them, or n at full steps";
    method.source = "Xu et al. 2024";
    method.parameters = {
        live(whole("partial", "Part", "entries",
                   "Entries that a partial step reads, beside the new one; 0 = an eighth of the prompt.", 0,
                   most_entries, 0)),
        live(whole("check_every", "Check every", "steps",
                   "A layer looks at its query, or has its fixed full step, every so many steps.", 1, 65536,
                   10)),
        live(real("similarity", "Similarity", "",
                  "A check makes a full step where the cosine is at or below this.", -2, 2, 0.85)),
        live(choice("schedule", "Schedule",
                    "dynamic: full steps by the query's similarity; fixed: at every check.",
                    {"dynamic", "fixed"}, 0)),
        live(flag("rebuild", "Rebuild", "Full steps choose the part anew; off: the ablation without refresh.",
                  true)),
        flag("attend_full", "Attend everything",
             "Full steps read everything; off: only the part that they choose, the ablation without full "
             "attention.",
             true),
        live(kernel()),
        live(group(0)),
        flag("rotated_query", "Rotated query", "Compares queries after RoPE instead of before it.", false)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<RefreshKv>(values, context);
    };
    return method;
}

} // namespace refreshlab
