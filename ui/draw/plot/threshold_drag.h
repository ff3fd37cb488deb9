#pragma once

#include "ui/context/context.h"
#include "ui/scene/policy/thresholds.h"

#include <string>

namespace refreshlab::ui {

/// The threshold line under the mouse button, in the plots of one panel: its draft follows the mouse, the end of the
/// drag is one undo entry, Esc restores the old value. The value itself belongs to Drafts, so a line of the same key in
/// another panel moves along. UI thread only.
class ThresholdDrag {
public:
    [[nodiscard]] const std::string& key() const { return m_key; } ///< of the line; "" = none is held
    [[nodiscard]] bool holds_another(const ThresholdLine& line) const {
        return !m_key.empty() && m_key != line.key;
    }
    /// Every frame, for each line that takes the mouse. \return true while the mouse says where the line is: send() follows
    bool update(UiContext& ctx, const ThresholdLine& line, bool held);
    /// A value that is the last one sent is not sent again; one that is refused becomes a toast.
    void send(UiContext& ctx, const ThresholdLine& line, double value);
    /// After the last line of a frame: releases a line whose trigger was removed under the mouse.
    void end_frame(UiContext& ctx);

private:
    std::string m_key;
    bool m_cancelled = false; ///< Esc ended the drag; the button is still down
    double m_last_sent = 0;
};

} // namespace refreshlab::ui
