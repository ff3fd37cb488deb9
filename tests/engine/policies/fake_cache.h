#pragma once

#include "engine/policies/cache_method.h"
#include "engine/policies/cache_policy_config.h"
#include "engine/policies/entry_codec.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace refreshlab::test {

/// A cache of positions alone, with keys and values that a test sets, and blocks that a policy encodes.
class FakeCache final : public CacheEditor {
public:
    FakeCache(int64_t layers, int64_t kv_heads, int64_t length, int64_t head_dim = 2)
        : m_kv_heads(kv_heads)
        , m_head_dim(head_dim)
        , m_held(static_cast<size_t>(layers * kv_heads), std::vector<int64_t>(static_cast<size_t>(length)))
        , m_keys(512, std::vector<float>(static_cast<size_t>(head_dim), 0.0F))
        , m_values(m_keys) {
        for (auto& held : m_held)
            std::iota(held.begin(), held.end(), 0);
    }
    void append(int64_t position) {
        check_choices();
        for (auto& held : m_held)
            held.push_back(position);
    }
    [[nodiscard]] const std::vector<int64_t>& of(int64_t layer, int64_t head) const {
        return m_held[static_cast<size_t>(layer * m_kv_heads + head)];
    }
    std::vector<float>& key(int64_t position) { return m_keys[static_cast<size_t>(position)]; }
    std::vector<float>& value(int64_t position) { return m_values[static_cast<size_t>(position)]; }
    struct Block {
        KvHalf half;
        std::vector<int64_t> positions;
        std::shared_ptr<const EntryCodec> codec;
    };
    std::vector<Block> blocks;           ///< in the order of encode()
    std::vector<int64_t> merged, spoilt; ///< positions of merge_away() and merge_into()

    [[nodiscard]] std::span<const int64_t> held(int64_t layer, int64_t head) const override {
        return of(layer, head);
    }
    [[nodiscard]] std::vector<float> keys(int64_t, int64_t,
                                          std::span<const int64_t> positions) const override {
        return rows_of(m_keys, positions);
    }
    [[nodiscard]] std::vector<float> values(int64_t, int64_t,
                                            std::span<const int64_t> positions) const override {
        return rows_of(m_values, positions);
    }
    ~FakeCache() override { check_choices(); }
    FakeCache(const FakeCache&) = delete;
    FakeCache& operator=(const FakeCache&) = delete;
    /// What was last told of a plane, by position.
    std::map<int64_t, std::map<int64_t, float>> scores;
    void score(int64_t layer, int64_t head, std::span<const int64_t> positions,
               std::span<const float> told) override {
        CHECK(positions.size() == told.size());
        const auto& held = of(layer, head);
        auto& known = scores[layer * m_kv_heads + head];
        known.clear();
        for (size_t i = 0; i < positions.size(); ++i) {
            CHECK(std::ranges::binary_search(held, positions[i])); // told before the choice
            known[positions[i]] = told[i];
        }
    }
    /// Of what was told together nothing has left that is above what stayed.
    void check_choices() const {
        for (const auto& [plane, known] : scores) {
            float most_gone = -std::numeric_limits<float>::infinity(), least_held = -most_gone;
            for (const auto& [position, score] : known) {
                const bool stays = std::ranges::binary_search(m_held[static_cast<size_t>(plane)], position);
                (stays ? least_held : most_gone) =
                    stays ? std::min(least_held, score) : std::max(most_gone, score);
            }
            CHECK(most_gone <= least_held);
        }
    }
    [[nodiscard]] bool wants_scores() const override { return true; }
    void evict(int64_t layer, int64_t head, std::span<const int64_t> positions) override {
        auto& held = m_held[static_cast<size_t>(layer * m_kv_heads + head)];
        const std::vector<int64_t> gone(positions.begin(), positions.end());
        std::vector<int64_t> left;
        std::ranges::set_difference(held, gone, std::back_inserter(left));
        held = left;
    }
    void merge_away(int64_t layer, int64_t head, std::span<const int64_t> positions) override {
        merged.insert(merged.end(), positions.begin(), positions.end());
        evict(layer, head, positions);
    }
    void rewrite(int64_t, int64_t, std::span<const int64_t> positions, std::span<const float> keys,
                 std::span<const float> values) override {
        const auto d = static_cast<size_t>(m_head_dim);
        for (size_t i = 0; i < positions.size(); ++i) {
            const auto at = static_cast<size_t>(positions[i]);
            if (!keys.empty()) std::ranges::copy(keys.subspan(i * d, d), m_keys[at].begin());
            if (!values.empty()) std::ranges::copy(values.subspan(i * d, d), m_values[at].begin());
        }
    }
    void merge_into(int64_t layer, int64_t head, std::span<const int64_t> positions,
                    std::span<const float> keys, std::span<const float> values) override {
        spoilt.insert(spoilt.end(), positions.begin(), positions.end());
        rewrite(layer, head, positions, keys, values);
    }
    void encode(int64_t, int64_t, KvHalf half, std::span<const int64_t> positions,
                std::shared_ptr<const EntryCodec> codec) override {
        blocks.push_back({half, {positions.begin(), positions.end()}, std::move(codec)});
    }

private:
    using Table = std::vector<std::vector<float>>; ///< by position, the same in all heads
    [[nodiscard]] static std::vector<float> rows_of(const Table& table, std::span<const int64_t> positions) {
        std::vector<float> all;
        for (const int64_t p : positions)
            all.insert(all.end(), table[static_cast<size_t>(p)].begin(), table[static_cast<size_t>(p)].end());
        return all;
    }
    int64_t m_kv_heads, m_head_dim;
    std::vector<std::vector<int64_t>> m_held;
    Table m_keys, m_values;
};

using Values = std::initializer_list<std::pair<const char*, double>>;

inline std::unique_ptr<CachePolicy> make(const char* name, Values values, const PolicyContext& context) {
    CachePolicyConfig config = cache_policy_defaults(name, "a test");
    for (const auto& [key, value] : values)
        config.values.find(key)->second = value;
    check_cache_policy(config, 1 << 20, "a test");
    return make_cache_policy(config, context);
}

/// Rows of attention, [n0][n1][n2], with the view of them.
struct Rows {
    std::vector<float> numbers;
    Cube cube;
    Rows(std::vector<float> all, int64_t n0, int64_t n1)
        : numbers(std::move(all))
        , cube{numbers.data(), n0, n1, std::ssize(numbers) / (n0 * n1)} {}
    Rows(const Rows&) = delete;
};

} // namespace refreshlab::test
