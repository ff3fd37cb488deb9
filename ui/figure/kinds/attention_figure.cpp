// Attention: one head as queries by keys, or all heads as a grid of small maps.
#include "engine/base/error.h"
#include "ui/base/value_format.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/figure/kinds/map_parts.h"
#include "ui/scene/attention/attention_geometry.h"
#include "ui/scene/attention/attention_view.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace refreshlab::ui {

namespace {

using Align = TextStyle::Align;
constexpr int64_t default_rows = 64; ///< queries where no step is given

const char* whose(AttentionOf of) {
    return of == AttentionOf::teacher   ? "teacher"
           : of == AttentionOf::student ? "student"
                                        : "teacher - student";
}

/// Queries that a figure shows: those of --from and --to, else the last ones up to --step.
QueryWindow window_of(const FigureRequest& request, const Recording& recording) {
    const int64_t before = recording.prompt_length() - 1; // step t reads the token at this + t
    if (request.from || request.to) {
        const StepRange range = steps_of(request, recording);
        return {before + range.first, before + range.last};
    }
    const int64_t last = step_of(request, recording);
    return {before + std::max<int64_t>(1, last - default_rows + 1), before + last};
}

void require_rows(const AttentionMap& map, AttentionOf of) {
    if (map.missing_rows() < map.shape().window.rows()) return;
    throw Error("drawing a figure", "--panel attention",
                fmt::format("no attention of the {} is recorded at these steps", whose(of)),
                of == AttentionOf::student
                    ? "record with --set capture.attention=true"
                    : "read its rows in the window's Attention panel and save the trace");
}

AttentionColours colours_of(const FigurePen& pen, const AttentionMap& map, AttentionOf of) {
    AttentionColours colours;
    colours.signed_map = pen.style.theme.map_signed;
    colours.theme_map = pen.style.theme.map_amounts;
    colours.show(of);
    colours.follow(map);
    return colours;
}

/// Cells as pixels; what is outside or was not recorded is the ground.
std::vector<uint32_t> pixels_of(const AttentionMap& map, const AttentionColours& colours, size_t layer,
                                size_t head) {
    const auto cells = map.cells(layer, head);
    std::vector<uint32_t> rgba(cells.size());
    colours.colour(cells, colours.scale(layer, head), rgba);
    return rgba;
}

std::string scale_words(const AttentionColours& colours, AttentionOf of) {
    return fmt::format("attention weight, {}{}", whose(of),
                       colours.differences() ? ""
                       : colours.log         ? ", logarithmic"
                                             : "");
}

/// Of rows that were recorded in bins: what a weight is.
std::string bin_words(const AttentionMap& map) {
    return map.keys_of_weight() > 1 ? fmt::format("means of {} keys", map.keys_of_weight()) : "";
}

/// Where all cells go, so that the window's own part of them fills `inner`.
FigureRect image_place(const AttentionMap& map, const FigureRect& inner) {
    const CellWindow part = cell_window(map);
    const double width = inner.width / static_cast<double>(part.u_end);
    const double height = inner.height / static_cast<double>(part.v_end - part.v_begin);
    return {inner.x, inner.y - static_cast<double>(part.v_begin) * height, width, height};
}

class HeadFigure final : public Figure {
public:
    explicit HeadFigure(const FigureRequest& request)
        : m_recording(request.runs.front().recording)
        , m_of(request.attention)
        , m_head(*request.head)
        , m_window(window_of(request, *m_recording)) {
        const RunInfo& info = m_recording->info();
        if (m_head.first < 0 || m_head.first >= info.layers || m_head.second < 0 ||
            m_head.second >= info.heads)
            throw Error(
                "drawing a figure", "--head",
                fmt::format("layer {} head {} does not exist: there are {} layers and {} heads, from 0",
                            m_head.first, m_head.second, info.layers, info.heads));
        m_map.update(*m_recording, {m_of, m_window, {m_head.first}, {m_head.second}, 2048, 1024});
        require_rows(m_map, m_of);
    }

