#include "engine/model/forward/captures.h"

#include "engine/base/check.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/signals/registry.h"
#include "kernels/ops/probabilities.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace refreshlab {

namespace {

/// The shown row of `position`, by entry, [heads, n]; undefined where it is not shown.
at::Tensor shown_row(const LayerView& view, int64_t position) {
    if (!view.attention.defined()) return {};
    const int64_t shown = view.attention.size(0);
    const int64_t first = static_cast<int64_t>(view.positions.size()) - shown;
    for (int64_t r = 0; r < shown; ++r) {
        if (view.positions[static_cast<size_t>(first + r)] == position) return view.attention[r];
    }
    return {};
}

/// The same by position, heads * (position + 1) numbers of any shape: 0 at entries that are not read. Undefined where it is not shown.
at::Tensor row_of(const LayerView& view, int64_t position) {
    // A decode step, every entry read: as it is. It comes by each layer, so not even a view of it is made.
    if (view.attention.defined() && view.lists.empty() && view.attention.size(0) == 1 &&
        view.attention.size(2) == position + 1 && view.positions.back() == position)
        return view.attention;
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

at::Tensor on_host(const at::Tensor& row) {
    return row.is_cpu() && row.is_contiguous() ? row : row.to(at::kCPU).contiguous();
}

} // namespace

LayerTaps& LayerTaps::operator|=(const LayerTaps& other) {
    if (other.attention_from < attention_from) attention_from = other.attention_from;
    RL_ASSERT(half_row.to == nullptr || other.half_row.to == nullptr);
    if (other.half_row.to != nullptr) half_row = other.half_row;
    RL_ASSERT(entropies.to == nullptr || other.entropies.to == nullptr);
    if (other.entropies.to != nullptr) entropies = other.entropies;
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
    m_seen.resize(m_layers.size());
}

size_t AttentionCapture::index_of(int64_t layer) const {
    return static_cast<size_t>(std::ranges::find(m_layers, layer) - m_layers.begin());
}

LayerTaps AttentionCapture::taps(int64_t layer) const {
    LayerTaps taps;
    const size_t index = index_of(layer);
    if (index == m_layers.size()) return taps;
    uint16_t* const halves = halves_of(index);
    if (halves != nullptr) {
        taps.half_row = {m_position, halves, bins()};
    } else {
        taps.attention_from = m_position;
    }
    return taps;
}

void AttentionCapture::observe(const LayerView& view) {
    const size_t index = index_of(view.layer);
    if (index == m_layers.size()) return;
    if (view.half_row && halves_of(index) != nullptr) {
        m_seen[index] = true;
        return;
    }
    const bool is_left_out =
        view.left_out && std::ranges::find(view.positions, m_position) != view.positions.end();
    at::Tensor row = is_left_out ? at::zeros({m_heads, m_position + 1}) : row_of(view, m_position);
    if (!row.defined()) return;
    row = on_host(row);
    keep(index, {row.const_data_ptr<float>(), static_cast<size_t>(row.numel())});
    m_seen[index] = true;
}

bool AttentionCapture::is_complete() const {
    return std::ranges::all_of(m_seen, std::identity());
}

AttentionEntropy::AttentionEntropy(const ModelConfig& config, int64_t position)
    : m_position(position)
    , m_of_heads(static_cast<size_t>(config.num_heads))
    , m_bits(static_cast<size_t>(config.num_layers), std::numeric_limits<float>::quiet_NaN()) {}

LayerTaps AttentionEntropy::taps(int64_t) const {
    LayerTaps taps;
    taps.entropies = {m_position, m_of_heads.data()};
    return taps;
}

void AttentionEntropy::observe(const LayerView& view) {
    if (view.left_out) m_bits[static_cast<size_t>(view.layer)] = absent();
    if (view.entropies) {
        double sum = 0;
        for (const float bits : m_of_heads)
            sum += static_cast<double>(bits);
        m_bits[static_cast<size_t>(view.layer)] =
            static_cast<float>(sum / static_cast<double>(m_of_heads.size()));
        return;
    }
    const at::Tensor row = row_of(view, m_position);
    if (!row.defined()) return;
    const at::Tensor host = on_host(row);
    const auto heads = static_cast<double>(host.numel()) / static_cast<double>(m_position + 1);
    const double sum =
        kernels::entropy_bits({host.const_data_ptr<float>(), static_cast<size_t>(host.numel())});
    m_bits[static_cast<size_t>(view.layer)] = static_cast<float>(std::max(sum, 0.0) / heads);
}

AttentionReceived::AttentionReceived(const ModelConfig& config, int64_t first_pos, int64_t position)
    : m_first(first_pos)
    , m_position(position)
    , m_share(1.0 / static_cast<double>(config.num_layers * config.num_heads))
    , m_received(static_cast<size_t>(position + 1 - first_pos)) {}

LayerTaps AttentionReceived::taps(int64_t) const {
    LayerTaps taps;
    taps.attention_from = m_position;
    return taps;
}

void AttentionReceived::observe(const LayerView& view) {
    const at::Tensor row = row_of(view, m_position);
    if (!row.defined()) return;
    const at::Tensor host = on_host(row);
    const std::span<const float> rows(host.const_data_ptr<float>(), static_cast<size_t>(host.numel()));
    const auto keys = static_cast<size_t>(m_position + 1), first = static_cast<size_t>(m_first);
    for (size_t i = 0; i < m_received.size(); ++i) {
        double sum = 0;
        for (size_t of_head = first + i; of_head < rows.size(); of_head += keys)
            sum += static_cast<double>(rows[of_head]);
        m_received[i] += static_cast<float>(sum * m_share);
    }
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
