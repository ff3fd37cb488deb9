#pragma once

#include "engine/control/run_config.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// One scored token of a text.
struct Verdict {
    int64_t token = 0; ///< t of y_t, from 1
    bool right = false;
    friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// What a text is worth against its task.
struct TaskResult {
    struct Part {
        std::string name; ///< "homes", "colors", "animals"
        int64_t right = 0, total = 0;
        friend bool operator==(const Part&, const Part&) = default;
    };
    std::string kind;
    std::string unit; ///< what is counted: "word" (attribute), "key" (line of a chain), "token"
    int64_t right = 0, total = 0;
    std::vector<Part> parts;         ///< roll_call, company, chronicle: one per attribute
    std::optional<bool> exact_match; ///< chain_of_key, ledger, table, retell
    std::optional<double>
        correct_prefix; ///< the same kinds: share of the answer before the first mistake, 0..1
    friend bool operator==(const TaskResult&, const TaskResult&) = default;
};

/// Scores a text token by token against the task its prompt belongs to. Whatever a model writes is judged, never refused.
///
///   roll_call, company, chronicle   A line "Homes: ROLE WORD, ROLE WORD." (or "Colors", "Animals") after a line "The company:
///       ROLE NAME, ..." (or "The next company", any head that ends with "company"; for roll_call the prompt's "Roll call:
///       ROLE NAME, ...") states facts of the almanac. Heads stand at the start of a line, items are parted by commas, a full
///       stop ends the list. A word is scored when it is complete, if its role has a name that the almanac knows.
///   chain_of_key   Every line is right if it is a key of the prompt, was not used before, and starts with the last word of the
///       line before it (the first: with the word after "Begin with"). Correct prefix: leading right lines / keys of the
///       prompt (reference/cache-definitions.md, section 13, with lines for items); exact match: all of them and nothing else.
///   ledger, table, retell   Byte by byte against the reference. Tokens are right up to the first difference, the token that
///       holds it is wrong, what follows is not scored. A retell prompt may ask to go on after the copy: only the part of the
///       reference that stands in the prompt is scored then.
///
/// On a given text the question is whether the model's own first choices would have been right: a unit is right when all of its
/// tokens were hits. Where a given text contradicts the task it is not scored: the model did not choose it.
///
/// Cost per token: O(bytes of the token), and at most the tokens of one word or key.
class TaskScorer {
public:
    virtual ~TaskScorer() = default;
    TaskScorer(const TaskScorer&) = delete;
    TaskScorer& operator=(const TaskScorer&) = delete;

    /// \param prompt  as the user wrote it, without the chat template
    /// Throws Error{bad_input}: unknown kind, no reference where one is needed, an almanac that is missing or malformed, a
    /// prompt that lacks what is asked about (the names of a roll call, the keys of a chain).
    [[nodiscard]] static std::unique_ptr<TaskScorer> create(const TaskConfig& task,
                                                            const std::string& prompt);

    /// Takes y_1, y_2, ..., one per call, and returns the verdicts that are known now: those of a word come with the token
    /// that ends it.
    /// \param bytes  what the token adds to the text; empty for a special token; may be a part of a character
    /// \param hit    on a given text: whether the model's first choice was this token
    [[nodiscard]] virtual std::vector<Verdict> advance(std::string_view bytes, std::optional<bool> hit) = 0;
    /// The text has ended: a word at its very end is complete. To be called once, advance() not after it.
    [[nodiscard]] virtual std::vector<Verdict> finish() = 0;
    /// What is known so far.
    [[nodiscard]] virtual TaskResult result() const = 0;

protected:
    TaskScorer() = default;
};

/// roll_call, company, chronicle, chain_of_key, ledger, table, retell.
[[nodiscard]] const std::vector<std::string>& task_kinds();

} // namespace refreshlab
