// Attention: one head as queries by keys, or all heads as a grid of small maps.
#include "engine/base/error.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/figure/paint/map_parts.h"
#include "ui/scene/attention/attention_colours.h"
#include "ui/scene/attention/attention_geometry.h"
#include "ui/scene/attention/head_ranking.h"
#include "ui/scene/attention/read_history.h"
#include "ui/scene/text/token_label.h"
#include "ui/theme/run_colours.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::ui {

namespace {

using Align = TextStyle::Align;

const char* whose(AttentionOf of) {
    return of == AttentionOf::teacher   ? "teacher"
           : of == AttentionOf::student ? "student"
                                        : "teacher - student";
}

/// Queries that a figure shows: those of --from and --to, else the last ones up to --step, as many as the view has.
QueryWindow window_of(const FigureRequest& request, const Recording& recording) {
    const int64_t before = recording.prompt_length() - 1; // step t reads the token at this + t
    if (request.from || request.to) {
        const StepRange range = steps_of(request, recording);
        return {before + range.first, before + range.last};
    }
    const int64_t last = step_of(request, recording);
    return {before + std::max<int64_t>(1, last - request.views.attention.rows + 1), before + last};
}

/// What both figures are of: whose attention, which queries and heads, and the colours that the whole grid has.
struct Shown {
    explicit Shown(const FigureRequest& request)
        : recording(request.runs.front().recording)
        , view(request.views.attention)
        , of(shown_attention(view, recording->info().config.mode))
        , window(window_of(request, *recording))
        , layers(not_hidden(recording->info().layers, view.hidden_layers))
        , heads(not_hidden(recording->info().heads, view.hidden_heads)) {
        if (layers.empty() || heads.empty())
            throw Error("drawing a figure", "--panel attention", "all layers or all heads are hidden");
        grid.update(*recording, {of, window, layers, heads, 96, 96});
        history.update(*recording);
        if (grid.missing_rows() < window.rows()) return;
        throw Error("drawing a figure", "--panel attention",
                    fmt::format("no attention of the {} is recorded at these steps", whose(of)),
                    of == AttentionOf::student
                        ? "record with --set capture.attention=true"
                        : "read its rows in the window's Attention panel and save the trace");
    }

    [[nodiscard]] AttentionColours colours(const FigurePen& pen) const {
        AttentionColours colours;
        colours.signed_map = pen.style.theme.map_signed;
        colours.theme_map = pen.style.theme.map_amounts;
        colours.show(view, of);
        colours.follow(grid);
        return colours;
    }

    /// Keys of the model that decodes which a cache policy kept from being read have a colour of their own.
    [[nodiscard]] bool marks_unread() const {
        const AttentionOf decoder =
            recording->info().config.mode == Mode::teacher ? AttentionOf::teacher : AttentionOf::student;
        return of == decoder && !history.all_read();
    }

    /// Cells as pixels; what is outside or was not recorded is the ground.
    [[nodiscard]] std::vector<uint32_t> pixels(const FigurePen& pen, const AttentionColours& colours,
                                               const AttentionMap& map, size_t layer, size_t head,
                                               const ColourScale& scale) const {
        const auto cells = map.cells(layer, head);
        std::vector<uint32_t> rgba(cells.size());
        colours.colour(cells, scale, rgba);
        if (marks_unread())
            mark_unread(history, map, layer, head, recording->prompt_length(), unread_colour(pen.style.theme),
                        rgba);
        return rgba;
    }

