// MiKV (mixed precision): everything stays and is read; what H2O would evict is stored in a few bits instead.
//   acc[j] = attention that entry j received from every query so far, mean over the query heads of the KV head
//   as they are: the newest part of the budget (`recent`), and of the others those with the largest acc. What is once coded stays so
//   codes: per token over `group_size` channels, as KIVI's values. Key channels are balanced before it: beta_c = sqrt(max |q_c| /
//   max |k_c|) over the prompt, of a KV head; beta k is coded, and divided by beta when it is read. Values: beta = 1
// Source: reference/cache-definitions.md, section 9; Yang et al. 2024 (MiKV).
#include "engine/policies/cache_scores.h"
#include "engine/policies/code_products.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/methods/storage/few_bits.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace refreshlab {

namespace {

using Floats = std::vector<float>;

/// Rows times beta, in few bits. Beside whole entries, which may stand anywhere, codes are read turned: so no row is made.
class Balanced final : public EntryCodec {
public:
    Balanced(Floats beta, int64_t bits, int64_t group)
        : m_beta(std::move(beta))
        , m_codes(bits, FewBits::Groups::rows, group, false) {}

    [[nodiscard]] EncodedBlock encode(std::span<const float> rows, const BlockShape& shape) const override {
        Floats balanced(rows.begin(), rows.end());
        for (size_t i = 0; i < balanced.size(); ++i)
            balanced[i] *= m_beta[i % m_beta.size()];
        return m_codes.encode(balanced, shape);
    }
    void decode(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                float* to) const override {
        m_codes.decode(block, shape, part, to);
        for (size_t i = 0; i < part.rows.size(); ++i)
            for (int64_t c = 0; c < part.channels; ++c)
                *to++ /= m_beta[static_cast<size_t>(part.first_channel + c)];
    }
    [[nodiscard]] bool joins(int64_t head_dim) const override { return m_codes.joins(head_dim); }
    // Turned, the query is divided, or the sum.
    [[nodiscard]] int64_t turned_width(int64_t head_dim) const override { return head_dim; }
    void turn(std::span<const float> query, float* to) const override {
        for (size_t c = 0; c < query.size(); ++c)
            *to++ = query[c] / m_beta[c];
    }
    void turn_back(const float* sum, std::span<float> to) const override {
        for (size_t c = 0; c < to.size(); ++c)
            to[c] += sum[c] / m_beta[c];
    }
    void read_turned(const EncodedBlock& block, const BlockShape& shape, std::span<const int64_t> rows,
                     float* to) const override {
        m_codes.decode(block, shape, {rows, 0, shape.head_dim}, to);
    }
    [[nodiscard]] bool dots(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                            bool turned, const CodeDots& d) const override {
        return turned && m_codes.dots(block, shape, part, turned, d);
    }
    [[nodiscard]] bool sums(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                            bool turned, const CodeSums& s) const override {
        return turned && m_codes.sums(block, shape, part, turned, s);
    }

private:
    Floats m_beta; ///< [head_dim]
    FewBits m_codes;
};

class MiKv final : public CacheMethodBase<MiKv> {
public:
    MiKv(const CacheValues& values, const PolicyContext& context)
        : m_budget(values.whole("budget"))
        , m_bits(values.whole("bits"))
        , m_group(values.whole("group_size"))
        , m_recent(values.real("recent"))
        , m_balance(values.flag("balance"))
        , m_context(context)
        , m_values(
              std::make_shared<Balanced>(Floats(static_cast<size_t>(context.head_dim), 1), m_bits, m_group))
        , m_heads(static_cast<size_t>(context.layers * context.kv_heads)) {}

