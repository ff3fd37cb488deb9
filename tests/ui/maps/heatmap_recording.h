#pragma once

#include "engine/record/recording/recording.h"
#include "tests/support/made_run.h"

#include <memory>
#include <random>
#include <string>

namespace refreshlab::test {

inline std::shared_ptr<Recording> empty_recording(Mode mode, int64_t prompt, int64_t layers = 2,
                                                  int64_t heads = 3) {
    RunInfo info = made_info(prompt);
    info.config.mode = mode;
    info.layers = layers;
    info.heads = heads;
    return made_run(info);
}

inline void append_step(Recording& recording, bool fed = true) {
    recording.append(
        next_record(recording, fed ? 3 + static_cast<int32_t>((recording.steps() + 1) % 2) : -1));
}

} // namespace refreshlab::test
