#include "ui/draw/copy_menu.h"

#include <imgui.h>

namespace refreshlab::ui {

bool CopyMenu::draw(const char* id, const std::function<std::vector<CopyItem>()>& items,
                    const std::function<void()>& more) {
    if (ImGui::IsItemHovered() && ImGui::IsMouseReleased(ImGuiMouseButton_Right)) {
        m_items = items();
        if (!m_items.empty()) ImGui::OpenPopup(id);
    }
    if (!ImGui::BeginPopup(id)) return false;
    if (more) more();
    for (const CopyItem& item : m_items)
        if (ImGui::MenuItem(item.label.c_str())) ImGui::SetClipboardText(item.text.c_str());
    ImGui::EndPopup();
    return true;
}

} // namespace refreshlab::ui
