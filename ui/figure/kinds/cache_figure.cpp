// The decoding model's cache after a step: who wrote each position, how long ago, and how far it was from the teacher's entry.
#include "engine/base/error.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/figure/kinds/map_parts.h"
#include "ui/scene/maps/cache_model.h"
#include "ui/theme/run_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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
        , m_view(request.views.cache)
        , m_map(all ? shown_map(m_view, *m_recording) : CacheMap::drift) {
        m_model.update(*m_recording, m_step);
        m_model.show(m_view.quantity);
        m_columns = m_model.columns();
        if (m_columns.length() == 0)
            throw Error("drawing a figure", "--panel cache", "the run has no cache events");
        const CacheState& cache = m_model.cache();
        if (m_view.rows.layer && shown_rows(m_view, cache) != m_view.rows)
            throw Error("drawing a figure", "--layer",
                        fmt::format("layer {} does not exist: there are {}, from 0", *m_view.rows.layer,
                                    cache.layers()));
        if (m_map == CacheMap::entries) {
            m_rows = m_view.rows.count(cache);
            m_held = count_rows(cache, m_view.rows);
            m_present = cells_present(cache);
            return;
        }
        m_drift = m_model.shown();
        m_top = m_model.shown_top();
        m_rows = m_model.drift().layers;
        m_stride = m_model.drift().stride;
        if (!all && m_rows == 0)
            throw Error("drawing a figure", "--panel drift", no_drift_text(*m_recording, false));
    }

    double height(const FigurePen& pen, double width) const override {
        return heads(pen, width) + bands(pen) + (m_rows > 0 ? map_height(pen, width) : 0) +
               pen.text_line() * 2.4 + (entries() ? pen.small_line() : 0);
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const Theme& theme = pen.style.theme;
        double y = place.y;
        if (m_all) y += draw_legend(pen, {place.x, y}, place.width, legend(theme));
        const ColourScale ages{colour_map(theme.map_ages), 0, std::max(1.0, static_cast<double>(m_step)),
                               false};
        if (m_all) y += draw_colour_bar(pen, {place.x, y, place.width, 0}, ages, "age (steps)") + 2;
        if (has_drift())
            y += draw_colour_bar(pen, {place.x, y, place.width, 0}, drift_scale(theme),
                                 quantity_words(m_view.quantity)) +
                 2;
        auto names = row_names();
        names.emplace_back("origin");
        const double left = place.x + row_names_width(pen, names);
        names.pop_back();
        PlotArea area;
        area.rect = {left, y, place.right() - left - 2 - bars_width(pen), 0};
        area.x_max = static_cast<double>(m_columns.length());
        if (m_all) draw_bands(pen, area, ages);
        area.rect.height = std::max(0.0, place.bottom() - area.rect.y - pen.text_line() * 2.2 -
                                             (entries() ? pen.small_line() : 0));
        if (entries())
            draw_entries(pen, area.rect);
        else if (has_drift())
            draw_drift(pen, area.rect);
        else
            area.rect.height = 0;
        if (area.rect.height > 0) draw_row_names(pen, area.rect, names);
        draw_x_axis(pen, area, fmt::format("cache position, after step {}", format_thousands(m_step)));
        if (!entries()) return;
        pen.canvas.text(
            {place.x, place.bottom() - 1},
            pen.fitted(meter_text(cache_meter(*m_recording, m_model.cache())), pen.muted(), place.width),
            pen.muted());
    }

    /// Of entries: for each layer the share of its KV heads that read a position, for KV heads what became of it.
    DataTable table() const override {
        DataTable table{{"position", "origin", "age_steps", "refresh"}, {}};
        const bool kv_heads = entries() && m_view.rows.layer;
        for (int64_t row = 0; row < m_rows; ++row)
            table.columns.push_back(fmt::format("{}{}",
                                                kv_heads    ? "kv_head"
                                                : entries() ? "read_layer"
                                                            : "drift_layer",
                                                row));
        for (int64_t i = 0; i < m_columns.length(); ++i) {
            const auto at = static_cast<size_t>(i);
            std::vector<std::string> row{
                fmt::format("{}", i), origin_label(m_columns.origin[at]), fmt::format("{}", m_columns.age(i)),
                m_columns.refresh[at] < 0 ? "" : fmt::format("{}", m_columns.refresh[at])};
            for (int64_t of = 0; of < m_rows; ++of)
                row.push_back(entries()      ? entry_cell(of, i)
                              : i < m_stride ? cell_text(m_drift[static_cast<size_t>(of * m_stride + i)])
                                             : "");
            table.rows.push_back(std::move(row));
        }
        return table;
    }

