#pragma once

#include "engine/policies/cache_policy.h"
#include "engine/policies/entry_codec.h"
#include "engine/record/recording/entry_scores.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab {

class KvCache;

/// A policy's edits of a cache, at once, marked with a step for the journal.
class CacheEdits final : public CacheEditor {
public:
    explicit CacheEdits(KvCache& cache)
        : m_cache(cache) {}
    void set_step(int64_t step) { m_step = step; } ///< of the edits that follow; 0 = the prompt
    /// Where scores are told; null: nowhere. Outlives the edits that follow.
    void set_scores(EntryScores* scores) { m_scores = scores; }

    [[nodiscard]] std::span<const int64_t> held(int64_t layer, int64_t kv_head) const override;
    [[nodiscard]] std::vector<float> keys(int64_t layer, int64_t kv_head,
                                          std::span<const int64_t> positions) const override;
    [[nodiscard]] std::vector<float> values(int64_t layer, int64_t kv_head,
                                            std::span<const int64_t> positions) const override;
    void evict(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) override;
    void merge_away(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) override;
    void rewrite(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                 std::span<const float> keys, std::span<const float> values) override;
    void merge_into(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                    std::span<const float> keys, std::span<const float> values) override;
    void encode(int64_t layer, int64_t kv_head, KvHalf half, std::span<const int64_t> positions,
                std::shared_ptr<const EntryCodec> codec) override;
    void score(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
               std::span<const float> scores) override;
    [[nodiscard]] bool wants_scores() const override { return m_scores != nullptr && m_scores->asked(); }

private:
    /// The entries with one half or both written anew.
    [[nodiscard]] at::Tensor changed(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                                     std::span<const float> keys, std::span<const float> values) const;
    KvCache& m_cache;
    EntryScores* m_scores = nullptr;
    int64_t m_step = 0;
};

/// A policy's edits of a prompt while it is read: remembered, and made when the cache that they are for holds the prompt. Until then
/// contents come from the cache that the prompt is read into, whose entries are the same.
class PromptEdits final : public CacheEditor {
public:
    PromptEdits(int64_t layers, int64_t kv_heads, int64_t length);
    void set_source(const KvCache& cache) { m_source = &cache; } ///< before anything is read

    /// Makes them, layer after layer.
    void apply(CacheEdits& cache) const;

    [[nodiscard]] std::span<const int64_t> held(int64_t layer, int64_t kv_head) const override;
    [[nodiscard]] std::vector<float> keys(int64_t layer, int64_t kv_head,
                                          std::span<const int64_t> positions) const override;
    [[nodiscard]] std::vector<float> values(int64_t layer, int64_t kv_head,
                                            std::span<const int64_t> positions) const override;
    void evict(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) override;
    void merge_away(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) override;
    void rewrite(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                 std::span<const float> keys, std::span<const float> values) override;
    void merge_into(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                    std::span<const float> keys, std::span<const float> values) override;
    void encode(int64_t layer, int64_t kv_head, KvHalf half, std::span<const int64_t> positions,
                std::shared_ptr<const EntryCodec> codec) override;
    void score(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
               std::span<const float> scores) override;
    [[nodiscard]] bool wants_scores() const override { return true; }

private:
    enum class Kind : uint8_t { evicted, merged, rewritten, merged_into, encoded, scored };
    struct Edit {
        Kind kind;
        int64_t layer, kv_head;
        std::vector<int64_t> positions;
        std::vector<float> keys, values;         ///< of a scored one: the scores as keys
        std::shared_ptr<const EntryCodec> codec; ///< of encoded entries
        KvHalf half{};
    };
    void take_away(Kind kind, int64_t layer, int64_t kv_head, std::span<const int64_t> positions);

    int64_t m_kv_heads;
    const KvCache* m_source = nullptr;
    std::vector<std::vector<int64_t>> m_held; ///< [layers * kv_heads]
    std::vector<Edit> m_edits;                ///< in order
};

} // namespace refreshlab
