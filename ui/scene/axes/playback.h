#pragma once

#include <cstdint>
#include <optional>

namespace refreshlab::ui {

/// Playing a recording back: the selected step moves on by itself (development/ui.md, TL2). Times come from outside; no
/// ImGui in here.
class Playback {
public:
    bool loop = false; ///< begin the range again at its end
    double steps_per_second = 20;

    [[nodiscard]] bool playing() const { return m_at.has_value(); }
    /// Starts at the shown step; at the first of the range where the shown one is its last, or outside of it.
    /// \return the step to select
    int64_t start(int64_t shown, int64_t first, int64_t last);
    void stop() { m_at.reset(); }
    /// A frame later. Stops at the end of the range, unless it loops, and where somebody has selected something else.
    /// \param selected  as it is now
    /// \param seconds   since the last frame; a long halt counts as longest_frame_s
    /// \return the step to select; nothing once it stands still
    std::optional<int64_t> advance(std::optional<int64_t> selected, double seconds, int64_t first,
                                   int64_t last);
    static constexpr double longest_frame_s = 0.25;

private:
    std::optional<int64_t> m_at; ///< where the selection was left; nothing while it stands still
    double m_rest = 0;           ///< part of a step that time has passed for
};

} // namespace refreshlab::ui