    /// "attention, student, log".
    [[nodiscard]] std::string scale_words(bool of_one_head) const {
        std::string words = fmt::format("attention, {}", whose(of));
        if (view.log) words += of == AttentionOf::difference ? ", symlog" : ", log";
        if (view.range == AttentionRange::per_head && !of_one_head) words += ", each head's own range";
        return words;
    }
    /// Weights at position 0 may lie above a range that leaves them out.
    [[nodiscard]] BeyondEnds beyond() const {
        const bool may = view.range != AttentionRange::unit && view.without_first;
        return {.low = may && of == AttentionOf::difference, .high = may};
    }
    /// Of rows that were recorded in bins: what a weight is.
    [[nodiscard]] std::string bin_words() const {
        return grid.keys_of_weight() > 1 ? fmt::format("means of {} keys", grid.keys_of_weight()) : "";
    }
    [[nodiscard]] std::vector<LegendEntry> legend(const FigurePen& pen) const {
        if (!marks_unread()) return {};
        return {{"not read", unread_colour(pen.style.theme), LegendEntry::Mark::box}};
    }

    std::shared_ptr<const Recording> recording;
    AttentionView view;
    AttentionOf of;
    QueryWindow window;
    std::vector<int32_t> layers, heads; ///< that are not hidden
    AttentionMap grid;                  ///< of all of these: what ranges are of
    ReadHistory history;
};

/// The window's own part of a map's cells.
FigureRect shown_part(const AttentionMap& map) {
    const CellWindow part = cell_window(map);
    return {0, static_cast<double>(part.v_begin), static_cast<double>(part.u_end),
            static_cast<double>(part.v_end - part.v_begin)};
}

std::pair<int32_t, int32_t> checked_head(const FigureRequest& request) {
    const RunInfo& info = request.runs.front().recording->info();
    const auto [layer, head] = *request.head;
    if (layer >= 0 && layer < info.layers && head >= 0 && head < info.heads) return *request.head;
    throw Error("drawing a figure", "--head",
                fmt::format("layer {} head {} does not exist: there are {} layers and {} heads, from 0",
                            layer, head, info.layers, info.heads));
}

class HeadFigure final : public Figure {
public:
    explicit HeadFigure(const FigureRequest& request)
        : m_head(checked_head(request))
        , m_shown(request) {
        m_map.update(*m_shown.recording,
                     {m_shown.of, m_shown.window, {m_head.first}, {m_head.second}, 2048, 1024});
    }

