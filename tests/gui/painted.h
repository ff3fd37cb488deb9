#pragma once

// What panels paint in a frame, and what the figure of the same view prints.
#include "tests/gui/robot.h"
#include "tests/support/recorded_canvas.h"
#include "ui/context/figure_request.h"
#include "ui/draw/screen_canvas.h"
#include "ui/figure/figure.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::gui {

using test::RecordedCanvas;

/// What the next frame paints.
inline RecordedCanvas painted(Robot& r) {
    RecordedCanvas canvas;
    r.frames(2);                                                  // ranges have settled
    GUI_CHECK(r.until([&] { return !r.ctx().unfinished; }, 200)); // jobs have answered
    r.ctx().painted = &canvas;
    r.frames(1);
    r.ctx().painted = nullptr;
    return canvas;
}

/// The figure of a panel, in the colours of the window.
inline RecordedCanvas printed(Robot& r, std::string_view name, bool of_head = false) {
    const auto kinds = ui::figure_kinds();
    const auto kind = std::ranges::find_if(kinds, [&](const ui::FigureKind& k) {
        return k.name == name && (name != "attention" || (k.needs == ui::FigureNeeds::head) == of_head);
    });
    GUI_CHECK(kind != kinds.end());
    RecordedCanvas canvas;
    ui::FigureStyle style = r.ctx().screen_style;
    if (name == "text") // whose ground in the window is that of the panel
        style.theme.plot_background = ImGui::GetColorU32(ImGuiCol_WindowBg) | ui::alpha_mask;
    const ui::FigurePen pen{canvas, style};
    const auto figure = ui::make_figure(ui::figure_request(r.ctx(), *kind, false));
    figure->draw(pen, {0, 0, 900, figure->height(pen, 900)});
    return canvas;
}

inline std::vector<ui::Colour> fills(const RecordedCanvas& canvas, std::string_view group) {
    std::vector<ui::Colour> found;
    for (const auto& box : canvas.rectangles_of(group))
        found.push_back(box.fill);
    return found;
}
inline std::vector<std::string> words(const RecordedCanvas& canvas, std::string_view group) {
    std::vector<std::string> found;
    for (const auto& text : canvas.texts_of(group))
        found.push_back(text.words);
    return found;
}

/// One image of this name in both, with the same cells.
inline bool same_cells(const RecordedCanvas& screen, const RecordedCanvas& paper, std::string_view group) {
    const auto a = screen.images_of(group), b = paper.images_of(group);
    return a.size() == 1 && b.size() == 1 && a[0].width == b[0].width && a[0].height == b[0].height &&
           a[0].rgba == b[0].rgba && !a[0].rgba.empty();
}

} // namespace refreshlab::gui
