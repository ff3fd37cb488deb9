#include "engine/base/error.h"
#include "engine/tasks/fact_reader.h"
#include "engine/tasks/scorers.h"

namespace refreshlab {

namespace {

/// Judges the facts of "HEAD: ROLE WORD, ROLE WORD." lines.
class AlmanacScorer final : public TaskScorer {
public:
    AlmanacScorer(std::string kind, Almanac almanac)
        : m_kind(std::move(kind))
        , m_almanac(std::move(almanac)) {}

    /// "Roll call: ROLE NAME, ROLE NAME. ..." of a prompt. True if there was a name.
    bool read_names(const std::string& prompt) {
        const size_t at = prompt.find("Roll call: ");
        if (at == std::string::npos) return false;
        m_reader = FactReader(true);
        for (const char c : prompt.substr(at) + "\n")
            static_cast<void>(m_reader.take(c));
        m_reader.prompt_is_over();
        return !m_reader.names().empty();
    }

    std::vector<Verdict> advance(std::string_view bytes, std::optional<bool> hit) override {
        std::vector<Verdict> verdicts;
        ++m_token;
        for (const char c : bytes)
            take(c, hit, verdicts);
        return verdicts;
    }

    std::vector<Verdict> finish() override {
        std::vector<Verdict> verdicts;
        take('\n', std::nullopt, verdicts);
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
    void take(char c, std::optional<bool> hit, std::vector<Verdict>& verdicts) {
        const auto word = m_reader.take(c);
        if (word && word->attribute) judge(*word, verdicts);
        if (m_reader.word_bytes() == 0) {
            m_group.clear();
        } else if (m_reader.word_bytes() <= FactReader::longest_word) {
            m_group.add(m_token, hit);
        }
    }

    void judge(const FactReader::Word& word, std::vector<Verdict>& verdicts) {
        const auto facts = m_almanac.find(word.name);
        if (facts == m_almanac.end()) return;
        const size_t attribute = *word.attribute;
        const bool true_word = facts->second[attribute] == word.text;
        if (!true_word && m_group.given()) return;
        const bool right = true_word && m_group.hit();
        ++m_total[attribute];
        if (right) ++m_right[attribute];
        m_group.judge(right, verdicts);
    }

    std::string m_kind;
    Almanac m_almanac;
    FactReader m_reader{false};
    int64_t m_token = 0;
    TokenGroup m_group; ///< of the word that is being read
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
