#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab {

class KvCache;
class LlamaModel;
struct PolicyNeeds;

/// Interface Backing of reference/cache-definitions.md: where entries come from that a policy reads and its cache does not hold. They
/// stand in the cache while their layer reads them (KvCache::borrow).
class Backing {
public:
    Backing() = default;
    Backing(const Backing&) = delete;
    Backing& operator=(const Backing&) = delete;
    virtual ~Backing() = default;
    /// Before the pass of a step, and after a splice: what was brought before is of no use any more.
    virtual void begin_step() = 0;
    /// Entries of one KV head, ascending: [2, n, head_dim], K then V, on any device.
    [[nodiscard]] virtual at::Tensor fetch(int64_t layer, int64_t kv_head,
                                           std::span<const int64_t> positions) = 0;
    /// What it holds for that at the moment.
    [[nodiscard]] virtual int64_t bytes() const = 0;
};

/// Entries computed again from their tokens, by the model that wrote them: those of the cache's own model in one pass over the tokens
/// that are gone, those of the teacher (prompt and refreshes of mode overfill) taken from its cache, which always holds them. What is
/// gone is a prefix of the sequence, the same everywhere                                                          (asserted)
///
/// Bits    on the CPU those that were evicted, as long as every earlier column is what it was when they were written: not where a
///         splice changed columns under student entries that stay (a window, a lag).
/// Cost    once a step: a pass over what is gone, and a dense cache of it while the step runs.
class RecomputedEntries final : public Backing {
public:
    /// \param cache    whose entries they are
    /// \param teacher  that wrote entries of origin teacher_*; null: the model wrote all of them itself
    /// All outlive this.
    RecomputedEntries(const LlamaModel& model, const KvCache& cache, const KvCache* teacher,
                      std::function<int32_t(int64_t position)> token_at);
    ~RecomputedEntries() override;
    void begin_step() override;
    [[nodiscard]] at::Tensor fetch(int64_t layer, int64_t kv_head,
                                   std::span<const int64_t> positions) override;
    [[nodiscard]] int64_t bytes() const override;

private:
    class TeacherColumns;
    void compute(int64_t end);

    const LlamaModel& m_model;
    const KvCache& m_cache;
    const KvCache* m_teacher;
    std::function<int32_t(int64_t)> m_token_at;
    std::unique_ptr<KvCache> m_columns; ///< of what is gone; null: nothing was asked for in this step
};

/// Entries of a lower layer at the same positions, in place of a layer's own (PolicyNeeds::reads_layer).
class LowerLayerEntries final : public Backing {
public:
    /// \param cache        outlives this
    /// \param reads_layer  [layers]
    LowerLayerEntries(const KvCache& cache, std::vector<int64_t> reads_layer);
    void begin_step() override {}
    [[nodiscard]] at::Tensor fetch(int64_t layer, int64_t kv_head,
                                   std::span<const int64_t> positions) override;
    [[nodiscard]] int64_t bytes() const override { return 0; }

private:
    const KvCache& m_cache;
    std::vector<int64_t> m_reads_layer;
};

/// Where a policy's entries come from that its cache does not hold; null: it needs none. The arguments are those of RecomputedEntries.
[[nodiscard]] std::unique_ptr<Backing> make_backing(const PolicyNeeds& needs, const LlamaModel& model,
                                                    const KvCache& cache, const KvCache* teacher,
                                                    std::function<int32_t(int64_t position)> token_at);

} // namespace refreshlab
