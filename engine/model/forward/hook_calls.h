#pragma once

#include "engine/base/head_positions.h"
#include "engine/model/forward/layer_hooks.h"
#include "kernels/ops/attention.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

class KvCache;

/// The hooks of one pass as one: each call goes to all of them, in their order.
class HookCalls {
public:
    /// \param hooks  not null (asserted); outlive this
    explicit HookCalls(std::span<LayerHooks* const> hooks);
    [[nodiscard]] bool empty() const { return m_hooks.empty(); }

    [[nodiscard]] StepUse step_use() const; ///< of all; nothing, and rows alone, where there are none

    void place(std::span<RowPlace> rows) const;
    [[nodiscard]] LayerTaps taps(int64_t layer) const; ///< what any of them wants
    /// What the one that chooses has chosen; null: nothing. Two may not choose (asserted).
    [[nodiscard]] const HeadPositions* select(const LayerView& view) const;
    /// The same of a layer of a step that has not begun (StepUse::Choice::ahead): nothing is returned (asserted).
    void select_ahead(int64_t layer, const KvCache& cache, std::span<const int64_t> position) const;
    void attend(int64_t layer, kernels::AttentionInputs& inputs) const;
    void observe(const LayerView& view) const;
    void inner(int64_t layer, const at::Tensor& rows) const;
    void branch(int64_t layer, Branch place, at::Tensor& rows) const;
    void finish(const at::Tensor& residual) const;

private:
    std::span<LayerHooks* const> m_hooks;
};

/// Lists of chosen positions, with the columns of a cache where they stand.
class ChosenEntries {
public:
    /// \param chosen  held positions of each KV head; outlives what is returned
    /// \return valid until the next call
    [[nodiscard]] std::span<const kernels::KeyList> lists(const KvCache& cache, int64_t layer,
                                                          const HeadPositions& chosen);

private:
    std::vector<std::vector<int64_t>> m_columns;
    std::vector<kernels::KeyList> m_lists;
};

} // namespace refreshlab
