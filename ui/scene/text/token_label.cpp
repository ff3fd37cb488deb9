#include "ui/scene/text/token_label.h"

#include "engine/text/utf8.h"
#include "ui/base/value_format.h"

#include <fmt/format.h>

#include <string_view>

namespace refreshlab::ui {

std::string token_label(const TokenTable& tokens, int32_t id, size_t max_chars) {
    if (id < 0) return "none";
    const std::string_view bytes = tokens.token_bytes(id);
    if (bytes.empty()) return fmt::format("token {}", id);
    if (tokens.is_special(id)) return visible_text(bytes, max_chars);
    return fmt::format("\"{}\"", visible_text(bytes, max_chars));
}

std::string short_token_label(const TokenTable& tokens, int32_t id, size_t max_chars) {
    if (id < 0) return "none";
    std::string_view bytes = tokens.token_bytes(id);
    if (bytes.empty()) return fmt::format("token {}", id);
    const size_t word = bytes.find_first_not_of(' ');
    if (word == std::string_view::npos) return fmt::format("\"{}\"", visible_text(bytes, max_chars));
    bytes.remove_prefix(word);
    return visible_text(bytes, max_chars);
}

std::string position_label(const Recording& recording, int64_t position, size_t max_chars) {
    const int64_t prompt = recording.prompt_length();
    const int32_t id = position < prompt ? recording.info().prompt_ids[static_cast<size_t>(position)]
                                         : recording.token(position - prompt + 1);
    return token_label(recording.tokens(), id, max_chars);
}

int32_t token_read(const Recording& recording, int64_t steps, int64_t step) {
    return step >= 1 && step <= steps ? recording.step(step).token_id : -1;
}

int32_t token_chosen(const Recording& recording, int64_t steps, int64_t step) {
    if (step == 0) return recording.info().first_token;
    return step >= 1 && step <= steps ? recording.step(step).next_token_id : -1;
}

std::string step_caption(const Recording& recording, int64_t steps, int64_t step) {
    const TokenTable& tokens = recording.tokens();
    const int32_t chosen = token_chosen(recording, steps, step);
    const std::string next =
        chosen >= 0 ? ", chose " + token_label(tokens, chosen, 20) : std::string(", the last");
    if (step == 0) return "prefill" + next;
    return fmt::format("step {}: read {}{}", format_thousands(step),
                       token_label(tokens, token_read(recording, steps, step), 20), next);
}

} // namespace refreshlab::ui
