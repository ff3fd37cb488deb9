// Sliding window of size w: at position p only (p - w, p] is read. The prompt is read in full and trimmed after it (our choice), or
// under the same band.
// Source: reference/cache-definitions.md, section 4; Beltagy et al. 2020 (Longformer).
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>

namespace refreshlab {

namespace {

class SlidingWindow final : public CacheMethodBase<SlidingWindow> {
public:
    SlidingWindow(int64_t size, bool banded_prefill, int64_t kv_heads)
        : m_size(size)
        , m_band(banded_prefill ? size : 0)
        , m_kv_heads(kv_heads) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.prompt_band = m_band}; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        trim(view.layer, view.length - 1, cache);
    }
    /// Room is made before the new token is read, so that it reads w entries, itself included.
    const HeadPositions* before_attention(const StepView& view, CacheEditor& cache) override {
        trim(view.layer, view.position, cache);
        return nullptr;
    }
    void set_values(const CacheValues& values) override { m_size = values.whole("budget"); }

private:
    void trim(int64_t layer, int64_t newest, CacheEditor& cache) const {
        for (int64_t head = 0; head < m_kv_heads; ++head) {
            const auto held = cache.held(layer, head);
            const std::vector<int64_t> gone(held.begin(), std::ranges::upper_bound(held, newest - m_size));
            cache.evict(layer, head, gone);
        }
    }

    int64_t m_size, m_band, m_kv_heads;
};

} // namespace

CacheMethod cache_method_list::sliding_window() {
    CacheMethod method;
    method.name = "sliding_window";
    method.label = "Sliding window";
    method.summary = "The newest tokens stay, whatever they are.";
    method.cost = "stores and reads `budget` entries";
    method.source = "Beltagy et al. 2020 (Longformer)";
    method.parameters = {
        cache_parameters::live(cache_parameters::budget()),
        cache_parameters::flag("banded_prefill", "Band over the prompt",
                               "The tokens of the prompt see no more than the window, as those after it.",
                               false)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<SlidingWindow>(values.whole("budget"), values.flag("banded_prefill"),
                                               context.kv_heads);
    };
    return method;
}

} // namespace refreshlab
