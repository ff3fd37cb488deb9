// Saving and opening a workspace, and the offer of a session that was left.
#include "engine/base/bytes_text.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/fetch/child_process.h"
#include "engine/record/keep/session_folder.h"
#include "ui/base/value_format.h"
#include "ui/dialogs/dialogs.h"
#include "ui/dialogs/work_dialog.h"
#include "ui/dialogs/workspace_files.h"
#include "ui/draw/widgets.h"
#include "ui/state/dialog.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <ctime>
#include <system_error>
#include <utility>

namespace refreshlab::ui {

namespace {

namespace fs = std::filesystem;

std::string counted(size_t n, const char* one, const char* several) {
    return fmt::format("{} {}", format_thousands(static_cast<int64_t>(n)), n == 1 ? one : several);
}

/// A trace beside the workspace under a name that is free: no trace that is open loses its place.
fs::path trace_beside(const fs::path& workspace) {
    std::error_code error;
    for (int number = 1;; ++number) {
        fs::path path = workspace;
        path.replace_extension();
        if (number > 1) path += fmt::format("-{}", number);
        path += ".rlt";
        if (!fs::exists(path, error)) return path;
    }
}

/// Writes the workspace, the runs that are in no file first: at no time does it name what is not there.
Work saving(ShellState& state, const fs::path& path, const std::vector<SavedRun>& runs) {
    struct Saved {
        std::shared_ptr<const Recording> recording;
        int64_t steps = 0;
        TextReadings readings;
    };
    std::vector<Saved> saved;
    const fs::path trace = runs.empty() ? fs::path() : trace_beside(path);
    RunFiles besides;
    for (const SavedRun& run : runs) {
        besides[run.recording->info().id] = trace;
        saved.push_back({run.recording, run.recording->steps(), state.readings_of(*run.recording)});
    }
    const std::string text = workspace_text(present_workspace(state, besides), path);
    const auto added = state.added_signals; // those of this moment are in the text
    return [=, &state](const std::atomic<bool>& cancelled) -> std::function<void()> {
        if (!runs.empty() && !save_traces(trace, runs, &cancelled)) return {};
        for (const Saved& run : saved)
            store_readings(trace, run.recording->info().id, run.readings);
        write_file(path, text);
        return [=, &state] {
            for (const Saved& run : saved)
                state.note_saved(*run.recording, run.steps, trace);
            state.signals_in_workspace = added;
            state.workspace_file = path;
            remember_file(state, path);
            state.say(Toasts::Level::info,
                      saved.empty()
                          ? "Workspace saved as " + path.string()
                          : fmt::format("Workspace saved as {}, {} in {}", path.string(),
                                        counted(saved.size(), "run", "runs"), trace.filename().string()));
        };
    };
}

class SaveWorkspaceDialog final : public PathDialog {
public:
    explicit SaveWorkspaceDialog(const UiContext& ctx)
        : PathDialog(ctx, PathPicker::Want::save_file, "workspace",
                     std::string("workspace") + workspace_extension, workspace_extension) {}
    const char* title() const override { return "Save workspace"; }
    bool draw(ShellState& state) override {
        const std::vector<SavedRun> unsaved = unsaved_runs(state);
        muted_text(state.ctx, "Open traces, ticked runs, layout, views and the policy, as they are now");
        if (!unsaved.empty()) {
            ImGui::Checkbox(fmt::format("Save {} no file beside it, about {}###beside",
                                        unsaved.size() == 1
                                            ? "the run that is in"
                                            : "the " + counted(unsaved.size(), "", "runs that are in"),
                                        bytes_text(trace_bytes(unsaved)))
                                .c_str(),
                            &m_beside);
            if (!m_beside)
                muted_text(state.ctx, unsaved.size() == 1 ? "The run is left out; its notes are kept"
                                                          : "The runs are left out; their notes are kept");
        }
        const bool grows =
            m_beside && state.running() && std::ranges::any_of(unsaved, [&](const SavedRun& run) {
                return run.recording == state.ctx.engine.recording();
            });
        return draw_path(state, ImGui::GetFontSize() * 12, "Save", grows ? "Pause the run first" : "");
    }

private:
    void work_on(ShellState& state, const fs::path& path) override {
        start(state, "Saving " + path.filename().string(),
              saving(state, path, m_beside ? unsaved_runs(state) : std::vector<SavedRun>()));
    }

