// The generated text as the panel colours it, with the places where refreshes changed the cache; where the shown step's reading
// colours, the prompt stands above it.
#include "engine/base/error.h"
#include "engine/text/utf8.h"
#include "ui/base/value_format.h"
#include "ui/figure/canvas/pixels.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/figure/paint/note_paint.h"
#include "ui/figure/paint/text_paint.h"
#include "ui/scene/landscape/staircases.h"
#include "ui/scene/maps/cache_map.h"
#include "ui/scene/text/rejected_drafts.h"
#include "ui/scene/text/text_finder.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/text/token_origins.h"
#include "ui/scene/theme/text_hue.h"
#include "ui/scene/views/coloured_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::ui {

namespace {

/// By step, of the landscape that the request has. Throws Error{bad_input} where there is none of this run.
std::vector<float> gains_of(const FigureRequest& request, const Recording& run) {
    if (!request.landscape || !request.landscape->has_row(0))
        throw Error("drawing a figure", "--signal", "the run has no landscape",
                    "refreshlab landscape TRACE computes it");
    const Objective objective = judged_by(request);
    const ShownStairs stairs =
        stairs_of_run(*request.landscape, refreshes_of(run, run.steps()), {}, objective);
    if (!stairs.there())
        throw Error("drawing a figure", "--signal", "no gain is known of this run: " + stairs.why_not);
    return gains_along(*request.landscape, stairs.stairs, objective);
}

/// One of the texts: the run that is looked at, or the one that is compared with it.
struct FigureText {
    std::shared_ptr<const Recording> recording;
    std::string name;
    StepRange tokens; ///< y_t that are shown
    StepMarks marks;
    RejectedDrafts rejected = {};
    NoteList notes = {}; ///< none where none are asked for
};

class TextFigure final : public Figure {
public:
    explicit TextFigure(const FigureRequest& request)
        : m_step(step_of(request, *request.runs.front().recording))
        , m_view(request.views.text) {
        const auto& run = request.runs.front().recording;
        const StepRange range = steps_of(request, *run);
        m_texts.push_back({run, request.runs.front().name, range, StepMarks(run)});
        if (m_view.coloured_by == gain_colouring) m_gains = gains_of(request, *run);
        m_text.update(run, run->steps(), m_view,
                      {m_gains, m_step, request.head.value_or(std::pair(0, 0)),
                       m_gains.empty() ? Objective::loss : judged_by(request)});
        if (m_text.by() == ColouredText::By::nothing)
            static_cast<void>(require_signal(run->signals(), m_view.coloured_by, "--signal"));
        if (!m_text.known())
            throw Error("drawing a figure", "--signal",
                        fmt::format("the attention of step {} is not recorded", m_step),
                        "record with --set capture.attention=true, or name another --step");
        if (m_view.origins) m_origins.update(*run, m_step);
        m_gone.update(*run, m_step);
        // Of a part of the text the prompt is none; and signals say nothing of it.
        m_with_prompt = m_text.by() == ColouredText::By::attention && range.first == 1;
        if (request.runs.size() >= 2) add_other(request, range);
        for (FigureText& text : m_texts) {
            static_cast<void>(text.rejected.show(*text.recording, m_view.rejected, 0));
            if (request.notes)
                text.notes = NoteList(text.marks, {text.tokens.first - 1, text.tokens.last - 1});
        }
    }

    void add_other(const FigureRequest& request, StepRange range) {
        const auto run = m_texts.front().recording; // the texts move
        const auto& other = request.runs[1].recording;
        m_texts.push_back({other,
                           request.runs[1].name,
                           {std::min(range.first, other->steps()), std::min(range.last, other->steps())},
                           StepMarks(other)});
        m_difference.update(run, other);
    }

    double height(const FigurePen& pen, double width) const override {
        return place(pen, {0, 0, width, 0}, [](const auto&...) {});
    }

