// Attention: one head as queries by keys, or all heads as a grid of small maps.
#include "engine/base/error.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/figure/paint/attention_paint.h"
#include "ui/scene/attention/attention_colours.h"
#include "ui/scene/attention/attention_geometry.h"
#include "ui/scene/attention/head_ranking.h"
#include "ui/scene/attention/read_history.h"
#include "ui/scene/text/token_label.h"
#include "ui/scene/theme/run_colours.h"

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
    int64_t last = step_of(request, recording);
    if (last > 1 && !recording.step(last).fed) --last; // the last token of a finished run reads nothing
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
        if (view.scales) colours.widen(*view.scales, layers.size() * heads.size());
        colours.follow(grid);
        return colours;
    }

    [[nodiscard]] bool marks_unread() const { return ui::marks_unread(*recording, of, history); }

    /// "attention, student, log".
    [[nodiscard]] std::string scale_words(bool of_one_head) const {
        std::string words = fmt::format("attention, {}", whose(of));
        if (view.log) words += of == AttentionOf::difference ? ", symlog" : ", log";
        if (view.range == AttentionRange::per_head && !of_one_head && !own_range(view.ranges, range_name(of)))
            words += ", each head's own range";
        return words;
    }
    [[nodiscard]] BeyondEnds beyond() const {
        const bool may = may_lie_beyond(view, of);
        return {.low = may && of == AttentionOf::difference, .high = may};
    }
    /// Of rows that were recorded in bins: how much of them is known.
    [[nodiscard]] std::string bin_words() const { return resolution_words(grid.resolution()); }
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
        m_row.read(*m_shown.recording, m_shown.window.last_query, m_shown.of, m_head.first, m_head.second);
    }

    double height(const FigurePen& pen, double width) const override {
        return std::min(width * 0.75, 220.0) + pen.text_line() * 4 + heads(pen, width);
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        AttentionColours colours = m_shown.colours(pen);
        const ColourScale scale = scale_of(colours);
        double y = place.y + draw_legend(pen, {place.x, place.y}, place.width, m_shown.legend(pen));
        draw_colour_bar(pen, {place.x, y, place.width, 0}, scale, m_shown.scale_words(true),
                        m_shown.beyond());
        y = place.y + heads(pen, place.width);
        std::vector<uint32_t> rgba(m_map.cells(0, 0).size());
        colours.colour(m_map.cells(0, 0), scale, rgba);
        if (m_shown.marks_unread())
            mark_unread(m_shown.history, m_map, 0, 0, m_shown.recording->prompt_length(),
                        unread_colour(pen.style.theme), rgba);
        const HeadPicture picture{.recording = *m_shown.recording,
                                  .steps = m_shown.recording->steps(),
                                  .map = m_map,
                                  .cells = {.width = m_map.columns(), .height = m_map.rows(), .rgba = rgba},
                                  .row = m_row,
                                  .query = m_shown.window.last_query,
                                  .of = m_shown.of,
                                  .layer = m_head.first,
                                  .head = m_head.second,
                                  .without_first = m_shown.view.without_first,
                                  .unread = m_shown.marks_unread() ? &m_shown.history : nullptr};
        const HeadPlaces places =
            head_places(pen, {place.x, y, place.width - 2, place.bottom() - y}, m_shown.window.keys());
        paint_head_title(pen, places, picture);
        paint_strip(pen, places, picture);
        paint_head_map(pen, places, picture);
        paint_head_axes(pen, places, picture);
    }

    DataTable table() const override {
        DataTable table{{"query_step", "key_position", "token", "weight", "keys_of_weight"}, {}};
        const Recording& recording = *m_shown.recording;
        for (int64_t query = m_shown.window.first_query; query <= m_shown.window.last_query; ++query) {
            const auto row = attention_row(recording, query, m_shown.of, m_head.first, m_head.second);
            const auto keys = keys_of_weights(recording, query, m_shown.of, m_head.first, m_head.second);
            for (size_t key = 0; key < row.size(); ++key)
                table.rows.push_back({fmt::format("{}", query - recording.prompt_length() + 1),
                                      fmt::format("{}", key),
                                      position_label(recording, static_cast<int64_t>(key)),
                                      cell_text(row[key]), fmt::format("{}", keys[key])});
        }
        return table;
    }

private:
    /// Of legend and scale.
    [[nodiscard]] double heads(const FigurePen& pen, double width) const {
        return legend_height(pen, width, m_shown.legend(pen)) + pen.style.small_pt + 5;
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
    ShownRow m_row; ///< of the last query
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
            pen.text_line() + pen.small_line() * 3 + legend_height(pen, width, m_shown.legend(pen));
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
        const bool marks = m_shown.marks_unread();
        const UnreadMark unread{m_shown.history, m_shown.recording->prompt_length(),
                                unread_colour(pen.style.theme)};
        const auto rgba = heads_image(m_shown.grid, colours, marks ? &unread : nullptr);
        const HeadsPicture picture{m_shown.grid,
                                   {.width = m_shown.grid.columns() * std::ssize(m_shown.heads),
                                    .height = m_shown.grid.rows() * std::ssize(m_shown.layers),
                                    .rgba = rgba}};
        if (ranked())
            draw_ranking(pen, map, picture);
        else
            draw_grid(pen, map, picture);
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
    /// Height of a row with its gap, and of a ranking without the names.
    [[nodiscard]] double cell_size(const FigurePen& pen, double width) const {
        return std::clamp((width - pen.style.small_pt * 3) / static_cast<double>(columns()), 8.0,
                          ranked() ? 72.0 : 36.0);
    }

    void draw_grid(const FigurePen& pen, const FigureRect& map, const HeadsPicture& picture) const {
        const HeadGrid grid = head_grid(pixel_box(map), std::ssize(m_shown.layers), std::ssize(m_shown.heads),
                                        static_cast<float>(pen.style.small_pt));
        std::vector<PlacedHead> placed;
        for (const RankedHead& head : m_heads)
            placed.push_back(
                {head.layer_index, head.head_index,
                 figure_rect({grid.column(static_cast<int64_t>(head.head_index)),
                              grid.row(static_cast<int64_t>(head.layer_index)), grid.cell_x, grid.cell_y})});
        paint_heads(pen, picture, placed, true);
        paint_grid_names(pen, grid, m_shown.grid, std::nullopt);
    }

    void draw_ranking(const FigurePen& pen, const FigureRect& map, const HeadsPicture& picture) const {
        const RankedGrid grid =
            ranked_grid(pixel_box(map), std::ssize(m_heads), static_cast<float>(pen.style.small_pt));
        std::vector<PlacedHead> placed;
        for (int64_t rank = 0; rank < std::ssize(m_heads); ++rank) {
            const RankedHead& head = m_heads[static_cast<size_t>(rank)];
            placed.push_back({head.layer_index, head.head_index, figure_rect(grid.cell(rank))});
        }
        paint_heads(pen, picture, placed, true);
        for (size_t rank = 0; rank < placed.size(); ++rank)
            paint_rank_name(pen, placed[rank].place, placed[rank].place.width + static_cast<double>(grid.gap),
                            m_shown.layers[placed[rank].layer], m_shown.heads[placed[rank].head],
                            m_heads[rank].value, false);
        pen.canvas.text({map.x, map.bottom() + pen.style.small_pt}, ranking_words(m_shown.view.order),
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
