#pragma once

#include "engine/text/chat_template.h"
#include "engine/text/tokenizer/tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab {

/// A prompt as a model gets it: the text that is shown is the text that was tokenized.
struct PromptText {
    std::string text;         ///< rendered by the chat template, or the prompt as it was typed
    std::vector<int32_t> ids; ///< of `text`, after begin_count ids that have no text
    size_t begin_count = 0; ///< begin tokens that the tokenizer's post-processor put first; 0 with a template
    /// Special tokens that the user's own messages spell, in order. The model reads them as control tokens, exactly as with
    /// `transformers`: a pasted "<|eot_id|>" ends the turn. Empty for a raw prompt, where such marks are the purpose.
    std::vector<int32_t> control_ids = {};
};

/// What a person must be told about a prompt with control tokens: "the prompt contains 2 control tokens (<|end|>,
/// <|user|>); the model reads them as marks of the chat and not as text". Empty where there are none.
[[nodiscard]] std::string control_token_note(const PromptText& prompt, const Tokenizer& tokenizer);

/// The one way from a prompt to ids.
///
/// With a template, the tokenizer adds nothing to the template's text. So there is a begin token exactly where the
/// template writes one (as in `transformers`' apply_chat_template). Without one (`chat` null) the tokenizer adds its
/// special tokens. A text that already starts with its begin token, because it was pasted from elsewhere, gets no
/// second one.
/// Throws Error{bad_input} for text that is not UTF-8 and for what the template refuses.
[[nodiscard]] PromptText prompt_text(const Tokenizer& tokenizer, const ChatTemplate* chat,
                                     const std::vector<ChatMessage>& messages,
                                     const RenderOptions& options = {});
/// One message of the user; \param raw  the template is left aside
[[nodiscard]] PromptText prompt_text(const Tokenizer& tokenizer, const ChatTemplate* chat,
                                     const std::string& prompt, bool raw = false,
                                     const RenderOptions& options = {});

} // namespace refreshlab
