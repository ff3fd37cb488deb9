#pragma once

#include "ui/panels/panel.h"
#include "ui/scene/maps/attention_map.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// Layer x head grid of the shown step's attention and one head enlarged: a strip with the weights of the shown query
/// over all keys, and the map query x key of the queries before it (reference/ui.md, AT1-AT6).
class AttentionPanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Attention"; }
    void draw(UiContext& ctx) override;
    void recording_changed(UiContext& ctx) override;

private:
    enum class Range : uint8_t { unit, shared, per_head };
    struct Frame; ///< what one frame works with

    void draw_toolbar(UiContext& ctx, Frame& f);
    void draw_options(UiContext& ctx, Frame& f);
    void draw_chooser(const char* label, std::vector<uint8_t>& shown);
    void draw_grid(UiContext& ctx, Frame& f, ImVec2 at, ImVec2 size);
    void draw_head(UiContext& ctx, Frame& f, ImVec2 at, ImVec2 size);
    void draw_head_title(UiContext& ctx, Frame& f, ImVec2 at, float width);
    void read_row(const Frame& f, int32_t layer, int32_t head);
    void draw_strip(UiContext& ctx, Frame& f, ImVec2 min, ImVec2 max);
    void draw_map(UiContext& ctx, Frame& f, ImVec2 min, ImVec2 max);
    void draw_axes(UiContext& ctx, Frame& f, ImVec2 map_min, ImVec2 map_max, float bottom);
    void hover_key(UiContext& ctx, Frame& f, int64_t query, int64_t key, bool clicked);
    void draw_missing(UiContext& ctx, Frame& f);
    [[nodiscard]] ColourScale head_scale(size_t layer_index, size_t head_index) const;
    void follow_range(const Frame& f);
    void show(AttentionOf of);
    void colour(std::span<const HalfCell> cells, const ColourScale& scale, std::span<uint32_t> rgba) const;
    [[nodiscard]] bool differences() const { return m_of == AttentionOf::difference; }

    AttentionOf m_of = AttentionOf::student;
    bool m_log = true;
    Range m_range = Range::shared;
    bool m_without_first = true; ///< position 0 takes most mass in many heads
    int m_rows = 64;             ///< queries shown
    std::string m_colours = "viridis";
    std::vector<uint8_t> m_layer_shown, m_head_shown;

    AttentionMap m_grid, m_head;
    QueryWindow m_window;
    std::vector<double> m_head_max; ///< widened at once, narrowed only on request
    double m_shared_max = 0;
    std::vector<uint32_t> m_grid_rgba, m_head_rgba;
    std::array<int, 2> m_grid_size{}, m_head_size{};
    uint64_t m_grid_revision = 0, m_head_revision = 0;
    std::string m_grid_look, m_head_look; ///< settings that the colours were made with
    // The shown query's weights, kept until the query, head or model changes.
    std::vector<float> m_row;
    int64_t m_row_query = -1;
    int32_t m_row_layer = -1, m_row_head = -1;
    AttentionOf m_row_of = AttentionOf::student;
    std::vector<float> m_row_teacher, m_row_student; ///< of a difference: what it is made of
    std::vector<TopKey> m_top;
    std::optional<std::pair<int64_t, bool>> m_asked; ///< query position and model of the last request
    uint64_t m_asked_errors = 0;
};

} // namespace refreshlab::ui
