#include "engine/text/prompt_text.h"

#include "engine/base/error.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace refreshlab {

namespace {

PromptText plain_text(const Tokenizer& tokenizer, std::string text) {
    PromptText made{std::move(text), {}, 0, {}};
    made.ids = tokenizer.encode(made.text, true);
    const std::vector<int32_t>& begin = tokenizer.begin_ids();
    const auto begin_size = static_cast<ptrdiff_t>(begin.size());
    const auto behind = made.ids.begin() + begin_size;
    const bool doubled = !begin.empty() && made.ids.end() - behind >= begin_size &&
                         std::equal(begin.begin(), begin.end(), behind);
    if (doubled) {
        made.ids.erase(made.ids.begin(), behind);
    } else {
        made.begin_count = begin.size();
    }
    return made;
}

/// Special tokens that the text itself spells.
std::vector<int32_t> control_ids(const Tokenizer& tokenizer, const std::string& text) {
    std::vector<int32_t> ids = tokenizer.encode(text, false);
    std::erase_if(ids, [&](int32_t id) { return !tokenizer.is_special(id); });
    return ids;
}

} // namespace

std::string control_token_note(const PromptText& prompt, const Tokenizer& tokenizer) {
    if (prompt.control_ids.empty()) return {};
    constexpr size_t max_names = 5;
    std::vector<int32_t> seen;
    std::string names;
    for (const int32_t id : prompt.control_ids) {
        if (std::find(seen.begin(), seen.end(), id) != seen.end()) continue;
        if (seen.size() == max_names) {
            names += ", ...";
            break;
        }
        names += (seen.empty() ? "" : ", ") + visible_text(tokenizer.token_bytes(id), 40);
        seen.push_back(id);
    }
    const size_t count = prompt.control_ids.size();
    const bool one = count == 1;
    return fmt::format(
        "the prompt contains {} control token{} ({}); the model reads {} of the chat and not as text", count,
        one ? "" : "s", names, one ? "it as a mark" : "them as marks");
}

PromptText prompt_text(const Tokenizer& tokenizer, const ChatTemplate* chat,
                       const std::vector<ChatMessage>& messages, const RenderOptions& options) {
    if (chat != nullptr) {
        PromptText made{chat->render(messages, options), {}, 0, {}};
        made.ids = tokenizer.encode(made.text, false);
        for (const ChatMessage& message : messages) {
            // A template may be given any bytes and leave out those that are no text.
            if (first_invalid_utf8(message.content)) continue;
            const std::vector<int32_t> found = control_ids(tokenizer, message.content);
            made.control_ids.insert(made.control_ids.end(), found.begin(), found.end());
        }
        return made;
    }
    if (messages.size() != 1) {
        throw Error("making a prompt", {},
                    "a chat of several messages needs a chat template, and the model has none",
                    "give one text");
    }
    PromptText made = plain_text(tokenizer, messages.front().content);
    made.control_ids = control_ids(tokenizer, made.text);
    return made;
}

PromptText prompt_text(const Tokenizer& tokenizer, const ChatTemplate* chat, const std::string& prompt,
                       bool raw, const RenderOptions& options) {
    if (raw) return plain_text(tokenizer, prompt);
    return prompt_text(tokenizer, chat, std::vector<ChatMessage>{{"user", prompt}}, options);
}

} // namespace refreshlab
