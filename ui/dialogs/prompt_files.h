#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// The bundled prompts of one file of assets/prompts. No ImGui in here.
struct PromptGroup {
    std::string file;  ///< stem: "chronicle"
    std::string title; ///< "Chronicle"; of a file that tasks.json does not name, the stem in words
    std::string line;  ///< what its prompts ask for; may be empty
    std::vector<std::string> prompts;
};

/// The first `per_file` different prompts of every .jsonl file: those that tasks.json names first, in its order, then the others
/// by name. Lines without a "prompt" string (or a "turns" list, whose first entry is taken) are skipped; a line that is no JSON
/// throws Error{bad_input} naming file and line. Cost: reads all files.
[[nodiscard]] std::vector<PromptGroup> read_bundled_prompts(const std::filesystem::path& folder,
                                                            size_t per_file = 12);

} // namespace refreshlab::ui
