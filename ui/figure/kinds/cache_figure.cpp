// The decoding model's cache after a step: who wrote each position, how long ago, and how far it was from the teacher's entry.
#include "engine/base/error.h"
#include "ui/base/value_format.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/figure/kinds/map_parts.h"
#include "ui/theme/run_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace refreshlab::ui {

namespace {

const char* quantity_words(DriftQuantity quantity) {
    switch (quantity) {
    case DriftQuantity::mean:
        return "drift of K and V, relative";
    case DriftQuantity::keys:
        return "drift of K, relative";
    case DriftQuantity::values:
        return "drift of V, relative";
    case DriftQuantity::keys_max:
        return "drift of K, largest difference";
    default:
        return "drift of V, largest difference";
    }
}

class CacheFigure final : public Figure {
public:
    CacheFigure(const FigureRequest& request, bool all)
        : m_recording(request.runs.front().recording)
        , m_all(all)
        , m_step(step_of(request, *m_recording))
        , m_quantity(request.drift) {
        m_view.update(*m_recording, m_step);
        m_view.show(m_quantity);
        m_drift = m_view.shown();
        m_top = m_view.shown_top();
        m_columns = m_view.columns();
        m_layers = m_view.drift().layers;
        m_stride = m_view.drift().stride;
        if (!all && m_layers == 0)
            throw Error("drawing a figure", "--panel drift", no_drift_text(*m_recording, false));
        if (m_columns.length() == 0)
            throw Error("drawing a figure", "--panel cache", "the run has no cache events");
    }

    double height(const FigurePen& pen, double width) const override {
        return heads(pen, width) + bands(pen) + (m_layers > 0 ? map_height(pen, width) : 0) +
               pen.text_line() * 2.4;
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const Theme& theme = pen.style.theme;
        double y = place.y;
        if (m_all) y += draw_legend(pen, {place.x, y}, place.width, legend(theme));
        const ColourScale drift{colour_map(theme.map_amounts), 0, m_top > 0 ? m_top : 1, false};
        const ColourScale ages{colour_map(theme.map_ages), 0, std::max(1.0, static_cast<double>(m_step)),
                               false};
        if (m_all) y += draw_colour_bar(pen, {place.x, y, place.width, 0}, ages, "age (steps)") + 2;
        if (m_layers > 0)
            y += draw_colour_bar(pen, {place.x, y, place.width, 0}, drift, quantity_words(m_quantity)) + 2;
        auto names = layer_names(m_layers);
        names.emplace_back("origin");
        const double left = place.x + row_names_width(pen, names);
        names.pop_back();
        PlotArea area;
        area.rect = {left, y, place.right() - left - 2, 0};
        area.x_max = static_cast<double>(m_columns.length());
        const int64_t n = m_columns.length();
        if (m_all) {
            std::vector<uint32_t> origins(static_cast<size_t>(n)), age(static_cast<size_t>(n));
            for (int64_t i = 0; i < n; ++i) {
                origins[static_cast<size_t>(i)] =
                    origin_colour(theme, m_columns.origin[static_cast<size_t>(i)]) | alpha_mask;
                age[static_cast<size_t>(i)] = ages(static_cast<double>(m_columns.age(i)));
            }
            draw_band(pen, area, "origin", origins);
            draw_band(pen, area, "age", age);
        }
        area.rect.height = std::max(0.0, place.bottom() - area.rect.y - pen.text_line() * 2.2);
        if (m_layers > 0) {
            const FigureGroup group(pen.canvas, "drift");
            draw_absent(pen, area.rect);
            std::vector<uint32_t> cells(static_cast<size_t>(m_layers * n));
            for (int64_t layer = 0; layer < m_layers; ++layer)
                for (int64_t i = 0; i < n; ++i) {
                    const float value =
                        i < m_stride ? m_drift[static_cast<size_t>(layer * m_stride + i)] : absent();
                    cells[static_cast<size_t>(layer * n + i)] =
                        is_absent(value) ? 0U : drift(static_cast<double>(value));
                }
            pen.canvas.image(area.rect, n, m_layers, cells);
            pen.canvas.frame(area.rect, {theme.plot_border, pen.style.axis_pt});
            draw_row_names(pen, area.rect, names);
        } else {
            area.rect.height = 0;
        }
        draw_x_axis(pen, area, fmt::format("cache position, after step {}", format_thousands(m_step)));
    }

    DataTable table() const override {
        DataTable table{{"position", "origin", "age_steps", "refresh"}, {}};
        for (int64_t layer = 0; layer < m_layers; ++layer)
            table.columns.push_back(fmt::format("drift_layer{}", layer));
        for (int64_t i = 0; i < m_columns.length(); ++i) {
            const auto at = static_cast<size_t>(i);
            std::vector<std::string> row{
                fmt::format("{}", i), origin_label(m_columns.origin[at]), fmt::format("{}", m_columns.age(i)),
                m_columns.refresh[at] < 0 ? "" : fmt::format("{}", m_columns.refresh[at])};
            for (int64_t layer = 0; layer < m_layers; ++layer)
                row.push_back(i < m_stride ? cell_text(m_drift[static_cast<size_t>(layer * m_stride + i)])
                                           : "");
            table.rows.push_back(std::move(row));
        }
        return table;
    }

private:
    static double band(const FigurePen& pen) { return pen.style.small_pt * 1.3; }
    [[nodiscard]] double bands(const FigurePen& pen) const { return m_all ? 2 * (band(pen) + 2) : 0; }
    [[nodiscard]] double heads(const FigurePen& pen, double width) const {
        const double bar = pen.style.small_pt + 4;
        return (m_all ? legend_height(pen, width, legend(pen.style.theme)) + bar : 0) +
               (m_layers > 0 ? bar : 0);
    }
    [[nodiscard]] double map_height(const FigurePen& pen, double width) const {
        return std::clamp(static_cast<double>(m_layers) * pen.style.small_pt * 1.2, 40.0, width * 0.6);
    }

    [[nodiscard]] std::vector<LegendEntry> legend(const Theme& theme) const {
        std::vector<LegendEntry> entries;
        for (const Origin origin : std::set<Origin>(m_columns.origin.begin(), m_columns.origin.end()))
            entries.push_back(
                {origin_label(origin), origin_colour(theme, origin) | alpha_mask, LegendEntry::Mark::box});
        return entries;
    }

    void draw_band(const FigurePen& pen, PlotArea& area, const std::string& name,
                   std::span<const uint32_t> cells) const {
        const FigureGroup group(pen.canvas, name);
        area.rect.height = band(pen);
        pen.canvas.image(area.rect, static_cast<int64_t>(cells.size()), 1, cells);
        pen.canvas.frame(area.rect, {pen.style.theme.plot_border, 0.3});
        draw_row_names(pen, area.rect, std::span(&name, 1));
        area.rect.y += band(pen) + 2;
    }

    std::shared_ptr<const Recording> m_recording;
    bool m_all;
    int64_t m_step;
    DriftQuantity m_quantity;
    CacheView m_view;
    CacheColumns m_columns;
    std::vector<float> m_drift; ///< [layers, stride]
    int64_t m_layers = 0, m_stride = 0;
    double m_top = 0;
};

} // namespace

std::unique_ptr<Figure> make_cache_figure(const FigureRequest& request, bool all) {
    return std::make_unique<CacheFigure>(request, all);
}

} // namespace refreshlab::ui
