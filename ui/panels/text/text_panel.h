#pragma once

#include "ui/panels/panel.h"
#include "ui/panels/text/compared_text.h"
#include "ui/scene/attention/read_weights.h"
#include "ui/scene/axes/auto_range.h"
#include "ui/scene/maps/colour_maps.h"
#include "ui/scene/marks/token_origins.h"
#include "ui/scene/series/series_set.h"
#include "ui/scene/text/gone_tokens.h"
#include "ui/scene/text/text_finder.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/text/token_colours.h"

#include <array>
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
        float font, flag, pitch; ///< text height, room above it for refresh flags, distance of lines
    };
    /// Colours by what the landscape says, not by a signal.
    [[nodiscard]] static bool by_gain(const UiContext& ctx) { return ctx.coloured_signal == gain_colouring; }
    /// By how much the shown step read each token, the prompt's among them: the mean of all heads, or the head of Attention.
    [[nodiscard]] static bool by_attention(const UiContext& ctx) {
        return ctx.coloured_signal == mean_colouring || ctx.coloured_signal == head_colouring;
    }
    static constexpr std::string_view mean_colouring = "attention:mean", head_colouring = "attention:head";
    void forget();
    void update_layout(UiContext& ctx, float width, const Metrics& m);
    void lay_out_anew(const UiContext& ctx, float width, float font);
    void follow_selection(UiContext& ctx, const Metrics& m, float prompt_height);
    void draw_legend(UiContext& ctx);
    static void dim(ImVec2 min, ImVec2 max);
    [[nodiscard]] std::string gone_text(int64_t position) const;
    void draw_compared(UiContext& ctx, const Metrics& m, float height, bool beside);
    [[nodiscard]] float value_of(const UiContext& ctx, int64_t token) const;
    [[nodiscard]] bool is_pending(const UiContext& ctx, int64_t token) const {
        return token == ctx.steps + 1;
    }
    [[nodiscard]] Producer producer_of(const UiContext& ctx, int64_t token) const;
    // text_toolbar.cpp
    void draw_toolbar(UiContext& ctx);
    void draw_signal_list(UiContext& ctx, std::optional<size_t> id);
    void update_scale(const UiContext& ctx, size_t id);
    void draw_scale(UiContext& ctx, size_t id, float bar, const std::string& counted);
    void draw_gain_choice(UiContext& ctx);
    void update_gain_scale(const UiContext& ctx);
    // text_attention.cpp
    static void draw_attention_choices(UiContext& ctx);
    void update_attention(const UiContext& ctx);
    void draw_attention_note(const UiContext& ctx) const;
    void draw_bar(UiContext& ctx, Colour hue, std::string_view unit, float bar);
    [[nodiscard]] std::string count_verdicts(const UiContext& ctx, size_t signal);
    // text_tokens.cpp
    void draw_prompt(UiContext& ctx, const Metrics& m, float clip_top, float clip_bottom);
    void draw_prompt_tokens(UiContext& ctx, const Metrics& m, float clip_top, float clip_bottom);
    void draw_tokens(UiContext& ctx, const Metrics& m, float clip_top, float clip_bottom);
    void draw_flags(UiContext& ctx, const Metrics& m, size_t begin, size_t end, ImVec2 origin);
    void hover_token(UiContext& ctx, const Metrics& m, ImVec2 origin, bool clicked);
    void draw_fragment(UiContext& ctx, const Metrics& m, size_t index, ImVec2 origin);
    void draw_flag(UiContext& ctx, const Metrics& m, const RefreshEvent& event, bool crowd, ImVec2 at);
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
    SeriesSet m_series;
    ColourRange m_range;
    std::string m_range_signal;
    TokenColours m_colours;
    const Verdicts* m_verdicts = nullptr; ///< of the signal that colours, if it says yes or no
    std::array<TokenColours::Entry, 2> m_verdict_colours{}; ///< no, yes
    ColourScale m_scale;
    TokenOrigins m_origins;
    GoneTokens m_gone; ///< at the shown step: dimmed
    bool m_prompt_open = true, m_show_origin = false;
    std::optional<int64_t> m_seen_selection; ///< to notice a selection made elsewhere
    bool m_was_live = true, m_at_end = true;
    int64_t m_hovered_token = 0;
    int64_t m_menu_token = 0; ///< under the mouse when the menu was opened; 0 = none
    ReadWeights m_read;       ///< of the shown step, while tokens are coloured by it
    ComparedText m_compared;  ///< of the first ticked run
    bool m_comparing = false;
    TextFinder m_finder;
    std::string m_query;
    bool m_find_open = false, m_focus_find = false;
    bool m_first_token = false; ///< step 1 was selected by a click on y_1: the frame stays there
};

} // namespace refreshlab::ui