    void draw(const FigurePen& pen, const FigureRect& all) const override {
        TokenPaint paint;
        paint.mix(text_hue(pen.style.theme, m_text), pen.style.theme.plot_background | alpha_mask,
                  pen.style.theme.text);
        draw_head(pen, paint, all);
        const TextMetrics m = text_metrics(pen);
        place(pen, all, [&](const Part& part, const TextLayout& layout, FigurePoint origin) {
            const TextPicture picture = picture_of(pen.style.theme, paint, part.text);
            const size_t end = layout.fragments().size();
            if (part.prompt) {
                paint_prompt(pen, m, layout, 0, end, origin, picture);
                const double y = origin.y + static_cast<double>(layout.num_lines()) * m.prompt_pitch + 2;
                pen.canvas.line({all.x, y}, {all.right(), y},
                                {pen.style.theme.plot_border, pen.style.axis_pt});
                return;
            }
            if (m_texts.size() > 1)
                pen.heading(part.text, m_texts.size(), {origin.x, origin.y - pen.text_line() * 0.3},
                            m_texts[part.text].name, all.width);
            paint_tokens(pen, m, layout, 0, end, origin, picture, part.text == 0 ? "tokens" : "compared");
            m_texts[part.text].notes.paint(
                pen, {origin.x, origin.y + static_cast<double>(layout.num_lines()) * m.pitch}, all.width);
        });
    }

    DataTable table() const override {
        const Recording& run = *m_texts.front().recording;
        const StepRange range = m_texts.front().tokens;
        const Signal* signal = m_text.signal();
        DataTable table{
            {"token", "text", signal ? std::string(signal->name) : "value", "refreshed", "position"}, {}};
        if (m_text.by() == ColouredText::By::gain) table.columns[2] = "gain_" + m_text.unit();
        if (m_text.by() == ColouredText::By::attention) table.columns[2] = "attention";
        if (m_view.origins) table.columns.emplace_back("origin");
        if (m_texts.size() > 1) table.columns.emplace_back("differs");
        const NoteList& notes = m_texts.front().notes;
        if (!notes.empty()) table.columns.emplace_back("notes");
        const auto add = [&](const std::string& number, int32_t id, float value, bool refreshed,
                             int64_t position) {
            table.rows.push_back({number, bytes_of(run, id), cell_text(value), refreshed ? "1" : "0",
                                  fmt::format("{}", position)});
        };
        if (m_with_prompt) {
            const auto& prompt = run.info().prompt_ids;
            for (int64_t i = 0; i < std::ssize(prompt); ++i) {
                add("", prompt[static_cast<size_t>(i)], m_text.prompt_value(i), false, i);
                table.rows.back().resize(table.columns.size());
            }
        }
        for (int64_t t = range.first; t <= range.last; ++t) {
            add(fmt::format("{}", t), generated_token(run, t), m_text.value(t),
                t > 1 && run.refresh_at(t - 1), run.prompt_length() + t - 1);
            if (m_view.origins) {
                const Origin origin = m_origins.of(t);
                table.rows.back().emplace_back(origin == Origin::none ? "" : origin_label(origin));
            }
            if (m_texts.size() > 1) table.rows.back().emplace_back(m_difference.differs(t) ? "1" : "0");
            if (!notes.empty()) table.rows.back().push_back(notes.at(t - 1));
        }
        return table;
    }

private:
    /// What stands in one place.
    struct Part {
        size_t text = 0;
        bool prompt = false;
    };

    static std::string bytes_of(const Recording& run, int32_t id) {
        return id < 0 ? std::string() : drawable_text(run.tokens().token_bytes(id));
    }

    [[nodiscard]] TextPicture picture_of(const Theme& theme, const TokenPaint& paint, size_t text) const {
        const bool first = text == 0;
        const FigureText& of = m_texts[text];
        return {.recording = *of.recording,
                .steps = of.recording->steps(),
                .text = m_text,
                .paint = paint,
                .on_other_scale = !first,
                .marks = &of.marks,
                .notes = !of.notes.empty(),
                .origins = first && m_view.origins ? &m_origins : nullptr,
                .gone = first ? &m_gone : nullptr,
                .other = m_texts.size() > 1 ? &m_difference : nullptr,
                .side = first ? TokenDifference::Side::first : TokenDifference::Side::second,
                .rejected = of.rejected.shown() != nullptr,
                .first_token = of.tokens.first,
                .ground = theme.plot_background};
    }

