// The decoding model's cache after a step: who wrote each position, how long ago, and how far it was from the teacher's entry.
#include "engine/base/error.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/figure/paint/cache_paint.h"
#include "ui/scene/maps/cache_model.h"

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
        , m_map(all ? shown_map(m_view, *m_recording) : CacheMap::drift)
        , m_marks(m_recording) {
        m_model.update(*m_recording, m_step);
        m_model.show(m_view.quantity);
        if (columns().length() == 0)
            throw Error("drawing a figure", "--panel cache", "the run has no cache events");
        const CacheState& cache = m_model.cache();
        if (m_view.rows.layer && shown_rows(m_view, cache) != m_view.rows)
            throw Error("drawing a figure", "--layer",
                        fmt::format("layer {} does not exist: there are {}, from 0", *m_view.rows.layer,
                                    cache.layers()));
        if (!all && m_model.drift().layers == 0)
            throw Error("drawing a figure", "--panel drift", no_drift_text(*m_recording, false));
    }

    double height(const FigurePen& pen, double width) const override {
        colour(pen);
        const CacheImages& images = m_images;
        const double map = images.rows() == 0
                               ? 0
                               : std::clamp(static_cast<double>(images.rows()) * pen.style.small_pt * 1.2,
                                            40.0, width * 0.6);
        const double lanes = m_all ? 4 * pen.style.small_pt : 0;
        return heads(pen, width) + lanes + map + x_axis_height(pen) + (entries() ? pen.small_line() : 0);
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        colour(pen);
        const CachePicture picture = this->picture();
        double y = place.y;
        if (m_all)
            y += draw_legend(pen, {place.x, y}, place.width, cache_legend(pen.style.theme, picture)) + 2;
        if (has_drift()) y += draw_drift_scale(pen, {place.x, y, place.width, 0}) + 2;
        const double meter = entries() ? pen.small_line() : 0;
        const CachePlaces places =
            cache_places(pen, {place.x, y, place.width - 2, place.bottom() - y - meter}, picture, m_all);
        if (m_all) paint_cache_lanes(pen, places, picture);
        if (m_images.rows() > 0) paint_cache_map(pen, places, picture);
        paint_cache_marks(pen, places, picture);
        paint_cache_axis(pen, places, picture);
        if (entries())
            paint_cache_meter(pen, {place.x, place.bottom() - meter, place.width, meter},
                              cache_meter(*m_recording, m_model.cache()));
    }

    /// Of entries: for each layer the share of its KV heads that read a position, for KV heads what became of it.
    DataTable table() const override {
        DataTable table{{"position", "origin", "age_steps", "refresh"}, {}};
        const bool kv_heads = entries() && m_view.rows.layer;
        const int64_t rows = entries() ? m_view.rows.count(m_model.cache()) : m_model.drift().layers,
                      stride = m_model.drift().stride;
        const std::vector<float>& drift = m_model.shown();
        for (int64_t row = 0; row < rows; ++row)
            table.columns.push_back(fmt::format("{}{}",
                                                kv_heads    ? "kv_head"
                                                : entries() ? "read_layer"
                                                            : "drift_layer",
                                                row));
        for (int64_t i = 0; i < columns().length(); ++i) {
            const auto at = static_cast<size_t>(i);
            std::vector<std::string> row{
                fmt::format("{}", i), origin_label(columns().origin[at]), fmt::format("{}", columns().age(i)),
                columns().refresh[at] < 0 ? "" : fmt::format("{}", columns().refresh[at])};
            for (int64_t of = 0; of < rows; ++of)
                row.push_back(entries()    ? entry_cell(of, i)
                              : i < stride ? cell_text(drift[static_cast<size_t>(of * stride + i)])
                                           : "");
            table.rows.push_back(std::move(row));
        }
        return table;
    }

private:
    [[nodiscard]] bool entries() const { return m_map == CacheMap::entries; }
    [[nodiscard]] bool has_drift() const { return !entries() && m_model.drift().layers > 0; }
    [[nodiscard]] const CacheColumns& columns() const { return m_model.columns(); }
    [[nodiscard]] CachePicture picture() const { return {*m_recording, m_model, m_images, m_marks}; }
    void colour(const FigurePen& pen) const {
        constexpr int64_t most_columns = 4096;
        m_images.update(m_model,
                        {m_map, m_view.rows, m_view.log,
                         drift_top(m_view, m_view.top.value_or(m_model.shown_top())), most_columns},
                        pen.style.theme);
    }
    double draw_drift_scale(const FigurePen& pen, const FigureRect& place) const {
        const ColourScale scale = m_images.drift_scale(pen.style.theme);
        return draw_colour_bar(pen, place, scale, quantity_words(m_view.quantity),
                               {.low = false, .high = m_model.shown_top() > scale.max});
    }
    /// Of legend and scale.
    [[nodiscard]] double heads(const FigurePen& pen, double width) const {
        return (m_all ? legend_height(pen, width, cache_legend(pen.style.theme, picture())) + 2 : 0) +
               (has_drift() ? pen.style.small_pt + 4 : 0);
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
    StepMarks m_marks;
    // What a width does not change is made once.
    mutable CacheModel m_model;
    mutable CacheImages m_images;
};

} // namespace

std::unique_ptr<Figure> make_cache_figure(const FigureRequest& request, bool all) {
    return std::make_unique<CacheFigure>(request, all);
}

} // namespace refreshlab::ui
