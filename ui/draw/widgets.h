#pragma once

#include "ui/context/context.h"

#include <string>
#include <string_view>

namespace refreshlab::ui {

/// Controls bound to one key of Drafts. They draw the draft, send it while it is dragged, commit it on release, and
/// restore the old value on Esc. While the engine has not applied the value yet, the frame has a hollow outline in the
/// accent colour. Right click offers the default and copying. An impossible value is refused by a toast; nothing is
/// sent. A key that the running configuration does not have draws nothing and returns false.

struct NumberStyle {
    double slider_min = 0, slider_max = 1;
    double min = 0, max = 0; ///< accepted range; max <= min = unbounded
    bool integer = false;
    ImU32 colour = 0;          ///< of the grab; 0 = the style's
    std::string default_value; ///< offered on right click; "" = none
};

/// A slider without text, `width` pixels wide. Linear.
bool number_slider(UiContext& ctx, const char* id, const std::string& key, float width,
                   const NumberStyle& style);
/// A typed entry, `width` pixels wide; dragging it sideways changes it too.
bool number_entry(UiContext& ctx, const char* id, const std::string& key, float width,
                  const NumberStyle& style);
/// Check box and combo box for switches and choices.
bool switch_box(UiContext& ctx, const char* label, const std::string& key);
bool choice_box(UiContext& ctx, const char* id, const std::string& key, float width);

/// One line "label  control  unit" for a parameter of the engine's list, label at the left, the control at label_width.
/// An optional parameter ("none") gets a check box in front. `hint` follows in muted type; it wraps below if there is
/// little room.
bool parameter_row(UiContext& ctx, const std::string& key, float label_width, std::string_view hint = {},
                   std::string_view label = {});

/// Muted text; wraps at the window's edge.
void muted_text(const UiContext& ctx, std::string_view text);
/// Heading in medium type with a little room above.
void heading(const UiContext& ctx, const char* text);
/// The button that does what its dialog is for, in the accent colour.
bool accent_button(const UiContext& ctx, const char* label, float width);
/// A label at the left of a row whose control begins at `column`. It has a line of its own where the control, `needs`
/// pixels wide, would not fit after it. Leaves the cursor where the control begins.
void row_label(const char* label, float column, float needs);
/// The same in a dialog, whose width is its own: always in the control's line.
void label_before(const char* label, float column);
/// Sends `work`'s Error to a toast.
void try_edit(UiContext& ctx, const std::function<void()>& work);
/// Right edge of the content of the current window, in window coordinates (as SetCursorPosX takes them).
[[nodiscard]] float content_right();
/// Short numbers "12.3" right-aligned to `right` (window coordinates) on the current line.
void text_right_aligned(std::string_view text, float right);

} // namespace refreshlab::ui
