#pragma once

#include "engine/record/recording/recording.h"

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
    StepRecord record;
    record.step = recording.steps() + 1;
    record.position = recording.prompt_length() + record.step - 1;
    record.token_id = 3;
    record.next_token_id = fed ? 4 : -1;
    record.fed = fed;
    record.signals.fill(absent());
    recording.append(record);
}

} // namespace refreshlab::test
