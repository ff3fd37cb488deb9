#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/record/export/export.h"
#include "engine/record/trace/trace_store.h"
#include "engine/text/utf8.h"
#include "ui/base/value_format.h"
#include "ui/dialogs/dialogs.h"
#include "ui/dialogs/link_offers.h"
#include "ui/dialogs/work_dialog.h"
#include "ui/dialogs/workspace_files.h"
#include "ui/draw/widgets.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/signal_choice.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/landscape/text_readings.h"
#include "ui/scene/runs/saved_runs.h"
#include "ui/state/dialog.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::ui {

namespace {

namespace fs = std::filesystem;

constexpr const char* trace_extension = ".rlt";

/// A fault in the words of its field: the path stands there already.
std::string brief(const std::exception& fault) {
    const auto* error = dynamic_cast<const Error*>(&fault);
    if (error == nullptr) return fault.what();
    return error->problem() + (error->hint().empty() ? "" : "; " + error->hint());
}

/// Shows the newest run of a file; the others are in the panel Runs.
Work opening(ShellState& state, const fs::path& path) {
    return [path, &state](const std::atomic<bool>&) -> std::function<void()> {
        LabelledRuns trace = load_labelled_trace(path);
        if (trace.runs.empty()) throw Error("opening a trace", path.string(), "it holds no run");
        ReadingsOfFile found = readings_of_file(path, *trace.runs.back());
        return [path, trace = std::move(trace), found = std::move(found), &state] {
            state.show_trace(trace, path.filename().string(), found, path);
            remember_file(state, path);
        };
    };
}

class PictureDialog final : public PathDialog {
public:
    explicit PictureDialog(ShellState& state)
        : PathDialog(state.ctx, PathPicker::Want::save_file, "picture", "refreshlab.png", ".png") {
        for (const auto& panel : state.panels)
            if (state.panel_open[std::string(panel->title())]) m_panels.emplace_back(panel->title());
    }
    const char* title() const override { return "Save picture"; }
    /// The picture shows what lies under the dialog.
    Stand stand() const override { return working() ? Stand::hidden : Stand::open; }
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
        return draw_path(state, em * 10, "Save");
    }

private:
    void work_on(ShellState& state, const fs::path& path) override {
        state.ctx.host.keep_awake(0.5);
        state.ctx.host.save_picture(
            {path, m_panel, m_scale, [outcome = begin(), path, &state](const std::exception* fault) {
                 outcome->done = true;
                 if (fault == nullptr) {
                     state.say(Toasts::Level::info, fmt::format("Saved {}", path.string()));
                     return;
                 }
                 outcome->fault = brief(*fault);
                 state.say(Toasts::Level::error, fault->what(), outcome->abandoned);
             }});
    }

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

class CsvDialog final : public PathDialog {
public:
    explicit CsvDialog(const UiContext& ctx)
        : PathDialog(ctx, PathPicker::Want::folder, "csv", "refreshlab-csv") {}
    const char* title() const override { return "Export CSV"; }
    bool draw(ShellState& state) override {
        muted_text(state.ctx,
                   "steps.csv, topk.csv, events.csv, drift.csv and meta.json go into this folder:");
        return draw_path(state, ImGui::GetFontSize() * 10, "Export",
                         state.ctx.recording ? "" : "There is no recording yet");
    }

private:
    void work_on(ShellState& state, const fs::path& folder) override {
        start(state, "Exporting CSV",
              [folder, recording = state.ctx.recording,
               &state](const std::atomic<bool>& cancelled) -> std::function<void()> {
                  export_through_temporary(*recording, folder, cancelled);
                  return [folder, &state] {
                      state.say(Toasts::Level::info, "CSV written to " + folder.string());
                  };
              });
    }
};

class PlottedDialog final : public PathDialog {
public:
    explicit PlottedDialog(const UiContext& ctx)
        : PathDialog(ctx, PathPicker::Want::save_file, "csv", "plotted.csv", ".csv") {}
    const char* title() const override { return "Export plotted values"; }
    bool draw(ShellState& state) override {
        // Of this moment: a plot that follows the run shows more when the button is pressed.
        m_steps = steps_in_sight(state.ctx.time, state.ctx.steps);
        m_plotted = state.ctx.recording ? plotted_columns(state.ctx.views.signals, *state.ctx.recording)
                                        : std::vector<PlottedSignal>();
        std::string names;
        for (const size_t id : plotted_signals(state.ctx.views.signals, state.ctx.signals()))
            names += fmt::format("{}{}", names.empty() ? "" : ", ", state.ctx.signals()[id].label);
        if (m_steps.count() > 0)
            muted_text(state.ctx, fmt::format("Steps {} to {} of {}", format_thousands(m_steps.first),
                                              format_thousands(m_steps.last), names));
        return draw_path(state, ImGui::GetFontSize() * 10, "Export",
                         !state.ctx.recording  ? "There is no recording yet"
                         : m_plotted.empty()   ? "No signal is chosen in Signals"
                         : m_steps.count() < 1 ? "Signals shows no step"
                                               : "");
    }

private:
    void work_on(ShellState& state, const fs::path& path) override {
        start(state, "Exporting " + path.filename().string(),
              [path, steps = m_steps, plotted = m_plotted, recording = state.ctx.recording,
               &state](const std::atomic<bool>& cancelled) -> std::function<void()> {
                  if (!export_plotted(*recording, path, steps.first, steps.last, plotted, &cancelled))
                      return {};
                  return [path, steps, &state] {
                      state.say(Toasts::Level::info,
                                fmt::format("{} written to {}", format_count(steps.count(), "step"),
                                            path.string()));
                  };
              });
    }

