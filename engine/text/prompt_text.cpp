#include "engine/text/prompt_text.h"

#include "engine/base/error.h"

#include <algorithm>
#include <utility>

namespace refreshlab {

namespace {

PromptText plain_text(const Tokenizer& tokenizer, std::string text) {
    PromptText made{std::move(text), {}, 0};
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

} // namespace

PromptText prompt_text(const Tokenizer& tokenizer, const ChatTemplate* chat,
                       const std::vector<ChatMessage>& messages, const RenderOptions& options) {
    if (chat != nullptr) {
        PromptText made{chat->render(messages, options), {}, 0};
        made.ids = tokenizer.encode(made.text, false);
        return made;
    }
    if (messages.size() != 1) {
        throw Error("making a prompt", {},
                    "a chat of several messages needs a chat template, and the model has none",
                    "give one text");
    }
    return plain_text(tokenizer, messages.front().content);
}

PromptText prompt_text(const Tokenizer& tokenizer, const ChatTemplate* chat, const std::string& prompt,
                       bool raw, const RenderOptions& options) {
    if (raw) return plain_text(tokenizer, prompt);
    return prompt_text(tokenizer, chat, std::vector<ChatMessage>{{"user", prompt}}, options);
}

} // namespace refreshlab
