#pragma once

#include "engine/record/trace/trace_store.h"
#include "ui/base/latest_answer.h"
#include "ui/scene/tables/table_file.h"

#include <chrono>
#include <filesystem>
#include <optional>

namespace refreshlab::ui {

struct ShellState;

/// Follows the trace of the run that is looked at while another program writes it (`run --record`, a session of Python, the samples of a
/// training): what is new there comes into the window. Read beside the frames, at most for a fifth of the time.
/// Threads  the UI thread.
class TraceFollower {
public:
    /// In every frame, and while none is drawn as often as the loop comes round. Cost: twice a second the times of two files.
    void tend(ShellState& state);

private:
    using Clock = std::chrono::steady_clock;
    /// A trace that is being written grows in the log beside it.
    struct Stamps {
        std::optional<FileStamp> file, log;
        friend bool operator==(const Stamps&, const Stamps&) = default;
    };
    struct Question {
        std::filesystem::path path;
        Stamps stamps;
        friend bool operator==(const Question&, const Question&) = default;
    };
    struct Answer {
        Question question;
        LabelledRuns trace; ///< empty: it could not be read just now
        Clock::duration took{};
    };
    [[nodiscard]] static Stamps stamps_of(const std::filesystem::path& path);
    [[nodiscard]] static Answer read(const Question& question);
    /// Whether somebody may have written since it was read into the window, a moment before this.
    [[nodiscard]] static bool is_fresh(const Stamps& stamps);

    std::filesystem::path m_path; ///< that is followed; empty: none
    Stamps m_known;               ///< of what the window has
    Clock::time_point m_looked, m_next;
    LatestAnswer<Question, Answer> m_reading{&read};
};

} // namespace refreshlab::ui
