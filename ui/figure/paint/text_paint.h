#pragma once

#include "ui/figure/pen.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/runs/run_difference.h"
#include "ui/scene/text/gone_tokens.h"
#include "ui/scene/text/step_marks.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/text/token_origins.h"
#include "ui/scene/views/coloured_text.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

// Coloured tokens with the marks on them: the panel's text, the one that is compared with it, the prompt, and figures.

/// Sizes of a line.
struct TextMetrics {
    double font = 0;  ///< size of the letters
    double flag = 0;  ///< room above them for the flags of refreshes
    double pitch = 0; ///< from line to line
    double prompt_pitch = 0;
};
[[nodiscard]] TextMetrics text_metrics(const FigurePen& pen);
/// For TextLayout. \param width  of a line
[[nodiscard]] TextLayout::Style text_layout_style(const FigurePen& pen, double width);
/// Of words in the font of a text. The pen must live as long.
[[nodiscard]] TextLayout::Measure text_measure(const FigurePen& pen);

/// What the tokens of a run are drawn from. What is null is not shown.
struct TextPicture {
    const Recording& recording;
    int64_t steps = 0; ///< of the recording that are there
    const ColouredText& text;
    const TokenPaint& paint;
    bool on_other_scale = false; ///< the run is not the one that `text` is of: it goes by that one's scale
    const StepMarks* marks = nullptr;       ///< flags of refreshes
    bool notes = false;                     ///< of the marks those as well
    const TokenOrigins* origins = nullptr;  ///< who wrote a token's entry, as underline
    const GoneTokens* gone = nullptr;       ///< dimmed
    const TokenDifference* other = nullptr; ///< where another run has other tokens
    TokenDifference::Side side = TokenDifference::Side::first;
    std::optional<int64_t> played_to = {}; ///< tokens beyond have not happened yet
    bool rejected = false;                 ///< the layout has drafted tokens that were rejected
    bool drafted = false;                  ///< a draft that nobody has judged stands behind it
    bool shows_pending = false;            ///< the newest token is chosen and not yet read: a frame
    int64_t first_token = 1;               ///< y_t that the layout begins with
    Colour ground = 0;                     ///< behind the text

    [[nodiscard]] int64_t token_of(const TextLayout::Fragment& fragment) const {
        return fragment.token + first_token;
    }
};
/// Who chose y_t.
[[nodiscard]] Producer producer_of(const Recording& run, int64_t token);
/// The box of a part of a token. \param origin  of the layout's first line
[[nodiscard]] FigureRect token_box(const TextMetrics& m, const TextLayout::Fragment& fragment,
                                   FigurePoint origin);
/// Fragments [begin, end) of the layout, as a part of the drawing with this name; then notes and the flags of refreshes as others.
void paint_tokens(const FigurePen& pen, const TextMetrics& m, const TextLayout& layout, size_t begin,
                  size_t end, FigurePoint origin, const TextPicture& picture, std::string_view id = "tokens");
/// The same of the prompt, whose lines stand closer and whose tokens have few marks.
void paint_prompt(const FigurePen& pen, const TextMetrics& m, const TextLayout& layout, size_t begin,
                  size_t end, FigurePoint origin, const TextPicture& picture);

/// The tokens of a draft that nobody has judged, paler and with dots below: they are no steps yet.
void paint_draft(const FigurePen& pen, const TextMetrics& m, const TextLayout& layout, FigurePoint origin);

/// What marks mean. \param tokens  y_t of which those count that occur; nothing: every mark that the picture may have
[[nodiscard]] std::vector<LegendEntry> text_legend(const Theme& theme, const TextPicture& picture,
                                                   std::optional<StepRange> tokens);

} // namespace refreshlab::ui