    StepRange m_steps;
    std::vector<PlottedSignal> m_plotted;
};

/// Where a trace of a server is kept here: $STATE/fetched/HOST/NAME, or in a folder for temporary files where nothing is kept.
fs::path place_of_fetched(const ShellState& state, const std::string& name) {
    fs::path folder = state.ctx.host.state_folder();
    if (folder.empty()) folder = fs::temp_directory_path() / "refreshlab";
    const fs::path host = fs::path(state.ctx.status->link->host).filename(); // what a server says is no path
    const bool named = !host.empty() && host != "." && host != "..";
    return folder / "fetched" / (named ? host : fs::path("server")) / fs::path(name).filename();
}

/// Fetches a trace of the server and opens it as one of this machine.
Work fetching(ShellState& state, const std::string& name, const std::shared_ptr<WorkOutcome>& outcome) {
    return [&state, name, to = place_of_fetched(state, name), outcome,
            &engine = state.ctx.engine](const std::atomic<bool>& cancelled) -> std::function<void()> {
        std::error_code error;
        fs::create_directories(to.parent_path(), error);
        engine.fetch_file(name, to, [&](double share) {
            outcome->fraction = share;
            return !cancelled;
        });
        if (cancelled) return {};
        auto open = opening(state, to)(cancelled);
        return [open = std::move(open), to, &state] {
            if (open) open();
            state.say(Toasts::Level::info, fmt::format("Fetched to {}", to.string()));
        };
    };
}

class OpenTraceDialog final : public PathDialog {
public:
    explicit OpenTraceDialog(ShellState& state)
        : PathDialog(state.ctx, PathPicker::Want::open_file, "trace", "", trace_extension)
        , m_offers(state)
        , m_there(state.ctx.status->link.has_value()) {}
    const char* title() const override { return "Open trace"; }
    bool draw(ShellState& state) override {
        const auto& link = state.ctx.status->link;
        if (!link) return draw_path(state, ImGui::GetFontSize() * 14, "Open");
        ImGui::BeginDisabled(m_fetch != nullptr || working());
        if (ImGui::RadioButton("On the server###there", m_there)) m_there = true;
        ImGui::SameLine();
        if (ImGui::RadioButton("On this machine###here", !m_there)) m_there = false;
        ImGui::EndDisabled();
        return m_there ? draw_offers(state) : draw_path(state, ImGui::GetFontSize() * 14, "Open");
    }
    void put_aside(ShellState& state) override {
        PathDialog::put_aside(state);
        if (m_fetch) m_fetch->abandoned = true;
    }

private:
    [[nodiscard]] bool draw_offers(ShellState& state) {
        const LinkOffers* offers = m_offers.look();
        const float em = ImGui::GetFontSize();
        bool chosen = false;
        ImGui::BeginDisabled(m_fetch != nullptr);
        if (ImGui::BeginChild("offered", ImVec2(0, em * 14), ImGuiChildFlags_Borders)) {
            if (offers == nullptr)
                muted_text(state.ctx, "The server is asked");
            else if (!offers->problem.empty())
                muted_text(state.ctx, offers->problem);
            else if (offers->files.empty())
                muted_text(state.ctx,
                           "The server offers no trace: it records where it is started with --record DIR");
            for (const auto& file : offers == nullptr ? std::vector<LinkOffers::File>{} : offers->files) {
                const std::string label =
                    fmt::format("{}   {:.1f} MB   {}###{}", visible_text(file.name, 80),
                                static_cast<double>(file.bytes) / 1e6, file.changed, file.name);
                if (ImGui::Selectable(label.c_str(), m_chosen == file.name,
                                      ImGuiSelectableFlags_AllowDoubleClick)) {
                    m_chosen = file.name;
                    chosen = ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left);
                }
            }
        }
        ImGui::EndChild();
        ImGui::EndDisabled();
        if (!m_problem.empty()) {
            ImGui::PushStyleColor(ImGuiCol_Text, state.ctx.theme.text_error);
            ImGui::TextWrapped("%s", m_problem.c_str());
            ImGui::PopStyleColor();
        }
        return m_fetch ? draw_fetching(state) : draw_fetch_buttons(state, chosen);
    }

