#pragma once

#include "ui/context/context.h"
#include "ui/figure/paint/text_paint.h"
#include "ui/scene/runs/run_difference.h"
#include "ui/scene/runs/run_set.h"
#include "ui/scene/text/rejected_drafts.h"
#include "ui/scene/text/step_marks.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/views/coloured_text.h"

#include <imgui.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace refreshlab::ui {

/// Beside the text that is looked at: that of the first ticked run, in the same colours. Tokens that differ from those at the same
/// place are marked in both, the first of them with a pointer. Steps are shared: what is selected or hovered in one is so in the other.
class ComparedText {
public:
    /// Start of a frame: which run it is. \return false where none is ticked
    bool begin_frame(UiContext& ctx);
    [[nodiscard]] const TokenDifference& difference() const { return m_difference; }
    [[nodiscard]] Colour colour() const { return m_colour; } ///< of the marks
    /// One line: both names, and where they part. A click goes to the first token that differs.
    void draw_headline(UiContext& ctx);

    /// How tokens are drawn, as in the text beside it.
    struct Style {
        TextMetrics sizes; ///< pixels
        const ColouredText& text;
        const TokenPaint& paint;
        [[nodiscard]] float font() const { return static_cast<float>(sizes.font); }
        [[nodiscard]] float pitch() const { return static_cast<float>(sizes.pitch); }
    };
    /// Inside a child window.
    void draw(UiContext& ctx, const Style& style);

private:
    void update_layout(const FigurePen& pen, float width, float font, bool rejected);
    void paint(UiContext& ctx, const FigurePen& pen, const Style& style, int64_t first, int64_t last,
               ImVec2 origin) const;
    void frame(const Style& style, int64_t token, ImVec2 origin, Colour colour, float thickness) const;
    void follow(const UiContext& ctx, const Style& style);

    RunKey m_key = 0;
    Colour m_colour = 0;
    std::shared_ptr<const Recording> m_recording, m_laid_out;
    int64_t m_steps = 0;
    TokenDifference m_difference;
    StepMarks m_marks;
    RejectedDrafts m_rejected;
    TextLayout m_text;
    float m_width = 0, m_font = 0;
    std::optional<int64_t> m_seen_selection;
    float m_followed = 0; ///< where it has been scrolled to; elsewhere a person has scrolled
};

} // namespace refreshlab::ui
