#include "ui/draw/text_entry.h"

#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cstdint>

namespace refreshlab::ui {

namespace {

/// Right after an entry: Esc has put the text of before there.
void keep_typed(std::string* text, const std::string& typed) {
    if (ImGui::IsItemDeactivated() && ImGui::IsKeyPressed(ImGuiKey_Escape, false)) *text = typed;
}

} // namespace

bool text_entry(const char* label, std::string* text, ImGuiInputTextFlags flags, const char* hint) {
    const std::string typed = *text; // as of the last frame: an entry writes its text at every key
    const bool result = ImGui::InputTextWithHint(label, hint, text, flags);
    keep_typed(text, typed);
    return result;
}

bool text_area(const char* label, std::string* text, ImVec2 size) {
    const std::string typed = *text;
    const bool result = ImGui::InputTextMultiline(label, text, size, ImGuiInputTextFlags_WordWrap);
    keep_typed(text, typed);
    return result;
}

bool whole_entry(const char* label, int* value, int low, int high, int step, int fast) {
    int64_t typed = *value; // the C library stops at its ends
    const int64_t by = step, by_far = fast;
    if (!ImGui::InputScalar(label, ImGuiDataType_S64, &typed, step > 0 ? &by : nullptr,
                            step > 0 ? &by_far : nullptr))
        return false;
    *value = static_cast<int>(std::clamp<int64_t>(typed, low, high));
    return true;
}

} // namespace refreshlab::ui
