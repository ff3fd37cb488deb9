#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace refreshlab {

struct ChatMessage {
    std::string role; ///< "system", "user", "assistant"
    std::string content;
};

struct RenderOptions {
    bool add_generation_prompt = true; ///< ends where the assistant's answer begins
    /// Further variables of the template, by name: {"enable_thinking", false}, {"date_string", "26 Jul 2024"}. They win
    /// over the special tokens of the folder's configuration.
    std::map<std::string, std::variant<bool, int64_t, double, std::string>> variables;
    /// What strftime_now shows; nothing: this machine's local time, now.
    std::optional<std::tm> now;
    /// What one rendering may cost, so that no template hangs or fills the memory: about one unit a byte made.
    size_t max_work = 400'000'000;
};

/// The chat template of a model folder, run by a small interpreter of the Jinja subset that published templates use: output,
/// if/elif/else, for (with loop.*), set, namespace, macros, filters (trim, tojson, length, upper, ...), tests, string and
/// list methods, slices, raise_exception, strftime_now.
/// Reference: Hugging Face "chat templating"; trim_blocks and lstrip_blocks are on.
///
/// A template that asks for the day (Llama 3.1) renders differently tomorrow. A run therefore keeps its prompt as text
/// and ids (see PromptText), and never renders it again.
class ChatTemplate {
public:
    /// Looks where models keep it, the newest place first: chat_template.jinja; additional_chat_templates/default.jinja;
    /// tokenizer_config.json, "chat_template", a text or a list of named ones, of which "default" counts;
    /// chat_template.json. Null when the folder has no template: then the prompt is used as it is.
    /// Throws Error{bad_input} naming file, line and what is not supported.
    [[nodiscard]] static std::shared_ptr<const ChatTemplate> load(const std::filesystem::path& folder);
    /// \param what  whose template it is, for messages
    [[nodiscard]] static std::shared_ptr<const ChatTemplate>
    parse(std::string_view source, std::string bos_token, std::string eos_token, std::string what = {});
    ~ChatTemplate();

    /// The exact text that is tokenized (without adding special tokens again).
    [[nodiscard]] std::string render(const std::vector<ChatMessage>& messages,
                                     bool add_generation_prompt = true) const;
    [[nodiscard]] std::string render(const std::vector<ChatMessage>& messages,
                                     const RenderOptions& options) const;

private:
    struct Impl;
    explicit ChatTemplate(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> m_impl;
};

} // namespace refreshlab
