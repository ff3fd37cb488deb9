#include "ui/figure/paint/cache_paint.h"

#include "ui/base/value_format.h"
#include "ui/figure/paint/map_parts.h"
#include "ui/scene/maps/heatmap.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace refreshlab::ui {

namespace {

ColourScale age_scale(const CacheModel& model, const Theme& theme) {
    return {colour_map(theme.map_ages), 0, std::max(1.0, static_cast<double>(model.columns().step)), false};
}

std::vector<std::string> row_names(const CacheImages& images) {
    const auto& [map, rows, log, top, columns] = images.choice();
    if (map == CacheMap::drift || !rows.layer) return layer_names(images.rows());
    std::vector<std::string> names;
    for (int64_t head = 0; head < images.rows(); ++head)
        names.push_back(fmt::format("KV{}", head));
    return names;
}

std::string axis_words(const CachePicture& picture) {
    return fmt::format("cache position, after step {}", format_thousands(picture.model.columns().step));
}
void paint_lane(const FigurePen& pen, const FigureRect& place, std::string_view id, const std::string& name,
                const FigureImage& cells) {
    const FigureGroup group(pen.canvas, id);
    if (!cells.rgba.empty()) pen.canvas.image(place, cells);
    pen.canvas.frame(place, {pen.style.theme.plot_border, pen.style.axis_pt * 0.6});
    draw_row_names(pen, place, std::span(&name, 1));
}

/// What each row reads and holds, against all positions; a line at the budget.
void paint_held(const FigurePen& pen, const FigureRect& place, const CachePicture& picture) {
    const FigureGroup group(pen.canvas, "held");
    const CellPalette palette = cell_palette(pen.style.theme);
    const auto all = static_cast<double>(std::max<int64_t>(1, picture.model.columns().length()));
    const auto held = picture.images.held();
    const double row = place.height / static_cast<double>(std::max<size_t>(1, held.size()));
    const auto bar = [&](size_t i, double count, CacheCell cell) {
        pen.canvas.rectangle({place.x, place.y + (static_cast<double>(i) + 0.18) * row,
                              place.width * std::min(1.0, count / all), std::max(1.0, row * 0.64)},
                             palette[static_cast<size_t>(cell)] | alpha_mask);
    };
    for (size_t i = 0; i < held.size(); ++i) {
        bar(i, all, CacheCell::evicted);
        bar(i, held[i].held, CacheCell::held);
        bar(i, held[i].attended, CacheCell::attended);
    }
    if (const double budget = entry_budget(picture.recording.info().config); budget > 0 && budget < all) {
        const double x = place.x + place.width * budget / all;
        pen.canvas.line({x, place.y}, {x, place.bottom()}, {pen.style.theme.accent, pen.style.line_pt});
    }
    const double below = place.bottom() + pen.style.tick_pt + pen.style.small_pt;
    pen.canvas.text({place.x, below}, "held", pen.muted());
    pen.canvas.text({place.right(), below}, format_thousands(picture.model.columns().length()),
                    pen.muted(TextStyle::Align::right));
}

} // namespace

bool CacheImages::Image::is_old(std::string now) {
    if (now == look) return false;
    look = std::move(now);
    ++revision;
    return true;
}

void CacheImages::update(CacheModel& model, const Choice& choice, const Theme& theme) {
    m_choice = choice;
    m_length = model.columns().length();
    if (m_length == 0) return;
    m_factor = reduction_factor(m_length, std::max<int64_t>(1, choice.columns));
    colour_lanes(model, theme);
    if (choice.map == CacheMap::drift)
        colour_drift(model, theme);
    else
        colour_entries(model, theme);
}

void CacheImages::colour_lanes(CacheModel& model, const Theme& theme) {
    const std::string look = fmt::format("{} {} {}", model.revision(), m_factor, theme.look);
    if (m_origins.is_old(look)) {
        m_origins.rgba.clear();
        for (const Origin origin : reduce_origins(model.columns().origin, m_factor))
            m_origins.rgba.push_back(column_colour(theme, origin) | alpha_mask);
    }
    if (!m_ages.is_old(look)) return;
    const auto ages = reduce_columns_max(model.ages(), 1, m_length, m_factor);
    m_ages.rgba.resize(ages.size());
    colour_values(ages, age_scale(model, theme), m_ages.rgba);
}

