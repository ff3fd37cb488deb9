// KIVI: everything stays and is read, older entries in a few bits.
//   keys: per channel over `group_size` consecutive tokens, whenever a residual of R tokens is full
//   values: per token over `group_size` channels, all but the newest R
// The prompt reads itself unquantised. Of a group that a refresh writes into, all is coded again, from what it was read as.
// Source: reference/cache-definitions.md, section 9; Liu et al. 2024 (KIVI).
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/methods/storage/few_bits.h"

#include <algorithm>
#include <array>

namespace refreshlab {

namespace {

class Kivi final : public CacheMethodBase<Kivi> {
public:
    Kivi(const CacheValues& values, const PolicyContext& context)
        : m_residual(values.whole("residual"))
        , m_group(values.whole("group_size"))
        , m_kv_heads(context.kv_heads)
        , m_codecs{std::make_shared<FewBits>(values.whole("bits"), FewBits::Groups::channels, m_group),
                   std::make_shared<FewBits>(values.whole("bits"), FewBits::Groups::rows, m_group, false)}
        , m_coded(static_cast<size_t>(context.layers)) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.encodes = true}; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override { code(view.layer, cache); }
    void after_attention(const StepView& view, CacheEditor& cache) override { code(view.layer, cache); }

private:
    struct Coded {
        int64_t keys = 0, values = 0; ///< of the first positions
    };

    void code(int64_t layer, CacheEditor& cache) {
        Coded& done = m_coded[static_cast<size_t>(layer)];
        const int64_t n = std::ssize(cache.held(layer, 0)); // nothing ever leaves: entry i is position i
        const Coded due{n - (n - done.keys) % m_residual, std::max(done.values, n - m_residual)};
        for (int64_t head = 0; head < m_kv_heads; ++head) {
            for (int64_t first = done.keys; first < due.keys; first += m_group)
                encode(layer, head, KvHalf::keys, first, std::min(m_group, due.keys - first), cache);
            if (due.values > done.values)
                encode(layer, head, KvHalf::values, done.values, due.values - done.values, cache);
        }
        done = due;
    }
    void encode(int64_t layer, int64_t head, KvHalf half, int64_t first, int64_t n,
                CacheEditor& cache) const {
        const auto positions =
            cache.held(layer, head).subspan(static_cast<size_t>(first), static_cast<size_t>(n));
        cache.encode(layer, head, half, positions, m_codecs[static_cast<size_t>(half)]);
    }

    int64_t m_residual, m_group, m_kv_heads;
    std::array<std::shared_ptr<const EntryCodec>, 2> m_codecs; ///< of keys and of values
    std::vector<Coded> m_coded;                                ///< per layer
};

} // namespace

CacheMethod cache_method_list::kivi() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "kivi";
    method.label = "KIVI";
    method.summary = "Everything stays and is read; older entries are stored in a few bits.";
    method.cost = "stores older keys and values in `bits` bits, and 4 B for every `group_size` of them; "
                  "decoded where attention reads";
    method.source = "Liu et al. 2024 (KIVI)";
    method.parameters = {bits(2), residual(128), group_size()};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<Kivi>(values, context);
    };
    return method;
}

} // namespace refreshlab
