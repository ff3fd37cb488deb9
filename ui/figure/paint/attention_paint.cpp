#include "ui/figure/paint/attention_paint.h"

#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/scene/maps/heatmap.h"
#include "ui/scene/text/token_label.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

using Align = TextStyle::Align;

/// The window's own part of a map's cells.
FigureRect shown_part(const AttentionMap& map) {
    const CellWindow part = cell_window(map);
    return {0, static_cast<double>(part.v_begin), static_cast<double>(part.u_end),
            static_cast<double>(part.v_end - part.v_begin)};
}

/// "+0.19": a difference without its sign says the wrong thing half of the time.
std::string weight_words(double value, AttentionOf of) {
    return (of == AttentionOf::difference && value > 0 ? "+" : "") + format_number(value);
}

/// How many labels of a size fit, two at least.
int64_t labels_that_fit(double room, double one) {
    return std::max<int64_t>(2, static_cast<int64_t>(room / one));
}

TextStyle bright(const FigurePen& pen, bool strong, Align align = Align::left) {
    TextStyle ink = pen.small(align);
    if (strong) ink.colour = pen.style.theme.text;
    return ink;
}

/// A token's label for an axis, no wider than the room.
std::string axis_token(const FigurePen& pen, const Recording& recording, int64_t position, double room) {
    constexpr size_t longest = 10;
    const int64_t prompt = recording.prompt_length();
    const int32_t id = position < prompt ? recording.info().prompt_ids[static_cast<size_t>(position)]
                                         : recording.token(position - prompt + 1);
    for (size_t chars = longest; chars > 1; --chars)
        if (std::string label = short_token_label(recording.tokens(), id, chars);
            pen.canvas.width_of(label, pen.small()) <= room)
            return label;
    return {};
}

/// Bars that stand on one line, upwards or downwards.
struct Bars {
    double foot = 0;   ///< y that they stand on
    double height = 0; ///< of a bar that reaches `top`
    double top = 0;    ///< weight
    double edge = 0;   ///< y of the strip's edge that they grow to
    bool up = true;
};

void paint_bars(const FigurePen& pen, const HeadPlaces& places, const Bars& bars,
                std::span<const float> weights, Colour colour) {
    const double em = pen.style.text_pt, thin = 2 * pen.style.axis_pt;
    for (const StripBar& bar : strip_bars(weights, places.axis)) {
        const auto value = static_cast<double>(bar.value), x0 = static_cast<double>(bar.x0);
        if (value < 0 || bars.top <= 0) continue;
        const double high = pen.style.pitch(std::min(1.0, value / bars.top) * bars.height);
        // A single strong key must not be lost: two neighbours then share some width.
        const double left = std::min(x0, places.strip.right() - thin),
                     right = std::max(static_cast<double>(bar.x1), x0 + thin);
        if (high > 0)
            pen.canvas.rectangle({left, bars.up ? bars.foot - high : bars.foot, right - left, high}, colour);
        if (value > bars.top * 1.001) { // beyond the scale
            const double base = bars.edge + (bars.up ? 0.3 : -0.3) * em;
            const FigurePoint arrow[] = {{x0, base}, {x0 + em * 0.5, base}, {x0 + em * 0.25, bars.edge}};
            pen.canvas.polygon(arrow, pen.style.theme.text);
        }
    }
}

/// Behind the bars: keys that the shown query did not read.
void paint_unread_keys(const FigurePen& pen, const HeadPlaces& places, const HeadPicture& picture) {
    if (picture.unread == nullptr) return;
    const int64_t kv_head = picture.unread->kv_head_of(picture.head),
                  step = picture.query - picture.recording.prompt_length() + 1;
    const auto keys = std::ssize(picture.row.weights);
    const auto is_unread = [&](int64_t key) {
        return picture.row.weights[static_cast<size_t>(key)] == 0 &&
               picture.unread->is_unread(picture.layer, kv_head, key, step);
    };
    const auto x = [&](int64_t key) { return static_cast<double>(places.axis.x(static_cast<double>(key))); };
    for (int64_t key = 0; key < keys;) {
        const int64_t first = key;
        while (key < keys && is_unread(key))
            ++key;
        if (key > first)
            pen.canvas.rectangle({x(first), places.strip.y + pen.style.axis_pt, x(key) - x(first),
                                  places.strip.height - 2 * pen.style.axis_pt},
                                 unread_colour(pen.style.theme));
        else
            ++key;
    }
}

