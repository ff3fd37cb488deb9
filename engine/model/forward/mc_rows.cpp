#include "engine/model/forward/mc_rows.h"

#include <numeric>
#include <utility>

namespace refreshlab {

McRows::McRows(const McRequest& request, int64_t position, int32_t first_pass)
    : m_request(request)
    , m_position(position)
    , m_passes(static_cast<size_t>(request.passes + 1 - first_pass)) {
    std::iota(m_passes.begin(), m_passes.end(), first_pass);
}

McRows::McRows(const McRequest& request, int64_t position, std::vector<int32_t> passes)
    : m_request(request)
    , m_position(position)
    , m_passes(std::move(passes)) {}

kernels::DropoutKey McRows::key(int64_t layer) const {
    return {m_request.seed, m_position, static_cast<int32_t>(layer), 0};
}

void McRows::attend(int64_t layer, kernels::AttentionInputs& inputs) {
    if (!m_request.attention) return;
    inputs.dropout_key = key(layer);
    inputs.passes = m_passes;
    inputs.dropout_p = m_request.p;
}

void McRows::branch(int64_t layer, Branch place, at::Tensor& rows) {
    const bool of_attention = place == Branch::attention_output;
    if (!(of_attention ? m_request.attention_output : m_request.mlp_output)) return;
    const auto site =
        of_attention ? kernels::DropoutSite::attention_output : kernels::DropoutSite::mlp_output;
    kernels::dropout_rows_(rows, key(layer), m_passes, site, m_request.p);
}

} // namespace refreshlab
