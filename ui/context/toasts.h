#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// Log lines of the window and the short messages drawn from them. An error appears once, as toast and as line.
class Toasts {
public:
    enum class Level : uint8_t { info, warning, error };
    struct Line {
        double time_s = 0;
        Level level = Level::info;
        std::string text;
        bool shown_as_toast = false;
        int repeats = 1;
    };

    /// A text that is among the last lines already only raises its count.
    void add(Level level, std::string text, double time_s, bool toast = true);
    [[nodiscard]] const std::vector<Line>& lines() const { return m_lines; }
    void dismiss_all();
    [[nodiscard]] double dismissed_before() const { return m_dismissed; }

private:
    std::vector<Line> m_lines;
    double m_dismissed = -1;
};

} // namespace refreshlab::ui