void paint_held_key(const FigurePen& pen, const HeadPlaces& places, const FigureRect& place,
                    const HeadPicture& picture) {
    if (!picture.held || *picture.held >= places.axis.keys) return;
    const double x =
        pen.style.pitch(static_cast<double>(places.axis.x(static_cast<double>(*picture.held) + 0.5)));
    draw_marked_line(pen, {x, place.y}, {x, place.bottom()}, pen.style.theme.selection);
}

/// A hatch where the rows of queries were not recorded.
void paint_missing_rows(const FigurePen& pen, const HeadPlaces& places, const HeadPicture& picture) {
    const QueryWindow& window = picture.window();
    for (int64_t q = window.first_query; q <= window.last_query;) {
        if (picture.map.has_row(q)) {
            ++q;
            continue;
        }
        const int64_t first = q;
        while (q <= window.last_query && !picture.map.has_row(q))
            ++q;
        const double top = row_top(places, window, first);
        draw_absent(pen, {places.map.x, top,
                          static_cast<double>(places.axis.x(static_cast<double>(q))) - places.map.x,
                          row_top(places, window, q) - top});
    }
}

void paint_step_axis(const FigurePen& pen, const HeadPlaces& places, const HeadPicture& picture) {
    const QueryWindow& window = picture.window();
    const FigureRect& map = places.map;
    const double em = pen.style.small_pt, row = map.height / static_cast<double>(window.rows());
    const int64_t before = picture.recording.prompt_length() - 1, first = window.first_query - before;
    for (const int64_t step :
         whole_ticks(first, first + window.rows(), labels_that_fit(map.height, 1.6 * em))) {
        const double y = map.y + (static_cast<double>(step - first) + 0.5) * row;
        pen.canvas.line({map.x - pen.style.tick_pt, y}, {map.x, y},
                        {pen.style.theme.plot_border, pen.style.axis_pt});
        pen.canvas.text(
            {map.x - places.step_tokens - 1.8 * pen.style.tick_pt, std::min(y + em * 0.35, map.bottom())},
            format_thousands(step), pen.small(Align::right));
    }
    if (places.step_tokens > 0) {
        const std::vector<int64_t> wanted = {picture.query};
        for (const int64_t query : spaced_labels(wanted, window.first_query, window.last_query + 1,
                                                 static_cast<float>(row), static_cast<float>(1.1 * em))) {
            const double y = row_top(places, window, query) + row / 2;
            pen.canvas.text({map.x - 1.8 * pen.style.tick_pt, y + em * 0.35},
                            axis_token(pen, picture.recording, query, places.step_tokens - 0.3 * em),
                            bright(pen, query == picture.query, Align::right));
        }
    }
    if (!places.named) return;
    TextStyle title = pen.text(Align::centre);
    title.upwards = true;
    pen.canvas.text({places.title.x + pen.style.text_pt, map.y + map.height / 2}, "query step", title);
}

