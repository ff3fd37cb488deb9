#pragma once

#include "engine/control/run_config.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

/// One record of a prompt file.
struct PromptRecord {
    std::string kind;     ///< of its task; empty for stories and plain questions
    std::string prompt;   ///< what the user says
    std::string prefix;   ///< story_continuations: what the answer begins with; belongs to the prompt side
    std::string response; ///< the expected answer, or the story as it was written; may be empty
};

/// Reads a JSON-lines file of prompts: {"kind", "prompt", "response"}, {"prompt", "prefix", "reference"}, or {"turns": [..]}.
/// A list of texts, one per turn, counts by its first.
/// The function ignores other keys and skips empty lines. Throws Error{bad_input} naming file and line.
[[nodiscard]] std::vector<PromptRecord> read_prompt_file(const std::filesystem::path& file);

/// The task of a record of `folder`: kind, reference, almanac (folder/almanac.json) as far as its kind needs them; nothing for
/// a record without a kind.
[[nodiscard]] std::optional<TaskConfig> task_of(const PromptRecord& record,
                                                const std::filesystem::path& folder);

/// Finds the task that a prompt text belongs to, by the files KIND.jsonl of `folder`; the window sets it by itself with this.
/// The text must be that of a record, with one freedom: company and chronicle prompts may name another number. A prompt that
/// several records of a kind share has the reference of the first. Files that are missing do not count.
/// Cost: reads the folder's task files, some hundred KB. Throws Error{bad_input} for a malformed one.
[[nodiscard]] std::optional<TaskConfig> find_task(const std::string& prompt,
                                                  const std::filesystem::path& folder);

} // namespace refreshlab
