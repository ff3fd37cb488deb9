// The generated text, each token on the colour of a signal, with the places where refreshes changed the cache.
#include "engine/base/error.h"
#include "ui/base/value_format.h"
#include "ui/figure/canvas/pixels.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/scene/marks/refresh_marks.h"
#include "ui/scene/series/series_set.h"
#include "ui/scene/text/text_finder.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/text/token_colours.h"
#include "ui/theme/run_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

class TextFigure final : public Figure {
public:
    explicit TextFigure(const FigureRequest& request)
        : m_recording(request.runs.front().recording)
        , m_range(steps_of(request, *m_recording))
        , m_signal(require_signal(m_recording->signals(), request.signal, "--signal"))
        , m_info(m_recording->signals()[m_signal]) {
        for (int64_t t = m_range.first; t <= m_range.last; ++t) {
            m_tokens.push_back(generated_token(*m_recording, t));
            // As the window colours: what was known when the token was chosen, or what speaks of the token itself.
            const int64_t step = m_info.about == SignalAbout::token ? t : t - 1;
            m_values.push_back(step < 1 ? absent() : picked_value(*m_recording, step, m_signal, {}));
            const RefreshEvent* event = t > 1 ? m_recording->refresh_at(t - 1) : nullptr;
            m_flags.push_back(event ? marker_letter(*event) : '\0');
            if (std::isfinite(m_values.back())) {
                m_low = std::min(m_low, static_cast<double>(m_values.back()));
                m_high = std::max(m_high, static_cast<double>(m_values.back()));
            }
        }
        if (m_low > m_high) m_low = 0, m_high = 1;
        if (m_info.min == 0) m_low = std::min(m_low, 0.0);
        if (m_high <= m_low) m_high = m_low + 1;
    }

    double height(const FigurePen& pen, double width) const override {
        return head_height(pen) + static_cast<double>(layout(pen, width).num_lines()) * line(pen) + 3;
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const Theme& theme = pen.style.theme;
        const Verdicts* words = verdicts_of(m_info.name);
        if (words != nullptr) {
            const LegendEntry entries[] = {
                {std::string(words->yes), verdict_colour(true), LegendEntry::Mark::box},
                {std::string(words->no), verdict_colour(false), LegendEntry::Mark::box}};
            draw_legend(pen, {place.x, place.y}, place.width, entries);
        } else {
            std::vector<uint32_t> map;
            TokenColours colours;
            colours.build(theme.signal(m_info.name), theme.plot_background | alpha_mask, theme.text);
            for (int i = 0; i < 256; ++i)
                map.push_back(colours.at(i / 255.0).background);
            draw_colour_bar(pen, {place.x, place.y, place.width, 0}, ColourScale{map, m_low, m_high, false},
                            with_unit(m_info.label, m_info.unit));
        }
        TokenColours colours;
        colours.build(theme.signal(m_info.name), theme.plot_background | alpha_mask, theme.text);
        const TextLayout lines = layout(pen, place.width);
        const FigureGroup group(pen.canvas, "tokens");
        const double top = place.y + head_height(pen);
        for (const TextLayout::Fragment& part : lines.fragments())
            draw_part(pen, lines, part, colours, {place.x, top + static_cast<double>(part.line) * line(pen)});
    }

    DataTable table() const override {
        DataTable table{{"token", "text", std::string(m_info.name), "refreshed"}, {}};
        for (size_t i = 0; i < m_tokens.size(); ++i)
            table.rows.push_back({fmt::format("{}", m_range.first + static_cast<int64_t>(i)),
                                  bytes_of(m_tokens[i]), cell_text(m_values[i]), m_flags[i] ? "1" : "0"});
        return table;
    }

private:
    static double line(const FigurePen& pen) { return pen.style.text_pt * 1.75; }
    static double head_height(const FigurePen& pen) { return pen.small_line() + 5; }
    [[nodiscard]] std::string bytes_of(int32_t id) const {
        return id < 0 ? std::string() : drawable_text(m_recording->tokens().token_bytes(id));
    }

    [[nodiscard]] TextLayout layout(const FigurePen& pen, double width) const {
        const TextStyle text = pen.text();
        TextLayout lines;
        lines.reset(
            {.width = static_cast<float>(width),
             .space = static_cast<float>(pen.canvas.width_of(" ", text)),
             .newline = "↵",
             .dot = "·"},
            [&](std::string_view words) { return static_cast<float>(pen.canvas.width_of(words, text)); });
        for (const int32_t id : m_tokens)
            if (id >= 0)
                lines.append(m_recording->tokens().token_bytes(id), m_recording->tokens().is_special(id));
        return lines;
    }

    void draw_part(const FigurePen& pen, const TextLayout& lines, const TextLayout::Fragment& part,
                   const TokenColours& colours, FigurePoint line_at) const {
        const Theme& theme = pen.style.theme;
        const auto token = static_cast<size_t>(part.token);
        const double high = pen.style.text_pt * 1.35, x = line_at.x + static_cast<double>(part.x);
        const double base = line_at.y + pen.style.text_pt * 1.15;
        TextStyle ink = pen.text();
        const float value = m_values[token];
        if (std::isfinite(value)) {
            TokenColours::Entry entry{};
            if (verdicts_of(m_info.name) != nullptr)
                entry = {with_alpha(verdict_colour(value >= 0.5F), 0.3F), theme.text, 0};
            else
                entry = colours.at((static_cast<double>(value) - m_low) / (m_high - m_low));
            pen.canvas.rectangle(
                {x, line_at.y + pen.style.text_pt * 0.15, static_cast<double>(part.width), high},
                entry.background);
            ink.colour = entry.text;
        }
        if (part.kind != TextLayout::Kind::text) ink.colour = theme.text_muted;
        pen.canvas.text({x, base}, lines.text(part), ink);
        if (m_flags[token] == '\0' || !part.starts_token) return;
        // The refresh of step t came before y_{t+1} was settled: a mark at its left, the letter above it.
        const Colour colour = flag_colour(pen, m_range.first + static_cast<int64_t>(token) - 1);
        pen.canvas.line({x, line_at.y - 1}, {x, base + 2}, {colour, pen.style.line_pt * 1.4});
        TextStyle letter = pen.small();
        letter.size *= 0.75;
        letter.bold = true;
        letter.colour = colour;
        pen.canvas.text({x + 1.2, line_at.y + letter.size * 0.35}, std::string(1, m_flags[token]), letter);
    }

    [[nodiscard]] Colour flag_colour(const FigurePen& pen, int64_t step) const {
        const RefreshEvent* event = m_recording->refresh_at(step);
        return event ? marker_colour(pen.style.theme, *event) : pen.style.theme.text;
    }

    std::shared_ptr<const Recording> m_recording;
    StepRange m_range;
    size_t m_signal;
    Signal m_info;
    std::vector<int32_t> m_tokens;
    std::vector<float> m_values;
    std::vector<char> m_flags; ///< letter of the refresh before the token; 0: none
    double m_low = 1e300, m_high = -1e300;
};

} // namespace

std::unique_ptr<Figure> make_text_figure(const FigureRequest& request) {
    return std::make_unique<TextFigure>(request);
}

} // namespace refreshlab::ui