void paint_key_axis(const FigurePen& pen, const HeadPlaces& places, const HeadPicture& picture) {
    const FigureRect& map = places.map;
    const double em = pen.style.small_pt;
    if (places.key_tokens > 0) {
        std::vector<int64_t> wanted;
        if (picture.held) wanted.push_back(*picture.held);
        for (const TopKey& key : picture.row.top)
            wanted.push_back(key.position);
        const double column = map.width / static_cast<double>(places.axis.keys);
        for (const int64_t key : spaced_labels(wanted, 0, places.axis.keys, static_cast<float>(column),
                                               static_cast<float>(1.05 * em))) {
            if (key >= picture.recording.prompt_length() + picture.steps) continue;
            TextStyle ink = bright(pen, std::ranges::find(wanted, key) != wanted.end(), Align::right);
            ink.upwards = true;
            pen.canvas.text(
                {map.x + (static_cast<double>(key) + 0.5) * column + em * 0.35, map.bottom() + em * 0.25},
                axis_token(pen, picture.recording, key, places.key_tokens - 0.4 * em), ink);
        }
    }
    std::string title = "key position";
    if (picture.map.key_factor() * picture.map.query_factor() > 1)
        title += fmt::format(", max of {} x {}", picture.map.query_factor(), picture.map.key_factor());
    if (pen.canvas.width_of(title, pen.small()) > map.width) title = "key";
    const double base = places.bottom - em * 0.25,
                 title_x = map.right() - pen.canvas.width_of(title, pen.small());
    double free_from = map.x - em;
    for (const int64_t tick : whole_ticks(0, places.axis.keys, labels_that_fit(map.width, 4 * em))) {
        const std::string label = format_thousands(tick);
        const double x = static_cast<double>(places.axis.x(static_cast<double>(tick) + 0.5)),
                     half = pen.canvas.width_of(label, pen.small()) / 2;
        pen.canvas.line({x, map.bottom()}, {x, map.bottom() + pen.style.tick_pt},
                        {pen.style.theme.plot_border, pen.style.axis_pt});
        if (x - half < free_from || x + half > title_x - em * 0.5) continue; // it would touch another word
        pen.canvas.text({x, base}, label, pen.small(Align::centre));
        free_from = x + half + em * 0.5;
    }
    pen.canvas.text({map.right(), base}, title, pen.small(Align::right));
}

} // namespace

bool marks_unread(const Recording& recording, AttentionOf of, const ReadHistory& history) {
    const AttentionOf decoder =
        recording.info().config.mode == Mode::teacher ? AttentionOf::teacher : AttentionOf::student;
    return of == decoder && !history.all_read();
}

FigureImage HeadsPicture::cells(size_t layer, size_t head) const {
    const auto layers = static_cast<double>(map.shape().layers.size()),
               heads = static_cast<double>(map.shape().heads.size());
    const FigureRect own = shown_part(map);
    FigureImage image = sheet;
    image.part = {static_cast<double>(head) / heads, (static_cast<double>(layer) + own.y) / layers,
                  own.width / heads, own.height / layers};
    return image;
}

void paint_heads(const FigurePen& pen, const HeadsPicture& picture, std::span<const PlacedHead> placed,
                 bool framed) {
    const Theme& theme = pen.style.theme;
    const bool empty = picture.map.missing_rows() == picture.map.shape().window.rows();
    for (const PlacedHead& head : placed)
        pen.canvas.rectangle(head.place, empty ? theme.absent_a : theme.plot_background);
    pen.canvas.begin_images();
    for (const PlacedHead& head : placed) {
        const FigureGroup group(pen.canvas, fmt::format("head_{}_{}", picture.map.shape().layers[head.layer],
                                                        picture.map.shape().heads[head.head]));
        pen.canvas.image(head.place, picture.cells(head.layer, head.head));
    }
    pen.canvas.end_images();
    for (const PlacedHead& head : placed)
        if (framed) pen.canvas.frame(head.place, {theme.plot_border, pen.style.axis_pt * 0.6});
}

void paint_grid_names(const FigurePen& pen, const HeadGrid& grid, const AttentionMap& map,
                      std::optional<std::pair<int32_t, int32_t>> chosen) {
    const double em = pen.style.small_pt, cell_x = static_cast<double>(grid.cell_x),
                 cell_y = static_cast<double>(grid.cell_y);
    const auto& layers = map.shape().layers;
    const auto& heads = map.shape().heads;
    for (size_t l = 0; l < layers.size(); ++l) {
        if (cell_y < em * 0.9 && l % 4 != 0) continue;
        const double y = static_cast<double>(grid.row(static_cast<int64_t>(l))) + cell_y / 2 + em * 0.35;
        pen.canvas.text({static_cast<double>(grid.names_x), y}, fmt::format("L{}", layers[l]),
                        bright(pen, chosen && chosen->first == layers[l]));
    }
    for (size_t h = 0; h < heads.size(); ++h) {
        const std::string label = fmt::format("H{}", heads[h]);
        if (cell_x < pen.canvas.width_of(label, pen.small()) && h % 4 != 0) continue;
        pen.canvas.text({static_cast<double>(grid.column(static_cast<int64_t>(h))) + cell_x / 2,
                         static_cast<double>(grid.under) + em},
                        label, bright(pen, chosen && chosen->second == heads[h], Align::centre));
    }
}