/// The map stays as it is while steps come and no refresh does.
void CacheImages::colour_drift(CacheModel& model, const Theme& theme) {
    m_rows = model.drift().layers;
    if (!m_drift.is_old(fmt::format("{} {} {} {} {}", model.drift_revision(), m_factor, m_choice.top,
                                    m_choice.log, theme.look)))
        return;
    m_drift.rgba.clear();
    if (m_rows == 0) return;
    const auto values = reduce_columns_max(model.shown(), m_rows, model.drift().stride, m_factor);
    m_drift.rgba.resize(values.size());
    colour_values(values, drift_scale(theme), m_drift.rgba);
}

void CacheImages::colour_entries(CacheModel& model, const Theme& theme) {
    m_rows = m_choice.rows.count(model.cache());
    if (!m_entries.is_old(fmt::format("{} {} {} {}", model.revision(), m_factor,
                                      m_choice.rows.layer.value_or(-1), theme.look)))
        return;
    m_entries.rgba =
        m_cells.update(model.cache(), {m_choice.rows, m_factor, cell_palette(theme), model.beginnings()});
    m_held = count_rows(model.cache(), m_choice.rows);
    m_present = cells_present(model.cache());
}

FigureImage CacheImages::image(const Image& of, int64_t rows, std::string_view key) const {
    const int64_t columns = rows > 0 ? std::ssize(of.rgba) / rows : 0;
    if (columns == 0) return {};
    return {.width = columns,
            .height = rows,
            .rgba = of.rgba,
            .key = key,
            .revision = of.revision,
            .part = {0, 0, static_cast<double>(m_length) / static_cast<double>(columns * m_factor), 1}};
}

FigureImage CacheImages::origins() const {
    return image(m_origins, 1, "cache/origin");
}
FigureImage CacheImages::ages() const {
    return image(m_ages, 1, "cache/age");
}
FigureImage CacheImages::map() const {
    return m_choice.map == CacheMap::drift ? image(m_drift, m_rows, "cache/drift")
                                           : image(m_entries, m_rows, "cache/entries");
}

ColourScale CacheImages::drift_scale(const Theme& theme) const {
    ColourScale scale{colour_map(theme.map_amounts), 0, m_choice.top > 0 ? m_choice.top : 1, m_choice.log};
    if (scale.log) scale.min = scale.max * drift_log_share;
    return scale;
}

CachePlaces cache_places(const FigurePen& pen, const FigureRect& place, const CachePicture& picture,
                         bool lanes) {
    auto names = row_names(picture.images);
    if (lanes) names.insert(names.end(), {"Origin", "Age"});
    const double left = std::ceil(row_names_width(pen, names)), em = pen.style.text_pt;
    const bool entries = picture.images.choice().map == CacheMap::entries;
    const double bars = entries && place.width > 20 * em ? 6 * em : 0;
    const double high = lanes ? std::round(std::clamp(place.height * 0.08, 0.9 * em, 1.6 * em)) : 0;
    const double gap = lanes ? std::round(em * 0.25) : 0;
    CachePlaces places;
    places.origins = {place.x + left, place.y, place.width - left - bars, high};
    places.ages = places.origins;
    places.ages.y += high + gap;
    places.map = places.ages;
    places.map.y = places.ages.bottom() + gap;
    places.named = place.height > 9 * em;
    const double axis = x_axis_height(pen) - (places.named ? 0 : pen.text_line());
    places.map.height = std::max(0.0, place.bottom() - axis - places.map.y);
    if (bars > 0)
        places.held = {places.map.right() + 0.5 * em, places.map.y, bars - 0.5 * em, places.map.height};
    return places;
}

void paint_cache_lanes(const FigurePen& pen, const CachePlaces& places, const CachePicture& picture) {
    paint_lane(pen, places.origins, "origin", "Origin", picture.images.origins());
    paint_lane(pen, places.ages, "age", "Age", picture.images.ages());
}

void paint_cache_map(const FigurePen& pen, const CachePlaces& places, const CachePicture& picture) {
    const CacheImages& images = picture.images;
    const Theme& theme = pen.style.theme;
    const bool drift = images.choice().map == CacheMap::drift;
    const FigureRect& place = places.map;
    {
        const FigureGroup group(pen.canvas, drift ? "drift" : "entries");
        if (drift)
            draw_absent(pen, place);
        else
            pen.canvas.rectangle(place, theme.plot_background);
        const FigureImage cells = images.map();
        if (!cells.rgba.empty()) pen.canvas.image(place, cells);
        const double row = place.height / static_cast<double>(std::max<int64_t>(1, images.rows()));
        for (int64_t i = 1; i < images.rows() && !drift && row > pen.style.text_pt * 0.3; ++i) {
            const double y = place.y + static_cast<double>(i) * row;
            pen.canvas.line({place.x, y}, {place.right(), y}, {theme.plot_background, pen.style.axis_pt});
        }
        pen.canvas.frame(place, {theme.plot_border, pen.style.axis_pt});
    }
    draw_row_names(pen, place, row_names(images));
    if (places.held.width > 0) paint_held(pen, places.held, picture);
}