    double height(const FigurePen& pen, double width) const override {
        return std::min(width * 0.75, 220.0) + key_names_height(pen) + pen.text_line() * 3 + pen.small_line();
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const AttentionColours colours = colours_of(pen, m_map, m_of);
        const int64_t before = m_recording->prompt_length() - 1;
        double y = place.y + pen.text_line();
        pen.canvas.text({place.x, y - pen.style.text_pt * 0.35},
                        fmt::format("Layer {}, head {}{}{}", m_head.first, m_head.second,
                                    bin_words(m_map).empty() ? "" : ", ", bin_words(m_map)),
                        pen.text());
        y += draw_colour_bar(pen, {place.x, y, place.width, 0}, colours.scale(0, 0),
                             scale_words(colours, m_of)) +
             3;
        const double names = query_names_width(pen), labels = pen.canvas.width_of("10,000", pen.small()) + 5;
        PlotArea area;
        area.rect = {place.x + names + labels + pen.style.text_pt * 1.3, y, 0, 0};
        area.rect.width = place.right() - area.rect.x - 2;
        area.rect.height = place.bottom() - y - key_names_height(pen) - pen.text_line() * 2;
        area.x_min = 0;
        area.x_max = static_cast<double>(m_window.keys());
        const double rows = static_cast<double>(m_window.rows());
        {
            const FigureGroup group(pen.canvas, "map");
            pen.canvas.rectangle(area.rect, pen.style.theme.plot_background);
            pen.canvas.push_clip(area.rect);
            pen.canvas.image(image_place(m_map, area.rect), m_map.columns(), m_map.rows(),
                             pixels_of(m_map, colours, 0, 0));
            pen.canvas.pop_clip();
            pen.canvas.frame(area.rect, {pen.style.theme.plot_border, pen.style.axis_pt});
        }
        // Queries by their steps, and by their tokens where there is room.
        const double row = area.rect.height / rows;
        const bool tokens = names > 0;
        const int64_t first = m_window.first_query - before, last = m_window.last_query - before;
        for (const int64_t step : whole_ticks(
                 first, last + 1, std::max<int64_t>(2, static_cast<int64_t>(area.rect.height / 16)))) {
            const double at = area.rect.y + (static_cast<double>(step - first) + 0.5) * row;
            pen.canvas.text({area.rect.x - names - 3, at + pen.style.small_pt * 0.35}, format_thousands(step),
                            pen.small(Align::right));
        }
        if (tokens)
            for (int64_t i = 0; i < m_window.rows(); ++i)
                pen.canvas.text({area.rect.x - 2, area.rect.y + (static_cast<double>(i) + 0.5) * row +
                                                      pen.style.small_pt * 0.35},
                                short_label(pen, m_window.first_query + i), pen.muted(Align::right));
        TextStyle title = pen.text(Align::centre);
        title.upwards = true;
        pen.canvas.text({place.x + pen.style.text_pt, area.rect.y + area.rect.height / 2}, "query step",
                        title);
        area.rect.height += key_names_height(pen);
        if (key_names_height(pen) > 0) {
            const double column = area.rect.width / area.x_max;
            for (int64_t key = 0; key < m_window.keys(); ++key) {
                TextStyle text = pen.muted(Align::right);
                text.upwards = true;
                pen.canvas.text(
                    {area.rect.x + (static_cast<double>(key) + 0.5) * column + pen.style.small_pt * 0.35,
                     area.rect.bottom() - key_names_height(pen) + 3},
                    short_label(pen, key), text);
            }
        }
        draw_x_axis(pen, area, "key position");
    }

    DataTable table() const override {
        DataTable table{{"query_step", "key_position", "token", "weight"}, {}};
        for (int64_t query = m_window.first_query; query <= m_window.last_query; ++query) {
            const auto row = attention_row(*m_recording, query, m_of, m_head.first, m_head.second);
            for (size_t key = 0; key < row.size(); ++key)
                table.rows.push_back(
                    {fmt::format("{}", query - m_recording->prompt_length() + 1), fmt::format("{}", key),
                     position_label(*m_recording, static_cast<int64_t>(key)), cell_text(row[key])});
        }
        return table;
    }

private:
    /// Tokens stand beside rows and columns that are wide enough for a line of text.
    [[nodiscard]] double query_names_width(const FigurePen& pen) const {
        return static_cast<double>(m_window.rows()) * pen.style.small_pt * 1.1 <= 220 ? pen.style.small_pt * 6
                                                                                      : 0;
    }
    [[nodiscard]] double key_names_height(const FigurePen& pen) const {
        return static_cast<double>(m_window.keys()) * pen.style.small_pt * 1.1 <= 180 ? pen.style.small_pt * 6
                                                                                      : 0;
    }
    [[nodiscard]] std::string short_label(const FigurePen& pen, int64_t position) const {
        return pen.fitted(position_label(*m_recording, position, 16), pen.muted(), pen.style.small_pt * 5.5);
    }

