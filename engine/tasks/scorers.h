#pragma once

#include "engine/tasks/almanac.h"
#include "engine/tasks/task_scorer.h"

namespace refreshlab {

/// The tokens that hold a part of one scored unit (a word, a line), and whether they were hits.
class TokenGroup {
public:
    void add(int64_t token, std::optional<bool> hit) {
        if (token == m_last) return;
        m_last = token;
        m_tokens.push_back(token);
        m_given = m_given || hit.has_value();
        m_hit = m_hit && hit.value_or(true);
    }
    void clear() { *this = TokenGroup(); }
    /// Their verdict is out; what is known of the unit stays.
    void drop_tokens() { m_tokens.clear(); }
    [[nodiscard]] bool given() const { return m_given; } ///< part of a given text
    [[nodiscard]] bool hit() const { return m_hit; }     ///< no token was missed
    void judge(bool right, std::vector<Verdict>& out) const {
        for (const int64_t token : m_tokens)
            out.push_back({token, right});
    }

private:
    std::vector<int64_t> m_tokens;
    int64_t m_last = 0;
    bool m_given = false, m_hit = true;
};

/// What TaskScorer::create() chooses from; arguments as there.
[[nodiscard]] std::unique_ptr<TaskScorer> make_almanac_scorer(const TaskConfig& task,
                                                              const std::string& prompt);
[[nodiscard]] std::unique_ptr<TaskScorer> make_chain_scorer(const std::string& prompt);
[[nodiscard]] std::unique_ptr<TaskScorer> make_reference_scorer(const TaskConfig& task,
                                                                const std::string& prompt);

} // namespace refreshlab
