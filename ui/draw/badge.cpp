#include "ui/draw/badge.h"

#include "ui/base/colour.h"
#include "ui/scene/text/rug.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace refreshlab::ui {

float badge_width(float height, const std::string& text) {
    const float size = height * 0.82F;
    return std::max(height, ImGui::GetFont()->CalcTextSizeA(size, 1e6F, 0, text.c_str()).x + height * 0.5F);
}

std::vector<MarkerGroup> badge_groups(const LaneMarks& marks, float badge_height) {
    // The last group of a crowd may be one marker: half its badge and half of a wide one must fit between their middles.
    const double height = static_cast<double>(badge_height),
                 wide = static_cast<double>(badge_width(badge_height, "M 000"));
    return merge_markers(marks.x_px, height + 2, 2 * wide);
}

namespace {

/// Where a label of one text is drawn.
Landmarks::Box badge_box(ImVec2 centre, float height, const std::string& text) {
    const float width = badge_width(height, text);
    return {std::round(centre.x - width / 2), std::round(centre.y - height / 2), width, height};
}

void badge_words(ImDrawList* list, const Landmarks::Box& box, Colour ink, const std::string& text) {
    const float size = box.height * 0.82F;
    const ImVec2 extent = ImGui::GetFont()->CalcTextSizeA(size, 1e6F, 0, text.c_str());
    list->AddText(ImGui::GetFont(), size,
                  {box.x + (box.width - extent.x) / 2, box.y + (box.height - extent.y) / 2}, ink,
                  text.c_str());
}

} // namespace

Landmarks::Box draw_badge(ImDrawList* list, const Theme& theme, ImVec2 centre, float height, Colour colour,
                          const std::string& text) {
    const Landmarks::Box box = badge_box(centre, height, text);
    list->AddRectFilled({box.x, box.y}, {box.x + box.width, box.y + height}, theme.tag(colour),
                        height * 0.22F);
    badge_words(list, box, theme.tag_text, text);
    return box;
}

void draw_mark_badge(ImDrawList* list, const UiContext& ctx, ImVec2 centre, float height, MarkLane lane,
                     size_t index) {
    const Colour colour = mark_colour(ctx.theme, ctx.marks, lane, index);
    const std::string text(1, mark_letter(ctx.marks, lane, index));
    if (lane == MarkLane::refresh || lane == MarkLane::note) {
        draw_badge(list, ctx.theme, centre, height, colour, text);
        return;
    }
    const Landmarks::Box box = badge_box(centre, height, text);
    list->AddRect({box.x, box.y}, {box.x + box.width, box.y + height}, colour, height * 0.22F);
    badge_words(list, box, ctx.theme.text_muted, text);
}

Landmarks::Box draw_group_badge(ImDrawList* list, const UiContext& ctx, ImVec2 centre, float height,
                                const LaneMarks& marks, const MarkerGroup& group) {
    const auto hits = [&](size_t index) { return ctx.marks.hits(marks.lane, index); };
    const char letter = group_letter(group, [&](size_t i) { return reason_letter(hits(marks.index[i])); });
    const std::string text =
        group.count() == 1 ? std::string(1, letter) : fmt::format("{} {}", letter, group.count());
    const std::vector<ReasonShare> shares = reason_shares(ctx.marks, marks, group);
    const Colour first = marker_colour(ctx.theme, hits(shares.front().index));
    if (shares.size() == 1) return draw_badge(list, ctx.theme, centre, height, first, text);
    const float width = badge_width(height, text), size = height * 0.7F, round = height * 0.22F;
    const ImVec2 min(std::round(centre.x - width / 2), std::round(centre.y - height / 2)),
        max(min.x + width, min.y + height);
    const float foot = std::round(max.y - height * 0.26F);
    list->AddRectFilled(min, max, ctx.theme.card, round);
    float x = min.x;
    int64_t before = 0;
    for (const ReasonShare& share : shares) {
        before += share.count;
        const float end =
            std::round(min.x + width * static_cast<float>(before) / static_cast<float>(group.count()));
        list->AddRectFilled({x, foot}, {std::max(end, x + 1), max.y},
                            marker_colour(ctx.theme, hits(share.index)));
        x = end;
    }
    list->AddRect(min, max, ctx.theme.plot_border, round);
    const ImVec2 extent = ImGui::GetFont()->CalcTextSizeA(size, 1e6F, 0, text.c_str());
    list->AddText(ImGui::GetFont(), size,
                  {min.x + (width - extent.x) / 2, std::round((min.y + foot - extent.y) / 2)}, ctx.theme.text,
                  text.c_str());
    return {min.x, min.y, width, height};
}

} // namespace refreshlab::ui
