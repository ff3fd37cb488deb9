#pragma once

#include "engine/refresh/policy.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::testing {

/// The refresh rules of reference/refresh.md, section 5, written a second time: a whole run in one loop that keeps the
/// watermarks S.len, T.len and P as the reference does, instead of one boundary at a time from derived counts. Slow and
/// plain on purpose; shares no code with engine/refresh/planner.cpp.
struct NaiveRun {
    struct Event {
        int64_t step = 0; ///< at which it fired; its splice lands policy.lag later
        bool automatic = false, manual = false;
        std::vector<std::string> held; ///< signals of the triggers that held, in policy order
        friend bool operator==(const Event&, const Event&) = default;
    };
    std::vector<Event> refreshes;
    std::vector<int64_t> passes;  ///< boundaries with a teacher pass (probe or refresh)
    std::vector<int64_t> blocked; ///< boundaries at which only the budget stood in the way
};

/// What a trace offers: values[signal index][t - 1]; kl is there at every step, but only a pass may look at it.
struct NaiveTrace {
    int64_t steps = 0;
    std::vector<std::string> names;
    std::vector<std::vector<float>> values;
    std::vector<bool> manual; ///< [t - 1]

    [[nodiscard]] std::optional<float> at(const std::string& name, int64_t t) const {
        for (size_t i = 0; i < names.size(); ++i) {
            if (names[i] == name) return values[i][static_cast<size_t>(t - 1)];
        }
        return std::nullopt;
    }
};

/// Mean KL of steps first .. last, NaN if there is none of one.
[[nodiscard]] float naive_mean_kl(const NaiveTrace& trace, int64_t first, int64_t last);

[[nodiscard]] NaiveRun naive_run(const RefreshPolicy& policy, const NaiveTrace& trace);

} // namespace refreshlab::testing
