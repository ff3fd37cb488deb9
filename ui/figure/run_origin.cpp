#include "ui/figure/run_origin.h"

#include "engine/control/derive/derive_spec.h"

#include <nlohmann/json.hpp>

namespace refreshlab::ui {

nlohmann::json run_origin(const Recording& recording) {
    const RunInfo& info = recording.info();
    const auto or_null = [](const std::string& s) {
        return s.empty() ? nlohmann::json() : nlohmann::json(s);
    };
    nlohmann::json versions = nlohmann::json::object();
    for (const auto& [name, version] : info.versions)
        versions[name] = version;
    // The configuration at the start; what was changed since stands in the command log.
    nlohmann::json commands = nlohmann::json::array();
    const auto& log = recording.commands();
    for (size_t i = 0, n = log.size(); i < n; ++i)
        commands.push_back(
            {{"step", log[i].step}, {"command", nlohmann::json::parse(log[i].json, nullptr, false)}});
    const RunConfig& config = info.config;
    return {{"id", info.id},
            {"parent", or_null(info.parent_id)},
            {"fork_step", info.fork_step},
            {"steps", recording.steps()},
            {"seed", config.seed},
            {"mode", to_string(config.mode)},
            {"policy", policy_to_json(config.policy)},
            {"teacher", or_null(config.teacher_dir.empty() ? "" : shown_model(config.teacher_dir))},
            {"student", or_null(config.student_dir.empty() ? "" : shown_model(config.student_dir))},
            {"device", info.device},
            {"dtype", info.dtype},
            {"prompt", config.prompt},
            {"started_at", info.started_at},
            {"versions", versions},
            {"commands", commands}};
}

} // namespace refreshlab::ui