void paint_cache_marks(const FigurePen& pen, const CachePlaces& places, const CachePicture& picture) {
    const FigureGroup group(pen.canvas, "refreshes");
    const CacheModel& model = picture.model;
    const double bottom = places.map.bottom(), em = pen.style.text_pt;
    const auto vertical = [&](double x, Colour colour) {
        pen.canvas.line({x, places.origins.y}, {x, bottom}, {colour, pen.style.axis_pt});
    };
    vertical(places.x_of(model, static_cast<double>(picture.recording.prompt_length())),
             pen.style.theme.text_muted);
    const size_t shown = picture.marks.first_from(MarkLane::refresh, model.columns().step + 1);
    const bool ticks = static_cast<double>(shown) * em > places.map.width; // many lines would hide the map
    double last = -1e9;
    for (size_t i = 0; i < shown; ++i) {
        const RefreshEvent& refresh = picture.marks.refresh(i);
        const double x = places.x_of(model, static_cast<double>(picture.recording.prompt_length() +
                                                                refresh.fired_step)); // the end of its delta
        if (x - last < em * 0.2) continue;
        last = x;
        if (ticks)
            pen.canvas.line({x, bottom}, {x, bottom + pen.style.tick_pt * 1.5},
                            {pen.style.theme.accent, pen.style.axis_pt});
        else
            vertical(x, pen.style.theme.accent);
    }
}

void paint_cache_axis(const FigurePen& pen, const CachePlaces& places, const CachePicture& picture) {
    PlotArea area;
    area.rect = places.map;
    area.x_min = -0.5;
    area.x_max = static_cast<double>(std::max<int64_t>(1, picture.model.columns().length())) - 0.5;
    draw_x_axis(pen, area, places.named ? axis_words(picture) : "");
}

void paint_cache_meter(const FigurePen& pen, const FigureRect& line, const CacheMeter& meter) {
    const FigureGroup group(pen.canvas, "bytes");
    const CellPalette palette = cell_palette(pen.style.theme);
    const double bar = std::min(8 * pen.style.text_pt, line.width * 0.25), gap = pen.style.text_pt * 0.5,
                 top = line.y + line.height * 0.22, high = line.height * 0.6,
                 full = static_cast<double>(std::max<int64_t>(1, meter.full_bytes));
    const auto part = [&](double bytes, CacheCell cell) {
        pen.canvas.rectangle({line.x, top, std::min(1.0, bytes / full) * bar, high},
                             palette[static_cast<size_t>(cell)] | alpha_mask);
    };
    part(full, CacheCell::evicted);
    part(static_cast<double>(meter.held_bytes + meter.index_bytes), CacheCell::held);
    part(static_cast<double>(meter.held_bytes), CacheCell::attended);
    TextStyle ink = pen.small();
    ink.colour = pen.style.theme.text;
    const double room = line.width - bar - gap;
    const std::string words = meter_text(meter);
    pen.canvas.text({line.x + bar + gap, line.y + line.height * 0.5 + pen.style.small_pt * 0.35},
                    pen.canvas.width_of(words, ink) <= room ? words
                                                            : pen.fitted(meter_text(meter, true), ink, room),
                    ink);
}

std::vector<LegendEntry> cache_legend(const Theme& theme, const CachePicture& picture) {
    const auto& origins = picture.model.columns().origin;
    std::vector<LegendEntry> all;
    for (const Origin origin : legend_origins)
        if (std::ranges::find(origins, origin) != origins.end())
            all.push_back(
                {origin_label(origin), column_colour(theme, origin) | alpha_mask, LegendEntry::Mark::box});
    if (picture.images.choice().map == CacheMap::drift) {
        all.push_back({"not measured", 0, LegendEntry::Mark::hatched});
    } else {
        const CellPalette palette = cell_palette(theme);
        for (size_t cell = 0; cell + 1 < num_cache_cells; ++cell)
            if (picture.images.present()[cell])
                all.push_back({cell_label(static_cast<CacheCell>(cell)), palette[cell] | alpha_mask,
                               LegendEntry::Mark::box});
    }
    const ColourScale ages = age_scale(picture.model, theme);
    all.push_back({.words = "age 0",
                   .mark = LegendEntry::Mark::scale,
                   .colours = ages,
                   .end = format_count(std::llround(ages.max), "step")});
    return all;
}

} // namespace refreshlab::ui