void paint_rank_name(const FigurePen& pen, const FigureRect& cell, double room, int32_t layer, int32_t head,
                     double value, bool chosen) {
    const TextStyle ink = bright(pen, chosen);
    std::string name = fmt::format("L{} H{}", layer, head);
    if (const std::string whole = fmt::format("{}  {}", name, format_number(value));
        pen.canvas.width_of(whole, ink) <= room)
        name = whole;
    if (pen.canvas.width_of(name, ink) > room) name = fmt::format("{}.{}", layer, head);
    pen.canvas.text({cell.x, cell.bottom() + pen.style.small_pt}, name, ink);
}

std::string ranking_words(HeadOrder order) {
    const std::string_view unit = head_order_unit(order);
    return fmt::format("{}{}", head_order_label(order),
                       unit.empty() ? std::string() : fmt::format(" ({})", unit));
}

HeadPlaces head_places(const FigurePen& pen, const FigureRect& place, int64_t keys) {
    const double em = pen.style.text_pt, line = pen.style.pitch(1.2 * em);
    const auto whole = [&](double length) { return pen.style.pitch(length); };
    HeadPlaces places;
    places.title = {place.x, place.y, place.width, 2 * line};
    places.bottom = place.bottom();
    // Tokens stand on the axes where there is room for them beside a map of a readable size.
    places.step_tokens = place.width > 28 * em ? whole(5.5 * em) : 0;
    places.key_tokens = place.height > 19 * em ? whole(4.2 * em) : 0;
    places.named = place.height > 11 * em;
    const double left = whole(2.9 * em) + places.step_tokens + (places.named ? whole(1.1 * em) : 0);
    const double axis = whole(1.25 * em) + places.key_tokens;
    // A low place has no room for the strip; the line of strongest keys says the most of it.
    const double strip = place.height < 9 * em ? 0 : whole(std::clamp(place.height * 0.2, 2 * em, 4.5 * em));
    places.strip = {place.x + left, places.title.bottom() + whole(em * 0.15), place.width - left, strip};
    places.map = places.strip;
    places.map.y = places.strip.bottom() + whole(em * 0.3);
    places.map.height = place.bottom() - axis - places.map.y;
    if (places.map.height < 1.5 * em || places.map.width < 4 * em) places.map.height = 0;
    places.axis = {static_cast<float>(places.map.x), static_cast<float>(places.map.right()),
                   std::max<int64_t>(1, keys)};
    return places;
}

double row_top(const HeadPlaces& places, const QueryWindow& window, int64_t query) {
    return places.map.y + static_cast<double>(query - window.first_query) /
                              static_cast<double>(window.rows()) * places.map.height;
}

void paint_head_title(const FigurePen& pen, const HeadPlaces& places, const HeadPicture& picture) {
    const FigureRect& place = places.title;
    const double em = pen.style.text_pt, line = place.height / 2;
    const TextStyle strong = bright(pen, true), muted = pen.muted();
    double base = place.y + em;
    pen.canvas.push_clip(place);
    const std::string name = fmt::format("Layer {}, head {}", picture.layer, picture.head);
    pen.canvas.text({place.x, base}, name, strong);
    std::string query =
        fmt::format("step {}, {}", format_thousands(picture.query - picture.recording.prompt_length() + 1),
                    position_label(picture.recording, picture.query, 24));
    if (!picture.row.resolution.empty()) query += "; " + picture.row.resolution;
    const double query_x =
        pen.canvas.width_of(name, strong) + em; // whole or not at all: half a number is a wrong one
    if (query_x + pen.canvas.width_of(query, muted) <= place.width)
        pen.canvas.text({place.x + query_x, base}, query, muted);
    base += line;
    double x = place.x;
    const auto write = [&](const std::string& words, const TextStyle& ink, double gap) {
        pen.canvas.text({x, base}, words, ink);
        x += pen.canvas.width_of(words, ink) + gap;
    };
    const bool differences = picture.of == AttentionOf::difference;
    if (!picture.row.weights.empty()) write(differences ? "differs" : "reads", muted, em * 0.5);
    const auto chip = [&](const TopKey& key) {
        const std::string token = position_label(picture.recording, key.position, 14),
                          weight = weight_words(static_cast<double>(key.weight), picture.of);
        const double needs =
            pen.canvas.width_of(token, strong) + em * 0.35 + pen.canvas.width_of(weight, muted);
        if (x + needs > place.right()) return false;
        if (key.position == picture.held) // with the colour of its line in strip and map
            pen.canvas.line({x, base + em * 0.3}, {x + needs, base + em * 0.3},
                            {pen.style.theme.selection | alpha_mask, pen.style.axis_pt});
        write(token, strong, em * 0.35);
        write(weight, muted, em * 0.9);
        return true;
    };
    if (picture.held && *picture.held < std::ssize(picture.row.weights) &&
        picture.row.keys[static_cast<size_t>(*picture.held)] == 1)
        chip({*picture.held, picture.row.weights[static_cast<size_t>(*picture.held)]});
    for (const TopKey& key : picture.row.top)
        if (key.position != picture.held && !chip(key)) break;
    pen.canvas.pop_clip();
}

