#pragma once

#include "engine/record/recording/recording.h"

#include <cstdint>
#include <string>

namespace refreshlab::ui {

/// A token for people: its bytes with spaces, newlines and partial characters visible, in quotes where quotes help
/// (" fox", "\n", "\xE2"); special tokens as they are (<|end|>). Never empty.
[[nodiscard]] std::string token_label(const TokenTable& tokens, int32_t id, size_t max_chars = 32);

/// "red" without quotes, for narrow places; leading spaces as a middle dot would need a font, so they are dropped unless
/// the token is nothing else.
[[nodiscard]] std::string short_token_label(const TokenTable& tokens, int32_t id, size_t max_chars = 16);

/// Label of the token at a position of the sequence, prompt included; position < prompt + steps + 1.
[[nodiscard]] std::string position_label(const Recording& recording, int64_t position, size_t max_chars = 32);

/// Token read at step t (y_t) and the one it chose (y_{t+1}, -1 in the last record). Step 0 is the prefill: it read the
/// prompt (-1) and chose y_1. Nothing else is valid below 0 or above steps.
[[nodiscard]] int32_t token_read(const Recording& recording, int64_t steps, int64_t step);
[[nodiscard]] int32_t token_chosen(const Recording& recording, int64_t steps, int64_t step);

/// "step 171: read " slate", chose " red"".
[[nodiscard]] std::string step_caption(const Recording& recording, int64_t steps, int64_t step);

} // namespace refreshlab::ui
