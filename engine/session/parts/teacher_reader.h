#pragma once

#include "engine/cache/kv_cache.h"
#include "engine/model/bridge/bridge.h"
#include "engine/model/forward.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace refreshlab {

class RowRing;

/// Rows of logits of a teacher pass that are alive at once: 128 x 128,256 x 4 B = 66 MB; chunks are exact.
inline constexpr int64_t pass_chunk = 128;

/// The teacher's side of a session: its cache, which lags behind the student's, and what its rows give. One reading
/// serves a probe and a refresh alike (reference/refresh.md, 6).
class TeacherReader {
public:
    /// \param forward  of the teacher; outlives this
    /// \param bridged  follows the cache where the student has another geometry; null: the student reads the teacher's entries as they are
    TeacherReader(const Forward& forward, std::unique_ptr<KvCache> cache,
                  std::unique_ptr<BridgedCache> bridged = {});
    ~TeacherReader();

    [[nodiscard]] KvCache& cache() { return *m_cache; }
    [[nodiscard]] const KvCache& cache() const { return *m_cache; }
    /// The teacher's columns in the student's geometry: what a hand-over and a splice copy. cache() itself without a bridge.
    [[nodiscard]] const KvCache& entries() const;
    /// cache() has been read into by a pass outside read() (the prefill): entries() has its columns from now on.
    void follow();
    /// Caches as they were after a step. \param teacher_length  at most length()
    void rewind(int64_t step, int64_t teacher_length);
    [[nodiscard]] int64_t length() const { return m_cache->length(); }

    /// What a reading of positions [first, first + tokens) gave.
    struct Reading {
        int64_t first = 0, tokens = 0;
        /// [tokens]: KL(teacher || student) of the rows, nats; absent() where the ring holds no student row.
        std::vector<float> kl_nats;
        /// [tokens]: how the same two rows overlap (kernels/ops/row_overlap.h); absent() where kl_nats is.
        std::vector<float> acceptance, same_top1;
        /// About the token after each position, for the leading positions whose next token is settled.
        std::vector<float> next_logprob, next_agrees, next_rank;
        double ms = 0;
        /// Forgets what speaks of later positions than the first n; the token after position n - 1 is not settled then.
        void keep_first(int64_t n);
    };
    /// Extends the cache over [length(), end); nothing where there is nothing to read.
    /// \param token_at    the token of a position
    /// \param known_end   tokens below this position are settled; the one at it may still be replaced (on_fire)
    /// \param each        gets every row while it is there: the position whose row it is, [vocab], its statistics; may be empty
    using EachRow =
        std::function<void(int64_t position, const at::Tensor& row, const kernels::RowStatistics&)>;
    Reading read(int64_t end, const std::function<int32_t(int64_t)>& token_at, const RowRing& ring,
                 int64_t known_end, const EachRow& each = {});

    /// Keeps the row of position length() - 1 that a pass outside read() made (the prefill).
    void keep_row(const at::Tensor& row);
    /// Row of position length() - 1, [vocab] fp32, the teacher's device.
    [[nodiscard]] const at::Tensor& last_row() const { return m_last_row; }
    [[nodiscard]] const kernels::RowStatistics& last_statistics() const { return *m_last_statistics; }
    /// ln p of a token under last_row().
    [[nodiscard]] double last_logprob(int32_t token) const;
    /// Place of a token in last_row(), from 1.
    [[nodiscard]] int32_t last_rank(int32_t token) const;

private:
    const Forward& m_forward;
    std::unique_ptr<KvCache> m_cache;
    std::unique_ptr<BridgedCache> m_bridged; ///< null: none is needed
    at::Tensor m_last_row;
    std::optional<kernels::RowStatistics> m_last_statistics;
};

} // namespace refreshlab
