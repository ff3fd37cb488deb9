#pragma once

#include "app/base/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string>

namespace refreshlab::app {

/// A line of progress on a terminal, else a line for every twentieth of the work.
class WorkProgress {
public:
    ~WorkProgress() {
        if (m_drawn) draw_line("");
    }
    void show(double done, const std::string& what) {
        const std::string line = fmt::format("{:3.0f} % {}", 100 * done, what);
        const int twentieth = static_cast<int>(20 * done);
        if (m_terminal) {
            draw_line(line);
            m_drawn = true;
        } else if (twentieth != m_twentieth) {
            m_twentieth = twentieth;
            say("{}\n", line);
        }
    }

private:
    bool m_terminal = ::isatty(STDERR_FILENO) == 1, m_drawn = false;
    int m_twentieth = -1;
};

} // namespace refreshlab::app
