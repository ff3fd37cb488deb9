#pragma once

#include "engine/record/recording/recording.h"

#include <cstdint>

namespace refreshlab::test {

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
