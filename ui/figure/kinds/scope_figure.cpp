// Where in the cache refreshes pay: a map of layers and KV heads, and how much of the gain the first of them keep.

#include "engine/base/error.h"
#include "engine/record/recording/logged_config.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/figure/paint/scope_paint.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::ui {

namespace {

/// The map that a request has. Throws where it has none, or one that is no share of anything.
ScopeGrid require_grid(const FigureRequest& request) {
    const auto problem = [&](const char* why, const char* hint) {
        return Error("drawing a figure", "--panel " + request.panel, why, hint);
    };
    if (!request.scope_map) throw problem("the run has no scope map", "refreshlab scope TRACE measures it");
    ScopeGrid grid = scope_grid({request.scope_map, request.views.landscape.scope});
    if (grid.halves.empty())
        throw problem("the whole refreshes gain nothing on this text, so there are no shares of it", "");
    return grid;
}

class ScopeFigure final : public Figure {
public:
    explicit ScopeFigure(const FigureRequest& request)
        : m_map(request.scope_map)
        , m_grid(require_grid(request))
        , m_measure(request.views.landscape.scope)
        , m_framed(request.policy.value_or(last_config(*request.runs.front().recording).policy).scope) {}

    double height(const FigurePen& pen, double width) const override {
        const double map = map_height(pen) + scope_map_top(pen);
        return head_height(pen) +
               (beside(width) || !has_curve() ? map : map + curve_height(width) + gap(pen));
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        double y = place.y;
        y += paint_scope_bar(pen, {place.x, y, place.width, 0}, m_grid, m_measure);
        for (const std::string& line : pen.wrapped(words(), pen.muted(), place.width, 2)) {
            pen.canvas.text({place.x, y + pen.style.small_pt}, line, pen.muted());
            y += pen.small_line();
        }
        y = place.y + head_height(pen);
        const bool stacked = has_curve() && !beside(place.width);
        const double left = scope_map_left(pen), top = scope_map_top(pen);
        const double bottom =
            stacked ? place.bottom() - curve_height(place.width) - gap(pen) : place.bottom();
        const double right = has_curve() && !stacked ? place.x + 0.55 * place.width : place.right() - 2;
        const FigureRect map{place.x + left, y + top, right - place.x - left, bottom - y - top - 1};
        paint_scope_map(pen, map, m_grid, m_framed);
        if (!has_curve()) return;
        const FigureRect curve =
            stacked ? FigureRect{place.x, bottom + gap(pen), place.width, curve_height(place.width)}
                    : FigureRect{right + gap(pen), map.y, place.right() - right - gap(pen),
                                 std::min(map.height, curve_height(place.width))};
        paint_scope_curve(pen, scope_curve_area(pen, curve, m_grid), m_grid, m_framed);
    }

    /// A row for each cell of the map, and for each KV head of the greedy order.
    DataTable table() const override {
        DataTable table{
            {"of", "layer", "part", "kv_heads", "bytes", "gain_nats", "share", "share_low", "share_high"},
            {}};
        const auto share = [](std::vector<std::string>& row, const std::optional<GainShare>& of) {
            row.push_back(of ? cell_text(of->share) : std::string());
            row.push_back(of && of->interval ? cell_text(of->interval->low) : std::string());
            row.push_back(of && of->interval ? cell_text(of->interval->high) : std::string());
        };
        for (int64_t layer = 0; layer < m_grid.layers; ++layer)
            for (size_t column = 0; column < m_grid.columns.size(); ++column) {
                const ScopeCell& cell = m_grid.at(layer, column);
                std::vector<std::string> row{m_measure == ScopeMeasure::alone ? "alone" : "without",
                                             fmt::format("{}", layer),
                                             part_name(column),
                                             "",
                                             cell_text(cell.bytes),
                                             cell_text(cell.gain)};
                share(row, cell.share);
                table.rows.push_back(std::move(row));
            }
        for (size_t n = 0; n < m_map->taken.size(); ++n) {
            const ScopeMap::Taken& taken = m_map->taken[n];
            std::vector<std::string> row{"greedy order",
                                         fmt::format("{}", taken.layer),
                                         fmt::format("head {}", taken.kv_head),
                                         fmt::format("{}", n + 1),
                                         cell_text(m_grid.greedy[n].bytes),
                                         cell_text(mean_gain(*m_map, taken.loss).gain)};
            share(row, gain_share(*m_map, taken.loss));
            table.rows.push_back(std::move(row));
        }
        return table;
    }

private:
    [[nodiscard]] bool has_curve() const { return !m_grid.greedy.empty(); }
    /// "all", "keys", "head 0", "block 0": the oldest positions.
    [[nodiscard]] std::string part_name(size_t column) const {
        if (column >= m_grid.first_block()) return fmt::format("block {}", column - m_grid.first_block());
        return (column < ScopeGrid::first_head ? "" : "head ") + m_grid.columns[column];
    }
    static bool beside(double width) { return width > 110 * points_per_mm; }
    static double gap(const FigurePen& pen) { return pen.style.text_pt; }
    static double curve_height(double width) { return std::min(width * 0.5, 150.0); }
    [[nodiscard]] double map_height(const FigurePen& pen) const {
        return std::clamp(static_cast<double>(m_grid.layers) * pen.small_line(), 80.0, 260.0);
    }
    static double head_height(const FigurePen& pen) { return pen.text_line() + 2 * pen.small_line(); }

    /// "16 refreshes, 16 tokens behind each: 1.553 nats a token without, 1.263 with all of it; framed: layers 10-24"
    [[nodiscard]] std::string words() const {
        std::string text = scope_map_words(*m_map);
        if (!m_framed.whole_entries()) text += "; framed: " + scope_text(m_framed);
        return text;
    }

    std::shared_ptr<const ScopeMap> m_map;
    ScopeGrid m_grid;
    ScopeMeasure m_measure;
    RefreshScope m_framed;
};

} // namespace

std::unique_ptr<Figure> make_scope_figure(const FigureRequest& request) {
    return std::make_unique<ScopeFigure>(request);
}

} // namespace refreshlab::ui
