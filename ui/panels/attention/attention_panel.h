#pragma once

#include "ui/draw/copy_menu.h"
#include "ui/draw/range_bar.h"
#include "ui/figure/paint/attention_paint.h"
#include "ui/panels/panel.h"
#include "ui/scene/attention/attention_colours.h"
#include "ui/scene/attention/attention_geometry.h"
#include "ui/scene/attention/attention_map.h"
#include "ui/scene/attention/head_ranking.h"

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// Layer x head grid of the shown step's attention and one head enlarged: a strip with the weights of the shown query
/// over all keys, and the map query x key of the queries before it (development/ui.md, AT1-AT6).
class AttentionPanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Attention"; }
    void draw(UiContext& ctx) override;
    void recording_changed(UiContext& ctx) override;

private:
    struct Frame; ///< what one frame works with

    void choose_shown(UiContext& ctx, Frame& f);
    void select_visible(UiContext& ctx, const Frame& f);
    // attention_toolbar.cpp
    void draw_toolbar(UiContext& ctx, Frame& f);
    static void draw_model_choice(const Frame& f);
    void draw_scale(UiContext& ctx, const Frame& f);
    void draw_options(const Frame& f);
    void draw_range_options(const Frame& f);
    static void draw_order_choice(const Frame& f);
    // attention_grid.cpp
    void draw_grid(UiContext& ctx, Frame& f, PixelBox place);
    [[nodiscard]] bool update_grid(const Frame& f, float cell_x, float cell_y);
    void draw_heads(UiContext& ctx, const Frame& f, std::span<const PlacedHead> placed);
    [[nodiscard]] bool head_button(UiContext& ctx, const Frame& f, PixelBox cell, size_t l, size_t h);
    void draw_ranked(UiContext& ctx, Frame& f, PixelBox place);
    void draw_grid_note(UiContext& ctx, const HeadGrid& grid, PixelBox place);
    // attention_head.cpp
    void draw_head(UiContext& ctx, Frame& f, PixelBox place);
    [[nodiscard]] HeadPicture picture(const UiContext& ctx, const Frame& f) const;
    static void draw_unread_note(UiContext& ctx, const Frame& f, const FigurePen& pen);
    void draw_missing(UiContext& ctx, Frame& f);
    void draw_read_buttons(UiContext& ctx, const Frame& f, const MissingRow& missing);
    void read_what_is_missing(UiContext& ctx, const Frame& f);
    void hover_key(UiContext& ctx, Frame& f, int64_t query, int64_t key, bool clicked);
    // attention_head_map.cpp
    void update_head(const UiContext& ctx, const Frame& f);
    void answer_map(UiContext& ctx, Frame& f);
    void answer_strip(UiContext& ctx, Frame& f);
    void draw_rows(const UiContext& ctx, const Frame& f) const;
    [[nodiscard]] std::vector<CopyItem> copy_items(const UiContext& ctx, const Frame& f, int64_t query) const;

    /// What was not read has a colour of its own in maps of the model that decodes.
    [[nodiscard]] bool marks_unread(const Frame& f) const;
    [[nodiscard]] std::string why_unread(const UiContext& ctx, const Frame& f, int64_t query,
                                         int64_t key) const;

    AttentionColours m_colours;
    RangeBar m_range_bar;
    ReadHistory m_history; ///< of the shown recording
    CopyMenu m_menu;       ///< of the enlarged head's map
    HeadRanking m_ranking;
    std::set<std::pair<int64_t, bool>>
        m_sent; ///< rows asked for by themselves: query position and model; once each

    AttentionMap m_grid, m_head;
    QueryWindow m_window;
    std::vector<uint32_t> m_grid_rgba, m_head_rgba;
    std::array<int, 2> m_grid_size{};
    uint64_t m_grid_revision = 0, m_head_revision = 0;
    std::string m_grid_look, m_head_look;            ///< settings that the colours were made with
    ShownRow m_row;                                  ///< of the shown query
    std::optional<std::pair<int64_t, bool>> m_asked; ///< query position and model of the last request
    uint64_t m_asked_errors = 0;
};

} // namespace refreshlab::ui
