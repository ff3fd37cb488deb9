#pragma once

#include <cstdint>

namespace refreshlab::ui {

struct ShellState;

inline constexpr float most_dialog_height = 0.82F; ///< of the window; beyond it a dialog scrolls

/// One in-app dialog. It floats above the panels and blocks nothing: decoding, plots and keys go on. Esc, or another
/// dialog, closes it; Esc closes what lies over it first, and loses nothing that was typed.
class Dialog {
public:
    virtual ~Dialog() = default;
    [[nodiscard]] virtual const char* title() const = 0;
    [[nodiscard]] virtual float width() const { return 480; } ///< at scale 1
    enum class Stand : uint8_t { open, hidden, over };
    /// hidden: it is not drawn in this frame (a picture is taken); over: it is done and goes.
    [[nodiscard]] virtual Stand stand() const { return Stand::open; }
    /// Inside the dialog's window. \return false to close it
    virtual bool draw(ShellState& state) = 0;
    /// Esc was pressed. \return true where it has closed something of the dialog's own, a question for instance
    virtual bool take_escape() { return false; }
    /// Esc, the cross in the corner or another dialog ends it: what was typed is put where the next one finds it.
    virtual void put_aside(ShellState&) {}
};

} // namespace refreshlab::ui
