#include "ui/draw/table_sync.h"

#include <imgui.h>
#include <imgui_internal.h>

#include <string>

namespace refreshlab::ui {

void TableSync::follow(TableView& view, std::span<const std::string_view> keys) {
    ImGuiTable* const table = ImGui::GetCurrentTable();
    const auto count = static_cast<int>(keys.size());
    if (table->IsInitializing || view != m_seen) {
        for (int i = 0; i < count; ++i)
            if (const std::string_view key = keys[static_cast<size_t>(i)]; !key.empty())
                ImGui::TableSetColumnEnabled(i, view.shows(key));
        if (const auto by = view.sorted_column(keys))
            ImGui::TableSetColumnSortDirection(
                static_cast<int>(*by),
                view.descending ? ImGuiSortDirection_Descending : ImGuiSortDirection_Ascending, false);
        else
            ImGui::TableSetColumnSortDirection(0, ImGuiSortDirection_None, false);
    } else {
        view = {};
        for (int i = 0; i < count; ++i) {
            const std::string key(keys[static_cast<size_t>(i)]);
            const ImGuiTableColumn& column = table->Columns[i];
            if (key.empty()) continue;
            if (!column.IsUserEnabledNextFrame) view.hidden.push_back(key);
            if (column.SortOrder != 0) continue;
            view.sorted_by = key;
            view.descending = column.SortDirection == ImGuiSortDirection_Descending;
        }
    }
    m_seen = view;
}

} // namespace refreshlab::ui