    double height(const FigurePen& pen, double width) const override {
        return std::min(width * 0.75, 220.0) + key_names_height(pen) + pen.text_line() * 3 +
               pen.small_line() + legend_height(pen, width, m_shown.legend(pen));
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        AttentionColours colours = m_shown.colours(pen);
        const ColourScale scale = scale_of(colours);
        const QueryWindow& window = m_shown.window;
        const int64_t before = m_shown.recording->prompt_length() - 1;
        double y = place.y + pen.text_line();
        pen.canvas.text({place.x, y - pen.style.text_pt * 0.35},
                        fmt::format("Layer {}, head {}{}{}", m_head.first, m_head.second,
                                    m_shown.bin_words().empty() ? "" : ", ", m_shown.bin_words()),
                        pen.text());
        y += draw_legend(pen, {place.x, y}, place.width, m_shown.legend(pen));
        y += draw_colour_bar(pen, {place.x, y, place.width, 0}, scale, m_shown.scale_words(true),
                             m_shown.beyond()) +
             3;
        const double names = query_names_width(pen), labels = pen.canvas.width_of("10,000", pen.small()) + 5;
        PlotArea area;
        area.rect = {place.x + names + labels + pen.style.text_pt * 1.3, y, 0, 0};
        area.rect.width = place.right() - area.rect.x - 2;
        area.rect.height = place.bottom() - y - key_names_height(pen) - pen.text_line() * 2;
        area.x_min = 0;
        area.x_max = static_cast<double>(window.keys());
        const double rows = static_cast<double>(window.rows());
        {
            const FigureGroup group(pen.canvas, "map");
            pen.canvas.rectangle(area.rect, pen.style.theme.plot_background);
            const auto pixels = m_shown.pixels(pen, colours, m_map, 0, 0, scale);
            pen.canvas.image(area.rect, {.width = m_map.columns(),
                                         .height = m_map.rows(),
                                         .rgba = pixels,
                                         .part = shown_part(m_map)});
            pen.canvas.frame(area.rect, {pen.style.theme.plot_border, pen.style.axis_pt});
        }
        // Queries by their steps, and by their tokens where there is room.
        const double row = area.rect.height / rows;
        const bool tokens = names > 0;
        const int64_t first = window.first_query - before, last = window.last_query - before;
        for (const int64_t step : whole_ticks(
                 first, last + 1, std::max<int64_t>(2, static_cast<int64_t>(area.rect.height / 16)))) {
            const double at = area.rect.y + (static_cast<double>(step - first) + 0.5) * row;
            pen.canvas.text({area.rect.x - names - 3, at + pen.style.small_pt * 0.35}, format_thousands(step),
                            pen.small(Align::right));
        }
        if (tokens)
            for (int64_t i = 0; i < window.rows(); ++i)
                pen.canvas.text({area.rect.x - 2, area.rect.y + (static_cast<double>(i) + 0.5) * row +
                                                      pen.style.small_pt * 0.35},
                                short_label(pen, window.first_query + i), pen.muted(Align::right));
        TextStyle title = pen.text(Align::centre);
        title.upwards = true;
        pen.canvas.text({place.x + pen.style.text_pt, area.rect.y + area.rect.height / 2}, "query step",
                        title);
        area.rect.height += key_names_height(pen);
        if (key_names_height(pen) > 0) {
            const double column = area.rect.width / area.x_max;
            for (int64_t key = 0; key < window.keys(); ++key) {
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
        const Recording& recording = *m_shown.recording;
        for (int64_t query = m_shown.window.first_query; query <= m_shown.window.last_query; ++query) {
            const auto row = attention_row(recording, query, m_shown.of, m_head.first, m_head.second);
            for (size_t key = 0; key < row.size(); ++key)
                table.rows.push_back(
                    {fmt::format("{}", query - recording.prompt_length() + 1), fmt::format("{}", key),
                     position_label(recording, static_cast<int64_t>(key)), cell_text(row[key])});
        }
        return table;
    }

private:
    /// Tokens stand beside rows and columns that are wide enough for a line of text.
    [[nodiscard]] double query_names_width(const FigurePen& pen) const {
        return static_cast<double>(m_shown.window.rows()) * pen.style.small_pt * 1.1 <= 220
                   ? pen.style.small_pt * 6
                   : 0;
    }
    [[nodiscard]] double key_names_height(const FigurePen& pen) const {
        return static_cast<double>(m_shown.window.keys()) * pen.style.small_pt * 1.1 <= 180
                   ? pen.style.small_pt * 6
                   : 0;
    }
    [[nodiscard]] std::string short_label(const FigurePen& pen, int64_t position) const {
        return pen.fitted(position_label(*m_shown.recording, position, 16), pen.muted(),
                          pen.style.small_pt * 5.5);
    }

    /// That of its place in the grid; of a head that is hidden there, its own.
    [[nodiscard]] ColourScale scale_of(AttentionColours& colours) const {
        const auto layer = std::ranges::find(m_shown.layers, m_head.first);
        const auto head = std::ranges::find(m_shown.heads, m_head.second);
        if (layer != m_shown.layers.end() && head != m_shown.heads.end())
            return colours.scale(static_cast<size_t>(layer - m_shown.layers.begin()),
                                 static_cast<size_t>(head - m_shown.heads.begin()));
        colours.reset_range();
        colours.follow(m_map);
        return colours.scale(0, 0);
    }

    std::pair<int32_t, int32_t> m_head;
    Shown m_shown;
    AttentionMap m_map;
};

/// All heads by layer, or the first of a ranking.
class HeadsFigure final : public Figure {
public:
    explicit HeadsFigure(const FigureRequest& request)
        : m_shown(request) {
        const AttentionView& view = m_shown.view;
        if (view.order == HeadOrder::place) {
            for (size_t layer = 0; layer < m_shown.layers.size(); ++layer)
                for (size_t head = 0; head < m_shown.heads.size(); ++head)
                    m_heads.push_back({layer, head, 0});
            return;
        }
        HeadRanking ranking;
        const HeadRanking::Question question{view.order, m_shown.of == AttentionOf::teacher, m_shown.layers,
                                             m_shown.heads};
        while (ranking.update(*m_shown.recording, question, m_shown.window, m_shown.window.rows())) {
        }
        m_heads = ranking.ranked();
        m_heads.resize(std::min(m_heads.size(), static_cast<size_t>(view.best)));
        if (m_heads.empty())
            throw Error("drawing a figure", "--panel attention",
                        view.order == HeadOrder::differing ? "no query here has the rows of both models"
                                                           : "no row of these queries is recorded");
    }

    double height(const FigurePen& pen, double width) const override {
        const double lines =
            pen.text_line() * 2 + pen.small_line() * 2 + legend_height(pen, width, m_shown.legend(pen));
        if (ranked())
            return lines + static_cast<double>(ranked_rows()) * (cell_size(pen, width) + name_height(pen));
        return lines + cell_size(pen, width) * static_cast<double>(m_shown.layers.size());
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const AttentionColours colours = m_shown.colours(pen);
        double y = place.y;
        y += draw_legend(pen, {place.x, y}, place.width, m_shown.legend(pen));
        y += draw_colour_bar(pen, {place.x, y, place.width, 0},
                             colours.scale(m_heads.front().layer_index, m_heads.front().head_index),
                             m_shown.scale_words(false), m_shown.beyond()) +
             3;
        const FigureRect map{place.x, y, place.width, place.bottom() - y - pen.small_line() * 2};
        if (ranked())
            draw_ranking(pen, map, colours);
        else
            draw_grid(pen, map, colours);
        const int64_t before = m_shown.recording->prompt_length() - 1;
        const QueryWindow& window = m_shown.window;
        pen.canvas.text(
            {place.x, map.bottom() + pen.style.small_pt + pen.small_line()},
            pen.fitted(fmt::format("{}{}each: queries of steps {} to {} downwards, keys 0 to {} to the right",
                                   m_shown.bin_words(), m_shown.bin_words().empty() ? "" : "; ",
                                   window.first_query - before, window.last_query - before,
                                   window.keys() - 1),
                       pen.muted(), place.width),
            pen.muted());
    }

    DataTable table() const override {
        DataTable table{{"layer", "head", "largest_weight", "largest_weight_without_position_0"}, {}};
        if (ranked()) table.columns.emplace_back(to_string(m_shown.view.order));
        for (const RankedHead& head : m_heads) {
            const auto all = m_shown.grid.largest_weight(head.layer_index, head.head_index, false),
                       rest = m_shown.grid.largest_weight(head.layer_index, head.head_index, true);
            std::vector<std::string> row{fmt::format("{}", m_shown.layers[head.layer_index]),
                                         fmt::format("{}", m_shown.heads[head.head_index]),
                                         all ? cell_text(*all) : "", rest ? cell_text(*rest) : ""};
            if (ranked()) row.push_back(cell_text(head.value));
            table.rows.push_back(std::move(row));
        }
        return table;
    }

private:
    static constexpr size_t ranked_columns = 6;
    [[nodiscard]] bool ranked() const { return m_shown.view.order != HeadOrder::place; }
    [[nodiscard]] size_t columns() const {
        return ranked() ? std::min(ranked_columns, m_heads.size()) : m_shown.heads.size();
    }
    [[nodiscard]] size_t ranked_rows() const { return (m_heads.size() + columns() - 1) / columns(); }
    static double name_height(const FigurePen& pen) { return pen.small_line(); }
    [[nodiscard]] double cell_size(const FigurePen& pen, double width) const {
        return std::clamp((width - pen.style.small_pt * 3) / static_cast<double>(columns()), 8.0,
                          ranked() ? 72.0 : 36.0);
    }

    void draw_cell(const FigurePen& pen, const FigureRect& cell, const AttentionColours& colours,
                   const RankedHead& head) const {
        const size_t l = head.layer_index, h = head.head_index;
        const FigureGroup group(pen.canvas, fmt::format("head_{}_{}", m_shown.layers[l], m_shown.heads[h]));
        const auto pixels = m_shown.pixels(pen, colours, m_shown.grid, l, h, colours.scale(l, h));
        pen.canvas.image(cell, {.width = m_shown.grid.columns(),
                                .height = m_shown.grid.rows(),
                                .rgba = pixels,
                                .part = shown_part(m_shown.grid)});
        pen.canvas.frame(cell, {pen.style.theme.plot_border, 0.3});
    }

    void draw_grid(const FigurePen& pen, const FigureRect& map, const AttentionColours& colours) const {
        std::vector<std::string> names;
        for (const int32_t layer : m_shown.layers)
            names.push_back(fmt::format("L{}", layer));
        const double left = map.x + row_names_width(pen, names);
        const double cell_x = (map.right() - left) / static_cast<double>(m_shown.heads.size()),
                     cell_y = map.height / static_cast<double>(m_shown.layers.size());
        draw_row_names(pen, {left, map.y, 0, map.height}, names);
        for (const RankedHead& head : m_heads)
            draw_cell(pen,
                      {left + static_cast<double>(head.head_index) * cell_x,
                       map.y + static_cast<double>(head.layer_index) * cell_y, cell_x - 1.2, cell_y - 1.2},
                      colours, head);
        double last = -1e9;
        for (size_t head = 0; head < m_shown.heads.size(); ++head) {
            const double x = left + (static_cast<double>(head) + 0.5) * cell_x;
            if (x < last + pen.style.small_pt * 2.4) continue;
            pen.canvas.text({x, map.bottom() + pen.style.small_pt}, fmt::format("H{}", m_shown.heads[head]),
                            pen.small(Align::centre));
            last = x;
        }
    }

    void draw_ranking(const FigurePen& pen, const FigureRect& map, const AttentionColours& colours) const {
        const std::string_view unit = head_order_unit(m_shown.view.order);
        const double cell_x = map.width / static_cast<double>(columns()),
                     cell_y = map.height / static_cast<double>(ranked_rows());
        for (size_t rank = 0; rank < m_heads.size(); ++rank) {
            const FigureRect cell{map.x + static_cast<double>(rank % columns()) * cell_x,
                                  map.y + static_cast<double>(rank / columns()) * cell_y, cell_x - 2,
                                  cell_y - name_height(pen) - 1};
            draw_cell(pen, cell, colours, m_heads[rank]);
            const std::string name =
                fmt::format("L{} H{}  {}", m_shown.layers[m_heads[rank].layer_index],
                            m_shown.heads[m_heads[rank].head_index], format_number(m_heads[rank].value));
            pen.canvas.text({cell.x, cell.bottom() + pen.style.small_pt * 1.05},
                            pen.fitted(name, pen.small(), cell.width), pen.small());
        }
        pen.canvas.text({map.x, map.bottom() + pen.style.small_pt},
                        fmt::format("{}{}", head_order_label(m_shown.view.order),
                                    unit.empty() ? std::string() : fmt::format(" ({})", unit)),
                        pen.small());
    }

    Shown m_shown;
    std::vector<RankedHead> m_heads; ///< of the grid, or the first of the ranking
};

} // namespace

std::unique_ptr<Figure> make_head_figure(const FigureRequest& request) {
    return std::make_unique<HeadFigure>(request);
}
std::unique_ptr<Figure> make_heads_figure(const FigureRequest& request) {
    return std::make_unique<HeadsFigure>(request);
}

} // namespace refreshlab::ui