    [[nodiscard]] bool draw_fetch_buttons(ShellState& state, bool chosen) {
        const float em = ImGui::GetFontSize(), fetch = em * 9, cancel = em * 5;
        ImGui::Dummy(ImVec2(0, em * 0.2F));
        ImGui::SetCursorPosX(content_right() - fetch - cancel - ImGui::GetStyle().ItemSpacing.x);
        if (ImGui::Button("Cancel", ImVec2(cancel, 0))) return false;
        ImGui::SameLine();
        ImGui::BeginDisabled(m_chosen.empty());
        chosen = accent_button(state.ctx, "Fetch and open", fetch) || chosen;
        ImGui::EndDisabled();
        if (!chosen || m_chosen.empty()) return true;
        m_problem.clear();
        m_fetch = std::make_shared<WorkOutcome>();
        state.start_job("Fetching " + visible_text(m_chosen, 80), fetching(state, m_chosen, m_fetch),
                        m_fetch);
        return true;
    }

    [[nodiscard]] bool draw_fetching(ShellState& state) {
        if (m_fetch->done) {
            m_problem = m_fetch->fault;
            const bool cancelled = m_fetch->cancelled && *m_fetch->cancelled;
            m_fetch.reset();
            return cancelled || !m_problem.empty();
        }
        state.ctx.host.keep_awake(0.3);
        const float em = ImGui::GetFontSize(), cancel = em * 5;
        const double share = std::max(0.0, m_fetch->fraction.load());
        ImGui::Dummy(ImVec2(0, em * 0.2F));
        ImGui::ProgressBar(
            static_cast<float>(share),
            ImVec2(content_right() - ImGui::GetCursorPosX() - cancel - em, ImGui::GetFrameHeight()),
            fmt::format("{:.0f} %", 100 * share).c_str());
        ImGui::SameLine();
        ImGui::SetCursorPosX(content_right() - cancel);
        if (ImGui::Button("Cancel", ImVec2(cancel, 0)) && m_fetch->cancelled) *m_fetch->cancelled = true;
        return true;
    }

