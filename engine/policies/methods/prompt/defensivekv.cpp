// DefensiveKV and Layer-DefensiveKV: an entry is worth the worst that could happen without it, not the mean of what happened.
//   A = rows of the last w prompt queries on the columns before them; each row pooled by the mean, and scaled to the sum that it had
//   risk[h][j]  = max of A over the rows and the query heads of KV head h, and at least the mean of that over j
//   nu[h][j]    = mean over these query heads of ||V[h][j] Wo_q||_1, divided by its sum over the KV heads (as the released code does)
//                 or over the entries of the head
//   score       = risk * nu
//   stays anyway: of each KV head, in order of mean raw attention in parts of the head's whole, the entries before the one at which the
//                 running sum reaches 0.9 - bias, at most budget - w; bias = mean attention of all rows on the window, or (as
//                 released, where the window is cut off before) on the w columns in front of it
// The best columns stay, with the window: of a layer's KV heads together, or of the whole model (Layer-DefensiveKV).
// Source: reference/cache-definitions.md, section 5; Feng et al. 2025 (DefensiveKV); nu and what stays anyway: Feng et al. 2025 (CriticalKV).
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace refreshlab {

namespace {

using Floats = std::vector<float>;

constexpr double covered = 0.9;                                   // of a head's attention
constexpr float stays_anyway = std::numeric_limits<float>::max(); // finite: people look at it

class DefensiveKv final : public CacheMethodBase<DefensiveKv> {
public:
    DefensiveKv(const CacheValues& values, const PolicyContext& context, bool all_layers)
        : m_budget(values.whole("budget"))
        , m_window(values.whole("window"))
        , m_kernel(values.whole("kernel"))
        , m_over_heads(values.whole("value_norm") == 0)
        , m_forced(values.flag("forced"))
        , m_bias_in_front(values.whole("bias") == 1)
        , m_all_layers(all_layers)
        , m_context(context) {
        if (m_budget <= m_window) m_window = std::max<int64_t>(m_budget / 2, 1);
    }

    [[nodiscard]] PolicyNeeds needs() const override {
        return {.prompt_rows = m_window, .output_norms = true};
    }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        if (view.length <= m_budget) return;
        m_layers.push_back({view.layer, view.length - m_window, scores(view)});
        if (!m_all_layers) share(cache);
    }
    void finish_prompt(CacheEditor& cache) override { share(cache); }

private:
    struct Layer {
        int64_t index, columns;     ///< columns before the window
        std::vector<Floats> scores; ///< [KV heads][columns]
    };

    /// Of one layer.
    [[nodiscard]] std::vector<Floats> scores(const PromptView& view) const {
        const std::vector<Floats> weights = value_weights(view);
        const double least = covered - bias(view);
        std::vector<Floats> all;
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            Floats& row = all.emplace_back(risk(view, head));
            for (size_t j = 0; j < row.size(); ++j)
                row[j] *= weights[static_cast<size_t>(head)][j];
            if (!m_forced) continue;
            for (const int64_t j : before_running_sum(attention(view, head), least))
                row[static_cast<size_t>(j)] = stays_anyway;
        }
        return all;
    }

    [[nodiscard]] Floats risk(const PromptView& view, int64_t head) const {
        const auto columns = static_cast<size_t>(view.length - m_window);
        Floats most(columns, 0);
        for_rows(view, head, [&](std::span<const float> row) {
            Floats pooled = cache_scores::pooled(row.first(columns), m_kernel, cache_scores::Pooling::mean);
            const double before = sum(row.first(columns)), after = sum(pooled);
            const auto scale = static_cast<float>(after > 0 ? before / after : 1);
            for (size_t j = 0; j < columns; ++j)
                most[j] = std::max(most[j], pooled[j] * scale);
        });
        const auto mean = static_cast<float>(sum(most) / static_cast<double>(columns));
        for (float& value : most)
            value = std::max(value, mean);
        return most;
    }

    /// Mean over rows and query heads of a KV head.
    [[nodiscard]] Floats attention(const PromptView& view, int64_t head) const {
        const auto columns = static_cast<size_t>(view.length - m_window);
        Floats mean(columns, 0);
        for_rows(view, head, [&](std::span<const float> row) {
            for (size_t j = 0; j < columns; ++j)
                mean[j] += row[j] / static_cast<float>(m_window * m_context.group());
        });
        return mean;
    }

    /// nu, [KV heads][columns].
    [[nodiscard]] std::vector<Floats> value_weights(const PromptView& view) const {
        const auto columns = static_cast<size_t>(view.length - m_window);
        std::vector<Floats> all;
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            const Floats norms = cache_scores::reduce_group(
                cache_scores::heads_of(view.output_norms, m_context, head), cache_scores::Group::mean);
            all.emplace_back(norms.begin(), norms.begin() + static_cast<int64_t>(columns));
        }
        for (size_t j = 0; j < columns && m_over_heads; ++j) {
            float over_heads = 0;
            for (const Floats& row : all)
                over_heads += row[j];
            for (Floats& row : all)
                row[j] = over_heads > 0 ? row[j] / over_heads : 0;
        }
        for (Floats& row : all) {
            const auto over_entries = static_cast<float>(sum(row));
            for (float& value : row)
                if (!m_over_heads && over_entries > 0) value /= over_entries;
        }
        return all;
    }

    /// Mean attention of the rows of all query heads on the window, or on the columns in front of it.
    [[nodiscard]] double bias(const PromptView& view) const {
        double mean = 0;
        for (int64_t head = 0; head < m_context.kv_heads; ++head)
            for_rows(view, head, [&](std::span<const float> row) {
                if (m_bias_in_front) row = row.first(row.size() - static_cast<size_t>(m_window));
                mean += sum(row.last(std::min(row.size(), static_cast<size_t>(m_window))));
            });
        return mean / static_cast<double>(m_window * m_context.heads);
    }

    /// In order of attention, those before the one with which their share of the whole reaches `least`.
    [[nodiscard]] std::vector<int64_t> before_running_sum(const Floats& attention, double least) const {
        const double whole = sum(attention);
        std::vector<int64_t> order(attention.size());
        std::iota(order.begin(), order.end(), 0);
        std::ranges::sort(order, [&](int64_t a, int64_t b) {
            const float x = attention[static_cast<size_t>(a)], y = attention[static_cast<size_t>(b)];
            return x != y ? x > y : a > b;
        });
        const auto most = std::min<size_t>(static_cast<size_t>(m_budget - m_window), order.size());
        double running = 0;
        size_t n = 0;
        for (; n < most && whole > 0; ++n) {
            running += static_cast<double>(attention[static_cast<size_t>(order[n])]) / whole;
            if (running >= least) break;
        }
        order.resize(n);
        return order;
    }

    /// One choice over all heads of the layers that were read since the last.
    void share(CacheEditor& cache) {
        const auto heads = static_cast<size_t>(m_context.kv_heads);
        Floats all;
        for (const Layer& layer : m_layers)
            for (const Floats& row : layer.scores)
                all.insert(all.end(), row.begin(), row.end());
        const int64_t total = std::ssize(m_layers) * m_context.kv_heads * (m_budget - m_window);
        std::vector<std::vector<int64_t>> kept(m_layers.size() * heads);
        for (const int64_t i : cache_scores::top(all, total)) {
            const int64_t columns = m_layers.front().columns; // the same in all
            kept[static_cast<size_t>(i / columns)].push_back(i % columns);
        }
        for (size_t i = 0; i < kept.size(); ++i) {
            const Layer& layer = m_layers[i / heads];
            const auto head = static_cast<int64_t>(i % heads);
            for (int64_t p = layer.columns; p < layer.columns + m_window; ++p)
                kept[i].push_back(p);
            // Column = position: nothing is gone yet.
            const Floats& row = layer.scores[i % heads];
            cache.score(layer.index, head, cache.held(layer.index, head).first(row.size()), row);
            cache.keep(layer.index, head, kept[i]);
        }
        m_layers.clear();
    }

    template <typename Visit>
    void for_rows(const PromptView& view, int64_t head, const Visit& visit) const {
        for (int64_t r = 0; r < m_window; ++r)
            for (int64_t g = 0; g < m_context.group(); ++g)
                visit(view.rows.row(r, head * m_context.group() + g));
    }
    static double sum(std::span<const float> numbers) {
        return std::accumulate(numbers.begin(), numbers.end(), 0.0);
    }

    int64_t m_budget, m_window, m_kernel;
    bool m_over_heads, m_forced, m_bias_in_front, m_all_layers;
    PolicyContext m_context;
    std::vector<Layer> m_layers; ///< of the prompt, until they are shared out
};

