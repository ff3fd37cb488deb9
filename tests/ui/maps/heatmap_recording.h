#pragma once

#include "engine/record/recording/recording.h"
#include "tests/support/next_record.h"

#include <memory>
#include <random>
#include <string>

namespace refreshlab::test {

/// Token n is the letter 'a' + n mod 26.
class LetterTokens final : public TokenTable {
public:
    [[nodiscard]] std::string_view token_bytes(int32_t id) const override {
        return id < 0 ? std::string_view{}
                      : std::string_view(m_letters).substr(static_cast<size_t>(id % 26), 1);
    }
    [[nodiscard]] bool is_special(int32_t) const override { return false; }

private:
    std::string m_letters = "abcdefghijklmnopqrstuvwxyz";
};

inline std::shared_ptr<Recording> empty_recording(Mode mode, int64_t prompt, int64_t layers = 2,
                                                  int64_t heads = 3) {
    RunInfo info;
    info.id = "00000000000000aa";
    info.config.mode = mode;
    info.prompt_ids.assign(static_cast<size_t>(prompt), 1);
    info.first_token = 2;
    info.layers = layers;
    info.heads = heads;
    return std::make_shared<Recording>(info, std::make_shared<LetterTokens>());
}

inline void append_step(Recording& recording, bool fed = true) {
    recording.append(
        next_record(recording, fed ? 3 + static_cast<int32_t>((recording.steps() + 1) % 2) : -1));
}

} // namespace refreshlab::test
