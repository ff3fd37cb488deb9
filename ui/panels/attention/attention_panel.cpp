#include "ui/panels/attention/attention_panel.h"

#include "ui/panels/attention/attention_frame.h"
#include "ui/scene/theme/run_colours.h"

#include <algorithm>
#include <tuple>

namespace refreshlab::ui {

std::unique_ptr<Panel> make_attention_panel() {
    return std::make_unique<AttentionPanel>();
}

void AttentionPanel::recording_changed(UiContext& ctx) {
    ctx.views.attention.scales.reset();
    m_history.reset();
    m_grid.clear();
    m_head.clear();
    m_window = {};
    m_colours.reset_range();
    m_row.clear();
    m_asked.reset();
    m_ranking.clear();
    m_sent.clear();
}

/// What the frame looks at: query, layers, heads.
void AttentionPanel::choose_shown(UiContext& ctx, Frame& f) {
    const RunInfo& info = f.recording->info();
    f.prompt = f.recording->prompt_length();
    f.layers = not_hidden(std::max<int64_t>(info.layers, 1), f.view->hidden_layers);
    f.heads = not_hidden(std::max<int64_t>(info.heads, 1), f.view->hidden_heads);
    f.em = ImGui::GetFontSize();
    f.unread = unread_colour(ctx.theme);
    f.live_engine = ctx.engine.recording().get() == f.recording;
    // The last record of a finished run holds a token that was never fed: the query before it is the newest.
    const int64_t shown = ctx.shown_step();
    f.query = std::max(f.prompt + shown - 1 - (f.recording->step(shown).fed ? 0 : 1), f.prompt);
}

/// A head of another model, or one that was hidden, cannot stay selected.
void AttentionPanel::select_visible(UiContext& ctx, const Frame& f) {
    std::tie(ctx.selection.layer, ctx.selection.head) =
        visible_head({ctx.selection.layer, ctx.selection.head}, f.layers, f.heads);
}

void AttentionPanel::draw(UiContext& ctx) {
    Frame f;
    f.recording = ctx.recording.get();
    if (f.recording == nullptr || ctx.steps == 0) {
        ImGui::TextDisabled("Attention appears here with the first step of a run.");
        return;
    }
    f.view = &ctx.views.attention;
    choose_shown(ctx, f);
    m_history.update(*f.recording);
    m_colours.theme_map = ctx.theme.map_amounts;
    m_colours.signed_map = ctx.theme.map_signed;
    m_colours.show(*f.view, shown_attention(*f.view, f.recording->info().config.mode));
    draw_toolbar(ctx, f);
    if (f.layers.empty() || f.heads.empty()) {
        ImGui::TextDisabled("All layers or all heads are hidden; choose some in Options.");
        return;
    }
    select_visible(ctx, f);
    m_window = next_window(m_window, f.prompt, f.query, f.view->rows, ctx.live());
    read_what_is_missing(ctx, f);
    const ImVec2 at = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
    if (room.x < 6 * f.em || room.y < 4 * f.em) {
        ImGui::TextDisabled("Too small for the map: enlarge this panel");
        return;
    }
    const AttentionPlaces places =
        attention_places({at.x, at.y, room.x, room.y}, static_cast<int64_t>(f.layers.size()),
                         static_cast<int64_t>(f.heads.size()), f.em);
    if (f.view->order == HeadOrder::place)
        draw_grid(ctx, f, places.grid);
    else
        draw_ranked(ctx, f, places.grid);
    draw_head(ctx, f, places.head);
    if (!f.view->scales || *f.view->scales != m_colours.scales()) f.view->scales = m_colours.scales();
}

} // namespace refreshlab::ui
