#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

struct ChatMessage {
    std::string role; ///< "system", "user", "assistant"
    std::string content;
};

/// The chat_template of tokenizer_config.json (or chat_template.jinja beside it), run by a small interpreter of the
/// Jinja subset that published templates use: output, if/elif/else, for (with loop.*), set, namespace, filters (trim,
/// tojson, length, upper, ...), tests, string and list methods, slices, raise_exception, strftime_now.
/// Reference: Hugging Face "chat templating"; trim_blocks and lstrip_blocks are on.
class ChatTemplate {
public:
    /// Null when the folder has no template: then the prompt is used as it is.
    /// Throws Error{bad_input} naming file, line and what is not supported.
    [[nodiscard]] static std::shared_ptr<const ChatTemplate> load(const std::filesystem::path& folder);
    [[nodiscard]] static std::shared_ptr<const ChatTemplate>
    parse(std::string_view source, std::string bos_token, std::string eos_token);
    ~ChatTemplate();

    /// The exact text that is tokenized (without adding special tokens again).
    [[nodiscard]] std::string render(const std::vector<ChatMessage>& messages,
                                     bool add_generation_prompt = true) const;

private:
    struct Impl;
    explicit ChatTemplate(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> m_impl;
};

} // namespace refreshlab
