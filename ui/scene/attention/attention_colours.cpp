#include "ui/scene/attention/attention_colours.h"

#include "ui/base/value_format.h"
#include "ui/scene/maps/cache_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

void AttentionColours::show(const AttentionView& view, AttentionOf of) {
    if (differences() != (of == AttentionOf::difference) || m_without_first != view.without_first)
        reset_range();
    m_of = of;
    m_range = view.range;
    const auto own = ui::own_range(view.ranges, range_name(of));
    m_own = own ? std::optional(own->max) : std::nullopt;
    m_log = view.log;
    m_without_first = view.without_first;
    m_map = view.map;
}

void AttentionColours::reset_range() {
    m_head_max.clear();
    m_shared_max = 0;
}

void AttentionColours::widen(const AttentionScales& scales, size_t heads) {
    if (scales.heads.size() != heads) return;
    m_shared_max = scales.shared;
    m_head_max = scales.heads;
}

void AttentionColours::follow(const AttentionMap& heads) {
    const AttentionMap::Shape& shape = heads.shape();
    m_heads = shape.heads.size();
    m_head_max.resize(shape.layers.size() * m_heads, 0.0);
    size_t at = 0;
    for (size_t l = 0; l < shape.layers.size(); ++l) {
        for (size_t h = 0; h < m_heads; ++h, ++at) {
            const double top = std::abs(heads.largest_weight(l, h, m_without_first).value_or(0.0));
            m_head_max[at] = std::max(m_head_max[at], top);
            m_shared_max = std::max(m_shared_max, top);
        }
    }
}

ColourScale AttentionColours::scale(size_t layer_index, size_t head_index) const {
    ColourScale scale{colour_map(map_name()), 0, 1, m_log};
    if (m_range == AttentionRange::shared && m_shared_max > 0) scale.max = m_shared_max;
    const size_t at = layer_index * m_heads + head_index;
    if (m_range == AttentionRange::per_head && at < m_head_max.size() && m_head_max[at] > 0)
        scale.max = m_head_max[at];
    if (m_own) scale.max = *m_own;
    if (scale.log && !differences()) scale.min = scale.max * std::pow(10.0, -log_decades);
    if (differences()) scale.min = -scale.max;
    return scale;
}

void AttentionColours::colour(std::span<const HalfCell> cells, const ColourScale& scale,
                              std::span<uint32_t> rgba) const {
    (differences() ? colour_differences : colour_cells)(cells, scale, rgba);
}

std::string AttentionColours::key() const {
    std::string key = fmt::format("{} {} {} {} {} {}", map_name(), static_cast<int>(m_of), m_log,
                                  static_cast<int>(m_range), m_shared_max, m_own.value_or(0));
    if (m_range == AttentionRange::per_head)
        for (const double top : m_head_max)
            key += fmt::format(" {}", top);
    return key;
}

std::vector<uint32_t> heads_image(const AttentionMap& heads, const AttentionColours& colours,
                                  const UnreadMark* unread) {
    const auto layers = static_cast<int64_t>(heads.shape().layers.size());
    const auto columns_of_heads = static_cast<int64_t>(heads.shape().heads.size());
    const int64_t rows = heads.rows(), columns = heads.columns(), width = columns * columns_of_heads;
    std::vector<uint32_t> image(static_cast<size_t>(rows * layers * width), 0U);
    std::vector<uint32_t> cell(static_cast<size_t>(rows * columns));
    for (int64_t l = 0; l < layers; ++l) {
        for (int64_t h = 0; h < columns_of_heads; ++h) {
            const auto layer = static_cast<size_t>(l), head = static_cast<size_t>(h);
            colours.colour(heads.cells(layer, head), colours.scale(layer, head), cell);
            if (unread != nullptr)
                mark_unread(unread->history, heads, layer, head, unread->prompt_length, unread->colour, cell);
            for (int64_t row = 0; row < rows; ++row)
                std::copy_n(cell.begin() + row * columns, columns,
                            image.begin() + (l * rows + row) * width + h * columns);
        }
    }
    return image;
}

CellWindow cell_window(const AttentionMap& map) {
    const QueryWindow& window = map.shape().window;
    const auto share = [](int64_t part, int64_t whole) {
        return static_cast<float>(static_cast<double>(part) / static_cast<double>(whole));
    };
    const int64_t block = map.rows() * map.query_factor();
    return {share(window.keys(), map.columns() * map.key_factor()),
            share(window.first_query - map.first_aligned(), block),
            share(window.last_query + 1 - map.first_aligned(), block)};
}

void ShownRow::read(const Recording& recording, int64_t query, AttentionOf of, int32_t layer, int32_t head) {
    constexpr size_t strongest = 6;
    if (m_query == query && m_layer == layer && m_head == head && m_of == of && !weights.empty()) return;
    weights = attention_row(recording, query, of, layer, head);
    keys = keys_of_weights(recording, query, of, layer, head);
    top = weights.empty() ? std::vector<TopKey>() : top_keys(weights, keys, strongest);
    AttentionResolution coarsest;
    for (const bool by_teacher : {false, true})
        if (const auto rows = recording.attention(query, by_teacher);
            rows && (of == AttentionOf::difference || by_teacher == (of == AttentionOf::teacher)))
            coarsest = coarser(coarsest, resolution_of(*rows));
    resolution = resolution_words(coarsest);
    m_query = query;
    m_layer = layer;
    m_head = head;
    m_of = of;
    teacher.clear();
    student.clear();
    if (weights.empty() || of != AttentionOf::difference) return;
    teacher = attention_row(recording, query, AttentionOf::teacher, layer, head);
    student = attention_row(recording, query, AttentionOf::student, layer, head);
}

void ShownRow::clear() {
    m_query = -1;
    weights.clear();
    keys.clear();
    top.clear();
    resolution.clear();
}

MissingRow missing_row(const Recording& recording, int64_t steps, int64_t query, AttentionOf of) {
    const RunInfo& info = recording.info();
    const int64_t prompt = recording.prompt_length();
    const bool difference = of == AttentionOf::difference;
    MissingRow missing;
    // Of a difference the student's row is asked for first: it is the one that most runs keep by themselves.
    missing.teacher = of == AttentionOf::teacher || (difference && recording.attention(query, false));
    if (difference && missing.teacher && recording.attention(query, true)) {
        missing.why = "Only one of the two models has this head";
        return missing;
    }
    // The teacher has read the text up to its last pass only.
    const bool follows = missing.teacher && info.config.mode == Mode::overfill;
    missing.held = follows ? teacher_length(recording, steps) : query + 1;
    const bool unread = missing.teacher && query >= missing.held;
    if (recording.end() && recording.steps() == 1) {
        missing.why = "Nothing was read in this run";
        return missing;
    }
    missing.why = "Not kept at this step";
    if (!missing.teacher && !info.config.capture.attention) missing.why = "Attention is not kept in this run";
    if (unread && missing.held > prompt) {
        missing.go_step = missing.held - prompt;
        missing.why = fmt::format("The teacher has read up to step {}", format_thousands(*missing.go_step));
    } else if (unread) {
        missing.why = "The teacher has read the prompt only";
    }
    missing.can_read = !unread;
    return missing;
}

} // namespace refreshlab::ui
