#pragma once

#include "ui/state/dialog.h"

#include <filesystem>
#include <memory>
#include <string_view>

namespace refreshlab::ui {

/// \param model  begins as teacher and student; empty: the present pair
[[nodiscard]] std::unique_ptr<Dialog> make_new_run_dialog(ShellState& state,
                                                          const std::filesystem::path& model = {});
/// Cache policies to compare the shown run with.
[[nodiscard]] std::unique_ptr<Dialog> make_compare_cache_dialog();
[[nodiscard]] std::unique_ptr<Dialog> make_picture_dialog(ShellState& state);
/// Of the panel that was clicked last, where it has a figure.
[[nodiscard]] std::unique_ptr<Dialog> make_figure_dialog(ShellState& state);
[[nodiscard]] std::unique_ptr<Dialog> make_csv_dialog(ShellState& state);
[[nodiscard]] std::unique_ptr<Dialog> make_plotted_dialog(ShellState& state);
[[nodiscard]] std::unique_ptr<Dialog> make_open_trace_dialog(ShellState& state);
[[nodiscard]] std::unique_ptr<Dialog> make_open_table_dialog(ShellState& state);
[[nodiscard]] std::unique_ptr<Dialog> make_save_trace_dialog(ShellState& state);
[[nodiscard]] std::unique_ptr<Dialog>
make_save_runs_dialog(ShellState& state); ///< every run of the window, in one file
/// Saves the engine's run, or all where others would be lost too; then ends the program.
[[nodiscard]] std::unique_ptr<Dialog> make_save_and_quit_dialog(ShellState& state);
[[nodiscard]] std::unique_ptr<Dialog> make_save_workspace_dialog(ShellState& state);
[[nodiscard]] std::unique_ptr<Dialog> make_open_workspace_dialog(ShellState& state);
/// Offers the first of state.left, which has one.
[[nodiscard]] std::unique_ptr<Dialog> make_left_session_dialog(ShellState& state);
/// The cache of the engine's prompt as a file; and a run that goes on from such a file.
[[nodiscard]] std::unique_ptr<Dialog> make_save_prompt_cache_dialog(ShellState& state);
[[nodiscard]] std::unique_ptr<Dialog> make_from_prompt_cache_dialog(ShellState& state);
/// The question before a run is lost with the window.
[[nodiscard]] std::unique_ptr<Dialog> make_unsaved_dialog();
[[nodiscard]] std::unique_ptr<Dialog> make_settings_dialog(ShellState& state);
[[nodiscard]] std::unique_ptr<Dialog> make_shortcuts_dialog();
[[nodiscard]] std::unique_ptr<Dialog> make_palette_dialog();
[[nodiscard]] std::unique_ptr<Dialog> make_tour_dialog(); ///< the chapters of the tour
[[nodiscard]] std::unique_ptr<Dialog> make_legend_dialog();
[[nodiscard]] std::unique_ptr<Dialog>
make_note_dialog(ShellState& state); ///< beside the shown step; a recording is shown
[[nodiscard]] std::unique_ptr<Dialog>
make_own_signal_dialog(ShellState& state); ///< a run in mode overfill is there, or a recorded one is shown
[[nodiscard]] std::unique_ptr<Dialog> make_about_dialog();

/// Compares the shown run with a cache policy of this method (ShellState::compare_cache). Throws Error{bad_input}.
void compare_with_method(ShellState& state, std::string_view method);

/// Draws state.dialog, if any.
void draw_dialog(ShellState& state);

/// Shows the newest run of a trace file, as a job; what is wrong with it becomes a toast.
void open_trace(ShellState& state, const std::filesystem::path& path);
/// Under its name where it has one and every run is in a file; else the dialog asks.
void save_workspace(ShellState& state);
/// Ends the program, or asks first about a run that would be lost with the window.
void quit(ShellState& state);

} // namespace refreshlab::ui
