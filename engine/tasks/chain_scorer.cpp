#include "engine/base/error.h"
#include "engine/tasks/scorers.h"

#include <set>

namespace refreshlab {

namespace {

constexpr size_t longest_line = 128; // bytes; no key is longer

/// First and last word of "first-last", or nothing if `line` is no key: exactly one hyphen, no space.
std::optional<std::pair<std::string, std::string>> parse_key(std::string_view line) {
    const size_t hyphen = line.find('-');
    if (line.size() > longest_line || hyphen == std::string_view::npos || hyphen == 0 ||
        hyphen + 1 == line.size() || line.find('-', hyphen + 1) != std::string_view::npos ||
        line.find_first_of(" \t") != std::string_view::npos) {
        return std::nullopt;
    }
    return std::pair(std::string(line.substr(0, hyphen)), std::string(line.substr(hyphen + 1)));
}

class ChainScorer final : public TaskScorer {
public:
    ChainScorer(std::set<std::string, std::less<>> keys, std::string begin)
        : m_unused(std::move(keys))
        , m_num_keys(m_unused.size())
        , m_last_word(std::move(begin)) {}

    std::vector<Verdict> advance(std::string_view bytes, std::optional<bool> hit) override {
        std::vector<Verdict> verdicts;
        ++m_token;
        for (const char c : bytes) {
            if (c == '\n') {
                end_line(verdicts);
                continue;
            }
            if (c == ' ' && m_line.empty()) continue;
            m_group.add(m_token, hit);
            if (m_line.size() <= longest_line) m_line += c;
            // Too long to be a key: wrong already, and so is every further token of this line.
            if (m_line.size() > longest_line) {
                if (!m_group.given()) m_group.judge(false, verdicts);
                m_group.drop_tokens();
            }
        }
        return verdicts;
    }

    std::vector<Verdict> finish() override {
        std::vector<Verdict> verdicts;
        end_line(verdicts);
        return verdicts;
    }

    TaskResult result() const override {
        const int64_t keys = static_cast<int64_t>(m_num_keys);
        return {.kind = "chain_of_key",
                .unit = "key",
                .right = m_right,
                .total = m_total,
                .parts = {},
                .exact_match = m_prefix == keys && m_lines == keys,
                .correct_prefix = static_cast<double>(m_prefix) / static_cast<double>(keys)};
    }

private:
    void end_line(std::vector<Verdict>& verdicts) {
        while (m_line.ends_with(' ') || m_line.ends_with('\r'))
            m_line.pop_back();
        if (!m_line.empty()) {
            ++m_lines;
            const auto key = parse_key(m_line);
            const bool follows = key && key->first == m_last_word && m_unused.erase(m_line) == 1;
            m_last_word = key ? key->second : std::string();
            if (follows || !m_group.given()) {
                const bool right = follows && m_group.hit();
                ++m_total;
                if (right) ++m_right;
                if (right && m_prefix == m_lines - 1) ++m_prefix;
                m_group.judge(right, verdicts);
            }
        }
        m_line.clear();
        m_group.clear();
    }

    std::set<std::string, std::less<>> m_unused;
    size_t m_num_keys;
    std::string m_last_word, m_line;
    int64_t m_token = 0, m_lines = 0, m_right = 0, m_total = 0, m_prefix = 0;
    TokenGroup m_group;
};

} // namespace

std::unique_ptr<TaskScorer> make_chain_scorer(const std::string& prompt) {
    std::set<std::string, std::less<>> keys;
    for (size_t at = 0; at < prompt.size();) {
        const size_t end = std::min(prompt.find('\n', at), prompt.size());
        const std::string line = prompt.substr(at, end - at);
        if (parse_key(line)) keys.insert(line);
        at = end + 1;
    }
    constexpr std::string_view ask = "Begin with ";
    const size_t at = prompt.rfind(ask);
    std::string begin = at == std::string::npos ? std::string() : prompt.substr(at + ask.size());
    begin = begin.substr(0, begin.find_first_of(". \n"));
    if (keys.empty() || begin.empty()) {
        throw Error("scoring the task", "chain_of_key",
                    keys.empty() ? "the prompt holds no key" : "the prompt does not say where to begin",
                    "keys stand one per line as first-last, and the prompt says \"Begin with first.\"");
    }
    return std::make_unique<ChainScorer>(std::move(keys), std::move(begin));
}

} // namespace refreshlab