    bool m_beside = true;
};

class OpenWorkspaceDialog final : public PathDialog {
public:
    explicit OpenWorkspaceDialog(const UiContext& ctx)
        : PathDialog(ctx, PathPicker::Want::open_file, "workspace", "", workspace_extension) {}
    const char* title() const override { return "Open workspace"; }
    bool draw(ShellState& state) override { return draw_path(state, ImGui::GetFontSize() * 14, "Open"); }

private:
    void work_on(ShellState& state, const fs::path& path) override {
        start(state, "Opening " + path.filename().string(),
              [path, &state](const std::atomic<bool>&) { return load_to_show(state, path); });
    }
};

std::string when_changed(const fs::path& folder) {
    std::error_code error;
    const auto time = fs::last_write_time(folder, error);
    if (error) return "before";
    const std::time_t seconds = std::chrono::system_clock::to_time_t(
        std::chrono::file_clock::to_sys(std::chrono::time_point_cast<std::chrono::seconds>(time)));
    std::tm local{};
    localtime_r(&seconds, &local);
    char text[32] = "";
    std::strftime(text, sizeof text, "%Y-%m-%d at %H:%M", &local);
    return std::string("on ") + text;
}

/// state.left is not empty. Esc leaves everything as it is: the next start offers it again.
class LeftSessionDialog final : public Dialog {
public:
    explicit LeftSessionDialog(const ShellState& state) {
        const SessionFolder& folder = *state.left.front();
        const auto kept = folder.traces();
        m_when = when_changed(folder.path());
        m_bytes = folder.bytes();
        std::error_code error;
        if (!fs::exists(folder.workspace(), error)) {
            m_kept = kept.size();
            return;
        }
        try {
            std::vector<std::string> faults;
            const Workspace workspace = read_workspace(folder.workspace(), faults);
            for (const Workspace::Trace& trace : workspace.traces)
                if (std::ranges::find(kept, trace.path) != kept.end())
                    m_kept += trace.runs.size();
                else
                    ++m_traces;
            m_kept = std::max(m_kept, kept.size());
        } catch (const Error&) { // told when it is restored
            m_kept = kept.size();
        }
    }
    const char* title() const override { return "Last session"; }
    float width() const override { return 520; }
    bool draw(ShellState& state) override {
        if (state.left.empty()) return false;
        const SessionFolder& folder = *state.left.front();
        const float em = ImGui::GetFontSize(), spacing = ImGui::GetStyle().ItemSpacing.x;
        ImGui::PushTextWrapPos(0);
        ImGui::TextUnformatted(
            fmt::format("The program did not come to its end {}. Its session is still there:", m_when)
                .c_str());
        ImGui::Dummy(ImVec2(0, em * 0.2F));
        if (m_kept > 0)
            ImGui::BulletText("%s, %s",
                              counted(m_kept, "run that is in no file", "runs that are in no file").c_str(),
                              bytes_text(m_bytes).c_str());
        if (m_traces > 0) ImGui::BulletText("%s", counted(m_traces, "opened trace", "opened traces").c_str());
        ImGui::BulletText("layout, views and policy");
        ImGui::PopTextWrapPos();
        ImGui::Dummy(ImVec2(0, em * 0.2F));
        muted_text(state.ctx, folder.path().string());
        if (state.left.size() > 1)
            muted_text(state.ctx,
                       counted(state.left.size() - 1, "older session follows", "older sessions follow"));
        ImGui::Dummy(ImVec2(0, em * 0.2F));
        const float restore = em * 6, other = em * 6, show = em * 8;
        if (ImGui::Button("Show folder", ImVec2(show, 0))) show_folder(state, folder.path());
        ImGui::SetItemTooltip("Opens it in the file manager and copies its path");
        ImGui::SameLine();
        ImGui::SetCursorPosX(content_right() - restore - other - spacing);
        if (ImGui::Button("Discard", ImVec2(other, 0))) {
            state.left.front()->remove();
            return answered(state, false);
        }
        ImGui::SetItemTooltip("Deletes what is in this folder");
        ImGui::SameLine();
        const bool press = accent_button(state.ctx, "Restore", restore);
        ImGui::SetItemTooltip("Opens it beside what is there (Enter). Esc keeps it for the next start");
        const bool enter = ImGui::IsWindowFocused() && !ImGui::GetIO().NavVisible &&
                           ImGui::IsKeyPressed(ImGuiKey_Enter, false);
        if (!press && !enter) return true;
        restore_first(state);
        return answered(state, true);
    }
    void put_aside(ShellState& state) override { go_on(state); }

private:
    /// It is the window's from now on: removed at its end, when all runs are in files or were given up.
    static void restore_first(ShellState& state) {
        std::shared_ptr<SessionFolder> folder = std::move(state.left.front());
        state.taken.push_back(folder);
        state.start_job("Restoring the last session",
                        [folder, &state](const std::atomic<bool>&) -> std::function<void()> {
                            return [loaded = load_session(*folder), &state] {
                                const auto runs = state.restored.size();
                                show_workspace(state, loaded);
                                state.say(Toasts::Level::info,
                                          fmt::format("Restored {}",
                                                      counted(state.restored.size() - runs, "run", "runs")));
                            };
                        });
        state.after_offer = {}; // the restored run is looked at
    }
    static void go_on(ShellState& state) {
        if (const auto begin = std::exchange(state.after_offer, {})) begin();
    }
    bool answered(ShellState& state, bool restored) {
        state.left.erase(state.left.begin());
        if (!state.left.empty()) {
            state.dialog = make_left_session_dialog(state); // nothing of *this may be touched after it
            return false;
        }
        if (!restored) go_on(state);
        return false;
    }

