#include "ui/draw/rug.h"

#include "ui/scene/text/rug.h"
#include "ui/scene/theme/run_colours.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace refreshlab::ui {
namespace {

std::vector<MarkerGroup> columns_of(const LaneMarks& marks, const RugRow& row) {
    const double width = static_cast<double>(row.right - row.left);
    const double zero = static_cast<double>(row.left) - row.x_min / (row.x_max - row.x_min) * width;
    return rug_columns(marks, zero,
                       std::max(3.0, std::round(static_cast<double>(ImGui::GetFontSize()) * 0.2)));
}

} // namespace

void draw_rug(ImDrawList* list, const UiContext& ctx, const LaneMarks& marks, const RugRow& row) {
    const std::vector<MarkerGroup> columns = columns_of(marks, row);
    size_t most = 1;
    for (const MarkerGroup& column : columns)
        most = std::max(most, column.count());
    list->PushClipRect({row.left, row.top}, {row.right, row.bottom}, true);
    for (const MarkerGroup& column : columns) {
        constexpr float least = 0.4F; // of the height: one refresh among crowds is still seen
        const float share = most == 1 ? 1.0F
                                      : least + (1 - least) * static_cast<float>(column.count() - 1) /
                                                    static_cast<float>(most - 1);
        const float height = (row.bottom - row.top) * share;
        const auto alone = std::round(static_cast<float>(marks.x_px[column.first]));
        const float left = most == 1 ? alone : std::round(static_cast<float>(column.x_min)),
                    right = most == 1 ? alone + std::max(1.0F, std::round(ImGui::GetFontSize() * 0.08F))
                                      : std::round(static_cast<float>(column.x_max)) - 1;
        int64_t below = 0;
        for (const ReasonShare& reason : reason_shares(ctx.marks, marks, column)) {
            const auto part = [&](int64_t count) {
                return row.bottom - height * static_cast<float>(count) / static_cast<float>(column.count());
            };
            const float foot = part(below), top = part(below + reason.count);
            list->AddRectFilled({left, top}, {right, foot},
                                mark_colour(ctx.theme, ctx.marks, marks.lane, reason.index));
            below += reason.count;
        }
    }
    list->PopClipRect();
}

std::optional<MarkerGroup> rug_under(const LaneMarks& marks, const RugRow& row, ImVec2 mouse) {
    if (mouse.y < row.top || mouse.y >= row.bottom || mouse.x < row.left || mouse.x >= row.right)
        return std::nullopt;
    constexpr double slack = 2; // pixels
    const double x = static_cast<double>(mouse.x);
    for (const MarkerGroup& column : columns_of(marks, row))
        if (x >= column.x_min - slack && x < column.x_max + slack) return column;
    return std::nullopt;
}

} // namespace refreshlab::ui
