#include "engine/base/error.h"
#include "engine/tasks/scorers.h"

#include <algorithm>

namespace refreshlab {

namespace {

class ReferenceScorer final : public TaskScorer {
public:
    /// \param open_end  the text may go on after `answer`, unscored
    ReferenceScorer(std::string kind, std::string answer, bool open_end)
        : m_kind(std::move(kind))
        , m_answer(std::move(answer))
        , m_open_end(open_end) {}

    std::vector<Verdict> advance(std::string_view bytes, std::optional<bool> hit) override {
        ++m_token;
        if (bytes.empty() || m_left) return {};
        const size_t length = std::min(bytes.size(), m_answer.size() - m_position);
        if (length == 0 && m_open_end) return {};
        m_left = m_answer.compare(m_position, length, bytes, 0, length) != 0 ||
                 (length < bytes.size() && !m_open_end);
        if (m_left && hit) return {}; // a given text that is not the answer
        if (!m_left) m_position += length;
        const bool right = !m_left && hit.value_or(true);
        ++m_total;
        if (right) {
            ++m_right;
            if (m_right == m_total) m_prefix = m_position;
        }
        return {{m_token, right}};
    }

    std::vector<Verdict> finish() override { return {}; }

    TaskResult result() const override {
        return {.kind = m_kind,
                .unit = "token",
                .right = m_right,
                .total = m_total,
                .parts = {},
                .exact_match = !m_left && m_prefix == m_answer.size(),
                .correct_prefix = static_cast<double>(m_prefix) / static_cast<double>(m_answer.size())};
    }

private:
    std::string m_kind, m_answer;
    bool m_open_end;
    bool m_left = false; ///< the text has left the answer
    size_t m_position = 0, m_prefix = 0;
    int64_t m_token = 0, m_right = 0, m_total = 0;
};

} // namespace

std::unique_ptr<TaskScorer> make_reference_scorer(const TaskConfig& task, const std::string& prompt) {
    if (task.reference.empty()) {
        throw Error("scoring the task", task.kind, "no reference given",
                    "task.reference is the expected answer");
    }
    std::string answer = task.reference;
    bool open_end = false;
    if (task.kind == "retell") {
        // "Repeat this beginning of a story and then go on:" and the beginning; what follows it cannot be known.
        const size_t line = prompt.find('\n');
        const std::string_view text =
            line == std::string::npos ? std::string_view() : std::string_view(prompt).substr(line + 1);
        const auto [in_answer, in_text] =
            std::mismatch(answer.begin(), answer.end(), text.begin(), text.end());
        if (in_text == text.end() && in_text != text.begin() && in_answer != answer.end()) {
            answer.erase(in_answer, answer.end());
            open_end = true;
        }
    }
    return std::make_unique<ReferenceScorer>(task.kind, std::move(answer), open_end);
}

} // namespace refreshlab
