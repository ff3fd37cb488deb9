#pragma once

#include "engine/record/trace/trace_store.h"
#include "ui/scene/landscape/text_readings.h"
#include "ui/scene/tables/table_file.h"
#include "ui/state/workspace.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab {
class SessionFolder;
}

namespace refreshlab::ui {

struct ShellState;

/// By run id: a trace that holds a run of the window.
using RunFiles = std::map<std::string, std::filesystem::path, std::less<>>;

/// The window as it is. Runs that are in no trace are left out, their notes are kept.
/// \param besides  traces of runs that are in no file of the person's
[[nodiscard]] Workspace present_workspace(ShellState& state, const RunFiles& besides = {});

/// Every run of the window that is in no file of the person's, or has grown since; runs without steps do not count.
[[nodiscard]] std::vector<SavedRun> unsaved_runs(const ShellState& state);
/// About what they take as a trace.
[[nodiscard]] int64_t trace_bytes(const std::vector<SavedRun>& runs);

/// A workspace with the traces that it names, read into memory.
struct LoadedWorkspace {
    struct Trace {
        std::filesystem::path path;
        LabelledRuns runs;
        ReadingsOfFile readings;
        bool kept = false; ///< lies in the folder of a session and is no file of the person's
    };
    std::filesystem::path file;
    Workspace workspace;
    std::vector<Trace> traces;
    std::vector<std::shared_ptr<const TableFile>> tables = {};
    /// By id: runs of the traces with the signals that were added to them.
    std::map<std::string, std::shared_ptr<const Recording>, std::less<>> with_signals = {};
    std::vector<std::string> faults; ///< a line for each trace or table that is missing, damaged or changed
};
/// Throws Error where the file itself cannot be read; then nothing has changed. Any thread.
[[nodiscard]] LoadedWorkspace load_workspace(const std::filesystem::path& file);
/// The session that a program left: its workspace, as far as there is one, and all traces of its folder. Of a run that is in two files the
/// longer recording counts. Any thread.
[[nodiscard]] LoadedWorkspace load_session(const SessionFolder& folder);

/// Brings it into the window, beside what is open. A run that is under way keeps its policy.
void show_workspace(ShellState& state, LoadedWorkspace loaded);
/// load_workspace() on any thread. \return what shows it, for the UI thread: the work of a job
[[nodiscard]] std::function<void()> load_to_show(ShellState& state, const std::filesystem::path& file);
/// That as a job; what is wrong is a toast.
void open_workspace(ShellState& state, const std::filesystem::path& path);
/// Shows a table of a CSV file, or those of a folder; a job. What is wrong is a toast.
void open_table(ShellState& state, const std::filesystem::path& path);
/// read_tables() on any thread. \return what shows them, for the UI thread: the work of a job
[[nodiscard]] std::function<void()> tables_to_show(ShellState& state, const std::filesystem::path& path);
/// Opens them beside those that are open; the first is shown. \param path  of the file or folder
void show_tables(ShellState& state, const std::vector<std::shared_ptr<const TableFile>>& tables,
                 const std::filesystem::path& path);
/// By its name a workspace, a table or a trace; a job.
void open_file(ShellState& state, const std::filesystem::path& path);
/// In the file manager of the desktop; its path is copied.
void show_folder(ShellState& state, const std::filesystem::path& folder);
/// Into the list of recent files; what is wrong with the list is a line of the log.
void remember_file(ShellState& state, const std::filesystem::path& path);

} // namespace refreshlab::ui
