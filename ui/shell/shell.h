#pragma once

#include "engine/record/trace/trace_store.h"
#include "ui/context/context.h"
#include "ui/scene/landscape/text_readings.h"
#include "ui/state/shell_options.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab::ui {

class Panel;
class Tour;
struct Action;
struct LoadedWorkspace;

/// The whole window's contents: menu bar, run bar, dock space with the panels, toasts, dialogs, palette, help. Draws with
/// ImGui and ImPlot into the current context; knows no GL, no GLFW, no torch. UI thread only.
class Shell {
public:
    using Options = ShellOptions;
    Shell(EngineLink& engine, Host& host, Options options);
    ~Shell();

    /// One frame, between ImGui::NewFrame() and ImGui::Render().
    void draw();

    [[nodiscard]] UiContext& context();
    [[nodiscard]] const std::vector<Action>&
    actions() const;                      ///< the one table behind menus, buttons, keys, palette, tests
    void run_action(std::string_view id); ///< as if its key had been pressed; for tests and scripts
    /// Fonts and style for this display density (1.0 = 96 dpi); called once at start and when it changes.
    void set_display_scale(float scale);
    /// Shows a trace that was loaded from a file instead of the engine's recording (nothing = the engine's again).
    void show_recording(std::shared_ptr<const Recording> recording, const std::string& name = "trace",
                        const ReadingsOfFile& readings = {});
    /// All runs of a trace, under their names; the newest is shown. Nothing where there is none.
    /// \param file  that holds them: notes are written into it
    void show_trace(const LabelledRuns& trace, const std::string& name, const ReadingsOfFile& readings,
                    const std::filesystem::path& file = {});
    /// Somebody wants to close the window. True when nothing would be lost; else the question is up, and its answer ends
    /// in Host::quit() or in nothing.
    [[nodiscard]] bool may_close();
    /// Opens a panel by its title and brings it before the tabs that it shares a place with; some frames later.
    void show_panel(const std::string& title);
    /// One more panel, after those of ui/panels and as they are: its title is in the menu of panels. Opens it.
    void add_panel(std::unique_ptr<Panel> panel);
    /// Tables of a file or a folder that were read already.
    void show_tables(const std::vector<std::shared_ptr<const TableFile>>& tables,
                     const std::filesystem::path& path);
    /// Opens a trace file as the dialog does: beside the frames, an error becomes a toast. For files dropped on the window.
    void open_trace(const std::filesystem::path& path);
    /// A file or folder that was dropped on the window: a model begins a new run's dialog, a workspace is opened, and so is anything else
    /// as a trace.
    void open_dropped(const std::filesystem::path& path);
    /// A workspace that was loaded, in place of what was asked for by name.
    void show_workspace(LoadedWorkspace loaded);
    /// Offers the sessions that programs left which did not come to their end, if there are any. They are locked from now on.
    /// \param otherwise  begins once no session is restored; may be empty
    /// \return whether there are some
    bool offer_left_sessions(std::function<void()> otherwise);
    /// Between frames, as often as the loop comes round: keeps the session for a next start, in case the program does not come to its end.
    void keep_session();
    /// The program comes to its end: nothing is left to be offered.
    void end_session();
    [[nodiscard]] Tour& tour(); ///< for suites and pictures
    void save_settings();       ///< layout and settings into Host::user_folder()

private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

} // namespace refreshlab::ui