    std::string m_when;
    size_t m_kept = 0, m_traces = 0;
    int64_t m_bytes = 0;
};

} // namespace

void show_folder(ShellState& state, const fs::path& folder) {
    ImGui::SetClipboardText(folder.c_str());
    state.start_job("Showing the folder", [folder, &state](const std::atomic<bool>& cancelled) {
        const ChildResult done = run_child({"xdg-open", folder.string()}, {}, [&] { return !cancelled; });
        return std::function<void()>([&state, folder, shown = done.status == 0] {
            state.say(Toasts::Level::info, shown
                                               ? "Path copied: " + folder.string()
                                               : "No file manager answers; path copied: " + folder.string());
        });
    });
}

void save_workspace(ShellState& state) {
    if (state.workspace_file && unsaved_runs(state).empty()) {
        state.start_job("Saving " + state.workspace_file->filename().string(),
                        saving(state, *state.workspace_file, {}));
        return;
    }
    if (state.workspace_file) state.ctx.paths.typed["workspace"] = state.workspace_file->string();
    state.dialog = make_save_workspace_dialog(state);
}

std::unique_ptr<Dialog> make_save_workspace_dialog(ShellState& state) {
    return std::make_unique<SaveWorkspaceDialog>(state.ctx);
}
std::unique_ptr<Dialog> make_open_workspace_dialog(ShellState& state) {
    return std::make_unique<OpenWorkspaceDialog>(state.ctx);
}
std::unique_ptr<Dialog> make_left_session_dialog(ShellState& state) {
    return std::make_unique<LeftSessionDialog>(state);
}

} // namespace refreshlab::ui
