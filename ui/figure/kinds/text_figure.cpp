// The generated text as the panel colours it, with the places where refreshes changed the cache; where the shown step's reading
// colours, the prompt stands above it.
#include "engine/base/error.h"
#include "engine/text/utf8.h"
#include "ui/base/value_format.h"
#include "ui/figure/canvas/pixels.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/scene/landscape/staircases.h"
#include "ui/scene/maps/cache_map.h"
#include "ui/scene/marks/token_origins.h"
#include "ui/scene/text/text_finder.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/views/coloured_text.h"
#include "ui/theme/run_colours.h"
#include "ui/theme/text_hue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace refreshlab::ui {

namespace {

/// Nats by step, of the landscape that the request has. Throws Error{bad_input} where there is none of this run.
std::vector<float> gains_of(const FigureRequest& request, const Recording& run) {
    if (!request.landscape || !request.landscape->has_row(0))
        throw Error("drawing a figure", "--signal", "the run has no landscape",
                    "refreshlab landscape TRACE computes it");
    const ShownStairs stairs = stairs_of_run(*request.landscape, refreshes_of(run, run.steps()), {});
    if (!stairs.there())
        throw Error("drawing a figure", "--signal", "no gain is known of this run: " + stairs.why_not);
    return gains_along(*request.landscape, stairs.stairs);
}

class TextFigure final : public Figure {
public:
    explicit TextFigure(const FigureRequest& request)
        : m_recording(request.runs.front().recording)
        , m_range(steps_of(request, *m_recording))
        , m_step(step_of(request, *m_recording))
        , m_origins_shown(request.views.text.origins) {
        const TextView& view = request.views.text;
        if (view.coloured_by == gain_colouring) m_gains = gains_of(request, *m_recording);
        m_text.update(m_recording, m_recording->steps(), view,
                      {m_gains, m_step, request.head.value_or(std::pair(0, 0))});
        if (m_text.by() == ColouredText::By::nothing)
            static_cast<void>(require_signal(m_recording->signals(), view.coloured_by, "--signal"));
        if (!m_text.known())
            throw Error("drawing a figure", "--signal",
                        fmt::format("the attention of step {} is not recorded", m_step),
                        "record with --set capture.attention=true, or name another --step");
        if (m_origins_shown) m_origins.update(*m_recording, m_step);
        // Of a part of the text the prompt is none; and signals say nothing of it.
        if (m_text.by() == ColouredText::By::attention && m_range.first == 1)
            for (const int32_t id : m_recording->info().prompt_ids)
                m_prompt.push_back({id, m_text.prompt_value(std::ssize(m_prompt))});
        for (int64_t t = m_range.first; t <= m_range.last; ++t) {
            const RefreshEvent* event = t > 1 ? m_recording->refresh_at(t - 1) : nullptr;
            m_tokens.push_back({generated_token(*m_recording, t), m_text.value(t),
                                event ? reason_letter(event->hits) : '\0',
                                m_origins_shown ? m_origins.of(t) : Origin::none});
        }
    }

    double height(const FigurePen& pen, double width) const override {
        const double prompt = m_prompt.empty() ? 0 : prompt_height(pen, layout(pen, m_prompt, width));
        return head_height(pen, width) + prompt +
               static_cast<double>(layout(pen, m_tokens, width).num_lines()) * line(pen) + 3;
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        const Theme& theme = pen.style.theme;
        TokenPaint paint;
        paint.mix(text_hue(theme, m_text), theme.plot_background | alpha_mask, theme.text);
        const double legend = draw_legend(pen, {place.x, place.y}, place.width, entries(theme));
        if (!m_text.verdicts()) {
            std::vector<uint32_t> map;
            for (int i = 0; i < 256; ++i)
                map.push_back(paint.colours().at(i / 255.0).background);
            draw_colour_bar(pen, {place.x, place.y + legend, place.width, 0},
                            ColourScale{map, m_text.range().min, m_text.range().max, false},
                            with_unit(m_text.label(), m_text.unit()));
        }
        double top = place.y + head_height(pen, place.width);
        if (!m_prompt.empty()) {
            const TextLayout lines = layout(pen, m_prompt, place.width);
            const FigureGroup group(pen.canvas, "prompt");
            for (const TextLayout::Fragment& part : lines.fragments())
                draw_part(pen, paint, lines, part, m_prompt,
                          {place.x, top + static_cast<double>(part.line) * line(pen)});
            top += prompt_height(pen, lines);
            pen.canvas.line({place.x, top - 3}, {place.right(), top - 3},
                            {theme.plot_border, pen.style.axis_pt});
        }
        const FigureGroup group(pen.canvas, "tokens");
        const TextLayout lines = layout(pen, m_tokens, place.width);
        for (const TextLayout::Fragment& part : lines.fragments())
            draw_part(pen, paint, lines, part, m_tokens,
                      {place.x, top + static_cast<double>(part.line) * line(pen)});
    }