    OffersOfServer m_offers;
    bool m_there; ///< the server's traces are listed
    std::string m_chosen, m_problem;
    std::shared_ptr<WorkOutcome> m_fetch; ///< under way; null: none

    void work_on(ShellState& state, const fs::path& path) override {
        start(state, "Opening " + path.filename().string(), opening(state, path));
    }
};

class OpenTableDialog final : public PathDialog {
public:
    explicit OpenTableDialog(const UiContext& ctx)
        : PathDialog(ctx, PathPicker::Want::open_file, "table", "", table_extension) {}
    const char* title() const override { return "Open table"; }
    bool draw(ShellState& state) override {
        muted_text(state.ctx, "A CSV file: a table of a study or a sweep, or the losses of a training");
        return draw_path(state, ImGui::GetFontSize() * 14, "Open");
    }

private:
    void work_on(ShellState& state, const fs::path& path) override {
        start(state, "Opening " + path.filename().string(),
              [path, &state](const std::atomic<bool>&) { return tables_to_show(state, path); });
    }
};

class SaveTraceDialog final : public PathDialog {
public:
    SaveTraceDialog(const UiContext& ctx, bool then_quit, bool all)
        : PathDialog(ctx, PathPicker::Want::save_file, "trace",
                     std::string(all ? "runs" : "run") + trace_extension, trace_extension)
        , m_then_quit(then_quit)
        , m_all(all) {}
    const char* title() const override { return "Save trace"; }
    bool draw(ShellState& state) override {
        if (const auto runs = static_cast<int64_t>(state.runs.tree().runs().size()); runs > 1) {
            ImGui::Checkbox(
                fmt::format("all {} runs of the list, as a tree###all", format_thousands(runs)).c_str(),
                &m_all);
            ImGui::SetItemTooltip("In one file; a branch takes only the room of its own steps");
        }
        // A recording that still grows has its own file (--record); a copy needs a fixed end.
        return draw_path(state, ImGui::GetFontSize() * 12, "Save",
                         (m_all || of_engine(state)) && state.running() ? "Pause the run first" : "");
    }

private:
    [[nodiscard]] bool of_engine(const ShellState& state) const {
        return m_then_quit || state.ctx.of_engine();
    }
    void work_on(ShellState& state, const fs::path& path) override {
        const auto recording = of_engine(state) ? state.ctx.engine.recording() : state.runs.away();
        std::vector<Saved> runs;
        if (m_all)
            for (SavedRun& run : saved_runs(state.runs))
                runs.push_back({std::move(run), 0, {}});
        else if (recording)
            runs.push_back({saved_run(state.runs, recording), 0, {}});
        if (runs.empty()) return;
        for (Saved& saved : runs) {
            saved.steps = saved.run.recording->steps();
            saved.readings = state.readings_of(*saved.run.recording);
        }
        start(state, "Saving " + path.filename().string(),
              [path, runs, quit = m_then_quit,
               &state](const std::atomic<bool>& cancelled) -> std::function<void()> {
                  std::vector<SavedRun> recordings;
                  for (const Saved& saved : runs)
                      recordings.push_back(saved.run);
                  if (!save_traces(path, recordings, &cancelled)) return {};
                  for (const Saved& saved : runs)
                      store_readings(path, saved.run.recording->info().id, saved.readings);
                  return [path, runs, quit, &state] {
                      for (const Saved& saved : runs)
                          state.note_saved(*saved.run.recording, saved.steps, path);
                      state.say(Toasts::Level::info, "Trace saved as " + path.string());
                      remember_file(state, path);
                      if (quit) ui::quit(state); // asks again if the run has grown since
                  };
              });
    }

    /// A run as it was when the button was pressed.
    struct Saved {
        SavedRun run;
        int64_t steps = 0;
        TextReadings readings;
    };

    bool m_then_quit, m_all;
};

