#include "ui/scene/attention/attention_map.h"

#include "engine/base/check.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <utility>

namespace refreshlab::ui {

std::string resolution_words(const AttentionResolution& resolution) {
    if (resolution.every_key()) return {};
    std::string words = fmt::format("{} bins of up to {} keys", format_thousands(resolution.bins),
                                    format_thousands(resolution.widest));
    if (resolution.exact > 0) words += fmt::format(", {} keys exact", format_thousands(resolution.exact));
    return words;
}

const AttentionResolution& coarser(const AttentionResolution& a, const AttentionResolution& b) {
    return b.widest > a.widest || (b.widest == a.widest && b.bins > a.bins) ? b : a;
}

std::optional<size_t> row_of_head(const AttentionRows& rows, int32_t layer, int32_t head) {
    const auto found = std::ranges::find(rows.layers, layer);
    if (found == rows.layers.end() || head < 0 || head >= rows.heads) return std::nullopt;
    const auto row = static_cast<size_t>((found - rows.layers.begin()) * rows.heads + head);
    if ((row + 1) * static_cast<size_t>(rows.stride()) > rows.weights.size()) return std::nullopt;
    return row;
}

std::span<const uint16_t> row_weights(const AttentionRows& rows, size_t row, std::vector<uint16_t>& shares) {
    const auto keys = static_cast<size_t>(rows.keys);
    if (rows.every_key()) {
        RL_ASSERT((row + 1) * keys <= rows.weights.size());
        return std::span(rows.weights).subspan(row * keys, keys);
    }
    shares.resize(keys);
    for_each_share(rows, row, [&](const AttentionShare& share) {
        std::fill(shares.begin() + share.first, shares.begin() + share.end, share.share);
    });
    return shares;
}

std::span<const uint16_t> head_weights(const AttentionRows& rows, int32_t layer, int32_t head,
                                       std::vector<uint16_t>& shares) {
    const auto row = row_of_head(rows, layer, head);
    return row ? row_weights(rows, *row, shares) : std::span<const uint16_t>();
}

QueryWindow next_window(const QueryWindow& before, int64_t prompt_length, int64_t shown, int64_t rows,
                        bool live) {
    rows = std::max<int64_t>(rows, 1);
    const bool stays =
        !live && before.contains(shown) && before.rows() <= rows && before.first_query >= prompt_length;
    const int64_t last = stays ? before.last_query : shown;
    return {std::max(prompt_length, last - rows + 1), last};
}

void AttentionMap::clear() {
    m_row_cache.clear();
    m_cells.clear();
    m_top.clear();
    m_top_rest.clear();
    m_shape = {};
    m_recording = nullptr;
    m_rows = m_columns = m_missing = 0;
    m_resolution = {};
}

AttentionMap::Row AttentionMap::empty_row(int64_t keys) const {
    const size_t heads = m_shape.layers.size() * m_shape.heads.size();
    Row row;
    row.columns = reduced_size(keys, m_key_factor);
    row.cells.assign(heads * static_cast<size_t>(row.columns), absent_cell);
    row.top.assign(heads, no_cell);
    row.top_rest.assign(heads, no_cell);
    return row;
}

std::optional<AttentionMap::Row> AttentionMap::read_difference(const Recording& recording,
                                                               int64_t query) const {
    const auto teacher = recording.attention(query, true), student = recording.attention(query, false);
    if (!teacher || !student) return std::nullopt;
    Row row = empty_row(query + 1);
    row.resolution = coarser(resolution_of(*teacher), resolution_of(*student));
    size_t at = 0;
    for (const int32_t layer : m_shape.layers) {
        for (const int32_t head : m_shape.heads) {
            const std::vector<float> differences =
                attention_row(recording, query, AttentionOf::difference, layer, head);
            HalfCell* const out = row.cells.data() + at * static_cast<size_t>(row.columns);
            for (size_t k = 0; k < differences.size(); ++k) {
                const HalfCell cell = difference_cell(differences[k]);
                HalfCell& reduced = out[static_cast<int64_t>(k) / m_key_factor];
                reduced = std::max(reduced, cell);
                row.top[at] = std::max(row.top[at], cell);
                if (k > 0) row.top_rest[at] = std::max(row.top_rest[at], cell);
            }
            ++at;
        }
    }
    return row;
}

std::optional<AttentionMap::Row> AttentionMap::read_row(const Recording& recording, int64_t query) const {
    if (m_shape.of == AttentionOf::difference) return read_difference(recording, query);
    const auto rows = recording.attention(query, m_shape.of == AttentionOf::teacher);
    if (!rows) return std::nullopt;
    Row row = empty_row(rows->keys);
    row.resolution = resolution_of(*rows);
    size_t at = 0;
    for (const int32_t layer : m_shape.layers) {
        for (const int32_t head : m_shape.heads) {
            if (const auto of_rows = row_of_head(*rows, layer, head)) read_head(*rows, *of_rows, at, row);
            ++at;
        }
    }
    return row;
}

/// Reduces one head's row to its blocks. Of a row in bins stretches are read and not keys, which are a hundred times as many.
void AttentionMap::read_head(const AttentionRows& rows, size_t of_rows, size_t at, Row& row) const {
    const auto blocks =
        std::span(row.cells).subspan(at * static_cast<size_t>(row.columns), static_cast<size_t>(row.columns));
    HalfCell rest =
        no_cell; // the blocks have the largest weights of their keys; only the first one knows position 0
    if (rows.every_key()) {
        std::vector<uint16_t> unused;
        const auto weights = row_weights(rows, of_rows, unused);
        merge_max(weights, m_key_factor, blocks);
        rest = largest(weights.subspan(1, std::min(weights.size(), static_cast<size_t>(m_key_factor)) - 1));
    } else {
        for_each_share(rows, of_rows, [&](const AttentionShare& share) {
            const HalfCell cell = largest(std::span(&share.share, 1));
            for (int64_t c = share.first / m_key_factor; c <= (share.end - 1) / m_key_factor; ++c)
                blocks[static_cast<size_t>(c)] = std::max(blocks[static_cast<size_t>(c)], cell);
            if (share.end > 1 && share.first < m_key_factor) rest = std::max(rest, cell);
        });
    }
    for (const HalfCell block : blocks.subspan(1))
        rest = std::max(rest, block);
    row.top_rest[at] = rest;
    row.top[at] = std::max(rest, blocks[0]);
}

/// From blocks of m_key_factor keys to blocks of a multiple of it.
void AttentionMap::reduce_further(Row& row, int64_t key_factor) const {
    const int64_t times = key_factor / m_key_factor, columns = reduced_size(row.columns, times);
    const auto heads = static_cast<int64_t>(row.top.size());
    std::vector<HalfCell> cells(static_cast<size_t>(heads * columns), no_cell);
    for (int64_t at = 0; at < heads; ++at)
        for (int64_t c = 0; c < row.columns; ++c) {
            HalfCell& out = cells[static_cast<size_t>(at * columns + c / times)];
            out = std::max(out, row.cells[static_cast<size_t>(at * row.columns + c)]);
        }
    row.cells = std::move(cells);
    row.columns = columns;
}

bool AttentionMap::update(const Recording& recording, const Shape& shape) {
    const auto key_factor = static_cast<int64_t>(
        std::bit_ceil(static_cast<uint64_t>(reduction_factor(shape.window.keys(), shape.texels_x))));
    const bool other_rows = m_recording != &recording || m_shape.of != shape.of ||
                            m_shape.layers != shape.layers || m_shape.heads != shape.heads ||
                            m_key_factor > key_factor;
    bool changed = other_rows || !(m_shape == shape);
    if (other_rows) m_row_cache.clear();
    std::erase_if(m_row_cache, [&](const auto& entry) { return !shape.window.contains(entry.first); });
    if (m_key_factor != key_factor)
        for (auto& [query, row] : m_row_cache)
            reduce_further(row, key_factor);
    m_recording = &recording;
    m_shape = shape;
    m_key_factor = key_factor;
    m_query_factor = reduction_factor(shape.window.rows(), shape.texels_y);
    m_missing = 0;
    for (int64_t query = shape.window.first_query; query <= shape.window.last_query; ++query) {
        if (m_row_cache.contains(query)) continue;
        if (auto row = read_row(recording, query)) {
            m_row_cache.emplace(query, std::move(*row));
            changed = true;
        } else {
            ++m_missing;
        }
    }
    if (changed) compose();
    return changed;
}

void AttentionMap::compose() {
    const QueryWindow& window = m_shape.window;
    const size_t heads = m_shape.layers.size() * m_shape.heads.size();
    // Blocks of queries begin at multiples of the factor, so that a moving window does not shimmer.
    m_first_aligned = window.first_query / m_query_factor * m_query_factor;
    m_rows = window.rows() > 0 ? reduced_size(window.last_query + 1 - m_first_aligned, m_query_factor) : 0;
    m_columns = window.rows() > 0 ? reduced_size(window.keys(), m_key_factor) : 0;
    const auto per_head = static_cast<size_t>(m_rows * m_columns);
    m_cells.assign(heads * per_head, no_cell);
    m_top.assign(heads, no_cell);
    m_top_rest.assign(heads, no_cell);
    m_resolution = {};
    for (int64_t query = window.first_query; query <= window.last_query; ++query) {
        const auto found = m_row_cache.find(query);
        const auto line = static_cast<size_t>((query - m_first_aligned) / m_query_factor * m_columns);
        const int64_t columns = reduced_size(query + 1, m_key_factor);
        if (found != m_row_cache.end()) m_resolution = coarser(m_resolution, found->second.resolution);
        for (size_t at = 0; at < heads; ++at) {
            HalfCell* out = m_cells.data() + at * per_head + line;
            if (found == m_row_cache.end()) {
                for (int64_t c = 0; c < columns; ++c)
                    out[c] = std::max(out[c], absent_cell);
                continue;
            }
            const Row& row = found->second;
            const HalfCell* in = row.cells.data() + at * static_cast<size_t>(row.columns);
            for (int64_t c = 0; c < std::min(columns, row.columns); ++c)
                out[c] = std::max(out[c], in[c]);
            m_top[at] = std::max(m_top[at], row.top[at]);
            m_top_rest[at] = std::max(m_top_rest[at], row.top_rest[at]);
        }
    }
}

std::span<const HalfCell> AttentionMap::cells(size_t layer_index, size_t head_index) const {
    const auto per_head = static_cast<size_t>(m_rows * m_columns);
    const size_t at = layer_index * m_shape.heads.size() + head_index;
    return std::span(m_cells).subspan(at * per_head, per_head);
}

std::optional<double> AttentionMap::largest_weight(size_t layer_index, size_t head_index,
                                                   bool without_position_0) const {
    const size_t at = layer_index * m_shape.heads.size() + head_index;
    const auto& tops = without_position_0 ? m_top_rest : m_top;
    if (at >= tops.size() || tops[at] < 0) return std::nullopt;
    const double value =
        m_shape.of == AttentionOf::difference ? difference_value(tops[at]) : cell_value(tops[at]);
    return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::vector<float> attention_row(const Recording& recording, int64_t query, AttentionOf of, int32_t layer,
                                 int32_t head) {
    if (of == AttentionOf::difference) {
        std::vector<float> teacher = attention_row(recording, query, AttentionOf::teacher, layer, head);
        const std::vector<float> student = attention_row(recording, query, AttentionOf::student, layer, head);
        if (teacher.size() != student.size()) return {}; // one of them has no such layer or head
        std::ranges::transform(teacher, student, teacher.begin(), std::minus{});
        return teacher;
    }
    const auto rows = recording.attention(query, of == AttentionOf::teacher);
    if (!rows) return {};
    std::vector<uint16_t> shares;
    const auto weights = head_weights(*rows, layer, head, shares);
    std::vector<float> row(weights.size());
    std::ranges::transform(weights, row.begin(), half_to_float);
    return row;
}

std::vector<int32_t> keys_of_weights(const Recording& recording, int64_t query, AttentionOf of, int32_t layer,
                                     int32_t head) {
    std::vector<int32_t> keys;
    for (const bool teacher : {false, true}) {
        if (of != AttentionOf::difference && teacher != (of == AttentionOf::teacher)) continue;
        const auto rows = recording.attention(query, teacher);
        const auto row = rows ? row_of_head(*rows, layer, head) : std::nullopt;
        if (!row) return {};
        keys.resize(static_cast<size_t>(rows->keys), 1);
        if (rows->every_key()) continue;
        for_each_share(*rows, *row, [&](const AttentionShare& share) {
            for (int64_t key = share.first; key < share.end; ++key)
                keys[static_cast<size_t>(key)] =
                    std::max(keys[static_cast<size_t>(key)], static_cast<int32_t>(share.sharing));
        });
    }
    return keys;
}

std::optional<AttentionShare> attention_share(const Recording& recording, int64_t query, bool teacher,
                                              int32_t layer, int32_t head, int64_t key) {
    const auto rows = recording.attention(query, teacher);
    const auto row = rows ? row_of_head(*rows, layer, head) : std::nullopt;
    if (!row || key < 0 || key >= rows->keys) return std::nullopt;
    return share_of_key(*rows, *row, key);
}

std::string share_words(const AttentionShare& share) {
    const auto number = [](uint16_t half) { return format_number(static_cast<double>(half_to_float(half))); };
    if (share.exact()) return number(share.share);
    return fmt::format("{} on keys {} to {} together, {} each of {} on average", number(share.sum),
                       format_thousands(share.bin_first), format_thousands(share.bin_end - 1),
                       number(share.share), format_thousands(share.sharing));
}

std::vector<TopKey> top_keys(std::span<const float> row, std::span<const int32_t> keys_of_weights, size_t n) {
    RL_ASSERT(row.size() == keys_of_weights.size());
    std::vector<TopKey> keys;
    keys.reserve(row.size());
    for (size_t i = 0; i < row.size(); ++i)
        if (!std::isnan(row[i]) && keys_of_weights[i] == 1) keys.push_back({static_cast<int64_t>(i), row[i]});
    n = std::min(n, keys.size());
    std::ranges::partial_sort(keys, keys.begin() + static_cast<std::ptrdiff_t>(n),
                              [](const TopKey& a, const TopKey& b) {
                                  const float x = std::abs(a.weight), y = std::abs(b.weight);
                                  return x != y ? x > y : a.position < b.position;
                              });
    keys.resize(n);
    return keys;
}

} // namespace refreshlab::ui
