#pragma once

#include <imgui.h>

#include <string>

namespace refreshlab::ui {

/// Entries for text that a person composes: a prompt, a path. Esc leaves the entry and keeps what was typed, where Dear
/// ImGui's own entry gives the text of before back. (Numbers are another matter: there Esc takes the change back.)
/// \return what ImGui::InputText says with these flags
bool text_entry(const char* label, std::string* text, ImGuiInputTextFlags flags = 0, const char* hint = "");
/// The same over several lines; lines that are too long wrap.
bool text_area(const char* label, std::string* text, ImVec2 size);
/// An entry for a whole number from `low` to `high`; what is typed beyond them is brought to the nearer end. (ImGui's own takes the low 32
/// bits of a number that is too large.)
/// \param step, fast  of its buttons, and with Ctrl; 0 = no buttons
/// \return whether it has just been changed
bool whole_entry(const char* label, int* value, int low, int high, int step = 0, int fast = 0);

} // namespace refreshlab::ui
