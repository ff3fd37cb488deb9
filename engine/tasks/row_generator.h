#pragma once

#include "engine/tasks/almanac.h"
#include "engine/tasks/prompt_file.h"

#include <cstdint>
#include <filesystem>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// What rows of the generated tasks are made of.
struct RowWords {
    std::vector<std::string> roles;      ///< of travelers, in the order in which a company tells them
    std::vector<std::string> interludes; ///< sentences between the companies of a chronicle
    std::vector<std::string> names, colors, items, places; ///< of ledgers and tables
    std::vector<std::string> keys;                         ///< words of a chain
};
/// assets/prompts/words.json. Throws Error{bad_input}.
[[nodiscard]] RowWords read_row_words(const std::filesystem::path& file);

/// What a generator is made with.
struct RowSources {
    Almanac almanac; ///< of roll_call, company and chronicle
    RowWords words;
    std::vector<std::string> stories;   ///< of retell; may be empty
    std::vector<PromptRecord> held_out; ///< rows that must not come up again
};

/// Makes rows of the tasks that TaskScorer knows, in the form of assets/prompts/KIND.jsonl. No company or roll call has the names of one in
/// a held-out row, nor all of them and more, nor a part of them; no row is a held-out one.
///
///   roll_call, company  3 to 8 travelers       chronicle  4 to 9 companies of 3 to 8, none twice in it
///   chain_of_key  8 to 40 keys                  ledger  5 to 18 children, of whom 4 or more are asked for, as a list or in sentences
///   table  4 to 12 rows of 3 to 5 columns, of which 2 or 3 are asked for
///   retell  a story, cut to 1,400 bytes; or, of every third longer one, its first 900 with the answer going on
///
/// The same seed and calls give the same rows with every standard library. Threads: one owner.
class RowGenerator {
public:
    /// Throws Error{bad_input}: an almanac of fewer than 80 names, which a chronicle may need.
    RowGenerator(RowSources sources, uint64_t seed);

    /// \param kind  one of task_kinds()                                                                    (asserted)
    /// Throws Error{bad_input}: retell without stories of 200 bytes, held-out rows that leave nothing else.
    [[nodiscard]] PromptRecord make(std::string_view kind);

private:
    using Names = std::set<std::string, std::less<>>;
    struct Company {
        std::vector<std::string> roles, names;
    };
    [[nodiscard]] size_t below(size_t limit);
    [[nodiscard]] int64_t between(int64_t low, int64_t high); ///< both included
    template <class T>
    void shuffle(std::vector<T>& list);
    /// `count` different ones, in the order drawn.
    [[nodiscard]] std::vector<std::string> some(const std::vector<std::string>& of, size_t count);
    [[nodiscard]] Company company(Names& used);
    [[nodiscard]] bool is_held_out(const std::vector<std::string>& names) const;
    [[nodiscard]] std::string facts(const Company& company, size_t attribute) const;
    [[nodiscard]] std::string told(const Company& company, std::string_view head) const;
    [[nodiscard]] PromptRecord roll_call();
    [[nodiscard]] PromptRecord one_company();
    [[nodiscard]] PromptRecord chronicle();
    [[nodiscard]] PromptRecord chain_of_key();
    [[nodiscard]] PromptRecord ledger();
    [[nodiscard]] PromptRecord table();
    [[nodiscard]] PromptRecord retell();

    RowSources m_sources;
    std::vector<std::string> m_names;                     ///< of the almanac
    std::vector<Names> m_held_out;                        ///< names of held-out companies and roll calls
    std::set<std::pair<std::string, std::string>> m_rows; ///< held-out prompts with their answers
    std::mt19937_64 m_random;
};

} // namespace refreshlab
