#pragma once

#include "engine/record/recording/recording.h"
#include "engine/signals/registry.h"

#include <cstdint>
#include <vector>

namespace refreshlab::test {

/// The text, and a signal of every step that any other entry of the cache would change.
inline std::vector<float> trail(const Recording& recording) {
    std::vector<float> values;
    for (int64_t t = 1; t <= recording.steps(); ++t) {
        values.push_back(static_cast<float>(recording.step(t).token_id));
        if (recording.step(t).fed)
            values.push_back(recording.signal(t, require_signal("entropy_bits", "a test")));
    }
    return values;
}

} // namespace refreshlab::test
