#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/record/export/export.h"
#include "engine/record/trace/trace_store.h"
#include "ui/base/value_format.h"
#include "ui/dialogs/dialogs.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/signal_choice.h"
#include "ui/scene/axes/time_view.h"
#include "ui/state/dialog.h"
#include "ui/state/shell_state.h"
#include "ui/widgets/path_picker.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::ui {

namespace {

namespace fs = std::filesystem;

/// Reason and the two buttons at the foot of a dialog. \return 1 to go on, -1 to close, 0 for neither
int dialog_buttons(const UiContext& ctx, const char* go, const std::string& problem, bool enter) {
    const ImGuiStyle& style = ImGui::GetStyle();
    const float em = ImGui::GetFontSize(), width = std::max(em * 5, ImGui::CalcTextSize(go).x + em * 1.6F);
    const float cancel = em * 5, end = content_right();
    ImGui::Dummy(ImVec2(0, em * 0.2F));
    if (!problem.empty()) {
        ImGui::AlignTextToFramePadding();
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
        ImGui::TextUnformatted(problem.c_str());
        ImGui::PopStyleColor();
        ImGui::SameLine();
    }
    ImGui::SetCursorPosX(end - width - cancel - style.ItemSpacing.x);
    if (ImGui::Button("Cancel", ImVec2(cancel, 0))) return -1;
    ImGui::SameLine();
    ImGui::BeginDisabled(!problem.empty());
    const bool pressed = accent_button(ctx, go, width);
    ImGui::EndDisabled();
    return (pressed || enter) && problem.empty() ? 1 : 0;
}

class PictureDialog final : public Dialog {
public:
    explicit PictureDialog(ShellState& state)
        : m_picker(PathPicker::Want::save_file, start_folder() / "refreshlab.png", ".png") {
        for (const auto& panel : state.panels)
            if (state.panel_open[std::string(panel->title())]) m_panels.emplace_back(panel->title());
    }
    const char* title() const override { return "Save picture"; }
    bool draw(ShellState& state) override {
        const float em = ImGui::GetFontSize(), label = em * 6;
        ImGui::AlignTextToFramePadding();
        ImGui::TextUnformatted("Of");
        ImGui::SameLine(label);
        ImGui::SetNextItemWidth(em * 12);
        if (ImGui::BeginCombo("##of", m_panel.empty() ? "the whole window" : m_panel.c_str())) {
            if (ImGui::Selectable("the whole window", m_panel.empty())) m_panel.clear();
            for (const std::string& panel : m_panels)
                if (ImGui::Selectable(panel.c_str(), m_panel == panel)) m_panel = panel;
            ImGui::EndCombo();
        }
        ImGui::AlignTextToFramePadding();
        ImGui::TextUnformatted("Size");
        ImGui::SameLine(label);
        for (int scale = 1; scale <= 4; ++scale) {
            if (scale > 1) ImGui::SameLine();
            ImGui::RadioButton(fmt::format("{}x", scale).c_str(), &m_scale, scale);
        }
        const bool enter = m_picker.draw(state.ctx, em * 10);
        std::string problem = m_picker.problem();
        if (problem.empty() && m_picker.path().extension() != ".png") problem = "The name must end in .png";
        const int answer =
            dialog_buttons(state.ctx, m_picker.would_overwrite() ? "Replace" : "Save", problem, enter);
        if (answer == 1) state.ctx.host.save_picture({m_picker.path(), m_panel, m_scale});
        return answer == 0;
    }

private:
    PathPicker m_picker;
    std::vector<std::string> m_panels;
    std::string m_panel;
    int m_scale = 2;
};

/// Writes into a folder beside the target first, so that cancelling or a full disk leaves what was there.
void export_through_temporary(const Recording& recording, const fs::path& folder,
                              const std::atomic<bool>& cancelled) {
    fs::path plain = folder;
    if (!plain.has_filename()) plain = plain.parent_path();
    const fs::path temporary = temporary_beside(plain);
    std::error_code error;
    try {
        if (export_csv(recording, temporary, &cancelled)) {
            fs::create_directories(plain);
            for (const auto& entry : fs::directory_iterator(temporary))
                fs::rename(entry.path(), plain / entry.path().filename());
        }
        fs::remove_all(temporary, error);
    } catch (const fs::filesystem_error& e) {
        fs::remove_all(temporary, error);
        throw Error("exporting CSV", plain.string(), e.code().message(), "", ErrorKind::failure);
    } catch (...) {
        fs::remove_all(temporary, error);
        throw;
    }
}

class CsvDialog final : public Dialog {
public:
    CsvDialog()
        : m_picker(PathPicker::Want::folder, start_folder() / "refreshlab-csv") {}
    const char* title() const override { return "Export CSV"; }
    bool draw(ShellState& state) override {
        muted_text(state.ctx,
                   "steps.csv, topk.csv, events.csv, drift.csv and meta.json go into this folder:");
        const bool enter = m_picker.draw(state.ctx, ImGui::GetFontSize() * 10);
        std::string problem = m_picker.problem();
        if (problem.empty() && !state.ctx.recording) problem = "There is no recording yet";
        const int answer = dialog_buttons(state.ctx, "Export", problem, enter);
        if (answer == 1) {
            const fs::path folder = m_picker.path();
            state.start_job("Exporting CSV",
                            [folder, recording = state.ctx.recording,
                             &state](const std::atomic<bool>& cancelled) -> std::function<void()> {
                                export_through_temporary(*recording, folder, cancelled);
                                return [folder, &state] {
                                    state.say(Toasts::Level::info, "CSV written to " + folder.string());
                                };
                            });
        }
        return answer == 0;
    }

private:
    PathPicker m_picker;
};

class PlottedDialog final : public Dialog {
public:
    PlottedDialog()
        : m_picker(PathPicker::Want::save_file, start_folder() / "plotted.csv", ".csv") {}
    const char* title() const override { return "Export plotted values"; }
    bool draw(ShellState& state) override {
        // Of this moment: a plot that follows the run shows more when the button is pressed.
        const StepRange steps = steps_in_sight(state.ctx.time, state.ctx.steps);
        const std::vector<PlottedSignal> plotted =
            state.ctx.recording ? plotted_columns(state.ctx.plots, *state.ctx.recording)
                                : std::vector<PlottedSignal>();
        std::string names;
        for (const size_t id : plotted_signals(state.ctx.plots, state.ctx.signals()))
            names += fmt::format("{}{}", names.empty() ? "" : ", ", state.ctx.signals()[id].name);
        if (steps.count() > 0)
            muted_text(state.ctx, fmt::format("Steps {} to {} of {}", format_thousands(steps.first),
                                              format_thousands(steps.last), names));
        const bool enter = m_picker.draw(state.ctx, ImGui::GetFontSize() * 10);
        std::string problem = m_picker.problem();
        if (problem.empty() && m_picker.path().extension() != ".csv") problem = "The name must end in .csv";
        if (problem.empty() && !state.ctx.recording) problem = "There is no recording yet";
        if (problem.empty() && plotted.empty()) problem = "No signal is chosen in Signals";
        if (problem.empty() && steps.count() < 1) problem = "Signals shows no step";
        const int answer =
            dialog_buttons(state.ctx, m_picker.would_overwrite() ? "Replace" : "Export", problem, enter);
        if (answer == 1) write(state, steps, plotted);
        return answer == 0;
    }

private:
    void write(ShellState& state, StepRange steps, const std::vector<PlottedSignal>& plotted) const {
        const fs::path path = m_picker.path();
        state.start_job(
            "Exporting " + path.filename().string(),
            [path, steps, plotted, recording = state.ctx.recording,
             &state](const std::atomic<bool>& cancelled) -> std::function<void()> {
                if (!export_plotted(*recording, path, steps.first, steps.last, plotted, &cancelled))
                    return {};
                return [path, steps, &state] {
                    state.say(Toasts::Level::info,
                              fmt::format("{} {} written to {}", format_thousands(steps.count()),
                                          steps.count() == 1 ? "step" : "steps", path.string()));
                };
            });
    }

