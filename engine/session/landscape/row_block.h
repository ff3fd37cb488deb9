#pragma once

#include "engine/cache/kv_cache.h"
#include "engine/landscape/landscape.h"
#include "engine/model/llama_model.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
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

    /// Scratch columns that these rows need.
    [[nodiscard]] static int64_t columns(std::span<const int64_t> rows, int64_t num_tokens);

    /// Computes rows, ascending and not empty (asserted), all of them or none.
    /// \param step_done  after each step, with the cells made so far; false ends it
    /// \return empty when it was ended
    std::vector<std::shared_ptr<const LandscapeRow>>
    compute(std::span<const int64_t> rows, const std::function<bool(int64_t cells)>& step_done);

private:
    const LlamaModel& m_student;
    KvCache& m_cache;
    const LandscapeInfo& m_info;
    const at::Tensor& m_teacher_rows;
    std::vector<size_t> m_ids; ///< of info.values in the registry
    bool m_kl = false, m_attention = false, m_drift = false;
};

} // namespace refreshlab
