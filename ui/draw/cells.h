#pragma once

#include "ui/theme/theme.h"

#include <imgui.h>

namespace refreshlab::ui {

/// Hatch for "not measured" between two corners, on the theme's absent colours.
void draw_absent(ImDrawList* list, const Theme& theme, ImVec2 min, ImVec2 max);

/// A frame or a line that is seen on cells of any colour: in `colour`, with the theme's ground beside it.
void draw_outline(ImDrawList* list, const Theme& theme, ImVec2 min, ImVec2 max, Colour colour,
                  float thickness);
void draw_marked_line(ImDrawList* list, const Theme& theme, ImVec2 from, ImVec2 to, Colour colour);

/// An image with sharp cells. (ImGui's renderer binds a linear sampler of its own unless told otherwise.)
void draw_cells(ImDrawList* list, ImTextureID texture, ImVec2 min, ImVec2 max, ImVec2 uv_min = ImVec2(0, 0),
                ImVec2 uv_max = ImVec2(1, 1));

/// Many such images of one texture, each on its ground and with something over it, in few draw calls: all grounds first, then all
/// images, then the rest. Every change of texture or sampler is a call, and a grid has hundreds of cells.
class CellSheet {
public:
    explicit CellSheet(ImDrawList* list);
    ~CellSheet(); ///< puts the parts together
    CellSheet(const CellSheet&) = delete;
    CellSheet& operator=(const CellSheet&) = delete;

    /// What is drawn next lies over all cells, until the next call of draw().
    void draw(Colour ground, ImTextureID texture, ImVec2 min, ImVec2 max, ImVec2 uv_min, ImVec2 uv_max);

private:
    ImDrawList* m_list;
    ImDrawListSplitter m_parts;
};

} // namespace refreshlab::ui