    DataTable table() const override {
        const Signal* signal = m_text.signal();
        DataTable table{
            {"token", "text", signal ? std::string(signal->name) : "value", "refreshed", "position"}, {}};
        if (m_text.by() == ColouredText::By::gain) table.columns[2] = "gain_nats";
        if (m_text.by() == ColouredText::By::attention) table.columns[2] = "attention";
        if (m_origins_shown) table.columns.emplace_back("origin");
        int64_t position = m_prompt.empty() ? m_recording->prompt_length() + m_range.first - 1 : 0;
        const auto add = [&](const Token& token, const std::string& number) {
            table.rows.push_back({number, bytes_of(token.id), cell_text(token.value), token.flag ? "1" : "0",
                                  fmt::format("{}", position++)});
            if (m_origins_shown)
                table.rows.back().emplace_back(token.origin == Origin::none ? ""
                                                                            : origin_label(token.origin));
        };
        for (const Token& token : m_prompt)
            add(token, "");
        for (size_t i = 0; i < m_tokens.size(); ++i)
            add(m_tokens[i], fmt::format("{}", m_range.first + static_cast<int64_t>(i)));
        return table;
    }

private:
    struct Token {
        int32_t id = -1;
        float value = absent();
        char flag = '\0';             ///< letter of the refresh before it; 0: none
        Origin origin = Origin::none; ///< where that is shown
    };

    static double line(const FigurePen& pen) { return pen.style.text_pt * 1.75; }
    static double prompt_height(const FigurePen& pen, const TextLayout& lines) {
        return static_cast<double>(lines.num_lines()) * line(pen) + 6;
    }
    /// Of what stands above the text.
    [[nodiscard]] double head_height(const FigurePen& pen, double width) const {
        return legend_height(pen, width, entries(pen.style.theme)) +
               (m_text.verdicts() ? 0 : pen.small_line()) + 5;
    }
    [[nodiscard]] std::string bytes_of(int32_t id) const {
        return id < 0 ? std::string() : drawable_text(m_recording->tokens().token_bytes(id));
    }

    /// What has no place on a scale.
    [[nodiscard]] std::vector<LegendEntry> entries(const Theme& theme) const {
        std::vector<LegendEntry> all;
        if (const Verdicts* words = m_text.verdicts())
            all = {{std::string(words->yes), verdict_colour(true), LegendEntry::Mark::box},
                   {std::string(words->no), verdict_colour(false), LegendEntry::Mark::box}};
        std::set<Origin> there;
        for (const Token& token : m_tokens)
            there.insert(token.origin);
        there.erase(Origin::none);
        for (const Origin origin : there)
            all.push_back({origin_label(origin), origin_colour(theme, origin) | alpha_mask});
        return all;
    }

    [[nodiscard]] TextLayout layout(const FigurePen& pen, const std::vector<Token>& tokens,
                                    double width) const {
        const TextStyle text = pen.text();
        TextLayout lines;
        lines.reset(
            {.width = static_cast<float>(width),
             .space = static_cast<float>(pen.canvas.width_of(" ", text)),
             .newline = "↵",
             .dot = "·"},
            [&](std::string_view words) { return static_cast<float>(pen.canvas.width_of(words, text)); });
        for (const Token& token : tokens)
            if (token.id >= 0)
                lines.append(m_recording->tokens().token_bytes(token.id),
                             m_recording->tokens().is_special(token.id));
        return lines;
    }

    void draw_part(const FigurePen& pen, const TokenPaint& paint, const TextLayout& lines,
                   const TextLayout::Fragment& part, const std::vector<Token>& tokens,
                   FigurePoint line_at) const {
        const Theme& theme = pen.style.theme;
        const Token& token = tokens[static_cast<size_t>(part.token)];
        const double x = line_at.x + static_cast<double>(part.x), width = static_cast<double>(part.width);
        const FigureRect box{x, line_at.y + pen.style.text_pt * 0.15, width, pen.style.text_pt * 1.35};
        const double base = line_at.y + pen.style.text_pt * 1.15, thin = pen.style.text_pt * 0.12;
        const TokenLook look = m_text.look(paint, token.value);
        if (look.background) pen.canvas.rectangle(box, look.background);
        const Colour underline =
            m_origins_shown ? origin_colour(theme, token.origin) | alpha_mask : look.underline;
        if (underline && (!m_origins_shown || token.origin != Origin::none))
            pen.canvas.rectangle({x, box.bottom(), width, thin}, underline);
        TextStyle ink = pen.text();
        ink.colour = part.kind != TextLayout::Kind::text ? theme.text_muted : look.ink;
        pen.canvas.text({x, base}, lines.text(part), ink);
        if (look.struck)
            pen.canvas.rectangle({x, base - pen.style.text_pt * 0.3, width, thin * 0.6}, look.underline);
        if (token.flag == '\0' || !part.starts_token) return;
        // The refresh of step t came before y_{t+1} was settled: a mark at its left, the letter above it.
        const Colour colour = flag_colour(pen, m_range.first + static_cast<int64_t>(part.token) - 1);
        pen.canvas.line({x, line_at.y - 1}, {x, base + 2}, {colour, pen.style.line_pt * 1.4});
        TextStyle letter = pen.small();
        letter.size *= 0.75;
        letter.bold = true;
        letter.colour = colour;
        pen.canvas.text({x + 1.2, line_at.y + letter.size * 0.35}, std::string(1, token.flag), letter);
    }

    [[nodiscard]] Colour flag_colour(const FigurePen& pen, int64_t step) const {
        const RefreshEvent* event = m_recording->refresh_at(step);
        return event ? marker_colour(pen.style.theme, event->hits) : pen.style.theme.text;
    }

    std::shared_ptr<const Recording> m_recording;
    StepRange m_range;
    int64_t m_step; ///< the shown one
    bool m_origins_shown;
    TokenOrigins m_origins;
    std::vector<float> m_gains;
    ColouredText m_text;
    std::vector<Token> m_prompt, m_tokens;
};

} // namespace

std::unique_ptr<Figure> make_text_figure(const FigureRequest& request) {
    return std::make_unique<TextFigure>(request);
}

} // namespace refreshlab::ui
