#pragma once

// Recordings that a case makes up, step by step, without a model.
#include "engine/record/recording/recording.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::test {

/// Token n is texts[n mod size]. \param special  the one token that is no text; -1: none is
class MadeTokens final : public TokenTable {
public:
    explicit MadeTokens(std::vector<std::string> texts, int32_t special = -1)
        : m_texts(std::move(texts))
        , m_special(special) {}
    [[nodiscard]] std::string_view token_bytes(int32_t id) const override {
        return id < 0 ? std::string_view{} : m_texts[static_cast<size_t>(id) % m_texts.size()];
    }
    [[nodiscard]] bool is_special(int32_t id) const override { return id >= 0 && id == m_special; }

private:
    std::vector<std::string> m_texts;
    int32_t m_special;
};

/// Token n is the letter 'a' + n mod 26.
inline std::shared_ptr<const TokenTable> letters() {
    std::vector<std::string> texts;
    for (char c = 'a'; c <= 'z'; ++c)
        texts.emplace_back(1, c);
    return std::make_shared<MadeTokens>(std::move(texts));
}

/// What every run has that is made up: a prompt of so many tokens 1, behind which token 2 was drawn. The rest is the case's own.
inline RunInfo made_info(int64_t prompt, std::string id = "00000000000000aa") {
    RunInfo info;
    info.id = std::move(id);
    info.prompt_ids.assign(static_cast<size_t>(prompt), 1);
    info.first_token = 2;
    return info;
}

/// A run without a step.
inline std::shared_ptr<Recording> made_run(RunInfo info,
                                           std::shared_ptr<const TokenTable> tokens = letters()) {
    return std::make_shared<Recording>(std::move(info), std::move(tokens));
}

/// The record that comes next in a recording: it feeds the token that the one before chose. No signal is measured, no time spent.
/// \param next  the token that it chooses; -1: it is the last of a finished run, and not fed
inline StepRecord next_record(const Recording& recording, int32_t next = 1) {
    StepRecord record;
    record.step = recording.steps() + 1;
    record.position = recording.prompt_length() + record.step - 1;
    record.token_id = recording.token(record.step);
    record.next_token_id = next;
    record.fed = next >= 0;
    record.signals.fill(absent());
    record.part_ms.fill(0);
    return record;
}

} // namespace refreshlab::test
