// StreamingLLM: the first `sinks` entries and the newest `budget - sinks` stay; room is made before a token is read.
//
// Re-indexed positions: the original rotates keys by their slot 0 .. n-1 and the query by n-1. Only differences of positions
// count, and those among the newest entries and the query are slots' differences already. So it is enough to turn the sinks
// further by the gap p - (n-1) that eviction has left behind them: the same scores up to rounding, and a few keys written per
// step. They are turned from what they were, so rounding does not add up.
// Source: reference/cache-definitions.md, section 4; Xiao et al. 2023.
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace refreshlab {

namespace {

class StreamingLlm final : public CacheMethodBase<StreamingLlm> {
public:
    StreamingLlm(int64_t budget, int64_t sinks, bool keep_positions, const PolicyContext& context)
        : m_budget(budget)
        , m_sinks(std::min(sinks, budget - 1)) // the newest token has a place of its own
        , m_keep_positions(keep_positions)
        , m_context(context)
        , m_keys(static_cast<size_t>(context.layers * context.kv_heads)) {}

    void read_prompt(const PromptView& view, CacheEditor& cache) override { trim(view.layer, cache); }

    const HeadPositions* before_attention(const StepView& view, CacheEditor& cache) override {
        trim(view.layer, cache);
        if (!m_keep_positions) turn_sinks(view, cache);
        return nullptr;
    }

    void refreshed(const EntrySelection& written, const CacheEditor& cache) override {
        if (!written.halves.keys) return;
        // A sink that was written during the run, and is now the teacher's, as the teacher rotated it.
        for (const int64_t at : written.head_numbers()) {
            const auto layer = at / m_context.kv_heads, head = at % m_context.kv_heads;
            auto& keys = m_keys[static_cast<size_t>(at)];
            for (const int64_t sink : written.positions) {
                if (sink >= m_sinks || keys.empty()) break;
                const std::vector<float> key = cache.keys(layer, head, std::span(&sink, 1));
                std::ranges::copy(key, keys.begin() + sink * m_context.head_dim);
            }
        }
    }

private:
    void trim(int64_t layer, CacheEditor& cache) const {
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            const auto held = cache.held(layer, head);
            const int64_t excess = std::ssize(held) - m_budget;
            if (excess <= 0) continue;
            const auto first = held.begin() + m_sinks;
            const std::vector<int64_t> gone(first, first + excess);
            cache.evict(layer, head, gone);
        }
    }

    void turn_sinks(const StepView& view, CacheEditor& cache) {
        if (!m_context.turns(view.layer)) return; // its keys know no position
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            const int64_t gap = view.position - (std::ssize(cache.held(view.layer, head)) - 1);
            if (gap == 0 || m_sinks == 0) continue;
            std::vector<int64_t> sinks(static_cast<size_t>(m_sinks));
            std::iota(sinks.begin(), sinks.end(), 0);
            std::vector<float>& keys = m_keys[static_cast<size_t>(view.layer * m_context.kv_heads + head)];
            if (keys.empty()) keys = cache.keys(view.layer, head, sinks);
            cache.rewrite(view.layer, head, sinks, turned(keys, gap), {});
        }
    }

    /// Keys rotated `gap` positions further.
    [[nodiscard]] std::vector<float> turned(std::vector<float> keys, int64_t gap) const {
        const auto half = static_cast<size_t>(m_context.head_dim / 2);
        for (size_t c = 0; c < half; ++c) {
            const double angle =
                static_cast<double>(gap) * static_cast<double>(m_context.rope_frequencies[c]);
            const auto cosine = static_cast<float>(std::cos(angle)),
                       sine = static_cast<float>(std::sin(angle));
            for (size_t key = c; key < keys.size(); key += 2 * half) {
                const float x = keys[key], y = keys[key + half];
                keys[key] = x * cosine - y * sine;
                keys[key + half] = y * cosine + x * sine;
            }
        }
        return keys;
    }

    int64_t m_budget, m_sinks;
    bool m_keep_positions;
    PolicyContext m_context;
    std::vector<std::vector<float>>
        m_keys; ///< of the sinks as they were written, per layer and KV head; empty: not turned yet
};

} // namespace

CacheMethod cache_method_list::streaming_llm() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "streaming_llm";
    method.label = "StreamingLLM";
    method.summary = "The first tokens (attention sinks) and the newest ones stay.";
    method.cost = "stores and reads `budget` entries";
    method.source = "Xiao et al. 2023";
    method.parameters = {
        budget(), sinks(),
        flag("keep_positions", "Keep positions",
             "Tokens keep their true positions; off: they are counted anew within the cache.", false)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<StreamingLlm>(values.whole("budget"), values.whole("sinks"),
                                              values.flag("keep_positions"), context);
    };
    return method;
}

} // namespace refreshlab
