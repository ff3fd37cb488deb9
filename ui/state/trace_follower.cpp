#include "ui/state/trace_follower.h"

#include "ui/state/shell_state.h"

#include <algorithm>
#include <array>
#include <utility>

namespace refreshlab::ui {

namespace fs = std::filesystem;

TraceFollower::Stamps TraceFollower::stamps_of(const fs::path& path) {
    fs::path log = path;
    log += "-wal";
    return {stamp_of(path), stamp_of(log)};
}

TraceFollower::Answer TraceFollower::read(const Question& question) {
    const auto begin = Clock::now();
    Answer answer{question, {}, {}};
    try {
        answer.trace = load_labelled_trace(question.path);
    } catch (const std::exception&) { // half written, or gone: what the window has stays
        answer.trace = {};
    }
    answer.took = Clock::now() - begin;
    return answer;
}

bool TraceFollower::is_fresh(const Stamps& stamps) {
    const auto now = fs::file_time_type::clock::now();
    return std::ranges::any_of(std::array{stamps.file, stamps.log}, [&](const auto& stamp) {
        return stamp && now - stamp->changed < std::chrono::seconds(10);
    });
}

void TraceFollower::tend(ShellState& state) {
    if (const Answer* answer = m_reading.answer(); answer != nullptr && !m_reading.busy()) {
        m_next = Clock::now() + 4 * answer->took;
        if (answer->question.path == m_path) {
            m_known = answer->question.stamps;
            if (state.follow_trace(answer->trace, m_path)) state.ctx.host.keep_awake(0.5);
        }
        m_reading.clear();
    }
    const auto now = Clock::now();
    if (m_reading.busy() || now < m_next || now - m_looked < std::chrono::milliseconds(500)) return;
    m_looked = now;
    const fs::path path = state.file_looked_at();
    if (path.empty()) {
        m_path.clear();
        return;
    }
    const Stamps stamps = stamps_of(path);
    if (std::exchange(m_path, path) != path) m_known = is_fresh(stamps) ? Stamps{} : stamps;
    if (stamps.file && stamps != m_known) m_reading.ask({path, stamps}, false);
}

} // namespace refreshlab::ui
