#include "engine/model/forward/captures.h"

#include "engine/base/check.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/signals/registry.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace refreshlab {

namespace {

/// The shown row of `position`, by entry; undefined where it is not shown.
at::Tensor shown_row(const LayerView& view, int64_t position) {
    const int64_t shown = view.attention.size(0);
    const int64_t first = static_cast<int64_t>(view.positions.size()) - shown;
    for (int64_t r = 0; r < shown; ++r) {
        if (view.positions[static_cast<size_t>(first + r)] == position) return view.attention[r];
    }
    return {};
}

/// The same by position, [heads, position + 1]: 0 at entries that are not read.
at::Tensor row_of(const LayerView& view, int64_t position) {
    const at::Tensor row = shown_row(view, position);
    if (!row.defined() || view.lists.empty()) return row.defined() ? row.narrow(1, 0, position + 1) : row;
    at::Tensor spread = at::zeros({row.size(0), position + 1}, row.options());
    const auto group = row.size(0) / static_cast<int64_t>(view.lists.size());
    for (int64_t head = 0; head < row.size(0); ++head) {
        const kernels::KeyList& list = view.lists[static_cast<size_t>(head / group)];
        const int64_t n =
            std::lower_bound(list.positions, list.positions + list.n, position + 1) - list.positions;
        const at::Tensor places =
            at::tensor(at::ArrayRef<int64_t>(list.positions, static_cast<size_t>(n)), at::kLong);
        spread[head].index_copy_(0, places.to(row.device()), row[head].narrow(0, 0, n));
    }
    return spread;
}

} // namespace

LayerTaps& LayerTaps::operator|=(const LayerTaps& other) {
    if (other.attention_from < attention_from) attention_from = other.attention_from;
    RL_ASSERT(!sums.defined() || !other.sums.defined());
    if (other.sums.defined()) sums = other.sums;
    raw_queries |= other.raw_queries;
    all_rows |= other.all_rows;
    return *this;
}

AttentionCapture::AttentionCapture(const ModelConfig& config, std::vector<int32_t> layers, int64_t position)
    : m_layers(std::move(layers))
    , m_heads(config.num_heads)
    , m_position(position) {
    if (m_layers.empty()) {
        m_layers.resize(static_cast<size_t>(config.num_layers));
        std::iota(m_layers.begin(), m_layers.end(), 0);
    }
    for (const int32_t layer : m_layers)
        RL_ASSERT(layer >= 0 && layer < config.num_layers);
}

bool AttentionCapture::wants(int64_t layer) const {
    return std::find(m_layers.begin(), m_layers.end(), layer) != m_layers.end();
}

LayerTaps AttentionCapture::taps(int64_t layer) const {
    LayerTaps taps;
    if (wants(layer)) taps.attention_from = m_position;
    return taps;
}

void AttentionCapture::make_rows(int64_t n) {
    if (m_rows.defined()) return;
    m_rows =
        at::zeros({static_cast<int64_t>(m_layers.size()), m_heads, n}, at::TensorOptions().dtype(at::kFloat));
}

void AttentionCapture::observe(const LayerView& view) {
    if (!wants(view.layer)) return;
    if (view.left_out && std::ranges::find(view.positions, m_position) != view.positions.end())
        make_rows(m_position + 1);
    if (!view.attention.defined()) return;
    const at::Tensor row = row_of(view, m_position);
    if (!row.defined()) return;
    make_rows(row.size(1));
    for (size_t i = 0; i < m_layers.size(); ++i) {
        if (m_layers[i] == view.layer) m_rows.select(0, static_cast<int64_t>(i)).copy_(row);
    }
}

AttentionEntropy::AttentionEntropy(const ModelConfig& config, int64_t position)
    : m_position(position)
    , m_bits(static_cast<size_t>(config.num_layers), std::numeric_limits<float>::quiet_NaN()) {}

LayerTaps AttentionEntropy::taps(int64_t) const {
    LayerTaps taps;
    taps.attention_from = m_position;
    return taps;
}

void AttentionEntropy::observe(const LayerView& view) {
    if (view.left_out) m_bits[static_cast<size_t>(view.layer)] = absent();
    if (!view.attention.defined()) return;
    const at::Tensor row = row_of(view, m_position);
    if (!row.defined()) return;
    const at::Tensor host = row.to(at::kCPU).contiguous();
    const int64_t heads = host.size(0), n = host.size(1);
    const float* const a = host.const_data_ptr<float>();
    double sum = 0; // double, positions ascending: the same bits wherever the row came from
    for (int64_t i = 0; i < heads * n; ++i) {
        if (a[i] > 0) sum -= static_cast<double>(a[i]) * std::log2(static_cast<double>(a[i]));
    }
    m_bits[static_cast<size_t>(view.layer)] =
        static_cast<float>(std::max(sum, 0.0) / static_cast<double>(heads));
}

HiddenCapture::HiddenCapture(const ModelConfig& config, int64_t rows, bool padding)
    : m_states(at::empty({config.num_layers + 1, rows,
                          padding ? LlamaWeights::held_width(config.hidden_size) : config.hidden_size},
                         at::TensorOptions().dtype(at::kFloat))) {}

LayerTaps HiddenCapture::taps(int64_t) const {
    LayerTaps taps;
    taps.all_rows = true;
    return taps;
}

void HiddenCapture::keep(int64_t layer, const at::Tensor& x) {
    const at::Tensor to = m_states.select(0, layer);
    const int64_t n = std::min(x.size(0), to.size(0) - m_first_row);
    to.narrow(0, m_first_row, n).copy_(x.narrow(0, 0, n).narrow(1, 0, to.size(1)));
}

void HiddenCapture::observe(const LayerView& view) {
    keep(view.layer, view.residual);
}

void HiddenCapture::finish(const at::Tensor& residual) {
    keep(m_states.size(0) - 1, residual);
    m_first_row += residual.size(0);
}

void StepFault::place(std::span<RowPlace> rows) {
    for (RowPlace& row : rows) {
        row.rotated_as += position_shift;
        row.num_visible += mask_shift;
    }
}

} // namespace refreshlab
