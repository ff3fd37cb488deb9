#include "engine/base/error.h"
#include "engine/tasks/scorers.h"

#include <algorithm>
#include <map>

namespace refreshlab {

namespace {

constexpr size_t longest_head = 64, longest_word = 64; // bytes; what is longer is neither a head nor a fact

/// Letters, digits, hyphen, apostrophe and everything beyond ASCII (a character may be split over tokens).
bool in_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '\'' || static_cast<unsigned char>(c) >= 0x80;
}

/// Reads "HEAD: ROLE WORD, ROLE WORD." lines byte by byte.
class AlmanacScorer final : public TaskScorer {
public:
    AlmanacScorer(std::string kind, Almanac almanac)
        : m_kind(std::move(kind))
        , m_almanac(std::move(almanac)) {}

    /// "Roll call: ROLE NAME, ROLE NAME. ..." of a prompt. True if there was a name.
    bool read_names(const std::string& prompt) {
        constexpr std::string_view head = "Roll call: ";
        const size_t at = prompt.find(head);
        if (at == std::string::npos) return false;
        m_where = Where::list;
        m_list = List::names;
        std::vector<Verdict> none;
        for (const char c : prompt.substr(at + head.size()))
            take(c, 0, std::nullopt, none);
        end_word(none);
        start_line();
        return !m_company.empty();
    }

    std::vector<Verdict> advance(std::string_view bytes, std::optional<bool> hit) override {
        std::vector<Verdict> verdicts;
        ++m_token;
        for (const char c : bytes)
            take(c, m_token, hit, verdicts);
        return verdicts;
    }

    std::vector<Verdict> finish() override {
        std::vector<Verdict> verdicts;
        if (m_where == Where::list) end_word(verdicts);
        return verdicts;
    }

    TaskResult result() const override {
        TaskResult result;
        result.kind = m_kind;
        result.unit = "word";
        for (size_t i = 0; i < num_attributes; ++i) {
            std::string name(attribute_heads[i]);
            name[0] = static_cast<char>(name[0] - 'A' + 'a');
            result.parts.push_back({std::move(name), m_right[i], m_total[i]});
            result.right += m_right[i];
            result.total += m_total[i];
        }
        return result;
    }

private:
    enum class Where { head, list, rest };
    enum class List { names, facts };

    void start_line() {
        m_where = Where::head;
        m_head.clear();
    }

    void take(char c, int64_t token, std::optional<bool> hit, std::vector<Verdict>& verdicts) {
        if (m_where == Where::list) {
            if (in_word(c)) {
                if (m_word.size() < longest_word) m_group.add(token, hit);
                if (m_word.size() <= longest_word) m_word += c;
                return;
            }
            end_word(verdicts);
            if (c == ',') m_words = 0;
            if (c == '.') m_where = Where::rest;
        }
        if (c == '\n') {
            start_line();
        } else if (m_where == Where::head) {
            if (c == ':') {
                read_head();
            } else if (m_head.size() == longest_head) {
                m_where = Where::rest;
            } else {
                m_head += c;
            }
        }
    }

    void read_head() {
        m_where = Where::list;
        m_words = 0;
        const auto fact = std::ranges::find(attribute_heads, std::string_view(m_head));
        if (m_head.ends_with("company")) {
            m_list = List::names;
            m_company.clear();
        } else if (fact != attribute_heads.end()) {
            m_list = List::facts;
            m_attribute = static_cast<size_t>(fact - attribute_heads.begin());
        } else {
            m_where = Where::rest;
        }
    }

    void end_word(std::vector<Verdict>& verdicts) {
        if (!m_word.empty()) {
            if (m_words == 0) {
                m_role = m_word;
            } else if (m_words == 1 && m_list == List::names) {
                m_company[m_role] = m_word;
            } else if (m_words == 1) {
                judge(verdicts);
            }
            if (m_words < 2) ++m_words;
        }
        m_word.clear();
        m_group.clear();
    }

    void judge(std::vector<Verdict>& verdicts) {
        const auto name = m_company.find(m_role);
        if (name == m_company.end()) return;
        const auto facts = m_almanac.find(name->second);
        if (facts == m_almanac.end()) return;
        const bool true_word = facts->second[m_attribute] == m_word;
        if (!true_word && m_group.given()) return;
        const bool right = true_word && m_group.hit();
        ++m_total[m_attribute];
        if (right) ++m_right[m_attribute];
        m_group.judge(right, verdicts);
    }

    std::string m_kind;
    Almanac m_almanac;
    std::map<std::string, std::string> m_company; ///< role -> name
    int64_t m_token = 0;
    Where m_where = Where::head;
    List m_list = List::names;
    size_t m_attribute = 0;
    std::string m_head, m_role, m_word;
    int m_words = 0; ///< complete words of this item: 0 the next is the role, 1 its word, 2 nothing more
    TokenGroup m_group;
    std::array<int64_t, num_attributes> m_right{}, m_total{};
};

} // namespace

std::unique_ptr<TaskScorer> make_almanac_scorer(const TaskConfig& task, const std::string& prompt) {
    if (task.almanac.empty()) {
        throw Error("scoring the task", task.kind, "no almanac given",
                    "task.almanac is the file of the facts, such as assets/prompts/almanac.json");
    }
    auto scorer = std::make_unique<AlmanacScorer>(task.kind, read_almanac(task.almanac));
    if (task.kind == "roll_call" && !scorer->read_names(prompt)) {
        throw Error("scoring the task", task.kind, "the prompt names nobody",
                    "it must hold \"Roll call: ROLE NAME, ROLE NAME.\"");
    }
    return scorer;
}

} // namespace refreshlab
