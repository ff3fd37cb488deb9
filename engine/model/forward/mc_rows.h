#pragma once

#include "engine/model/forward.h"
#include "engine/model/forward/layer_hooks.h"

#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

/// Dropout of the rows of one step, at the sites that the request names (reference/refresh.md, 6.3). Row r of the pass
/// belongs to dropout pass passes[r]; 0 = none.
class McRows final : public LayerHooks {
public:
    /// \param first_pass  pass of the first row: 0 where the row without dropout is part of the pass, 1 where it runs
    ///                    apart
    McRows(const McRequest& request, int64_t position, int32_t first_pass);
    /// \param passes  of every row of the pass
    McRows(const McRequest& request, int64_t position, std::vector<int32_t> passes);
    void attend(int64_t layer, kernels::AttentionInputs& inputs) override;
    void branch(int64_t layer, Branch place, at::Tensor& rows) override;

private:
    [[nodiscard]] kernels::DropoutKey key(int64_t layer) const;

    McRequest m_request;
    int64_t m_position;
    std::vector<int32_t> m_passes;
};

} // namespace refreshlab
