#pragma once

#include <memory>

namespace refreshlab::ui {

struct ShellState;

/// One in-app dialog. It floats above the panels and blocks nothing: decoding, plots and keys go on. Esc, or another
/// dialog, closes it.
class Dialog {
public:
    virtual ~Dialog() = default;
    [[nodiscard]] virtual const char* title() const = 0;
    [[nodiscard]] virtual float width() const { return 480; } ///< at scale 1
    /// Inside the dialog's window. \return false to close it
    virtual bool draw(ShellState& state) = 0;
};

[[nodiscard]] std::unique_ptr<Dialog> make_new_run_dialog(ShellState& state);
[[nodiscard]] std::unique_ptr<Dialog> make_picture_dialog(ShellState& state);
[[nodiscard]] std::unique_ptr<Dialog> make_csv_dialog(ShellState& state);
[[nodiscard]] std::unique_ptr<Dialog> make_plotted_dialog(ShellState& state);
[[nodiscard]] std::unique_ptr<Dialog> make_open_trace_dialog(ShellState& state);
[[nodiscard]] std::unique_ptr<Dialog> make_save_trace_dialog(ShellState& state);
/// Saves the engine's run, then ends the program.
[[nodiscard]] std::unique_ptr<Dialog> make_save_and_quit_dialog();
/// The question before a run is lost with the window.
[[nodiscard]] std::unique_ptr<Dialog> make_unsaved_dialog();
[[nodiscard]] std::unique_ptr<Dialog> make_shortcuts_dialog();
[[nodiscard]] std::unique_ptr<Dialog> make_palette_dialog();
[[nodiscard]] std::unique_ptr<Dialog> make_about_dialog();

/// Draws state.dialog, if any.
void draw_dialog(ShellState& state);

} // namespace refreshlab::ui
