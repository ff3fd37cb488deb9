#pragma once

#include "ui/base/pixel_box.h"
#include "ui/tour/chapter.h"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// The guided tour: one bubble at a time beside what it speaks of. It waits until a person has done what it asks for, says what came of
/// it in numbers of this very run, and undoes what it set up when it ends. UI thread only.
class Tour {
public:
    explicit Tour(ShellState& state)
        : m_state(state) {}
    Tour(const Tour&) = delete;
    Tour& operator=(const Tour&) = delete;

    /// Begins a chapter at the step where it was left. A chapter that is under way ends first.
    void begin(const Chapter& chapter, size_t step);
    void end(); ///< what it set up is undone; where it was left is remembered
    /// The window closes in the middle of a chapter: what is stored of views, layout and pace is the person's.
    void leave_window();
    [[nodiscard]] bool active() const { return m_chapter.has_value(); }

    /// After the panels and the dialog of a frame: looks whether what it waits for has been done, and draws the bubble.
    void draw();

    // --- for suites and pictures ---
    [[nodiscard]] size_t step() const { return m_step; }
    [[nodiscard]] bool told() const { return m_phase == Phase::told; } ///< it says what came of it
    [[nodiscard]] bool preparing() const { return m_phase == Phase::preparing; }
    [[nodiscard]] std::string words() const; ///< of the bubble, as they stand there
    [[nodiscard]] const std::optional<PixelBox>& bubble() const { return m_bubble; }
    [[nodiscard]] std::string target(const TourMove& move) const; ///< of a move, with facts
    [[nodiscard]] std::optional<PixelBox> anchor() const;         ///< as it was drawn in the last frame

private:
    enum class Phase : uint8_t {
        preparing, ///< the run that the step begins with is under way
        asked,
        told,
    };
    /// What a chapter found, to be put back.
    struct Before {
        Views views;
        std::string layout;
        double pace = 0;
        std::optional<RunKey> live;
        int64_t live_steps = 0;
        bool started_run = false, borrowed_layout = false;
    };

    void go_to(size_t step);
    void put_views_back();
    void set_up(const TourSetUp& wanted);
    void start_run(const TourSetUp& wanted);
    [[nodiscard]] bool is_prepared() const;
    void remember_facts();
    void advance();
    void draw_bubble();
    void draw_words();
    void draw_buttons(const TourStep& step);
    void draw_outline(const PixelBox& anchor) const;

    ShellState& m_state;
    std::optional<Chapter> m_chapter;
    size_t m_step = 0;
    Phase m_phase = Phase::asked;
    Before m_before;
    std::map<std::string, FactValue, std::less<>> m_facts; ///< when the step began
    std::string m_panel;     ///< to be brought to the front, once the layout stands
    std::string m_waits_for; ///< id of the run that was there before the one of the step
    int64_t m_wanted_steps = 0;
    uint64_t m_errors = 0; ///< refusals that there were before
    std::optional<PixelBox> m_bubble;
    int m_new_frames = 0; ///< of the step's first ones so many are left
    std::string m_said;   ///< `then`, with the numbers of that moment
};

} // namespace refreshlab::ui
