#include "engine/record/runs/rebuild.h"

#include "engine/base/check.h"
#include "engine/base/json_file.h"

#include <nlohmann/json.hpp>

namespace refreshlab {

int64_t newest_reached(const Recording& recording) {
    const int64_t steps = recording.steps();
    return steps > 0 && !recording.step(steps).fed ? steps - 1 : steps;
}

command::RecordedRun rebuild_of(const Recording& recording, int64_t steps) {
    RL_ASSERT(steps >= 0 && steps <= newest_reached(recording));
    const RunInfo& info = recording.info();
    command::RecordedRun rebuild;
    rebuild.run_id = info.id;
    rebuild.config = info.config;
    rebuild.rendered_prompt = info.rendered_prompt;
    rebuild.prompt_ids = info.prompt_ids;
    rebuild.kernel_set = info.kernel_set;
    rebuild.steps = steps;
    const bool to_its_end = steps == recording.steps();
    const auto& log = recording.commands();
    for (size_t i = 0, n = log.size(); i < n; ++i) {
        if (log[i].step > steps + (to_its_end ? 1 : 0)) continue;
        const std::string what = "a recorded command";
        rebuild.commands.push_back({log[i].step, command_from_json(parse_json(log[i].json, what), what)});
    }
    for (int64_t y = 1; y <= steps + 1; ++y)
        rebuild.tokens.push_back(recording.token(y));
    return rebuild;
}

std::string why_at_its_end(const Recording& recording) {
    const auto end = recording.end();
    if (!end || end->stop_reason == "cancelled" || end->stop_reason == "failed") return {};
    return "It has come to its end: branch at an earlier step";
}

} // namespace refreshlab