CacheMethod method_of(std::string_view name, std::string_view label) {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = name;
    method.label = label;
    method.source = "Feng et al. 2025 (DefensiveKV)";
    method.prompt_only = true;
    method.parameters = {
        budget(),
        window(),
        kernel(5),
        choice("value_norm", "Value norm",
               "Norms of projected values are divided by their sum over the KV heads of a token (released "
               "code), or over the entries of a KV head.",
               {"heads", "entries"}, 0),
        flag("forced", "Keep the attended",
             "What covers 0.9 of a head's mean attention stays, whatever its values.", true),
        choice("bias", "Bias",
               "What the window has of that: its own attention, or (released code) that of the columns in "
               "front of it.",
               {"window", "before_window"}, 0)};
    return method;
}

} // namespace

CacheMethod cache_method_list::defensivekv() {
    CacheMethod method = method_of("defensivekv", "DefensiveKV");
    method.summary = "Of the prompt, what any of its last tokens attends to, weighed by its value; KV heads "
                     "share a layer's budget.";
    method.cost =
        "stores and reads `budget` entries a KV head on average, and the generated ones; a window of "
        "rows and the prompt's values behind the output projection, once";
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<DefensiveKv>(values, context, false);
    };
    return method;
}

CacheMethod cache_method_list::layer_defensivekv() {
    CacheMethod method = method_of("layer_defensivekv", "Layer-DefensiveKV");
    method.summary = "As DefensiveKV; all KV heads of all layers share one budget.";
    method.cost = "stores and reads `budget` entries a KV head on average over the model, and the generated "
                  "ones; a window of rows and the prompt's values behind the output projection, once";
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<DefensiveKv>(values, context, true);
    };
    return method;
}

} // namespace refreshlab
