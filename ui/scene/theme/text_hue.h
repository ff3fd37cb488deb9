#pragma once

#include "ui/scene/theme/theme.h"
#include "ui/scene/views/coloured_text.h"

namespace refreshlab::ui {

/// Of the highest value of a coloured text, on screen and on paper: a signal has the colour of its curve.
[[nodiscard]] inline Colour text_hue(const Theme& theme, const ColouredText& text) {
    switch (text.by()) {
    case ColouredText::By::signal:
        return theme.signal(text.signal()->name);
    case ColouredText::By::attention:
        return theme.signal("entropy_bits");
    case ColouredText::By::gain:
    case ColouredText::By::nothing:
        break;
    }
    return theme.accent;
}

} // namespace refreshlab::ui
