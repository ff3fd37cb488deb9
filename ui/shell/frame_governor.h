#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace refreshlab::ui {

/// Decides when the next frame is drawn, so that the window stays lively, takes little from a decode on the same cores,
/// and costs nothing while nothing happens (development/ui.md, 6; development/performance.md, 7). It only calculates with
/// times that are given to it, in seconds of one monotonic clock.
class FrameGovernor {
public:
    /// Of all cores, for drawing while a decode runs. On two cores the decode loses twice that: a frame holds one of its threads up, and
    /// the other waits for it.
    static constexpr double share_of_cores = 0.05;
    static constexpr double slowest_while_decoding = 1.0 / 5, fastest = 1.0 / 60;
    static constexpr double settle_s = 2.0; ///< after the last input or news: a few more frames, then none
    static constexpr double longest_wait_s = 1.0;

    /// \param cores  of the machine, at least 1
    explicit FrameGovernor(int cores)
        : m_cores(cores < 1 ? 1 : cores) {}

    struct Situation {
        double now = 0;
        double last_input = 0;  ///< key, mouse or window event
        double last_news = 0;   ///< wake-up by the engine
        double awake_until = 0; ///< something moves (Host::keep_awake)
        bool decoding = false;
        bool mouse_held = false;
        bool input_left = false;  ///< the last frame did not take all of the input: more of it waits
        bool text_cursor = false; ///< a text field is being edited: its cursor blinks
        bool minimised = false;
    };
    /// A frame was drawn: began at `began`, cost `cost_s` of UI and GL time.
    void frame_drawn(double began, double cost_s);
    /// When the next frame is due; infinity when nothing asks for one. Only input, news or a wake-up change that.
    [[nodiscard]] double due(const Situation& s) const;
    /// Shortest time between two frames as things are.
    [[nodiscard]] double period(const Situation& s) const;
    /// How long to wait from s.now, at most longest_wait_s.
    [[nodiscard]] double wait_s(const Situation& s) const;
    /// Cost of a frame as the governor sees it: median of the last frames.
    [[nodiscard]] double cost_s() const;

private:
    int m_cores;
    double m_last_frame = -1e9;
    std::vector<double> m_costs; ///< ring of the last `remembered`
    size_t m_next = 0;
    static constexpr size_t remembered = 15;
};

} // namespace refreshlab::ui
