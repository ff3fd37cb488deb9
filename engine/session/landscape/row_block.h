#pragma once

#include "engine/cache/kv_cache.h"
#include "engine/landscape/landscape.h"
#include "engine/model/forward.h"
#include "engine/model/llama_model.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab {

/// Several rows of a landscape in one forward per step: each stands in its own row, all feed the same token at the same
/// position. They share the teacher's columns and write their own behind them, in scratch columns of the cache, so that no
/// session's cache is touched; the scratch is dropped at the end.
class RowBlock {
public:
    /// All outlive this.
    /// \param cache         of the student; holds the teacher's columns [0, L + N - 1), and room for columns() more
    /// \param teacher_rows  [N - 1, vocab] fp32: the teacher's rows of steps 1 .. N - 1; undefined where no value needs them
    RowBlock(const LlamaModel& student, KvCache& cache, const LandscapeInfo& info,
             const at::Tensor& teacher_rows);

    /// Scratch columns that these rows need, MC rows apart: those need info.mc.samples columns a row, for one step each.
    [[nodiscard]] static int64_t columns(std::span<const int64_t> rows, int64_t num_tokens);

    /// Drops the scratch columns of rows that were not finished.
    ~RowBlock();
    RowBlock(const RowBlock&) = delete;
    RowBlock& operator=(const RowBlock&) = delete;

    /// Rows that the following steps compute, ascending and not empty; those before are done           (asserted)
    void begin(std::span<const int64_t> rows);
    /// One forward: the next column of all rows that have it. Rows that were begun are not done yet     (asserted)
    /// \return cells that it made
    int64_t step();
    [[nodiscard]] bool done() const { return m_next > m_steps; }
    /// The rows, once they are done (asserted). Each has every cell.
    [[nodiscard]] std::vector<std::shared_ptr<const LandscapeRow>> take();

private:
    /// Values of this step's cells, which stand in columns [first, first + n) of the cache.
    struct Seen;
    void put_cells(const Seen& seen);

    const LlamaModel& m_student;
    KvCache& m_cache;
    const LandscapeInfo& m_info;
    const at::Tensor& m_teacher_rows;
    std::vector<size_t> m_ids; ///< of info.values in the registry
    McRequest m_mc;            ///< passes 0: no value needs them
    bool m_kl = false, m_overlap = false, m_attention = false, m_drift = false;
    // Of the rows that are under way.
    std::vector<int64_t> m_rows, m_visible;
    std::vector<std::shared_ptr<LandscapeRow>> m_out;
    std::vector<std::vector<int64_t>> m_tails; ///< per row: its scratch columns
    int64_t m_shared = 0;                      ///< the teacher's columns
    int64_t m_steps = 0, m_next = 1;           ///< N - 1, and the step that comes
};

} // namespace refreshlab
