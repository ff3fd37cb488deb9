#pragma once

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

} // namespace refreshlab::ui
