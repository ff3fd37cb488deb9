#pragma once

#include <chrono>
#include <future>
#include <optional>
#include <utility>

namespace refreshlab::ui {

/// The answer to a question that is asked in every frame. Where it is cheap, the answer is there at once. Else a job
/// computes it beside the frames, and the last answer stays until then. Only the newest question waits for a running
/// job; the others are never answered. `Question` is copied and compared with ==. `work(const Question&)` gives an
/// `Answer`; it may run on a thread of its own, so it must only read.
/// Threads  the UI thread. Destruction waits for a running job.
template <class Question, class Answer>
class LatestAnswer {
public:
    using Work = Answer (*)(const Question&);
    explicit LatestAnswer(Work work)
        : m_work(work) {}

    /// Nothing happens while the question stays the same. \param at_once  the answer is there when this returns
    void ask(Question question, bool at_once) {
        if (m_asked && *m_asked == question) return;
        m_asked = std::move(question);
        m_at_once = at_once;
        if (at_once) {
            m_answer = m_work(*m_asked);
        } else if (!m_job.valid()) {
            start();
        }
    }
    /// The newest answer, or nothing yet.
    [[nodiscard]] const Answer* answer() {
        if (m_job.valid() && m_job.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
            Answer done = m_job.get();
            const bool wanted =
                m_asked && !m_at_once; // else nobody asks any more, or there is a newer answer
            if (wanted) m_answer = std::move(done);
            if (wanted && !(*m_asked == *m_running)) start();
        }
        return m_answer ? &*m_answer : nullptr;
    }
    [[nodiscard]] bool busy() const { return m_job.valid(); } ///< the answer may be of an earlier question
    void clear() { // a running job is left alone: its answer finds no question
        m_asked.reset();
        m_answer.reset();
    }

private:
    void start() {
        m_running = m_asked;
        m_job =
            std::async(std::launch::async, [work = m_work, question = *m_running] { return work(question); });
    }

    Work m_work;
    std::optional<Question> m_asked, m_running;
    bool m_at_once = false;
    std::future<Answer> m_job;
    std::optional<Answer> m_answer;
};

} // namespace refreshlab::ui