class UnsavedDialog final : public Dialog {
public:
    const char* title() const override { return "Unsaved run"; }
    float width() const override { return 430; }
    bool draw(ShellState& state) override {
        ImGui::PushTextWrapPos(0);
        if (const auto made = state.unsaved_made(); made.size() == 1)
            ImGui::TextUnformatted(fmt::format("The run of {} is in no file and ends with the window.",
                                               format_count(made[0]->steps(), "step"))
                                       .c_str());
        else if (made.size() > 1)
            ImGui::TextUnformatted(fmt::format("{} runs are in no file and end with the window.",
                                               format_thousands(static_cast<int64_t>(made.size())))
                                       .c_str());
        if (const auto restored = static_cast<int64_t>(state.unsaved_restored()); restored > 0)
            ImGui::TextUnformatted(
                fmt::format("{} restored {} in no file of yours and end{} with the window.",
                            format_thousands(restored), restored == 1 ? "run is" : "runs are",
                            restored == 1 ? "s" : "")
                    .c_str());
        if (const auto added = static_cast<int64_t>(state.unsaved_signals()); added > 0)
            ImGui::TextUnformatted(
                fmt::format("{} that you added to recorded runs {} in no file and end{} with the window.",
                            added == 1 ? "A signal" : format_thousands(added) + " signals",
                            added == 1 ? "is" : "are", added == 1 ? "s" : "")
                    .c_str());
        ImGui::PopTextWrapPos();
        muted_text(state.ctx, "With --record FILE every run is kept from its first step");
        const float em = ImGui::GetFontSize(), spacing = ImGui::GetStyle().ItemSpacing.x;
        const float save = em * 7, other = em * 5;
        ImGui::Dummy(ImVec2(0, em * 0.2F));
        ImGui::SetCursorPosX(content_right() - save - 2 * other - 2 * spacing);
        const bool keys = ImGui::IsWindowFocused();
        if (ImGui::Button("Cancel", ImVec2(other, 0))) return false;
        ImGui::SetItemTooltip("Continues the run (Esc)");
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
            make_save_and_quit_dialog(state); // in this one's place: nothing of *this may be touched now
        return false;
    }
};

} // namespace

void open_trace(ShellState& state, const fs::path& path) {
    state.start_job("Opening " + path.filename().string(), opening(state, path));
}

std::unique_ptr<Dialog> make_picture_dialog(ShellState& state) {
    return std::make_unique<PictureDialog>(state);
}
std::unique_ptr<Dialog> make_csv_dialog(ShellState& state) {
    return std::make_unique<CsvDialog>(state.ctx);
}
std::unique_ptr<Dialog> make_plotted_dialog(ShellState& state) {
    return std::make_unique<PlottedDialog>(state.ctx);
}
std::unique_ptr<Dialog> make_open_table_dialog(ShellState& state) {
    return std::make_unique<OpenTableDialog>(state.ctx);
}
std::unique_ptr<Dialog> make_open_trace_dialog(ShellState& state) {
    return std::make_unique<OpenTraceDialog>(state);
}
std::unique_ptr<Dialog> make_save_trace_dialog(ShellState& state) {
    return std::make_unique<SaveTraceDialog>(state.ctx, false, false);
}
std::unique_ptr<Dialog> make_save_runs_dialog(ShellState& state) {
    return std::make_unique<SaveTraceDialog>(state.ctx, false, true);
}
std::unique_ptr<Dialog> make_save_and_quit_dialog(ShellState& state) {
    const auto made = state.unsaved_made();
    const bool live_alone = made.empty() || (made.size() == 1 && made[0] == state.ctx.engine.recording());
    return std::make_unique<SaveTraceDialog>(
        state.ctx, true, !live_alone || state.unsaved_restored() > 0 || state.unsaved_signals() > 0);
}
std::unique_ptr<Dialog> make_unsaved_dialog() {
    return std::make_unique<UnsavedDialog>();
}

} // namespace refreshlab::ui