    std::shared_ptr<const Recording> m_recording;
    AttentionOf m_of;
    std::pair<int32_t, int32_t> m_head;
    QueryWindow m_window;
    AttentionMap m_map;
};

class HeadsFigure final : public Figure {
public:
    explicit HeadsFigure(const FigureRequest& request)
        : m_recording(request.runs.front().recording)
        , m_of(request.attention)
        , m_window(window_of(request, *m_recording)) {
        const RunInfo& info = m_recording->info();
        std::vector<int32_t> layers(static_cast<size_t>(info.layers)), heads(static_cast<size_t>(info.heads));
        std::iota(layers.begin(), layers.end(), 0);
        std::iota(heads.begin(), heads.end(), 0);
        m_map.update(*m_recording, {m_of, m_window, layers, heads, 96, 96});
        require_rows(m_map, m_of);
    }

    double height(const FigurePen& pen, double width) const override {
        const double cell = cell_size(pen, width);
        return cell * static_cast<double>(m_map.shape().layers.size()) + pen.text_line() * 2 +
               pen.small_line() * 2;
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const AttentionColours colours = colours_of(pen, m_map, m_of);
        const auto& layers = m_map.shape().layers;
        const auto& heads = m_map.shape().heads;
        const int64_t before = m_recording->prompt_length() - 1;
        double y = place.y;
        y += draw_colour_bar(pen, {place.x, y, place.width, 0}, colours.scale(0, 0),
                             scale_words(colours, m_of)) +
             3;
        const auto names = layer_names(static_cast<int64_t>(layers.size()));
        const double left = place.x + row_names_width(pen, names);
        const double cell_x = (place.right() - left) / static_cast<double>(heads.size());
        const double cell_y =
            (place.bottom() - y - pen.small_line() * 2) / static_cast<double>(layers.size());
        draw_row_names(pen, {left, y, 0, cell_y * static_cast<double>(layers.size())}, names);
        for (size_t layer = 0; layer < layers.size(); ++layer)
            for (size_t head = 0; head < heads.size(); ++head) {
                const FigureGroup group(pen.canvas, fmt::format("head_{}_{}", layer, head));
                const FigureRect cell{left + static_cast<double>(head) * cell_x,
                                      y + static_cast<double>(layer) * cell_y, cell_x - 1.2, cell_y - 1.2};
                pen.canvas.push_clip(cell);
                pen.canvas.image(image_place(m_map, cell), m_map.columns(), m_map.rows(),
                                 pixels_of(m_map, colours, layer, head));
                pen.canvas.pop_clip();
                pen.canvas.frame(cell, {pen.style.theme.plot_border, 0.3});
            }
        const double base = y + cell_y * static_cast<double>(layers.size()) + pen.style.small_pt;
        double last = -1e9;
        for (size_t head = 0; head < heads.size(); ++head) {
            const double x = left + (static_cast<double>(head) + 0.5) * cell_x;
            if (x < last + pen.style.small_pt * 2.4) continue;
            pen.canvas.text({x, base}, fmt::format("H{}", head), pen.small(Align::centre));
            last = x;
        }
        pen.canvas.text(
            {place.x, base + pen.small_line()},
            pen.fitted(fmt::format("{}{}each: queries of steps {} to {} downwards, keys 0 to {} to the right",
                                   bin_words(m_map), bin_words(m_map).empty() ? "" : "; ",
                                   m_window.first_query - before, m_window.last_query - before,
                                   m_window.keys() - 1),
                       pen.muted(), place.width),
            pen.muted());
    }

    DataTable table() const override {
        DataTable table{{"layer", "head", "largest_weight", "largest_weight_without_position_0"}, {}};
        for (size_t layer = 0; layer < m_map.shape().layers.size(); ++layer)
            for (size_t head = 0; head < m_map.shape().heads.size(); ++head) {
                const auto all = m_map.largest_weight(layer, head, false),
                           rest = m_map.largest_weight(layer, head, true);
                table.rows.push_back({fmt::format("{}", layer), fmt::format("{}", head),
                                      all ? cell_text(*all) : "", rest ? cell_text(*rest) : ""});
            }
        return table;
    }

private:
    [[nodiscard]] double cell_size(const FigurePen& pen, double width) const {
        return std::clamp((width - pen.style.small_pt * 3) / static_cast<double>(m_map.shape().heads.size()),
                          8.0, 36.0);
    }

    std::shared_ptr<const Recording> m_recording;
    AttentionOf m_of;
    QueryWindow m_window;
    AttentionMap m_map;
};

} // namespace

std::unique_ptr<Figure> make_head_figure(const FigureRequest& request) {
    return std::make_unique<HeadFigure>(request);
}
std::unique_ptr<Figure> make_heads_figure(const FigureRequest& request) {
    return std::make_unique<HeadsFigure>(request);
}

} // namespace refreshlab::ui