    [[nodiscard]] PolicyNeeds needs() const override {
        return {.prompt_sums = true,
                .prompt_queries = m_balance ? m_context.prompt_length : 0,
                .row = true,
                .encodes = true};
    }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        for (int64_t index = 0; index < m_context.kv_heads; ++index) {
            Head& head = of(view.layer, index);
            head.acc = cache_scores::reduce_group(cache_scores::heads_of(view.sums, m_context, index),
                                                  cache_scores::Group::mean);
            head.keys = std::make_shared<Balanced>(beta(view, index, cache), m_bits, m_group);
            demote(view.layer, index, cache);
        }
    }
    void after_attention(const StepView& view, CacheEditor& cache) override {
        for (int64_t index = 0; index < m_context.kv_heads; ++index) {
            const auto rows = cache_scores::heads_of(view.row, m_context, index);
            Head& head = of(view.layer, index);
            head.acc.resize(rows[0].size(), 0);
            cache_scores::add_group_mean(rows, head.acc);
            demote(view.layer, index, cache);
        }
    }

private:
    struct Head {
        Floats acc;                 ///< of every entry: nothing leaves, so entry i is position i
        std::vector<int64_t> whole; ///< entries that are as they were, ascending
        int64_t seen = 0;           ///< entries that `whole` has been told of
        std::shared_ptr<const EntryCodec> keys;
    };
    [[nodiscard]] Head& of(int64_t layer, int64_t index) {
        return m_heads[static_cast<size_t>(layer * m_context.kv_heads + index)];
    }

    [[nodiscard]] Floats beta(const PromptView& view, int64_t index, const CacheEditor& cache) const {
        const auto d = static_cast<size_t>(m_context.head_dim);
        Floats result(d, 1);
        if (!m_balance) return result;
        Floats most_q(d, 0), most_k(d, 0);
        for (int64_t row = 0; row < view.queries.n0; ++row)
            for (int64_t g = 0; g < m_context.group(); ++g) {
                const auto q = view.queries.row(row, index * m_context.group() + g);
                for (size_t c = 0; c < d; ++c)
                    most_q[c] = std::max(most_q[c], std::abs(q[c]));
            }
        const Floats keys = cache.keys(view.layer, index, cache.held(view.layer, index));
        for (size_t i = 0; i < keys.size(); ++i)
            most_k[i % d] = std::max(most_k[i % d], std::abs(keys[i]));
        for (size_t c = 0; c < d; ++c)
            if (most_q[c] > 0 && most_k[c] > 0) result[c] = std::sqrt(most_q[c] / most_k[c]);
        return result;
    }

    /// Codes what is one too many of those that are as they were.
    void demote(int64_t layer, int64_t index, CacheEditor& cache) {
        Head& head = of(layer, index);
        const int64_t n = std::ssize(head.acc);
        for (; head.seen < n; ++head.seen)
            head.whole.push_back(head.seen);
        const auto heavy = static_cast<int64_t>(static_cast<double>(m_budget) * (1 - m_recent));
        const int64_t old = n - (m_budget - heavy);
        const auto candidates = std::ranges::lower_bound(head.whole, old) - head.whole.begin();
        if (candidates <= heavy) return;
        Floats scores;
        for (const int64_t i : std::span(head.whole).first(static_cast<size_t>(candidates)))
            scores.push_back(head.acc[static_cast<size_t>(i)]);
        std::vector<int64_t> kept, leave;
        for (const int64_t i : cache_scores::top(scores, heavy))
            kept.push_back(head.whole[static_cast<size_t>(i)]);
        std::ranges::set_difference(head.whole.begin(), head.whole.begin() + candidates, kept.begin(),
                                    kept.end(), std::back_inserter(leave));
        kept.insert(kept.end(), head.whole.begin() + candidates, head.whole.end()); // the newest
        head.whole = std::move(kept);
        cache.encode(layer, index, KvHalf::keys, leave, head.keys);
        cache.encode(layer, index, KvHalf::values, leave, m_values);
    }

    int64_t m_budget, m_bits, m_group;
    double m_recent; ///< share of the budget
    bool m_balance;
    PolicyContext m_context;
    std::shared_ptr<const EntryCodec> m_values;
    std::vector<Head> m_heads; ///< [layers * kv_heads]
};

} // namespace

CacheMethod cache_method_list::mikv() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "mikv";
    method.label = "MiKV";
    method.summary = "Everything stays and is read; what H2O would evict is stored in a few bits.";
    method.cost = "stores `budget` entries, and the others in `bits` bits with 4 B for every `group_size` "
                  "numbers; decoded where "
                  "attention reads; column sums of the prompt, a row a step";
    method.source = "Yang et al. 2024 (MiKV)";
    method.parameters = {budget(), recent(), bits(4), group_size(),
                         flag("balance", "Balance",
                              "Key channels are scaled by what queries and keys of the prompt reach.", true)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<MiKv>(values, context);
    };
    return method;
}

} // namespace refreshlab
