#include "ui/shell/dock_places.h"

#include <imgui_internal.h>

#include <algorithm>

namespace refreshlab::ui {
namespace {

void set_tab_order(const std::string& panel, int order) {
    const ImGuiID id = ImHashStr(panel.c_str());
    if (ImGuiWindow* window = ImGui::FindWindowByID(id))
        window->DockOrder = static_cast<short>(order);
    else if (ImGuiWindowSettings* stored = ImGui::FindWindowSettingsByID(id))
        stored->DockOrder = static_cast<short>(order);
}

ImGuiID dock_of(const std::string& panel) {
    const ImGuiID id = ImHashStr(panel.c_str());
    if (const ImGuiWindow* window = ImGui::FindWindowByID(id)) return window->DockId;
    const ImGuiWindowSettings* stored = ImGui::FindWindowSettingsByID(id);
    return stored != nullptr ? stored->DockId : 0;
}

void put_into(ImGuiID node, const Place& place) {
    if (place.parts.empty()) {
        int order = 0;
        for (const std::string& title : place.tabs) {
            ImGui::DockBuilderDockWindow(title.c_str(), node);
            set_tab_order(title, order++);
        }
        return;
    }
    ImGuiID first = 0, second = 0;
    ImGui::DockBuilderSplitNode(node, place.split == Place::Split::beside ? ImGuiDir_Left : ImGuiDir_Up,
                                place.share, &first, &second);
    put_into(first, place.parts[0]);
    put_into(second, place.parts[1]);
}

/// Dear ImGui gives a new dock space one part that takes what a larger window brings. Here all parts grow by their shares.
void let_all_grow(ImGuiDockNode* node) {
    if (node == nullptr) return;
    node->SetLocalFlags(node->LocalFlags & ~ImGuiDockNodeFlags_CentralNode);
    node->CentralNode = nullptr;
    node->HasCentralNodeChild = false;
    let_all_grow(node->ChildNodes[0]);
    let_all_grow(node->ChildNodes[1]);
}

Place read_place(const ImGuiDockNode& node, std::span<const std::string> panels) {
    if (!node.IsSplitNode()) {
        std::vector<std::string> docked;
        for (const std::string& panel : panels)
            if (dock_of(panel) == node.ID) docked.push_back(panel);
        return tabs(std::move(docked));
    }
    const ImGuiAxis axis = node.SplitAxis == ImGuiAxis_X ? ImGuiAxis_X : ImGuiAxis_Y;
    const float a = node.ChildNodes[0]->SizeRef[axis], b = node.ChildNodes[1]->SizeRef[axis];
    Place first = read_place(*node.ChildNodes[0], panels), second = read_place(*node.ChildNodes[1], panels);
    const float share = a + b > 0 ? a / (a + b) : 0.5F;
    return axis == ImGuiAxis_X ? beside(share, std::move(first), std::move(second))
                               : stacked(share, std::move(first), std::move(second));
}

} // namespace

void put_up(ImGuiID dock_space, const Place& place, ImVec2 size, std::span<const std::string> panels) {
    for (const std::string& panel : panels) // of another layout: its place is no longer there
        ImGui::DockBuilderDockWindow(panel.c_str(), 0);
    ImGui::DockBuilderAddNode(dock_space, ImGuiDockNodeFlags_DockSpace);
    ImGui::DockBuilderSetNodeSize(dock_space, size);
    put_into(dock_space, place);
    let_all_grow(ImGui::DockBuilderGetNode(dock_space));
    ImGui::DockBuilderFinish(dock_space);
}

std::optional<Place> docked_places(ImGuiID dock_space, std::span<const std::string> panels) {
    const ImGuiDockNode* root = ImGui::DockBuilderGetNode(dock_space);
    if (root == nullptr) return std::nullopt;
    return read_place(*root, panels);
}

void dock_beside(const std::string& panel, const std::string& other) {
    const ImGuiID node = dock_of(other);
    if (node == 0 || ImGui::DockBuilderGetNode(node) == nullptr) return;
    ImGuiID left = 0, right = 0;
    ImGui::DockBuilderSplitNode(node, ImGuiDir_Right, 0.5F, &right, &left);
    ImGui::DockBuilderDockWindow(panel.c_str(), right);
    ImGui::DockBuilderFinish(left);
}

void dock_with(const std::string& panel, const std::string& other) {
    const ImGuiID node = dock_of(other);
    if (node != 0 && dock_of(panel) == 0) ImGui::DockBuilderDockWindow(panel.c_str(), node);
}

} // namespace refreshlab::ui