void paint_strip(const FigurePen& pen, const HeadPlaces& places, const HeadPicture& picture) {
    const FigureRect& strip = places.strip;
    if (strip.height <= 0 || picture.row.weights.empty()) return;
    const FigureGroup group(pen.canvas, "strip");
    const Theme& theme = pen.style.theme;
    const double border = pen.style.axis_pt;
    pen.canvas.rectangle(strip, theme.plot_background);
    pen.canvas.frame(strip,
                     {theme.plot_border, border}); // behind the bars: the newest key stands at its right edge
    paint_unread_keys(pen, places, picture);
    // A difference shows what it is made of: the teacher's weights upwards, the student's downwards, on one scale.
    const bool both = picture.of == AttentionOf::difference;
    const std::vector<float>& upward = both ? picture.row.teacher : picture.row.weights;
    // Position 0 would often squeeze all others; then it is cut off and marked.
    const size_t from = picture.without_first && picture.row.weights.size() > 1 ? 1 : 0;
    const float top = strip_top(upward, picture.row.student, from);
    const double height =
        both ? pen.style.pitch((strip.height - 2 * border) / 2 - 0.25) : strip.height - 2 * border;
    const double foot = both ? strip.y + border + height : strip.bottom() - border;
    const Bars up{foot, height, static_cast<double>(top), strip.y, true},
        down{foot, height, static_cast<double>(top), strip.bottom(), false};
    // Okabe-Ito sky blue; blue on white.
    const Colour own = theme.dark ? rgba(0x56, 0xB4, 0xE9) : rgba(0x00, 0x72, 0xB2);
    paint_bars(pen, places, up, upward, both ? theme.origin_prefill : own);
    if (both) {
        paint_bars(pen, places, down, picture.row.student, theme.origin_student);
        pen.canvas.line({strip.x, foot}, {strip.right(), foot}, {theme.plot_border, border});
    }
    pen.canvas.text({strip.x - pen.style.tick_pt, strip.y + pen.style.small_pt * 0.8},
                    format_number(static_cast<double>(top)), pen.small(Align::right));
    paint_held_key(pen, places, strip, picture);
}

void paint_head_map(const FigurePen& pen, const HeadPlaces& places, const HeadPicture& picture) {
    const FigureGroup group(pen.canvas, "map");
    const FigureRect& place = places.map;
    const Theme& theme = pen.style.theme;
    pen.canvas.rectangle(place, theme.plot_background);
    paint_missing_rows(pen, places, picture);
    if (picture.map.rows() > 0 && picture.map.columns() > 0) {
        FigureImage cells = picture.cells;
        cells.part = shown_part(picture.map);
        pen.canvas.image(place, cells);
    }
    pen.canvas.frame(place, {theme.plot_border, pen.style.axis_pt});
    const double prompt =
        static_cast<double>(places.axis.x(static_cast<double>(picture.recording.prompt_length())));
    pen.canvas.line({prompt, place.y}, {prompt, place.bottom()},
                    {with_alpha(theme.text_muted | alpha_mask, 0.55F), pen.style.axis_pt});
    paint_held_key(pen, places, place, picture);
}

void paint_head_axes(const FigurePen& pen, const HeadPlaces& places, const HeadPicture& picture) {
    paint_step_axis(pen, places, picture);
    paint_key_axis(pen, places, picture);
}

} // namespace refreshlab::ui
