#include "engine/control/derive/derive_spec.h"
#include "ui/base/format.h"
#include "ui/base/short_name.h"
#include "ui/dialogs/workspace_files.h"
#include "ui/panels/panel.h"
#include "ui/shell/parts.h"
#include "ui/state/layout.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

namespace refreshlab::ui {

namespace {

std::string mode_name(Mode mode) {
    switch (mode) {
    case Mode::teacher:
        return "Teacher";
    case Mode::student:
        return "Student";
    case Mode::overfill:
        return "OverFill";
    }
    return "";
}

std::string upper(std::string text) {
    std::ranges::transform(text, text.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return text;
}

struct Piece {
    std::string text;
    bool strong = false;
    bool warning = false;
    const char* landmark = nullptr;
};

/// Where the engine is: "on gpu-server". Nothing of one in this process.
void add_server(const EngineStatus& status, std::vector<Piece>& pieces) {
    if (status.link)
        pieces.push_back({"on " + (status.link->host.empty() ? status.link->server : status.link->host),
                          false, false, "menu/server"});
}

/// What must always be in sight (RB7): pair, mode, device, dtype, the server, and the note about the pair.
std::vector<Piece> pair_summary(const ShellState& state) {
    const EngineStatus& status = *state.ctx.status;
    std::vector<Piece> pieces;
    if (const auto shown = state.runs.away()) {
        const RunInfo& info = shown->info();
        pieces.push_back({state.runs.name(*state.runs.looked_at()), true});
        pieces.push_back({pair_name(info.config.teacher_dir, info.config.student_dir), true});
        pieces.push_back({mode_name(info.config.mode)});
        pieces.push_back({upper(info.device) + " " + info.dtype});
        if (!info.note.empty()) pieces.push_back({info.note, false, true, "menu/note"});
        return pieces;
    }
    const auto model = [](const ModelSummary& m) { return m.name + " " + format_count(m.parameters); };
    if (status.teacher.name.empty() && status.student.name.empty()) {
        // An engine that is on its way, or that there is none, stands in its message.
        pieces.push_back({status.message.empty() ? "no models loaded" : status.message});
        add_server(status, pieces);
        return pieces;
    }
    if (!status.teacher.name.empty() && !status.student.name.empty()) {
        pieces.push_back({model(status.teacher) + "  >  " + model(status.student), true});
    } else {
        pieces.push_back({model(status.teacher.name.empty() ? status.student : status.teacher), true});
    }
    pieces.push_back({mode_name(status.applied.mode)});
    const ModelSummary& first = status.student.name.empty() ? status.teacher : status.student;
    std::string device = upper(first.device);
    if (!status.teacher.device.empty() && status.teacher.device != first.device)
        device = upper(status.teacher.device) + " > " + device;
    pieces.push_back({device + " " + first.dtype});
    add_server(status, pieces);
    if (!status.note.empty()) pieces.push_back({status.note, false, true, "menu/note"});
    return pieces;
}

float text_width(const std::string& text) {
    return ImGui::CalcTextSize(text.c_str()).x;
}

/// "Rebuild mode" of "rebuild mode: the KV geometries differ (...)": what a note says before its reasons.
std::string note_head(const std::string& note) {
    std::string head = note.substr(0, note.find(": "));
    head[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(head[0])));
    return head;
}

/// As much of the text as fits into `room`, with three dots for the rest; empty where there is no room for any.
std::string shortened(const std::string& text, float room) {
    if (text_width(text) <= room) return text;
    std::string part = text;
    while (!part.empty() && text_width(part + "...") > room) {
        size_t end = part.size();
        do // whole code points: back to the first byte of the last one
            --end;
        while (end > 0 && (static_cast<unsigned char>(part[end]) & 0xC0U) == 0x80U);
        part.resize(end);
    }
    return part.empty() ? part : part + "...";
}

/// What is shown of each piece, so that all of them are in sight: a note gives way first, down to its head, then the
/// pair's name. The whole is in the tooltips.
std::vector<std::string> fitted(const std::vector<Piece>& pieces, float gap, float room) {
    std::vector<std::string> shown;
    float width = 0;
    for (const Piece& piece : pieces) {
        shown.push_back(piece.text);
        width += text_width(piece.text) + gap;
    }
    for (size_t i = 0; i < pieces.size() && width > room; ++i) {
        if (!pieces[i].warning) continue;
        width -= text_width(shown[i]);
        shown[i] = note_head(pieces[i].text);
        width += text_width(shown[i]);
    }
    for (size_t i = 0; i < pieces.size() && width > room; ++i) {
        if (!pieces[i].strong) continue;
        const float was = text_width(shown[i]);
        shown[i] = shortened(shown[i], was - (width - room));
        width += text_width(shown[i]) - was;
    }
    return shown;
}

void draw_summary(ShellState& state, float left_end) {
    const auto pieces = pair_summary(state);
    const float gap = ImGui::GetFontSize() * 1.1F, end = ImGui::GetWindowWidth() - gap * 0.5F;
    const float room = ImGui::GetWindowWidth() - left_end - gap;
    const std::vector<std::string> shown = fitted(pieces, gap, room);
    float width = 0;
    for (const std::string& text : shown)
        width += text.empty() ? 0 : text_width(text) + gap;
    float x = ImGui::GetWindowWidth() - std::min(width, room);
    for (size_t i = 0; i < pieces.size(); ++i) {
        const Piece& piece = pieces[i];
        if (shown[i].empty()) continue;
        const float size = text_width(shown[i]);
        ImGui::SetCursorPosX(x);
        const ImU32 colour = piece.warning  ? state.ctx.theme.accent_ink
                             : piece.strong ? state.ctx.theme.text
                                            : state.ctx.theme.text_muted;
        const ImVec2 at = ImGui::GetCursorScreenPos();
        const float clip = std::min(size, end - x);
        if (clip <= 0) break;
        const ImVec4 box(at.x, at.y, at.x + clip, at.y + ImGui::GetFrameHeight());
        ImGui::GetWindowDrawList()->AddText(nullptr, 0, ImVec2(at.x, at.y + ImGui::GetStyle().FramePadding.y),
                                            colour, shown[i].c_str(), nullptr, 0, &box);
        ImGui::Dummy(ImVec2(clip, ImGui::GetFrameHeight()));
        if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayShort)) {
            ImGui::BeginTooltip();
            ImGui::PushTextWrapPos(ImGui::GetFontSize() * 36);
            ImGui::TextUnformatted(piece.text.c_str());
            ImGui::PopTextWrapPos();
            ImGui::EndTooltip();
        }
        if (piece.landmark != nullptr) {
            state.ctx.landmarks.set(piece.landmark, {at.x, at.y, clip, ImGui::GetFrameHeight()});
            state.ctx.landmarks.set_text(piece.landmark, shown[i]);
        }
        x += size + gap;
    }
}

} // namespace

