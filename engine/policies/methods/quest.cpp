// Quest: everything stays; a step reads the pages of 16 entries whose keys could match its query best. A page is known by the
// smallest and largest value of each key channel, so its score bounds every q.k in it from above.
// Source: reference/cache-definitions.md, section 6; Tang et al. 2024.
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>
#include <limits>

namespace refreshlab {

namespace {

class Quest final : public CacheMethodBase<Quest> {
public:
    Quest(int64_t budget, int64_t page, int64_t dense_layers, const PolicyContext& context)
        : m_page(page)
        , m_pages_read(std::max<int64_t>(3, budget / page))
        , m_dense_layers(dense_layers)
        , m_context(context)
        , m_bounds(static_cast<size_t>(context.layers * context.kv_heads)) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.edits = false, .query = true}; }

    const HeadPositions* before_attention(const StepView& view, CacheEditor& cache) override {
        if (view.layer < m_dense_layers) return nullptr;
        m_chosen.assign(static_cast<size_t>(m_context.kv_heads), {});
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            measure(view.layer, head, view.position + 1, cache);
            const std::vector<float>& bounds = bounds_of(view.layer, head);
            const int64_t pages = std::ssize(bounds) / (2 * m_context.head_dim);
            std::vector<float> scores(static_cast<size_t>(pages));
            for (int64_t page = 0; page < pages; ++page)
                scores[static_cast<size_t>(page)] = score(view, head, bounds, page);
            if (cache.wants_scores()) tell(view, head, scores, cache);
            scores.back() = std::numeric_limits<float>::infinity(); // the newest page, within the budget
            for (const int64_t page : cache_scores::top(scores, m_pages_read)) {
                for (int64_t p = page * m_page; p < std::min((page + 1) * m_page, view.position + 1); ++p)
                    m_chosen[static_cast<size_t>(head)].push_back(p);
            }
        }
        return &m_chosen;
    }

    void refreshed(const EntrySelection& written, const CacheEditor& cache) override {
        const int64_t first_page = written.positions.front() / m_page,
                      last_page = written.positions.back() / m_page;
        for (const int64_t at : written.head_numbers()) {
            const int64_t layer = at / m_context.kv_heads, head = at % m_context.kv_heads;
            if (m_bounds[static_cast<size_t>(at)].empty()) continue;
            const int64_t end = std::ssize(cache.held(layer, head));
            for (int64_t page = first_page; page <= last_page; ++page)
                measure_page(layer, head, page, end, cache);
        }
    }

    void set_values(const CacheValues& values) override {
        m_pages_read = std::max<int64_t>(3, values.whole("budget") / m_page);
        m_dense_layers = values.whole("dense_layers");
    }

private:
    [[nodiscard]] std::vector<float>& bounds_of(int64_t layer, int64_t head) {
        return m_bounds[static_cast<size_t>(layer * m_context.kv_heads + head)];
    }

    /// Bounds of the pages of [0, end) that are new or have grown.
    void measure(int64_t layer, int64_t head, int64_t end, const CacheEditor& cache) {
        const int64_t known = std::ssize(bounds_of(layer, head)) / (2 * m_context.head_dim);
        for (int64_t page = std::max<int64_t>(known - 1, 0); page * m_page < end; ++page)
            measure_page(layer, head, page, end, cache);
    }
    void measure_page(int64_t layer, int64_t head, int64_t page, int64_t end, const CacheEditor& cache) {
        const auto d = static_cast<size_t>(m_context.head_dim);
        std::vector<int64_t> positions;
        for (int64_t p = page * m_page; p < std::min((page + 1) * m_page, end); ++p)
            positions.push_back(p);
        if (positions.empty()) return;
        const std::vector<float> keys = cache.keys(layer, head, positions);
        std::vector<float>& all = bounds_of(layer, head);
        all.resize(std::max(all.size(), static_cast<size_t>(page + 1) * 2 * d));
        float* const low = all.data() + static_cast<size_t>(page) * 2 * d;
        float* const high = low + d;
        std::copy_n(keys.begin(), d, low);
        std::copy_n(keys.begin(), d, high);
        for (size_t i = d; i < keys.size(); ++i) {
            low[i % d] = std::min(low[i % d], keys[i]);
            high[i % d] = std::max(high[i % d], keys[i]);
        }
    }

    /// Every entry has its page's score.
    void tell(const StepView& view, int64_t head, std::span<const float> pages, CacheEditor& cache) const {
        std::vector<int64_t> positions;
        std::vector<float> scores;
        for (int64_t p = 0; p <= view.position; ++p) {
            positions.push_back(p);
            scores.push_back(pages[static_cast<size_t>(p / m_page)]);
        }
        cache.score(view.layer, head, positions, scores);
    }

    /// The largest over the query heads of sum_c max(q_c low_c, q_c high_c).
    [[nodiscard]] float score(const StepView& view, int64_t head, const std::vector<float>& bounds,
                              int64_t page) const {
        const auto d = static_cast<size_t>(m_context.head_dim);
        const float* const low = bounds.data() + static_cast<size_t>(page) * 2 * d;
        const float* const high = low + d;
        float best = -std::numeric_limits<float>::infinity();
        for (int64_t g = 0; g < m_context.group(); ++g) {
            const auto q = view.query.row(0, head * m_context.group() + g);
            float sum = 0;
            for (size_t c = 0; c < d; ++c)
                sum += std::max(q[c] * low[c], q[c] * high[c]);
            best = std::max(best, sum);
        }
        return best;
    }

    int64_t m_page, m_pages_read, m_dense_layers;
    PolicyContext m_context;
    std::vector<std::vector<float>> m_bounds; ///< per layer and KV head: [pages][low, high][head_dim]
    HeadPositions m_chosen;
};

} // namespace

CacheMethod cache_method_list::quest() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "quest";
    method.label = "Quest";
    method.summary =
        "Everything stays; a step reads the pages that could match its query best, and the newest one.";
    method.cost = "stores n entries and 1 more a page, reads `budget` of them";
    method.source = "Tang et al. 2024";
    method.parameters = {live(budget()),
                         whole("page", "Page", "entries", "Entries that are chosen together.", 1, 1024, 16),
                         live(dense_layers())};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<Quest>(values.whole("budget"), values.whole("page"),
                                       values.whole("dense_layers"), context);
    };
    return method;
}

} // namespace refreshlab
