#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace refreshlab {

/// One text of a file: `text`, or where it is empty a prompt with its answer. A prefix is the beginning of an answer that belongs to the prompt
/// side; the answer goes on behind it.
struct TextRow {
    std::string text, prompt, prefix, answer;
};

/// Calls see() for each text of a file. A .jsonl file has one a row: "text", or "prompt" with "response" or "reference"; empty rows do not
/// count. Any other file is one text. Throws Error{bad_input} naming file and row: no UTF-8, no such text, above 1 GiB.
void read_text_rows(const std::filesystem::path& file, const std::function<void(TextRow)>& see);

} // namespace refreshlab