void action_menu_item(ShellState& state, std::string_view id) {
    const Action* action = state.find_action(id);
    if (!action) return;
    std::string label = action->label;
    if (id == "edit.undo" && state.ctx.drafts.can_undo()) label += ": " + state.ctx.drafts.undo_label();
    if (id == "edit.redo" && state.ctx.drafts.can_redo()) label += ": " + state.ctx.drafts.redo_label();
    const std::string keys = shortcut_text(action->shortcut);
    const std::string reason = action->reason(state.ctx);
    const bool enabled = reason.empty();
    const bool checked = action->checked && action->checked(state.ctx);
    // "###id": the label may change (undo), the item stays the same one for tests and keyboard navigation.
    if (ImGui::MenuItem((label + "###" + action->id).c_str(), keys.c_str(), checked, enabled))
        state.run(*action);
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled))
        ImGui::SetTooltip("%s", (enabled ? action->help : reason).c_str());
}

namespace {

/// The files above "Clear the list"; those that are gone are pale.
void recent_items(ShellState& state) {
    std::filesystem::path chosen;
    for (const std::filesystem::path& file : state.ctx.recent_files) {
        std::error_code error;
        const bool there = std::filesystem::exists(file, error);
        const std::string name = short_name(file, state.ctx.recent_files);
        if (ImGui::MenuItem((name + "###" + file.string()).c_str(), nullptr, false, there)) chosen = file;
        const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
        state.ctx.landmarks.set({low.x, low.y, size.x, size.y}, "menu/recent/{}", name);
        if (ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled))
            ImGui::SetTooltip("%s%s", file.c_str(), there ? "" : "\nis not there any more");
    }
    if (!state.ctx.recent_files.empty()) ImGui::Separator();
    if (!chosen.empty()) open_file(state, chosen);
}

} // namespace

void draw_menu_bar(ShellState& state) {
    if (!ImGui::BeginMainMenuBar()) return;
    for (const char* menu : {"File", "Edit", "Run", "View", "Help"}) {
        const std::string name = menu;
        if (!ImGui::BeginMenu(menu)) continue;
        std::string submenu;
        bool open = true;
        for (const Action& action : state.actions) {
            if (action.menu != name && !action.menu.starts_with(name + "/")) continue;
            const std::string sub = action.menu == name ? std::string() : action.menu.substr(name.size() + 1);
            if (sub != submenu) {
                if (!submenu.empty() && open) ImGui::EndMenu();
                submenu = sub;
                open = sub.empty() || ImGui::BeginMenu(sub.c_str());
                if (open && sub == "Open recent") recent_items(state);
            }
            if (open) action_menu_item(state, action.id);
        }
        if (!submenu.empty() && open) ImGui::EndMenu();
        if (name == "View" && ImGui::BeginMenu("Panels")) {
            for (const auto& panel : state.panels) {
                const std::string title(panel->title());
                if (ImGui::MenuItem(title.c_str(), nullptr, &state.panel_open[title]) &&
                    state.panel_open[title])
                    state.focus_panel = title;
            }
            ImGui::EndMenu();
        }
        ImGui::EndMenu();
    }
    draw_summary(state, ImGui::GetCursorPosX());
    ImGui::EndMainMenuBar();
}

} // namespace refreshlab::ui
