#pragma once

#include "engine/control/engine_link.h"
#include "ui/draw/range_bar.h"
#include "ui/figure/paint/text_paint.h"
#include "ui/panels/panel.h"
#include "ui/panels/text/compared_text.h"
#include "ui/scene/text/gone_tokens.h"
#include "ui/scene/text/rejected_drafts.h"
#include "ui/scene/text/text_finder.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/text/token_origins.h"
#include "ui/scene/views/coloured_text.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// Prompt and generated tokens, coloured by a signal. Step t is tied to the token it chose, y_{t+1}; so token y_t is
/// coloured by record t-1, and clicking it selects step t-1 (y_1, chosen by the prefill: step 1, which read it). Signals
/// about y_t itself (logprob) colour it by record t.
class TextPanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Text"; }
    void recording_changed(UiContext&) override { forget(); }
    void draw(UiContext& ctx) override;

private:
    /// Sizes of this frame, pixels.
    struct Metrics {
        TextMetrics text;
        float font, flag, pitch; ///< the same
    };
    void forget();
    void update_layout(UiContext& ctx, float width, const Metrics& m);
    void lay_out_anew(UiContext& ctx, float width, float font);
    void follow_selection(UiContext& ctx, const Metrics& m, float prompt_height);
    void draw_legend(UiContext& ctx);
    [[nodiscard]] std::string gone_text(int64_t position) const;
    void draw_compared(UiContext& ctx, const Metrics& m, float height, bool beside);
    [[nodiscard]] bool is_pending(const UiContext& ctx, int64_t token) const {
        return token == ctx.steps + 1;
    }
    [[nodiscard]] TextPicture picture(const UiContext& ctx) const;
    // text_draft.cpp
    void lay_out_draft(UiContext& ctx);
    void draw_draft(UiContext& ctx, const Metrics& m, ImVec2 origin, bool hovered);
    // text_toolbar.cpp
    void draw_toolbar(UiContext& ctx);
    void draw_signal_list(UiContext& ctx);
    void draw_scale(UiContext& ctx, float bar, const std::string& counted);
    [[nodiscard]] ShownRange shown_range() const;
    static void draw_gain_choice(UiContext& ctx);
    static void draw_attention_choices(UiContext& ctx);
    void draw_attention_note(const UiContext& ctx) const;
    // text_tokens.cpp
    void draw_prompt(UiContext& ctx, const Metrics& m, float clip_top, float clip_bottom);
    void draw_prompt_tokens(UiContext& ctx, const Metrics& m, float clip_top, float clip_bottom);
    void draw_tokens(UiContext& ctx, const Metrics& m, float clip_top, float clip_bottom);
    void hover_token(UiContext& ctx, const Metrics& m, ImVec2 origin, bool clicked);
    void draw_frame(const Metrics& m, int64_t token, ImVec2 origin, ImU32 colour, float thickness);
    // text_find.cpp
    void draw_find(UiContext& ctx);
    void go_to_match(UiContext& ctx, bool forward);
    void draw_matches(const UiContext& ctx, const Metrics& m, size_t begin, size_t end, ImVec2 origin);
    void draw_token_menu(UiContext& ctx);
    // token_tooltip.cpp
    void token_tooltip(UiContext& ctx, int64_t token);

    std::shared_ptr<const Recording> m_recording; ///< that the layouts belong to
    TextLayout m_text, m_prompt;
    float m_width = 0, m_font = 0;
    ColouredText m_coloured;
    TokenPaint m_paint;
    RangeBar m_range_bar;
    TokenOrigins m_origins;
    GoneTokens m_gone; ///< at the shown step: dimmed
    RejectedDrafts m_rejected;
    TextLayout m_draft;                           ///< of the draft that goes on, from the end of m_text on
    std::vector<OpenDraft::Token> m_draft_tokens; ///< in it
    bool m_prompt_open = true;
    std::optional<int64_t> m_seen_selection; ///< to notice a selection made elsewhere
    bool m_was_live = true, m_at_end = true;
    int64_t m_hovered_token = 0;
    int64_t m_menu_token = 0; ///< under the mouse when the menu was opened; 0 = none
    ComparedText m_compared;  ///< of the first ticked run
    bool m_comparing = false;
    TextFinder m_finder;
    std::string m_query;
    bool m_find_open = false, m_focus_find = false;
    bool m_first_token = false; ///< step 1 was selected by a click on y_1: the frame stays there
};

} // namespace refreshlab::ui