    /// What has no place on a scale.
    [[nodiscard]] std::vector<LegendEntry> entries(const Theme& theme) const {
        std::vector<LegendEntry> all;
        if (const Verdicts* words = m_text.verdicts())
            all = {{std::string(words->yes), verdict_colour(true), LegendEntry::Mark::box},
                   {std::string(words->no), verdict_colour(false), LegendEntry::Mark::box}};
        const TokenPaint none;
        for (size_t i = 0; i < m_texts.size(); ++i)
            for (LegendEntry& entry : text_legend(theme, picture_of(theme, none, i), m_texts[i].tokens))
                if (std::ranges::find(all, entry.words, &LegendEntry::words) == all.end())
                    all.push_back(std::move(entry));
        return all;
    }
    [[nodiscard]] double head_height(const FigurePen& pen, double width) const {
        return legend_height(pen, width, entries(pen.style.theme)) +
               (m_text.verdicts() ? 0 : pen.small_line()) + 5;
    }
    void draw_head(const FigurePen& pen, const TokenPaint& paint, const FigureRect& place) const {
        const double legend = draw_legend(pen, {place.x, place.y}, place.width, entries(pen.style.theme));
        if (m_text.verdicts()) return;
        std::vector<uint32_t> map;
        for (int i = 0; i < 256; ++i)
            map.push_back(paint.colours().at(i / 255.0).background);
        draw_colour_bar(pen, {place.x, place.y + legend, place.width, 0},
                        ColourScale{map, m_text.range().min, m_text.range().max, false},
                        with_unit(m_text.label(), m_text.unit()), {m_text.below(), m_text.above()});
    }

    /// Hands out each part with its layout and its upper left corner. \return the height of all
    template <class Each>
    double place(const FigurePen& pen, const FigureRect& all, const Each& each) const {
        const TextMetrics m = text_metrics(pen);
        double y = all.y + head_height(pen, all.width);
        if (m_with_prompt) {
            TextLayout layout = empty_layout(pen, all.width);
            const Recording& run = *m_texts.front().recording;
            for (const int32_t id : run.info().prompt_ids)
                append_token(layout, run, id, 0, nullptr);
            each(Part{0, true}, layout, FigurePoint{all.x, y});
            y += static_cast<double>(layout.num_lines()) * m.prompt_pitch + 4;
        }
        for (size_t i = 0; i < m_texts.size(); ++i) {
            if (m_texts.size() > 1) y += pen.text_line() * 1.2;
            const FigureText& of = m_texts[i];
            TextLayout layout = empty_layout(pen, all.width);
            for (int64_t t = of.tokens.first; t <= of.tokens.last; ++t)
                append_token(layout, *of.recording, generated_token(*of.recording, t), t,
                             of.rejected.shown());
            each(Part{i, false}, layout, FigurePoint{all.x, y});
            y += static_cast<double>(layout.num_lines()) * m.pitch + of.notes.height(pen, all.width) +
                 m.font * 0.4;
        }
        return y - all.y;
    }

    static TextLayout empty_layout(const FigurePen& pen, double width) {
        TextLayout lines;
        lines.reset(text_layout_style(pen, width), text_measure(pen));
        return lines;
    }

    int64_t m_step; ///< the shown one
    TextView m_view;
    std::vector<FigureText> m_texts; ///< one or two
    TokenDifference m_difference;    ///< of two
    TokenOrigins m_origins;          ///< of the first
    GoneTokens m_gone;               ///< of the first
    std::vector<float> m_gains;
    ColouredText m_text;
    bool m_with_prompt = false;
};

} // namespace

std::unique_ptr<Figure> make_text_figure(const FigureRequest& request) {
    return std::make_unique<TextFigure>(request);
}

} // namespace refreshlab::ui
