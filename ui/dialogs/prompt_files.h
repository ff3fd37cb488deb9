#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// A bundled prompt, from assets/prompts/*.jsonl. No ImGui in here.
struct BundledPrompt {
    std::string file; ///< stem: "chronicle"
    std::string text;
};

/// The first `per_file` different prompts of every .jsonl file, files by name. Lines without a "prompt" string (or a
/// "turns" list, whose first entry is taken) are skipped; a line that is no JSON throws Error{bad_input} naming file and
/// line. Cost: reads all files.
[[nodiscard]] std::vector<BundledPrompt> read_bundled_prompts(const std::filesystem::path& folder,
                                                              size_t per_file = 12);

} // namespace refreshlab::ui