    PathPicker m_picker;
};

class OpenTraceDialog final : public Dialog {
public:
    OpenTraceDialog()
        : m_picker(PathPicker::Want::open_file, start_folder() / "") {}
    const char* title() const override { return "Open trace"; }
    bool draw(ShellState& state) override {
        const bool enter = m_picker.draw(state.ctx, ImGui::GetFontSize() * 14);
        const int answer = dialog_buttons(state.ctx, "Open", m_picker.problem(), enter);
        if (answer == 1) open_trace(state, m_picker.path());
        return answer == 0;
    }

private:
    PathPicker m_picker;
};

class SaveTraceDialog final : public Dialog {
public:
    explicit SaveTraceDialog(bool then_quit)
        : m_picker(PathPicker::Want::save_file, start_folder() / "run.rltrace")
        , m_then_quit(then_quit) {}
    const char* title() const override { return "Save trace"; }
    bool draw(ShellState& state) override {
        const bool enter = m_picker.draw(state.ctx, ImGui::GetFontSize() * 12);
        std::string problem = m_picker.problem();
        // A recording that still grows has its own file (--record); a copy needs a fixed end.
        const bool engines = m_then_quit || !state.trace;
        if (problem.empty() && engines && state.running()) problem = "Pause the run first";
        const int answer =
            dialog_buttons(state.ctx, m_picker.would_overwrite() ? "Replace" : "Save", problem, enter);
        if (answer == 1) save(state, engines ? state.ctx.engine.recording() : state.trace);
        return answer == 0;
    }

private:
    void save(ShellState& state, const std::shared_ptr<const Recording>& recording) const {
        if (!recording) return;
        const fs::path path = m_picker.path();
        state.start_job("Saving " + path.filename().string(),
                        [path, recording, steps = recording->steps(), quit = m_then_quit,
                         &state](const std::atomic<bool>& cancelled) -> std::function<void()> {
                            if (!save_trace(path, recording, &cancelled)) return {};
                            return [path, id = recording->info().id, steps, quit, &state] {
                                state.saved_steps[id] = steps;
                                state.say(Toasts::Level::info, "Trace saved as " + path.string());
                                if (quit) ui::quit(state); // asks again if the run has grown since
                            };
                        });
    }