private:
    [[nodiscard]] bool entries() const { return m_map == CacheMap::entries; }
    [[nodiscard]] bool has_drift() const { return !entries() && m_rows > 0; }
    static double band(const FigurePen& pen) { return pen.style.small_pt * 1.3; }
    [[nodiscard]] double bands(const FigurePen& pen) const { return m_all ? 2 * (band(pen) + 2) : 0; }
    [[nodiscard]] double heads(const FigurePen& pen, double width) const {
        const double bar = pen.style.small_pt + 4;
        return (m_all ? legend_height(pen, width, legend(pen.style.theme)) + bar : 0) +
               (has_drift() ? bar : 0);
    }
    [[nodiscard]] double map_height(const FigurePen& pen, double width) const {
        return std::clamp(static_cast<double>(m_rows) * pen.style.small_pt * 1.2, 40.0, width * 0.6);
    }
    /// Right of the map: what each row holds.
    [[nodiscard]] double bars_width(const FigurePen& pen) const {
        return entries() ? pen.style.small_pt * 7 : 0;
    }
    [[nodiscard]] std::vector<std::string> row_names() const {
        if (!entries() || !m_view.rows.layer) return layer_names(m_rows);
        std::vector<std::string> names;
        for (int64_t head = 0; head < m_rows; ++head)
            names.push_back(fmt::format("KV{}", head));
        return names;
    }
    [[nodiscard]] ColourScale drift_scale(const Theme& theme) const {
        ColourScale scale{colour_map(theme.map_amounts), 0, m_top > 0 ? m_top : 1, m_view.log};
        if (scale.log) scale.min = scale.max * drift_log_share;
        return scale;
    }

    [[nodiscard]] std::vector<LegendEntry> legend(const Theme& theme) const {
        std::vector<LegendEntry> all;
        for (const Origin origin : legend_origins)
            if (std::ranges::find(m_columns.origin, origin) != m_columns.origin.end())
                all.push_back({origin_label(origin), column_colour(theme, origin) | alpha_mask,
                               LegendEntry::Mark::box});
        const CellPalette palette = cell_palette(theme);
        for (size_t cell = 0; entries() && cell + 1 < num_cache_cells; ++cell)
            if (m_present[cell])
                all.push_back({cell_label(static_cast<CacheCell>(cell)), palette[cell] | alpha_mask,
                               LegendEntry::Mark::box});
        return all;
    }

    void draw_bands(const FigurePen& pen, PlotArea& area, const ColourScale& ages) const {
        const auto n = static_cast<size_t>(m_columns.length());
        std::vector<uint32_t> origins(n), age(n);
        for (size_t i = 0; i < n; ++i) {
            origins[i] = column_colour(pen.style.theme, m_columns.origin[i]) | alpha_mask;
            age[i] = ages(static_cast<double>(m_columns.age(static_cast<int64_t>(i))));
        }
        draw_band(pen, area, "origin", origins);
        draw_band(pen, area, "age", age);
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

    void draw_drift(const FigurePen& pen, const FigureRect& place) const {
        const FigureGroup group(pen.canvas, "drift");
        const ColourScale scale = drift_scale(pen.style.theme);
        const int64_t n = m_columns.length();
        draw_absent(pen, place);
        std::vector<uint32_t> cells(static_cast<size_t>(m_rows * n));
        for (int64_t layer = 0; layer < m_rows; ++layer)
            for (int64_t i = 0; i < n; ++i) {
                const float value =
                    i < m_stride ? m_drift[static_cast<size_t>(layer * m_stride + i)] : absent();
                cells[static_cast<size_t>(layer * n + i)] =
                    is_absent(value) ? 0U : scale(static_cast<double>(value));
            }
        pen.canvas.image(place, n, m_rows, cells);
        pen.canvas.frame(place, {pen.style.theme.plot_border, pen.style.axis_pt});
    }

    void draw_entries(const FigurePen& pen, const FigureRect& place) const {
        const Theme& theme = pen.style.theme;
        {
            const FigureGroup group(pen.canvas, "entries");
            pen.canvas.rectangle(place, theme.plot_background);
            pen.canvas.image(place, m_columns.length(), m_rows,
                             colour_cells(m_model.cache(), m_view.rows, 1, cell_palette(theme)));
            pen.canvas.frame(place, {theme.plot_border, pen.style.axis_pt});
        }
        draw_held(pen, place);
    }

    /// What each row reads and holds, against all positions; a line at the budget.
    void draw_held(const FigurePen& pen, const FigureRect& map) const {
        const FigureGroup group(pen.canvas, "held");
        const CellPalette palette = cell_palette(pen.style.theme);
        const auto all = static_cast<double>(m_columns.length());
        const FigureRect place{map.right() + 4, map.y, bars_width(pen) - 4, map.height};
        const double row = place.height / static_cast<double>(m_rows);
        const auto bar = [&](int64_t i, double count, CacheCell cell) {
            pen.canvas.rectangle({place.x, place.y + (static_cast<double>(i) + 0.18) * row,
                                  place.width * std::min(1.0, count / all), row * 0.64},
                                 palette[static_cast<size_t>(cell)] | alpha_mask);
        };
        for (int64_t i = 0; i < std::min(m_rows, static_cast<int64_t>(m_held.size())); ++i) {
            const RowCount& count = m_held[static_cast<size_t>(i)];
            bar(i, all, CacheCell::evicted);
            bar(i, count.held, CacheCell::held);
            bar(i, count.attended, CacheCell::attended);
        }
        const double budget = entry_budget(m_recording->info().config);
        if (budget > 0 && budget < all)
            pen.canvas.line({place.x + place.width * budget / all, place.y},
                            {place.x + place.width * budget / all, place.bottom()},
                            {pen.style.theme.accent, pen.style.line_pt});
        pen.canvas.text({place.x, place.bottom() + pen.style.small_pt * 1.2}, "held", pen.muted());
        pen.canvas.text({place.right(), place.bottom() + pen.style.small_pt * 1.2},
                        format_thousands(m_columns.length()), pen.muted(TextStyle::Align::right));
    }

    [[nodiscard]] std::string entry_cell(int64_t row, int64_t position) const {
        const CacheState& cache = m_model.cache();
        if (m_view.rows.layer) return cell_label(cell_of(cache.plane(*m_view.rows.layer, row), position));
        int64_t read = 0;
        for (int64_t head = 0; head < cache.kv_heads(); ++head) {
            const CacheCell cell = cell_of(cache.plane(row, head), position);
            read += cell == CacheCell::attended || cell == CacheCell::encoded ? 1 : 0;
        }
        return cell_text(static_cast<double>(read) / static_cast<double>(cache.kv_heads()));
    }

    std::shared_ptr<const Recording> m_recording;
    bool m_all;
    int64_t m_step;
    CacheView m_view;
    CacheMap m_map;
    CacheModel m_model;
    CacheColumns m_columns;
    int64_t m_rows = 0; ///< of the map: layers, or the KV heads of one
    // Of entries.
    std::vector<RowCount> m_held;
    std::array<bool, num_cache_cells> m_present{};
    // Of drift.
    std::vector<float> m_drift; ///< [layers, stride]
    int64_t m_stride = 0;
    double m_top = 0;
};

} // namespace

std::unique_ptr<Figure> make_cache_figure(const FigureRequest& request, bool all) {
    return std::make_unique<CacheFigure>(request, all);
}

} // namespace refreshlab::ui