    PathPicker m_picker;
    bool m_then_quit;
};

class UnsavedDialog final : public Dialog {
public:
    const char* title() const override { return "Unsaved run"; }
    float width() const override { return 430; }
    bool draw(ShellState& state) override {
        const auto run = state.ctx.engine.recording();
        ImGui::PushTextWrapPos(0);
        ImGui::TextUnformatted(fmt::format("The run of {} {} is in no file and ends with the window.",
                                           format_thousands(run ? run->steps() : 0),
                                           run && run->steps() == 1 ? "step" : "steps")
                                   .c_str());
        ImGui::PopTextWrapPos();
        muted_text(state.ctx, "With --record FILE every run is kept from its first step");
        const float em = ImGui::GetFontSize(), spacing = ImGui::GetStyle().ItemSpacing.x;
        const float save = em * 7, other = em * 5;
        ImGui::Dummy(ImVec2(0, em * 0.2F));
        ImGui::SetCursorPosX(content_right() - save - 2 * other - 2 * spacing);
        const bool keys = ImGui::IsWindowFocused();
        if (ImGui::Button("Cancel", ImVec2(other, 0))) return false;
        ImGui::SetItemTooltip("Goes on with the run (Esc)");
        ImGui::SameLine();
        const bool discard = ImGui::Button("Discard", ImVec2(other, 0));
        ImGui::SetItemTooltip("Closes the window without the run (D)");
        if (discard || (keys && ImGui::IsKeyPressed(ImGuiKey_D, false))) {
            state.save_all();
            state.ctx.host.quit();
            return false;
        }
        ImGui::SameLine();
        const bool press = accent_button(state.ctx, "Save trace...", save);
        ImGui::SetItemDefaultFocus(); // of the keyboard's walk: the answer that loses nothing
        ImGui::SetItemTooltip("Saves the run, then closes the window (Enter)");
        // Whoever walks by Tab means the button that has the focus.
        const bool enter = keys && !ImGui::GetIO().NavVisible && ImGui::IsKeyPressed(ImGuiKey_Enter, false);
        if (!press && !enter) return true;
        if (state.running()) state.run("run.play_pause"); // what is saved must stand still
        state.dialog =
            make_save_and_quit_dialog(); // in this one's place: nothing of *this may be touched now
        return false;
    }
};

} // namespace

void open_trace(ShellState& state, const fs::path& path) {
    state.start_job("Opening " + path.filename().string(),
                    [path, &state](const std::atomic<bool>&) -> std::function<void()> {
                        const auto runs = load_trace(path);
                        if (runs.empty()) throw Error("opening a trace", path.string(), "it holds no run");
                        return [path, run = runs.back(), &state] {
                            state.trace = run;
                            state.trace_name = path.filename().string();
                            state.ctx.select_step(std::nullopt);
                        };
                    });
}

std::unique_ptr<Dialog> make_picture_dialog(ShellState& state) {
    return std::make_unique<PictureDialog>(state);
}
std::unique_ptr<Dialog> make_csv_dialog(ShellState&) {
    return std::make_unique<CsvDialog>();
}
std::unique_ptr<Dialog> make_plotted_dialog(ShellState&) {
    return std::make_unique<PlottedDialog>();
}
std::unique_ptr<Dialog> make_open_trace_dialog(ShellState&) {
    return std::make_unique<OpenTraceDialog>();
}
std::unique_ptr<Dialog> make_save_trace_dialog(ShellState&) {
    return std::make_unique<SaveTraceDialog>(false);
}
std::unique_ptr<Dialog> make_save_and_quit_dialog() {
    return std::make_unique<SaveTraceDialog>(true);
}
std::unique_ptr<Dialog> make_unsaved_dialog() {
    return std::make_unique<UnsavedDialog>();
}

} // namespace refreshlab::ui
